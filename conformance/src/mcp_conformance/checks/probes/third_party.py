"""A third party of the suite that a server under test uses on behalf of its users, and the users' visits to its pages."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import attrs

from mcp_conformance.checks.probes.interactive_calls import converse
from mcp_conformance.checks.probes.local_services import require_local
from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.wire.http_client import Endpoint, IncompleteResponse
from mcp_conformance.wire.http_server import open_http_server
from mcp_conformance.wire.transcript import Part, Transcript

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["UPSTREAM_TOOL", "ThirdParty", "User", "credentials_of", "open_third_party", "open_user", "visit"]

UPSTREAM_TOOL: Final = "conformance_upstream"
"""The fixture tool that sends a request to a URL."""
_CONNECTS: Final = "conformance_connect"
_ACCOUNT: Final = "conformance_account"
_CAPABILITIES: Final[JsonObject] = {"elicitation": {"form": {}, "url": {}}}
_CREDENTIALS: Final = ("authorization", "x-api-key", "cookie")
_MOST_REDIRECTS: Final = 8

Headers = tuple[tuple[str, str], ...]


def credentials_of(headers: Headers) -> list[str]:
    """Return the credentials among headers: values, of an Authorization header without its scheme.

    Raises:
        NotApplicable: The headers contain no credentials.
    """
    found = [value.rpartition(" ")[2] for name, value in headers if name.lower() in _CREDENTIALS]
    if not found:
        raise NotApplicable("the suite sends no credentials: see --auth and --header")
    return found


@attrs.define
class ThirdParty:
    """The third party: an authorization endpoint, a token endpoint, and an account."""

    url: str = ""
    """The URL, without a slash at its end."""
    received: list[str] = attrs.field(factory=list)
    """The received requests, each as text with the target, the headers and the body."""
    tokens: list[str] = attrs.field(factory=list)
    """The issued access tokens."""
    codes: list[str] = attrs.field(factory=list)
    """The issued codes."""

    async def serve(self, exchange: ServerExchange) -> None:
        """Respond to a request."""
        lines = [f"{exchange.method} {exchange.target}", *(f"{name}: {value}" for name, value in exchange.headers)]
        self.received.append("\n".join([*lines, "", exchange.body.decode("utf-8", "replace")]))
        query = {name: values[0] for name, values in parse_qs(exchange.target.partition("?")[2]).items()}
        if exchange.path == "/authorize" and "redirect_uri" in query:
            self.codes.append(f"code-{secrets.token_hex(16)}")
            fields = urlencode({"code": self.codes[-1], "state": query.get("state", "")})
            place = query["redirect_uri"]
            await exchange.respond(302, [("Location", f"{place}{'&' if '?' in place else '?'}{fields}")])
        elif exchange.path == "/token" and any(code in exchange.body.decode("latin-1") for code in self.codes):
            self.tokens.append(f"third-party-{secrets.token_hex(16)}")
            await _json(exchange, 200, {"access_token": self.tokens[-1], "token_type": "Bearer"})
        elif exchange.path == "/account" and (exchange.header("authorization") or "")[7:] in self.tokens:
            await _json(exchange, 200, {"name": "conformance account"})
        else:
            await _json(exchange, 401, {"error": "invalid_request"})

    def leaks(self, secret: str) -> str | None:
        """Return a received request that contains a secret, shortened; `None` if no request contains it."""
        whole = re.compile(rf"(?<![\w.-]){re.escape(secret)}(?![\w.-])")
        return next((text[:300] for text in self.received if whole.search(text)), None)


async def _json(exchange: ServerExchange, status: int, document: JsonObject) -> None:
    await exchange.respond(status, [("Content-Type", "application/json")], json.dumps(document).encode())


@asynccontextmanager
async def open_third_party(server: ServerUnderTest) -> AsyncIterator[ThirdParty]:
    """Serve a third party while the block runs. Other legs wait until it ends before they serve theirs.

    Raises:
        NotTestable: The server is on another host.
    """
    require_local(server)
    accounts = server.target.accounts if isinstance(server.target, UrlTarget) else nullcontext()
    third_party = ThirdParty()
    async with accounts, open_http_server(third_party.serve) as port:
        third_party.url = f"http://localhost:{port}"
        yield third_party


@attrs.frozen(kw_only=True)
class User:
    """A user of the server, with a connection of the user's client."""

    server: ServerUnderTest
    """The server."""
    peer: SuiteConnection
    """The connection."""
    headers: Headers
    """The headers that authenticate the user."""

    async def connect(self, third_party: ThirdParty) -> str:
        """Start to connect the user's account at the third party, and return the URL of the elicitation.

        Raises:
            NotTestable: The fixture sends no URL mode elicitation, or its call fails.
        """
        call = await converse(self.server, _CONNECTS, {"third_party": third_party.url}, peer=self.peer)
        pages = [each.params.get("url") for each in call.requests_of("elicitation/create")]
        if not pages or not isinstance(pages[0], str) or call.answer.is_error:
            raise NotTestable(f"{_CONNECTS} sends no URL mode elicitation: {call.answer}")
        if await self.has_account():
            raise NotTestable(f"{_ACCOUNT} returns an account before the URL of the elicitation was opened")
        return pages[0]

    async def has_account(self) -> bool:
        """Return whether the server has an account of the user at the third party."""
        name, arguments = self.server.tool(_ACCOUNT)
        answer = await self.peer.request("tools/call", {"name": name, "arguments": arguments})
        return not answer.is_error and answer.result().get("isError") is not True

    async def require_connection(self, third_party: ThirdParty) -> None:
        """Connect the user's account, as the control of a check.

        Raises:
            NotTestable: It is not connected after the user has opened the URL.
        """
        url = await self.connect(third_party)
        await visit(self.server, url, self.headers)
        if not await self.has_account():
            raise NotTestable("the control condition failed: the account is not connected after the user's own visit")


