"""The root file system that every sandbox of a manager shares: a read-only view of the interpreter.

It holds the system's programs and libraries, the interpreter's own, a few device nodes, an ``/etc`` of two
lines, and nothing else: no home, no site-packages (an environment's expected values may be installed there).
Each run gets its own ``/proc`` and its own sized tmpfs at ``/box`` on top.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterable

from . import kernel
from .kernel import BIND, NODEV, NOEXEC, NOSUID, PRIVATE, RDONLY, REC, REMOUNT

__all__ = ["STAGE", "answers", "build", "enter", "packages", "shown"]

_SCRATCH = "/tmp"
STAGE = _SCRATCH + "/root"
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "nix/store")
_SYSTEM_ROOTS = ("/usr", "/bin", "/lib", "/lib64")
#: What a run has of its own, so that nothing of the host can be shown there.
_RUNS_OWN = ("/tmp", "/box", "/proc", "/dev", "/answer")
#: All of ``/etc``: how ``localhost`` is found.
_ETC = {
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "hosts: files\n",
}
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
_PACKAGES = ("site-packages", "dist-packages")


def build(prefix: str, hidden: list[str], privileged: bool) -> None:
    """Make the root at ``STAGE`` in the calling process's own mount namespace.

    Args:
        prefix: The interpreter's base prefix, bound where it stands if it isn't below ``/usr``.
        hidden: Directories that must not be seen even where they lie below something bound.
        privileged: Whether device nodes can be made; otherwise the host's are bound.

    Raises:
        OSError: a mount was refused; the text names it.
    """
    kernel.mount("none", "/", None, REC | PRIVATE)
    _refuse_runs_own(prefix)
    sources = {name: os.open("/" + name, os.O_PATH) for name in shown(prefix)}
    links = {name: os.readlink("/" + name) for name in _SYSTEM if os.path.islink("/" + name)}
    devices = {} if privileged else {name: os.open("/dev/" + name, os.O_PATH) for name in _DEVICES}
    kernel.mount("tmpfs", _SCRATCH, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    for place in (_SCRATCH + "/empty", _SCRATCH + "/answers", STAGE):
        os.mkdir(place)
    for name in ("box", "proc", "dev", "answer"):
        os.mkdir(os.path.join(STAGE, name))
    os.symlink("box/tmp", STAGE + "/tmp")
    os.mkdir(STAGE + "/etc")
    for name, text in _ETC.items():
        with open(os.path.join(STAGE, "etc", name), "w") as file:
            file.write(text)
    for name, fd in sources.items():
        target = os.path.join(STAGE, name)
        if name in links:
            os.symlink(links[name], target)
        else:
            os.makedirs(target)
            kernel.bind("/proc/self/fd/%d" % fd, target)
        os.close(fd)
    _hide(hidden, sources)
    _make_devices(devices, privileged)


def shown(prefix: str) -> list[str]:
    """Directories, without the leading slash, that a sandbox can read: the system's and the interpreter's."""
    found = [name for name in _SYSTEM if os.path.isdir("/" + name)]
    for base in sorted({os.path.abspath(prefix), os.path.realpath(prefix)}):
        for name in ("bin", "lib", "lib64"):
            path = os.path.join(base, name)
            if os.path.isdir(path) and not _is_below(os.path.realpath(path), _SYSTEM_ROOTS):
                found.append(path.lstrip("/"))
    return found


def packages(roots: Iterable[str]) -> set[str]:
    """Directories of installed packages below ``roots``."""
    depths = ("", "*/", "*/*/", "*/*/*/")
    return {
        path
        for root in roots
        for name in _PACKAGES
        for depth in depths
        for path in glob.glob(os.path.join(root, depth + name))
    }


def _refuse_runs_own(prefix: str) -> None:
    for base in (os.path.abspath(prefix), os.path.realpath(prefix)):
        if _is_below(base, _RUNS_OWN):
            raise ValueError(
                "the interpreter stands in %s, a place that every run has for itself; use one that is "
                "installed elsewhere" % base
            )


def _is_below(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _hide(hidden: list[str], sources: Iterable[str]) -> None:
    """Cover packages that are installed in what was bound, and what the caller wants hidden."""
    roots = [os.path.join(STAGE, name) for name in sources if not os.path.islink(os.path.join(STAGE, name))]
    targets = packages(roots)
    targets.update(STAGE + path for path in hidden if _is_below(STAGE + path, roots))
    for target in sorted(targets):
        if os.path.isdir(target) and not os.path.islink(target):
            kernel.bind(_SCRATCH + "/empty", target)
        elif os.path.isfile(target):
            kernel.bind("/dev/null", target)


def _make_devices(devices: dict[str, int], privileged: bool) -> None:
    dev = STAGE + "/dev"
    if privileged:
        kernel.mount("tmpfs", dev, "tmpfs", NOSUID | NOEXEC, "size=64k,mode=755")
    for name, minor in _DEVICES.items():
        if privileged:
            os.mknod(dev + "/" + name, 0o20666, os.makedev(1, minor))
            os.chmod(dev + "/" + name, 0o666)
        else:
            open(dev + "/" + name, "w").close()
            kernel.mount("/proc/self/fd/%d" % devices[name], dev + "/" + name, None, BIND)
            os.close(devices[name])
    os.symlink("/box/tmp", dev + "/shm")
    os.symlink("/proc/self/fd", dev + "/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink("/proc/self/fd/%d" % number, dev + "/" + name)
    if privileged:
        kernel.mount("none", dev, None, REMOUNT | BIND | NOSUID | NOEXEC | RDONLY)


def answers(slot: int) -> int:
    """A small tmpfs that the supervisor writes answers into; returns a descriptor of it."""
    place = "%s/answers/%s" % (_SCRATCH, slot)
    os.makedirs(place, exist_ok=True)
    # Of the slot's verifier before this one, with the last answer in it; there may have been none.
    kernel.libc.umount2(place.encode(), kernel.MNT_DETACH)
    kernel.mount("tmpfs", place, "tmpfs", NOSUID | NODEV | NOEXEC, "size=32m,nr_inodes=64,mode=755")
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def enter(answer_of: int | None = None) -> None:
    """Make ``STAGE`` the root of the calling process's new mount namespace, for good."""
    kernel.mount(STAGE, STAGE, None, BIND | REC)
    kernel.mount("proc", STAGE + "/proc", "proc", NOSUID | NODEV | NOEXEC)
    if answer_of is not None:
        place = "%s/answers/%s" % (_SCRATCH, answer_of)
        kernel.mount(place, STAGE + "/answer", None, BIND)
        kernel.mount("none", STAGE + "/answer", None, BIND | REMOUNT | RDONLY | NOSUID | NODEV | NOEXEC)
    os.chdir(STAGE)
    kernel.mount("none", STAGE, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)
    kernel.pivot_root(".", ".")
    kernel.check(kernel.libc.umount2(b".", kernel.MNT_DETACH), "umount the old root")
    os.chdir("/")
    if not os.path.exists(os.__file__):
        # Every answer that imports from it would be blamed for what we failed to show.
        raise OSError(errno.ENOENT, "the interpreter's library isn't visible in the sandbox", os.__file__)
