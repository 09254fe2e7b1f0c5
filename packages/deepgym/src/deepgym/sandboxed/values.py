"""Values across the wall: exact types as tagged JSON, and comparisons that never trust an object.

What JSON has no type for crosses under a tag, an object with one key:

    {"!t": [..]} tuple      {"!s": [..]} set       {"!z": [..]} frozenset   {"!b": "hex"} bytes
    {"!d": [[k, v], ..]} dict with other keys than strings       {"!c": ["re", "im"]} complex
    {"!f": "nan"} a float that isn't finite

``pack`` looks at the real type of a value and refuses subclasses: an object that lies about itself
can't cross. (``Counter``, ``defaultdict`` and ``OrderedDict`` cross as the plain dicts that they equal;
they are read with ``dict``'s own methods.) The judge compares packed forms, so that it never builds,
hashes or calls anything that an answer made.
"""

from __future__ import annotations

import collections
import re

from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Rule", "matches", "pack", "unpack"]

MAX_DEPTH = 64
_SIMPLE = frozenset((int, str, bool, type(None)))
_DICTS = frozenset((dict, collections.Counter, collections.defaultdict, collections.OrderedDict))


def pack(value: Any, depth: int = 0) -> Any:
    """``value`` as JSON with tags.

    Raises:
        TypeError: a type that can't cross, named.
        ValueError: nesting beyond 64 levels (a value that holds itself, say).
    """
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is float:
        return value if value - value == 0.0 else {"!f": repr(value)}
    if depth >= MAX_DEPTH:
        raise ValueError("value is nested deeper than %d levels" % MAX_DEPTH)
    depth += 1
    if kind is list:
        return [item if type(item) in _SIMPLE else pack(item, depth) for item in value]
    if kind is tuple:
        return {"!t": [pack(item, depth) for item in value]}
    if kind in _DICTS:
        items = dict.items(value)
        if all(type(key) is str and key[:1] != "!" for key, _ in items):
            return {key: pack(item, depth) for key, item in items}
        return {"!d": [[pack(key, depth), pack(item, depth)] for key, item in items]}
    if kind is set or kind is frozenset:
        return {"!s" if kind is set else "!z": [pack(item, depth) for item in value]}
    if kind is bytes:
        return {"!b": value.hex()}
    if kind is complex:
        return {"!c": [repr(value.real), repr(value.imag)]}
    raise TypeError("a value of type %s can't leave the sandbox" % kind.__name__[:80])


_NONFINITE = ("nan", "inf", "-inf")
_HEX = re.compile("(?:[0-9a-f]{2})*")


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("a tag's items are a list")
    return value


def _pairs(value: Any) -> list[list[Any]]:
    if any(type(pair) is not list or len(pair) != 2 for pair in _items(value)):
        raise ValueError("malformed !d")
    return value  # type: ignore[no-any-return]


def _complex(value: Any) -> complex:
    if len(_items(value)) != 2 or any(type(part) is not str for part in value):
        raise ValueError("malformed !c")
    return complex(float(value[0]), float(value[1]))


def _bytes(value: Any) -> bytes:
    if type(value) is not str or not _HEX.fullmatch(value):
        raise ValueError("malformed !b")
    return bytes.fromhex(value)


def _nonfinite(value: Any) -> float:
    if type(value) is not str or value not in _NONFINITE:
        raise ValueError("malformed !f")
    return float(value)


def unpack(value: Any, nonfinite: bool = True) -> Any:
    """The Python value that ``pack`` packed.

    Raises:
        ValueError, TypeError: not something that ``pack`` makes, or (without ``nonfinite``) a float that
            isn't finite.
    """
    kind = type(value)
    if kind is list:
        return [item if type(item) in _SIMPLE else unpack(item, nonfinite) for item in value]
    if kind is dict:
        if len(value) == 1:
            ((key, item),) = value.items()
            if key[:1] == "!":
                return _untag(key, item, nonfinite)
        if any(key[:1] == "!" for key in value):
            raise ValueError("unknown tag")
        return {key: unpack(item, nonfinite) for key, item in value.items()}
    return value


def _untag(tag: str, value: Any, nonfinite: bool) -> Any:
    if tag == "!t":
        return tuple(unpack(_items(value), nonfinite))
    if tag == "!s":
        return set(unpack(_items(value), nonfinite))
    if tag == "!z":
        return frozenset(unpack(_items(value), nonfinite))
    if tag == "!d":
        return {unpack(key, nonfinite): unpack(item, nonfinite) for key, item in _pairs(value)}
    if tag == "!b":
        return _bytes(value)
    if tag == "!c":
        return _complex(value)
    if tag == "!f":
        if not nonfinite:
            raise ValueError("a float that isn't finite")
        return _nonfinite(value)
    raise ValueError("unknown tag")


