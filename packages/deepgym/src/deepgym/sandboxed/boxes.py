"""Directories of runs that have no file system of their own: made for one run each, then removed.

A box may have become anything: thousands of directories nested beyond any path's length, names that aren't
text, modes that shut its owner out. Its removal takes directories apart one level at a time and follows no
link. What can't be removed at once is left to a process in the background, so no next run waits for it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile

__all__ = ["Boxes", "remove", "state", "sweep"]

_PREFIX = "deepgym-boxes-"
_LOCK = "lock"


def state(base: str) -> tuple[str, int]:
    """A new directory for the boxes of one manager, and the descriptor whose lock says that it is in use."""
    path = tempfile.mkdtemp(prefix="%s%d-" % (_PREFIX, os.getuid()), dir=base)
    os.chmod(path, 0o711)
    lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return path, lock


def sweep(base: str) -> None:
    """Remove what managers left that were killed before they could. Never raises."""
    for name in os.listdir(base):
        if not name.startswith("%s%d-" % (_PREFIX, os.getuid())):
            continue
        path = os.path.join(base, name)
        if not _is_own(path):
            continue  # whoever made it could change it while it is taken apart
        try:
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody is making it, or removing it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
        except OSError:
            pass
        finally:
            os.close(lock)


def _is_own(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


class Boxes:
    """The boxes of one zygote, in ``folder``; each belongs to ``owner``, if it is given."""

    def __init__(self, folder: str, owner: int | None) -> None:
        self.folder, self.owner, self.count = folder, owner, 0
        os.mkdir(folder)
        os.chmod(folder, 0o711)

    def new(self) -> str:
        """A new, empty box with its ``tmp``."""
        self.count += 1
        box = "%s/%d" % (self.folder, self.count)
        for path in (box, box + "/tmp"):
            os.mkdir(path)
            os.chmod(path, 0o700)
            if self.owner is not None:
                os.chown(path, self.owner, self.owner)
        return box

    def emptied(self, box: str) -> bool:
        """Remove a box that holds no more than at its start; ``False`` if it holds more."""
        try:
            os.rmdir(box + "/tmp")
            os.rmdir(box)
        except OSError:
            return False
        return True


def remove(path: str) -> None:
    """Remove a directory, whatever became of it. Raises ``OSError`` if something can't be removed."""
    above, name = os.path.split(path)
    place = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        waiting, count = [name], 0
        while waiting:
            name = waiting.pop()
            found = _empty(place, name, "%s.%d" % (os.path.basename(path), count))
            count += 1 + len(found)
            waiting += found
    finally:
        os.close(place)


def _empty(place: int, name: str, prefix: str) -> list[str]:
    """Remove directory ``name``; the directories in it become ``place``'s own, under the names returned."""
    os.chmod(name, 0o700, dir_fd=place)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    moved: list[str] = []
    try:
        while True:
            entries = os.listdir(fd)
            if not entries:
                break
            for entry in entries:
                if not stat.S_ISDIR(os.stat(entry, dir_fd=fd, follow_symlinks=False).st_mode):
                    os.unlink(entry, dir_fd=fd)
                    continue
                os.chmod(entry, 0o700, dir_fd=fd)
                fresh = "%s.%d" % (prefix, len(moved))
                os.rename(entry, fresh, src_dir_fd=fd, dst_dir_fd=place)
                moved.append(fresh)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=place)
    return moved
