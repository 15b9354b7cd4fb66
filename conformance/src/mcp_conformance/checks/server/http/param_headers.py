"""Header parameters: their declaration with `x-mcp-header`, and the validation of `Mcp-Param-*` headers."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
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
from mcp_conformance.checks.probes.near_misses import value_near_misses
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_MISMATCH: Final = -32020
_NEEDS: Final = ("any:tools",)
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
_KEY: Final = "x-mcp-header"
_SAFE: Final = 2**53 - 1
_PRIMITIVES: Final = ("string", "integer", "boolean")


# --- declaration
# --------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Annotation:
    """An `x-mcp-header` annotation."""

    tool: JsonValue
    value: JsonValue
    schema: JsonObject
    reachable: bool


def _annotations(server: ServerUnderTest) -> list[_Annotation]:
    """Return all `x-mcp-header` annotations.

    Raises:
        NotApplicable: No tool has one.
    """
    tools = server.inventory.lists["tools"]
    found = [mark for tool in tools for mark in _in_schema(tool.get("name"), tool.get("inputSchema"), reachable=True)]
    if not found:
        raise NotApplicable("no tool has header parameters")
    return found


def _in_schema(tool: JsonValue, schema: JsonValue, *, reachable: bool, root: bool = True) -> Iterator[_Annotation]:
    if isinstance(schema, list):
        for each in schema:
            yield from _in_schema(tool, each, reachable=False, root=False)
    if not isinstance(schema, dict):
        return
    if _KEY in schema:
        yield _Annotation(tool=tool, value=schema[_KEY], schema=schema, reachable=reachable and not root)
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
    """Every x-mcp-header is a non-empty token of HTTP."""
    for mark in _annotations(server):
        if not isinstance(mark.value, str) or _TOKEN.fullmatch(mark.value) is None:
            raise Deviation(f"the {_KEY} of {brief(mark.tool)} to be a token", brief(mark.value))


@check("header.mark-unique", proves=("header.xmcp-unique-case-insensitive",), needs=_NEEDS)
async def mark_unique(server: ServerUnderTest) -> None:
    """No two parameters of a tool have the same x-mcp-header, regardless of case."""
    used: set[tuple[str, str]] = set()
    for mark in _annotations(server):
        key = (str(mark.tool), str(mark.value).lower())
        if key in used:
            raise Deviation(f"each {_KEY} of {brief(mark.tool)} once", brief(mark.value))
        used.add(key)


@check("header.mark-primitive", proves=("header.xmcp-primitive-only",), needs=_NEEDS)
async def mark_primitive(server: ServerUnderTest) -> None:
    """Only strings, integers and booleans have x-mcp-header."""
    for mark in _annotations(server):
        kinds = mark.schema.get("type")
        allowed = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        if not allowed or any(each not in _PRIMITIVES for each in allowed):
            raise Deviation(f"a string, integer or boolean with {_KEY} in {brief(mark.tool)}", brief(mark.schema))


@check("header.mark-reachable", proves=("header.xmcp-statically-reachable",), needs=_NEEDS)
async def mark_reachable(server: ServerUnderTest) -> None:
    """Every x-mcp-header is at a place that is reached by `properties` only."""
    for mark in _annotations(server):
        if not mark.reachable:
            raise Deviation(f"{_KEY} in {brief(mark.tool)} below `properties` only", brief(mark.schema))


@check("header.mark-safe-range", proves=("header.xmcp-integer-safe-range",), needs=_NEEDS)
async def mark_safe_range(server: ServerUnderTest) -> None:
    """An integer with x-mcp-header has no value outside of the range in which doubles are exact."""
    for mark in _annotations(server):
        kinds = mark.schema.get("type")
        if "integer" not in (kinds if isinstance(kinds, list) else [kinds]):
            continue
        listed = mark.schema.get("enum")
        values = [mark.schema.get("const"), mark.schema.get("default"), *(listed if isinstance(listed, list) else ())]
        # Wide limits break no rule, because the values may all be in the range; these two leave none in it.
        beyond = _number(mark.schema.get("minimum")) > _SAFE or _number(mark.schema.get("maximum")) < -_SAFE
        if beyond or any(abs(_number(each)) > _SAFE for each in values):
            raise Deviation(f"values from -(2^53)+1 to 2^53-1 in {brief(mark.tool)}", brief(mark.schema))


def _number(value: JsonValue) -> float:
    return 0 if isinstance(value, bool) or not isinstance(value, int | float) else value


# --- validation
# ---------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Param:
    """A header parameter of a tool."""

    tool: str
    argument: str
    header: str
    others: JsonObject
    """Other arguments that the tool requires."""

    def call(self, peer: HttpConnection, value: JsonValue) -> JsonObject:
        """Return a call with a value of the parameter."""
        return peer.message("tools/call", {"name": self.tool, "arguments": {**self.others, self.argument: value}})


def _param(server: ServerUnderTest, kind: str = "string") -> _Param:
    """Return the first header parameter of a type.

    Raises:
        NotTestable: No tool has one.
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
    raise NotTestable(f"no tool has a header parameter of type {kind} and no other required arguments")


