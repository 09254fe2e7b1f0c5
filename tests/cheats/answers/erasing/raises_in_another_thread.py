"""Leaves a thread that throws exceptions into the main one."""
# shape: function
# masks on: masks_record
import ctypes
import threading
import time

main = threading.get_ident()


def throw():
    while True:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(KeyboardInterrupt))
        time.sleep(0)


threading.Thread(target=throw, daemon=True).start()


def ENTRY(*args, **kwargs):
    time.sleep(0.05)
