"""A verifier's safe handle on the solution in the other sandbox."""

from __future__ import annotations

import builtins
import os
from typing import Any, Callable, Iterable, NoReturn

from .values import _SIMPLE, pack, unpack
from .wire import clean, decode, encode

__all__ = ["ANSWER", "Solution", "SolutionDied", "SolutionError"]

ANSWER = "/answer/solution"


class SolutionError(Exception):
    """The solution raised an exception of a class that isn't built in."""

    __module__ = "deepgym_verify"

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(name, message)
        self.name, self.message = name, message

    def __str__(self) -> str:
        return "%s: %s" % (self.name, self.message)


class SolutionDied(Exception):
    """The solution's process ended, or stopped making sense, while a reply was owed."""

    __module__ = "deepgym_verify"


class Ran:
    """What running the solution as a program gave.

    ``stdout`` and ``stderr`` are text, ``cut`` where either was longer than the limit; ``exit_code`` is
    negative for a signal; ``timed_out``: the process was killed at the timeout.
    """

    __slots__ = ("cut", "exit_code", "stderr", "stdout", "timed_out")

    def __init__(self, value: Any) -> None:
        try:
            self.stdout, self.stderr = str(value["out"]), str(value["err"])
            self.exit_code = int(value["exit"])
            self.timed_out, self.cut = bool(value["timed_out"]), bool(value["cut"])
        except (KeyError, TypeError, ValueError):
            raise SolutionDied("not a program's result") from None


class Instance:
    """An object that lives in the solution's process."""

    __slots__ = ("_handle", "_solution")

    def __init__(self, solution: Solution, handle: Any) -> None:
        self._solution, self._handle = solution, handle

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; arguments and result cross as plain values."""
        packed = [pack(item) for item in arguments]
        return self._solution._ask({"on": self._handle, "m": method, "a": packed})


class Solution:
    """The answer, in its own sandbox. The first request brings it into play."""

    def __init__(self, link: int, limit: int = 1 << 20, nonfinite: bool = False) -> None:
        self._link = link
        self._limit, self._nonfinite = limit, nonfinite
        self._count = 0
        self._fault: str | None = None

    def function(self, name: str) -> Callable[..., Any]:
        """A callable that calls ``name`` in the solution's process."""

        def proxy(*arguments: Any, **named: Any) -> Any:
            packed: Any = [item if type(item) in _SIMPLE else pack(item) for item in arguments]
            request = {"f": name, "a": packed}
            if named:
                request["k"] = {key: pack(item) for key, item in named.items()}
            return self._ask(request)

        proxy.__name__ = proxy.__qualname__ = name
        return proxy

    def construct(self, name: str, *arguments: Any) -> Instance:
        """An object of the solution's class ``name``."""
        handle = self._ask({"new": name, "a": [pack(item) for item in arguments]})
        return Instance(self, handle)

    def run(
        self,
        stdin: str = "",
        args: Iterable[str] = (),
        timeout: float | None = None,
        limit: int = 1 << 16,
    ) -> Ran:
        """Run the solution as a program in a fresh process of its sandbox."""
        request = {"in": stdin, "args": list(args), "t": timeout, "limit": limit}
        return Ran(self._ask({"run": request}))

    def read_file(self, path: str, limit: int = 1 << 16) -> bytes:
        """At most ``limit`` bytes of a regular file that the solution wrote.

        ``OSError`` if it can't be read.
        """
        value = self._ask({"read": path, "limit": limit})
        if type(value) is not bytes or len(value) > limit:
            self._broken("not a file's bytes")
        return value

    def source(self) -> str:
        """The answer's text. Reading it brings the answer into play."""
        with open(os.environ.get("DEEPGYM_SOLUTION", ANSWER), "rb") as source:
            return source.read().decode("utf-8", "replace")

    def _broken(self, why: str) -> NoReturn:
        self._fault = self._fault or why
        raise SolutionDied(why) from None

    def _ask(self, request: dict[str, Any]) -> Any:
        if self._fault:
            raise SolutionDied(self._fault)
        self._count += 1
        request["id"] = self._count
        try:
            line = self._exchange(encode(request) + b"\n")
        except OSError:
            line = None
        if line is None:
            self._broken("the solution's process ended before its reply")
        try:
            value, error = self._value(decode(line))
        except (LookupError, OverflowError, RecursionError, TypeError, ValueError):
            self._broken("the solution's reply was malformed")
        if error is not None:
            error.from_solution = True
            raise error
        return value

    def _exchange(self, data: bytes) -> bytes | None:
        while data:
            data = data[os.write(self._link, data) :]
        line = os.read(self._link, 65536)
        while line[-1:] != b"\n":
            more = os.read(self._link, 65536) if line and len(line) <= self._limit else b""
            if not more:
                return None
            line += more
        return line[:-1]

    def _value(self, reply: Any) -> tuple[Any, Any]:
        if type(reply) is not dict or reply.get("id") != self._count:
            raise ValueError("not a reply")
        if "v" in reply:
            value = reply["v"]
            return (value if type(value) in _SIMPLE else unpack(value, self._nonfinite)), None
        return None, remote_error(clean(str(reply["e"]), 100), clean(str(reply["m"]), 300))


def remote_error(name: str, message: str) -> Exception:
    """The solution's exception: the built-in of that name, if an ordinary one, else ``SolutionError``."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(message)
        except TypeError:
            pass
    return SolutionError(name, message)