async def _send_header(
    server: ServerUnderTest, value: JsonValue, header: str | None, deviant: str = "", *, kind: str = "string"
) -> HttpResponse:
    """Send a call with the given header, after a control request with the correct one."""
    peer = http_peer(server)
    param = _param(server, kind)
    request = await control(peer, param.call(peer, value))
    return await _look(peer, param, request, header, deviant)


async def _look(
    peer: HttpConnection, param: _Param, request: JsonObject, header: str | None, deviant: str = ""
) -> HttpResponse:
    """Send a call with the given header, or without it."""
    headers = without(peer.headers(request), param.header)
    if header is not None:
        headers = with_header(headers, param.header, header)
    return await peer.look(headers=headers, body=encoded(request), deviant=deviant)


async def _require_mismatches(
    server: ServerUnderTest, value: JsonValue, headers: Iterable[str | None], *, kind: str = "string"
) -> None:
    """Require that calls with the given headers are rejected, after a control request with the correct one."""
    peer = http_peer(server)
    param = _param(server, kind)
    request = await control(peer, param.call(peer, value))
    for header in headers:
        given = "no header" if header is None else f"the header {header!r}"
        what = f"{given} for a parameter that is {brief(value)}"
        request = {**request, "id": peer.next_id()}
        require(await _look(peer, param, request, header, what), {400}, what, code=_MISMATCH)


async def _require_success(server: ServerUnderTest, value: str, header: str) -> None:
    """Require that a call with a notation of a value is served, after a control request with a plain value."""
    peer = http_peer(server)
    param = _param(server)
    await control(peer, param.call(peer, "here"))
    answer = await _look(peer, param, param.call(peer, value), header)
    if not succeeded(answer):
        raise Deviation(f"a result for the parameter {value!r} with the header {header}", shown(answer))


@check("header.param-accepted", proves=("header.param-mismatch-rejected",), needs=_NEEDS)
async def param_accepted(server: ServerUnderTest) -> None:
    """A call whose Mcp-Param header equals the body is not rejected as a mismatch: text, which may be empty, an integer or a boolean."""
    peer = http_peer(server)
    _param(server)
    values: tuple[tuple[JsonValue, str], ...] = (
        *(("here", "string"), ("", "string"), (42, "integer"), (-7, "integer"), (0, "integer")),
        *((True, "boolean"), (False, "boolean")),
    )
    for value, kind in values:
        # A server without such parameters was tested as far as it can be.
        with suppress(NotTestable):
            request = _param(server, kind).call(peer, value)
            answer = await peer.look(headers=peer.headers(request), body=encoded(request))
            # The tool may have another reason to reject a value.
            if error_code(answer) == _MISMATCH:
                raise Deviation(f"no mismatch for the parameter {brief(value)} with an equal header", shown(answer))


