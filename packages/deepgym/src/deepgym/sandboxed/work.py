"""A verifier's handle on what an agent left: the frozen copy of its work directory.

Reading happens in the verifier's own process, on the copy. What the agent wrote *runs* only in the solution's
sandbox, and whatever comes back from there is a claim.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

from .host import CHANNEL
from .proxy import Ran, Solution, SolutionDied
from .tree import entries, lay_out, left_out
from .wire import LOOKED, WORK

__all__ = ["Response", "Work"]


class Response:
    """What a service answered. ``status`` is an int, ``body`` bytes, ``headers`` a dict of text."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, value: Any) -> None:
        try:
            self.status, self.body = int(value["status"]), bytes(value["body"])
            self.headers = {str(name).lower(): str(text) for name, text in value["headers"].items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise SolutionDied("not a response") from None

    def text(self) -> str:
        """The body as text, what isn't UTF-8 replaced."""
        return self.body.decode("utf-8", "replace")


class Work:
    """The frozen copy. The first look at it, or the first request to its sandbox, brings it into play."""

    def __init__(self, tree: bytes, solution: Solution, place: str = WORK) -> None:
        self._tree, self._solution, self._place = tree, solution, place
        self._found: dict[str, tuple[str, Any]] | None = None
        self._laid_out = False

    def _entries(self) -> dict[str, tuple[str, Any]]:
        if self._found is None:
            os.write(CHANNEL, LOOKED)
            self._found = {path: (kind, content) for path, kind, _, content in entries(self._tree)}
        return self._found

    def files(self) -> list[str]:
        """Paths of the regular files, sorted."""
        return sorted(path for path, (kind, _) in self._entries().items() if kind == "f")

    def exists(self, path: str) -> bool:
        """Whether there is a regular file of that path."""
        return self._entries().get(path, ("", None))[0] == "f"

    def size(self, path: str) -> int:
        """Bytes of a regular file. Raises ``OSError`` if there is none."""
        return len(self._content(path))

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        """A regular file's bytes. Raises ``OSError`` if there is none, or if it is longer than ``limit``."""
        content = self._content(path)
        if len(content) > limit:
            raise OSError("%s has %d bytes, more than %d" % (path, len(content), limit))
        return content

    def text(self, path: str, limit: int = 1 << 20) -> str:
        """A regular file as text, what isn't UTF-8 replaced. Raises as ``read`` does."""
        return self.read(path, limit).decode("utf-8", "replace")

    def _content(self, path: str) -> bytes:
        kind, content = self._entries().get(path, ("", b""))
        if kind == "d":
            raise IsADirectoryError(path)
        if kind != "f":
            raise FileNotFoundError(path)
        found: bytes = content
        return found

    @property
    def left_out(self) -> int:
        """How many entries the copy lacks: pipes and the like, and what was beyond its bounds."""
        self._entries()
        return left_out(self._tree)

    @property
    def path(self) -> Any:
        """The copy as a ``pathlib.Path``, written out on first use. Links that lead out of it are dropped."""
        import pathlib

        if not self._laid_out:
            self._entries()
            os.makedirs(self._place, exist_ok=True)
            lay_out(self._tree, self._place)
            self._laid_out = True
        return pathlib.Path(self._place)

    def run(
        self,
        argv: Sequence[str],
        stdin: str = "",
        timeout: float | None = 10.0,
        limit: int = 1 << 16,
        files: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a command in the solution's sandbox, in the copy; ``files`` are written there first."""
        return Ran(self._ask("run", list(argv), stdin, timeout, limit, dict(files or {})))

    def function(self, module: str, name: str) -> Callable[..., Any]:
        """A callable that calls ``name`` of ``module`` in the solution's sandbox.

        It raises what the function raises, as the built-in of that name or ``SolutionError``.
        """

        def proxy(*arguments: Any, **named: Any) -> Any:
            return self._ask("call", module, name, list(arguments), named)

        proxy.__name__ = proxy.__qualname__ = name
        return proxy

    def start(self, argv: Sequence[str], port: int | None = None, timeout: float = 10.0) -> Any:
        """Start a command that goes on. With ``port``: ``None`` unless it listens there in time.

        Otherwise what ``stop`` takes; never something false.
        """
        number = self._ask("start", list(argv), port, timeout)
        return None if number is None else Started(self, number)

    def http(
        self,
        port: int,
        method: str = "GET",
        path: str = "/",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 5.0,
        limit: int = 1 << 18,
    ) -> Response:
        """One HTTP request to what listens on ``port``. Raises ``OSError`` if nothing sensible comes back."""
        return Response(self._ask("http", port, method, path, body, dict(headers or {}), timeout, limit))

    def tcp(self, port: int, data: bytes, timeout: float = 5.0, limit: int = 1 << 16) -> bytes:
        """Send ``data`` to what listens on ``port`` and read what comes back. Raises ``OSError``."""
        found = self._ask("tcp", port, data, timeout, limit)
        if type(found) is not bytes:
            raise SolutionDied("not bytes")
        return found

    def _ask(self, name: str, *arguments: Any) -> Any:
        return self._solution.function(name)(*arguments)


class Started:
    """A command that goes on in the solution's sandbox."""

    def __init__(self, work: Work, number: Any) -> None:
        self._work, self._number = work, number

    def stop(self, alone: bool = False) -> None:
        """End it and everything else that was started there, as a power cut would.

        ``alone``: its process group alone, which what it started may have left.
        """
        self._work._ask("stop", self._number, alone)
