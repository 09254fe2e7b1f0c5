"""Values across the wall: exact types there and back, and hostile replies."""

from __future__ import annotations

import collections
import contextlib
import enum
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym.sandboxed.values import MAX_DEPTH, Rule, matches, pack, unpack
from deepgym.sandboxed.wire import decode, encode

ROUND_TRIPS = [
    (None, None),
    (True, True),
    (0, 0),
    (10**50, 10**50),
    (1.5, 1.5),
    ("", ""),
    ('é\n"', 'é\n"'),
    ("\ud800", "\ud800"),
    ([], []),
    ([1, [2, "x"]], [1, [2, "x"]]),
    ((), {"!t": []}),
    ((1, (2,)), {"!t": [1, {"!t": [2]}]}),
    ({3}, {"!s": [3]}),
    (frozenset([3]), {"!z": [3]}),
    (b"\x00ab", {"!b": "006162"}),
    (1 + 2j, {"!c": ["1.0", "2.0"]}),
    ({}, {}),
    ({"a": (1,)}, {"a": {"!t": [1]}}),
    ({1: 2}, {"!d": [[1, 2]]}),
    ({(1, 2): {3: [4]}}, {"!d": [[{"!t": [1, 2]}, {"!d": [[3, [4]]]}]]}),
    ({"!t": [1]}, {"!d": [["!t", [1]]]}),
    ({"!": 1}, {"!d": [["!", 1]]}),
    ({1: "a", "b": 2}, {"!d": [[1, "a"], ["b", 2]]}),
    (math.inf, {"!f": "inf"}),
    (-math.inf, {"!f": "-inf"}),
]


