"""The manager: the warm interpreter that zygotes are cloned from.

It is exec'd clean by the supervisor (it is never a fork of the trainer), loads the standard library once
and, on request, clones zygotes. It ends with its supervisor, the zygotes with it.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Collection, NoReturn

from . import kernel, zygote
from .warm import warm
from .wire import decode
from .zygote import Setting

__all__ = ["main"]

#: ``PF_EXITING`` of the kernel's include/linux/sched.h, among the flags in /proc/PID/stat.
_EXITING = 0x4


def _setting(tier: str) -> Setting:
    """The setting of a tier. The other's code would be copied into every run for nothing."""
    if tier == "namespaces":
        from .namespaces import Namespaces

        return Namespaces()
    from .beside import Beside

    return Beside(walls=tier != "unsafe")


def main(fd: int, register_at_fork: Callable[..., None]) -> NoReturn:
    """The manager's life. ``fd``: a SEQPACKET socket whose other end the supervisor holds.

    Until here ``os.register_at_fork`` was out of order, so that no module's hook runs in every child:
    ``random`` is seeded per run instead.
    """
    control = socket.socket(fileno=fd)
    parent = os.pidfd_open(os.getppid())
    os.setsid()
    _forget_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        config = decode(control.recv(1 << 16))
        setting = _setting(config["tier"])
        warm()  # first: the interpreter may stand in a place that the new root's scratch covers
        os.register_at_fork = register_at_fork
        setting.prepare(config)
    except BaseException as error:
        control.send(kernel.complaint(error))
        os._exit(1)
    control.send(b"ready")
    Manager(control, parent, setting, config.get("groups", [])).serve()


def _forget_signals() -> None:
    """Signals as an interpreter has them that a terminal started, and for every answer the same: a shell's
    background jobs, and with them all that they start, ignore Ctrl-C, and what nohup starts ignores SIGHUP.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Manager:
    """Clones zygotes on request, and sees to what they leave."""

    def __init__(
        self, control: socket.socket, parent: int, setting: Setting, prefixes: Collection[str] = ()
    ) -> None:
        self.control, self.parent, self.setting = control, parent, setting
        self.prefixes = prefixes
        self.groups: set[str] = set()
        self.zygotes: dict[int, int] = {}
        self.watch = select.poll()
        self.watch.register(control, select.POLLIN)
        self.watch.register(parent, select.POLLIN)

    def serve(self) -> NoReturn:
        """Until the supervisor is gone."""
        while True:
            for ready, _ in self.watch.poll():
                if ready in self.zygotes:
                    self._bury(ready)
                elif ready == self.parent or not self._request():
                    self._leave()

    def _bury(self, ended: int) -> None:
        """A zygote ended: so must what it had forked, where no namespace sees to that."""
        self.watch.unregister(ended)
        os.close(ended)
        del self.zygotes[ended]
        _kill_children(self.zygotes.values())

    def _leave(self) -> NoReturn:
        """End every zygote, wait for them, and remove what they stood in; of a supervisor that is gone also
        the groups that it made and asked for nothing in yet.
        """
        _kill_children(())
        if self._is_orphaned():
            self.groups.update(path for prefix in self.prefixes for path in _beginning_with(prefix))
        for group in self.groups:
            _remove(group)
        self.setting.leave()
        os._exit(0)

    def _is_orphaned(self) -> bool:
        """Whether the supervisor is gone, or going: who is killed closes its files before it ends."""
        gone = select.poll()
        gone.register(self.parent, select.POLLIN)
        if gone.poll(0):
            return True
        try:
            with open("/proc/self/fdinfo/%d" % self.parent) as about:
                (pid,) = [line.split()[1] for line in about if line.startswith("Pid:")]
            with open("/proc/%s/stat" % pid) as stat:
                flags = int(stat.read().rpartition(")")[2].split()[6])
        except (OSError, ValueError, IndexError):
            return bool(gone.poll(0))
        return bool(flags & _EXITING)

    def _request(self) -> bool:
        """Clone one zygote, as asked. ``False`` when the supervisor is gone."""
        size = array.array("i").itemsize
        try:
            message, ancillary, _, _ = self.control.recvmsg(4096, socket.CMSG_SPACE(size))
        except OSError:
            return False
        if not message:
            return False
        request: dict[str, Any] = decode(message)
        self.groups.update(os.path.dirname(path) for path in request.get("cgroups", []))
        fd = array.array("i", ancillary[0][2][:size])[0]
        fds = [fd]
        pid = -1
        try:
            place = self.setting.answers(request["slot"]) if request["role"] == "verifier" else None
            if place is not None:
                fds.append(place)
            ready, go = os.pipe()
            fds += [ready, go]
            pid = zygote.clone(kernel.clone_arguments(self.setting.namespaces))
            if pid == 0:
                for unused in (go, self.control.fileno(), self.parent, *self.zygotes):
                    os.close(unused)
                zygote.live(fd, ready, place, self.setting, request)
            if pid < 0:
                raise OSError(-pid, "clone: " + os.strerror(-pid))
            self._settle_in(pid, fd, request)
            os.write(go, b"x")
        except OSError as error:
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):  # a supervisor that is gone hears nothing; its end comes next
                socket.socket(fileno=os.dup(fd)).send(kernel.complaint(error))
        for used in fds:
            os.close(used)
        return True

    def _settle_in(self, pid: int, fd: int, request: dict[str, Any]) -> None:
        """What a new zygote can't do itself: say its pid outside, join its control groups, map its ids."""
        ended = os.pidfd_open(pid)
        self.zygotes[ended] = pid
        self.watch.register(ended, select.POLLIN)
        socket.socket(fileno=os.dup(fd)).send(b"P%d" % pid)
        for path in request.get("cgroups", []):
            with open(path, "w") as procs:
                procs.write(str(pid))
        self.setting.settle_in(pid, request)


def _kill_children(spared: Collection[int]) -> None:
    """End all children but ``spared``, and what comes back to this process when they are gone."""
    while True:
        with open("/proc/self/task/%d/children" % os.getpid()) as children:
            doomed = [pid for pid in map(int, children.read().split()) if pid not in spared]
        if not doomed:
            return
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _beginning_with(prefix: str) -> list[str]:
    place, _, name = prefix.rpartition("/")
    try:
        return [place + "/" + found for found in os.listdir(place) if found.startswith(name)]
    except OSError:
        return []


def _remove(group: str) -> None:
    """Remove a control group; the kernel lets go of its dead a moment after they are gone."""
    for _ in range(400):
        try:
            return os.rmdir(group)
        except FileNotFoundError:
            return None
        except OSError:
            time.sleep(0.025)
