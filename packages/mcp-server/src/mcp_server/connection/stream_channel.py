"""The channel of one byte stream: the engine, an outlet and a nursery.

    reader -> StreamChannel.deliver -> engine.receive -> Workers -> Service.answer -> engine.respond -> MessageSink

`deliver` does not block: it passes requests to workers and handles all other messages immediately. So cancellations,
responses and notifications never wait for a busy handler. Requests above `Limits.running_requests` are read and queued.
The queue is limited: when it is full, the reader stops (backpressure). If each message arrives in its own HTTP request,
there is no backpressure, and the server rejects the request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol, cast

import attrs
import trio

from mcp_core.codec import Batch, encode, stand_in
from mcp_core.engine.batch import BatchReply
from mcp_core.engine.events import (
    CancelReceived,
    ConnectionOpened,
    ErrorReceived,
    MessageIgnored,
    NotificationReceived,
    Outgoing,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.server import SessionReplaced
from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError, RequestFailed
from mcp_core.excerpts import shown
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, ResultResponse
from mcp_core.methods import SUBSCRIPTIONS_LISTEN
from mcp_core.revisions import Era
from mcp_core.types import SubscriptionsListenResult
from mcp_server.connection.changes import publish_all
from mcp_server.connection.channel import Channel, ClientDisconnected, PendingClientRequests, RequestContext, Service
from mcp_server.connection.pending_changes import bounded_change
from mcp_server.connection.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from mcp_core.engine.events import ReceiveResult
    from mcp_core.engine.server import ServerConnection
    from mcp_core.engine.subscriptions import SubscriptionRegistry
    from mcp_core.errors import MalformedMessage
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Message, RequestId
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.types import SubscriptionFilter
    from mcp_server.connection.authenticator import Identity
    from mcp_server.connection.channel import NotificationTarget

__all__ = ["CallMemory", "MessageSink", "StreamChannel"]

_log: Final = logging.getLogger("mcp_server")


class MessageSink(Protocol):
    """The destination of messages: one stream, or a stream per request. A disconnected client is not an error."""

    async def send(self, message: Message | Batch, for_request: RequestId | None, *, more: bool) -> None:
        """Send a message. Wait while the client reads slowly. `more`: other messages follow, and can be joined."""

    def send_nowait(self, message: Message | Batch, for_request: RequestId | None) -> None:
        """Send a message that must not wait: an error response, or the response to a ping or handshake."""


@attrs.frozen(eq=False, repr=False)
class CallMemory(FieldValue):
    """The memory account of a connection that cannot apply backpressure."""

    budget: MemoryBudget
    """The memory of all clients."""
    owner: Hashable
    """The owner of the charges."""


class StreamChannel(Channel):
    """The channel of one connection that sends all messages to one outlet.

    Args:
        service: Handles requests and notifications.
        connection: The engine.
        outlet: The destination of messages.
        nursery: The nursery of the handlers. Its owner cancels them.
        principal: `Principal.key` of the authenticated client; `None` for an anonymous client.
        memory: Charges the requests, if each message arrives in its own HTTP request. Requests above the limit of the
            queue or the budget are rejected. `None`: the reader stops while the queue is full.
    """

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        sink: MessageSink,
        nursery: trio.Nursery,
        principal: str | None = None,
        *,
        memory: CallMemory | None = None,
    ) -> None:
        super().__init__(service, connection, principal)
        self._sink: Final = sink
        self._memory: Final = memory
        self._nursery: Final = nursery
        self._calls: dict[RequestId, RequestContext] = {}
        self._workers: Final = Workers(nursery, connection.limits, self._serve)
        self._batches: dict[RequestId, BatchReply] = {}
        self._client_requests: Final = PendingClientRequests(
            connection, lambda cancellation, _: self._send_nowait(cancellation)
        )
        self._pending_notifications: dict[tuple[str, str], tuple[NotificationMethod[object], object]] = {}
        self._publishing = False
        self._session_target: _SessionTarget | None = None
        self._ended = False
        self._idle = trio.Event()

    # --- in --------------------------------------------------------------------------------------------------------

    def deliver(
        self,
        message: Message | Batch,
        size: int = 0,
        http: HttpRequest | None = None,
        identity: Identity | None = None,
        memory: int = 0,
    ) -> None:
        """Handle a message of the client.

        Args:
            message: The message, as returned by the codec.
            size: Its size while it is queued, in bytes.
            http: The HTTP request that contained it.
            identity: The identity of the sender.
            memory: Its estimated memory, in bytes; charged to `CallMemory` until the request has ended.
        """
        if isinstance(message, Batch):
            self._deliver_batch(message, size, http, identity, memory)
        else:
            call = self._handle(self.connection.receive(message), http, identity)
            if call is not None:
                self._start(call, size, memory)

    def start_reader(self, read: Callable[[], Awaitable[None]]) -> None:
        """Start to read in a task of this channel.

        Args:
            read: Delivers messages until the end of the stream, or until `deliver_alone` returns false. Later calls
                continue where the one before stopped.
        """
        self._workers.start_reader(read)

    async def deliver_alone(self, message: Message | Batch, size: int) -> bool:
        """Handle a message after which no other has arrived, in the task of the reader if nothing else runs.

        Args:
            message: The message, as returned by the codec.
            size: Its size while it is queued, in bytes.

        Returns:
            Whether the task still reads. Otherwise another one does.
        """
        if isinstance(message, Batch) or not self._workers.is_idle:
            self.deliver(message, size)
            return True
        call = self._handle(self.connection.receive(message))
        if call is None:
            return True
        if call.request.definition is SUBSCRIPTIONS_LISTEN:
            self._start(call, size, 0)
            return True
        self._calls[call.request.id] = call
        return await self._workers.run_as_reader(call)

    def reject(self, malformed: MalformedMessage) -> None:
        """Handle bytes that are not a valid message. Send an error response if one is defined."""
        _log.debug("malformed message: %s", malformed.message)
        failure = stand_in(malformed)
        if failure is not None and failure.id in self.connection.outbound_requests:
            self.deliver(failure)
        elif malformed.reply is not None:
            self._sink.send_nowait(malformed.reply, None)

    @property
    def at_capacity(self) -> bool:
        """Whether the request queue exceeds its limits."""
        return self._workers.at_capacity

    async def wait_for_capacity(self) -> None:
        """Wait until another message may be read. The reader calls this method if the queue exceeds its limits."""
        await self._workers.wait_for_capacity()

    def _deliver_batch(
        self, batch: Batch, size: int, http: HttpRequest | None, identity: Identity | None, memory: int
    ) -> None:
        rejection = self.connection.refuse_batch()
        if rejection is not None:
            self._sink.send_nowait(rejection, None)
            return
        reply = BatchReply(batch)
        if reply.immediate is not None:
            self._sink.send_nowait(reply.immediate, None)
        for id in reply.pending:
            self._batches[id] = reply
        count = len(batch.members)
        for member in reply.messages:
            call = self._handle(self.connection.receive(member), http, identity)
            if call is not None:
                self._start(call, size // count, memory // count)

    def _handle(
        self, reaction: ReceiveResult, http: HttpRequest | None = None, identity: Identity | None = None
    ) -> RequestContext | None:
        """Handle what a message brought about. Return its request, which is not started."""
        event, reply = reaction.event, reaction.reply
        if reply is not None:
            self._send_nowait(reply)
        call = None
        if isinstance(event, RequestReceived):
            call = RequestContext(event, self, http=http, identity=identity)
        elif isinstance(event, (ResultReceived, ErrorReceived)):
            self._client_requests.settle(event)
        elif isinstance(event, CancelReceived):
            self._cancel(event)
        elif isinstance(event, NotificationReceived):
            self._service.notified(self, event)
        elif isinstance(event, ConnectionOpened):
            self._service.opened(self)
        elif isinstance(event, SessionReplaced):
            self._replace_session(event)
        elif isinstance(event, MessageIgnored):
            _log.debug("message ignored: %s", event.reason)
        for note in event.notes:
            _log.debug("tolerated deviation: %s", note)
        return call

    # --- handlers --------------------------------------------------------------------------------------------------

    def _start(self, call: RequestContext, size: int, memory: int) -> None:
        id = call.request.id
        # A subscription is not counted as a running request: it only waits, and there may be many.
        if call.request.definition is SUBSCRIPTIONS_LISTEN:
            self._calls[id] = call
            self._nursery.start_soon(self._serve, call)
            return
        if self._memory is not None:
            try:
                full = self._workers.excess(size)
                if full is not None:
                    raise full
                call.charge = self._memory.budget.charge(self._memory.owner, memory)
            except LimitExceeded as excess:
                refused = self.connection.fail(id, RequestFailed(excess.message, code=ErrorCode.INTERNAL_ERROR))
                self._send_nowait(cast("Outgoing", refused))  # the request was pending
                return
        self._calls[id] = call
        self._workers.submit(call, size)

    async def _serve(self, call: RequestContext) -> None:
        """Run the handler and send its outcome."""
        id = call.request.id
        try:
            outgoing = await self._run(call)
            if outgoing is not None:
                await self._send_answer(id, outgoing)
        finally:
            # A client may reuse the id when the response is queued, before `send` returns.
            if self._calls.get(id) is call:
                self._withdraw(id)
                del self._calls[id]
            if call.charge is not None:
                call.charge.release()
            if not self._calls:
                self._idle.set()

    def _finish(self, id: RequestId, outcome: object) -> Outgoing | None:
        if isinstance(outcome, SubscriptionsListenResult):
            # On a byte stream, a cancellation follows the result.
            for outgoing in self.connection.finish(id):
                self._send_nowait(outgoing)
            return None
        return super()._finish(id, outcome)

    async def _send_answer(self, id: RequestId, outgoing: Outgoing) -> None:
        try:
            await self._send(outgoing)
        except LocalProtocolError:
            # JSON cannot encode the result (for example a lone surrogate). Nothing was sent, so an error can be sent.
            _log.exception("result cannot be sent: request=%r", id)
            error = ErrorObject(int(ErrorCode.INTERNAL_ERROR), "Internal error")
            await self._send(Outgoing(ErrorResponse(id, error), id))

    def _cancel(self, event: CancelReceived) -> None:
        call = self._calls.get(event.id)
        if call is None:
            return
        _log.debug("request cancelled: request=%r reason=%s", event.id, shown(event.reason or "not given"))
        call.scope.cancel()
        if self._workers.drop(call):
            if call.charge is not None:
                call.charge.release()
            del self._calls[event.id]
            self._withdraw(event.id)

    def _replace_session(self, event: SessionReplaced) -> None:
        """End the previous legacy session: cancel its handlers, and drop what they send.

        Modern requests do not belong to a session. They continue.
        """
        stale = {id: call for id, call in self._calls.items() if call.request.peer.revision.era is Era.LEGACY}
        _log.info("session replaced by a second initialize: cancelled_requests=%d", len(stale))
        ended = _EndedSession(self._service, event.ended, self.principal)
        self.hand_over(ended)
        if self._session_target is not None:
            self._session_target.channel = None
            self._session_target = None
        # Notifications of tasks belong to the previous session. Changes of lists also apply to the next one.
        self._pending_notifications = {
            key: notification
            for key, notification in self._pending_notifications.items()
            if notification[0].filter_member is not None
        }
        self._batches.clear()
        # Before the cancellation, so that shielded tasks receive the reason.
        self._client_requests.end("the session ended")
        for waiting in self._workers.drop_all(set(stale.values())):
            if waiting.charge is not None:
                waiting.charge.release()
        for id, call in stale.items():
            del self._calls[id]
            call.channel = ended
            call.scope.cancel()

    def _withdraw(self, id: RequestId) -> None:
        """Discard a request: send nothing for it. Has no effect if the response was sent."""
        self.connection.withdraw(id)
        reply = self._batches.pop(id, None)
        joined = None if reply is None else reply.drop(id)
        if joined is not None:
            self._sink.send_nowait(joined, None)

    # --- out -------------------------------------------------------------------------------------------------------

    async def _send(self, outgoing: Outgoing) -> None:
        joined = self._join(outgoing.message)
        if joined is not None:
            await self._sink.send(joined, outgoing.for_request, more=self._workers.several)

    def _send_nowait(self, outgoing: Outgoing) -> None:
        joined = self._join(outgoing.message)
        if joined is not None:
            self._sink.send_nowait(joined, outgoing.for_request)

    def _join(self, message: Message) -> Message | Batch | None:
        """Return the message. For a response in a batch: the batch of responses, or `None` if it is incomplete."""
        if self._batches and isinstance(message, (ResultResponse, ErrorResponse)) and message.id is not None:
            reply = self._batches.get(message.id)
            if reply is not None:
                # Raises if JSON cannot encode the message, before it makes the whole batch invalid.
                encode(message, null_id=False)
                del self._batches[message.id]
                return reply.add(message)
        return message

    async def send(self, outgoing: Outgoing | None) -> None:
        """Send a message to the outlet. Waits while the client reads slowly."""
        if outgoing is not None:
            await self._send(outgoing)

    async def request_client(
        self, definition: RequestMethod[object, object], params: object, call: RequestContext
    ) -> object:
        """Send a client request and wait for its response.

        Meanwhile the inbound request does not count as running, so that waiting handlers do not block other requests.
        """
        # Several tasks of a handler may send client requests at the same time. The handler counts once.
        call.pending_client_requests += 1
        if call.pending_client_requests == 1:
            self._workers.release()
        try:
            return await self._client_requests.request(definition, params, call, self._send)
        finally:
            call.pending_client_requests -= 1
            if not call.pending_client_requests:
                self._workers.resume()

    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:
        """Acknowledge the subscription, then wait until it is cancelled."""
        await self.send(self.connection.acknowledge(call.request.id, wanted))
        await trio.sleep_forever()

    # --- change notifications --------------------------------------------------------------------------------------

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Queue a change notification. Does not block."""
        if self._ended:
            return
        if (definition.name, key) not in self._pending_notifications:
            params, key = bounded_change(self.connection, params, key, len(self._pending_notifications))
        self._pending_notifications[definition.name, key] = (definition, params)
        if not self._publishing:
            self._publishing = True
            self._nursery.start_soon(self._publish)

    def missed(self) -> int:
        """Notify the client of all that may have changed. Does not block."""
        return publish_all(self, self.connection.listened)

    @property
    def subscription_registry(self) -> SubscriptionRegistry:
        """The subscriptions of the client."""
        return self.connection.subscription_registry

    @property
    def session_target(self) -> NotificationTarget:
        """The target of notifications for the current legacy session alone."""
        if self._session_target is None:
            self._session_target = _SessionTarget(self)
        return self._session_target

    async def _publish(self) -> None:
        try:
            while self._pending_notifications:
                definition, params = self._pending_notifications.pop(next(iter(self._pending_notifications)))
                try:
                    for outgoing in self.connection.publish(definition, params):
                        await self._send(outgoing)
                except LocalProtocolError as error:
                    _log.debug("notification not published: %s", error)
        finally:
            self._publishing = False

    # --- the end ---------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """End the connection: end subscriptions, fail client requests, wait at most `seconds` for handlers."""
        for id in self.connection.subscriptions:
            self._calls[id].scope.cancel()
        self._client_requests.end()
        with trio.move_on_after(seconds):
            while self._calls:
                self._idle = trio.Event()
                await self._idle.wait()
        for call in self._calls.values():
            call.scope.cancel()

    def end(self) -> None:
        """Close the engine and release all memory. Nothing is sent after that."""
        self._ended = True
        self.connection.end()
        self._batches.clear()
        self._client_requests.end()
        self._workers.stop()
        for call in self._calls.values():
            if call.charge is not None:
                call.charge.release()


