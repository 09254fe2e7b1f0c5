"""What attacks aim at: a file, a socket and a process of this user that stand there for nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import deepgym

from .attacks import PLACES

__all__ = ["Bait"]

#: Sleeps until its input ends. Whoever may trace processes at all may trace it (Yama, where there is one).
_PROCESS = """
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
secret = ctypes.create_string_buffer(b"deepgym-doctor")
print(ctypes.addressof(secret), flush=True)
sys.stdin.read()
"""


class Bait:
    """A context. Nothing in it is of any use to anybody, and all of it is gone when it is left."""

    def __enter__(self) -> Bait:
        self.token = f"{secrets.randbits(28):07x}"
        with contextlib.ExitStack() as stack:
            self.folder = tempfile.mkdtemp(prefix="deepgym-doctor-")
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            # Open to everybody: what keeps an answer out must be a wall, not somebody's habit.
            os.chmod(self.folder, 0o777)
            self.listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            self.listener.bind(f"\0deepgym-doctor-{self.token}")
            self.listener.listen()
            self.process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROCESS],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={"DEEPGYM_DOCTOR": "bait"},
                    cwd="/",
                )
            )
            stack.callback(self.process.kill)
            assert self.process.stdout is not None
            self.address = int(self.process.stdout.readline())
            stack.callback(self._clear)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def constants(self) -> dict[str, object]:
        """What an attack knows of it. The file is put back first."""
        path = os.path.join(self.folder, "file")
        with open(path, "w", encoding="utf-8") as file:
            file.write("bait")
        os.chmod(path, 0o666)
        return {
            "FILE": path,
            "FOLDER": self.folder,
            "PACKAGE": os.path.abspath(deepgym.__file__),
            "PID": self.process.pid,
            "ADDRESS": self.address,
            "ABSTRACT": f"\0deepgym-doctor-{self.token}",
            "TOKEN": self.token,
            "PLACES": PLACES,
            "NAME": f"deepgym-doctor-{self.token}.json",
        }

    def left(self) -> list[int]:
        """Processes on this host that a run left behind."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == f"dg{self.token}":
                    found.append(int(name))
        return found

    def _clear(self) -> None:
        """Only a weak wall lets any of this get out."""
        for pid in self.left():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for place in PLACES[2:]:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, f"deepgym-doctor-{self.token}"))
        libc = ctypes.CDLL(None)
        shared = libc.shmget(int(self.token, 16), 0, 0)
        if shared >= 0:
            libc.shmctl(shared, 0, None)