def shape(value: Any, signed_zero: bool = True) -> Any:
    """Something that is equal for two values just where they are equal and of the same types throughout."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        return kind, tuple(shape(item, signed_zero) for item in value)
    if isinstance(value, dict):
        return kind, frozenset(
            (shape(key, signed_zero), shape(item, signed_zero)) for key, item in value.items()
        )
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(shape(item, signed_zero) for item in value)
    if isinstance(value, (float, complex)) and not signed_zero:
        value += 0
    return kind, repr(value)


def same(left: Any, right: Any) -> bool:
    return bool(shape(left) == shape(right))


@pytest.mark.parametrize(("value", "packed"), ROUND_TRIPS, ids=repr)
def test_a_value_packs_to_its_tagged_form_and_comes_back_exactly(value: Any, packed: Any) -> None:
    assert pack(value) == packed
    assert same(unpack(decode(encode(packed))), value)


def test_nan_comes_back_as_nan() -> None:
    assert pack(math.nan) == {"!f": "nan"}
    assert math.isnan(unpack({"!f": "nan"}))


def _hashables() -> st.SearchStrategy[Any]:
    atoms = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.binary(max_size=8),
        st.complex_numbers(allow_nan=False, allow_infinity=False),
    )
    return st.recursive(
        atoms,
        lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
        max_leaves=6,
    )


def _values() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.one_of(_hashables(), st.just(math.nan), st.characters(categories=["Cs"])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.sets(_hashables(), max_size=4),
            st.dictionaries(st.text(max_size=4), inner, max_size=4),
            st.dictionaries(_hashables(), inner, max_size=4),
        ),
        max_leaves=12,
    )


@settings(deadline=None)
@given(_values())
def test_whatever_can_be_packed_comes_back_through_the_wire_with_the_same_types(value: Any) -> None:
    assert same(unpack(decode(encode(pack(value)))), value)


@settings(deadline=None)
@given(_values())
def test_a_value_matches_itself_under_the_exact_rule(value: Any) -> None:
    packed = pack(value)
    assert matches(decode(encode(packed)), packed, Rule(allow_nonfinite=True))


@settings(deadline=None)
@given(_values(), _values())
def test_two_values_match_exactly_just_where_their_types_and_contents_agree(left: Any, right: Any) -> None:
    agree = shape(left, signed_zero=False) == shape(right, signed_zero=False)
    assert matches(pack(left), pack(right), Rule(allow_nonfinite=True)) is agree


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


class Pairs(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        return [("score", 1)]


class Liar:
    __class__ = int  # type: ignore[assignment]


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [Colour.RED, Text("x"), Pairs(), Liar(), Point(1, 2), object(), len, type, range(3), bytearray(b"x")],
    ids=lambda value: type(value).__name__,
)
def test_a_type_that_could_lie_about_itself_is_refused_by_name(value: Any) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        pack(value)
    with pytest.raises(TypeError, match="can't leave the sandbox"):
        pack([(value,)])


def test_a_key_that_could_lie_about_itself_is_refused() -> None:
    with pytest.raises(TypeError, match="Text"):
        pack({Text("x"): 1})


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter("aab"),
        collections.defaultdict(list, a=[1]),
        collections.OrderedDict([("b", 1), ("a", 2)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dicts_of_the_standard_library_cross_as_the_plain_dict_they_equal(value: Any) -> None:
    assert same(unpack(pack(value)), dict(value))


def test_a_value_may_be_nested_64_levels_and_no_deeper() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert same(unpack(pack(value)), value)
    with pytest.raises(ValueError, match="nested deeper than 64"):
        pack([value])


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="nested"):
        pack(value)


MALFORMED = [
    {"!q": 1},
    {"!": 1},
    {"!t": 5},
    {"!t": None},
    {"!t": "ab"},
    {"!t": {"a": 1}},
    {"!s": [[1]]},
    {"!s": [{"a": 1}]},
    {"!s": "ab"},
    {"!z": 1},
    {"!d": [[1]]},
    {"!d": [[1, 2, 3]]},
    {"!d": ["ab"]},
    {"!d": {"ab": 1}},
    {"!d": [[[1], 2]]},
    {"!b": "zz"},
    {"!b": "a"},
    {"!b": " 61 "},
    {"!b": 5},
    {"!b": None},
    {"!c": ["1"]},
    {"!c": []},
    {"!c": {}},
    {"!c": "12"},
    {"!c": ["a", "b"]},
    {"!c": ["1", "2", "3"]},
    {"!f": "abc"},
    {"!f": "1.5"},
    {"!f": 5},
    {"!f": None},
    {"!t": [1], "a": 2},
    {"!t": [1], "!s": [2]},
    [[{"a": {"!x": 1}}]],
]


@pytest.mark.parametrize("value", MALFORMED, ids=repr)
def test_what_pack_never_makes_is_refused_on_the_way_back(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        unpack(value)


def _json() -> st.SearchStrategy[Any]:
    keys = st.one_of(
        st.sampled_from(["!t", "!s", "!z", "!d", "!b", "!c", "!f", "!q", "a"]), st.text(max_size=3)
    )
    atoms = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from([0.5, 1.0, -0.0]),
        st.sampled_from(["nan", "inf", "6162", "1.0", "", "x"]),
    )
    return st.recursive(
        atoms,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=2)),
        max_leaves=10,
    )


@settings(deadline=None)
@given(_json())
def test_any_json_unpacks_or_is_refused_with_a_value_or_type_error(value: Any) -> None:
    try:
        unpack(value)
    except (ValueError, TypeError):
        return


@settings(deadline=None)
@given(_json(), _values(), st.sampled_from(["exact", "float", "unordered", "set"]), st.booleans())
def test_any_reply_is_compared_or_refused_with_a_value_error(
    reply: Any, expected: Any, compare: str, nonfinite: bool
) -> None:
    try:
        found = matches(reply, pack(expected), Rule(compare, allow_nonfinite=nonfinite))
    except ValueError:
        return
    assert found in (True, False)


EXACT = [
    (1, 1, True),
    (1, True, False),
    (0, False, False),
    (1, 1.0, False),
    (0.0, -0.0, True),
    (None, False, False),
    ("1", 1, False),
    ([1, 2], [2, 1], False),
    ([1, 2], (1, 2), False),
    ((1, 2), (1, 2), True),
    ({1, 2}, {2, 1}, True),
    ({1}, frozenset([1]), False),
    ({1}, {True}, False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1}, {"a": 1.0}, False),
    ({1: "x"}, {1: "x"}, True),
    ({1: "x"}, {"1": "x"}, False),
    ({1: "x"}, {True: "x"}, False),
    ({1: 2, 3: 4}, {3: 4, 1: 2}, True),
    (b"a", "61", False),
    ([b"a"], [b"a"], True),
    (1j, 1j, True),
    ((1 + 0j).conjugate(), 1 + 0j, True),
    ({"!t": [1]}, (1,), False),
    ("\ud800", "\ud800", True),
    ("\ud800", "\ufffd", False),
]


@pytest.mark.parametrize(("reply", "expected", "equal"), EXACT, ids=repr)
def test_the_exact_rule_wants_the_same_types_throughout(reply: Any, expected: Any, equal: bool) -> None:
    assert matches(pack(reply), pack(expected), Rule()) is equal
    assert matches(pack([[reply]]), pack([[expected]]), Rule()) is equal


FLOATS = [
    (1.0, 1.0, True),
    (1.0 + 1e-10, 1.0, True),
    (1.0 + 1e-6, 1.0, False),
    (1, 1.0, True),
    (True, 1.0, False),
    ("1.0", 1.0, False),
    (None, 0.0, False),
    (1.0, 1, False),
    (1e12 + 1, 1e12, True),
    (1e12 + 1e4, 1e12, False),
    (10**400, 1.0, False),
    (1.7e308, -1.7e308, False),
    ([1.0, 2.0 + 1e-12], [1.0, 2.0], True),
    ([1.0], [1.0, 2.0], False),
    ([1.0, 2.0], (1.0, 2.0), False),
    ((1.0, 2.0 + 1e-12), (1.0, 2.0), True),
    ({"a": 1.0 + 1e-12}, {"a": 1.0}, True),
    ({"a": 1.0}, {"b": 1.0}, False),
    ({"a": 1.0, "b": 1.0}, {"a": 1.0}, False),
    (["x", 1.0 + 1e-12], ["x", 1.0], True),
    (["x", 1.0], ["y", 1.0], False),
    ([1, 2.0], [1, 2.0], True),
    (math.nan, 1.0, False),
    (math.inf, 1.0, False),
    (math.inf, math.inf, True),
    (-math.inf, math.inf, False),
    (1e308, math.inf, False),
    (math.nan, math.nan, True),
]


@pytest.mark.parametrize(("reply", "expected", "close"), FLOATS, ids=repr)
def test_the_float_rule_allows_its_tolerance_and_nothing_else(reply: Any, expected: Any, close: bool) -> None:
    assert matches(pack(reply), pack(expected), Rule("float", allow_nonfinite=True)) is close


def test_the_float_rule_takes_the_tolerances_that_it_is_given() -> None:
    assert matches(1.09, 1.0, Rule("float", rel_tol=0.0, abs_tol=0.1))
    assert not matches(1.11, 1.0, Rule("float", rel_tol=0.0, abs_tol=0.1))
    assert matches(109.0, 100.0, Rule("float", rel_tol=0.1, abs_tol=0.0))
    assert not matches(111.0, 100.0, Rule("float", rel_tol=0.1, abs_tol=0.0))


UNORDERED = [
    ([1, 2, 3], [3, 1, 2], True),
    ([1, 1, 2], [1, 2, 2], False),
    ([1, 2], [1, 2, 2], False),
    ([[1, 2]], [[2, 1]], False),
    ([1], [True], False),
    ([1], [1.0], False),
    ([], [], True),
    ((1, 2), (2, 1), True),
    ((1, 2), [2, 1], False),
    ([1, 2], {1, 2}, False),
    ({1, 2}, [1, 2], False),
    ({"a": 1}, [1], False),
    (5, [5], False),
    ("ab", ["a", "b"], False),
    (None, [], False),
]


@pytest.mark.parametrize(("reply", "expected", "equal"), UNORDERED, ids=repr)
def test_the_unordered_rule_compares_the_same_elements_in_any_order(
    reply: Any, expected: Any, equal: bool
) -> None:
    assert matches(pack(reply), pack(expected), Rule("unordered")) is equal


SETS = [
    ([1, 2, 2], [2, 1], True),
    ({1, 2}, [2, 1, 1], True),
    ((1, 2), frozenset([1, 2]), True),
    ([1], [1, 2], False),
    ([1], [True], False),
    ([[1, 2]], [[2, 1]], False),
    ([], set(), True),
    ({}, [], False),
    ({"a": 1}, ["a"], False),
    ("ab", ["a", "b"], False),
    (b"a", [97], False),
]


@pytest.mark.parametrize(("reply", "expected", "equal"), SETS, ids=repr)
def test_the_set_rule_compares_distinct_elements_of_any_collection(
    reply: Any, expected: Any, equal: bool
) -> None:
    assert matches(pack(reply), pack(expected), Rule("set")) is equal


@pytest.mark.parametrize("compare", ["exact", "float", "unordered", "set"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reply_that_isnt_finite_is_refused_where_the_environment_doesnt_allow_it(
    compare: str, value: float
) -> None:
    with pytest.raises(ValueError, match="finite"):
        matches(pack([value]), pack(["x"]), Rule(compare))


BOMBS = [
    {"!f": "1.0"},
    {"!f": 1},
    {"!f": ["nan"]},
    {"!q": 1},
    {"!t": 1},
    {"!t": {"a": 1}},
    {"!s": "ab"},
    {"!d": [[1]]},
    {"!d": [[1, 2], [1, 3]]},
    {"!d": 5},
    {"a": 1, "!t": [1]},
]


@pytest.mark.parametrize("reply", BOMBS, ids=repr)
def test_a_malformed_tag_in_a_reply_is_refused(reply: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        matches([reply], [1], Rule(allow_nonfinite=True))


@pytest.mark.parametrize("compare", ["exact", "float", "unordered", "set"])
def test_a_reply_nested_beyond_all_measure_is_refused_and_doesnt_exhaust_the_judge(compare: str) -> None:
    reply: Any = [1]
    for _ in range(900):
        reply = [reply]
    expected: Any = [1]
    for _ in range(40):
        expected = [expected]
    with contextlib.suppress(ValueError):
        assert not matches(reply, expected, Rule(compare))
