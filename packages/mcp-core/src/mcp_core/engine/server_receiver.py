"""Receiving of messages by a server: the client of each request, and the check that the method is allowed.

The handshake, `ping`, `server/discover` and `logging/setLevel` are handled here. A request with modern request metadata
describes its client. Any other request belongs to the legacy session that `initialize` opened.

Spec: basic/lifecycle (legacy), basic/versioning and basic/patterns (2026-07-28).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.conversion import compatibility
from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared, missing_client_capability, undeclared
from mcp_core.engine.connection import Connection
from mcp_core.engine.events import (
    CancelReceived,
    ClientPeer,
    ConnectionOpened,
    LogLevelSet,
    Outgoing,
    ReceiveResult,
    RequestHandled,
)
from mcp_core.engine.in_flight import InboundRequests, OutboundRequests
from mcp_core.engine.initialize_params import kept_handshake
from mcp_core.engine.lifecycle import Kind, Lifecycle, State
from mcp_core.engine.request_meta import EnvelopeReader, missing_member
from mcp_core.engine.subscriptions import SubscriptionRegistry
from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    LimitExceeded,
    LocalProtocolError,
    MissingRequiredClientCapability,
    RequestFailed,
    UnsupportedProtocolVersion,
)
from mcp_core.jsonrpc.messages import ResultResponse
from mcp_core.limits import Limits
from mcp_core.methods import (
    INITIALIZE,
    LOGGING_SET_LEVEL,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_TASKS,
    PING,
    SERVER_DISCOVER,
    Side,
)
from mcp_core.revisions import REVISIONS, Era, preferred
from mcp_core.types import (
    DiscoverResult,
    InitializeRequestParams,
    InitializeResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
)
from mcp_core.types.meta import PROTOCOL_VERSION, SERVER_INFO

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.events import Event
    from mcp_core.jsonrpc.messages import JsonObject, Notification, Request, RequestId
    from mcp_core.methods import CapabilityPath, NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import CancelledNotificationParams, Implementation, LoggingLevel, ServerCapabilities

__all__ = ["ServerReceiver", "require_client"]

_CODES: Final = {"Limits.uri_chars": ErrorCode.INVALID_PARAMS}
"""The error codes of limits on a single parameter. The other limits depend on earlier requests."""


class ServerReceiver(Connection):
    """The receiving part of a server connection. `ServerConnection` adds the commands."""

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

    # --- other connections of the same server ----------------------------------------------------------------------

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
        kept = kept_handshake(params, self.limits.handshake_bytes)
        client, _ = compatibility.receive(revision, kept, InitializeRequestParams)
        self.handshake = kept
        for uri in subscriptions:
            self._interests.subscribe(uri)
        self._session = ClientPeer(
            revision=revision,
            capabilities=client.capabilities,
            implementation=client.client_info,
            log_level=log_level,
        )
        self._lifecycle = Lifecycle(State.OPERATING)
        self._outbound = OutboundRequests(last=last_id)

    @property
    def watched(self) -> tuple[str, ...]:
        """The URIs of the resources that the legacy session subscribed to."""
        return self._interests.subscribed

    def watched_above(self, uri: str) -> str | None:
        """Return a subscribed URI that covers the resource `uri`: `uri` itself or a parent; or `None`."""
        return self._interests.watched_above(uri)

    @property
    def watched_bytes(self) -> int:
        """The estimated memory of these subscriptions, in bytes."""
        return self._interests.subscribed_bytes

    # --- requests --------------------------------------------------------------------------------------------------

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
            kept = kept_handshake(raw, self.limits.handshake_bytes)
            params, notes = compatibility.receive(revision, kept, InitializeRequestParams)
        except (InvalidValue, LimitExceeded) as bad:
            raise RequestFailed(f"invalid params of initialize: {bad.message}", code=ErrorCode.INVALID_PARAMS) from bad
        tolerated = self._lifecycle.receive(Kind.INITIALIZE)
        event: Event = RequestHandled(id=message.id, method=INITIALIZE.name, notes=notes)
        if tolerated is not None:
            event = self._end_session(message.id, (tolerated, *notes))
        self.handshake = kept
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

    @abstractmethod
    def _end_session(self, id: RequestId, notes: tuple[str, ...]) -> Event:
        """Move the legacy session and its requests to a separate, closed connection."""

    def _accept_legacy(self, message: Request) -> ReceiveResult:
        if message.method == PING.name:
            return self._pong(message)
        peer, tolerated = self._session_peer(Kind.CLIENT_REQUEST)
        definition = self._offered.get((message.method, peer.revision)) or self._check_offered(message, peer.revision)
        event = self._admit(message, definition, peer, () if tolerated is None else (tolerated,))
        params = event.params
        if definition is LOGGING_SET_LEVEL and isinstance(params, SetLevelRequestParams):
            self._inbound.settle(message.id)
            return self._set_level(message, params.level, event.notes)
        if isinstance(params, SubscribeRequestParams):
            self._check_subscribe(message.id, params.uri)
        return ReceiveResult(event)

    def _set_level(self, message: Request, level: LoggingLevel, notes: tuple[str, ...]) -> ReceiveResult:
        self._session = attrs.evolve(self._client_session(), log_level=level)
        return ReceiveResult(
            LogLevelSet(level=level, notes=notes), Outgoing(ResultResponse(message.id, {}), message.id)
        )

    def _check_subscribe(self, id: RequestId, uri: str) -> None:
        try:
            self._interests.check_subscribe(uri)
        except LimitExceeded as limit:
            self._inbound.settle(id)
            raise RequestFailed(limit.message, code=_CODES.get(limit.setting, ErrorCode.INVALID_REQUEST)) from limit

    def _check_offered(self, message: Request, revision: Revision) -> RequestMethod[object, object]:
        """Return the definition of a method that this server offers, and cache it. Raises `RequestFailed`."""
        definition = self._row(message, revision)
        needed = definition.server_capability if revision in definition.capability_revisions else None
        if needed is not None and not declared(self.capabilities, needed):
            raise RequestFailed(
                f"method not found: {definition.name} (this server does not offer {'.'.join(needed)})",
                code=ErrorCode.METHOD_NOT_FOUND,
            )
        self._offered[definition.name, revision] = definition
        return definition

    # --- notifications ---------------------------------------------------------------------------------------------

    def _notification_received(
        self, definition: NotificationMethod[object], params: object, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if definition is NOTIFICATIONS_INITIALIZED and self._session is not None:
            return ReceiveResult(ConnectionOpened(peer=self._session, notes=notes))
        return super()._notification_received(definition, params, raw, notes)

    def _cancelled(self, message: Notification, params: CancelledNotificationParams, notes: tuple[str, ...]) -> Event:
        event = super()._cancelled(message, params, notes)
        if isinstance(event, CancelReceived):
            self._over(event.id)
        return event

    def _undeclared(self, definition: NotificationMethod[object]) -> CapabilityPath | None:
        session = self._session
        client = session.capabilities if isinstance(session, ClientPeer) else None
        return undeclared(definition, self.capabilities, client)

    def _notification_revision(self) -> Revision:
        if self._session is not None:
            return self._session.revision
        return preferred(self.revisions) or super()._notification_revision()

    def _known_revision(self) -> Revision | None:
        return super()._known_revision() or self._envelopes.last_revision

    def _in_session(self) -> bool:
        # Without a session, notifications belong to modern requests and are not checked against the session state.
        return not self._modern or self._lifecycle.state is not State.AWAITING

    # --- details ---------------------------------------------------------------------------------------------------

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
