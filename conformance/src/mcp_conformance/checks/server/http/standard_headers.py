"""The headers of a modern request that repeat parts of its body: the server compares them with the body."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from mcp_conformance.checks.probes.http_requests import (
    control,
    error_code,
    error_id,
    http_peer,
    on_one_connection,
    probe,
    require,
    serves_legacy,
    shown,
    succeeded,
    with_header,
    without,
)
from mcp_conformance.checks.probes.interactive_calls import request_until_input, retried
from mcp_conformance.checks.probes.modern_requests import valid_requests
from mcp_conformance.checks.probes.near_misses import value_near_misses
from mcp_conformance.checks.probes.rejected_calls import require_no_effect
from mcp_conformance.checks.probes.waiting_call import waiting_call
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.odd_ids import ODD_IDS
from mcp_conformance.protocol.param_headers import header_value
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
_LEGACY: Final = "2025-11-25"
_VERSION: Final = "MCP-Protocol-Version"
_UNKNOWN: Final = "1900-01-01"
_CODE: Final = ("header.mismatch-error-code", "http.header-mismatch-400")
_TOOLS: Final = ("capability:tools",)
_NOT_ASCII: Final = "conformance-\u00e9\u65e5"
"""The name of no tool, whose characters have two and three bytes in UTF-8."""

_Headers: TypeAlias = list[tuple[str, str]]
_Change: TypeAlias = "Callable[[_Headers], _Headers]"


async def _sent(peer: HttpConnection, message: JsonObject, headers: _Headers, deviant: str) -> HttpResponse:
    return await peer.look(headers=headers, body=encoded(message), deviant=deviant)


async def _rejected(peer: HttpConnection, message: JsonObject, *changes: tuple[_Change, str]) -> None:
    """Require that a request is rejected for each change of its headers, after the same request with correct headers."""
    request = await control(peer, message)
    for change, what in changes:
        request = {**request, "id": peer.next_id()}
        answer = await _sent(peer, request, change(peer.headers(request)), what)
        require(answer, {400}, what, code=_MISMATCH)


def _require_mismatch(answer: HttpResponse, what: str) -> None:
    require(answer, {400}, what, code=_MISMATCH)


def _require_other_version(answer: HttpResponse, what: str) -> None:
    """Require an error for versions that differ: a mismatch, or an unsupported version. The order of the tests is not defined."""
    require(answer, {400}, what)
    if error_code(answer) not in (_MISMATCH, _UNSUPPORTED):
        raise Deviation(f"error {_MISMATCH} or {_UNSUPPORTED} for {what}", shown(answer))


async def _rejected_of_each_method(
    server: ServerUnderTest,
    peer: HttpConnection,
    change: Callable[[str], _Change],
    what: str,
    judge: Callable[[HttpResponse, str], None] = _require_mismatch,
) -> None:
    """Require that a request of each method is rejected for its headers, after the same request with correct ones."""
    for request in await _requests_of_each_method(server, peer):
        method = str(request["method"])
        answer = await _sent(peer, request, change(method)(peer.headers(request)), f"{method} {what}")
        judge(answer, f"{method} {what}")


async def _rejected_later(
    peer: HttpConnection,
    message: JsonObject,
    change: _Change,
    what: str,
    judge: Callable[[HttpResponse, str], None] = _require_mismatch,
) -> None:
    """Require that a request is rejected for its headers on a connection that has served a correct request."""
    request = {**message, "id": peer.next_id()}
    with suppress(NotApplicable):
        _, answer = await on_one_connection(peer, message, request, deviant=what, headers=change(peer.headers(request)))
        judge(answer, f"{what}, as the second request of a connection")


async def _rejected_retries(server: ServerUnderTest, peer: HttpConnection, change: _Change, what: str) -> None:
    """Require that a retry with input responses is rejected for its headers, after one with correct headers."""
    for method, params in _requiring_input(server):
        try:
            await control(peer, await _retry(peer, method, params))
            # The state of the first retry may be used up.
            retry = await _retry(peer, method, params)
        except (Deviation, NotTestable):
            # Other checks cover the fixture.
            continue
        answer = await _sent(peer, retry, change(peer.headers(retry)), what)
        require(answer, {400}, f"{what}, in a retry of {method}", code=_MISMATCH)


def _requiring_input(server: ServerUnderTest) -> list[tuple[str, JsonObject]]:
    """Return the requests for which the server requires input, if it has the fixtures."""
    found: list[tuple[str, JsonObject]] = []
    with suppress(NotTestable):
        name, arguments = server.tool("test_input_required_result_elicitation")
        found.append(("tools/call", {"name": name, "arguments": arguments}))
    with suppress(NotTestable):
        found.append(("resources/read", {"uri": server.require("resources", "test://conformance/asking")}))
    return found


async def _retry(peer: HttpConnection, method: str, params: JsonObject) -> JsonObject:
    """Send a request, and return its retry.

    Raises:
        NotTestable: The server requires no input.
    """
    return peer.message(method, retried(params, await request_until_input(peer, method, params)))


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


def _put_name(name: str) -> _Change:
    """Put a name into Mcp-Name, encoded if necessary."""
    return _put("Mcp-Name", header_value(name) or "")


def _named(message: JsonObject) -> str:
    """Return the name or URI in a request, which Mcp-Name repeats."""
    params = message["params"]
    return str(params.get("name", params.get("uri"))) if isinstance(params, dict) else ""


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


async def _requests_of_each_method(server: ServerUnderTest, peer: HttpConnection) -> list[JsonObject]:
    """Return a request of each method that the server serves."""
    found = [await control(peer)]
    for method, params in valid_requests(server):
        # Other checks cover whether the method is served at all.
        with suppress(NotTestable):
            found.append(await control(peer, peer.message(method, params)))
    return found


# --- version
# ------------------------------------------------------------------------------------------------------------


@check("header.version-mismatch", proves=("header.protocol-version-mismatch-rejected",))
async def version_mismatch(server: ServerUnderTest) -> None:
    """A request of any method whose body has another version than MCP-Protocol-Version, even a similar one, is rejected with 400."""
    peer = http_peer(server)
    similar = [each for each in value_near_misses(peer.revision.name) if each]
    for header, body, what in (
        # A server that reads only the body serves the first request, and one that reads only the header the third.
        (_UNKNOWN, peer.revision.name, "another version in the header"),
        # The metadata of the body decides that the request is none of that revision.
        (_LEGACY, peer.revision.name, f"{_LEGACY} in the header only"),
        (peer.revision.name, _UNKNOWN, "another version in the body"),
        *((each, peer.revision.name, f"the version {each!r} in the header") for each in similar),
    ):
        request: JsonObject = {**await control(peer), "params": {"_meta": {**peer.meta(), PROTOCOL_VERSION: body}}}
        answer = await _sent(peer, request, with_header(peer.headers(request), _VERSION, header), what)
        _require_other_version(answer, what)
    other = _put(_VERSION, _LEGACY)
    await _rejected_of_each_method(
        server, peer, lambda _: other, f"with {_LEGACY} in the header", _require_other_version
    )
    await _rejected_later(peer, probe(peer), other, f"{_LEGACY} in the header", _require_other_version)


@check("header.version-missing", proves=("header.protocol-version-missing-rejected",))
async def version_missing(server: ServerUnderTest) -> None:
    """A server that supports no revision before 2025-06-18 rejects a request of any method without MCP-Protocol-Version."""
    for revision in ("2025-03-26", "2024-11-05"):
        if await serves_legacy(server, revision):
            raise NotApplicable(f"the server supports {revision} too")
    peer = http_peer(server)
    await _rejected_of_each_method(server, peer, lambda _: _drop(_VERSION), f"without {_VERSION}")
    await _rejected_later(peer, probe(peer), _drop(_VERSION), f"a request without {_VERSION}")


# --- method and name
# ----------------------------------------------------------------------------------------------------


@check("header.method-missing", proves=("header.mcp-method-missing-rejected", *_CODE))
async def method_missing(server: ServerUnderTest) -> None:
    """A request of any method without Mcp-Method is rejected with 400 and -32020."""
    peer = http_peer(server)
    await _rejected_of_each_method(server, peer, lambda _: _drop("Mcp-Method"), "without Mcp-Method")
    await _rejected_later(peer, probe(peer), _drop("Mcp-Method"), "a request without Mcp-Method")
    await _rejected_retries(server, peer, _drop("Mcp-Method"), "a request without Mcp-Method")


@check("header.method-mismatch", proves=("header.mcp-method-mismatch-rejected", *_CODE))
async def method_mismatch(server: ServerUnderTest) -> None:
    """A request with another Mcp-Method, of another method or similar to the right one, is rejected with 400 and -32020."""
    peer = http_peer(server)
    await _rejected_of_each_method(
        server,
        peer,
        lambda method: _put("Mcp-Method", "server/discover" if method == "tools/list" else "tools/list"),
        "with the Mcp-Method of another method",
    )
    other = _put("Mcp-Method", "tools/list")
    await _rejected_later(peer, probe(peer), other, "the Mcp-Method of another method")
    await _rejected_retries(server, peer, other, "the Mcp-Method of another method")
    # No header but Mcp-Name and Mcp-Param may be in base64.
    similar = [*value_near_misses("server/discover"), _base64("server/discover")]
    await _rejected(peer, probe(peer), *((_put("Mcp-Method", each), f"the Mcp-Method {each!r}") for each in similar))


@check("header.method-case", proves=("header.value-case-sensitive",))
async def method_case(server: ServerUnderTest) -> None:
    """The values of Mcp-Method and Mcp-Name are case-sensitive: a request in the wrong case is rejected with 400 and -32020."""
    peer = http_peer(server)
    await _rejected_of_each_method(
        server, peer, lambda method: _put("Mcp-Method", method.upper()), "with Mcp-Method in upper case"
    )
    with suppress(NotApplicable):
        for message in _requests_with_name(server, peer):
            name = _named(message)
            if name.swapcase() != name:
                what = f"{message['method']} with an Mcp-Name in another case"
                await _rejected(peer, message, (_put_name(name.swapcase()), what))


@check("header.name-missing", proves=("header.mcp-name-missing-rejected", *_CODE))
async def name_missing(server: ServerUnderTest) -> None:
    """tools/call, resources/read and prompts/get without Mcp-Name are rejected with 400 and -32020."""
    peer = http_peer(server)
    for message in _requests_with_name(server, peer):
        await _rejected(peer, message, (_drop("Mcp-Name"), f"{message['method']} without Mcp-Name"))
        await _rejected_later(peer, message, _drop("Mcp-Name"), f"{message['method']} without Mcp-Name")
    await _rejected_retries(server, peer, _drop("Mcp-Name"), "no Mcp-Name")


@check("header.name-mismatch", proves=("header.mcp-name-mismatch-rejected", *_CODE))
async def name_mismatch(server: ServerUnderTest) -> None:
    """tools/call, resources/read and prompts/get with another Mcp-Name, even a similar one, are rejected with 400 and -32020."""
    peer = http_peer(server)
    other = _put("Mcp-Name", "conformance-other")
    for message in _requests_with_name(server, peer):
        method = message["method"]
        similar = value_near_misses(_named(message))
        await _rejected(
            peer,
            message,
            (other, f"another Mcp-Name of {method}"),
            *((_put_name(each), f"the Mcp-Name {each!r} of {method} {_named(message)!r}") for each in similar),
            *(
                (_put("Mcp-Name", each), f"the Mcp-Name {each!r} of {method} {_named(message)!r}")
                for each in _base64_near_misses(_named(message))
            ),
        )
        await _rejected_later(peer, message, other, f"another Mcp-Name of {method}")
    await _rejected_retries(server, peer, other, "another Mcp-Name")


@check("header.name-without-effect", proves=("header.mcp-name-mismatch-rejected",), needs=_TOOLS)
async def name_without_effect(server: ServerUnderTest) -> None:
    """A call with another Mcp-Name, which the server rejects, does not run."""
    await require_no_effect(server, _put("Mcp-Name", "conformance-other"), "a call with another Mcp-Name")


@check(
    "header.twice",
    proves=(
        "header.mcp-method-mismatch-rejected",
        "header.mcp-name-mismatch-rejected",
        "header.protocol-version-mismatch-rejected",
    ),
)
async def twice(server: ServerUnderTest) -> None:
    """A request is not served that has MCP-Protocol-Version, Mcp-Method or Mcp-Name twice, once with another value."""
    peer = http_peer(server)
    cases = [(probe(peer), _VERSION, _UNKNOWN), (probe(peer), "Mcp-Method", "tools/list")]
    with suppress(NotApplicable):
        cases.append((_requests_with_name(server, peer)[0], "Mcp-Name", "conformance-other"))
    for message, name, other in cases:
        request = await control(peer, message)
        # A server that reads one of the values may read the first or the last.
        for is_first in (True, False):
            request = {**request, "id": peer.next_id()}
            right, added = peer.headers(request), (name, other)
            what = f"{name} with another value {'before' if is_first else 'after'} the right one"
            answer = await _sent(peer, request, [added, *right] if is_first else [*right, added], what)
            if succeeded(answer):
                raise Deviation(f"an error for {what}", shown(answer))


@check("header.error-id", proves=("header.mismatch-error-id",))
async def mismatch_id(server: ServerUnderTest) -> None:
    """The error for headers that differ from the body has the id of the request."""
    peer = http_peer(server)
    right = await control(peer)
    for id in ("conformance-id", *ODD_IDS):
        request = {**right, "id": id}
        headers = with_header(peer.headers(request), "Mcp-Method", "tools/list")
        answer = await _sent(peer, request, headers, "another method")
        if answer.status == 400 and encoded(error_id(answer)) != encoded(id):
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
    for request in _requests_with_headers(server, peer):
        await _accepted(peer, request, lambda headers: [(n.lower(), v) for n, v in headers], "names in lower case")
        await _accepted(peer, request, lambda headers: [(n.upper(), v) for n, v in headers], "names in upper case")


@check("header.spaces", proves=("header.value-ows-trimmed",))
async def spaces(server: ServerUnderTest) -> None:
    """White space around the value of a header is ignored."""
    peer = http_peer(server)
    for request in _requests_with_headers(server, peer):
        for name, value in peer.headers(request):
            if name == _VERSION or name.startswith(("Mcp-Method", "Mcp-Name", "Mcp-Param-")):
                await _accepted(peer, request, _put(name, f"  {value} \t"), f"white space around {name}")


@check(
    "header.name-base64",
    proves=("header.base64-mcp-name-accepted", "header.base64-decoded-before-compare"),
    needs=_TOOLS,
)
async def name_base64(server: ServerUnderTest) -> None:
    """An Mcp-Name in base64 is decoded, of a tool, a resource and a prompt, also while a call is in progress."""
    peer = http_peer(server)
    await _require_names_decoded(server, peer, "")
    with suppress(NotTestable):
        async with waiting_call(server):
            await _require_names_decoded(server, peer, ", while a call is in progress")
    # Each server has tools, so that it looks for this one after it has compared the headers.
    unknown = peer.message("tools/call", {"name": _NOT_ASCII, "arguments": {}})
    headers = with_header(peer.headers(unknown), "Mcp-Name", _base64(_NOT_ASCII))
    answer = await peer.look(headers=headers, body=encoded(unknown), deviant="an unknown tool")
    if error_code(answer) == _MISMATCH:
        raise Deviation(f"no mismatch for the name {_NOT_ASCII!a} with its UTF-8 in base64", shown(answer))


async def _require_names_decoded(server: ServerUnderTest, peer: HttpConnection, when: str) -> None:
    for message in _requests_with_name(server, peer):
        encoding = _put("Mcp-Name", _base64(_named(message)))
        await _accepted(peer, message, encoding, f"{message['method']} with an Mcp-Name in base64{when}")


def _requests_with_headers(server: ServerUnderTest, peer: HttpConnection) -> list[JsonObject]:
    """Return requests with all headers that repeat parts of the body, as far as the server has the fixtures."""
    requests = [probe(peer)]
    if server.inventory.has("tools"):
        requests.append(_call(server, peer))
        fixture = server.manifest.find("tools", "conformance_headers")
        if server.inventory.find("tools", fixture.name) is not None:
            arguments = fixture.arguments or {"region": "here"}
            requests.append(peer.message("tools/call", {"name": fixture.name, "arguments": arguments}))
    return requests


def _base64_near_misses(name: str) -> list[str]:
    """Return values of a header that a lax decoder of base64 takes for a name."""
    encoded = _base64(name)
    return [
        _base64("conformance-other"),
        _base64(f"{name} "),
        encoded.replace("=?base64?", "=?BASE64?"),
        encoded.removesuffix("?="),
        encoded.removeprefix("=?base64?"),
        encoded.replace("=?base64?", "=?base64?!"),
        # A byte that is not UTF-8, at which a decoder fails, or which it omits.
        _base64(name, b"\xff"),
    ]


def _base64(text: str, more: bytes = b"") -> str:
    return f"=?base64?{base64.b64encode(text.encode() + more).decode()}?="
