"""A raw server over HTTP in this process, behind the proxy. Its connections are pairs of sockets."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs
import trio
from joserfc.jwk import KeySet

from mcp_conformance.drivers.server.http_connection import open_http
from mcp_conformance.drivers.server.sse_connection import open_sse
from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.model.check import Transport
from mcp_conformance.oauth_testbed.token_issuer import Issuer
from mcp_conformance.wire.http_client import Endpoint
from mutants.generated.http_rewriter import RequestRewriter, ResponseRewriter
from mutants.raw_protected_server import ProtectedServer
from mutants.server.http import http_server
from mutants.server.server import RawServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from socketserver import BaseServer

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision
    from mutants.generated.proxy import Conversation

__all__ = ["HttpTarget", "http_target", "protected_issuer", "protected_target"]

_PORT: Final = 20_001
"""The port in the URL. No program listens there: the connections are pairs of sockets."""
_URL: Final = f"http://127.0.0.1:{_PORT}"


class _FaultyStream(trio.abc.Stream):
    """A connection to the server, in which the proxy rewrites requests and responses."""

    def __init__(self, inner: trio.SocketStream, conversation: Conversation) -> None:
        self._inner: Final = inner
        self._requests: Final = RequestRewriter(conversation)
        self._responses: Final = ResponseRewriter(conversation, self._requests)
        self._ended = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send a part of a request."""
        rewritten = self._requests.feed(bytes(data))
        if rewritten:
            await self._inner.send_all(rewritten)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the server can read more."""
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return a part of a response; empty at the end."""
        while not self._ended:
            data = await self._inner.receive_some(max_bytes)
            self._ended = not data
            found = self._responses.feed(bytes(data)) if data else self._responses.end()
            if found:
                return found
        return b""

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()


class _FaultyEndpoint(Endpoint):
    """An endpoint whose connections pass the proxy."""

    def __init__(self, url: str, server: BaseServer, conversation: Conversation) -> None:
        super().__init__(url)
        self._server: Final = server
        self._conversation: Final = conversation

    async def connect(self) -> trio.abc.Stream:
        """Open a connection."""
        ours, theirs = socket.socketpair()
        self._server.process_request(theirs, ("127.0.0.1", 1))  # a pair of sockets, in place of an accepted one
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        await trio.lowlevel.checkpoint()
        return _FaultyStream(stream, self._conversation)


class HttpTarget(UrlTarget):
    """A raw server over HTTP behind a proxy, in one leg.

    Args:
        server: The server, which listens nowhere.
        conversation: The proxy.
        settings: The settings.
        transport: The transport to test.
    """

    def __init__(
        self, server: BaseServer, conversation: Conversation, settings: Settings, transport: Transport
    ) -> None:
        stream = f"{_URL}/sse" if transport is Transport.HTTP_SSE else None
        super().__init__(f"{_URL}/mcp", settings, sse_url=stream)
        # The runner connects to the endpoint to see whether the server is still there, and some checks do.
        vars(self)["endpoint"] = _FaultyEndpoint(f"{_URL}/mcp", server, conversation)
        vars(self)["sse"] = None if stream is None else _FaultyEndpoint(stream, server, conversation)
        self._server: Final = server
        self._conversation: Final = conversation
        self._own_settings: Final = settings
        self._transport: Final = transport

    @property
    def transports(self) -> frozenset[Transport]:
        """The transport to test."""
        return frozenset({self._transport})

    def for_user(self, headers: tuple[tuple[str, str], ...]) -> HttpTarget:
        """Return the same server for another user."""
        settings = attrs.evolve(self._own_settings, headers=headers)
        return HttpTarget(self._server, self._conversation, settings, self._transport)

    def open(
        self,
        revision: Revision,
        transport: Transport,
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,
        transcript: Transcript | None = None,
    ) -> AbstractAsyncContextManager[SuiteConnection]:
        """Connect while the block runs."""
        if transport is Transport.HTTP_SSE:
            endpoint = _FaultyEndpoint(f"{_URL}/sse", self._server, self._conversation)
            return open_sse(
                endpoint,
                revision,
                self._own_settings,
                capabilities=capabilities,
                handshake=handshake,
                transcript=transcript,
            )
        endpoint = _FaultyEndpoint(f"{_URL}/mcp", self._server, self._conversation)
        return open_http(
            endpoint,
            revision,
            self._own_settings,
            capabilities=capabilities,
            handshake=handshake,
            by_tool=by_tool,
            transcript=transcript,
        )


@contextmanager
def http_target(conversation: Conversation, settings: Settings, key: str, transport: Transport) -> Iterator[HttpTarget]:
    """Create a raw server over HTTP while the block runs.

    Args:
        conversation: The proxy.
        settings: The settings.
        key: The bearer token that requests must carry.
        transport: The transport to test.
    """
    server = http_server(RawServer(), 0, key)
    try:
        yield HttpTarget(server, conversation, settings, transport)
    finally:
        server.server_close()


@cache
def protected_issuer() -> Issuer:
    """Return the authorization server of all protected servers of this process. It listens nowhere."""
    issuer = Issuer(f"http://127.0.0.1:{_PORT + 1}")
    issuer.resource = f"{_URL}/mcp"
    return issuer


@contextmanager
def protected_target(conversation: Conversation, settings: Settings) -> Iterator[tuple[HttpTarget, Settings]]:
    """Create a raw protected server while the block runs.

    Args:
        conversation: The proxy.
        settings: The settings.

    Yields:
        The server, and the settings with a token for all requests.
    """
    issuer = protected_issuer()
    own = attrs.evolve(
        settings,
        headers=(("Authorization", f"Bearer {issuer.token()}"),),
        other_headers=(("Authorization", f"Bearer {issuer.token(changes={'sub': 'grace'})}"),),
        issuer=issuer,
    )
    server = ProtectedServer(None, issuer.url, issuer.resource, KeySet.import_key_set(issuer.keys))  # type: ignore[arg-type]  # a JWK set is a JSON object
    try:
        yield HttpTarget(server, conversation, own, Transport.HTTP), own
    finally:
        server.server_close()
