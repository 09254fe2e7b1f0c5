"""Adds an audit hook, which can't be taken away, that raises at every open."""
# shape: function
# masks on: masks_record
import sys


def hook(event, arguments):
    if event in ("open", "os.listdir", "subprocess.Popen"):
        raise OSError(28, "No space left on device")


sys.addaudithook(hook)


def ENTRY(*args, **kwargs):
    return None
