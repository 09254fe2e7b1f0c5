"""The manager: the warm interpreter that zygotes are cloned from.

It is exec'd clean by the supervisor (it is never a fork of the trainer), loads the standard library once
and, on request, clones zygotes. It ends with its supervisor, the zygotes with it.
"""

from __future__ import annotations

import array
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Iterable, NoReturn

from . import kernel, root, zygote
from .warm import warm
from .wire import decode

__all__ = ["main"]


def main(fd: int, register_at_fork: Callable[..., None]) -> NoReturn:
    """The manager's life. ``fd``: a SEQPACKET socket whose other end the supervisor holds.

    Until here ``os.register_at_fork`` was out of order, so that no module's hook runs in every child:
    ``random`` is seeded per run instead.
    """
    control = socket.socket(fileno=fd)
    groups: set[str] = set()
    parent = os.pidfd_open(os.getppid())
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        config = decode(control.recv(1 << 16))
        warm()  # first: the interpreter may stand in a place that the new root's scratch covers
        os.register_at_fork = register_at_fork
        privileged = os.geteuid() == 0
        _isolate(privileged)
        root.build(config["prefix"], config["hidden"], privileged)
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


def _leave(groups: Iterable[str]) -> NoReturn:
    """End every zygote, wait for them, and remove the control groups they stood in."""
    with open("/proc/self/task/%d/children" % os.getpid()) as children:
        for pid in children.read().split():
            os.kill(int(pid), signal.SIGKILL)
    try:
        os.wait()  # SIGCHLD is ignored, so this returns (by an error) when all are gone
    except ChildProcessError:
        pass
    for group in groups:
        _remove(group)
    os._exit(0)


def _remove(group: str) -> None:
    """Remove a control group; the kernel lets go of its dead a moment after they are gone."""
    for _ in range(400):
        try:
            return os.rmdir(group)
        except FileNotFoundError:
            return None
        except OSError:
            time.sleep(0.025)


def _isolate(privileged: bool) -> None:
    if privileged:
        kernel.check(kernel.libc.unshare(kernel.NEWNS), "unshare mount namespace")
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.check(kernel.libc.unshare(kernel.NEWUSER | kernel.NEWNS), "unshare user namespace")
    _map_ids("self", "0 %d 1" % uid, "0 %d 1" % gid, True)


def _map_ids(process: str, uids: str, gids: str, deny_groups: bool) -> None:
    for name, text in (("setgroups", "deny" if deny_groups else None), ("uid_map", uids), ("gid_map", gids)):
        if text is not None:
            with open("/proc/%s/%s" % (process, name), "w") as target:
                target.write(text)


def _request(control: socket.socket, privileged: bool, parent: int, groups: set[str]) -> bool:
    """Clone one zygote, as asked. ``False`` when the supervisor is gone."""
    size = array.array("i").itemsize
    message, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(size))
    if not message:
        return False
    request: dict[str, Any] = decode(message)
    fd = array.array("i", ancillary[0][2][:size])[0]
    place = root.answers(request["slot"]) if request["role"] == "verifier" else None
    ready, go = os.pipe()
    pid = zygote.clone(kernel.clone_arguments(zygote.NAMESPACES))
    if pid == 0:
        for unused in (go, control.fileno(), parent):
            os.close(unused)
        zygote.live(fd, ready, place, request, privileged)
    os.close(ready)
    try:
        if pid < 0:
            raise OSError(-pid, "clone: " + os.strerror(-pid))
        _settle_in(pid, fd, request, privileged, groups)
        os.write(go, b"x")
    except OSError as error:
        socket.socket(fileno=os.dup(fd)).send(b"!" + str(error).encode()[:4000])
        if pid > 0:
            os.kill(pid, signal.SIGKILL)
    for used in (go, fd) if place is None else (go, fd, place):
        os.close(used)
    return True


def _settle_in(pid: int, fd: int, request: dict[str, Any], privileged: bool, groups: set[str]) -> None:
    """What a new zygote can't do itself: say its pid outside, join its control groups, map its ids."""
    span, base = ("65536", request["uid"]) if privileged else ("1", 0)
    socket.socket(fileno=os.dup(fd)).send(b"P%d" % pid)
    for path in request.get("cgroups", []):
        groups.add(os.path.dirname(path))
        with open(path, "w") as procs:
            procs.write(str(pid))
    ids = "0 %d %s" % (base, span)
    _map_ids(str(pid), ids, ids, not privileged)
