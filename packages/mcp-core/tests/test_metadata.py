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
def test_own_meta_members_accepted(members: JsonObject) -> None:
    check_members(members)


@pytest.mark.parametrize(
    "key", ["", "-a", "a-", "a b", "1.com/x", "a..b/x", "a./x", "a/b/c", "com.example/-", "é", "a\n"]
)
@pytest.mark.spec("meta.prefix-format", "meta.prefix-label-format", "meta.name-format", "meta.label-format")
def test_invalid_meta_key_rejected_with_name(key: str) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(repr(key))):
        check_members({key: 1})


def test_meta_key_not_string_rejected() -> None:
    with pytest.raises(LocalProtocolError, match="1 is not a valid key of _meta"):
        check_members({1: 1})  # type: ignore[dict-item]  # as in code without a type checker


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
def test_reserved_meta_keys_rejected(key: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"'{key}' of _meta is set by the protocol itself"):
        check_members({key: "x"})


@pytest.mark.parametrize(("key", "value"), [("traceparent", "1"), ("tracestate", ""), ("baggage", "a"), ("baggage", 1)])
@pytest.mark.spec("meta.trace-context-format", "meta.baggage-format")
def test_invalid_trace_context_rejected(key: str, value: JsonValue) -> None:
    with pytest.raises(LocalProtocolError, match=f"the W3C format of {key}"):
        check_members({key: value})


@pytest.mark.spec("meta.trace-context-format")
@pytest.mark.parametrize(
    ("text", "valid"),
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
def test_traceparent_format_checked(text: JsonValue, valid: bool) -> None:
    assert is_traceparent(text) is valid


@pytest.mark.spec("meta.trace-context-format")
@pytest.mark.parametrize(
    ("text", "valid"),
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
def test_tracestate_format_checked(text: JsonValue, valid: bool) -> None:
    assert is_tracestate(text) is valid


@pytest.mark.spec("meta.baggage-format")
@pytest.mark.parametrize(
    ("text", "valid"),
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
def test_baggage_format_checked(text: JsonValue, valid: bool) -> None:
    assert is_baggage(text) is valid


@pytest.mark.property
@given(st.text(alphabet="a0=;,-_ \t\n%/.@", max_size=60))
def test_arbitrary_trace_context_checked_without_error(text: str) -> None:
    for is_valid in (is_traceparent, is_tracestate, is_baggage):
        assert is_valid(text) in {True, False}


@pytest.mark.spec("capability.extension-id-format")
def test_extension_identifier_has_prefix() -> None:
    assert IDENTIFIER.fullmatch("com.example/search")
    assert not IDENTIFIER.fullmatch("search")
    assert not IDENTIFIER.fullmatch("com.example/")