@check("header.param-mismatch", proves=("header.param-mismatch-rejected",), needs=_NEEDS)
async def param_mismatch(server: ServerUnderTest) -> None:
    """A call whose Mcp-Param header differs from the body, even a little, is rejected with 400 and -32020."""
    # A lax decoder of UTF-8 fails at the byte at the end of the last one, or omits it.
    others = ("there", "HERE", _base64("there"), *value_near_misses("here"), "=?base64?aGVyZf8=?=")
    await _require_mismatches(server, "here", others)
    # A server without such parameters was tested as far as it can be.
    with suppress(NotTestable):
        await _require_mismatches(server, "", ("here",))
        # Text that looks like a number or a boolean is compared as text.
        await _require_mismatches(server, "42", ("42.0", "042", "+42"))
        await _require_mismatches(server, "true", ("True", "1"))
    with suppress(NotTestable):
        await _require_mismatches(
            server, 42, ("43", "-42", "42.5", "42.0000000001", "42abc", "42 43", "true", ""), kind="integer"
        )
        await _require_mismatches(server, 0, ("1", "", "false", "zero"), kind="integer")
    with suppress(NotTestable):
        await _require_mismatch_of_each(server, missing=False)


async def _require_mismatch_of_each(server: ServerUnderTest, *, missing: bool) -> None:
    """Require that a call with several header parameters is rejected when the header of any of them differs.

    Args:
        server: The server.
        missing: Whether the header is missing instead.

    Raises:
        NotTestable: No tool has parameters of several types.
    """
    peer = http_peer(server)
    values: dict[str, tuple[JsonValue, str]] = {
        "string": ("here", "there"),
        "integer": (42, "43"),
        "boolean": (True, "false"),
    }
    params = {kind: _param(server, kind) for kind in values}
    if len({param.tool for param in params.values()}) > 1:
        raise NotTestable("no tool has header parameters of several types")
    arguments: JsonObject = {param.argument: values[kind][0] for kind, param in params.items()}
    request = await control(peer, peer.message("tools/call", {"name": params["string"].tool, "arguments": arguments}))
    for kind, param in params.items():
        header = None if missing else values[kind][1]
        given = "no header" if header is None else f"the header {header!r}"
        what = f"{given} for the {kind} of several parameters"
        request = {**request, "id": peer.next_id()}
        require(await _look(peer, param, request, header, what), {400}, what, code=_MISMATCH)


@check(
    "header.param-beyond",
    proves=(
        "header.param-missing-but-in-body-rejected",
        "header.param-mismatch-rejected",
        "header.xmcp-integer-safe-range",
    ),
    needs=_NEEDS,
)
async def param_beyond(server: ServerUnderTest) -> None:
    """A call with an integer that doubles cannot represent, and without its Mcp-Param header or with another one, is not served."""
    peer = http_peer(server)
    param = _param(server, "integer")
    await control(peer, param.call(peer, 42))
    for value in (_SAFE + 1, -_SAFE - 1):
        for header in (None, "42"):
            what = f"the integer {value} {'without its header' if header is None else f'with the header {header}'}"
            request = param.call(peer, value)
            headers = without(peer.headers(request), param.header)
            lines = headers if header is None else with_header(headers, param.header, header)
            answer = await peer.send(encoded(request), headers=lines, deviant=what)
            # The server may reject the value itself.
            for each in messages_of(answer):
                result = each.get("result")
                if isinstance(result, dict) and result.get("isError") is not True:
                    raise Deviation(f"an error for {what}", shown(answer))


@check("header.param-boolean", proves=("header.param-mismatch-rejected",), needs=_NEEDS)
async def param_boolean(server: ServerUnderTest) -> None:
    """A boolean in an Mcp-Param header is "true" or "false", and is rejected when it differs from the body."""
    for value, headers in (
        (True, ("false", "True", "TRUE", "1", "yes", "on")),
        (False, ("true", "False", "FALSE", "0", "no", "off", "")),
    ):
        await _require_mismatches(server, value, headers, kind="boolean")


