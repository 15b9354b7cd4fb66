"""The channel of one open connection: the engine, a transport, and the pending requests.

A request runs in the task of its caller. The task sends the request, waits, shows the progress notifications and
returns the result. Received messages are passed to `deliver`: by the one task that reads the stream, or over HTTP by
the task of the request that the message belongs to. `deliver` does not block. Requests of the server run in tasks of
their own, so a slow user does not block the reader.

Each request ends exactly once: with its result, with an error, by cancellation of its caller, by a deadline, or when
the connection ends.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import attrs
import trio

from mcp_client.connection.client_requests import ClientRequestHandler
from mcp_client.connection.inbound_requests import InboundRequestRunner
from mcp_client.connection.middleware import MiddlewareChain
from mcp_client.connection.notification_listeners import NotificationListeners
from mcp_client.connection.pausable_deadlines import PausableDeadlines
from mcp_client.connection.pending_request import DeadlineWatcher, PendingRequest, ProgressHandlerFailed
from mcp_client.connection.request_options import NOTHING
from mcp_core.codec import Batch
from mcp_core.engine.events import (
    CancelReceived,
    ConnectionOpened,
    ErrorReceived,
    Negotiating,
    NegotiationEnded,
    NotificationReceived,
    ProgressReceived,
    RequestReceived,
    ResultReceived,
)
from mcp_core.errors import (
    ConnectionEnded,
    ErrorContext,
    LimitExceeded,
    MalformedMessage,
    McpError,
    Phase,
    RequestTimeout,
    SessionExpired,
    WrongAsyncLibrary,
)
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Message
from mcp_core.methods import PING
from mcp_core.types import PaginatedRequestParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_client.connection.pending_request import Perform
    from mcp_client.connection.request_options import RequestOptions
    from mcp_client.connection.response_cache import Caching
    from mcp_client.deadlines import Deadlines
    from mcp_client.handlers import Handlers, ProgressHandler
    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import ReceiveResult, ServerPeer
    from mcp_core.jsonrpc.messages import Request, RequestId
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.middleware import Middleware
    from mcp_core.types import Tool

__all__ = ["ClientChannel", "Deliver", "Handshake", "Transport"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")
R = TypeVar("R")

Deliver: TypeAlias = Callable[[Message | Batch | MalformedMessage], None]
"""A function that processes a received message without blocking."""


class Handshake(Protocol):
    """The handshake of one transport: the negotiation of the era and the revision."""

    async def open(self) -> None:
        """Negotiate with the server. Raises `McpError` when the negotiation fails."""

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete. `open` may return slightly later."""

    def advance(self, reaction: ReceiveResult) -> None:
        """Process a step of the negotiation, `Negotiating`, `Opened` or `NegotiationEnded`, and send its message."""

    def end(self, why: ConnectionEnded) -> None:
        """End the handshake: the connection has ended."""


