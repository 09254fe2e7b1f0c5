"""The manager and its zygotes: warm interpreters that fork one isolated child per run.

A manager is exec'd clean by the supervisor (it is never a fork of the trainer), loads the standard
library once and, on request, clones zygotes: each pid 1 of its own user, pid, mount, network, ipc, uts
and cgroup namespaces, in a root of its own. A zygote runs one child at a time:

    a placeholder that is pid 1 of the run's pid namespace (killing it ends everything in the run)
    the child itself, in fresh mount, ipc and network namespaces, on a sized tmpfs, without privileges

Nothing that a run may not see passes through here: a zygote hands descriptors on, and the answer's
text goes over the run's own channel. The manager ends with its supervisor, the zygotes with the manager.
"""

import array
import ctypes
import gc
import mmap
import os
import select
import signal
import socket
import struct
import sys

from . import kernel, limits, root, solution_host, verifier_host
from .wire import decode

__all__ = ["STATUS", "main"]

#: What a zygote says of an ended run: wait status, peak KiB, user and system CPU microseconds.
STATUS = struct.Struct("<iqqq")
_RESERVED = 16
_PRELOAD = (
    "abc array bisect calendar cmath collections collections.abc contextlib copy dataclasses datetime decimal enum "
    "fractions functools heapq io itertools json keyword linecache math numbers operator os.path random re "
    "statistics string struct textwrap time traceback types typing unicodedata zlib hashlib"
).split()


def main(fd):
    """The manager's life. ``fd``: a SEQPACKET socket whose other end the supervisor holds."""
    control = socket.socket(fileno=fd)
    parent = os.pidfd_open(os.getppid())
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        config = decode(control.recv(1 << 16))
        privileged = os.geteuid() == 0
        _isolate_manager(privileged)
        root.build(config["prefix"], config["hidden"], privileged)
        _warm()
    except BaseException as error:
        control.send(b"!" + ("%s: %s" % (type(error).__name__, error)).encode()[:4000])
        os._exit(1)
    control.send(b"ready")
    watch = select.poll()
    watch.register(control, select.POLLIN)
    watch.register(parent, select.POLLIN)
    while True:
        for ready, _ in watch.poll():
            if ready == parent or not _request(control, privileged, parent):
                os._exit(0)


def _isolate_manager(privileged):
    if privileged:
        kernel.check(kernel.libc.unshare(kernel.NEWNS), "unshare mount namespace")
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.check(kernel.libc.unshare(kernel.NEWUSER | kernel.NEWNS), "unshare user namespace")
    _map_ids("self", "0 %d 1" % uid, "0 %d 1" % gid, True)


def _map_ids(pid, uids, gids, deny_groups):
    for name, text in (("setgroups", "deny" if deny_groups else None), ("uid_map", uids), ("gid_map", gids)):
        if text is not None:
            with open("/proc/%s/%s" % (pid, name), "w") as target:
                target.write(text)


def _warm():
    """Pay for lazy initialisation once, before anything is forked.

    Modules that ask for at-fork hooks don't get them: each hook would run in every child. ``random`` is
    seeded per run instead.
    """
    register, os.register_at_fork = os.register_at_fork, lambda **hooks: None
    try:
        for name in _PRELOAD:
            __import__(name)
    finally:
        os.register_at_fork = register
    left, right = socket.socketpair()
    keep = dict(sys.modules)
    subject = solution_host._Module(_WARM, {"entry": "f", "seed": 0})
    for line in (b'{"id":1,"a":[[1,2],3]}', b'{"id":2,"a":[[],{"!t":[1]}]}'):
        left.send(subject.handle(decode(line)))
        decode(right.recv(4096)[:-1])
    left.close()
    right.close()
    solution_host.seed(0)
    for name in set(sys.modules) - set(keep):
        del sys.modules[name]
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepgym"]:
        del sys.modules[name]
    sys.argv[:] = [""]
    sys.path[:] = [entry for entry in sys.path if entry]
    gc.collect()
    gc.freeze()


_WARM = b'''
from typing import Dict, List
import math
class Point:
    def __init__(self, x: int = 1) -> None:
        self.x = x
def f(items: List[int], top):
    """Touches what most short programs touch."""
    best = [0] * 4; seen: Dict[int, str] = {}; text = ""
    for i in range(1, 4):
        for item in items:
            if item <= i and best[i - item] + 1 > best[i]:
                best[i] = min(best[i - item] + 1, 9) if item % 2 else -1
    while len(seen) < 3:
        seen[len(seen)] = "%d" % len(text); text += "x"
    try:
        order = sorted((k for k in seen), key=lambda k: -k)
        top + 1
    except (TypeError, ValueError) as error:
        order = [str(error)]
    return (best, seen, order, f"{text}", math.sqrt(4.0), Point().x, {1, 2}, True, None)
'''