@check(
    "header.param-nested",
    proves=("header.param-mismatch-rejected", "header.param-missing-but-in-body-rejected"),
    needs=_NEEDS,
)
async def param_nested(server: ServerUnderTest) -> None:
    """A header parameter within an object is compared as well: a call with another header, or without it, is rejected."""
    peer = http_peer(server)
    tool, path, name = _nested_param(server)
    arguments: JsonValue = "here"
    for member in reversed(path):
        arguments = {member: arguments}
    request = peer.message("tools/call", {"name": tool, "arguments": arguments})
    headers = without(peer.headers(request), name)
    served = await peer.look(headers=with_header(headers, name, "here"), body=encoded(request))
    if not succeeded(served):
        raise NotTestable(f"the control request failed: {shown(served)}")
    for value in ("there", None):
        what = f"the parameter {'.'.join(path)} {'without its header' if value is None else 'with another header'}"
        wrong = headers if value is None else with_header(headers, name, value)
        answer = await peer.look(headers=wrong, body=encoded(request), deviant=what)
        require(answer, {400}, what, code=_MISMATCH)


def _nested_param(server: ServerUnderTest) -> tuple[str, list[str], str]:
    """Return a header parameter within an object: the tool, the path to it, and its header.

    Raises:
        NotTestable: No tool has one.
    """
    for tool in server.inventory.lists.get("tools", ()):
        schema = tool.get("inputSchema")
        for path, member in _properties(schema, []):
            header, kinds = member.get(_KEY), member.get("type")
            free = isinstance(schema, dict) and set(_names(schema.get("required"))) <= {path[0]}
            if len(path) > 1 and isinstance(header, str) and free and "string" in _names(kinds):
                return str(tool["name"]), path, f"Mcp-Param-{header}"
    raise NotTestable("no tool has a header parameter within an object, and no other required arguments")


