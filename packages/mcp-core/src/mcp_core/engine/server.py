"""Server end of a connection.

The engine responds to the handshake, `ping`, `server/discover` and `logging/setLevel`. `receive` returns every other
valid request as `RequestReceived`. Respond to it once, with `respond` or `fail`. A request with modern request metadata
describes its client. Any other request belongs to the legacy session that `initialize` opened.

Spec: basic/lifecycle (legacy), basic/versioning and basic/patterns (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared, missing_client_capability, undeclared
from mcp_core.engine.connection import Connection, InboundRequests, OutboundRequests
from mcp_core.engine.events import (
    ClientPeer,
    ConnectionOpened,
    Event,
    LogLevelSet,
    Outgoing,
    ReceiveResult,
    RequestHandled,
)
from mcp_core.engine.lifecycle import Kind, Lifecycle, State
from mcp_core.engine.request_meta import EnvelopeReader, missing_member
from mcp_core.engine.subscriptions import SubscriptionRegistry, granted
from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    LimitExceeded,
    LocalProtocolError,
    MissingRequiredClientCapability,
    RequestFailed,
    UnsupportedProtocolVersion,
)
from mcp_core.json_text import write
from mcp_core.jsonrpc.messages import Notification, ResultResponse
from mcp_core.limits import Limits
from mcp_core.methods import (
    INITIALIZE,
    LOGGING_SET_LEVEL,
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    NOTIFICATIONS_TASKS,
    NOTIFICATIONS_TASKS_STATUS,
    PING,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    SERVER_DISCOVER,
    SUBSCRIPTIONS_LISTEN,
    Side,
)
from mcp_core.revisions import LATEST_LEGACY, REVISIONS, Era, preferred
from mcp_core.types import (
    CancelledNotificationParams,
    DiscoverResult,
    InitializeRequestParams,
    InitializeResult,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_core.types.logging import reaches
from mcp_core.types.meta import PROTOCOL_VERSION, RELATED_TASK, SERVER_INFO, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from mcp_core.engine.connection import Extensions, InboundRequest
    from mcp_core.engine.events import AbandonedRequests
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Request, RequestId
    from mcp_core.methods import CapabilityPath, NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import Implementation, LoggingLevel, ServerCapabilities

__all__ = ["ServerConnection", "SessionReplaced", "require_client"]

_DEFAULT_LOG_LEVEL: Final = "info"
"""The log level of a legacy client that has not sent `logging/setLevel`; the specification leaves it to the server."""

_OWN_COMMAND: Final = frozenset(
    {
        NOTIFICATIONS_CANCELLED,
        NOTIFICATIONS_MESSAGE,
        NOTIFICATIONS_PROGRESS,
        NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    }
)
"""Notifications that have their own commands; `notify` rejects them. Change notifications are sent with `publish`."""

_OF_TASKS: Final = frozenset({NOTIFICATIONS_PROGRESS, NOTIFICATIONS_TASKS_STATUS})
"""Notifications about a task (2025-11-25): its status, and its progress under the token of its first request."""

_KEPT: Final[Mapping[str, frozenset[str] | None]] = {
    "protocolVersion": None,
    "capabilities": frozenset({"roots", "sampling", "elicitation", "tasks", "experimental", "extensions"}),
    # Icons can be images of a hundred kilobytes, and a server does not display them.
    "clientInfo": frozenset({"name", "version", "title", "description", "websiteUrl"}),
}
"""The stored members of the parameters of `initialize`, each with the names of its own stored members; `None` for all."""

_CODES: Final = {"Limits.uri_chars": ErrorCode.INVALID_PARAMS}
"""The error codes of limits on a single parameter. The other limits depend on earlier requests."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionReplaced(Event):
    """The replacement of the legacy session by a second `initialize`; the response is in `ReceiveResult.reply`.

    Bridges that reuse one pipe for several clients send a second `initialize`. The caller must cancel the handlers of
    the requests in `abandoned.inbound` and fail the tasks that wait for the requests in `abandoned.outbound`. Handlers
    that still run must use `ended` from then on.
    """

    id: RequestId
    """The id of the second `initialize`."""
    abandoned: AbandonedRequests
    """The requests that were pending in the session that ended."""
    ended: ServerConnection
    """A closed connection that holds the requests of the session that ended.

    Request ids can be reused in the new session. Handlers of the old session therefore have a separate connection,
    whose commands send nothing.
    """


