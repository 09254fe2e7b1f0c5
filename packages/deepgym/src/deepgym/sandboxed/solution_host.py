"""Runs the policy's text and answers requests about it, one JSON line each.

Nothing here is out of the policy's reach once its text runs: every reply is a claim that the other side
checks. What *is* trusted happens before: the mark, written on a private channel before the text is read.

Channel: the framed text (behind a framed JSON head, where the plan holds none), then requests. Requests
and replies:

    {"id": 1, "f": "name", "a": [..], "k": {..}}       call a function      {"id": 1, "v": value}
    {"id": 2, "c": [["name", ..], ["method", ..]]}     a class, then its methods; "v" is the list of results
    {"id": 3, "new": "Class", "a": [..]}               an object; "v" is its handle
    {"id": 4, "on": handle, "m": "method", "a": [..]}  a method of that object
    {"id": 5, "run": {"in": "..", "args": [..], "limit": n, "t": s}}    the text as a program
    {"id": 6, "read": "path", "limit": n}              a file in the working directory; "v" is bytes

An exception comes back as {"id": n, "e": "TypeName", "m": "message"}.
"""

import errno
import os
import select
import signal
import stat
import sys
import time
import types

from .values import _SIMPLE, pack, unpack
from .wire import MARK, clean, decode, encode

__all__ = ["main"]

CHANNEL, LINK = 3, 4
_CHUNK = 65536


def mark(channel=CHANNEL):
    """Say on the channel that what follows handles the policy's text, and when that began."""
    os.write(channel, MARK + time.monotonic_ns().to_bytes(8, "little"))


def read_frame(channel, data=b""):
    """One framed message and what came after it. ``EOFError`` if the channel ends first."""
    while True:
        if len(data) >= 4:
            end = int.from_bytes(data[:4], "little") + 4
            if len(data) >= end:
                return data[4:end], data[end:]
        more = os.read(channel, _CHUNK)
        if not more:
            raise EOFError("the channel ended before a whole frame")
        data += more


def read_head(channel):
    """The first frame, decoded, without touching what comes after it: that is the policy's."""
    size = int.from_bytes(_exactly(channel, 4), "little")
    return decode(_exactly(channel, size))


def _exactly(channel, size):
    data = os.read(channel, size)
    while len(data) < size:
        more = os.read(channel, size - len(data))
        if not more:
            raise EOFError("the channel ended before a whole frame")
        data += more
    return data


def place_files(files):
    """Write an environment's own files into the working directory."""
    for name, text in files.items():
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "w", encoding="utf-8", errors="surrogatepass", newline="") as target:
            target.write(text)


def main(head, solution_on_link):
    """One run of a solution, to the end of the requests.

    ``head`` says what the text is and what stands beside it; ``None``: it comes first on the channel.
    """
    if head is None:
        head = read_head(CHANNEL)
    if "files" in head:
        place_files(head["files"])
    if "argv" in head:
        _require(head["argv"][0])
    if solution_on_link:
        _await_request()
    mark()
    answer(CHANNEL, LINK if solution_on_link else CHANNEL, head, solution_on_link)


def answer(source, channel, head, linked):
    """Read the text from ``source`` and serve requests about it on ``channel``."""
    text, rest = read_frame(source)
    subject = _Program(text, head) if "program" in head else _Module(text, head)
    _serve(subject, b"" if linked else rest, channel)


def _await_request():
    """Wait for the verifier's first request. It ended without one: then nothing came into play."""
    watch = select.poll()
    watch.register(LINK, select.POLLIN)
    ((_, events),) = watch.poll()
    if events & select.POLLHUP:
        os._exit(0)


def _require(program):
    """The program that runs answers must be there before any answer can be blamed."""
    if not any(os.access(os.path.join(place, program), os.X_OK) for place in os.get_exec_path()):
        os.write(CHANNEL, b"!there is no program " + repr(program).encode() + b" in the sandbox")
        os._exit(99)


def _serve(subject, data, channel):
    handle, write = subject.handle, os.write
    while True:
        lines = data.split(b"\n")
        data = lines.pop()
        for line in lines:
            reply = handle(decode(line))
            while reply:
                reply = reply[write(channel, reply) :]
        more = os.read(channel, _CHUNK)
        if not more:
            return
        data += more


def _failure(number, error):
    try:
        message = str(error)[:300]
    except BaseException:
        message = "(the exception's text can't be read)"
    return encode({"id": number, "e": type(error).__name__[:100], "m": clean(message, 300)}) + b"\n"


