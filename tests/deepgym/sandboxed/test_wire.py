"""Strict JSON lines: what Python's own parser lets through is refused, always as a ``ValueError``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym.sandboxed.wire import clean, decode, encode, frame

HOSTILE = {
    "nothing": b"",
    "a space": b" ",
    "leading space": b" 1",
    "trailing space": b"1 ",
    "trailing text": b"1x",
    "two values": b"1 2",
    "a word": b"yes",
    "a byte order mark": b"\xef\xbb\xbf1",
    "bytes that aren't UTF-8": b'"\xff\xfe"',
    "an encoded surrogate": b'"\xed\xa0\x80"',
    "NaN": b"NaN",
    "Infinity": b"[Infinity]",
    "-Infinity": b'{"a":-Infinity}',
    "a number that overflows": b"1e999",
    "a negative number that overflows": b"[-1e999]",
    "a very long number that overflows": b"1" * 400 + b".0e99999",
    "an integer of 5000 digits": b"1" * 5000,
    "a duplicate key": b'{"a":1,"a":2}',
    "a nested duplicate key": b'[{"b":{"a":1,"a":1}}]',
    "a duplicate key by an escape": b'{"a":1,"\\u0061":2}',
    "a list bomb": b"[" * 1_000_000,
    "a closed list bomb": b"[" * 100_000 + b"]" * 100_000,
    "an object bomb": b'{"a":' * 100_000,
    "an open string": b'"abc',
    "a raw control character": b'"a\nb"',
    "a NUL": b"\x00",
    "single quotes": b"{'a':1}",
    "a trailing comma": b"[1,]",
    "a key that isn't text": b"{1:2}",
    "a plus sign": b"+1",
    "a hex number": b"0x10",
    "a comment": b"1//",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_isnt_one_strict_json_value_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its text is the parser's own
        decode(data)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_value_error(data: bytes) -> None:
    try:
        decode(data)
    except ValueError:
        return


@settings(deadline=None)
@given(st.text(alphabet='[]{}",:0123456789.eE+-truefalsn\\u', max_size=40))
def test_no_text_of_json_s_own_characters_raises_anything_but_a_value_error(text: str) -> None:
    try:
        value = decode(text.encode())
    except ValueError:
        return
    assert decode(encode(value)) == value


GOOD: list[tuple[bytes, Any]] = [
    (b"1", 1),
    (b"-0", 0),
    (b"1.5", 1.5),
    (b"1e3", 1000.0),
    (b'"\\ud800"', "\ud800"),
    (b'"\\n"', "\n"),
    ('"é"'.encode(), "é"),
    (b"[ 1 , 2 ]", [1, 2]),
    (b'{"a":{"a":1}}', {"a": {"a": 1}}),
    (b"null", None),
    (b"1" * 4000, int("1" * 4000)),
]


@pytest.mark.parametrize(("data", "value"), GOOD, ids=lambda item: repr(item)[:30])
def test_one_strict_json_value_is_read(data: bytes, value: Any) -> None:
    found = decode(data)
    assert found == value
    assert type(found) is type(value)


_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=15,
)


@settings(deadline=None)
@given(_JSON)
def test_encoding_gives_one_ascii_line_that_decodes_to_the_same_value(value: Any) -> None:
    line = encode(value)
    assert line.isascii()
    assert b"\n" not in line
    assert decode(line) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]], ids=repr)
def test_a_float_that_isnt_finite_is_never_written(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(value)


@pytest.mark.parametrize("value", [pytest.param(object(), id="object"), {1}, b"x", 1j], ids=repr)
def test_a_type_that_json_doesnt_have_is_never_written(value: Any) -> None:
    with pytest.raises(TypeError):
        encode(value)


def test_a_value_that_holds_itself_is_a_value_error() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="nested too deeply"):
        encode(value)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_a_frame_is_the_length_in_four_bytes_and_then_the_data(size: int) -> None:
    data = b"x" * size
    framed = frame(data)
    assert int.from_bytes(framed[:4], "little") == size
    assert framed[4:] == data


@settings(deadline=None)
@given(
    st.text(alphabet=st.one_of(st.characters(), st.characters(categories=["Cs"])), max_size=50),
    st.integers(0, 60),
)
def test_cleaned_text_is_short_enough_and_always_encodable(text: str, limit: int) -> None:
    found = clean(text, limit)
    assert len(found) <= limit
    found.encode("utf-8")


def test_clean_text_stays_as_it_is() -> None:
    assert clean("straße 😀\n") == "straße 😀\n"
    assert clean("a\ud800b\udfff") == "a\ufffdb\ufffd"
