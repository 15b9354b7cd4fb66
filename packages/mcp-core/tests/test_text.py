"""Reading and writing of JSON text without loss."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import tracemalloc
from typing import cast

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_core import json_text
from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.json_text import read, write
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.limits import Limits

LIMITS = Limits()
_LARGEST = 10**307

_names = st.text(max_size=8) | st.sampled_from(["id", "method", "a:b", ":", "::", "\\u003a"])
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-_LARGEST, _LARGEST)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _names
)
json_values = st.recursive(
    _scalars,
    lambda children: st.lists(children, max_size=5) | st.dictionaries(_names, children, max_size=5),
    max_leaves=30,
)


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Return whether two values are equal, and distinguish 1, 1.0 and True."""
    return json.dumps(left) == json.dumps(right)


@pytest.mark.property
@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_json_of_other_writer_read_exactly(value: JsonValue, ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()

    found, excess, repetitions = read(data, LIMITS)

    assert _same(found, value)
    assert (excess, repetitions) == (None, ())


@pytest.mark.property
@given(json_values)
def test_json_round_trip(value: JsonValue) -> None:
    data = write(value)

    assert b"\n" not in data
    assert b"\r" not in data
    assert _same(read(data, LIMITS)[0], value)


@st.composite
def _escaped(draw: st.DrawFn, name: str) -> str:
    """Return a JSON string for `name` in which any character may be escaped."""
    return (
        '"' + "".join(f"\\u{ord(c):04{draw(st.sampled_from('xX'))}}" if draw(st.booleans()) else c for c in name) + '"'
    )


@st.composite
def _objects(draw: st.DrawFn, depth: int = 0) -> str:
    """Return the text of an object whose member names may be repeated and escaped."""
    members = []
    for name in draw(st.lists(st.sampled_from(["id", "method", "a:b", ":"]), max_size=4)):
        choices = ["1", '":"', '"\\u003a\\u003A"', '"\\\\u003a"', '"\\"id\\":2"', "[{}]"]
        value = draw(st.sampled_from(choices)) if depth > 2 or draw(st.booleans()) else draw(_objects(depth + 1))
        blank = draw(st.sampled_from(["", " ", "\t\n"]))
        members.append(f"{draw(_escaped(name))}{blank}:{blank}{value}")
    return "{" + ",".join(members) + "}"


@pytest.mark.property
@given(_objects())
@example('{"method":"a","m\\u0065thod":"b"}')
@example('{"id":{"a":1,"a":2}}')
@example('{"a":"\\u003a\\u003a","a":""}')
def test_repeated_member_found_at_any_depth_and_escaping(data: str) -> None:
    repeated: list[set[str]] = []

    def collect(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            repeated.append({name for name in names if names.count(name) > 1})
        return dict(pairs)

    expected = json.loads(data, object_pairs_hook=collect)

    value, excess, repetitions = read(data.encode(), LIMITS)

    assert value == expected
    assert excess is None
    # The first and the last repetition are reported.
    assert [set(names) for _, names in repetitions] == (repeated[:1] + repeated[1:][-1:])


@pytest.mark.parametrize("before", ["{}", "[" * 100 + "]" * 100])
def test_repeated_members_of_many_objects_reported_for_two(before: str) -> None:
    text = f'{{"a":[{before},' + '{"b":0,"b":0},' * 5_000 + '{}],"c":0,"c":0}'
    value, _, repetitions = read(text.encode(), LIMITS)
    assert [names for _, names in repetitions] == [{"b"}, {"c"}]
    assert repetitions[-1][0] is value


def test_repeated_members_in_long_text_reported_without_names() -> None:
    text = '{"a":"' + "x" * 2**20 + '","b":{"c":1,"c":2}}'
    _, _, repetitions = read(text.encode(), LIMITS)
    assert repetitions == (({}, frozenset()),)


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("text", [b"[" + b"[]," * 30_000 + b"[]]", b"[" + b"[]," * 30_000 + b"[}]"])
def test_long_text_read_without_garbage_collection(text: bytes, collecting: bool) -> None:
    collections: list[str] = []

    def note(phase: str, _: object) -> None:
        collections.append(phase)

    if not collecting:
        gc.disable()
    gc.callbacks.append(note)
    try:
        with contextlib.suppress(ValueError):
            read(text, LIMITS)
        assert gc.isenabled() is collecting
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    assert len(collections) <= 2 * 2


def test_repeated_member_reported_with_object() -> None:
    value, _, repetitions = read(b'{"a":{"x":1},"a":{"x":2,"y":3}}', LIMITS)

    ((container, names),) = repetitions
    assert container is value
    assert names == {"a"}


@pytest.mark.property
@given(st.binary() | st.text().map(str.encode))
def test_arbitrary_bytes_read_or_rejected(data: bytes) -> None:
    check_any_bytes(data)


def check_any_bytes(data: bytes) -> None:
    """Compare the result with another strict reader."""
    try:
        value = read(data, LIMITS)[0]
    except ValueError:
        return
    assert _same(value, json.loads(data.decode("utf-8")))


@pytest.mark.parametrize(
    "number",
    [
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        10**19,
        10**20 + 1,
        -(10**20) - 1,
        12345678901234567890123,
        10**307,
    ],
)
def test_integers_beyond_64_bits_exact_in_both_directions(number: int) -> None:
    value = {"n": [number, (number,)], "m": number}

    data = write(cast("JsonValue", value))  # a tuple is written as an array

    assert data == b'{"n":[%d,[%d]],"m":%d}' % (number, number, number)
    assert read(data, LIMITS)[0] == {"n": [number, [number]], "m": number}


def test_large_float_remains_float() -> None:
    assert read(b"[1e22, 18446744073709551616.0]", LIMITS)[0] == [1e22, 18446744073709551616.0]
    assert all(isinstance(item, float) for item in cast("list[JsonValue]", read(b"[1e22, 1e19]", LIMITS)[0]))  # a list


def test_orjson_writes_sign_in_exponents() -> None:
    """Check that the text of a float that was an integer has the character that the reader searches for."""
    assert json_text._EXPONENT in orjson.dumps(float(2**64))
    assert json_text._EXPONENT in orjson.dumps(float(-(2**63) - 1025))
    assert json_text._EXPONENT in orjson.dumps(1e308)


def _nested(depth: int, kind: str) -> bytes:
    opening, closing = {"array": (b"[", b"]"), "object": (b'{"a":', b"}")}[kind]
    return opening * (depth - 1) + (b"[]" if kind == "array" else b"{}") + closing * (depth - 1)


@pytest.mark.parametrize("kind", ["array", "object"])
@pytest.mark.parametrize("allowed", [1, 2, 128, 250])
def test_nesting_depth_counted_exactly(allowed: int, kind: str) -> None:
    limits = Limits(nesting_depth=allowed)

    assert read(_nested(allowed, kind), limits)[1] is None
    excess = read(_nested(allowed + 1, kind), limits)[1]

    assert excess is not None
    assert (excess.setting, excess.observed, excess.allowed) == ("Limits.nesting_depth", allowed + 1, allowed)


@pytest.mark.parametrize("blanks", [0, 9_000])
def test_nesting_depth_counted_exactly_in_long_text(blanks: int) -> None:
    """Check long texts, which skip the search for brackets."""
    assert read(_nested(128, "array") + b" " * blanks, LIMITS)[1] is None
    assert read(_nested(129, "array") + b" " * blanks, LIMITS)[1] is not None


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    data = orjson.dumps(["[{" * 500, *([[]] * 500)])

    assert read(data, LIMITS)[1] is None


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_excessive_depth_rejected_without_recursion(depth: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        read(b"[" * depth + b"]" * depth, LIMITS)


def test_array_items_counted() -> None:
    limits = Limits(array_items=10, object_members=1_000)

    assert read(orjson.dumps({"a": [[1, 2.5]] * 10}), limits)[1] is None
    assert read(orjson.dumps({"a": list(range(10)), "b": list(range(10))}), limits)[1] is None
    excess = read(orjson.dumps({"a": ["x", list(range(11))]}), limits)[1]

    assert isinstance(excess, LimitExceeded)
    assert (excess.setting, excess.observed, excess.allowed) == ("Limits.array_items", 11, 10)


def test_object_members_counted() -> None:
    limits = Limits(array_items=1_000, object_members=10)

    assert read(orjson.dumps([{str(n): n for n in range(10)}] * 4), limits)[1] is None
    excess = read(orjson.dumps([{str(n): n for n in range(11)}]), limits)[1]

    assert isinstance(excess, LimitExceeded)
    assert (excess.setting, excess.observed, excess.allowed) == ("Limits.object_members", 11, 10)


def test_commas_in_strings_do_not_count_as_items() -> None:
    assert read(b'"' + b"," * 50 + b'"', Limits(array_items=10, object_members=10)) == ("," * 50, None, ())


def test_shortest_text_over_item_limit_rejected() -> None:
    excess = read(b"[1,1]", Limits(array_items=1))[1]

    assert excess is not None


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "the value is not a finite number"),
        ({"a": [1, math.inf]}, r"a\[1\] is not a finite number"),
        ({"a": {"b": [{"c": -math.inf, "d": None}]}}, r"a\.b\[0\]\.c is not a finite number"),
        ({"n": 2**70, "a": math.nan}, "a is not a finite number"),
        ({"a": "\ud800"}, "a cannot be written"),
        ({"a": {"b\ud800": 1}}, "the name 'b\\\\ud800' of a member of a cannot be written"),
        ({1: 2}, "the name 1 of a member of the value cannot be written"),
        ({"a": (1, b"x")}, r"a\[1\] cannot be written"),
        ({"a": 2**70, "b": 10**309}, "b cannot be written"),
        ({"a": 10**5_000}, "a cannot be written"),
        ((1, {2: 3}), "the name 2 of a member of "),
    ],
)
def test_value_not_json_rejected_with_path(value: object, place: str) -> None:
    with pytest.raises(LocalProtocolError, match=place):
        write(cast("JsonValue", value))  # the test needs a value that is not JSON


