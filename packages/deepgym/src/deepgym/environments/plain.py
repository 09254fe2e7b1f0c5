"""What an environment may hold: plain values, and relative paths that stay where they are put."""

from __future__ import annotations

import ast
import warnings
from typing import Annotated, Any

from pydantic import Field

from deepgym.sandboxed.values import pack, unpack

__all__ = ["Text", "check_path", "check_paths", "check_value", "packed", "parsed", "unpacked"]

MAX_DEPTH = 48
MAX_INT_BITS = 14_000  # below CPython's limit of 4300 digits for reading an integer back
Text = Annotated[str, Field(max_length=1 << 20, strict=True)]
_ATOMS = frozenset((int, float, str, bytes, bool, complex, type(None)))


def check_value(value: Any, *, nonfinite: bool = True, where: str = "value", depth: int = 0) -> None:
    """Accept a value that crosses the wall unchanged.

    Raises:
        ValueError: another type (subclasses included), a float that isn't finite where ``nonfinite`` is
            false, an integer of more than about 4200 digits, text that isn't valid Unicode, or nesting
            beyond 48 levels. The message says where in the value, what stands there and what would do.
    """
    kind = type(value)
    if kind in (list, tuple, set, frozenset, dict):
        if depth >= MAX_DEPTH:
            raise ValueError(f"{where} is nested deeper than {MAX_DEPTH} levels; use flatter data")
        if kind is dict:
            for key, item in value.items():
                check_value(key, nonfinite=nonfinite, where=f"a key of {where}", depth=depth + 1)
                check_value(item, nonfinite=nonfinite, where=f"{where}[{key!r:.40}]", depth=depth + 1)
            return
        for index, item in enumerate(value):
            check_value(item, nonfinite=nonfinite, where=f"{where}[{index}]", depth=depth + 1)
        return
    if kind not in _ATOMS:
        raise ValueError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which can't cross into a sandbox; use "
            "None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset or dict"
        )
    if kind is int and value.bit_length() > MAX_INT_BITS:
        raise ValueError(f"{where} is an integer of {value.bit_length()} bits; at most {MAX_INT_BITS} cross")
    if kind is str and not _is_unicode(value):
        raise ValueError(f"{where} holds a lone surrogate, which isn't valid Unicode; use bytes")
    if not nonfinite and kind in (float, complex) and value - value != 0:
        raise ValueError(f"{where} is {value!r}; set allow_nonfinite = true to compare NaN and infinity")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parsed(source: str) -> ast.Module:
    """The syntax tree of trusted source, without the warnings that its escape sequences may deserve.

    Raises:
        SyntaxError, ValueError: not Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def packed(value: Any) -> Any:
    """``value`` as tagged JSON, sets in a fixed order, so that equal environments have equal digests."""
    return _ordered(pack(value))


def _ordered(value: Any) -> Any:
    import json

    if type(value) is list:
        return [_ordered(item) for item in value]
    if type(value) is dict:
        out = {key: _ordered(item) for key, item in value.items()}
        for tag in ("!s", "!z"):
            if len(out) == 1 and tag in out:
                out[tag] = sorted(out[tag], key=lambda item: json.dumps(item, sort_keys=True))
        return out
    return value


def unpacked(value: Any) -> Any:
    """The plain value of tagged JSON.

    Raises:
        ValueError: a tag that isn't one of ``!t !s !z !b !d !c !f``, or one with the wrong content.
    """
    try:
        return unpack(value)
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise ValueError(
            f'not a tagged value ({error}): write {{"!t": [..]}} for a tuple, "!s" a set, "!z" a frozenset, '
            '"!b" bytes as hex, "!d" a dict as [[key, value], ..], "!c" a complex as [re, im], '
            '"!f" "nan" or "inf"'
        ) from None


def check_path(path: str) -> str:
    """Accept a relative path with forward slashes that can't leave its folder.

    Raises:
        ValueError: anything else, with the reason and an example.
    """
    parts = path.split("/")
    bad = (
        not path
        or len(path.encode("utf-8", "surrogatepass")) > 512
        or any(part in ("", ".", "..") or len(part.encode("utf-8", "surrogatepass")) > 200 for part in parts)
        or not path.isprintable()
        or "\\" in path
        or ":" in path
    )
    if bad:
        raise ValueError(
            f"{path!r:.80} isn't a safe relative path; use one such as 'data/input.csv' (no '..', no leading "
            "'/', backslash, colon or control character, at most 512 bytes)"
        )
    return path


def check_paths(files: dict[str, str]) -> dict[str, str]:
    """Accept files whose paths are safe and don't need the same name as a file and as a folder."""
    for path, text in files.items():
        check_path(path)
        if not _is_unicode(text):
            raise ValueError(f"the text of {path!r} isn't valid Unicode")
        parents = path.split("/")[:-1]
        for end in range(1, len(parents) + 1):
            if "/".join(parents[:end]) in files:
                raise ValueError(
                    f"{'/'.join(parents[:end])!r} is a file and the folder of {path!r}; rename one"
                )
    return files