@attrs.define(eq=False, repr=False)
class _SessionTarget(FieldRepr):
    """The `NotificationTarget` of one legacy session of a link, until the session ends."""

    channel: StreamChannel | None
    """The link; `None` after the session has ended."""

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Queue a change notification, unless the session has ended."""
        if self.channel is not None:
            self.channel.publish(definition, params, key)

    def missed(self) -> int:
        """Do nothing: the channel itself is notified of changes."""
        return 0


class _EndedSession(Channel):
    """The channel of handlers that still run after their legacy session has ended. It drops all messages."""

    async def send(self, outgoing: Outgoing | None) -> None:  # noqa: ARG002
        """Drop the message."""
        await trio.lowlevel.checkpoint()

    async def request_client(
        self,
        definition: RequestMethod[object, object],
        params: object,  # noqa: ARG002
        call: RequestContext,  # noqa: ARG002
    ) -> object:
        """Raise `ClientDisconnected`."""
        await trio.lowlevel.checkpoint()
        raise ClientDisconnected(f"the session ended before {definition.name} was sent")

    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:  # noqa: ARG002
        """Raise `LocalProtocolError`: a legacy session does not have such subscriptions."""
        raise LocalProtocolError(f"{call.request.method} cannot start: the session ended")

    @property
    def session_target(self) -> NotificationTarget:
        """A target that drops all notifications."""
        return _SessionTarget(None)
