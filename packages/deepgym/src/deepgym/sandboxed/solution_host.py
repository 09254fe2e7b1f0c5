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

from __future__ import annotations

import os
import select
import sys
import types

from .host import (
    CHANNEL,
    CHUNK,
    HOME,
    LINK,
    agents_environment,
    mark,
    place_files,
    print_exception,
    read_frame,
    read_head,
    read_one,
)
from .program import Program, failure
from .tree import lay_out
from .values import _SIMPLE, pack, unpack
from .wire import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["alone", "answer", "main"]


def main(head: dict[str, Any] | None, solution_on_link: bool) -> None:
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
    if "tree" in head:
        _lay_out(read_one(CHANNEL), head["tree"])
    answer(CHANNEL, LINK if solution_on_link else CHANNEL, head, solution_on_link)


def _lay_out(tree: bytes, place: str) -> None:
    """Make the frozen copy of an agent's work the current directory. It is in play by now."""
    os.environ.clear()
    os.environ.update(agents_environment())
    for path in (place, HOME):
        os.mkdir(path)
    os.chdir(place)
    lay_out(tree, place, trusting=True)  # what leads out of it leads nowhere else


def alone(solution_on_link: bool) -> None:
    """``main`` as all that an interpreter was started for."""
    try:
        main(None, solution_on_link)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        print_exception()
        raise SystemExit(1) from None


def answer(source: int, channel: int, head: dict[str, Any], linked: bool) -> None:
    """Read the text from ``source`` and serve requests about it on ``channel``."""
    text, rest = read_frame(source)
    subject = Program(text, head) if "program" in head else _Module(text, head)
    _serve(subject, b"" if linked else rest, channel)


def _await_request() -> None:
    """Wait for the verifier's first request. It ended without one: then nothing came into play."""
    watch = select.poll()
    watch.register(LINK, select.POLLIN)
    ((_, events),) = watch.poll()
    if events & select.POLLHUP:
        os._exit(0)


def _require(program: str) -> None:
    """The program that runs answers must be there before any answer can be blamed."""
    if not any(os.access(os.path.join(place, program), os.X_OK) for place in os.get_exec_path()):
        os.write(CHANNEL, b"!there is no program " + repr(program).encode() + b" in the sandbox")
        os._exit(99)


def _serve(subject: Program | _Module, data: bytes, channel: int) -> None:
    handle, write = subject.handle, os.write
    while True:
        lines = data.split(b"\n")
        data = lines.pop()
        for line in lines:
            reply = handle(decode(line))
            while reply:
                reply = reply[write(channel, reply) :]
        more = os.read(channel, CHUNK)
        if not more:
            return
        data += more


class _Module:
    """The text as a module, named ``solution`` so that its ``__main__`` block stays quiet."""

    def __init__(self, text: bytes, head: dict[str, Any]) -> None:
        self.code = compile(text, "solution.py", "exec")
        self.text, self.head, self.entry = text, head, head.get("entry")
        self.loaded = False
        self.names: dict[Any, Any] = {}
        self.program: Program | None = None
        self.objects: list[Any] = []
        if self.entry:
            self.load()
            if not callable(self.names.get(self.entry)):
                raise NameError("the answer defines no function or class named %r" % self.entry)

    def load(self) -> None:
        """Execute the text. A verifier may want it as a program only, so it waits for the first call."""
        module = types.ModuleType("solution")
        sys.modules["solution"] = module
        self.names, self.loaded = module.__dict__, True
        exec(self.code, self.names)

    def handle(self, request: dict[str, Any]) -> bytes:
        """The reply to one request."""
        number = request["id"]
        if not self.loaded and "run" not in request and "read" not in request:
            self.load()
        try:
            value = self._value(request)
            if type(value) is int:
                return b'{"id":%d,"v":%d}\n' % (number, value)
            return b'{"id":%d,"v":%b}\n' % (number, encode(value if type(value) in _SIMPLE else pack(value)))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            return failure(number, error)

    def _value(self, request: dict[str, Any]) -> Any:
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

    def _sequence(self, calls: list[list[Any]]) -> list[Any]:
        name, arguments = calls[0][0], [unpack(item) for item in calls[0][1:]]
        subject = self.names[name](*arguments)
        found = [None]
        for method, *rest in calls[1:]:
            found.append(getattr(subject, method)(*[unpack(item) for item in rest]))
        return found

    def _program(self) -> Program:
        if self.program is None:
            self.program = Program(self.text, self.head)
        return self.program
