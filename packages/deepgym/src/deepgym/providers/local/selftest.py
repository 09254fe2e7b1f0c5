"""A tier's walls, attacked once before anything is run behind them."""

from __future__ import annotations

import json
import os
import select
import socket
import tempfile
import time

from deepgym.exceptions import SandboxError
from deepgym.sandboxed.wire import encode, frame

from .zygotes import Manager, Zygote

__all__ = ["broken"]

#: Far from every real slot's, so that its user ids are nobody else's.
_SLOT = 1000
_SECONDS = 30.0
_PLAN = {
    "memory": 256 << 20,
    "cpu": 10,
    "processes": 16,
    "open_files": 64,
    "file_size": 16 << 20,
    "disk": 32 << 20,
    "files": 512,
    "head": {"entry": "attempt"},
}
_ATTACKS = """
import ctypes, os, resource, signal, socket, time
libc = ctypes.CDLL(None, use_errno=True)
def works(action):
    try:
        return action() is not False
    except (OSError, MemoryError, ValueError):
        return False
def called(*arguments):
    return libc.syscall(*[ctypes.c_long(one) for one in arguments]) >= 0
def forks():
    for _ in range(600):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
def linger():
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # or the forks to come would leave no room for its own
    else:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        os._exit(0)
def attempt(file, parent):
    x86 = os.uname().machine == "x86_64"
    attacks = {
        "read a file of this user": lambda: open(file).close(),
        "wrote a file of this user": lambda: open(file, "a").close(),
        "truncated a file of this user": lambda: os.truncate(file, 0),
        "changed a file's mode": lambda: os.chmod(file, 0o777),
        "changed a file's times": lambda: os.utime(file),
        "removed a file of this user": lambda: os.unlink(file),
        "listed a folder of this user": lambda: os.listdir(os.path.dirname(file)),
        "signalled a foreign process": lambda: os.kill(parent, 0),
        "read a foreign process's environment": lambda: open("/proc/%d/environ" % parent).close(),
        "read a foreign process's memory": lambda: open("/proc/%d/mem" % parent).close(),
        "traced a foreign process": lambda: called(101 if x86 else 117, 0x4206, parent, 0, 0),
        "changed a foreign process's limits": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
        "moved a foreign process": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
        "opened an IP socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "opened a local socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "opened a netlink socket": lambda: socket.socket(16, socket.SOCK_RAW).close(),
        "made a namespace": lambda: called(272 if x86 else 97, 0x10000000),
        "took more memory than allowed": lambda: bytearray(1 << 30),
        "wrote a larger file than allowed": lambda: open("large", "wb").write(bytes(32 << 20)),
        "started more processes than allowed": forks,
    }
    linger()
    return [name for name, attack in attacks.items() if works(attack)]
"""


def broken(tier: str) -> str | None:
    """Which wall of ``tier`` doesn't hold here; ``None`` if all do. ``unsafe`` has none to try.

    Raises:
        SandboxError: it couldn't be set up, or the attacks couldn't be tried.
    """
    manager = Manager(tier)
    try:
        zygote = manager.zygote("solution", _SLOT, None, [])
        try:
            found = [] if tier == "unsafe" else _attacked(zygote)
        finally:
            zygote.close()
    finally:
        manager.close()
    return f"tried on this host, its walls don't hold: an answer {', '.join(found)}" if found else None


def _attacked(zygote: Zygote) -> list[str]:
    """The attacks that succeeded."""
    with tempfile.TemporaryDirectory(prefix="deepgym-selftest-") as folder:
        path = os.path.join(folder, "secret")
        with open(path, "w") as secret:
            secret.write("secret")
        # Open to everybody: what keeps an answer out must be the wall, not the file's mode.
        os.chmod(path, 0o666)
        os.chmod(folder, 0o777)
        request = {"id": 1, "a": [path, os.getpid()]}
        reply, ended = _run(zygote, frame(_ATTACKS.encode()) + encode(request) + b"\n")
    try:
        found = list(json.loads(reply)["v"])
    except (ValueError, KeyError, TypeError):
        raise SandboxError(f"the self-test of the sandbox gave no answer: {reply[:300]!r}") from None
    return found if ended else [*found, "left a process behind"]


def _run(zygote: Zygote, data: bytes) -> tuple[bytes, bool]:
    """The reply to the one request, and whether everything that held the run's output ended with it."""
    ours, theirs = socket.socketpair()
    out, into = os.pipe()
    with ours, open(out, "rb", buffering=0) as output:
        try:
            zygote.start(bytes(8) + encode(_PLAN), [theirs.fileno(), into, into])
        except OSError as error:
            raise SandboxError(f"the self-test of the sandbox can't be started: {error}") from error
        finally:
            theirs.close()
            os.close(into)
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        reply = b""
        deadline = time.monotonic() + _SECONDS
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            more = ours.recv(65536)
            reply += more
            if not more:
                break
        zygote.kill_run()
        gone = False
        while not gone and select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            gone = not output.read(65536)
    return reply[9:] if reply[:1] == b"S" else reply, gone