class _Module:
    """The text as a module, named ``solution`` so that its ``__main__`` block stays quiet."""

    def __init__(self, text, head):
        self.code = compile(text, "solution.py", "exec")
        self.text, self.head, self.entry = text, head, head.get("entry")
        self.names, self.objects, self.program = None, [], None
        if self.entry:
            self.load()
            if not callable(self.names.get(self.entry)):
                raise NameError("the answer defines no function or class named %r" % self.entry)

    def load(self):
        """Execute the text. A verifier may want it as a program only, so it waits for the first call."""
        module = types.ModuleType("solution")
        sys.modules["solution"] = module
        self.names = module.__dict__
        exec(self.code, self.names)

    def handle(self, request):
        number = request["id"]
        if self.names is None and "run" not in request and "read" not in request:
            self.load()
        try:
            value = self._value(request)
            if type(value) is int:
                return b'{"id":%d,"v":%d}\n' % (number, value)
            return b'{"id":%d,"v":%b}\n' % (number, encode(value if type(value) in _SIMPLE else pack(value)))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            return _failure(number, error)

    def _value(self, request):
        if "c" in request:
            return self._sequence(request["c"])
        if "run" in request or "read" in request:
            return self._program().value(request)
        arguments = [item if type(item) in _SIMPLE else unpack(item) for item in request["a"]]
        if "on" in request:
            return getattr(self.objects[request["on"]], request["m"])(*arguments)
        target = self.names[request.get("f") or request.get("new") or self.entry]
        if "k" in request:
            value = target(*arguments, **{key: unpack(item) for key, item in request["k"].items()})
        else:
            value = target(*arguments)
        if "new" in request:
            self.objects.append(value)
            return len(self.objects) - 1
        return value

    def _sequence(self, calls):
        name, arguments = calls[0][0], [unpack(item) for item in calls[0][1:]]
        subject, found = self.names[name](*arguments), [None]
        for method, *rest in calls[1:]:
            found.append(getattr(subject, method)(*[unpack(item) for item in rest]))
        return found

    def _program(self):
        if self.program is None:
            self.program = _Program(self.text, self.head)
        return self.program


class _Program:
    """The text as a program: a fresh process for each input, in the same sandbox."""

    def __init__(self, text, head):
        self.argv = head.get("argv")
        self.code = None if self.argv else compile(text, "solution.py", "exec")
        if self.argv:
            path = os.path.join(os.getcwd(), head.get("file") or "solution")
            with open(path, "wb") as target:
                target.write(text)
            self.argv = [*self.argv, path]

    def handle(self, request):
        number = request["id"]
        try:
            return b'{"id":%d,"v":%b}\n' % (number, encode(pack(self.value(request))))
        except Exception as error:
            return _failure(number, error)

    def value(self, request):
        if "read" in request:
            return _read_file(request["read"], request.get("limit", 1 << 16))
        if "run" not in request:
            raise TypeError("this answer is a program: it can be run, not called")
        return self._run(request["run"])

    def _run(self, request):
        source = os.memfd_create("stdin") if hasattr(os, "memfd_create") else os.open(".", os.O_TMPFILE | os.O_RDWR)
        data = request.get("in", "").encode("utf-8", "surrogatepass")
        while data:
            data = data[os.write(source, data) :]
        os.lseek(source, 0, os.SEEK_SET)
        pipes = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            self._child(source, pipes, request.get("args", []))
        for fd in (source, pipes[0][1], pipes[1][1]):
            os.close(fd)
        try:
            return _collect(child, pipes[0][0], pipes[1][0], request)
        finally:
            os.close(pipes[0][0])
            os.close(pipes[1][0])

    def _child(self, source, pipes, arguments):
        status = 1
        try:
            os.dup2(source, 0)
            os.dup2(pipes[0][1], 1)
            os.dup2(pipes[1][1], 2)
            os.closerange(3, 256)
            if self.argv:
                os.execvpe(self.argv[0], [*self.argv, *arguments], dict(os.environ))
            sys.argv = ["solution.py", *arguments]
            module = types.ModuleType("__main__")
            sys.modules["__main__"] = module
            exec(self.code, module.__dict__)
            status = 0
        except SystemExit as stop:
            status = exit_status(stop)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                status = status or 1
            os._exit(status & 255)


def exit_status(stop):
    """The exit status that ``SystemExit`` asks for; text goes to stderr as the interpreter's would."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 255
    sys.stderr.write("%s\n" % (stop.code,))
    return 1


def _collect(child, out, err, request):
    limit, seconds = request.get("limit", 1 << 16), request.get("t")
    deadline = None if seconds is None else time.monotonic() + seconds
    watch, ended, timed_out = select.poll(), os.pidfd_open(child), False
    texts, cut = {out: bytearray(), err: bytearray()}, False
    for fd in (out, err, ended):
        watch.register(fd, select.POLLIN)
    running = True
    while running:
        left = None if deadline is None else max(0, int((deadline - time.monotonic()) * 1000) + 1)
        ready = watch.poll(left)
        if not ready:
            timed_out = True
            os.kill(child, signal.SIGKILL)
            deadline = None
            continue
        for fd, _ in ready:
            if fd == ended:
                running = False
                continue
            chunk = os.read(fd, _CHUNK)
            if not chunk:
                watch.unregister(fd)
            room = limit - len(texts[fd])
            texts[fd] += chunk[: max(0, room)]
            cut = cut or len(chunk) > room
    os.close(ended)
    _, status = os.waitpid(child, 0)
    for fd in (out, err):
        cut = _drain(fd, texts[fd], limit) or cut
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return {
        "out": clean(texts[out].decode("utf-8", "backslashreplace"), limit),
        "err": clean(texts[err].decode("utf-8", "backslashreplace"), limit),
        "exit": code,
        "timed_out": timed_out,
        "cut": cut,
    }


def _drain(fd, text, limit):
    """Read what is left without waiting for whoever still holds the other end."""
    os.set_blocking(fd, False)
    cut = False
    for _ in range(64):
        try:
            chunk = os.read(fd, _CHUNK)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                break
            raise
        if not chunk:
            break
        room = limit - len(text)
        text += chunk[: max(0, room)]
        cut = cut or len(chunk) > room
    return cut


def _read_file(path, limit):
    """At most ``limit`` bytes of a regular file; no links, no devices, no waiting."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.read(fd, limit)
    finally:
        os.close(fd)
