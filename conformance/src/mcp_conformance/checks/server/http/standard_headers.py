"""The headers of a modern request that repeat parts of its body: the server compares them with the body."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, TypeAlias

from mcp_conformance.checks.probes.http_requests import (
    control,
    error_code,
    error_id,
    http_peer,
    probe,
    require,
    serves_legacy,
    shown,
    succeeded,
    with_header,
    without,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.odd_ids import ODD_IDS
from mcp_conformance.protocol.response import brief
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

_MISMATCH: Final = -32020
_UNSUPPORTED: Final = -32022
_VERSION: Final = "MCP-Protocol-Version"
_UNKNOWN: Final = "1900-01-01"
_CODE: Final = ("header.mismatch-error-code", "http.header-mismatch-400")
_TOOLS: Final = ("capability:tools",)

_Headers: TypeAlias = list[tuple[str, str]]
_Change: TypeAlias = "Callable[[_Headers], _Headers]"


async def _sent(peer: HttpConnection, message: JsonObject, headers: _Headers, deviant: str) -> HttpResponse:
    return await peer.look(headers=headers, body=encoded(message), deviant=deviant)


async def _rejected(peer: HttpConnection, message: JsonObject, change: _Change, what: str) -> HttpResponse:
    """Require that a request is rejected for its headers, after the same request with correct headers."""
    request = await control(peer, message)
    answer = await _sent(peer, request, change(peer.headers(request)), what)
    require(answer, {400}, what, code=_MISMATCH)
    return answer


async def _accepted(peer: HttpConnection, message: JsonObject, change: _Change, what: str) -> None:
    """Require that a request succeeds with headers in another notation."""
    request = await control(peer, message)
    answer = await peer.look(headers=change(peer.headers(request)), body=encoded(request))
    if not succeeded(answer):
        raise Deviation(f"a result for {what}", shown(answer))


def _put(name: str, value: str) -> _Change:
    return lambda headers: with_header(headers, name, value)


def _drop(name: str) -> _Change:
    return lambda headers: without(headers, name)


def _call(server: ServerUnderTest, peer: HttpConnection) -> JsonObject:
    name, arguments = server.tool("test_simple_text")
    return peer.message("tools/call", {"name": name, "arguments": arguments})


def _requests_with_name(server: ServerUnderTest, peer: HttpConnection) -> list[JsonObject]:
    """Return a request of each kind that has an Mcp-Name header and that the server supports."""
    found: list[JsonObject] = []
    if server.inventory.has("tools"):
        found.append(_call(server, peer))
    resources = server.inventory.lists.get("resources", ())[:1]
    found += [peer.message("resources/read", {"uri": resource["uri"]}) for resource in resources]
    for prompt in server.inventory.lists.get("prompts", ()):
        if not prompt.get("arguments"):
            found.append(peer.message("prompts/get", {"name": prompt["name"]}))
            break
    if not found:
        raise NotApplicable("the server offers no tools, resources or prompts")
    return found


# --- version
# ------------------------------------------------------------------------------------------------------------


@check("header.version-mismatch", proves=("header.protocol-version-mismatch-rejected",))
async def version_mismatch(server: ServerUnderTest) -> None:
    """A request whose body has another version than MCP-Protocol-Version is rejected with 400."""
    peer = http_peer(server)
    for header, body, what in (
        # A server that reads only the body serves the first request, and one that reads only the header the second.
        (_UNKNOWN, peer.revision.name, "another version in the header"),
        (peer.revision.name, _UNKNOWN, "another version in the body"),
    ):
        request: JsonObject = {**await control(peer), "params": {"_meta": {**peer.meta(), PROTOCOL_VERSION: body}}}
        answer = await _sent(peer, request, with_header(peer.headers(request), _VERSION, header), what)
        # It is both a mismatch and an unsupported version. The order of the two tests is not defined.
        require(answer, {400}, what)
        if error_code(answer) not in (_MISMATCH, _UNSUPPORTED):
            raise Deviation(f"error {_MISMATCH} or {_UNSUPPORTED} for {what}", shown(answer))


@check("header.version-missing", proves=("header.protocol-version-missing-rejected",))
async def version_missing(server: ServerUnderTest) -> None:
    """A server that supports no revision before 2025-06-18 rejects a request without MCP-Protocol-Version."""
    for revision in ("2025-03-26", "2024-11-05"):
        if await serves_legacy(server, revision):
            raise NotApplicable(f"the server supports {revision} too")
    peer = http_peer(server)
    await _rejected(peer, probe(peer), _drop("MCP-Protocol-Version"), "a request without MCP-Protocol-Version")


# --- method and name
# ----------------------------------------------------------------------------------------------------


@check("header.method-missing", proves=("header.mcp-method-missing-rejected", *_CODE))
async def method_missing(server: ServerUnderTest) -> None:
    """A request without Mcp-Method is rejected with 400 and -32020."""
    peer = http_peer(server)
    await _rejected(peer, probe(peer), _drop("Mcp-Method"), "a request without Mcp-Method")


@check("header.method-mismatch", proves=("header.mcp-method-mismatch-rejected", *_CODE))
async def method_mismatch(server: ServerUnderTest) -> None:
    """A request with the Mcp-Method of another method is rejected with 400 and -32020."""
    peer = http_peer(server)
    await _rejected(peer, probe(peer), _put("Mcp-Method", "tools/list"), "the Mcp-Method of another method")


@check("header.method-case", proves=("header.value-case-sensitive",))
async def method_case(server: ServerUnderTest) -> None:
    """The value of Mcp-Method is case-sensitive: a request in the wrong case is rejected with 400 and -32020."""
    peer = http_peer(server)
    await _rejected(peer, probe(peer), _put("Mcp-Method", "SERVER/DISCOVER"), "an Mcp-Method in upper case")


@check("header.name-missing", proves=("header.mcp-name-missing-rejected", *_CODE))
async def name_missing(server: ServerUnderTest) -> None:
    """tools/call, resources/read and prompts/get without Mcp-Name are rejected with 400 and -32020."""
    peer = http_peer(server)
    for message in _requests_with_name(server, peer):
        await _rejected(peer, message, _drop("Mcp-Name"), f"{message['method']} without Mcp-Name")


@check("header.name-mismatch", proves=("header.mcp-name-mismatch-rejected", *_CODE))
async def name_mismatch(server: ServerUnderTest) -> None:
    """tools/call, resources/read and prompts/get with another Mcp-Name are rejected with 400 and -32020."""
    peer = http_peer(server)
    for message in _requests_with_name(server, peer):
        await _rejected(
            peer, message, _put("Mcp-Name", "conformance-other"), f"another Mcp-Name of {message['method']}"
        )


@check("header.error-id", proves=("header.mismatch-error-id",))
async def mismatch_id(server: ServerUnderTest) -> None:
    """The error for headers that differ from the body has the id of the request."""
    peer = http_peer(server)
    request = await control(peer)
    headers = with_header(peer.headers(request), "Mcp-Method", "tools/list")
    for id in ODD_IDS:
        answer = await _sent(peer, {**request, "id": id}, headers, "another method")
        found = error_id(answer)
        if answer.status == 400 and (found != id or type(found) is not type(id)):
            raise Deviation(f"the id {brief(id)}", shown(answer))


@check("header.invalid-characters", proves=("header.invalid-characters-rejected",), needs=_TOOLS)
async def invalid_characters(server: ServerUnderTest) -> None:
    """A request whose Mcp-Name has invalid characters is rejected with 400 and -32020."""
    peer = http_peer(server)
    await control(peer, _call(server, peer))
    kinds = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    for method in [str(each["method"]) for each in _requests_with_name(server, peer)]:
        for name, what in (("caf\u00e9", "that is not ASCII"), ("a\x7fb", "with a control character")):
            request = peer.message(method, {kinds[method]: name})
            headers = with_header(peer.headers(request), "Mcp-Name", name)
            answer = await _sent(peer, request, headers, f"an Mcp-Name {what}")
            # The HTTP implementation may reject a control character before the server sees it.
            bare = name != "caf\u00e9" and answer.media_type != "application/json"
            require(answer, {400}, f"{method} with an Mcp-Name {what}", code=None if bare else _MISMATCH)


@check("header.names-case", proves=("header.name-case-insensitive",))
async def names_case(server: ServerUnderTest) -> None:
    """The names of headers are not case-sensitive."""
    peer = http_peer(server)
    await _accepted(peer, probe(peer), lambda headers: [(n.lower(), v) for n, v in headers], "names in lower case")
    await _accepted(peer, probe(peer), lambda headers: [(n.upper(), v) for n, v in headers], "names in upper case")


@check("header.spaces", proves=("header.value-ows-trimmed",))
async def spaces(server: ServerUnderTest) -> None:
    """White space around the value of a header is ignored."""
    peer = http_peer(server)
    requests = [probe(peer)]
    if server.inventory.has("tools"):
        requests.append(_call(server, peer))
        fixture = server.manifest.find("tools", "conformance_headers")
        if server.inventory.find("tools", fixture.name) is not None:
            arguments = fixture.arguments or {"region": "here"}
            requests.append(peer.message("tools/call", {"name": fixture.name, "arguments": arguments}))
    for request in requests:
        for name, value in peer.headers(request):
            if name == _VERSION or name.startswith(("Mcp-Method", "Mcp-Name", "Mcp-Param-")):
                await _accepted(peer, request, _put(name, f"  {value} \t"), f"white space around {name}")


@check(
    "header.name-base64",
    proves=("header.base64-mcp-name-accepted", "header.base64-decoded-before-compare"),
    needs=_TOOLS,
)
async def name_base64(server: ServerUnderTest) -> None:
    """An Mcp-Name in base64 is decoded."""
    peer = http_peer(server)
    call = _call(server, peer)
    name, _ = server.tool("test_simple_text")
    await _accepted(peer, call, _put("Mcp-Name", _base64(name)), "an Mcp-Name in base64")


def _base64(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