def test_value_too_deep_or_recursive_rejected() -> None:
    deep: JsonValue = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(LocalProtocolError, match="a value nested more than 254 levels deep cannot be written"):
        write(deep)

    loop: list[JsonValue] = [2**70]
    loop += [loop, loop, {"again": loop}]
    with pytest.raises(LocalProtocolError, match="a value that contains itself cannot be written"):
        write(loop)


def test_null_and_text_null_written() -> None:
    value: JsonValue = {"a": None, "b": "null", "c": [1.5, True, {"d": None}]}

    assert json.loads(write(value)) == value


def test_fragment_copied_beside_any_value() -> None:
    fragment = cast("JsonValue", orjson.Fragment(b'{"ready":null}'))  # a fragment in place of a value

    assert write({"a": fragment, "n": None}) == b'{"a":{"ready":null},"n":null}'
    assert write({"a": fragment, "n": 2**64}) == b'{"a":{"ready":null},"n":18446744073709551616}'
    with pytest.raises(LocalProtocolError, match="n is not a finite number"):
        write({"a": fragment, "n": math.nan})
    with pytest.raises(LocalProtocolError, match=r"b cannot be written"):
        write({"a": fragment, "b": "\udfff"})


def test_shared_object_written_repeatedly() -> None:
    shared: JsonValue = {"n": 2**64}

    assert write([shared, shared]) == b'[{"n":18446744073709551616},{"n":18446744073709551616}]'


