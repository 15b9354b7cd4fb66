"""The server's end of a connection.

Handshake, `ping`, `server/discover` and `logging/setLevel` are answered here; every other request that is in order comes
out of `receive` as `RequestReceived` and is owed one `respond` or `fail`.

Spec: basic/lifecycle (legacy), basic/versioning and basic/patterns (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core import tolerance
from mcp_core.convert import converter
from mcp_core.engine.capabilities import as_object, declared, missing_client_capability
from mcp_core.engine.connection import Connection
from mcp_core.engine.events import ClientPeer, Ignored, LogLevelSet, Opened, Outgoing, Reaction, Served
from mcp_core.engine.in_flight import advance
from mcp_core.engine.interests import Interests, granted
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    LimitExceeded,
    LocalProtocolError,
    MissingRequiredClientCapability,
    RequestFailed,
    UnsupportedProtocolVersion,
)
from mcp_core.jsonrpc.messages import Notification, Request, ResultResponse
from mcp_core.limits import Limits
from mcp_core.methods import (
    NOTIFICATIONS_CANCELLED,
    SERVER_DISCOVER,
    INITIALIZE,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_MESSAGE,
    LOGGING_SET_LEVEL,
    PING,
    NOTIFICATIONS_PROGRESS,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    SUBSCRIPTIONS_LISTEN,
    Role,
    methods,
    notifications,
)
from mcp_core.revisions import MODERN, REVISIONS, Era, Revision, preferred
from mcp_core.types import (
    CancelledNotificationParams,
    ClientCapabilities,
    DiscoverResult,
    EmptyResult,
    Implementation,
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
from mcp_core.types.logging import LOGGING_LEVELS, reaches
from mcp_core.types.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
)

if TYPE_CHECKING:
    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.events import Event
    from mcp_core.engine.in_flight import Owed
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.types import LoggingLevel, ServerCapabilities

__all__ = ["ServerConnection", "require_client"]

_DEFAULT_LOG_LEVEL: Final = "info"
"""What a legacy client gets that never sent `logging/setLevel`; the specification leaves it to the server."""


class ServerConnection(Connection):
    """The server's end of one connection.

    Args:
        info: Who the server is.
        capabilities: What it offers. Methods of other capabilities are refused.
        revisions: The revisions that it speaks.
        instructions: How to use it, for a model.
        limits: The bounds that hold here.
        extensions: Methods and notifications beyond the specification.
    """

    role = Role.SERVER

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
        self.capabilities: Final = capabilities
        self.instructions: Final = instructions
        self._modern = frozenset(revision for revision in revisions if revision in MODERN)
        self._legacy = tuple(revision for revision in revisions if revision.era is Era.LEGACY)
        self._interests = Interests(self.limits.watched_resources)
        self._info_wire: dict[Revision, JsonObject] = {}
        self._last_envelope: tuple[JsonObject, ClientPeer] | None = None

    # --- receiving -------------------------------------------------------------------------------------------------

    def _accept(self, message: Request) -> Reaction:
        raw = message.params
        meta = raw.get("_meta") if raw is not None else None
        if self._modern:
            if isinstance(meta, dict) and PROTOCOL_VERSION in meta:
                return self._accept_modern(message, meta)
            if self._session is None and message.method not in _WITHOUT_SESSION:
                raise _no_envelope(PROTOCOL_VERSION)
        if message.method == INITIALIZE.name:
            return self._initialize(message)
        return self._accept_legacy(message)

    def _accept_modern(self, message: Request, meta: JsonObject) -> Reaction:
        peer = self._peer_of(meta)
        row = self._row(message, peer.revision)
        self._check_offered(row, peer.revision)
        if row.extension is not None:
            # Extensions are used only when both sides declared them, the client in each request.
            require_client(peer, row, None)
        if row is SERVER_DISCOVER:
            return self._discover(message, peer)
        event = self._admit(message, row, peer)
        if isinstance(event.params, SubscriptionsListenRequestParams):
            self._check_room(message.id, len(event.params.notifications.resource_subscriptions or ()))
        return Reaction(event)

    def _peer_of(self, meta: JsonObject) -> ClientPeer:
        """The client that a modern envelope describes. Raises `RequestFailed`."""
        # Clients repeat the same envelope with each request: comparing two small dicts is cheaper than reading one.
        facts = {key: meta[key] for key in _ENVELOPE if key in meta}
        if self._last_envelope is not None and self._last_envelope[0] == facts:
            return self._last_envelope[1]
        version = facts.get(PROTOCOL_VERSION)
        capabilities = facts.get(CLIENT_CAPABILITIES)
        if not isinstance(version, str):
            raise _no_envelope(PROTOCOL_VERSION)
        if not isinstance(capabilities, dict):
            raise _no_envelope(CLIENT_CAPABILITIES)
        revision = REVISIONS.get(version)
        if revision is None or revision not in self._modern:
            raise UnsupportedProtocolVersion.of(version, self._supported())
        level = facts.get(LOG_LEVEL)
        if level is not None and level not in LOGGING_LEVELS:
            raise RequestFailed(
                f"invalid params: _meta.{LOG_LEVEL} is {level!r}, expected one of {', '.join(LOGGING_LEVELS)}",
                code=ErrorCode.INVALID_PARAMS,
            )
        try:
            known, _ = tolerance.receive(revision, capabilities, ClientCapabilities)
            info = facts.get(CLIENT_INFO)
            implementation = None if info is None else tolerance.receive(revision, info, Implementation)[0]
        except InvalidValue as bad:
            raise RequestFailed(f"invalid params: _meta: {bad.message}", code=ErrorCode.INVALID_PARAMS) from bad
        peer = ClientPeer(
            revision=revision,
            capabilities=known,
            implementation=implementation,
            log_level=next((name for name in LOGGING_LEVELS if name == level), None),
        )
        self._last_envelope = (facts, peer)
        return peer

    def _discover(self, message: Request, peer: ClientPeer) -> Reaction:
        result = DiscoverResult(
            supported_versions=self._supported(), capabilities=self.capabilities, instructions=self.instructions
        )
        wire = converter(peer.revision).unstructure(result)
        reply = ResultResponse(message.id, self._with_server_info(wire, peer.revision))
        return Reaction(Served(id=message.id, method=SERVER_DISCOVER.name), Outgoing(reply, message.id))

    def _initialize(self, message: Request) -> Reaction:
        raw: JsonObject = message.params or {}
        requested = raw.get("protocolVersion")
        newest = preferred(self._legacy)
        if newest is None:
            # A modern server has no handshake; the error is the place to say which versions it does speak.
            raise UnsupportedProtocolVersion.of(str(requested), self._supported())
        known = REVISIONS.get(requested) if isinstance(requested, str) else None
        revision = known if known is not None and known in self._legacy else newest
        try:
            params, notes = tolerance.receive(revision, raw, InitializeRequestParams)
        except InvalidValue as bad:
            raise RequestFailed(f"invalid params of initialize: {bad.message}", code=ErrorCode.INVALID_PARAMS) from bad
        self._lifecycle.receive(Kind.INITIALIZE)
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
        return Reaction(Served(id=message.id, method=INITIALIZE.name, notes=notes), Outgoing(reply, message.id))

    def _accept_legacy(self, message: Request) -> Reaction:
        if message.method == PING.name:
            tolerated = self._lifecycle.receive(Kind.PING)
            return self._served(message, tolerated)
        peer, tolerated = self._session_peer(Kind.CLIENT_REQUEST)
        row = self._row(message, peer.revision)
        self._check_offered(row, peer.revision)
        notes = () if tolerated is None else (tolerated,)
        event = self._admit(message, row, peer, notes)
        params = event.params
        if row is LOGGING_SET_LEVEL and isinstance(params, SetLevelRequestParams):
            self._inbound.settle(message.id)
            return self._set_level(message, params.level, event.notes)
        if row is RESOURCES_SUBSCRIBE:
            self._check_room(message.id, 1)
        return Reaction(event)

    def _served(self, message: Request, tolerated: str | None) -> Reaction:
        notes = () if tolerated is None else (tolerated,)
        reply = Outgoing(ResultResponse(message.id, {}), message.id)
        return Reaction(Served(id=message.id, method=message.method, notes=notes), reply)

    def _set_level(self, message: Request, level: LoggingLevel, notes: tuple[str, ...]) -> Reaction:
        self._session = attrs.evolve(self._client_session(), log_level=level)
        return Reaction(LogLevelSet(level=level, notes=notes), Outgoing(ResultResponse(message.id, {}), message.id))

    def _told(
        self,
        message: Notification,
        row: NotificationRow[object],
        params: object,
        raw: JsonObject,
        notes: tuple[str, ...],
    ) -> Reaction:
        if row is NOTIFICATIONS_INITIALIZED:
            if self._session is None:
                return Reaction(Ignored(reason="initialized without initialize", message=message, notes=notes))
            return Reaction(Opened(peer=self._session, notes=notes))
        return super()._told(message, row, params, raw, notes)

    def _cancelled(self, message: Notification, params: CancelledNotificationParams, notes: tuple[str, ...]) -> Event:
        event = super()._cancelled(message, params, notes)
        if not isinstance(event, Ignored) and params.request_id is not None:
            self._interests.end(event.id)
        return event

    def _check_offered(self, row: Method[object, object], revision: Revision) -> None:
        """Raises `RequestFailed` when the method belongs to a capability that this server did not declare."""
        if row.server_capability is None or revision not in row.capability_revisions:
            return
        if not declared(self.capabilities, row.server_capability):
            raise RequestFailed(
                f"method not found: {row.name} (this server does not offer {'.'.join(row.server_capability)})",
                code=ErrorCode.METHOD_NOT_FOUND,
            )

    def _check_room(self, id: RequestId, more: int) -> None:
        try:
            self._interests.check(more)
        except LimitExceeded as limit:
            self._inbound.settle(id)
            raise RequestFailed(limit.message, code=ErrorCode.INVALID_REQUEST) from limit

    # --- commands --------------------------------------------------------------------------------------------------

    def ask(self, row: Method[object, object], params: object, *, for_request: RequestId | None) -> Outgoing:
        """Sends the client a request (legacy).

        Args:
            row: The method: sampling, elicitation, roots, ping.
            params: Its parameters.
            for_request: The client's request that it is about; `None` for none.

        Returns:
            What to send; the answer comes out of `receive` under the id of its message.

        Raises:
            LocalProtocolError: There is no session, or its revision has no requests of the server or lacks this method.
            MissingRequiredClientCapability: The client did not declare what the request needs.
        """
        session = self._client_session()
        if not session.revision.server_requests or methods(session.revision).get(row.name) is not row:
            if row.name not in self._extensions.methods:
                raise LocalProtocolError(f"a server may not send {row.name} in revision {session.revision}")
        self._lifecycle.send(Kind.PING if row is PING else Kind.SERVER_REQUEST)
        require_client(session, row, params)
        return Outgoing(self._ask(row, params, session.revision), for_request)

    def notify(
        self, row: NotificationRow[object], params: object, *, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Sends a notification that has no command of its own.

        Args:
            row: The notification.
            params: Its parameters.
            for_request: The client's request that it belongs to; `None` for none.

        Returns:
            What to send, or `None` when that request was cancelled.

        Raises:
            LocalProtocolError: The revision, the state or our own capabilities forbid it.
        """
        owed = None if for_request is None else self._inbound.get(for_request)
        if owed is not None and owed.cancelled:
            return None
        peer = owed.peer if owed is not None else self._client_session()
        self._check_notification(row, peer.revision)
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.NOTIFICATION)
        wire = converter(peer.revision).unstructure(params)
        return Outgoing(Notification(row.name, wire), for_request)

    def progress(
        self, request: RequestId, progress: float, total: float | None = None, message: str | None = None
    ) -> Outgoing | None:
        """Tells how far a request of the client got.

        Args:
            request: Its id.
            progress: How far; more than the last time.
            total: How far it has to go, if known.
            message: What is being done, for a person.

        Returns:
            What to send, or `None`: the client asked for no progress, or cancelled the request.

        Raises:
            LocalProtocolError: No answer is owed to that id any more, or `progress` does not increase.
        """
        owed = self._inbound.get(request)
        if owed.cancelled or owed.token is None:
            return None
        if not advance(owed, progress):
            raise LocalProtocolError(
                f"progress {progress:g} after {owed.progress:g}: it has to increase", anchor="basic/utilities/progress"
            )
        params = ProgressNotificationParams(progress_token=owed.token, progress=progress, total=total, message=message)
        return Outgoing(Notification(NOTIFICATIONS_PROGRESS.name, converter(owed.peer.revision).unstructure(params)), request)

    def log(
        self, level: LoggingLevel, data: JsonValue, *, logger: str | None = None, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Sends a log message to the client.

        Args:
            level: How serious it is.
            data: What to say: anything that JSON can.
            logger: Who says it.
            for_request: The client's request that it is about; needed for modern clients, who get it on its stream.

        Returns:
            What to send, or `None`: the client does not want messages of this level, or cancelled the request.

        Raises:
            LocalProtocolError: This server did not declare the `logging` capability, or nobody is there to be told.
        """
        owed = None if for_request is None else self._inbound.get(for_request)
        if owed is not None and owed.cancelled:
            return None
        peer = self._client_session() if owed is None or owed.peer.revision.session_log_level else owed.peer
        self._check_notification(NOTIFICATIONS_MESSAGE, peer.revision)
        wanted = self._log_threshold(peer)
        if wanted is None or not reaches(level, wanted):
            return None
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.LOG)
        params = LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        return Outgoing(Notification(NOTIFICATIONS_MESSAGE.name, converter(peer.revision).unstructure(params)), for_request)

    def acknowledge(self, request: RequestId, wanted: SubscriptionFilter | None = None) -> Outgoing | None:
        """Begins a subscription: tells the client what of its `subscriptions/listen` is granted.

        Args:
            request: The id of the listen request, which is the subscription's id too.
            wanted: What to grant at most; the whole filter when `None`. What this server does not offer is left out.

        Returns:
            What to send, first of all messages of this subscription; `None` when it was cancelled meanwhile.

        Raises:
            LocalProtocolError: It is no open listen request.
            LimitExceeded: Too many resources would be watched; the request is still open.
        """
        owed = self._inbound.get(request)
        if not isinstance(owed.params, SubscriptionsListenRequestParams) or owed.acknowledged:
            raise LocalProtocolError(f"request {request!r} is no subscription that waits to be acknowledged")
        if owed.cancelled:
            return None
        grant = granted(owed.params.notifications if wanted is None else wanted, owed.peer.revision, self.capabilities)
        self._interests.listen(request, grant)
        owed.acknowledged = True
        params = SubscriptionsAcknowledgedNotificationParams(notifications=grant)
        return self._tagged(NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, params, request, owed.peer.revision)

    def finish(self, request: RequestId) -> tuple[Outgoing, ...]:
        """Ends a subscription from this side.

        Args:
            request: The id of its listen request.

        Returns:
            The result, and the cancellation that says so where all share one pipe; an HTTP stream is closed instead.
            Nothing when the client has cancelled it.
        """
        owed = self._inbound.get(request)
        self._interests.end(request)
        result = SubscriptionsListenResult(meta={SUBSCRIPTION_ID: request})
        answer = self.respond(request, result)
        if answer is None:
            return ()
        wire = converter(owed.peer.revision).unstructure(CancelledNotificationParams(request_id=request))
        return answer, Outgoing(Notification(NOTIFICATIONS_CANCELLED.name, wire), request)

    def publish(self, row: NotificationRow[object], params: object) -> tuple[Outgoing, ...]:
        """Tells everybody who wants to know of a change.

        Args:
            row: `list_changed` of tools, prompts or resources, or `notifications/resources/updated`.
            params: Its parameters.

        Returns:
            What to send: for the legacy session, if it may have it, and for each subscription that asked for it.

        Raises:
            LocalProtocolError: This server did not declare the capability.
        """
        self._check_declared(row)
        messages: list[Outgoing] = []
        session = self._session
        if session is not None and self.state is not State.CLOSED and self._interests.session_wants(params):
            self._lifecycle.send(Kind.NOTIFICATION)
            wire = converter(session.revision).unstructure(params)
            messages.append(Outgoing(Notification(row.name, wire)))
        for id in self._interests.listeners(row, params):
            messages.append(self._tagged(row, params, id, self._inbound.get(id).peer.revision))
        return tuple(messages)

    @property
    def subscriptions(self) -> tuple[RequestId, ...]:
        """The ids of the open `subscriptions/listen` requests that were acknowledged."""
        return self._interests.listening

    # --- details ---------------------------------------------------------------------------------------------------

    def _settled(self, owed: Owed, result: object) -> None:
        if isinstance(owed.params, SubscribeRequestParams) and owed.row is RESOURCES_SUBSCRIBE:
            self._interests.subscribe(owed.params.uri)
        elif isinstance(owed.params, UnsubscribeRequestParams) and owed.row is RESOURCES_UNSUBSCRIBE:
            self._interests.unsubscribe(owed.params.uri)

    def _stamp(self, owed: Owed, wire: JsonObject) -> JsonObject:
        revision = owed.peer.revision
        if not revision.server_info_in_results:
            return wire
        stamped = self._with_server_info(wire, revision)
        stamped.setdefault("resultType", "complete")
        return stamped

    def _with_server_info(self, wire: JsonObject, revision: Revision) -> JsonObject:
        info = self._info_wire.get(revision)
        if info is None:
            info = self._info_wire[revision] = converter(revision).unstructure(self.info)
        meta = wire.get("_meta")
        own: JsonObject = {SERVER_INFO: info, **meta} if isinstance(meta, dict) else {SERVER_INFO: info}
        return {**wire, "_meta": own}

    def _tagged(self, row: NotificationRow[object], params: object, id: RequestId, revision: Revision) -> Outgoing:
        wire = converter(revision).unstructure(params)
        meta = wire.get("_meta")
        wire["_meta"] = {**meta, SUBSCRIPTION_ID: id} if isinstance(meta, dict) else {SUBSCRIPTION_ID: id}
        return Outgoing(Notification(row.name, wire), id)

    def _client_session(self) -> ClientPeer:
        if not isinstance(self._session, ClientPeer):
            raise LocalProtocolError("there is no session: the client sent no initialize", anchor="basic/lifecycle")
        return self._session

    def _log_threshold(self, peer: ClientPeer | object) -> LoggingLevel | None:
        """The least level that is wanted; `None` when nothing is."""
        if not isinstance(peer, ClientPeer) or not peer.revision.session_log_level:
            return peer.log_level if isinstance(peer, ClientPeer) else None
        return peer.log_level or _DEFAULT_LOG_LEVEL

    def _check_notification(self, row: NotificationRow[object], revision: Revision) -> None:
        """Raises `LocalProtocolError` when we may not send it."""
        known = notifications(revision).get(row.name) or self._extensions.notifications.get(row.name)
        if known is None or Role.SERVER not in row.sender:
            raise LocalProtocolError(f"a server may not send {row.name} in revision {revision}")
        self._check_declared(row)

    def _check_declared(self, row: NotificationRow[object]) -> None:
        path = row.server_capability
        if path is not None and not declared(self.capabilities, path):
            raise LocalProtocolError(f"{row.name} needs the capability {'.'.join(path)}, which was not declared")

    def _supported(self) -> tuple[str, ...]:
        """The names of all revisions spoken here, the newest first."""
        return tuple(revision.name for revision in reversed(REVISIONS.values()) if revision in self.revisions)

    def _notification_revision(self) -> Revision:
        if self._session is not None:
            return self._session.revision
        return preferred(self.revisions) or super()._notification_revision()

    def _in_session(self) -> bool:
        # Without a session the notifications of modern requests have no state to fit.
        return not self._modern or self._lifecycle.state is not State.AWAITING


def require_client(peer: ClientPeer, row: Method[object, object], params: object) -> None:
    """Raises `MissingRequiredClientCapability` when the client did not declare what a question needs."""
    missing = missing_client_capability(peer.capabilities, row.client_capability, params)
    if missing is not None:
        raise MissingRequiredClientCapability.of(as_object(missing), row.name)


_ENVELOPE: Final = (PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL)
_WITHOUT_SESSION: Final = frozenset({INITIALIZE.name, PING.name})


def _no_envelope(key: str) -> RequestFailed:
    return RequestFailed(
        f"invalid params: _meta[{key!r}] is missing or of the wrong type, and no session was opened by initialize",
        code=ErrorCode.INVALID_PARAMS,
    )
