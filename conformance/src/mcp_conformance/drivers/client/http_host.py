"""The fake server over Streamable HTTP, in both eras.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.http_exchange import STREAM, HttpExchange
from mcp_conformance.drivers.client.scripted_request import ErrorReply, encoded
from mcp_conformance.protocol.param_headers import annotated, decoded_value, modern_headers
from mcp_conformance.wire.http_server import open_http_server
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_conformance.drivers.client.fake_server import FakeServer
    from mcp_conformance.drivers.client.scripted_request import Session
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["HttpHost", "PostSink", "Stream", "open_http_host"]

_JSON: Final = ("Content-Type", "application/json")
_VERSION: Final = "mcp-protocol-version"
_SESSION: Final = "mcp-session-id"
_ODD_CHARACTERS: Final = '-AbC~xYz!%2f+=,;"'
"""The end of each session id, and a part of each event id: characters that a lax implementation changes. All visible ones in ASCII are valid."""


class Stream:
    """An event stream, which may outlive the HTTP response in which it began. Legacy streams are resumable.

    Args:
        key: The prefix of the event ids; `None`: the events have no ids, and the stream ends with its response.
    """

    def __init__(self, key: str | None) -> None:
        self.key: Final = key
        self.events: Final[list[bytes]] = []
        """The data of the events so far."""
        self.exchange: HttpExchange | None = None
        """The response that carries the stream at present."""
        self.done: Final = trio.Event()
        """Set when the last event was sent."""
        self.resumed: trio.Event = trio.Event()
        """Set when the stream continues in another response after a pause."""

    @property
    def is_connected(self) -> bool:
        """Whether a response carries the stream, and the client has not closed it."""
        return self.exchange is not None and not self.exchange.ended and not self.exchange.gone.is_set()

    def id(self, index: int) -> str | None:
        """Return the id of an event."""
        return None if self.key is None else f"{self.key}-{index}"

    async def attach(self, exchange: HttpExchange, since: int = 0) -> None:
        """Continue in another response, beginning with this event."""
        self.exchange = exchange
        for index in range(since, len(self.events)):
            await exchange.event(self.events[index], id=self.id(index))
        self.resumed.set()
        if self.done.is_set():
            await exchange.finish()

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:  # noqa: ARG002  the response has begun already
        """Send an event now, or when the stream is resumed."""
        self.events.append(data)
        if self.exchange is not None and not self.exchange.ended:
            await self.exchange.event(data, id=self.id(len(self.events) - 1), deviant=deviant)
        if final:
            await self.end()

    async def end(self) -> None:
        """End the stream."""
        self.done.set()
        if self.exchange is not None:
            await self.exchange.finish()

    async def pause(self, retry: int | None = None) -> None:
        """End the response but not the stream. The client must resume the stream for the rest."""
        if self.exchange is not None:
            self.resumed = trio.Event()
            if retry is not None:
                await self.exchange.event(None, retry=retry)
            await self.exchange.finish()


class PostSink:
    """The sink for the messages of one POST: JSON if there is only the response, otherwise a stream.

    Args:
        exchange: The POST.
        stream: The stream, if one is needed.
        streams: Whether the response is always a stream.
        priming: Whether a stream begins with an event without data.
        headers: Headers of the response.
    """

    def __init__(
        self,
        exchange: HttpExchange,
        stream: Stream,
        *,
        streams: bool,
        priming: bool,
        headers: list[tuple[str, str]],
    ) -> None:
        self.exchange: Final = exchange
        self.stream: Final = stream
        self.headers: Final = headers
        """Headers of the response. A scenario may add some before the response begins."""
        self._streams: Final = streams
        self._priming: Final = priming

    async def open(self) -> None:
        """Begin the stream."""
        if not self.exchange.begun:
            await self.exchange.start(200, [*STREAM, *self.headers])
            self.stream.exchange = self.exchange
            if self._priming:
                await self.stream.send(b"")

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:
        """Send a message."""
        if final and not self.exchange.begun and not (self._streams and status == 200):
            await self.exchange.respond(status, [_JSON, *self.headers], data, deviant=deviant)
        else:
            await self.open()
            await self.stream.send(data, final=final, deviant=deviant)


class HttpHost:
    """An MCP endpoint. Created by `open_http_host`.

    Args:
        server: The server behind the endpoint.
        transcript: The transcript that records everything.
        nursery: Runs legacy requests, which outlive their HTTP connection.
    """

    def __init__(self, server: FakeServer, transcript: Transcript, nursery: trio.Nursery) -> None:
        self.server: Final = server
        self.exchanges: Final[list[HttpExchange]] = []
        """All requests, in order."""
        self.transcript: Final = transcript
        """The transcript that records everything."""
        self.nursery: Final = nursery
        """Runs legacy requests."""
        self.path = "/mcp"
        """The path of the endpoint."""
        self.query = ""
        """The query of the URL, with the question mark."""
        self.streams = False
        """Whether every response is a stream."""
        self.sessions = True
        """Whether legacy clients receive a session id."""
        self.session_header = "Mcp-Session-Id"
        """The name of the header of the session id in responses, in any case."""
        self.modern_session: str | None = None
        """A session id in each response to a modern client, which has no use for it."""
        self.standalone_streams = True
        """Whether legacy clients can open a standalone stream."""
        self.standalone_headers = STREAM
        """The headers of a standalone stream."""
        self.deletable = True
        """Whether legacy clients can end their sessions."""
        self.before: Callable[[HttpExchange], Awaitable[bool]] | None = None
        """Receives each request first, and returns whether it responded to it."""
        self._open: Final[dict[str, Session]] = {}
        self._kept: Final[dict[str, Stream]] = {}
        self._numbers: Final = itertools.count(1)

    async def handle(self, incoming: ServerExchange) -> None:
        """Respond to a request."""
        exchange = HttpExchange(incoming, self.transcript)
        exchange.beside = exchange.path != self.path
        self.exchanges.append(exchange)
        if self.before is not None and await self.before(exchange):
            return
        if exchange.path != self.path:
            await exchange.respond(404)
        elif exchange.method == "POST":
            await self._post(exchange)
        elif not self.server.legacy:
            await exchange.respond(405, [("Allow", "POST")])
        elif exchange.method == "GET":
            await self._get(exchange)
        elif exchange.method == "DELETE" and self.deletable:
            exchange.known = self._open.pop(exchange.header(_SESSION) or "", None)
            await exchange.respond(404 if exchange.known is None else 204)
        else:
            given = exchange.header(_SESSION)
            exchange.known = None if given is None else self._open.get(given)
            await exchange.respond(405, [("Allow", "GET, POST, DELETE" if self.deletable else "GET, POST")])

    def lose(self, session: Session) -> None:
        """Forget a session, as a restarted server does."""
        if session.id is not None:
            self._open.pop(session.id, None)

    # --- POST --------------------------------------------------------------------------------------------------------

    async def _post(self, exchange: HttpExchange) -> None:
        if not exchange.is_json():
            await self._reply_error(exchange, ErrorReply(-32700, "the body is not JSON", status=400), None)
            return
        message = exchange.message
        try:
            session = self.server.stateless(message)
            if session is not None:
                self._repeated(exchange, message, session)
                await self._modern(exchange, session)
                return
            if not self.server.legacy:
                # Anything but a request gets no response.
                await exchange.respond(202)
                return
            session = self._session(exchange, message)
        except ErrorReply as reply:
            await self._reply_error(exchange, reply, message.get("id"))
            return
        if session is not None:
            exchange.known = session
            await self._legacy(exchange, session)

    async def _reply_error(self, exchange: HttpExchange, reply: ErrorReply, id: JsonValue) -> None:
        error = reply.error(id)
        if id is None:
            del error["id"]
        await exchange.respond(reply.status or 400, [_JSON], encoded(error))

    def _repeated(self, exchange: HttpExchange, message: JsonObject, session: Session) -> None:
        """Check that the headers agree with the body. Raises `ErrorReply`."""
        tools = annotated(self.server.offers.tools)
        for name, value in modern_headers(message, session.revision.name, tools):
            # A client may also encode a value that is valid as it is.
            if [decoded_value(each.strip()) for each in exchange.all(name)] != [decoded_value(value)]:
                raise ErrorReply(-32020, f"{name} does not match the body", status=400)

    async def _modern(self, exchange: HttpExchange, session: Session) -> None:
        headers = [] if self.modern_session is None else [(self.session_header, self.modern_session)]
        sink = PostSink(exchange, Stream(None), streams=self.streams, priming=False, headers=headers)
        async with open_nursery() as nursery:
            nursery.start_soon(_cancel_when, exchange.gone, nursery.cancel_scope)
            await self.server.take(exchange.value, session, sink)
            nursery.cancel_scope.cancel()
        if not exchange.begun:
            # The scenario sends no response: wait until the client disconnects.
            await exchange.gone.wait()

    def _session(self, exchange: HttpExchange, message: JsonObject) -> Session | None:
        """Return the session of a request. Raises `ErrorReply`."""
        version, given = exchange.header(_VERSION), exchange.header(_SESSION)
        # A forgotten session still identifies the client.
        exchange.known = next((each for each in self.server.sessions if given is not None and each.id == given), None)
        if version is not None and version not in {revision.name for revision in self.server.legacy}:
            raise ErrorReply(-32600, f"the protocol version {version} is not supported", status=400)
        if message.get("method") == "initialize":
            session = self.server.open(f"S{len(self.server.sessions) + 1}{_ODD_CHARACTERS}" if self.sessions else None)
            if session.id is not None:
                self._open[session.id] = session
            return session
        if not self.sessions and self.server.sessions:
            return self.server.sessions[-1]
        if given is None:
            raise ErrorReply(-32600, "Mcp-Session-Id is missing", status=400)
        if given not in self._open:
            raise ErrorReply(-32600, "unknown session", status=404)
        return self._open[given]

    async def _legacy(self, exchange: HttpExchange, session: Session) -> None:
        value = exchange.value
        parts = value if isinstance(value, list) else [value]
        if not any(isinstance(each, dict) and "method" in each and "id" in each for each in parts):
            await exchange.respond(202)
            await self.server.take(value, session, _DiscardSink())
            return
        opens = exchange.message.get("method") == "initialize"
        revision = session.revision
        kept = revision.resumable and not opens
        stream = self._stream() if kept else Stream(None)
        sink = PostSink(
            exchange,
            stream,
            streams=self.streams,
            priming=revision.priming_event and kept,
            headers=[(self.session_header, session.id)] if opens and session.id is not None else [],
        )
        if self.streams:
            await sink.open()
        self.nursery.start_soon(self.server.take, value, session, sink)
        async with open_nursery() as nursery:
            nursery.start_soon(_cancel_when, exchange.gone, nursery.cancel_scope)
            await exchange.over.wait()
            nursery.cancel_scope.cancel()

    def _stream(self) -> Stream:
        stream = Stream(f"stream{next(self._numbers)}{_ODD_CHARACTERS}")
        self._kept[str(stream.key)] = stream
        return stream

    # --- GET ---------------------------------------------------------------------------------------------------------

    async def _get(self, exchange: HttpExchange) -> None:
        try:
            session = self._session(exchange, {})
        except ErrorReply as reply:
            await exchange.respond(reply.status or 400)
            return
        exchange.known = session
        last = exchange.header("last-event-id")
        if last is not None:
            key, _, index = last.rpartition("-")
            stream = self._kept.get(key)
            if stream is None or not index.isdecimal():
                await exchange.respond(400)
                return
            await exchange.start(200, STREAM)
            await stream.attach(exchange, int(index) + 1)
        elif not self.standalone_streams or session is None:
            await exchange.respond(405, [("Allow", "POST, DELETE")])
            return
        else:
            stream = self._stream()
            await exchange.start(200, self.standalone_headers)
            await stream.attach(exchange)
            if session.revision.priming_event:
                await stream.send(b"")
            session.standalone_sink = stream
            session.standalone_opened.set()
        async with open_nursery() as nursery:
            nursery.start_soon(_cancel_when, exchange.gone, nursery.cancel_scope)
            # The response also ends when the stream pauses again.
            nursery.start_soon(_cancel_when, exchange.over, nursery.cancel_scope)
            await stream.done.wait()
            nursery.cancel_scope.cancel()


class _DiscardSink:
    """A sink that discards messages, for input without a response."""

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:
        """Discard the message."""


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


@asynccontextmanager
async def open_http_host(
    server: FakeServer, transcript: Transcript, *, prepare: Callable[[HttpHost], None] = lambda _: None
) -> AsyncIterator[tuple[HttpHost, str]]:
    """Serve while the block runs. Yields the host and its URL.

    Args:
        server: The server behind the endpoint.
        transcript: The transcript that records everything.
        prepare: Receives the host before the first request can arrive.
    """
    async with open_nursery() as nursery:
        host = HttpHost(server, transcript, nursery)
        prepare(host)
        async with open_http_server(host.handle) as port:
            yield host, f"http://localhost:{port}{host.path}{host.query}"
        nursery.cancel_scope.cancel()
