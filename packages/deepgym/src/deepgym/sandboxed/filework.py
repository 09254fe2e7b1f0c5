"""Reading and writing an agent's files, in a process that may no more than the agent. Output on descriptor 1.

Ends the process: status 0, or 1 with the reason as output.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, NoReturn

__all__ = ["read_file", "write_file"]

_CHUNK = 1 << 16


def write_file(path: str, content: bytes) -> NoReturn:
    """Replace a regular file, or make it and the folders above it."""

    def write() -> None:
        above = os.path.dirname(path)
        if above:
            os.makedirs(above, exist_ok=True)
        # A pipe without a reader refuses at once instead of waiting.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644)
        _require_regular(file, path)
        os.ftruncate(file, 0)
        _write(file, content)

    _end(write)


def read_file(path: str) -> NoReturn:
    """A regular file's content, all of it: whoever reads keeps what there is room for."""

    def read() -> None:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        _require_regular(file, path)
        while True:
            data = os.read(file, _CHUNK)
            if not data:
                break
            _write(1, data)

    _end(read)


def _require_regular(file: int, path: str) -> None:
    mode = os.fstat(file).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _end(work: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        work()
        status = 0
    except OSError as error:
        text = "%s: %s" % (error.strerror or type(error).__name__, error.filename or "")
        _write(1, text.encode("utf-8", "replace"))
    except BaseException:
        print(sys.exc_info()[1])
        sys.stdout.flush()
    finally:
        os._exit(status)
