"""Zygotes: warm interpreters that fork one child per run.

A zygote is cloned from the manager, ``Setting`` says into what: namespaces of its own, or beside everybody
else's processes. It runs one child at a time. Nothing that a run may not see passes through here: a zygote
hands descriptors on, and the answer's text goes over the run's own channel. A zygote ends with its manager.
"""

from __future__ import annotations

import array
import ctypes
import os
import random
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

from . import kernel, solution_host, verifier_host
from .host import CHANNEL, exit_status, print_exception
from .wire import decode

__all__ = ["STATUS", "Server", "Serving", "Setting", "clone", "live"]

#: What a zygote says of an ended run: wait status, peak KiB, user and system CPU microseconds.
STATUS = struct.Struct("<iqqq")
_RESERVED = 16


class Serving:
    """What a process that the manager cloned does until it ends."""

    def serve(self) -> NoReturn:
        """To the end of the process."""
        raise NotImplementedError


class Setting:
    """Where the zygotes of a manager stand, and what walls their runs have. One per manager."""

    #: Namespaces that a zygote is cloned into.
    namespaces = 0

    def prepare(self, config: dict[str, Any]) -> None:
        """In the manager, once. Raises ``OSError`` where this host refuses a step."""
        raise NotImplementedError

    def answers(self, slot: int) -> int:
        """In the manager: a descriptor of the directory that a slot's verifier finds answers in."""
        raise NotImplementedError

    def settle_in(self, pid: int, request: dict[str, Any]) -> None:
        """In the manager: what a new zygote can't do itself."""

    def enter(self, request: dict[str, Any]) -> str:
        """In a new zygote: go where runs are forked; the path at which a verifier finds the answer."""
        raise NotImplementedError

    def server(self, control: socket.socket, null: int, request: dict[str, Any]) -> Serving:
        """In a new zygote: its loop."""
        raise NotImplementedError

    def leave(self) -> None:
        """In the manager, when all zygotes are gone."""


def clone(arguments: tuple[Any, ...]) -> int:
    """A raw ``clone(2)`` that leaves the interpreter sound on both sides, like ``os.fork``.

    Returns the child's pid, 0 in the child, a negative errno on failure.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = kernel.libc.syscall(*arguments)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid if pid > 0 else -number


def live(fd: int, ready: int, place: int | None, setting: Setting, request: dict[str, Any]) -> NoReturn:
    """A new zygote's life.

    ``fd`` is its control socket, ``ready`` says that the manager has done its part, ``place`` is where a
    verifier's answers go.
    """
    control = socket.socket(fileno=fd)
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.read(ready, 1) != b"x":
            os._exit(0)
        os.close(ready)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request.get("cpu") is not None:
            os.sched_setaffinity(0, {request["cpu"]})
        answer = setting.enter(request)
        if place is not None:
            os.environ.update(DEEPGYM_REPORT=str(CHANNEL), DEEPGYM_SOLUTION=answer)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.drop_bounding_set()
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(null, 2)
        server = setting.server(control, null, request)
        rights = array.array("i", [] if place is None else [place])
        control.sendmsg([b"ready"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else [])
        if place is not None:
            os.close(place)
    except BaseException as error:
        control.send(kernel.complaint(error))
        os._exit(1)
    server.serve()


class Server(Serving):
    """A zygote's loop: receive descriptors, start one child, wait or kill, say how it ended.

    What is beside the child (namespaces, a directory) is for those who implement ``start``, ``kill`` and
    ``clear``.
    """

    def __init__(self, control: socket.socket, verifier: bool, null: int) -> None:
        self.control, self.verifier, self.null = control, verifier, null
        self.plans: dict[bytes, Any] = {}
        while os.dup(null) < _RESERVED:
            pass
        self.watch = select.poll()
        self.watch.register(control, select.POLLIN)
        self.seed = b""
        # A run's first process must sleep on; a child unblocks.
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))

    def plan(self, spec: dict[str, Any]) -> Any:
        """How a child with these limits gives up what it has."""
        raise NotImplementedError

    def start(self, plan: Any, fds: tuple[int, ...]) -> int:
        """Start the child: its pid, 0 in the child, a negative errno on failure."""
        raise NotImplementedError

    def kill(self, pid: int) -> None:
        """End the child and all that it started."""
        raise NotImplementedError

    def clear(self) -> None:
        """The child has ended: end all that it started."""
        raise NotImplementedError

    def serve(self) -> NoReturn:
        """Runs until the supervisor's end of the control socket is closed."""
        control, space = self.control, socket.CMSG_SPACE(16)
        while True:
            message, ancillary, _, _ = control.recvmsg(1 << 16, space)
            if not message:
                os._exit(0)
            if message == b"K":
                continue
            data = ancillary[0][2]
            fds = struct.unpack("%di" % (len(data) // 4), data)
            try:
                reply = self.run(message, fds)
            except OSError as error:
                # Longer than a status, whose first byte can be any: the two are told apart by length.
                reply = b"!" + str(error).encode()[:4000].ljust(STATUS.size)
            control.send(reply)

    def run(self, message: bytes, fds: tuple[int, ...]) -> bytes:
        """One run from its start to its end. Raises ``OSError`` if it couldn't be started."""
        seed, message = message[:8], message[8:]
        if seed != self.seed:
            self.seed = seed
            random.seed(int.from_bytes(seed, "little"))
        plan = self.plans.get(message)
        if plan is None:
            if len(self.plans) > 64:
                self.plans.clear()
            plan = self.plans[message] = self.plan(decode(message))
        pid = 0
        try:
            pid = self.start(plan, fds)
            if pid == 0:
                self._child(plan, fds)
        finally:
            for fd in fds:
                os.close(fd)
        if pid < 0:
            raise OSError(-pid, "clone: " + os.strerror(-pid))
        self._wait(pid)
        _, status, usage = os.wait4(pid, 0)
        self.clear()
        return STATUS.pack(status, usage.ru_maxrss, int(usage.ru_utime * 1e6), int(usage.ru_stime * 1e6))

    def _wait(self, pid: int) -> None:
        ended = os.pidfd_open(pid)
        self.watch.register(ended, select.POLLIN)
        try:
            while all(fd != ended for fd, _ in self.watch.poll()):
                order = self.control.recv(1)
                if order in (b"K", b""):
                    self.kill(pid)
                if not order:
                    os._exit(0)
        finally:
            self.watch.unregister(ended)
            os.close(ended)

    def _child(self, plan: Any, fds: tuple[int, ...]) -> NoReturn:
        status = 1
        try:
            plan.enter(self.null, fds)
        except BaseException as error:
            _complain(fds[0], b"!" + ("%s: %s" % (type(error).__name__, error)).encode()[:2000])
        try:
            if plan.argv:
                os.execvpe(plan.argv[0], plan.argv, dict(os.environ))
            elif self.verifier:
                verifier_host.main(plan.head, int.from_bytes(self.seed, "little"))
            else:
                solution_host.main(plan.head, len(fds) > 3)
            status = 0
        except SystemExit as stop:
            status = exit_status(stop)
        except BaseException:
            print_exception()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                pass
            os._exit(status & 255)


def _complain(channel: int, text: bytes) -> NoReturn:
    """Tell the supervisor, over whichever descriptor the channel has by now, and end."""
    try:
        for fd in (channel, CHANNEL):
            try:
                os.write(fd, text)
                break
            except OSError:
                continue
    finally:
        os._exit(99)
