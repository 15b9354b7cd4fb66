"""A session of legacy HTTP: the common state of its requests, which may arrive on different connections.

A session has no task. A handler runs in the task of the HTTP request that contained its call. It continues if the
client disconnects, because a disconnect is not a cancellation: its messages are recorded, and a client that reconnects
receives them. Responses to client requests arrive in other HTTP requests.

Spec: basic/transports#streamable-http (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

import attrs
import trio

from mcp_core.codec import Batch, encode
from mcp_core.engine.batch import BatchReply
from mcp_core.engine.events import (
    CancelReceived,
    ClientPeer,
    ConnectionOpened,
    ErrorReceived,
    LogLevelSet,
    MessageIgnored,
    NotificationReceived,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.subscriptions import subscription_bytes
from mcp_core.errors import ConnectionEnded, ErrorCode, LimitExceeded, LocalProtocolError
from mcp_core.excerpts import shown
from mcp_core.field_methods import FieldRepr
from mcp_core.json_text import write
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, ResultResponse
from mcp_core.limits.memory_budget import parsed_size
from mcp_core.methods import (
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_TASKS_STATUS,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
)
from mcp_core.revisions import Era
from mcp_core.types import SubscribeRequestParams
from mcp_server.cluster.messages import ClientMessageReceived, message_of, wire_of
from mcp_server.connection.changes import RECORDED, params_of, pending_notification
from mcp_server.connection.channel import (
    UNAVAILABLE,
    Channel,
    ClientDisconnected,
    PendingClientRequests,
    RequestContext,
)
from mcp_server.connection.pending_changes import bounded_change
from mcp_server.connection.request_queue import RequestQueue
from mcp_server.stores.sessions import StoreError
from mcp_server.transports.http.event_stream import DisconnectWatcher, EventStream, run_beside
from mcp_server.transports.http.standalone import StandaloneStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.engine.subscriptions import SubscriptionRegistry
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.server import Post, Rejection
    from mcp_core.jsonrpc.messages import JsonObject, Message, RequestId
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import SubscriptionFilter
    from mcp_server.cluster.protocol import Cluster
    from mcp_server.connection.channel import NotificationTarget, Service
    from mcp_server.stores.failures import StoreFailures
    from mcp_server.stores.sessions import PendingNotification
    from mcp_server.transports.http.replay import Log
    from mcp_server.transports.http.request import HttpContext

__all__ = ["Keeper", "Session"]

_log: Final = logging.getLogger("mcp_server")

_SUBSCRIBING: Final = frozenset({RESOURCES_SUBSCRIBE, RESOURCES_UNSUBSCRIBE})
"""The methods that change the subscribed resources of a session if they succeed."""

_OF_REQUESTS: Final = frozenset({NOTIFICATIONS_CANCELLED.name, NOTIFICATIONS_PROGRESS.name})
"""The notifications that belong to a request, which another worker may run."""

_FLEETING: Final = frozenset({NOTIFICATIONS_PROGRESS, NOTIFICATIONS_TASKS_STATUS})
"""Notifications about tasks. They do not wait for a stream, because clients poll."""


_SESSION_BYTES: Final = 4 * 1024
"""Memory of a session without the data of its client, in bytes: engine, tables, record and standalone stream."""


def session_bytes(connection: ServerConnection) -> int:
    """Return the estimated memory of a session that is open on an engine, in bytes."""
    return _SESSION_BYTES + parsed_size(write(connection.handshake)) + connection.watched_bytes


@attrs.define(eq=False, repr=False)
class _Begun(FieldRepr):
    """The result of reading one POST."""

    stream: EventStream
    """The stream for its responses."""
    answers: list[Answer] = attrs.field(factory=list)
    """Responses that are sent immediately."""
    refused: bool = False
    """Whether the engine rejected the message."""
    calls: list[RequestContext] = attrs.field(factory=list)
    """Requests that handlers respond to."""
    rejection: Rejection | None = None
    """The rejection of a request because the queue or the memory budget is full."""


class Keeper(Protocol):
    """A service that stores sessions for other processes.

    The methods do not fail, except for `refresh` and `pending_notifications`: errors of the store are logged.
    """

    @property
    def cluster(self) -> Cluster:
        """Connects this worker to the others."""

    @property
    def failures(self) -> StoreFailures:
        """Logs failures of the store."""

    async def save(self, session: Session) -> bool:
        """Store the record of a session. Return whether it was stored."""

    async def keep_subscription(self, session: Session, uri: str) -> bool:
        """Store whether a session is subscribed to a resource. Return whether it was stored."""

    async def remove_notifications(self, id: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove pending changes of the session `id` that its client has received, or does not need to receive."""

    async def refresh(self, session: Session) -> None:
        """Read the log level and the subscriptions of a session again if they are stale. Raises `StoreError`."""

    async def pending_notifications(self, id: str) -> Sequence[PendingNotification]:
        """Return the pending changes of the session `id`. Raises `StoreError`."""


