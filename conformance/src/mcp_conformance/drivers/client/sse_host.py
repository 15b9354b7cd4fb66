"""The fake server over HTTP+SSE of 2024-11-05: a stream, and an endpoint for POST.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

import enum
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.http_exchange import STREAM, HttpExchange
from mcp_conformance.wire.http_server import open_http_server
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from mcp_conformance.drivers.client.fake_server import FakeServer
    from mcp_conformance.drivers.client.scripted_request import Session
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_conformance.wire.transcript import Transcript

__all__ = ["EndpointForm", "SessionEvents", "SseHost", "open_sse_host"]


class SessionEvents:
    """The stream of one session."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange: Final = exchange
        self._writing: Final = trio.Lock()

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:  # noqa: ARG002  all messages are sent alike
        """Send a message."""
        async with self._writing:
            await self._exchange.named_event("message", data, deviant=deviant)

    async def finish(self) -> None:
        """End the stream."""
        async with self._writing:
            await self._exchange.finish()

    async def chunks(self, parts: Sequence[bytes]) -> None:
        """Send bytes of the stream unchanged, with no event between them."""
        async with self._writing:
            for part in parts:
                await self._exchange.chunk(part)


class EndpointForm(enum.Enum):
    """The form of the URI of an endpoint."""

    PATH = "path"
    """An absolute path."""
    RELATIVE = "relative"
    """A path relative to that of the stream."""
    ABSOLUTE = "absolute"
    """A whole URI."""
    QUERY = "query"
    """A query alone: the endpoint has the path of the stream."""


class SseHost:
    """The endpoints. Created by `open_sse_host`.

    Args:
        server: The server behind the endpoints.
        transcript: The transcript that records everything.
        nursery: Runs requests.
    """

    def __init__(self, server: FakeServer, transcript: Transcript, nursery: trio.Nursery) -> None:
        self.server: Final = server
        self.exchanges: Final[list[HttpExchange]] = []
        """All requests, in order."""
        self.path = "/sse"
        """The path of the stream."""
        self.endpoint = EndpointForm.PATH
        """The form of the URI in the `endpoint` event."""
        self.accepts_late = False
        """Whether a POST has its response, with the status 200, only behind those to its messages."""
        self.welcome = b""
        """Bytes of each stream before the `endpoint` event: comments, which clients ignore."""
        self.before: Callable[[HttpExchange], Awaitable[bool]] | None = None
        """Receives each request first, and returns whether it responded to it."""
        self._transcript: Final = transcript
        self._nursery: Final = nursery
        self._open: Final[dict[str, tuple[Session, SessionEvents]]] = {}

    async def handle(self, incoming: ServerExchange) -> None:
        """Respond to a request."""
        exchange = HttpExchange(incoming, self._transcript)
        self.exchanges.append(exchange)
        if self.before is not None and await self.before(exchange):
            return
        await self.answer(exchange)

    async def answer(self, exchange: HttpExchange) -> None:
        """Respond to a request that was recorded already."""
        if exchange.target == self.path and exchange.method == "GET":
            await self._stream(exchange)
        elif exchange.target in self._open and exchange.method == "POST":
            session, events = self._open[exchange.target]
            exchange.known = session
            if not exchange.is_json():
                await exchange.respond(400)
                return
            if self.accepts_late:
                await self.server.take(exchange.value, session, events)
                await exchange.respond(200)
                return
            await exchange.respond(202, [("Content-Type", "text/plain")], b"Accepted")
            self._nursery.start_soon(self.server.take, exchange.value, session, events)
        else:
            await exchange.respond(405 if exchange.path == self.path else 404)

    async def _stream(self, exchange: HttpExchange) -> None:
        session = self.server.open()
        events = SessionEvents(exchange)
        # A sibling of the stream, so that a relative URI depends on the path of the stream.
        parent = self.path[: self.path.rindex("/") + 1]
        query = f"?session={session.number}-8d1e"
        place = f"{self.path}{query}" if self.endpoint is EndpointForm.QUERY else f"{parent}messages{query}"
        self._open[place] = (session, events)
        exchange.known = session
        session.standalone_sink = events
        session.standalone_opened.set()
        await exchange.start(200, STREAM)
        forms = {
            EndpointForm.PATH: place,
            EndpointForm.RELATIVE: place.removeprefix(parent),
            EndpointForm.ABSOLUTE: f"http://{exchange.header('host')}{place}",
            EndpointForm.QUERY: query,
        }
        if self.welcome:
            await exchange.chunk(self.welcome)
        await exchange.named_event("endpoint", forms[self.endpoint].encode())
        await exchange.gone.wait()
        del self._open[place]


@asynccontextmanager
async def open_sse_host(
    server: FakeServer, transcript: Transcript, *, prepare: Callable[[SseHost], None] = lambda _: None
) -> AsyncIterator[tuple[SseHost, str]]:
    """Serve while the block runs. Yields the host and the URL of the stream.

    Args:
        server: The server behind the endpoints.
        transcript: The transcript that records everything.
        prepare: Receives the host before the first request can arrive.
    """
    async with open_nursery() as nursery:
        host = SseHost(server, transcript, nursery)
        prepare(host)
        async with open_http_server(host.handle) as port:
            yield host, f"http://localhost:{port}{host.path}"
        nursery.cancel_scope.cancel()