def _request(control, privileged, parent):
    """Clone one zygote, as asked. ``False`` when the supervisor is gone."""
    size = array.array("i").itemsize
    message, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(size))
    if not message:
        return False
    request = decode(message)
    fd = array.array("i", ancillary[0][2][:size])[0]
    verifier = request["role"] == "verifier"
    place = root.answers(request["slot"]) if verifier else None
    ready, go = os.pipe()
    flags = kernel.NEWUSER | kernel.NEWPID | kernel.NEWNS | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
    pid = clone(kernel.clone_arguments(flags | 0x02000000))
    if pid == 0:
        for unused in (go, control.fileno(), parent):
            os.close(unused)
        _zygote(fd, ready, place, request, privileged)
    os.close(ready)
    try:
        if pid < 0:
            raise OSError(-pid, "clone: " + os.strerror(-pid))
        span, base = ("65536", request["uid"]) if privileged else ("1", 0)
        socket.socket(fileno=os.dup(fd)).send(b"P%d" % pid)
        for path in request.get("cgroups", []):
            with open(path, "w") as procs:
                procs.write(str(pid))
        _map_ids(pid, "0 %d %s" % (base, span), "0 %d %s" % (base, span), not privileged)
        os.write(go, b"x")
    except OSError as error:
        socket.socket(fileno=os.dup(fd)).send(b"!" + str(error).encode()[:4000])
        if pid > 0:
            os.kill(pid, signal.SIGKILL)
    for used in (go, fd) if place is None else (go, fd, place):
        os.close(used)
    return True


def clone(arguments):
    """A raw ``clone(2)`` that leaves the interpreter sound on both sides, like ``os.fork``.

    Returns the child's pid, 0 in the child, a negative errno on failure.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = kernel.libc.syscall(*arguments)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid if pid > 0 else -number


def _zygote(fd, ready, place, request, privileged):
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
        socket.sethostname("sandbox")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(null, 2)
        server = Server(control, place is not None, privileged, null)
        rights = [] if place is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [place]))]
        control.sendmsg([b"ready"], rights)
        if place is not None:
            os.close(place)
    except BaseException as error:
        control.send(b"!" + ("%s: %s" % (type(error).__name__, error)).encode()[:4000])
        os._exit(1)
    server.serve()


class Server:
    """A zygote's loop: receive descriptors, start one child, wait or kill, say how it ended."""

    def __init__(self, control, verifier, privileged, null):
        self.control, self.verifier, self.null = control, verifier, null
        self.privileged, self.plans = privileged, {}
        while os.dup(null) < _RESERVED:
            pass
        self.pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self.stack = mmap.mmap(-1, 65536)
        self.top = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.stack)) + 65536 - 64)
        self.pause = ctypes.cast(kernel.libc.pause, ctypes.c_void_p)
        self.child = kernel.clone_arguments(kernel.NEWNS | kernel.NEWIPC | kernel.NEWNET)
        self.watch = select.poll()
        self.watch.register(control, select.POLLIN)

    def serve(self):
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
                reply = b"!" + str(error).encode()[:4000]
            control.send(reply)

    def run(self, message, fds):
        """One run from its start to its end. Raises ``OSError`` if it couldn't be started."""
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

    def _placeholder(self):
        """pid 1 of the run: sleeps in libc's ``pause`` on a stack of its own, every signal blocked."""
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        pid = kernel.libc.clone(self.pause, self.top, ctypes.c_int(kernel.CLONE_VM | 17), None)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return kernel.check(pid, "clone of the run's first process")

    def _wait(self, pid, first):
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

    def _child(self, plan, fds):
        status = 1
        try:
            plan.enter(self.null, fds)
        except BaseException as error:
            os.write(fds[0], b"!" + ("%s: %s" % (type(error).__name__, error)).encode()[:2000])
            os._exit(99)
        try:
            if plan.argv:
                os.execvpe(plan.argv[0], plan.argv, dict(os.environ))
            elif self.verifier:
                verifier_host.main()
            else:
                solution_host.main(len(fds) > 3)
            status = 0
        except SystemExit as stop:
            status = solution_host.exit_status(stop)
        except BaseException:
            _print_exception()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                pass
            os._exit(status & 255)


def _print_exception():
    """The traceback as the interpreter would print it, without the host's own frames."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename != "solution.py":
        trace = trace.tb_next
    try:
        sys.excepthook(kind, error, trace)
    except BaseException:
        pass
