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
import marshal
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys

from . import kernel, limits, root, solution_host, verifier_host
from .wire import decode, frame

__all__ = ["STATUS", "main"]

#: What a zygote says of an ended run: wait status, peak KiB, user and system CPU microseconds.
STATUS = struct.Struct("<iqqq")
_RESERVED = 16
_PRELOAD = (
    "bisect collections copy dataclasses enum functools heapq io itertools json linecache math operator random re "
    "string time traceback types typing"
).split()


def main(fd, register_at_fork):
    """The manager's life. ``fd``: a SEQPACKET socket whose other end the supervisor holds.

    Until here ``os.register_at_fork`` was out of order, so that no module's hook runs in every child:
    ``random`` is seeded per run instead.
    """
    control = socket.socket(fileno=fd)
    groups = set()
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
        os.register_at_fork = register_at_fork
    except BaseException as error:
        control.send(b"!" + ("%s: %s" % (type(error).__name__, error)).encode()[:4000])
        os._exit(1)
    control.send(b"ready")
    watch = select.poll()
    watch.register(control, select.POLLIN)
    watch.register(parent, select.POLLIN)
    while True:
        for ready, _ in watch.poll():
            if ready == parent or not _request(control, privileged, parent, groups):
                _leave(groups)


def _leave(groups):
    """End every zygote, wait for them, and remove the control groups they stood in."""
    with open("/proc/self/task/%d/children" % os.getpid()) as children:
        for pid in children.read().split():
            os.kill(int(pid), signal.SIGKILL)
    try:
        os.wait()  # SIGCHLD is ignored, so this returns (by an error) when all are gone
    except ChildProcessError:
        pass
    for group in groups:
        try:
            os.rmdir(group)
        except OSError:
            pass
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
    """Pay for lazy initialisation once, before anything is forked."""
    for name in _PRELOAD:
        __import__(name)
    left, right = socket.socketpair()
    keep = dict(sys.modules)
    _warm_verifier()
    for _ in range(_WARM_ROUNDS):
        left.send(frame(_WARM) + b'{"id":1,"a":[[1,2],3]}\n{"id":2,"a":[[],{"!t":[1]}]}\n')
        left.shutdown(socket.SHUT_WR)
        solution_host.answer(right.fileno(), right.fileno(), {"entry": "f"}, False)
        left.close()
        right.close()
        left, right = socket.socketpair()
    left.close()
    right.close()
    for name in set(sys.modules) - set(keep):
        del sys.modules[name]
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepgym"]:
        del sys.modules[name]
    sys.argv[:] = [""]
    sys.path[:] = [entry for entry in sys.path if entry]
    settle()


def _warm_verifier():
    """A whole verifier's run against canned replies, as often."""
    code = marshal.dumps(compile(_WARM_VERIFIER, "verify.py", "exec"))
    left, right = socket.socketpair()
    for _ in range(_WARM_ROUNDS):
        solution = verifier_host.Solution(left.fileno())
        right.send(b'{"id":1,"v":[1,2]}\n')
        verifier_host.verify(code, solution, verifier_host.Reporter(left.fileno()), 0)
        right.recv(65536)
    left.close()
    right.close()


_WARM_VERIFIER = """
from deepgym_verify import SolutionError

def verify(solution):
    f = solution.function("f")
    assert f([1, 2], "x") == [1, 2], "never"
"""


def settle():
    """Leave no half-used memory behind: a child then allocates on fresh pages instead of copying shared ones.

    Uses up the free blocks of partly used pools (16 KiB with a 48-byte header in CPython 3.10 to 3.13;
    elsewhere this only wastes a little memory).
    """
    gc.collect()
    gc.freeze()
    allocate, free = ctypes.pythonapi.PyObject_Malloc, ctypes.pythonapi.PyObject_Free
    allocate.restype, allocate.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_size_t]
    for size in range(512, 15, -16):
        for _ in range(4000):
            block = allocate(size)
            if block & 0x3FFF == 48:
                free(block)
                break


#: Enough that the interpreter has specialised the code that every run executes.
_WARM_ROUNDS = 40
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


def _request(control, privileged, parent, groups):
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
            groups.add(os.path.dirname(path))
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
        if place is not None:
            os.environ.update(DEEPGYM_REPORT=str(solution_host.CHANNEL), DEEPGYM_SOLUTION=verifier_host.ANSWER)
        socket.sethostname("sandbox")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.drop_bounding_set()
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
        # A verifier is trusted code without sockets: it stays in its zygote's own empty network namespace.
        self.child = kernel.clone_arguments(kernel.NEWNS | kernel.NEWIPC | (0 if verifier else kernel.NEWNET))
        self.watch = select.poll()
        self.watch.register(control, select.POLLIN)
        self.seed = None
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))  # the run's first process must sleep on; a child unblocks
        settle()

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

    def _placeholder(self):
        """pid 1 of the run: sleeps in libc's ``pause`` on a stack of its own, every signal blocked."""
        pid = kernel.libc.clone(self.pause, self.top, ctypes.c_int(kernel.CLONE_VM | 17), None)
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


def _complain(channel, text):
    """Tell the supervisor, over whichever descriptor the channel has by now, and end."""
    try:
        for fd in (channel, solution_host.CHANNEL):
            try:
                os.write(fd, text)
                break
            except OSError:
                continue
    finally:
        os._exit(99)


def _print_exception():
    """The traceback as the interpreter would print it, without the host's own frames."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename != "solution.py":
        trace = trace.tb_next
    try:
        sys.excepthook(kind, error.with_traceback(trace), trace)
    except BaseException:
        pass
