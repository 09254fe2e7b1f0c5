"""The policy's text as a program: a fresh process for each input, in the same sandbox."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import sys
import time
import types

from .host import CHUNK, exit_status, print_exception
from .values import pack
from .wire import clean, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["Program", "failure"]

_PIDFD_OPEN = 434  # on every machine


def failure(number: int, error: BaseException) -> bytes:
    """The reply to a request that raised."""
    try:
        message = str(error)[:300]
    except BaseException:
        message = "(the exception's text can't be read)"
    return encode({"id": number, "e": type(error).__name__[:100], "m": clean(message, 300)}) + b"\n"


class Program:
    """The text, ready to be run."""

    def __init__(self, text: bytes, head: dict[str, Any]) -> None:
        self.argv: list[str] = head.get("argv") or []
        self.code = None if self.argv else compile(text, "solution.py", "exec")
        if self.argv:
            path = os.path.join(os.getcwd(), head.get("file") or "solution")
            with open(path, "wb") as target:
                target.write(text)
            self.argv = [*self.argv, path]

    def handle(self, request: dict[str, Any]) -> bytes:
        """The reply to one request."""
        number = request["id"]
        try:
            return b'{"id":%d,"v":%b}\n' % (number, encode(pack(self.value(request))))
        except Exception as error:
            return failure(number, error)

    def value(self, request: dict[str, Any]) -> Any:
        """What a request asks for. Raises what goes wrong with it."""
        if "read" in request:
            return _read_file(request["read"], request.get("limit", 1 << 16))
        if "run" not in request:
            raise TypeError("this answer is a program: it can be run, not called")
        return self._run(request["run"])

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        source = _input(request.get("in", "").encode("utf-8", "surrogatepass"))
        out, err = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            self._child(source, out[1], err[1], request.get("args", []))
        for fd in (source, out[1], err[1]):
            os.close(fd)
        try:
            return _collect(child, out[0], err[0], request)
        finally:
            os.close(out[0])
            os.close(err[0])

    def _child(self, source: int, out: int, err: int, arguments: list[str]) -> NoReturn:
        status = 1
        try:
            os.dup2(source, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.closerange(3, 256)
            if self.code is None:
                os.execvpe(self.argv[0], [*self.argv, *arguments], dict(os.environ))
            sys.argv = ["solution.py", *arguments]
            module = types.ModuleType("__main__")
            sys.modules["__main__"] = module
            exec(self.code, module.__dict__)
            status = 0
        except SystemExit as stop:
            status = exit_status(stop)
        except BaseException:
            print_exception()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                status = status or 1
            os._exit(status & 255)


def _input(data: bytes) -> int:
    """A descriptor of a file without a name that holds ``data``."""
    if hasattr(os, "memfd_create"):
        source = os.memfd_create("stdin")
    else:
        source = os.open(".", os.O_TMPFILE | os.O_RDWR)
    while data:
        data = data[os.write(source, data) :]
    os.lseek(source, 0, os.SEEK_SET)
    return source


class _Output:
    """What a program has written, each stream up to ``limit`` bytes."""

    def __init__(self, limit: int, *streams: int) -> None:
        self.limit, self.cut = limit, False
        self.texts = {fd: bytearray() for fd in streams}

    def take(self, fd: int) -> bool:
        """Read once; ``False`` at the stream's end."""
        chunk = os.read(fd, CHUNK)
        room = self.limit - len(self.texts[fd])
        self.texts[fd] += chunk[: max(0, room)]
        self.cut = self.cut or len(chunk) > room
        return bool(chunk)

    def drain(self, fd: int) -> None:
        """Read what is left without waiting for whoever still holds the other end."""
        os.set_blocking(fd, False)
        for _ in range(64):
            try:
                if not self.take(fd):
                    return
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    return
                raise

    def text(self, fd: int) -> str:
        return clean(self.texts[fd].decode("utf-8", "backslashreplace"), self.limit)


def _collect(child: int, out: int, err: int, request: dict[str, Any]) -> dict[str, Any]:
    output = _Output(request.get("limit", 1 << 16), out, err)
    timed_out = _follow(child, output, request.get("t"))
    _, status = os.waitpid(child, 0)
    output.drain(out)
    output.drain(err)
    return {
        "out": output.text(out),
        "err": output.text(err),
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status),
        "timed_out": timed_out,
        "cut": output.cut,
    }


def _follow(child: int, output: _Output, seconds: float | None) -> bool:
    """Read along until the child has ended, killing it after ``seconds``: whether that was needed."""
    deadline = None if seconds is None else time.monotonic() + seconds
    watch, ended, timed_out = select.poll(), _pidfd(child), False
    for fd in (*output.texts, ended):
        watch.register(fd, select.POLLIN)
    running = True
    while running:
        left = None if deadline is None else max(0, int((deadline - time.monotonic()) * 1000) + 1)
        ready = watch.poll(left)
        if not ready:
            timed_out, deadline = True, None
            os.kill(child, signal.SIGKILL)
        for fd, _ in ready:
            if fd == ended:
                running = False
            elif not output.take(fd):
                watch.unregister(fd)
    os.close(ended)
    return timed_out


def _pidfd(child: int) -> int:
    """A descriptor that is readable once the child has ended."""
    try:
        return os.pidfd_open(child)
    except AttributeError:  # Python 3.8
        import ctypes

        return int(ctypes.CDLL(None).syscall(ctypes.c_long(_PIDFD_OPEN), child, 0))


def _read_file(path: str, limit: int) -> bytes:
    """At most ``limit`` bytes of a regular file; no links, no devices, no waiting."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.read(fd, limit)
    finally:
        os.close(fd)