@asynccontextmanager
async def open_user(server: ServerUnderTest, *, other: bool = False) -> AsyncIterator[User]:
    """Open a connection of one of two users while the block runs.

    Args:
        server: The server.
        other: Whether it is the second user.

    Raises:
        NotApplicable: There are no credentials of the user.
        NotTestable: The server does not accept the user, or has no fixtures.
    """
    for fixture in (_CONNECTS, _ACCOUNT):
        server.tool(fixture)
    headers = server.settings.other_headers if other else server.settings.headers
    if other and not headers:
        raise NotApplicable("the suite has credentials of one user only: see --other-header and --auth")
    if not isinstance(server.target, UrlTarget):
        raise NotApplicable("a server over stdio has no pages")
    target = server.target.for_user(headers)
    async with AsyncExitStack() as stack:
        try:
            peer = await stack.enter_async_context(
                target.open(server.revision, server.transport, capabilities=_CAPABILITIES)
            )
            await peer.fence()
        except Deviation as deviation:
            raise NotTestable(
                f"the control request failed: the server does not serve the user: {deviation}"
            ) from deviation
        server.opened.append(Part(transcript=peer.transcript, since=0))
        yield User(server=server, peer=peer, headers=headers)


async def visit(server: ServerUnderTest, url: str, headers: Headers) -> None:
    """Open a URL as a browser, and follow its redirects. Only the server's own pages get the headers of the user.

    Args:
        server: The server.
        url: The URL.
        headers: The headers that authenticate the visitor; empty for a visitor without a login.
    """
    if not isinstance(server.target, UrlTarget):
        raise NotApplicable("a server over stdio has no pages")
    own = server.target.endpoint.origin
    transcript = Transcript()
    server.opened.append(Part(transcript=transcript, since=0))
    cookies: dict[str, str] = {}
    for _ in range(_MOST_REDIRECTS):
        parts = urlsplit(url)
        at_server = f"{parts.scheme}://{parts.netloc}" == own
        sent = [*(headers if at_server else ()), ("Accept", "text/html")]
        if at_server and cookies:
            sent.append(("Cookie", "; ".join(f"{name}={value}" for name, value in cookies.items())))
        answer = await _get(transcript, url, sent)
        if at_server:
            for name, value in answer.headers:
                if name.lower() == "set-cookie":
                    cookie, _, text = value.partition(";")[0].partition("=")
                    cookies[cookie.strip()] = text.strip()
        place = answer.header("location")
        if place is None or not 300 <= answer.status < 400:
            return
        url = urljoin(url, place)


async def _get(transcript: Transcript, url: str, headers: list[tuple[str, str]]) -> HttpResponse:
    try:
        async with Endpoint(url).exchange(transcript, "GET", headers) as exchange:
            return await exchange.answer()
    except (IncompleteResponse, ValueError) as error:
        raise NotTestable(f"the page of the elicitation cannot be opened: {error}") from error
    raise AssertionError("the block returns or raises")
