"""A directory tree as bytes: taken from a place that a policy owned, laid out where it can do no harm.

The tree is a row of entries, each a framed JSON list and, for a file, its content:

    ["path", "d"]    ["path", "f", executable, size] content    ["path", "l", target]    ["", "e", left_out]

Whatever stands in the place, taking it ends: links aren't followed, pipes, sockets and devices are left out,
and so is what would exceed the bounds. Links that lead out of the tree are dropped, so that whoever reads one
that was laid out reads what the policy wrote and nothing else.
"""

from __future__ import annotations

import os
import stat

from .wire import decode, encode, frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Tuple

    #: Path, kind (``f``, ``d`` or ``l``), executable, and a file's content or a link's target.
    Entry = Tuple[str, str, bool, Any]

__all__ = ["entries", "lay_out", "left_out", "take"]

_CHUNK = 1 << 18
_MAX_DEPTH, _MAX_PATH = 64, 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Taker:
    def __init__(self, room: int, files: int) -> None:
        self.room, self.files, self.left_out = room, files, 0

    def below(self, place: int, prefix: str, depth: int) -> Iterator[bytes]:
        """Entries of the open directory ``place``."""
        try:
            names = sorted(os.listdir(place))
        except OSError:
            names = []
        for name in names:
            path = prefix + name
            if self.files <= 0 or depth > _MAX_DEPTH or len(path) > _MAX_PATH:
                self.left_out += 1
                continue
            self.files -= 1
            try:
                yield from self.entry(place, name, path, depth)
            except OSError:
                self.left_out += 1

    def entry(self, place: int, name: str, path: str, depth: int) -> Iterator[bytes]:
        kind = stat.S_IFMT(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
        if kind == stat.S_IFLNK:
            target = os.readlink(name, dir_fd=place)
            self.room -= len(target)
            yield frame(encode([path, "l", target]))
        elif kind == stat.S_IFDIR:
            below = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=place)
            try:
                yield frame(encode([path, "d"]))
                yield from self.below(below, path + "/", depth + 1)
            finally:
                os.close(below)
        elif kind == stat.S_IFREG:
            file = os.open(name, _OPEN, dir_fd=place)
            try:
                yield from self.content(file, path)
            finally:
                os.close(file)
        else:
            self.left_out += 1

    def content(self, file: int, path: str) -> Iterator[bytes]:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > self.room:
            self.left_out += 1
            return
        size = found.st_size
        self.room -= size
        yield frame(encode([path, "f", bool(found.st_mode & 0o111), size]))
        while size > 0:
            # A process that still writes may have cut the file meanwhile: the promised size is kept.
            wanted = min(size, _CHUNK)
            try:
                data = os.read(file, wanted) or bytes(wanted)
            except OSError:
                data = bytes(wanted)
            size -= len(data)
            yield data


def take(place: int, room: int, files: int) -> Iterator[bytes]:
    """The tree below the open directory ``place`` in pieces, at most ``room`` bytes in ``files`` entries."""
    taker = _Taker(room, files)
    yield from taker.below(place, "", 0)
    yield frame(encode(["", "e", taker.left_out]))


def left_out(data: bytes) -> int:
    """How many entries weren't taken. ``ValueError`` if ``data`` isn't a whole tree."""
    return int(next(content for _, kind, _, content in _rows(data) if kind == "e"))


def entries(data: bytes) -> Iterator[Entry]:
    """The entries of a tree. ``ValueError`` if ``data`` isn't a whole one."""
    return (row for row in _rows(data) if row[1] != "e")


def _rows(data: bytes) -> Iterator[Entry]:
    at = 0
    while True:
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if end > len(data) or end == at:
            raise ValueError("the tree ends early")
        found: list[Any] = decode(data[at + 4 : end])
        at = end
        path, kind = found[0], found[1]
        if kind == "e":
            yield path, kind, False, found[2]
            return
        if kind == "f":
            size = found[3]
            if at + size > len(data):
                raise ValueError("the tree ends early")
            yield path, kind, found[2], data[at : at + size]
            at += size
        else:
            yield path, kind, False, found[2] if kind == "l" else None


def lay_out(data: bytes, place: str, trusting: bool = False) -> None:
    """Write a tree into the empty directory ``place``. What can't be written is left out.

    Links come last, so that nothing is written through one, and only those that can't lead out, unless
    ``trusting``: ``..`` stands at their beginning alone, no more often than there are folders above. Then no
    row of them leads out.
    """
    links = []
    for path, kind, executable, content in entries(data):
        target = os.path.join(place, path)
        try:
            if kind == "d":
                os.mkdir(target, 0o755)
            elif kind == "l":
                links.append((path, content))
            else:
                _write(target, content, 0o755 if executable else 0o644)
        except OSError:
            pass
    for path, content in links:
        if trusting or _stays_inside(path, content):
            try:
                os.symlink(content, os.path.join(place, path))
            except OSError:
                pass


def _write(path: str, content: bytes, mode: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)


def _stays_inside(path: str, target: str) -> bool:
    parts = target.split("/")
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    # An empty part is refused too: what comes after it is an absolute path to some who resolve links.
    return "" not in parts[:-1] and ".." not in parts[up:] and up <= path.count("/")
