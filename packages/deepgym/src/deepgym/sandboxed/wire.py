"""Strict JSON lines: the only form in which anything crosses a sandbox's wall.

``decode`` refuses what Python's ``json`` lets through: NaN and Infinity, numbers that overflow to
infinity, duplicate keys and trailing text. Nesting that exhausts the parser is a ``ValueError`` too.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LOOKED", "MARK", "WORK", "clean", "decode", "encode", "frame"]

#: First byte on a process's channel once trusted code is about to read the text it was given;
#: eight bytes of ``time.monotonic_ns()`` follow.
MARK = b"S"
#: Line on a verifier's channel before its first look into an agent's work directory.
LOOKED = b"+\n"
#: Where an agent's work directory stands in its session, and again where it is judged.
WORK = "/box/work"


def _constant(token: str) -> Any:
    raise ValueError("not JSON: " + token)


def _finite(token: str) -> float:
    value = float(token)
    if value - value != 0.0:
        raise ValueError("number out of range: " + token[:32])
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


_decoder: Any = json.JSONDecoder(parse_constant=_constant, parse_float=_finite, object_pairs_hook=_unique)
_scan = _decoder.scan_once
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), check_circular=False).encode


def decode(data: bytes) -> Any:
    """The one JSON value in ``data``.

    Raises:
        ValueError: anything else, whatever it is; bytes from an answer never raise another class.
    """
    try:
        text = data.decode()
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end != len(text):
        raise ValueError("text after the JSON value")
    return value


def encode(value: Any) -> bytes:
    """``value`` as one line of ASCII JSON, without the newline.

    Raises:
        ValueError: a float that isn't finite, an int of too many digits, or nesting too deep.
        TypeError: a type that JSON doesn't have.
    """
    try:
        return _encode(value).encode("ascii")
    except RecursionError:
        raise ValueError("nested too deeply") from None


def frame(data: bytes) -> bytes:
    """``data`` behind its length, four bytes little-endian."""
    return len(data).to_bytes(4, "little") + data


_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str, limit: int = 2000) -> str:
    """``text`` cut to ``limit`` characters, lone surrogates replaced: always encodable as UTF-8."""
    text = text[:limit]
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)
