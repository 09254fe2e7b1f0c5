"""What ``Workspace.copy`` returns, an agent's work directory as bytes: packed from a mapping, read strictly.

A row of entries, each a framed JSON list and, for a file, its content:

    ["path", "d"]    ["path", "f", executable, size] content    ["path", "l", target]    ["", "e", left_out]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deepgym.sandboxed.wire import decode, encode, frame

__all__ = ["Entry", "files_of", "pack_tree", "read_tree"]


@dataclass(frozen=True)
class Entry:
    """One entry of a tree."""

    kind: Literal["f", "d", "l"]
    content: bytes = b""
    executable: bool = False
    target: str = ""


def pack_tree(files: Mapping[str, Any], *, room: int = 1 << 40, count: int = 1 << 40) -> bytes:
    """A tree of ``files``, text and bytes among them regular files; the folders above them come first.

    What would exceed ``room`` bytes in ``count`` entries is left out, and counted.
    """
    entries: dict[str, Entry] = {}
    for path, given in files.items():
        for cut in (index for index, letter in enumerate(path) if letter == "/"):
            entries.setdefault(path[:cut], Entry("d"))
        entries[path] = given if isinstance(given, Entry) else Entry("f", _bytes(given))
    parts, left_out = [], 0
    for path, entry in sorted(entries.items()):
        if count <= 0 or len(entry.content) > room:
            left_out += 1
            continue
        count, room = count - 1, room - len(entry.content)
        parts += [frame(encode(_head(path, entry))), entry.content]
    return b"".join([*parts, frame(encode(["", "e", left_out]))])


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content


def _head(path: str, entry: Entry) -> list[Any]:
    if entry.kind == "f":
        return [path, "f", entry.executable, len(entry.content)]
    return [path, "l", entry.target] if entry.kind == "l" else [path, "d"]


def read_tree(data: bytes) -> tuple[dict[str, Entry], int]:
    """Entries by path, and how many were left out.

    Raises:
        ValueError: ``data`` isn't one whole tree, holds a path twice, one that leads out of it, or one
            without its folder before it.
    """
    found: dict[str, Entry] = {}
    at = 0
    while True:
        size = int.from_bytes(data[at : at + 4], "little")
        head = decode(data[at + 4 : at + 4 + size])
        at += 4 + size
        if head[1] == "e":
            if at != len(data):
                raise ValueError(f"{len(data) - at} bytes after the tree's end")
            return found, int(head[2])
        entry, at = _entry(head, data, at)
        _require_place(head[0], found)
        found[head[0]] = entry


def _entry(head: list[Any], data: bytes, at: int) -> tuple[Entry, int]:
    kind = head[1]
    if kind == "d":
        return Entry("d"), at
    if kind == "l":
        return Entry("l", target=str(head[2])), at
    if kind != "f":
        raise ValueError(f"an entry of kind {kind!r}")
    end = at + int(head[3])
    if end > len(data):
        raise ValueError("the tree ends early")
    return Entry("f", data[at:end], bool(head[2])), end


def _require_place(path: str, found: Mapping[str, Entry]) -> None:
    above, _, name = path.rpartition("/")
    if path in found or name in ("", ".", "..") or path.startswith("/"):
        raise ValueError(f"no path for an entry: {path!r}")
    if above and (above not in found or found[above].kind != "d"):
        raise ValueError(f"an entry without its folder: {path!r}")


def files_of(data: bytes) -> dict[str, bytes]:
    """Contents of the regular files by path. Raises as ``read_tree`` does."""
    entries, _ = read_tree(data)
    return {path: entry.content for path, entry in entries.items() if entry.kind == "f"}
