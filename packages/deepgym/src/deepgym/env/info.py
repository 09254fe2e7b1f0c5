"""``Info``: what Gymnasium calls ``info``, with its items as attributes too."""

from __future__ import annotations

from typing import Any

from deepgym.models import RunResult

__all__ = ["Info"]


class Info(dict[str, Any]):
    """A dictionary of plain values (bools, numbers, text, ``None`` and lists of text), so that it dumps to
    JSON and Gymnasium's vector environments can stack it: ``info["passed"]`` is ``info.passed``.

    ``result`` is the ``RunResult`` in full, or ``None`` where nothing was judged. It is no item, for it isn't
    plain, no two runs' are equal, and what a verifier wrote in it may tell what was expected.
    """

    __slots__ = ("result",)

    result: RunResult | None

    def __init__(self, items: dict[str, Any] | None = None, result: RunResult | None = None) -> None:
        super().__init__(items or {})
        self.result = result

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"info has no {name!r}; it has {', '.join(self)} and result") from None

    def __missing__(self, key: str) -> Any:
        if key == "result":
            return self.result
        raise KeyError(key)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})
