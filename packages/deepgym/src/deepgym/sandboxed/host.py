"""What both hosts of a run do: mark its channel, read framed texts, place files, end with a status."""

from __future__ import annotations

import os
import sys
import time

from .wire import MARK, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CHANNEL",
    "CHUNK",
    "HOME",
    "LINK",
    "agents_environment",
    "exit_status",
    "mark",
    "place_files",
    "print_exception",
    "read_frame",
    "read_head",
    "read_one",
]

#: Descriptors that a run begins with: the supervisor's channel, and the link of solution and verifier.
CHANNEL, LINK = 3, 4
CHUNK = 65536
#: An agent's home directory.
HOME = "/box/home"


def agents_environment() -> dict[str, str]:
    """The environment of an agent's commands, in its session and where its work is judged."""
    return {
        "HOME": HOME,
        # The interpreter that this sandbox has first: the system may have another, or none.
        "PATH": "%s/bin:/usr/local/bin:/usr/bin:/bin" % sys.base_prefix,
        "TMPDIR": "/tmp",
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
    }


def mark(channel: int = CHANNEL) -> None:
    """Say on the channel that what follows handles the policy's text, and when that began."""
    os.write(channel, MARK + time.monotonic_ns().to_bytes(8, "little"))


def read_frame(channel: int, data: bytes = b"") -> tuple[bytes, bytes]:
    """One framed message and what came after it. ``EOFError`` if the channel ends first."""
    while len(data) < 4:
        data += _some(channel)
    end = int.from_bytes(data[:4], "little") + 4
    parts, have = [data], len(data)
    while have < end:
        more = _some(channel)
        parts.append(more)
        have += len(more)
    data = b"".join(parts)
    return data[4:end], data[end:]


def _some(channel: int) -> bytes:
    data = os.read(channel, CHUNK)
    if not data:
        raise EOFError("the channel ended before a whole frame")
    return data


def read_head(channel: int) -> Any:
    """The first frame, decoded, without touching what comes after it: that is the policy's."""
    return decode(read_one(channel))


def read_one(channel: int) -> bytes:
    """The next framed message, without touching what comes after it."""
    return _exactly(channel, int.from_bytes(_exactly(channel, 4), "little"))


def _exactly(channel: int, size: int) -> bytes:
    parts = []
    while size > 0:
        more = os.read(channel, min(size, CHUNK))
        if not more:
            raise EOFError("the channel ended before a whole frame")
        parts.append(more)
        size -= len(more)
    return b"".join(parts)


def place_files(files: dict[str, str]) -> None:
    """Write an environment's own files into the working directory."""
    for name, text in files.items():
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "w", encoding="utf-8", errors="surrogatepass", newline="") as target:
            target.write(text)


def exit_status(stop: SystemExit) -> int:
    """The exit status that ``SystemExit`` asks for; text goes to stderr as the interpreter's would."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 255
    sys.stderr.write("%s\n" % (stop.code,))
    return 1


def print_exception() -> None:
    """The traceback in hand as the interpreter would print it, without the host's own frames."""
    kind, error, trace = sys.exc_info()
    if kind is None or error is None:
        return
    while trace is not None and trace.tb_frame.f_code.co_filename != "solution.py":
        trace = trace.tb_next
    try:
        sys.excepthook(kind, error.with_traceback(trace), trace)
    except BaseException:
        pass
