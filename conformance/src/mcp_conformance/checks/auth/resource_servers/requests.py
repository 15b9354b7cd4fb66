"""Requests with and without tokens, as the checks of protected servers make them."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.drivers.server.http_connection import HttpConnection
from mcp_conformance.drivers.server.suite_connection import encoded, within
from mcp_conformance.drivers.settings import CLIENT_INFO
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.token_issuer import Issuer
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "Headers",
    "bearer",
    "called",
    "challenge",
    "fetched",
    "http_peer",
    "issuer_of",
    "metadata_of",
    "probe",
    "sent",
]

Headers = tuple[tuple[str, str], ...]

_PARAMETER: Final = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME: Final = re.compile(r"(?i)(?:^|,\s*)(Bearer|DPoP)(?=\s|,|$)")
_OF_SESSION: Final = ("mcp-session-id", "mcp-protocol-version")
_WELL: Final = "/.well-known/oauth-protected-resource"


def issuer_of(server: ServerUnderTest) -> Issuer:
    """The authorization server that the server believes.

    Raises:
        NotApplicable: There is none: the run is without `--auth`.
    """
    if server.settings.issuer is None:
        raise NotApplicable("the server is not run with an authorization server of the suite: see --auth")
    return server.settings.issuer


def bearer(token: str) -> Headers:
    """The header with a token."""
    return (("Authorization", f"Bearer {token}"),)


@asynccontextmanager
async def http_peer(server: ServerUnderTest) -> AsyncIterator[HttpConnection]:
    """A connection with a good token, for a block; where the server takes none, nothing can be tested.

    Raises:
        NotTestable: The control failed: a request with a good token is refused.
    """
    issuer_of(server)
    async with AsyncExitStack() as stack:
        try:
            peer = await stack.enter_async_context(server.open())
        except Deviation as deviation:
            raise NotTestable(f"the control failed: a good token does not let in: {deviation.observed}") from deviation
        if not isinstance(peer, HttpConnection):
            raise NotApplicable("these checks are for HTTP")
        answer = await probe(peer, bearer(issuer_of(server).token()))
        if answer.status != 200:
            raise NotTestable(f"the control failed: a request with a good token gets HTTP {answer.status}")
        yield peer


async def probe(
    peer: HttpConnection, headers: Headers = (), *, in_session: bool = False, deviant: str = ""
) -> HttpResponse:
    """A small request with these credentials in place of the right ones.

    Args:
        peer: The connection.
        headers: The credentials.
        in_session: Whether it belongs to the session of a legacy connection; otherwise it would open another one.
        deviant: Which rule is broken on purpose.
    """
    if peer.revision.era is Era.MODERN:
        return await sent(peer, "server/discover", {}, headers, deviant=deviant)
    if in_session:
        return await sent(peer, "ping", {}, headers, deviant=deviant)
    opening: JsonObject = {
        "protocolVersion": peer.revision.name,
        "capabilities": peer.capabilities,
        "clientInfo": CLIENT_INFO,
    }
    return await sent(peer, "initialize", opening, headers, session=False, deviant=deviant)


async def called(peer: HttpConnection, tool: str, headers: Headers) -> HttpResponse:
    """A call of a tool with these credentials in place of the right ones."""
    return await sent(peer, "tools/call", {"name": tool, "arguments": {}}, headers)


async def sent(
    peer: HttpConnection, method: str, params: JsonObject, headers: Headers, *, session: bool = True, deviant: str = ""
) -> HttpResponse:
    """Any request with these credentials in place of the right ones.

    Raises:
        Deviation: There is no answer.
    """
    message = peer.message(method, params)
    lines = [(name, value) for name, value in peer.headers(message) if name.lower() != "authorization"]
    if not session:
        lines = [(name, value) for name, value in lines if name.lower() not in _OF_SESSION]
    return await _exchanged(peer, "POST", (*lines, *headers), encoded(message), deviant=deviant)


async def fetched(peer: HttpConnection, target: str) -> HttpResponse:
    """A GET of a path, with no credentials."""
    return await _exchanged(peer, "GET", (("Accept", "application/json"),), None, target=target)


async def _exchanged(
    peer: HttpConnection,
    method: str,
    lines: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    target: str | None = None,
    deviant: str = "",
) -> HttpResponse:
    what = f"an answer to {method} {target or peer.endpoint.target}"
    try:
        async with (
            within(peer.settings.timeout, what),
            peer.endpoint.exchange(peer.transcript, method, lines, body, target=target, deviant=deviant) as exchange,
        ):
            return await exchange.answer()
    except IncompleteResponse as ended:
        raise Deviation(what, str(ended)) from ended
    raise AssertionError("the block ends by one of them")


def challenge(answer: HttpResponse, scheme: str | None = None) -> dict[str, str] | None:
    """The parameters of the challenge of Bearer or DPoP; `None` when there is none of that scheme."""
    for name, value in answer.headers:
        if name != "www-authenticate":
            continue
        blank = re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: "x" * len(found[0]), value)
        marks = [found for found in _SCHEME.finditer(blank) if scheme in (None, found[1].lower())]
        if marks:
            after = _SCHEME.search(blank, marks[0].end())
            text = value[marks[0].end() : None if after is None else after.start()]
            return {found[1].lower(): found[2] or found[3] or "" for found in _PARAMETER.finditer(text)}
    return None


async def metadata_of(peer: HttpConnection) -> JsonObject:
    """The metadata of the server, from where its challenge says, or where they belong.

    Raises:
        Deviation: They are in neither place.
    """
    told = (challenge(await probe(peer)) or {}).get("resource_metadata")
    path = peer.endpoint.target.partition("?")[0].rstrip("/")
    targets = [urlsplit(told).path] if told else [f"{_WELL}{path}", _WELL]
    answers = []
    for target in targets:
        answer = await fetched(peer, target)
        found = json_object(answer.body) if answer.status == 200 else None
        if found is not None:
            return found
        answers.append(f"GET {target}: HTTP {answer.status}, {answer.body[:80]!r}")
    raise Deviation("the metadata of the resource (RFC 9728)", "; ".join(answers))