def test_write_does_not_change_value() -> None:
    value: JsonValue = {"a": [2**64, {"b": 2**65}]}

    write(value)

    assert value == {"a": [2**64, {"b": 2**65}]}


def test_writer_without_depth_limit_rejected_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orjson, "dumps", lambda value: b"")

    with pytest.raises(ImportError, match="any depth"):
        json_text._writable_depth()


@pytest.mark.parametrize("members", [1, 150, 1_000])
def test_repeated_members_found_in_long_text(members: int) -> None:
    padding = "x" * (200 * 1024 // members)
    inside = ",".join(f'"name {number}":"{padding}"' for number in range(members))
    value, exceeded, repetitions = read(f"{{{inside}}}".encode(), Limits())
    assert exceeded is None
    assert repetitions == ()
    value, exceeded, repetitions = read(f'{{{inside},"name 0":1}}'.encode(), Limits())
    assert isinstance(value, dict)
    assert value["name 0"] == 1
    assert [names for _, names in repetitions] == [frozenset({"name 0"})]


@pytest.mark.parametrize("items", [1, 1_000])
def test_infinities_rejected_in_long_text(items: int) -> None:
    value: JsonValue = [*["x" * (200 * 1024 // items)] * items, float("inf")]
    with pytest.raises(LocalProtocolError, match="not a finite number"):
        write(value)
    assert orjson.loads(write(["null" * 50_000, None])) == ["null" * 50_000, None]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("[1.5, 1", [1.5, 1]),
        ("[9223372036854775809000, 1", [9223372036854775809000, 1]),
        ("[[[[1]]], 1", [[[[1]]], 1]),
        ('[{"a": {"b:": 1}}, 1', [{"a": {"b:": 1}}, 1]),
    ],
)
def test_long_text_with_few_values_read_exactly(before: str, expected: list[JsonValue]) -> None:
    padding = "x" * 100_000
    value, exceeded, repetitions = read(f'{before}, "{padding}"]'.encode(), Limits())
    assert exceeded is None
    assert repetitions == ()
    assert value == [*expected, padding]
    _, exceeded, _ = read(f'{before}, [[[[[[]]]]]], "{padding}"]'.encode(), Limits(nesting_depth=6))
    assert isinstance(exceeded, LimitExceeded)


def test_line_end_written_on_demand() -> None:
    assert write({"a": 1}, line=True) == b'{"a":1}\n'
    assert write([2**70], line=True) == b"[1180591620717411303424]\n"


@pytest.mark.parametrize("value", ["x" * 1_000_000, [1] * 300_000], ids=["string", "integers"])
def test_long_text_takes_no_more_memory_than_its_bytes(value: JsonValue) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        written = write(value)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1.1 * len(written)
