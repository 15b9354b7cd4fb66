"""Client end of a connection.

Call `open` to start the negotiation. Pass each received message to `receive` and send its reply, until there is
`ConnectionOpened` or `NegotiationEnded`. Two other outcomes continue the negotiation: a timeout of the probe
(`probe_unanswered`), and an HTTP response that is not an MCP message (`opening_refused`). `adopt` reuses the server
description of another connection.

After `ConnectionOpened`, send requests with `request`. Each request of a modern connection carries the request metadata
(`_meta`) that its revision requires. In a legacy session, the handshake carries these facts.

An HTTP server can drop a legacy session and report it as unknown, while the connection stays open. `reopen` opens a new
session on the same connection. Pending outbound requests stay pending, and no request id is used twice.

Spec: basic/versioning, basic/patterns (2026-07-28); basic/lifecycle, basic/transports#session-management (legacy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import declared, missing_client_capability, undeclared
from mcp_core.engine.connection import Connection
from mcp_core.engine.events import (
    ConnectionOpened,
    MessageIgnored,
    Negotiating,
    NegotiationEnded,
    Outgoing,
    ReceiveResult,
    ResultReceived,
    ServerPeer,
)
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.engine.negotiation import (
    NegotiatedRevision,
    Negotiation,
    NegotiationFailure,
    Progress,
    SendDiscover,
    looks_like_discovery,
)
from mcp_core.engine.request_meta import read_server_info, write_envelope
from mcp_core.engine.results import (
    CONDITIONAL_RESULTS,
    allowed_results,
    as_not_found,
    undeclared_need,
    understands_tasks,
)
from mcp_core.errors import ErrorCode, LocalProtocolError, McpError, RemoteProtocolError, RequestFailed
from mcp_core.excerpts import quoted
from mcp_core.jsonrpc.messages import Notification
from mcp_core.limits import Limits
from mcp_core.methods import (
    ALIASES,
    INITIALIZE,
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_PROGRESS,
    PING,
    RESOURCES_READ,
    SERVER_DISCOVER,
    SUBSCRIPTIONS_LISTEN,
    Side,
)
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.types import (
    DiscoverRequestParams,
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
)
from mcp_core.types.logging import LOGGING_LEVELS
from mcp_core.types.meta import LOG_LEVEL, TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_core.engine.connection import Extensions, OutboundRequest
    from mcp_core.engine.events import Event
    from mcp_core.engine.negotiation import Attempt, SendInitialize
    from mcp_core.jsonrpc.messages import JsonObject, Request, RequestId
    from mcp_core.methods import CapabilityPath, NotificationMethod, RequestMethod
    from mcp_core.types import CancelledNotificationParams, ClientCapabilities, LoggingLevel

__all__ = ["ClientConnection"]

P = TypeVar("P")

_OWN_COMMAND: Final = frozenset({NOTIFICATIONS_CANCELLED, NOTIFICATIONS_INITIALIZED, NOTIFICATIONS_PROGRESS})
"""Notifications that have their own commands; `notify` rejects them."""


class ClientConnection(Connection):
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
    capabilities: ClientCapabilities
    _aliases = ALIASES

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
        super().__init__(revisions=revisions, limits=limits or Limits(), extensions=extensions)
        self.info: Final = info
        """The name and version of the client."""
        self.capabilities = capabilities
        self.log_level = log_level
        self.server: ServerPeer | None = None
        """The server, or `None` before the negotiation has succeeded."""
        self._negotiation = Negotiation(revisions)
        self._probe: RequestId | None = None
        self._handshake: RequestId | None = None
        self._envelopes: dict[Revision, JsonObject] = {}
        self._tasks = understands_tasks(capabilities)
        self._callable: set[RequestMethod[object, object]] = set()

    @property
    def opened_with(self) -> tuple[str, ...]:
        """The methods that were sent to open the connection."""
        sent = ((self._probe, SERVER_DISCOVER.name), (self._handshake, INITIALIZE.name))
        return tuple(method for id, method in sent if id is not None)

    @property
    def initialize_refusal(self) -> McpError | None:
        """The error response to `initialize`, while the probe that followed is pending; otherwise `None`."""
        return self._negotiation.first_refusal

    @property
    def log_level(self) -> LoggingLevel | None:
        """The minimum level of log messages from modern servers. An unknown level raises `LocalProtocolError`."""
        return self._log_level

    @log_level.setter
    def log_level(self, level: LoggingLevel | None) -> None:
        if level is not None and level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"unknown log level {level!r}: use one of {', '.join(LOGGING_LEVELS)}")
        self._log_level: LoggingLevel | None = level

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self, *, era: Era | None = None) -> Outgoing:
        """Start the negotiation.

        Args:
            era: The era of the server, if known from an earlier connection. This is a hint and may be wrong. `LEGACY`
                sends `initialize` first, and the probe only if the server rejects `initialize`.

        Returns:
            The first request: `server/discover`, or `initialize` if the client supports legacy revisions only.

        Raises:
            LocalProtocolError: The connection was opened already or has closed, or the client supports no revision.
        """
        self._check_new()
        reaction = self._take(self._negotiation.start(era), ())
        if reaction.reply is None:
            raise LocalProtocolError("no revision to negotiate: give the client at least one in revisions")
        return reaction.reply

    def probe_unanswered(self) -> ReceiveResult | None:
        """Handle a timeout of `server/discover`: treat the server as legacy.

        A late response to the probe is still accepted until the response to `initialize` arrives.

        Returns:
            The next request or the failure of the negotiation; `None` if no probe is pending.
        """
        if self._negotiation.progress is not Progress.PROBING or self.state is State.CLOSED:
            return None
        return self._take(self._negotiation.silent(), ())

    def opening_refused(self, error: McpError, request: RequestId) -> ReceiveResult | None:
        """Handle a response to `server/discover` or `initialize` that is not an MCP message.

        Args:
            error: The error that describes the response, such as `HttpFailure`.
            request: The id of the request.

        Returns:
            The next request or the failure of the negotiation; `None` if the outcome of this request has no effect: the
            response has arrived already, or the request is a probe that has timed out.
        """
        outbound = self._outbound.open.get(request)
        if outbound is None or request not in (self._probe, self._handshake):
            return None
        awaited = self._is_awaited(request)
        self.forget(request)
        return self._refused(outbound, error) if awaited else None

    def adopt(self, server: ServerPeer) -> None:
        """Adopt the description of a modern server from another connection, instead of opening this one.

        Args:
            server: The server as negotiated on the other connection.

        Raises:
            LocalProtocolError: The server is a legacy server, whose sessions need `initialize`; or this connection was
                opened already or has closed.
        """
        self._check_new()
        if server.revision.era is Era.LEGACY:
            raise LocalProtocolError(
                "cannot adopt a legacy server: its session must be opened by initialize; call open",
                anchor="basic/lifecycle",
            )
        self._negotiation.progress = Progress.DONE
        self.server = server

    def reopen(self) -> Outgoing:
        """Open a new session in place of a legacy session that the server dropped.

        The client proposes the revision of the old session. The server's implementation and capabilities may have
        changed. The application must not send requests until the next `ConnectionOpened`. Pending outbound requests
        stay pending: call `forget` for those that the server dropped with the session. Inbound requests are abandoned,
        and later responses of their handlers are not sent: cancel the handlers of the requests in `inbound_requests`
        before this call.

        If the attempt fails, this method can be called again.

        Returns:
            The `initialize` request. Send it without the id of the old session.

        Raises:
            LocalProtocolError: There was no legacy session, or the connection has closed.
        """
        if self._session is None or self._handshake is None or self.state is State.CLOSED:
            raise LocalProtocolError("there is no legacy session to reopen", anchor="basic/lifecycle")
        self.forget(self._handshake)
        self._inbound.abandon()
        self._lifecycle.reopen()
        return self._send(self._negotiation.again(self._session.revision))

    def _check_new(self) -> None:
        if self._negotiation.progress is not Progress.NEW or self.state is State.CLOSED:
            raise LocalProtocolError("the connection was opened already, or has closed")

    def _take(self, step: Attempt, notes: tuple[str, ...]) -> ReceiveResult:
        """Execute the next step of the negotiation."""
        if isinstance(step, NegotiationFailure):
            return ReceiveResult(NegotiationEnded(error=step.error, notes=notes))
        outgoing = self._send(step)
        method = SERVER_DISCOVER.name if isinstance(step, SendDiscover) else INITIALIZE.name
        return ReceiveResult(Negotiating(method=method, notes=notes), outgoing)

    def _send(self, step: SendDiscover | SendInitialize) -> Outgoing:
        if isinstance(step, SendDiscover):
            request = self._begin_request(
                SERVER_DISCOVER, DiscoverRequestParams(), step.revision, meta=self._envelope(step.revision)
            )
            self._probe = request.id
        else:
            self._lifecycle.send(Kind.INITIALIZE)
            params = InitializeRequestParams(
                protocol_version=step.revision.name,
                capabilities=_with_extensions(self.capabilities),
                client_info=self.info,
            )
            request = self._begin_request(INITIALIZE, params, step.revision)
            self._handshake = request.id
        return Outgoing(request)

    def _is_awaited(self, request: RequestId) -> bool:
        """Return whether the negotiation waits for the response to a request."""
        progress = self._negotiation.progress
        return (progress is Progress.PROBING and request == self._probe) or (
            progress is Progress.INITIALIZING and request == self._handshake
        )

    def _discovered(self, result: DiscoverResult, raw: JsonObject, notes: tuple[str, ...]) -> ReceiveResult | None:
        """Handle the result of the probe. Return `None` if it has no effect on the negotiation."""
        if self._negotiation.progress is Progress.DONE:
            return None
        step = self._negotiation.discovered(result.supported_versions)
        if step is None:
            # The handshake is in progress, and the discover result offers no better revision.
            return None
        if not isinstance(step, NegotiatedRevision):
            return self._take(step, notes)
        if self._handshake is not None:
            # The response to the probe arrived after its timeout; the handshake is not needed.
            self.forget(self._handshake)
        self.server = ServerPeer(
            revision=step.revision,
            capabilities=result.capabilities,
            implementation=read_server_info(raw, step.revision),
            instructions=result.instructions,
        )
        return ReceiveResult(ConnectionOpened(peer=self.server, notes=notes))

    def _initialized(self, result: InitializeResult, notes: tuple[str, ...]) -> ReceiveResult:
        step = self._negotiation.initialized(result.protocol_version)
        if not isinstance(step, NegotiatedRevision):
            return self._take(step, notes)
        self._lifecycle.receive(Kind.INITIALIZE_RESULT)
        self._session = self.server = ServerPeer(
            revision=step.revision,
            capabilities=result.capabilities,
            implementation=result.server_info,
            instructions=result.instructions,
        )
        self._lifecycle.send(Kind.INITIALIZED)
        return ReceiveResult(
            ConnectionOpened(peer=self.server, notes=notes), Outgoing(Notification(NOTIFICATIONS_INITIALIZED.name))
        )

    def _refused(self, outbound: OutboundRequest, error: McpError, notes: tuple[str, ...] = ()) -> ReceiveResult:
        """Handle the failure of the request that the negotiation waits for."""
        if outbound.id == self._handshake:
            self._lifecycle.receive(Kind.INITIALIZE_ERROR)
        return self._take(self._negotiation.refused(error), notes)

    # --- receiving ---------------------------------------------------------------------------------------------------

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
        result, notes = converter(outbound.revision).receive(raw, results[kind])
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
        reaction: ReceiveResult | None = None
        if isinstance(result, InitializeResult):
            # The allowed methods depend on the capabilities of the server.
            self._callable.clear()
            if outbound.id == self._handshake:
                return self._initialized(result, notes)
        elif isinstance(result, DiscoverResult) and outbound.id == self._probe:
            reaction = self._discovered(result, raw, notes)
        return reaction or super()._result_received(outbound, result, raw, notes)

    def _error_received(
        self, outbound: OutboundRequest, error: RemoteProtocolError | RequestFailed, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if self._is_awaited(outbound.id):
            return self._refused(outbound, error, notes)
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
        definition = self._definition(message, peer.revision)
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

    def _known_revision(self) -> Revision | None:
        return None if self.server is None else self.server.revision

    def _in_session(self) -> bool:
        return self.server is None or self.server.revision.era is Era.LEGACY

    # --- commands ----------------------------------------------------------------------------------------------------

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


def _with_extensions(capabilities: ClientCapabilities) -> ClientCapabilities:
    """Return the capabilities in their form for a legacy server: with the extensions as unknown members.

    Capabilities are an open set in all revisions, so MCP Apps are declared to servers of any revision. The tasks
    extension is left out: legacy revisions have tasks in another form, or not at all.
    """
    announced: JsonObject = {
        name: settings for name, settings in (capabilities.extensions or {}).items() if name != TASKS_EXTENSION
    }
    if not announced:
        return capabilities
    return attrs.evolve(capabilities, extra={"extensions": announced, **capabilities.extra})
