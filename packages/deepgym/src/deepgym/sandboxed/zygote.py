"""Zygotes: warm interpreters that fork one isolated child per run.

Each is pid 1 of its own user, pid, mount, network, ipc, uts and cgroup namespaces, in a root of its own.
It runs one child at a time:

    a placeholder that is pid 1 of the run's pid namespace (killing it ends everything in the run)
    the child itself, in fresh mount, ipc and network namespaces, on a sized tmpfs, without privileges

Nothing that a run may not see passes through here: a zygote hands descriptors on, and the answer's
text goes over the run's own channel. A zygote ends with its manager.
"""

from __future__ import annotations

import array
import ctypes
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

from . import kernel, limits, root, solution_host, verifier_host
from .host import CHANNEL, exit_status, print_exception
from .proxy import ANSWER
from .warm import settle
from .wire import decode

__all__ = ["NAMESPACES", "STATUS", "Server", "clone", "live"]

#: What a zygote says of an ended run: wait status, peak KiB, user and system CPU microseconds.
STATUS = struct.Struct("<iqqq")
#: What a zygote is cloned with: every namespace there is but one, time.
NAMESPACES = kernel.NEWUSER | kernel.NEWPID | kernel.NEWNS | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
NAMESPACES |= kernel.NEWCGROUP
_RESERVED = 16


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


def live(fd: int, ready: int, place: int | None, request: dict[str, Any], privileged: bool) -> NoReturn:
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
        if privileged:
            os.setresgid(0, 0, 0)
            os.setgroups([])
            os.setresuid(0, 0, 0)
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request.get("cpu") is not None:
            os.sched_setaffinity(0, {request["cpu"]})
        root.enter(None if place is None else request["slot"])
        if place is not None:
            os.environ.update(DEEPGYM_REPORT=str(CHANNEL), DEEPGYM_SOLUTION=ANSWER)
        socket.sethostname("sandbox")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.drop_bounding_set()
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(null, 2)
        server = Server(control, place is not None, privileged, null)
        rights = array.array("i", [] if place is None else [place])
        control.sendmsg([b"ready"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else [])
        if place is not None:
            os.close(place)
    except BaseException as error:
        control.send(b"!" + ("%s: %s" % (type(error).__name__, error)).encode()[:4000])
        os._exit(1)
    server.serve()


class Server:
    """A zygote's loop: receive descriptors, start one child, wait or kill, say how it ended."""

    def __init__(self, control: socket.socket, verifier: bool, privileged: bool, null: int) -> None:
        self.control, self.verifier, self.null = control, verifier, null
        self.privileged = privileged
        self.plans: dict[bytes, limits.Plan] = {}
        while os.dup(null) < _RESERVED:
            pass
        self.pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        # Private: what a run writes there must reach neither its first process nor a later run.
        self.stack = mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.top = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.stack)) + 65536 - 64)
        self.pause = ctypes.cast(kernel.libc.pause, ctypes.c_void_p)
        # A verifier is trusted code without sockets: it stays in its zygote's own empty network namespace.
        self.child = kernel.clone_arguments(kernel.NEWNS | kernel.NEWIPC | (0 if verifier else kernel.NEWNET))
        self.watch = select.poll()
        self.watch.register(control, select.POLLIN)
        self.seed = b""
        # A run's first process must sleep on; a child unblocks.
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        settle()

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
            plan = self.plans[message] = limits.Plan(decode(message), self.privileged)
        kernel.check(kernel.libc.unshare(kernel.NEWPID), "unshare pid namespace")
        first = pid = 0
        try:
            first = self._placeholder()
            pid = clone(self.child)
            if pid == 0:
                self._child(plan, fds)
        finally:
            kernel.check(kernel.libc.setns(self.pids, kernel.NEWPID), "setns back")
            for fd in fds:
                os.close(fd)
        if pid < 0:
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            raise OSError(-pid, "clone: " + os.strerror(-pid))
        self._wait(pid, first)
        _, status, usage = os.wait4(pid, 0)
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        return STATUS.pack(status, usage.ru_maxrss, int(usage.ru_utime * 1e6), int(usage.ru_stime * 1e6))

    def _placeholder(self) -> int:
        """The run's pid 1: sleeps in libc's ``pause`` on a stack of its own, every signal blocked."""
        pid = kernel.libc.clone(self.pause, self.top, ctypes.c_int(kernel.CLONE_VM | 17), None)
        return kernel.check(pid, "clone of the run's first process")

    def _wait(self, pid: int, first: int) -> None:
        ended = os.pidfd_open(pid)
        self.watch.register(ended, select.POLLIN)
        try:
            while all(fd != ended for fd, _ in self.watch.poll()):
                order = self.control.recv(1)
                if order in (b"K", b""):
                    os.kill(pid, signal.SIGKILL)
                    os.kill(first, signal.SIGKILL)
                if not order:
                    os._exit(0)
        finally:
            self.watch.unregister(ended)
            os.close(ended)

    def _child(self, plan: limits.Plan, fds: tuple[int, ...]) -> NoReturn:
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
