"""Parameters that clients repeat in headers: how tools ask for that, and when a server believes the headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.http_requests import (
    control,
    error_code,
    http_peer,
    require,
    shown,
    succeeded,
    with_header,
    without,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_MISMATCH: Final = -32020
_NEEDS: Final = ("any:tools",)
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
_KEY: Final = "x-mcp-header"
_PRIMITIVES: Final = ("string", "integer", "boolean")


# --- how tools ask for it ----------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Mark:
    """One `x-mcp-header`."""

    tool: JsonValue
    value: JsonValue
    schema: JsonObject
    reachable: bool


def _marks(server: ServerUnderTest) -> list[_Mark]:
    """All of them.

    Raises:
        NotApplicable: There are none.
    """
    tools = server.inventory.lists["tools"]
    found = [mark for tool in tools for mark in _in_schema(tool.get("name"), tool.get("inputSchema"), reachable=True)]
    if not found:
        raise NotApplicable("no tool asks for parameters in headers")
    return found


def _in_schema(tool: JsonValue, schema: JsonValue, *, reachable: bool, root: bool = True) -> Iterator[_Mark]:
    if isinstance(schema, list):
        for each in schema:
            yield from _in_schema(tool, each, reachable=False, root=False)
    if not isinstance(schema, dict):
        return
    if _KEY in schema:
        yield _Mark(tool=tool, value=schema[_KEY], schema=schema, reachable=reachable and not root)
    for name, member in schema.items():
        if name == "properties" and isinstance(member, dict):
            for each in member.values():
                yield from _in_schema(tool, each, reachable=reachable, root=False)
        elif name not in ("const", "default", "enum", "examples"):
            inner = (
                member.values()
                if name in ("$defs", "definitions", "patternProperties") and isinstance(member, dict)
                else (member,)
            )
            for each in inner:
                yield from _in_schema(tool, each, reachable=False, root=False)


@check(
    "header.mark-token",
    proves=("header.xmcp-not-empty", "header.xmcp-token-syntax", "header.xmcp-no-control-chars"),
    needs=_NEEDS,
)
async def mark_token(server: ServerUnderTest) -> None:
    """Every x-mcp-header is a token as HTTP has it, and not empty."""
    for mark in _marks(server):
        if not isinstance(mark.value, str) or _TOKEN.fullmatch(mark.value) is None:
            raise Deviation(f"the {_KEY} of {brief(mark.tool)} to be a token", brief(mark.value))


@check("header.mark-unique", proves=("header.xmcp-unique-case-insensitive",), needs=_NEEDS)
async def mark_unique(server: ServerUnderTest) -> None:
    """No two parameters of a tool have the same x-mcp-header, in whatever letters."""
    seen: set[tuple[str, str]] = set()
    for mark in _marks(server):
        key = (str(mark.tool), str(mark.value).lower())
        if key in seen:
            raise Deviation(f"each {_KEY} of {brief(mark.tool)} once", brief(mark.value))
        seen.add(key)


@check("header.mark-primitive", proves=("header.xmcp-primitive-only",), needs=_NEEDS)
async def mark_primitive(server: ServerUnderTest) -> None:
    """x-mcp-header stands on strings, integers and booleans alone."""
    for mark in _marks(server):
        kinds = mark.schema.get("type")
        allowed = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        if not allowed or any(each not in _PRIMITIVES for each in allowed):
            raise Deviation(f"a string, integer or boolean with {_KEY} in {brief(mark.tool)}", brief(mark.schema))


@check("header.mark-reachable", proves=("header.xmcp-statically-reachable",), needs=_NEEDS)
async def mark_reachable(server: ServerUnderTest) -> None:
    """x-mcp-header stands only where `properties` alone lead to."""
    for mark in _marks(server):
        if not mark.reachable:
            raise Deviation(f"{_KEY} in {brief(mark.tool)} only behind `properties`", brief(mark.schema))


# --- whether the headers are believed ----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Param:
    """A parameter that a tool wants in a header."""

    tool: str
    argument: str
    header: str
    others: JsonObject
    """What the tool needs besides."""

    def call(self, peer: HttpConnection, value: JsonValue) -> JsonObject:
        """A call with a value."""
        return peer.message("tools/call", {"name": self.tool, "arguments": {**self.others, self.argument: value}})


def _param(server: ServerUnderTest, kind: str = "string") -> _Param:
    """The first that there is of a type.

    Raises:
        NotTestable: There is none.
    """
    for tool in server.inventory.lists.get("tools", ()):
        schema = tool.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        for name, member in (properties if isinstance(properties, dict) else {}).items():
            header = member.get(_KEY) if isinstance(member, dict) else None
            kinds = member.get("type") if isinstance(member, dict) else None
            if isinstance(header, str) and kind in (kinds if isinstance(kinds, list) else [kinds]):
                required = schema.get("required") if isinstance(schema, dict) else None
                others = [each for each in (required if isinstance(required, list) else []) if each != name]
                if not others:
                    return _Param(tool=str(tool["name"]), argument=name, header=f"Mcp-Param-{header}", others={})
    raise NotTestable(f"no tool wants a parameter of type {kind} in a header, and nothing besides")


async def _written(
    server: ServerUnderTest, value: JsonValue, header: str | None, deviant: str = "", *, kind: str = "string"
) -> HttpResponse:
    """What a call comes to whose header is written so, after one whose header is as it should be."""
    peer = http_peer(server)
    param = _param(server, kind)
    request = await control(peer, param.call(peer, value))
    headers = without(peer.headers(request), param.header)
    if header is not None:
        headers = with_header(headers, param.header, header)
    return await peer.look(headers=headers, body=encoded(request), deviant=deviant)


def _believed(answer: HttpResponse, what: str) -> None:
    if not succeeded(answer):
        raise Deviation(f"a result for {what}", shown(answer))


@check("header.param-mismatch", proves=("header.param-mismatch-rejected",), needs=_NEEDS)
async def param_mismatch(server: ServerUnderTest) -> None:
    """A call whose Mcp-Param header says something else than the body is rejected with 400 and -32020."""
    what = "a parameter's header that says something else"
    require(await _written(server, "here", "there", what), {400}, what, code=_MISMATCH)


@check("header.param-missing", proves=("header.param-missing-but-in-body-rejected",), needs=_NEEDS)
async def param_missing(server: ServerUnderTest) -> None:
    """A call with a parameter that lacks its header is rejected with 400 and -32020."""
    what = "a parameter without its header"
    require(await _written(server, "here", None, what), {400}, what, code=_MISMATCH)


@check("header.param-characters", proves=("header.param-invalid-chars-rejected",), needs=_NEEDS)
async def param_characters(server: ServerUnderTest) -> None:
    """A call whose Mcp-Param header has characters that no header may have is rejected with 400 and -32020."""
    what = "a parameter's header that is no ASCII"
    require(await _written(server, "caf\u00e9", "caf\u00e9", what), {400}, what, code=_MISMATCH)


@check("header.param-base64", proves=("header.base64-decoded-before-compare",), needs=_NEEDS)
async def param_base64(server: ServerUnderTest) -> None:
    """An Mcp-Param header in base64 is read as what it stands for."""
    _believed(await _written(server, "Hello", "=?base64?SGVsbG8=?="), "a parameter's header in base64")


@check("header.param-base64-invalid", proves=("header.base64-invalid-rejected",), needs=_NEEDS)
async def param_base64_invalid(server: ServerUnderTest) -> None:
    """An Mcp-Param header whose base64 is none is rejected with 400 and -32020."""
    for header in ("=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?="):
        what = f"a parameter's header {header}"
        require(await _written(server, "Hello", header, what), {400}, what, code=_MISMATCH)


@check("header.param-literal", proves=("header.base64-markers-exact",), needs=_NEEDS)
async def param_literal(server: ServerUnderTest) -> None:
    """An Mcp-Param header that has not both markers of base64, exactly so, is taken as it stands."""
    for value in ("=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?="):
        _believed(await _written(server, value, value), f"the parameter {value}")


@check("header.param-absent", proves=("header.param-null-not-expected",), needs=_NEEDS)
async def param_absent(server: ServerUnderTest) -> None:
    """A call without a parameter needs no header for it."""
    peer = http_peer(server)
    param = _param(server)
    nothing: tuple[JsonObject, ...] = ({}, {param.argument: None})
    for arguments in nothing:
        request = peer.message("tools/call", {"name": param.tool, "arguments": arguments})
        headers = without(peer.headers(request), param.header)
        answer = await peer.look(headers=headers, body=encoded(request))
        if error_code(answer) == _MISMATCH:
            raise Deviation("a call without the parameter to need no header", shown(answer))


@check("header.param-integer", proves=("header.integer-compared-numerically",), needs=_NEEDS)
async def param_integer(server: ServerUnderTest) -> None:
    """An integer in an Mcp-Param header is compared as a number: 42.0 is 42."""
    _believed(await _written(server, 42, "42.0", kind="integer"), "the header 42.0 of the parameter 42")


@check("header.param-unknown", proves=("header.param-unknown-ignored",), needs=_NEEDS)
async def param_unknown(server: ServerUnderTest) -> None:
    """An Mcp-Param header that no parameter asks for changes nothing."""
    peer = http_peer(server)
    name, arguments = server.tool("test_simple_text")
    request = await control(peer, peer.message("tools/call", {"name": name, "arguments": arguments}))
    headers = [*peer.headers(request), ("Mcp-Param-Conformance-None", "whatever")]
    _believed(await peer.look(headers=headers, body=encoded(request)), "an Mcp-Param header that nobody asks for")