def _properties(schema: JsonValue, path: list[str]) -> Iterator[tuple[list[str], JsonObject]]:
    """Yield each property of an object, and those of objects in it, with the path to it."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    for name, member in (found if isinstance(found, dict) else {}).items():
        if isinstance(member, dict):
            yield [*path, name], member
            yield from _properties(member, [*path, name])


def _names(value: JsonValue) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value]) if each is not None]


@check("header.param-missing", proves=("header.param-missing-but-in-body-rejected",), needs=_NEEDS)
async def param_missing(server: ServerUnderTest) -> None:
    """A call with a header parameter but without its header is rejected with 400 and -32020, whatever the value."""
    await _require_mismatches(server, "here", (None,))
    for value, kind in (("", "string"), (0, "integer"), (False, "boolean")):
        # A server without such parameters was tested as far as it can be.
        with suppress(NotTestable):
            await _require_mismatches(server, value, (None,), kind=kind)
    with suppress(NotTestable):
        await _require_mismatch_of_each(server, missing=True)


@check("header.param-characters", proves=("header.param-invalid-chars-rejected",), needs=_NEEDS)
async def param_characters(server: ServerUnderTest) -> None:
    """A call whose Mcp-Param header has invalid characters is rejected with 400 and -32020."""
    what = "an Mcp-Param header that is not ASCII"
    require(await _send_header(server, "caf\u00e9", "caf\u00e9", what), {400}, what, code=_MISMATCH)
    what = "an Mcp-Param header with a control character"
    answer = await _send_header(server, "a\x7fb", "a\x7fb", what)
    # The HTTP implementation may reject a control character before the server sees it.
    require(answer, {400}, what, code=_MISMATCH if answer.media_type == "application/json" else None)


@check("header.param-base64", proves=("header.base64-decoded-before-compare",), needs=_NEEDS)
async def param_base64(server: ServerUnderTest) -> None:
    """An Mcp-Param header in base64 is decoded, once and without further changes."""
    for value in ("Hello", "=?base64?SGVsbG8=?=", " padded ", "Hello, \u4e16\u754c", "~~~???", "line1\nline2"):
        await _require_success(server, value, _base64(value))
    typed: tuple[tuple[JsonValue, str], ...] = ((42, "integer"), (True, "boolean"))
    for given, kind in typed:
        # A server without such parameters was tested as far as it can be.
        with suppress(NotTestable):
            answer = await _send_header(server, given, _base64(brief(given)), kind=kind)
            if not succeeded(answer):
                raise Deviation(f"a result for the parameter {brief(given)} with its header in base64", shown(answer))


def _base64(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@check("header.param-base64-invalid", proves=("header.base64-invalid-rejected",), needs=_NEEDS)
async def param_base64_invalid(server: ServerUnderTest) -> None:
    """An Mcp-Param header with invalid base64 is rejected with 400 and -32020."""
    # The markers of the last one overlap, so that there is nothing between them.
    invalid = ("=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVs bG8=?=", "=?base64?=")
    await _require_mismatches(server, "Hello", invalid)
    # The alphabet is that of base64, and not that for URLs.
    await _require_mismatches(server, "~~~???", ("=?base64?fn5-Pz8_?=",))


@check("header.param-literal", proves=("header.base64-markers-exact",), needs=_NEEDS)
async def param_literal(server: ServerUnderTest) -> None:
    """An Mcp-Param header without the exact markers of base64 is a literal value."""
    for value in ("=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?="):
        await _require_success(server, value, value)


@check("header.param-absent", proves=("header.param-null-not-expected",), needs=_NEEDS)
async def param_absent(server: ServerUnderTest) -> None:
    """A call without the parameter needs no header for it."""
    peer = http_peer(server)
    param = _param(server)
    nothing: tuple[JsonObject, ...] = ({}, {param.argument: None})
    for arguments in nothing:
        request = peer.message("tools/call", {"name": param.tool, "arguments": arguments})
        headers = without(peer.headers(request), param.header)
        answer = await peer.look(headers=headers, body=encoded(request))
        if error_code(answer) == _MISMATCH:
            raise Deviation("a call without the parameter and its header to be served", shown(answer))


@check("header.param-integer", proves=("header.integer-compared-numerically",), needs=_NEEDS)
async def param_integer(server: ServerUnderTest) -> None:
    """An integer in an Mcp-Param header is compared as a number: 42.0 equals 42."""
    answer = await _send_header(server, 42, "42.0", kind="integer")
    if not succeeded(answer):
        raise Deviation("a result for the header 42.0 of the parameter 42", shown(answer))


@check("header.param-unknown", proves=("header.param-unknown-ignored",), needs=_NEEDS)
async def param_unknown(server: ServerUnderTest) -> None:
    """An Mcp-Param header without a parameter is ignored, even if another tool has such a parameter."""
    peer = http_peer(server)
    name, arguments = server.tool("test_simple_text")
    requests = [peer.message("tools/call", {"name": name, "arguments": arguments}), peer.message("tools/list")]
    resources = server.inventory.lists.get("resources", ())[:1]
    requests += [peer.message("resources/read", {"uri": resource["uri"]}) for resource in resources]
    own = peer.by_tool.get(name, {}).values()
    others = {header for tool in peer.by_tool.values() for header in tool.values()} - {*own}
    for message in requests:
        request = await control(peer, message)
        for header in ("Conformance-None", *sorted(others)):
            answer = await peer.look(
                headers=[*peer.headers(request), (f"Mcp-Param-{header}", "whatever")], body=encoded(request)
            )
            if not succeeded(answer):
                what = f"{request['method']} with Mcp-Param-{header}, for which it has no parameter"
                raise Deviation(f"a result for {what}", shown(answer))
