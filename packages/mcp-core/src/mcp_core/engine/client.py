"""Client end of a connection.

Call `open` to start the negotiation. Then pass each received message to `receive` and send the reply that it returns,
until an event is `ConnectionOpened` or `NegotiationEnded`. After `ConnectionOpened`, send requests with `call`. Each request of a modern
connection carries the request metadata (`_meta`) that its revision requires. In a legacy session, the handshake carries
these facts.

Spec: basic/versioning, basic/patterns (2026-07-28); basic/lifecycle (legacy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from mcp_core.conversion import compatibility
from mcp_core.engine.capabilities import declared, missing_client_capability, undeclared
from mcp_core.engine.events import (
    MessageIgnored,
    Outgoing,
    ReceiveResult,
    ResultReceived,
    ServerPeer,
)
from mcp_core.engine.handshake import ClientHandshake
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.engine.negotiation import looks_like_discovery
from mcp_core.engine.request_meta import write_envelope
from mcp_core.engine.results import (
    CONDITIONAL_RESULTS,
    allowed_results,
    as_not_found,
    undeclared_need,
    understands_tasks,
)
from mcp_core.errors import (
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
)
from mcp_core.excerpts import quoted
from mcp_core.jsonrpc.messages import Notification
from mcp_core.methods import (
    ALIASES,
    INITIALIZE,
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_PROGRESS,
    PING,
    RESOURCES_READ,
    SUBSCRIPTIONS_LISTEN,
    Side,
)
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.types import (
    Implementation,
    InitializeResult,
)
from mcp_core.types.logging import LOGGING_LEVELS
from mcp_core.types.meta import LOG_LEVEL

if TYPE_CHECKING:
    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.events import Event
    from mcp_core.engine.in_flight import OutboundRequest
    from mcp_core.jsonrpc.messages import JsonObject, Request
    from mcp_core.limits import Limits
    from mcp_core.methods import Alias, CapabilityPath, NotificationMethod, RequestMethod
    from mcp_core.types import CancelledNotificationParams, ClientCapabilities, LoggingLevel

__all__ = ["ClientConnection"]

P = TypeVar("P")

_OWN_COMMAND: Final = frozenset({NOTIFICATIONS_CANCELLED, NOTIFICATIONS_INITIALIZED, NOTIFICATIONS_PROGRESS})
"""Notifications that have their own commands; `notify` rejects them."""


class ClientConnection(ClientHandshake):
    """The client end of one connection.

    Args:
        info: The name and version of the client.
        capabilities: The capabilities that the client declares. Requests that need other capabilities are rejected.
        revisions: The revisions that the client supports.
        log_level: The minimum level of log messages from modern servers, sent with each request; `None` requests no log
            messages. For legacy servers, send `logging/setLevel` instead.
        limits: The limits of this connection.
        extensions: Methods and notifications beyond the specification.

    Raises:
        LocalProtocolError: `log_level` is not a log level.
    """

    role = Side.CLIENT

    def __init__(
        self,
        info: Implementation,
        capabilities: ClientCapabilities,
        *,
        revisions: tuple[Revision, ...] = tuple(REVISIONS.values()),
        log_level: LoggingLevel | None = None,
        limits: Limits | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        super().__init__(info, capabilities, revisions=revisions, limits=limits, extensions=extensions)
        self.log_level = log_level
        self._envelopes: dict[Revision, JsonObject] = {}
        self._tasks = understands_tasks(capabilities)
        self._callable: set[RequestMethod[object, object]] = set()

    @property
    def log_level(self) -> LoggingLevel | None:
        """The minimum level of log messages from modern servers. An unknown level raises `LocalProtocolError`."""
        return self._log_level

    @log_level.setter
    def log_level(self, level: LoggingLevel | None) -> None:
        if level is not None and level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"unknown log level {level!r}: use one of {', '.join(LOGGING_LEVELS)}")
        self._log_level: LoggingLevel | None = level

    # --- receiving -------------------------------------------------------------------------------------------------

    def _read_result(self, outbound: OutboundRequest, raw: JsonObject) -> tuple[object, tuple[str, ...]]:
        if outbound.id == self._probe and not looks_like_discovery(raw):
            raise RemoteProtocolError("the result of server/discover is not a discover result")
        if not outbound.revision.result_type:
            return super()._read_result(outbound, raw)
        kind = raw.get("resultType", "complete")
        results = allowed_results(outbound.definition, outbound.revision, tasks=self._tasks)
        if not isinstance(kind, str) or kind not in results:
            raise RemoteProtocolError(
                f"the result of {outbound.definition.name} has the unknown resultType {quoted(kind)}; "
                f"expected one of {', '.join(results)}",
                anchor="basic#results",
            )
        result, notes = compatibility.receive(outbound.revision, raw, results[kind])
        if not isinstance(result, CONDITIONAL_RESULTS):
            return result, notes
        missing = undeclared_need(result, outbound.revision, self.capabilities)
        if missing is not None:
            raise RemoteProtocolError(
                f"the result of {outbound.definition.name} has an input request that requires {'.'.join(missing)}, "
                "which this client did not declare",
                anchor="basic/patterns/mrtr",
            )
        return result, notes

    def _result_received(
        self, outbound: OutboundRequest, result: object, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if isinstance(result, InitializeResult):
            # The allowed methods depend on the capabilities of the server.
            self._callable.clear()
        return super()._result_received(outbound, result, raw, notes)

    def _error_received(
        self, outbound: OutboundRequest, error: RemoteProtocolError | RequestFailed, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if outbound.definition is RESOURCES_READ and isinstance(error, RequestFailed):
            error = as_not_found(error, outbound.revision)
        return super()._error_received(outbound, error, notes)

    def _accept(self, message: Request) -> ReceiveResult:
        spoken = self.revisions if self.server is None else (self.server.revision,)
        if not any(revision.responses_from_client for revision in spoken):
            # A modern client writes no responses, not even errors (2026-07-28, basic/transports).
            return ReceiveResult(
                MessageIgnored(reason="a request from a modern server, which must not send any", message=message)
            )
        if message.method == PING.name:
            return self._pong(message)
        peer, tolerated = self._session_peer(Kind.SERVER_REQUEST)
        definition = self._row(message, peer.revision)
        if definition.client_capability is not None and not declared(self.capabilities, definition.client_capability):
            raise RequestFailed(
                f"method not found: {definition.name} (this client did not declare {'.'.join(definition.client_capability)})",
                code=ErrorCode.METHOD_NOT_FOUND,
            )
        event = self._admit(message, definition, peer, () if tolerated is None else (tolerated,))
        missing = missing_client_capability(self.capabilities, None, event.params)
        if missing is not None:
            self._inbound.settle(message.id)
            raise RequestFailed(
                f"invalid params: this client did not declare {'.'.join(missing)}", code=ErrorCode.INVALID_PARAMS
            )
        return ReceiveResult(event)

    def _cancelled(self, message: Notification, params: CancelledNotificationParams, notes: tuple[str, ...]) -> Event:
        # A modern server ends a subscription by cancelling the client's listen request.
        outbound = None if params.request_id is None else self._outbound.find(params.request_id)[0]
        if outbound is not None and outbound.definition is SUBSCRIPTIONS_LISTEN:
            self._outbound.settle(outbound)
            return ResultReceived(id=outbound.id, method=outbound.definition.name, result=None, raw={}, notes=notes)
        return super()._cancelled(message, params, notes)

    def _undeclared(self, definition: NotificationMethod[object]) -> CapabilityPath | None:
        return None if self.server is None else undeclared(definition, self.server.capabilities, self.capabilities)

    def _alias(self, method: str) -> Alias | None:
        return ALIASES.get(method)

    def _notification_revision(self) -> Revision:
        return super()._notification_revision() if self.server is None else self.server.revision

    def _known_revision(self) -> Revision | None:
        return None if self.server is None else self.server.revision

    def _in_session(self) -> bool:
        return self.server is None or self.server.revision.era is Era.LEGACY

    # --- commands --------------------------------------------------------------------------------------------------

    def request(self, definition: RequestMethod[P, object], params: P, *, progress: bool = False) -> Outgoing:
        """Return a request to send to the server.

        Args:
            definition: The definition of the method.
            params: The parameters of the request.
            progress: Whether to request progress notifications.

        Returns:
            The message to send. `receive` reports the response under the id of this request.

        Raises:
            LocalProtocolError: The connection is not open, or the revision, the state of the session or the
                capabilities forbid the request.
        """
        server = self.server
        if server is None or self._lifecycle.state is State.CLOSED:
            raise self._not_open(definition.name)
        if definition not in self._callable:
            self._check_callable(definition, server)
        if getattr(params, "task", None) is not None and server.revision.core_tasks:
            _check_offered(definition, definition.task_capability, server)
        if server.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.PING if definition.name == PING.name else Kind.CLIENT_REQUEST)
            meta = None
        else:
            meta = self._envelope(server.revision)
        return Outgoing(self._begin_request(definition, params, server.revision, meta=meta, progress=progress))

    def notify(self, definition: NotificationMethod[P], params: P) -> Outgoing:
        """Return a notification to send to the server.

        Args:
            definition: The definition of the notification.
            params: The parameters of the notification.

        Returns:
            The message to send.

        Raises:
            LocalProtocolError: The connection is not open, the notification has its own command, or the revision or the
                client's capabilities forbid it.
        """
        if definition in _OWN_COMMAND:
            raise LocalProtocolError(f"notify cannot send {definition.name}: it has its own command")
        server = self.server
        if server is None or self._lifecycle.state is State.CLOSED:
            raise self._not_open(definition.name)
        if self._notification(
            definition.name, server.revision
        ) is not definition or Side.CLIENT not in definition.sender_in(server.revision):
            raise LocalProtocolError(f"a client may not send {definition.name} in revision {server.revision}")
        if definition.client_capability is not None and not declared(self.capabilities, definition.client_capability):
            path = ".".join(definition.client_capability)
            raise LocalProtocolError(f"{definition.name} requires the capability {path}, which was not declared")
        if server.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.NOTIFICATION)
        return Outgoing(Notification(definition.name, self._wire(params, definition.params, server.revision)))

    def _not_open(self, what: str) -> LocalProtocolError:
        return LocalProtocolError(f"{what} before the revision is negotiated, or after the connection has closed")

    def _check_callable(self, definition: RequestMethod[object, object], server: ServerPeer) -> None:
        """Check that revision and capabilities allow a request, once per method. Raises `LocalProtocolError`."""
        if (
            self._method(definition.name, server.revision) is not definition
            or Side.CLIENT not in definition.sender
            or definition is INITIALIZE
        ):
            raise LocalProtocolError(f"a client may not send {definition.name} in revision {server.revision}")
        _check_offered(
            definition,
            definition.server_capability if server.revision in definition.capability_revisions else None,
            server,
        )
        own = definition.client_capability if definition.extension is not None else None
        if own is not None and not declared(self.capabilities, own):
            raise LocalProtocolError(f"{definition.name} requires {'.'.join(own)}, which this client did not declare")
        self._callable.add(definition)

    def _envelope(self, revision: Revision) -> JsonObject:
        """Return the request metadata (`_meta`) of each modern request."""
        envelope = self._envelopes.get(revision)
        if envelope is None:
            envelope = self._envelopes[revision] = write_envelope(revision, self.info, self.capabilities)
        return envelope if self._log_level is None else {**envelope, LOG_LEVEL: self._log_level}


def _check_offered(
    definition: RequestMethod[object, object], needed: CapabilityPath | None, server: ServerPeer
) -> None:
    """Check that the server declared the capability of a request. Raises `LocalProtocolError`."""
    if needed is not None and not declared(server.capabilities, needed):
        raise LocalProtocolError(
            f"the server does not offer {'.'.join(needed)}, which {definition.name} requires",
            code=ErrorCode.METHOD_NOT_FOUND,
        )