class ServerConnection(Connection):
    """The server end of one connection.

    Args:
        info: The name and version of the server.
        capabilities: The capabilities that the server declares. Methods of other capabilities are rejected.
        revisions: The revisions that the server supports.
        instructions: Instructions for a model on how to use the server.
        limits: The limits of this connection.
        extensions: Methods and notifications beyond the specification.
    """

    capabilities: ServerCapabilities
    role = Side.SERVER

    def __init__(
        self,
        info: Implementation,
        capabilities: ServerCapabilities,
        *,
        revisions: tuple[Revision, ...] = tuple(REVISIONS.values()),
        instructions: str | None = None,
        limits: Limits | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        super().__init__(revisions=revisions, limits=limits or Limits(), extensions=extensions)
        self.info: Final = info
        self.capabilities = capabilities
        self.instructions: Final = instructions
        self._modern = frozenset(revision for revision in revisions if revision.era is Era.MODERN)
        self._legacy = tuple(revision for revision in revisions if revision.era is Era.LEGACY)
        self._supported = tuple(
            revision.name for revision in reversed(tuple(REVISIONS.values())) if revision in revisions
        )
        # Without a session, a legacy client may send initialize and ping; every other request needs request metadata.
        self._without_session = frozenset({INITIALIZE.name, PING.name} if self._legacy else {INITIALIZE.name})
        self._envelopes = EnvelopeReader(self._modern, self._supported)
        self.handshake: JsonObject = {}
        """The stored part of the parameters of `initialize`; empty while no legacy session is open."""
        self._interests = SubscriptionRegistry(self.limits)
        self._info_wire: dict[Revision, JsonObject] = {}
        self._offered: dict[tuple[str, Revision], RequestMethod[object, object]] = {}

    # --- other connections of the same server ------------------------------------------------------------------------

    def exchange(self) -> Self:
        """Return a new connection of the same server, for one modern HTTP request or one session.

        The new connection shares everything that does not depend on the client, including lookup caches. This is a
        hundred times cheaper than the constructor. Call it on a connection that is not used for messages.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._lifecycle = Lifecycle()
        made._outbound = OutboundRequests()
        made._inbound = InboundRequests()
        made._interests = SubscriptionRegistry(self.limits)
        made._session = None
        return made

    def reopen(
        self,
        params: JsonObject,
        revision: Revision,
        *,
        log_level: LoggingLevel | None = None,
        subscriptions: Iterable[str] = (),
        last_id: int = 0,
    ) -> None:
        """Restore a legacy session that an earlier process opened. Call it on a new connection.

        Args:
            params: The parameters of the client's `initialize`.
            revision: The negotiated revision.
            log_level: The level that `logging/setLevel` set.
            subscriptions: The URIs of the resources that the session subscribed to.
            last_id: A number that is at least the id of each request that the earlier process sent.

        Raises:
            InvalidValue: The parameters are invalid for `initialize`.
            LimitExceeded: The handshake or the subscriptions of the session exceed a limit in `Limits`.
            LocalProtocolError: A session is open already, or this server does not support the revision.
        """
        if self._session is not None or revision not in self._legacy:
            raise LocalProtocolError(
                f"cannot restore a session in revision {revision} on this connection", anchor="basic/lifecycle"
            )
        kept = _kept_handshake(params, self.limits.handshake_bytes)
        client, _ = converter(revision).receive(kept, InitializeRequestParams)
        self.handshake = kept
        for uri in subscriptions:
            self._interests.subscribe(uri)
        self._interests.open_session()
        self._session = ClientPeer(
            revision=revision,
            capabilities=client.capabilities,
            implementation=client.client_info,
            log_level=log_level,
        )
        self._lifecycle = Lifecycle(State.OPERATING)
        self._outbound = OutboundRequests(last=last_id)

    def share(self, last_id: int) -> None:
        """Prepare an open legacy session for other processes that serve it at the same time.

        Each process has a connection of its own. The client sends `notifications/initialized` to only one of them.

        Args:
            last_id: A number that is at least the id of each request that another process sends. Requests of this
                connection have greater ids.
        """
        self._outbound.start_after(last_id)
        if self.state is State.ANSWERED:
            self._lifecycle.receive(Kind.INITIALIZED)

    def update_session(self, *, log_level: LoggingLevel | None, subscriptions: Iterable[str]) -> None:
        """Replace the log level and the subscriptions of the legacy session, which another process changed.

        Args:
            log_level: The level that `logging/setLevel` set; `None` if the client did not set one.
            subscriptions: The URIs of the subscribed resources. Those beyond `Limits.watched_resources` are dropped.
        """
        self._session = attrs.evolve(self._client_session(), log_level=log_level)
        self._interests.unsubscribe_all()
        for uri in subscriptions:
            try:
                self._interests.subscribe(uri)
            except LimitExceeded:
                continue

    @property
    def subscription_registry(self) -> SubscriptionRegistry:
        """The subscriptions of the client, for an index of several connections. Do not change them."""
        return self._interests

    @property
    def watched(self) -> tuple[str, ...]:
        """The URIs of the resources that the legacy session subscribed to."""
        return self._interests.subscribed

    def watched_above(self, uri: str) -> str | None:
        """Return a subscribed URI that covers the resource `uri`: `uri` itself or a parent; or `None`."""
        return self._interests.watched_above(uri)

    @property
    def listened(self) -> frozenset[str]:
        """The URIs of the resources that the session and the `subscriptions/listen` requests subscribed to."""
        return self._interests.listened

    @property
    def watched_bytes(self) -> int:
        """The estimated memory of these subscriptions, in bytes."""
        return self._interests.subscribed_bytes

    # --- inbound requests --------------------------------------------------------------------------------------------

    def _accept(self, message: Request) -> ReceiveResult:
        if self._modern:
            raw = message.params
            meta = raw.get("_meta") if raw is not None else None
            if isinstance(meta, dict) and PROTOCOL_VERSION in meta:
                return self._accept_modern(message, meta)
            if self._session is None and message.method not in self._without_session:
                raise missing_member(PROTOCOL_VERSION)
        if message.method == INITIALIZE.name:
            return self._initialize(message)
        return self._accept_legacy(message)

    def _accept_modern(self, message: Request, meta: JsonObject) -> ReceiveResult:
        peer = self._envelopes.read(meta)
        definition = self._offered.get((message.method, peer.revision)) or self._check_offered(message, peer.revision)
        if definition.extension is not None:
            # Extensions are used only if both sides declared them, the client in each request.
            require_client(peer, definition, None)
        if definition is SERVER_DISCOVER:
            return self._discover(message, peer)
        event = self._admit(message, definition, peer)
        if isinstance(event.params, SubscriptionsListenRequestParams):
            self._check_listen(message.id, event.params, peer)
        return ReceiveResult(event)

    def _check_listen(self, id: RequestId, params: SubscriptionsListenRequestParams, peer: ClientPeer) -> None:
        wanted = params.notifications
        try:
            if wanted.task_ids and declared(self.capabilities, NOTIFICATIONS_TASKS.server_capability or ()):
                require_client(peer, NOTIFICATIONS_TASKS, None)
            self._interests.check_listen(wanted)
        except LimitExceeded as limit:
            self._inbound.settle(id)
            raise RequestFailed(limit.message, code=_CODES.get(limit.setting, ErrorCode.INVALID_REQUEST)) from limit
        except MissingRequiredClientCapability:
            self._inbound.settle(id)
            raise

    def _discover(self, message: Request, peer: ClientPeer) -> ReceiveResult:
        result = DiscoverResult(
            supported_versions=self._supported, capabilities=self.capabilities, instructions=self.instructions
        )
        wire = converter(peer.revision).unstructure(result)
        reply = ResultResponse(message.id, self._with_server_info(wire, peer.revision))
        return ReceiveResult(RequestHandled(id=message.id, method=SERVER_DISCOVER.name), Outgoing(reply, message.id))

    def _initialize(self, message: Request) -> ReceiveResult:
        raw: JsonObject = message.params or {}
        requested = raw.get("protocolVersion")
        newest = preferred(self._legacy)
        if newest is None:
            # A modern server has no handshake; the error lists the versions that the server supports.
            raise UnsupportedProtocolVersion.of(requested if isinstance(requested, str) else "", self._supported)
        known = REVISIONS.get(requested) if isinstance(requested, str) else None
        revision = known if known is not None and known in self._legacy else newest
        try:
            kept = _kept_handshake(raw, self.limits.handshake_bytes)
            params, notes = converter(revision).receive(kept, InitializeRequestParams)
        except (InvalidValue, LimitExceeded) as bad:
            raise RequestFailed(f"invalid params of initialize: {bad.message}", code=ErrorCode.INVALID_PARAMS) from bad
        tolerated = self._lifecycle.receive(Kind.INITIALIZE)
        event: Event = RequestHandled(id=message.id, method=INITIALIZE.name, notes=notes)
        if tolerated is not None:
            event = self._end_session(message.id, (tolerated, *notes))
        self.handshake = kept
        self._interests.open_session()
        self._session = ClientPeer(
            revision=revision, capabilities=params.capabilities, implementation=params.client_info
        )
        result = InitializeResult(
            protocol_version=revision.name,
            capabilities=self.capabilities,
            server_info=self.info,
            instructions=self.instructions,
        )
        self._lifecycle.send(Kind.INITIALIZE_RESULT)
        reply = ResultResponse(message.id, converter(revision).unstructure(result))
        return ReceiveResult(event, Outgoing(reply, message.id))

    def _accept_legacy(self, message: Request) -> ReceiveResult:
        if message.method == PING.name:
            return self._pong(message)
        peer, tolerated = self._session_peer(Kind.CLIENT_REQUEST)
        definition = self._offered.get((message.method, peer.revision)) or self._check_offered(message, peer.revision)
        event = self._admit(message, definition, peer, () if tolerated is None else (tolerated,))
        params = event.params
        if definition is LOGGING_SET_LEVEL and isinstance(params, SetLevelRequestParams):
            self._inbound.settle(message.id)
            self._session = attrs.evolve(self._client_session(), log_level=params.level)
            reply = Outgoing(ResultResponse(message.id, {}), message.id)
            return ReceiveResult(LogLevelSet(level=params.level, notes=event.notes), reply)
        if isinstance(params, SubscribeRequestParams):
            self._check_subscribe(message.id, params.uri)
        return ReceiveResult(event)

    def _check_subscribe(self, id: RequestId, uri: str) -> None:
        try:
            self._interests.check_subscribe(uri)
        except LimitExceeded as limit:
            self._inbound.settle(id)
            raise RequestFailed(limit.message, code=_CODES.get(limit.setting, ErrorCode.INVALID_REQUEST)) from limit

    def _check_offered(self, message: Request, revision: Revision) -> RequestMethod[object, object]:
        """Return the definition of a method that this server offers, and cache it. Raises `RequestFailed`."""
        definition = self._definition(message, revision)
        needed = definition.server_capability if revision in definition.capability_revisions else None
        if needed is not None and not declared(self.capabilities, needed):
            raise RequestFailed(
                f"method not found: {definition.name} (this server does not offer {'.'.join(needed)})",
                code=ErrorCode.METHOD_NOT_FOUND,
            )
        self._offered[definition.name, revision] = definition
        return definition

    # --- inbound notifications ---------------------------------------------------------------------------------------

    def _notification_received(
        self, definition: NotificationMethod[object], params: object, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if definition is NOTIFICATIONS_INITIALIZED and self._session is not None:
            return ReceiveResult(ConnectionOpened(peer=self._session, notes=notes))
        return super()._notification_received(definition, params, raw, notes)

    def _undeclared(self, definition: NotificationMethod[object]) -> CapabilityPath | None:
        session = self._session
        client = session.capabilities if isinstance(session, ClientPeer) else None
        return undeclared(definition, self.capabilities, client)

    def _notification_revision(self) -> Revision:
        # Without a session, a notification belongs to any of the modern requests, not only to the last one.
        return (preferred(self.revisions) or LATEST_LEGACY) if self._session is None else self._session.revision

    def _known_revision(self) -> Revision | None:
        return self._envelopes.last_revision if self._session is None else self._session.revision

    def _in_session(self) -> bool:
        # Without a session, notifications belong to modern requests and are not checked against the session state.
        return not self._modern or self._lifecycle.state is not State.AWAITING

    # --- commands ----------------------------------------------------------------------------------------------------

    def request(
        self, definition: RequestMethod[object, object], params: object, *, for_request: RequestId | None
    ) -> Outgoing:
        """Return a request to send to the client (legacy).

        Args:
            definition: The definition of the method: sampling, elicitation, roots or ping.
            params: The parameters of the request.
            for_request: The id of the inbound request that it belongs to; `None` for none.

        Returns:
            The message to send. `receive` reports the response under the id of this request.

        Raises:
            LocalProtocolError: There is no session, its revision or state does not allow the request, there is no
                pending inbound request `for_request`, or the client cancelled that request.
            MissingRequiredClientCapability: The client did not declare a capability that the request requires.
        """
        session = self._client_session()
        revision = session.revision
        if (
            self._method(definition.name, revision) is not definition
            or Side.SERVER not in definition.sender
            or not revision.server_requests
        ):
            raise LocalProtocolError(f"a server may not send {definition.name} in revision {revision}")
        if for_request is not None and self._inbound.get(for_request).cancelled:
            raise LocalProtocolError(f"request {for_request!r} was cancelled: no client request can be sent for it")
        self._lifecycle.send(Kind.PING if definition is PING else Kind.SERVER_REQUEST)
        require_client(session, definition, params)
        if getattr(params, "task", None) is not None and not declared(
            session.capabilities, definition.task_capability or ()
        ):
            raise MissingRequiredClientCapability.of(
                as_object(definition.task_capability or ()), f"{definition.name} as a task"
            )
        return Outgoing(self._begin_request(definition, params, session.revision), for_request)

    def notify(
        self, definition: NotificationMethod[object], params: object, *, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Return a notification to send to the client.

        Args:
            definition: The definition of the notification.
            params: The parameters of the notification.
            for_request: The id of the inbound request that it belongs to; `None` for none.

        Returns:
            The message to send, or `None` if that request was cancelled.

        Raises:
            LocalProtocolError: The notification has its own command, or the revision, the state of the session or the
                capabilities forbid it, or there is no pending inbound request `for_request`.
        """
        if definition in _OWN_COMMAND or definition.filter_member is not None:
            raise LocalProtocolError(f"notify cannot send {definition.name}: it has its own command")
        inbound = None if for_request is None else self._inbound.get(for_request)
        if inbound is not None and inbound.cancelled:
            return None
        peer = self._client_of(inbound)
        self._check_notification(definition, peer)
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.NOTIFICATION)
        wire = self._wire(params, definition.params, peer.revision)
        return Outgoing(Notification(definition.name, wire), for_request)

    def log(
        self, level: LoggingLevel, data: JsonValue, *, logger: str | None = None, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Return a log message to send to the client.

        Args:
            level: The severity.
            data: The content of the message: any JSON value.
            logger: The name of the logger.
            for_request: The id of the inbound request that the message belongs to. Required for modern clients, which
                receive the message on the stream of that request.

        Returns:
            The message to send, or `None` if the client does not request messages of this level or cancelled the
            request.

        Raises:
            LocalProtocolError: This server did not declare the `logging` capability, there is no session or no pending
                inbound request `for_request`, or the request is a subscription, whose stream carries only change
                notifications.
        """
        inbound = None if for_request is None else self._inbound.get(for_request)
        if inbound is not None and inbound.cancelled:
            return None
        if inbound is not None and inbound.definition is SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError("a subscription has no log messages", anchor="basic/utilities/subscriptions")
        peer = self._client_of(inbound)
        if peer.revision.session_log_level:
            # The client may have set the level after it sent the request.
            peer = self._client_session()
        self._check_notification(NOTIFICATIONS_MESSAGE, peer)
        wanted = (peer.log_level or _DEFAULT_LOG_LEVEL) if peer.revision.session_log_level else peer.log_level
        if wanted is None or not reaches(level, wanted):
            return None
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.LOG)
        params = LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        wire = converter(peer.revision).unstructure(params)
        return Outgoing(Notification(NOTIFICATIONS_MESSAGE.name, wire), for_request)

    def acknowledge(self, request: RequestId, wanted: SubscriptionFilter | None = None) -> Outgoing | None:
        """Start a subscription: return the notification with the granted part of `subscriptions/listen`.

        Args:
            request: The id of the listen request, which is also the id of the subscription.
            wanted: An upper limit of the grant; `None` grants the whole filter. Notifications that the client did not
                request or that this server does not offer are omitted.

        Returns:
            The message to send, before all other messages of this subscription; `None` if the client has cancelled it.

        Raises:
            LocalProtocolError: There is no pending listen request with this id, or it was acknowledged already.
            LimitExceeded: The subscription exceeds a limit of subscribed resources. The request is still pending.
        """
        inbound = self._inbound.get(request)
        if not isinstance(inbound.params, SubscriptionsListenRequestParams) or inbound.acknowledged:
            raise LocalProtocolError(f"request {request!r} is not a subscription that awaits acknowledgment")
        if inbound.cancelled:
            return None
        grant = granted(inbound.params.notifications, wanted, self.capabilities, self._client_of(inbound))
        self._interests.listen(request, grant)
        inbound.acknowledged = True
        params = SubscriptionsAcknowledgedNotificationParams(notifications=grant)
        return self._tagged(NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, params, request, inbound.peer.revision)

    def finish(self, request: RequestId) -> tuple[Outgoing, ...]:
        """End a subscription from the server.

        Args:
            request: The id of the listen request.

        Returns:
            The result, and the cancel notification for transports with one stream for all messages. On HTTP, the stream
            is closed instead. Empty if the client has cancelled the subscription.

        Raises:
            LocalProtocolError: There is no pending subscription with this id, or it was not acknowledged.
        """
        inbound = self._inbound.get(request)
        if inbound.definition is not SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError(f"request {request!r} is not a subscription")
        answer = self.respond(request, SubscriptionsListenResult())
        if answer is None:
            return ()
        wire = converter(inbound.peer.revision).unstructure(CancelledNotificationParams(request_id=request))
        return answer, Outgoing(Notification(NOTIFICATIONS_CANCELLED.name, wire), request)

    def publish(self, definition: NotificationMethod[object], params: object) -> tuple[Outgoing, ...]:
        """Notify all subscribers of a change.

        Args:
            definition: `list_changed` of tools, prompts or resources, `notifications/resources/updated` or
                `notifications/tasks`; for the tasks of a legacy session, `notifications/tasks/status` or
                `notifications/progress`.
            params: The parameters of the notification.

        Returns:
            The messages to send: one for the legacy session, if allowed, and one for each matching subscription.

        Raises:
            LocalProtocolError: The notification is not a change notification, this server did not declare the
                capability, or progress of a task does not name the task.
        """
        if definition in _OF_TASKS:
            return self._publish_of_task(definition, params)
        if definition.filter_member is None:
            raise LocalProtocolError(f"{definition.name} is not a change notification; send it with notify")
        missing = undeclared(definition, self.capabilities, None)
        if missing is not None:
            raise _undeclared(definition, missing)
        messages: list[Outgoing] = []
        session = self._session
        # Before the session is open, the client has no lists that could have changed.
        if (
            session is not None
            and self.state is State.OPERATING
            and self._notification(definition.name, session.revision) is definition
        ):
            wire = self._wire(params, definition.params, session.revision)
            if self._interests.session_wants(params):
                messages.append(Outgoing(Notification(definition.name, wire)))
        for id in self._interests.listeners(definition, params):
            messages.append(self._tagged(definition, params, id, self._inbound.get(id).peer.revision))  # noqa: PERF401  # a generator would hide which command raises
        return tuple(messages)

    def _publish_of_task(self, definition: NotificationMethod[object], params: object) -> tuple[Outgoing, ...]:
        """Notify a legacy session of one of its tasks. A task can continue long after the response to its request."""
        session = self._session
        if not isinstance(session, ClientPeer) or self.state is not State.OPERATING or not session.revision.core_tasks:
            return ()
        self._check_notification(definition, session)
        if isinstance(params, ProgressNotificationParams) and RELATED_TASK not in (params.meta or {}):
            raise LocalProtocolError("progress of a task must name the task in _meta", anchor="basic/utilities/tasks")
        return (Outgoing(Notification(definition.name, self._wire(params, definition.params, session.revision))),)

    @property
    def subscriptions(self) -> tuple[RequestId, ...]:
        """The ids of the pending `subscriptions/listen` requests that were acknowledged."""
        return self._interests.listening

    # --- details -----------------------------------------------------------------------------------------------------

    def _end_session(self, id: RequestId, notes: tuple[str, ...]) -> SessionReplaced:
        # Modern requests belong to no session. They and their subscriptions stay on this connection.
        ended = self.exchange()
        ended._session = self._session  # noqa: SLF001  # of the same class
        ended._inbound = self._inbound.split(Era.LEGACY)  # noqa: SLF001
        ended._outbound = self._outbound.split()  # noqa: SLF001
        self._interests.unsubscribe_all()
        return SessionReplaced(id=id, abandoned=ended.end(), ended=ended, notes=notes)

    def _completed(self, inbound: InboundRequest, wire: JsonObject) -> JsonObject:
        definition = inbound.definition
        if definition is RESOURCES_SUBSCRIBE and isinstance(inbound.params, SubscribeRequestParams):
            self._interests.subscribe(inbound.params.uri)
        elif definition is RESOURCES_UNSUBSCRIBE and isinstance(inbound.params, UnsubscribeRequestParams):
            self._interests.unsubscribe(inbound.params.uri)
        elif definition is SUBSCRIPTIONS_LISTEN:
            if not inbound.acknowledged:
                raise LocalProtocolError(f"the subscription {inbound.id!r} must be acknowledged before it ends")
            self._over(inbound.id)
        revision = inbound.peer.revision
        if not revision.server_info_in_results:
            return wire
        stamped = self._with_server_info(wire, revision)
        stamped.setdefault("resultType", "complete")
        return _tag(stamped, inbound.id) if definition is SUBSCRIPTIONS_LISTEN else stamped

    def _tagged(
        self, definition: NotificationMethod[object], params: object, id: RequestId, revision: Revision
    ) -> Outgoing:
        return Outgoing(Notification(definition.name, _tag(self._wire(params, definition.params, revision), id)), id)

    def _client_of(self, inbound: InboundRequest | None) -> ClientPeer:
        """Return the client of a request, or of the session."""
        return inbound.peer if inbound is not None and isinstance(inbound.peer, ClientPeer) else self._client_session()

    def _check_notification(self, definition: NotificationMethod[object], peer: ClientPeer) -> None:
        """Check that this side may send a notification to `peer`. Raises `LocalProtocolError`."""
        if self._notification(definition.name, peer.revision) is not definition or Side.SERVER not in definition.sender:
            raise LocalProtocolError(f"a server may not send {definition.name} in revision {peer.revision}")
        missing = undeclared(definition, self.capabilities, peer.capabilities)
        if missing is not None:
            raise _undeclared(definition, missing)

    def _over(self, request: RequestId) -> None:
        self._interests.end(request)

    def _client_session(self) -> ClientPeer:
        if not isinstance(self._session, ClientPeer):
            raise LocalProtocolError("there is no session: the client sent no initialize", anchor="basic/lifecycle")
        return self._session

    def _with_server_info(self, wire: JsonObject, revision: Revision) -> JsonObject:
        info = self._info_wire.get(revision)
        if info is None:
            info = self._info_wire[revision] = converter(revision).unstructure(self.info)
        meta = wire.get("_meta")
        own: JsonObject = {SERVER_INFO: info, **meta} if isinstance(meta, dict) else {SERVER_INFO: info}
        return {**wire, "_meta": own}


def require_client(
    peer: ClientPeer, definition: RequestMethod[object, object] | NotificationMethod[object], params: object
) -> None:
    """Check the client capabilities that a message requires. Raises `MissingRequiredClientCapability`."""
    missing = missing_client_capability(peer.capabilities, definition.client_capability, params)
    if missing is not None:
        raise MissingRequiredClientCapability.of(as_object(missing), definition.name)


def _tag(wire: JsonObject, subscription: RequestId) -> JsonObject:
    """Return a copy of a message's parameters with the id of its subscription."""
    meta = wire.get("_meta")
    return {**wire, "_meta": {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION_ID: subscription}}


def _undeclared(definition: NotificationMethod[object], missing: CapabilityPath) -> LocalProtocolError:
    return LocalProtocolError(f"{definition.name} requires the capability {'.'.join(missing)}, which was not declared")


def _kept_handshake(params: JsonObject, allowed: int) -> JsonObject:
    """Return the part of the parameters of `initialize` to store for the lifetime of the session.

    A client may send megabytes in members that have no meaning for the server. The server stores only the members that
    it uses. Values of a wrong type are retained, for the caller to reject.

    Raises:
        LimitExceeded: The JSON of the part has more than `allowed` bytes.
    """
    kept: JsonObject = {}
    for name, members in _KEPT.items():
        if name not in params:
            continue
        value = params[name]
        if members is not None and isinstance(value, dict):
            value = {member: value[member] for member in value if member in members}
        kept[name] = value
    size = len(write(kept))
    if size > allowed:
        raise LimitExceeded(
            "protocolVersion, capabilities and clientInfo of initialize, in bytes",
            observed=size,
            allowed=allowed,
            setting="Limits.handshake_bytes",
        )
    return kept
