from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LocalProtocolError
from mcp_core.features.meta import IDENTIFIER, check_members, is_baggage, is_traceparent, is_tracestate
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"count": 1},
        {"com.example/": None},
        {"com.example/a.b_c-1": {"x": []}},
        {"com.example.mcp/name": 1},
        {
            "traceparent": PARENT,
            "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "baggage": "a=1;p;q=2, b = %20",
        },
    ],
)
@pytest.mark.spec("meta.prefix-format", "meta.prefix-label-format", "meta.name-format", "meta.label-format")
def test_an_application_may_put_its_own_members_into_meta(members: JsonObject) -> None:
    check_members(members)


@pytest.mark.parametrize(
    "key", ["", "-a", "a-", "a b", "1.com/x", "a..b/x", "a./x", "a/b/c", "com.example/-", "é", "a\n"]
)
@pytest.mark.spec("meta.prefix-format", "meta.prefix-label-format", "meta.name-format", "meta.label-format")
def test_what_is_no_key_is_refused_by_name(key: str) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(repr(key))):
        check_members({key: 1})


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="1 is not a valid key of _meta"):
        check_members({1: 1})  # type: ignore[dict-item]  # as whoever has no type checker writes


@pytest.mark.parametrize(
    "key",
    [
        "progressToken",
        "io.modelcontextprotocol/clientInfo",
        "com.mcp.tools/x",
        "dev.mcp/",
        "mcp.dev/x",
        "modelcontextprotocol/x",
    ],
)
@pytest.mark.spec("meta.reserved-keys-not-redefined", "meta.reserved-prefix-any", "meta.reserved-prefix-second-label")
def test_keys_of_the_protocol_are_refused(key: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"'{key}' of _meta is set by the protocol itself"):
        check_members({key: "x"})


@pytest.mark.parametrize(("key", "value"), [("traceparent", "1"), ("tracestate", ""), ("baggage", "a"), ("baggage", 1)])
@pytest.mark.spec("meta.trace-context-format", "meta.baggage-format")
def test_a_trace_that_is_none_is_refused(key: str, value: JsonValue) -> None:
    with pytest.raises(LocalProtocolError, match=f"the W3C format of {key}"):
        check_members({key: value})


@pytest.mark.spec("meta.trace-context-format")
@pytest.mark.parametrize(
    ("text", "right"),
    [
        (PARENT, True),
        (PARENT.replace("00-", "cc-", 1) + "-more", True),
        (PARENT + "-more", False),
        (PARENT + "\n", False),
        (PARENT.upper(), False),
        (PARENT.replace("00-", "ff-", 1), False),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01", False),
        ("", False),
        (None, False),
    ],
)
def test_a_traceparent_has_four_parts(text: JsonValue, right: bool) -> None:
    assert is_traceparent(text) is right


@pytest.mark.spec("meta.trace-context-format")
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a=1", True),
        ("a=1,,\tb@c=2 ", True),
        ("a=" + "x" * 256, True),
        ("a=" + "x" * 257, False),
        ("a=x=y", False),
        ("A=1", False),
        ("a=", False),
        (",", False),
        (",".join(f"k{n}=1" for n in range(32)), True),
        (",".join(f"k{n}=1" for n in range(33)), False),
        (7, False),
    ],
)
def test_a_tracestate_is_a_list_of_pairs(text: JsonValue, right: bool) -> None:
    assert is_tracestate(text) is right


@pytest.mark.spec("meta.baggage-format")
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("userId=alice,serverNode=DF%2028,isProduction=false", True),
        ("a=", True),
        ("a=1;p=2;q , b=2", True),
        ("a=1;", False),
        ("a", False),
        ("a=é", False),
        ("a b=1", False),
        ("a=" + "x" * 8_190, True),
        ("a=" + "x" * 8_191, False),
        ({}, False),
    ],
)
def test_baggage_is_a_list_of_entries(text: JsonValue, right: bool) -> None:
    assert is_baggage(text) is right


@pytest.mark.property
@given(st.text(alphabet="a0=;,-_ \t\n%/.@", max_size=60))
def test_whatever_is_said_of_a_trace_is_judged_without_an_error(text: str) -> None:
    for judge in (is_traceparent, is_tracestate, is_baggage):
        assert judge(text) in {True, False}


@pytest.mark.spec("capability.extension-id-format")
def test_the_name_of_an_extension_has_a_prefix() -> None:
    assert IDENTIFIER.fullmatch("com.example/search")
    assert not IDENTIFIER.fullmatch("search")
    assert not IDENTIFIER.fullmatch("com.example/")
