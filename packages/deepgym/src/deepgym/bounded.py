"""Values that a result may hold: bounded, finite, valid UTF-8, and equal to themselves after JSON."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from deepgym.sandboxed.wire import clean

__all__ = ["MAX_LINE", "MAX_OUTPUT", "Details", "Finite", "Line", "Numbers", "clean", "is_share", "shown"]

#: Characters of a process's output, and of every other text, that a result keeps.
MAX_OUTPUT = 1 << 20
MAX_LINE = 2000

_MAX_DEPTH = 34
_MAX_BITS = 1024


def is_share(value: object) -> bool:
    """Whether ``value`` is a real number in [0, 1]; a bool, NaN or text isn't."""
    # NaN fails both comparisons, and an int too large for a float fails the second.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def shown(value: object) -> str:
    """``value`` for a message, by its type where its own text can't be trusted."""
    # A huge int has no decimal form under Python's digit limit, and a foreign __repr__ may raise.
    return repr(value)[:80] if type(value) in (bool, float, str) else f"<{type(value).__name__}>"


def _line(value: object) -> object:
    return clean(value, MAX_LINE) if isinstance(value, str) else value


def _details(value: object) -> Any:
    return _json_safe(value, 0)


def _json_safe(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return value
    if isinstance(value, str):
        return clean(value, MAX_OUTPUT)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth >= _MAX_DEPTH or not isinstance(value, (dict, list, tuple)):
        return f"<{type(value).__name__}>"
    if isinstance(value, dict):
        return {clean(str(key), MAX_LINE): _json_safe(item, depth + 1) for key, item in value.items()}
    return [_json_safe(item, depth + 1) for item in value]


Finite = Annotated[float, Field(allow_inf_nan=False)]
Line = Annotated[str, BeforeValidator(_line)]
Numbers = dict[Line, Finite]
Details = Annotated[dict[str, Any], BeforeValidator(_details)]