class Rule:
    """How a case's value is compared: ``exact``, ``float``, ``unordered`` or ``set``."""

    __slots__ = ("abs_tol", "allow_nonfinite", "compare", "rel_tol")

    def __init__(
        self,
        compare: str = "exact",
        rel_tol: float = 1e-9,
        abs_tol: float = 1e-9,
        allow_nonfinite: bool = False,
    ) -> None:
        self.compare, self.rel_tol, self.abs_tol = compare, rel_tol, abs_tol
        self.allow_nonfinite = allow_nonfinite


def matches(reply: Any, expected: Any, rule: Rule) -> bool:
    """Whether the packed value ``reply`` (untrusted) is the packed value ``expected``, under ``rule``.

    Raises:
        ValueError: ``reply`` isn't something that ``pack`` makes, or holds a float that isn't finite
            where the environment doesn't allow one.
    """
    if rule.compare == "float":
        return _close(reply, expected, rule, 0)
    if rule.compare in ("unordered", "set"):
        left, right = _elements(reply, rule), _elements(expected, rule)
        if left is None or right is None:
            return False
        if rule.compare == "set":
            return set(left) == set(right)
        return type(reply) is type(expected) and left == right
    return _canonical(reply, rule, 0) == _canonical(expected, rule, 0)


def _elements(value: Any, rule: Rule) -> list[bytes] | None:
    if type(value) is dict and len(value) == 1:
        ((tag, value),) = value.items()
        if tag not in ("!t", "!s", "!z"):
            return None
    if type(value) is not list:
        return None
    return sorted(_canonical(item, rule, 1) for item in value)


def _canonical(value: Any, rule: Rule, depth: int) -> bytes:
    """Bytes that are equal just where two values are equal and of the same types throughout."""
    kind = type(value)
    if kind is float:
        return encode(value + 0.0)
    if kind in _SIMPLE:
        return encode(value)
    if depth > MAX_DEPTH + 1:
        raise ValueError("value is nested too deeply")
    depth += 1
    if kind is list:
        return b"[" + b",".join([_canonical(item, rule, depth) for item in value]) + b"]"
    if kind is dict:
        if len(value) == 1:
            ((tag, item),) = value.items()
            if tag[:1] == "!":
                return _canonical_tag(tag, item, rule, depth)
        if any(key[:1] == "!" for key in value):
            raise ValueError("unknown tag")
        pairs = sorted((encode(key), _canonical(item, rule, depth)) for key, item in value.items())
        return b"{" + b",".join([key + b":" + item for key, item in pairs]) + b"}"
    raise ValueError("not a packed value")


def _canonical_tag(tag: str, item: Any, rule: Rule, depth: int) -> bytes:
    name = tag.encode("ascii", "replace")
    if tag == "!f":
        if not rule.allow_nonfinite:
            raise ValueError("a float that isn't finite")
        return name + repr(_nonfinite(item)).encode()
    if tag == "!b":
        return name + _bytes(item)
    if tag == "!c":
        value = _complex(item)
        return name + repr((value.real + 0.0, value.imag + 0.0)).encode()
    if tag == "!t":
        return name + _canonical(_items(item), rule, depth)
    if tag in ("!s", "!z"):
        return name + b",".join(sorted({_canonical(element, rule, depth) for element in _items(item)}))
    if tag == "!d":
        pairs = sorted((_canonical(k, rule, depth), _canonical(v, rule, depth)) for k, v in _pairs(item))
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("duplicate key")
        return name + b",".join([key + b":" + element for key, element in pairs])
    raise ValueError("unknown tag")


def _close(reply: Any, expected: Any, rule: Rule, depth: int) -> bool:
    if depth > MAX_DEPTH + 1:
        raise ValueError("value is nested too deeply")
    if type(expected) is float and type(reply) in (int, float):
        try:
            difference = abs(reply - expected)
        except OverflowError:
            return False
        close: bool = difference <= max(rule.abs_tol, rule.rel_tol * abs(expected))
        return close
    if type(expected) is list:
        return (
            type(reply) is list
            and len(reply) == len(expected)
            and all(_close(left, right, rule, depth + 1) for left, right in zip(reply, expected))
        )
    if type(expected) is dict and not any(key in ("!s", "!z", "!d", "!f", "!b", "!c") for key in expected):
        return (
            type(reply) is dict
            and reply.keys() == expected.keys()
            and all(_close(reply[key], expected[key], rule, depth + 1) for key in expected)
        )
    return _canonical(reply, rule, depth) == _canonical(expected, rule, depth)