class Session(Channel):
    """The channel of one session.

    Args:
        service: Responds to requests.
        connection: Its engine, on which the session is open.
        principal: The principal that owns the session; `None` for an anonymous client.
        id: The session id.
        log: The log of its streams; `None` if the revision does not support resumption.
        policy: The settings of the endpoint.
        keeper: Stores the session for other processes.
        charge: Its memory charge of `session_bytes`, which is released at the end of the session.
    """

    __slots__ = (
        "_calls",
        "_client_requests",
        "_keeper",
        "_log",
        "_policy",
        "_queue",
        "changed",
        "charge",
        "ended",
        "id",
        "is_stale",
        "save_due",
        "standalone",
        "unsaved",
        "updates",
    )

    changed: bool
    """Whether the record of the session is out of date."""
    ended: bool
    """Whether the session has ended."""
    is_stale: bool
    """Whether another worker has changed the log level or the subscriptions."""
    save_due: float
    """The time at which its record must be stored again, by trio's clock."""
    unsaved: frozenset[str]
    """The URIs whose subscription or its end is not in the store yet."""
    updates: int
    """The number of changes of the log level and the subscriptions by requests at this worker."""

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        *,
        principal: str | None,
        id: str,
        log: Log[EventStream] | None,
        policy: EndpointPolicy,
        keeper: Keeper,
        charge: MemoryCharge,
    ) -> None:
        super().__init__(service, connection, principal)
        self.id: Final = id
        """The session id."""
        self.charge: Final = charge
        """Its memory charge."""
        self.changed = False
        self.ended = False
        self.is_stale = False
        self.unsaved = frozenset()
        self.updates = 0
        self._log: Final = log
        self.standalone: Final = StandaloneStream(
            id,
            log,
            policy,
            cluster=keeper.cluster,
            failures=keeper.failures,
            settle=partial(keeper.remove_notifications, id),
            take_up=self._take_up,
        )
        """Its standalone stream."""
        self._policy: Final = policy
        self._keeper: Final = keeper
        self.save_due = math.inf
        self._calls: dict[RequestId, tuple[RequestContext, EventStream]] = {}
        self._queue: Final = RequestQueue(connection.limits)
        # Most sessions send no client requests.
        self._client_requests: PendingClientRequests | None = None

    @property
    def peer(self) -> ClientPeer:
        """The client, with the negotiated revision and capabilities."""
        return self.connection.session  # type: ignore[return-value]  # it is open

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self.peer.revision

    @property
    def is_stored(self) -> bool:
        """Whether the store has all data of the session that another process needs."""
        return self.save_due != -math.inf

    def stored(self, until: float) -> None:
        """Record that the store has the session.

        Args:
            until: The time at which it must be stored again, by trio's clock.
        """
        self.save_due = until
        if self._log is not None:
            self._log.is_stored = self.is_stored

    def not_stored(self) -> None:
        """Record that the store does not have all data of the session. The next request stores it again."""
        self.stored(-math.inf)

    # --- POST ------------------------------------------------------------------------------------------------------

    async def post(self, post: Post, context: HttpContext) -> Rejection | None:
        """Respond to a POST. Return the rejection of a request for which there is no capacity, or `None`."""
        begun = self._begin(post, context)
        if self.changed:
            await self._remember()
        stream, calls = begun.stream, begun.calls
        if begun.rejection is not None and not isinstance(post.message, Batch):
            return begun.rejection
        if not (begun.answers or calls):
            await context.response.complete(context.exchange.empty_head())
        if begun.answers:
            await stream.give(begun.answers, refused=begun.refused)
        if calls:
            await run_beside(
                context.scope,
                partial(self._attend, stream, calls, context),
                partial(self._serve, calls[0], stream, context)
                if len(calls) == 1
                else partial(self._serve_all, calls, stream, context),
            )
        return None

    def _begin(self, post: Post, context: HttpContext) -> _Begun:
        """Read the messages of a POST."""
        message, size = post.message, post.size
        batch = isinstance(message, Batch)
        begun = _Begun(EventStream(context.exchange, context.response, Era.LEGACY, batch=batch, log=self._log))
        members: Sequence[Message]
        if isinstance(message, Batch):
            reply = BatchReply(message)
            members = reply.messages
            begun.answers += reply.refused
            size //= len(message.members)
        else:
            members = (message,)
        for member in members:
            event, answer = self._take(member)
            if isinstance(event, RequestReceived):
                call = RequestContext(event, self, http=context.http, size=size, identity=context.identity)
                self._start(call, begun, context)
            elif answer is not None:
                begun.answers.append(answer)
                begun.refused = isinstance(event, MessageIgnored)
        return begun

    def _start(self, call: RequestContext, begun: _Begun, context: HttpContext) -> None:
        """Register a request for its handler, or record its rejection if there is no capacity."""
        id, params = call.request.id, call.request.params
        try:
            if isinstance(params, SubscribeRequestParams):
                # The memory of the subscription that the request adds.
                self.charge.resize(self.charge.size + subscription_bytes(params.uri))
            full = self._queue.claim(call.size)
            if full is not None:
                if call.request.definition in _SUBSCRIBING:
                    self._settle_memory()
                raise full  # handled like the other limits
        except LimitExceeded as full:
            self.connection.withdraw(id)
            own = full.setting != "Limits.total_bytes" or self.principal is not None
            begun.rejection = context.exchange.busy(full, id=id, own=own)
            begun.answers.append(cast("Answer", begun.rejection.error))  # `busy` always has an error
        else:
            begun.calls.append(call)
            begun.stream.expect(id)
            self._calls[id] = (call, begun.stream)

    def _settle_memory(self) -> None:
        """Charge the current subscriptions of the session, after a call that may have changed them has ended."""
        if not self.ended:
            others = [each for each, _ in self._calls.values() if each.request.definition is RESOURCES_SUBSCRIBE]
            if not others:
                self.charge.resize(session_bytes(self.connection))

    def reject(self, unreadable: Answer) -> None:
        """Handle a substitute for a response of the client that cannot be parsed."""
        self._take(unreadable)

    # --- messages of other workers ---------------------------------------------------------------------------------

    def deliver(self, message: JsonObject) -> None:
        """Handle a message of the client that belongs to a request, and that another worker received."""
        received = message_of(message, self.connection.limits)
        if received is not None:
            self._take(received, forwards=False)

    def send_from(self, sender: str, message: JsonObject) -> bool:
        """Send a message of another worker on the standalone stream.

        Args:
            sender: The other worker.
            message: The message.

        Returns:
            Whether there is a stream. If not, and if the message is a client request of this worker that came back, the
            request fails.
        """
        id = message.get("id")
        if isinstance(id, (int, str)) and self._client_requests is not None and self._client_requests.fail(id):
            return True
        stream = self.standalone.stream
        if stream is None or sender == self._keeper.cluster.worker:
            return False
        received = message_of(message, self.connection.limits)
        if received is not None:
            stream.leave(encode(received, null_id=False))
        return True

    async def follow(self, worker: str, stream: int) -> bool:
        """Leave a stream to another worker, where the client has resumed it. Return whether the stream is running."""
        live = None if self._log is None else self._log.live.get(stream)
        if live is None:
            return False
        await live.follow(worker)
        return True

    def unfollow(self, worker: str, stream: int) -> None:
        """Record that the client has disconnected from another worker, which served a stream."""
        live = None if self._log is None else self._log.live.get(stream)
        if live is not None:
            live.unfollow(worker)

    def appended(self, stream: int, *, is_over: bool) -> None:
        """Send new events of a resumed stream, which another worker has stored."""
        followed = (self.standalone.followed or {}).get(stream)
        if followed is not None:
            followed.appended(is_over=is_over)

    def lost(self, worker: str) -> None:
        """Learn that another worker has ended. Its streams that are resumed here get errors as responses."""
        for followed in tuple((self.standalone.followed or {}).values()):
            if followed.worker == worker:
                followed.appended(is_over=True)
        for live in () if self._log is None else tuple(self._log.live.values()):
            live.unfollow(worker)

    @property
    def is_in_use(self) -> bool:
        """Whether a request runs here, or a stream is open."""
        return bool(self._calls) or self.standalone.stream is not None

    def outdate(self) -> None:
        """Read all again, when it is needed, that other workers may have changed. Does not block."""
        self.is_stale = True
        self.standalone.refresh()

    def missed(self) -> int:
        """Send the events and notifications that other workers have stored. Does not block."""
        self.outdate()
        for followed in tuple((self.standalone.followed or {}).values()):
            followed.appended(is_over=False)
        return 0

    async def _take_up(self) -> None:
        """Queue the pending notifications of the store. Raises `StoreError`."""
        await self._keeper.refresh(self)
        await self.take_up(await self._keeper.pending_notifications(self.id))

    # --- messages of the client ------------------------------------------------------------------------------------

    def _take(self, message: Message, *, forwards: bool = True) -> tuple[object, Answer | None]:
        """Receive one message. Return the event, and the immediate response if there is one.

        Args:
            message: The message.
            forwards: Whether to send the message to the other workers if it belongs to no request of this one.
        """
        reaction = self.connection.receive(message)
        event = reaction.event
        if isinstance(event, (ResultReceived, ErrorReceived)):
            cast("PendingClientRequests", self._client_requests).settle(event)  # a client request was sent before
        elif isinstance(event, CancelReceived):
            self._cancel(event)
        elif isinstance(event, NotificationReceived):
            self._service.notified(self, event)
        elif isinstance(event, ConnectionOpened):
            self._service.opened(self)
        elif isinstance(event, LogLevelSet):
            self.changed = True
            self.updates += 1
        elif isinstance(event, MessageIgnored):
            _log.debug("message ignored: %s", event.reason)
            if forwards and reaction.reply is None and self._keeper.cluster.is_shared and _is_of_request(message):
                self._keeper.cluster.broadcast(ClientMessageReceived(self.id, wire_of(message)))
        for note in event.notes:
            _log.debug("tolerated deviation: %s", note)
        reply = reaction.reply
        return event, None if reply is None else cast("Answer", reply.message)  # all replies to messages are responses

    def _cancel(self, event: CancelReceived) -> None:
        entry = self._calls.get(event.id)
        if entry is not None:
            _log.debug("request cancelled: id=%r reason=%s", event.id, shown(event.reason or "not given"))
            entry[0].scope.cancel()

    async def _attend(self, stream: EventStream, calls: list[RequestContext], context: HttpContext) -> None:
        charge = context.charge

        def drop() -> None:
            for call in calls:
                call.dropped = charge.dropped
                call.scope.cancel()

        # The calls continue after the client disconnects, until other clients need their memory.
        await DisconnectWatcher(
            stream, context.response, context.receive, self._policy, gone=partial(charge.abandon, drop)
        ).run()

    async def _serve_all(self, calls: list[RequestContext], stream: EventStream, context: HttpContext) -> None:
        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(self._serve, call, stream, context)

    async def _serve(self, call: RequestContext, stream: EventStream, context: HttpContext) -> None:
        id = call.request.id
        try:
            outgoing = await self._run(call)
        finally:
            # Before the response is sent: the client may then use the id again.
            del self._calls[id]
            self.connection.withdraw(id)
            if call.request.definition in _SUBSCRIBING:
                self._settle_memory()
        # Break the reference cycle, as in `ModernRequest.serve`.
        call.client_requests = None
        if outgoing is not None:
            if call.request.definition is RESOURCES_UNSUBSCRIBE:
                self.standalone.unsubscribed(self.connection.watched)
            response = cast("Answer", outgoing.message)  # the engine returns a response
            if call.request.definition in _SUBSCRIBING:
                # Use the URI that the client sent, before middleware changed it, because the engine has the same. Store
                # it before the response, so that the client can rely on it.
                uri = cast("str", call.request.raw["uri"])
                if not await self._keeper.keep_subscription(self, uri) and self._keeper.cluster.is_shared:
                    # Other workers would not know of the subscription.
                    call.unavailable = UNAVAILABLE
                    response = ErrorResponse(id, ErrorObject(ErrorCode.INTERNAL_ERROR, UNAVAILABLE))
            await stream.answer(response, unavailable=call.unavailable)
        else:
            gone = context.exchange.unknown_session() if self.ended else None
            await stream.drop(id, gone)

    async def _remember(self) -> None:
        """Store the record, before the response confirms the change to the client."""
        self.changed = False
        if not await self._keeper.save(self) and self._keeper.cluster.is_shared:
            raise StoreError("the change of a session cannot be stored: see the error before")

    async def _outcome(self, call: RequestContext) -> object:
        await self._queue.enter(call.size)
        try:
            return await super()._outcome(call)
        finally:
            self._queue.leave()

    # --- for handlers ----------------------------------------------------------------------------------------------

    async def send(self, outgoing: Outgoing | None) -> None:
        """Send a message on the stream of its request."""
        if outgoing is not None and outgoing.for_request is not None and outgoing.for_request in self._calls:
            await self._calls[outgoing.for_request][1].send(encode(outgoing.message, null_id=False))

    async def release_stream(self, call: RequestContext) -> None:
        """Close the connection of the stream of a call, so that the client reconnects later."""
        await self._calls[call.request.id][1].release(self._policy.retry)
        await trio.lowlevel.checkpoint()

    async def request_client(
        self, definition: RequestMethod[object, object], params: object, call: RequestContext
    ) -> object:
        """Send a client request and wait for its response.

        The request is sent on the stream of the call, or, if this is not possible, on the standalone stream. While the
        call waits, another request can run.
        """
        if self._client_requests is None:
            self._client_requests = PendingClientRequests(self.connection, self._give_up)
        call.pending_client_requests += 1
        if call.pending_client_requests == 1:
            self._queue.leave()
        try:
            return await self._client_requests.request(
                definition, params, call, self._send_client_request, self._wait_for_response
            )
        finally:
            call.pending_client_requests -= 1
            if not call.pending_client_requests:
                self._queue.resume()

    async def _send_client_request(self, outgoing: Outgoing) -> None:
        stream = self._way_to(outgoing.for_request)
        if stream is None:
            if await self._send_elsewhere(outgoing.message):
                return
            entry = self._calls.get(cast("RequestId", outgoing.for_request))  # client requests belong to a call
            left = entry is None or not entry[1].connected
            raise (ClientDisconnected if left else ConnectionEnded)(
                "client request not sent: the client has no open stream"
            )
        await stream.send(encode(outgoing.message, null_id=False))

    async def _send_elsewhere(self, message: Message) -> bool:
        """Send a message on the standalone stream of another worker. Return whether there is one."""
        if not self._keeper.cluster.is_shared:
            return False
        return await self.standalone.send_elsewhere(wire_of(message))

    def _way_to(self, request: RequestId | None) -> EventStream | None:
        """Return the stream on which a message reaches the client, or `None`."""
        entry = None if request is None else self._calls.get(request)
        if entry is not None and entry[1].reaches:
            return entry[1]
        return self.standalone.stream

    async def _wait_for_response(self, answered: trio.Event, call: RequestContext) -> None:
        """Wait for a response while the client is connected or may reconnect."""
        while True:
            with trio.move_on_after(self._policy.session_idle):
                await answered.wait()
                return
            entry = self._calls.get(call.request.id)
            if (
                self.standalone.stream is None
                and not self.standalone.is_elsewhere
                and not (entry is not None and entry[1].connected)
            ):
                return

    def _give_up(self, cancellation: Outgoing, call: RequestContext) -> None:
        stream = self._way_to(call.request.id)
        if stream is not None:
            stream.leave(encode(cancellation.message, null_id=False))

    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:  # noqa: ARG002
        """Raise `LocalProtocolError`: this era has no `subscriptions/listen`."""
        raise LocalProtocolError(f"{call.request.method} does not exist in revision {self.revision}")

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.id

    @property
    def subscription_registry(self) -> SubscriptionRegistry:
        """The subscriptions of the client."""
        return self.connection.subscription_registry

    @property
    def session_target(self) -> NotificationTarget:
        """The session itself: notifications of the session are sent on its standalone stream."""
        return self

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Queue a notification for the standalone stream. Does not block."""
        if definition in _FLEETING and self.standalone.stream is None:
            # Other workers report the status themselves: it is in the store.
            if definition is NOTIFICATIONS_PROGRESS and self.standalone.is_elsewhere:
                for each in self.connection.publish(definition, params):
                    self.standalone.leave_elsewhere(wire_of(each.message))
            return
        if definition.name in RECORDED and not self.standalone.keeps:
            return
        waiting = self.standalone.waiting
        if definition.name in RECORDED and (definition.name, key) in waiting:
            # A notification states that something changed, not how often.
            return
        params, key = bounded_change(self.connection, params, key, len(waiting))
        self._publish(definition, params, key, pending_notification(definition, params))

    def _publish(
        self, definition: NotificationMethod[object], params: object, key: str, pending: PendingNotification | None
    ) -> bool:
        """Queue a notification if the client is subscribed. Return whether it is."""
        try:
            outgoing = self.connection.publish(definition, params)
        except LocalProtocolError as error:
            _log.debug("notification not sent: %s", error)
            return False
        for each in outgoing:
            self.standalone.notify((definition.name, key if pending is None else pending.uri), each.message, pending)
        return bool(outgoing)

    async def take_up(self, notifications: Sequence[PendingNotification]) -> None:
        """Queue the notifications that were recorded while no process served the session."""
        unwanted: list[PendingNotification] = []
        for each in notifications:
            definition = RECORDED.get(each.method)
            if definition is not None and self._publish(definition, params_of(each, definition), each.uri, each):
                continue
            # Another worker may have subscribed the client meanwhile. The store drops what no subscription covers.
            if not (each.is_update and self._keeper.cluster.is_shared):
                unwanted.append(each)
        if unwanted:
            # The server may no longer have the primitives that changed.
            await self._keeper.remove_notifications(self.id, unwanted)

    # --- the end ---------------------------------------------------------------------------------------------------

    async def release(self) -> None:
        """End the standalone stream because the server stops. The client is to reconnect later."""
        await self.standalone.end(self._policy.retry)

    def stop(self) -> None:
        """Cancel all handlers because the server stops."""
        for call, stream in self._calls.values():
            call.scope.cancel()
            if stream.response is not None:
                stream.response.abort()

    async def end(self) -> None:
        """End the session: cancel its handlers and pending client requests, and end its streams."""
        self.ended = True
        self.charge.release()
        self._service.disconnected(self)
        self.connection.end()
        self.stop()
        for followed in tuple((self.standalone.followed or {}).values()):
            await followed.end()
        await self.standalone.end()


def _is_of_request(message: Message) -> bool:
    """Return whether a message without effect can belong to a request that another worker runs."""
    if isinstance(message, Notification):
        return message.method in _OF_REQUESTS
    # An error without an id is matched to the only pending request. Another worker may have another one.
    return isinstance(message, (ResultResponse, ErrorResponse)) and message.id is not None