class Transport(Protocol):
    """A transport of messages to and from one server.

    There are two kinds. A stream-based transport has one stream for all messages: `offer` and `send` write requests,
    and a background reader receives the responses. In the other kind each request is an HTTP exchange of its own, in
    the task of the caller (`perform`).
    """

    @property
    def perform(self) -> Perform | None:
        """The function that performs one request; `None` for a stream. It may change only during the handshake."""

    @property
    def interrupted(self) -> Callable[[], Awaitable[None]] | None:
        """After a lost session, the function to await before a request: it opens or awaits a new session."""

    @property
    def takes_headers(self) -> bool:
        """Whether a message can have HTTP headers of its own."""

    @property
    def stderr_tail(self) -> str | None:
        """The last lines of the server's stderr, at most 20; `None` if there is no stderr."""

    def handshake(self, channel: ClientChannel) -> Handshake:
        """Return the handshake of a connection over this transport."""

    async def send(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a message, and block while the server does not read.

        Args:
            message: The message.
            headers: HTTP headers of this message only.

        Raises:
            TransportError: The message was not delivered.
            RequestTimeout: The deadline of the transport passed, if it has one.
        """

    def offer(self, message: Message | Batch, *, more: bool) -> bool:
        """Send a message if that does not block.

        Args:
            message: The message.
            more: Whether other tasks may send soon, so that the transport can combine their messages into one write.

        Returns:
            Whether the message was sent. If not, call `send`, which blocks or raises.
        """

    def send_nowait(self, message: Message | Batch) -> None:
        """Send a message, for example a cancellation or an error, without blocking. A lost connection is ignored."""

    def usable(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return the listed tools that can be called over this transport, and remember their header parameters."""

    def describe(self) -> str:
        """Return a readable description of the server: a command line or an address."""

    async def aclose(self) -> None:
        """Close the transport, shielded and in bounded time. Any task can call this, more than once."""


class ClientChannel:
    """The channel of one open connection.

    Args:
        connection: The engine.
        transport: The transport of the messages.
        handlers: The functions that the application offers to the server.
        deadlines: The deadlines of the requests.
        nursery: The nursery of the reader and of the server's requests.
        middleware: The middleware of the messages, outermost first.
        caching: The response cache; `None` to cache no results.
    """

    def __init__(
        self,
        connection: ClientConnection,
        transport: Transport,
        handlers: Handlers,
        deadlines: Deadlines,
        nursery: trio.Nursery,
        *,
        middleware: Sequence[Middleware] = (),
        caching: Caching | None = None,
    ) -> None:
        self.connection: Final = connection
        self.transport: Final = transport
        self.deadlines: Final = deadlines
        self.pausable_deadlines: Final = PausableDeadlines(self._hold)
        self._held = False
        self._middleware: Final = MiddlewareChain(connection, middleware)
        self.client_requests: Final = ClientRequestHandler(handlers, self._middleware)
        self.nursery: Final = nursery
        self._calls: dict[RequestId, PendingRequest] = {}
        self._watch: Final = DeadlineWatcher(self._calls, nursery)
        self._ended_calls = 0  # since the last request was sent
        self._handshake: Final = transport.handshake(self)
        answer = self.client_requests.answer
        if connection.capabilities.tasks is not None:
            from mcp_client.connection.client_tasks import ClientTasks  # lazy: few applications use tasks

            answer = ClientTasks(connection, answer, self.notify, nursery).answer
        self._inbound_requests: Final = InboundRequestRunner(
            connection, answer, transport.send, transport.send_nowait, nursery, on_busy=self._hold
        )
        self.listeners: Final = NotificationListeners()
        self.caching: Final = caching
        """The response cache; `None` if no results are cached."""
        if caching is not None:
            self.listeners.subscribe(caching.notified)
        self._token: Final = trio.lowlevel.current_trio_token()
        self._ended: ConnectionEnded | None = None
        self._over: Final = trio.Event()

    # --- the life of the connection --------------------------------------------------------------------------------

    async def open(self, *, began: float | None = None) -> ServerPeer:
        """Negotiate the era and the revision with the server.

        Args:
            began: The start of the connect deadline on trio's clock, if an earlier attempt used part of the deadline.

        Returns:
            The server that was negotiated with.

        Raises:
            NegotiationFailed: The client and the server have no revision in common.
            RequestFailed: The server responded with an error.
            RemoteProtocolError: The response of the server is invalid.
            TransportError: The server is unreachable, closed the connection, or is not an MCP server.
            RequestTimeout: The connect deadline passed.
        """
        used = 0.0 if began is None else trio.current_time() - began
        try:
            with self.pausable_deadlines.move_on_after(max(0.0, self.deadlines.connect - used)):
                await self._handshake.open()
        except McpError as error:
            self.explain(error, phase=Phase.NEGOTIATE)
            raise
        if self._handshake.is_open:
            return self.server
        # The newest request: a handshake without a response matters more than a probe without one.
        id, method = [(None, None), *self.connection.outbound_requests.items()][-1]
        silence = RequestTimeout("the server did not respond", deadline="connect", seconds=self.deadlines.connect)
        # A server process that does not respond often writes to stderr what it waits for.
        silence.context = ErrorContext(stderr_tail=self.transport.stderr_tail)
        self.explain(silence, method=method, id=id, phase=Phase.CONNECT)
        raise silence

    def end(self, why: ConnectionEnded) -> None:
        """Close the channel with this reason and end all pending requests. Later calls have no effect."""
        if self._ended is not None:
            return
        self._ended = why
        self.connection.end()
        self._inbound_requests.end()
        for call in self._calls.values():
            call.end()
        self._handshake.end(why)
        self.listeners.end(lambda: self.ended or why)
        self._over.set()

    @property
    def server(self) -> ServerPeer:
        """The server of the open connection."""
        server = self.connection.server
        if server is None:
            raise AssertionError("the connection is not open")
        return server

    def forgotten(self) -> None:
        """Cancel the handlers of the server's requests: the server lost the session and ignores responses."""
        self._inbound_requests.abandon()

    async def aclose(self) -> None:
        """Close the connection. Pending requests raise `ConnectionEnded`. Any task can call this, more than once."""
        self.end(ConnectionEnded("the client was closed"))
        await self.transport.aclose()

    async def wait_ended(self) -> None:
        """Wait until the connection is closed or lost."""
        await self._over.wait()

    @property
    def ended(self) -> ConnectionEnded | None:
        """A new exception with the reason why the connection ended; `None` while the connection is open."""
        if self._ended is None:
            return None
        # A new exception for each waiting task: `explain` adds the method and the request id of each.
        again = ConnectionEnded(self._ended.message)
        again.context = attrs.evolve(self._ended.context, method=None, request_id=None, phase=None)
        again.__cause__ = self._ended.__cause__
        return again

    def _check_loop(self) -> None:
        """Raise `WrongAsyncLibrary` if another event loop than that of the connection runs."""
        if self._token is not trio.lowlevel.current_trio_token() and self._ended is None:
            raise WrongAsyncLibrary(
                "the client was opened in another event loop, which still runs its connection: use a client in the loop"
                " that opened it, or open one for each loop; mcp_client.blocking can be used from all threads and loops"
            )

    # --- calling ---------------------------------------------------------------------------------------------------

    async def request(
        self,
        definition: RequestMethod[P, R],
        params: P,
        options: RequestOptions = NOTHING,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
        on_id: Callable[[RequestId], None] | None = None,
    ) -> R:
        """Send a request through the middleware and wait for its response, or find its result in the cache.

        If the caller is cancelled, the request is cancelled too: the client notifies the server and drops a late
        response.

        Args:
            definition: The method.
            params: The parameters.
            options: Headers and metadata to add to the request.
            on_progress: Called in this task with each progress notification, see `ProgressHandler`.
            deadlines: The deadlines of the request; `None` for those of the connection.
            on_id: Called with the id of the request before the request is sent.

        Returns:
            The result.

        Raises:
            LocalProtocolError: The request must not be sent, or a middleware returned an object that is not a result
                of the method.
            RequestFailed: The server responded with an error.
            RemoteProtocolError: The response violates the protocol.
            LimitExceeded: The response exceeds a limit of the client.
            RequestTimeout: A deadline passed.
            TransportError: The connection ended, the client was closed, or the response was lost.
            WrongAsyncLibrary: The connection belongs to another event loop.
        """
        self._check_loop()
        params = options.put(params) if options.meta else params
        # A closed connection does not return cached results either.
        kept = definition.cacheable and self._ended is None and self.server.revision in definition.cacheable
        caching = self.caching if kept else None
        passing = not self._middleware.is_empty and definition is not PING
        fetch = partial(
            self._send, definition, on_progress=on_progress, deadlines=deadlines or self.deadlines, on_id=on_id
        )
        if caching is None and not passing:
            return await fetch(params, options.headers)

        def send(params: P) -> Awaitable[R]:
            if caching is None:
                return fetch(params, options.headers)
            return caching.answer(definition, params, options, self.server.revision, partial(fetch, params))

        # Before the cache: a middleware sees cached results too, and may change a result that several clients share.
        return await (self._middleware.request(definition, params, send) if passing else send(params))

    async def _send(
        self,
        definition: RequestMethod[P, R],
        params: P,
        headers: Sequence[tuple[str, str]],
        *,
        on_progress: ProgressHandler | None,
        deadlines: Deadlines,
        on_id: Callable[[RequestId], None] | None,
    ) -> R:
        # Methods that may need input can take long. Their progress notifications extend the idle deadline.
        wanted = on_progress is not None or bool(definition.may_need_input)
        id: RequestId | None = None
        try:
            restore = self.transport.interrupted
            if restore is not None:
                await restore()
                if isinstance(params, PaginatedRequestParams) and params.cursor is not None:
                    raise SessionExpired("the server lost the session, and a cursor is not valid in another one")
            if self._ended is not None:
                raise self.ended or self._ended
            outgoing = self.connection.request(definition, params, progress=wanted)
            request: Request = outgoing.message  # type: ignore[assignment]  # the engine makes a request of each call
            id = request.id
            if on_id is not None:
                on_id(id)
            call = PendingRequest(deadlines, on_progress, held=self._held, headers=headers)
            outcome = await self._outcome_of(request, call)
        except McpError as error:
            self.explain(error, method=definition.name, id=id, phase=Phase.REQUEST)
            raise
        return outcome.result  # type: ignore[return-value]  # the engine parsed it as a result of the method

    async def _outcome_of(self, request: Request, call: PendingRequest) -> ResultReceived:
        id = request.id
        self._calls[id] = call
        try:
            perform = self.transport.perform
            if perform is not None:
                await call.perform(perform, request)
            else:
                self._watch.expect(call.deadline)
                # After several responses at once, asyncio tasks send their next requests in the same tick of trio, too.
                more = len(self._calls) > 1 or self._ended_calls > 1
                self._ended_calls = 0
                if not self.transport.offer(request, more=more):
                    await call.send(partial(self.transport.send, request, call.headers))
                await call.wait()
        except ProgressHandlerFailed as failed:
            raise failed.error from failed.error.__cause__
        except RequestTimeout:
            raise
        except McpError:
            # The request was not written, so the server does not know it; or its response is lost.
            self.connection.forget(id)
            raise
        finally:
            del self._calls[id]
            self._ended_calls += 1
            if call.outcome is None:
                self._give_up(id)
        if isinstance(call.outcome, ResultReceived):
            return call.outcome
        if call.outcome is not None:
            raise call.outcome.error
        raise self.ended or AssertionError("a call ends with an outcome, a deadline or the connection")

    def _give_up(self, id: RequestId) -> None:
        """Cancel a request that its caller no longer waits for, and notify the server without blocking."""
        if self._ended is not None:
            return
        server = self.connection.server
        if self.transport.perform is not None and server is not None and server.revision.disconnect_cancels:
            # In this revision closing the stream cancels the request.
            self.connection.forget(id)
            return
        if (outgoing := self.connection.cancel(id, "no longer wanted by the caller")) is not None:
            self.transport.send_nowait(outgoing.message)

    async def notify(
        self, definition: NotificationMethod[P], params: P, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Send a notification.

        Args:
            definition: The method.
            params: The parameters.
            headers: HTTP headers of this message only.

        Raises:
            LocalProtocolError: The notification must not be sent.
            TransportError: The connection ended, or the message was not delivered.
            RequestTimeout: A deadline of the transport passed.
            WrongAsyncLibrary: The connection belongs to another event loop.
        """
        self._check_loop()
        try:
            if self._ended is not None:
                raise self.ended or self._ended
            through = self._middleware.outgoing(definition, params)
            if through is not None:
                await self.transport.send(self.connection.notify(definition, through).message, headers)
        except McpError as error:
            self.explain(error, method=definition.name, phase=Phase.REQUEST)
            raise
        await trio.lowlevel.checkpoint()

    def _hold(self) -> None:
        """Suspend or resume the idle deadlines: the server does not respond while a handler or a login is pending."""
        self._held = self._inbound_requests.busy or self.pausable_deadlines.is_paused
        for call in self._calls.values():
            (call.hold if self._held else call.alive)()
            self._expect(call)

    def _expect(self, call: PendingRequest) -> None:
        """Schedule the new deadline of a request. Over HTTP the cancel scope of the request enforces the deadline."""
        if self.transport.perform is None:
            self._watch.expect(call.deadline)

    # --- received messages -----------------------------------------------------------------------------------------

    def deliver(self, message: Message | Batch | MalformedMessage) -> None:
        """Process a received message without blocking."""
        if self._ended is not None:
            return
        if isinstance(message, Batch):
            self._deliver_batch(message)
        elif isinstance(message, MalformedMessage):
            self._deliver_malformed(message)
        else:
            self._handle(self.connection.receive(message))

    def _deliver_batch(self, batch: Batch) -> None:
        if self.connection.refuse_batch() is None:
            for member in self._inbound_requests.begin(batch):
                self._handle(self.connection.receive(member))
            return
        # Tolerated: the members are processed one by one, and the responses are sent one by one.
        _log.warning("invalid batch received, its messages are processed: server=%s", self.transport.describe())
        for each in batch.members:
            self.deliver(each)

    def _deliver_malformed(self, bad: MalformedMessage) -> None:
        """Process an invalid message. A pending request may wait for it, or the server for an error response."""
        reply = bad.reply
        if reply is not None and bad.answers not in self.connection.outbound_requests:
            # A line without an id may be a log line; and a modern client does not send responses.
            if reply.id is not None and self.connection.session is not None:
                self._inbound_requests.reply(reply)
            return
        id = bad.answers
        excess = bad.__cause__ if isinstance(bad.__cause__, LimitExceeded) else None
        if id is None and excess is not None and len(self.connection.outbound_requests) == 1:
            # The id of an oversized message is unknown, but only one request is pending.
            id = next(iter(self.connection.outbound_requests))
        if id is None:
            return
        # The engine receives an error response; the caller gets the original error.
        received = self.connection.receive(ErrorResponse(id, ErrorObject(int(bad.code), bad.message)))
        if isinstance(received.event, ErrorReceived):
            if (call := self._calls.get(received.event.id)) is not None:
                call.settle(attrs.evolve(received.event, error=excess or bad))
        else:
            self._handle(received)

    def _handle(self, received: ReceiveResult) -> None:
        """Perform the result of the engine for a received message."""
        event = received.event
        if isinstance(event, Negotiating | ConnectionOpened | NegotiationEnded):
            self._handshake.advance(received)
        elif received.reply is not None:
            self._inbound_requests.reply(received.reply.message)
        if isinstance(event, ResultReceived | ErrorReceived):
            call = self._calls.get(event.id)
            if call is not None:
                call.settle(event)
        elif isinstance(event, ProgressReceived):
            self._progressed(event)
        elif isinstance(event, NotificationReceived):
            self._notified(event)
        elif isinstance(event, RequestReceived):
            self._inbound_requests.start(event)
        elif isinstance(event, CancelReceived):
            self._inbound_requests.cancel(event.id)
        for note in event.notes:
            _log.debug("deviation tolerated: server=%s deviation=%s", self.transport.describe(), note)

    def _progressed(self, event: ProgressReceived) -> None:
        if (call := self._calls.get(event.id)) is not None:
            if not self._inbound_requests.busy:
                call.alive()
                self._expect(call)
            progress = self._middleware.progress(event)
            if progress is not None:
                call.progressed(progress)

    def _notified(self, event: NotificationReceived) -> None:
        through = self._middleware.incoming(event)
        if through is not None:
            self.client_requests.notified(through)
            self.listeners.notified(through)

    def explain(
        self, error: McpError, *, method: str | None = None, id: RequestId | None = None, phase: Phase | None = None
    ) -> None:
        """Add the method, the request id, the server and the phase to the context of an error, if not set."""
        known = error.context
        error.context = attrs.evolve(
            known,
            method=known.method or method,
            request_id=known.request_id if known.request_id is not None else id,
            peer=known.peer or self.transport.describe(),
            phase=known.phase or phase,
        )
