"""Opening and reopening of a client connection.

`open` starts the negotiation. Pass each received message to `receive` and send its reply, until there is `ConnectionOpened` or
`NegotiationEnded`. Two other outcomes continue the negotiation: a timeout of the probe (`probe_unanswered`), and an
HTTP response that is not an MCP message (`opening_refused`). `adopt` reuses the server description of another
connection.

An HTTP server can drop a legacy session and report it as unknown, while the connection stays open. `reopen` opens a new
session on the same connection. Pending outbound requests stay pending, and no request id is used twice.

Spec: basic/versioning (2026-07-28); basic/lifecycle, basic/transports#session-management (legacy).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from mcp_core.engine.connection import Connection
from mcp_core.engine.events import ConnectionOpened, Negotiating, NegotiationEnded, Outgoing, ReceiveResult, ServerPeer
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.engine.negotiation import NegotiatedRevision, Negotiation, NegotiationFailure, Progress, SendDiscover
from mcp_core.engine.request_meta import read_server_info
from mcp_core.errors import LocalProtocolError, McpError, RemoteProtocolError, RequestFailed
from mcp_core.jsonrpc.messages import Notification
from mcp_core.limits import Limits
from mcp_core.methods import INITIALIZE, NOTIFICATIONS_INITIALIZED, SERVER_DISCOVER
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.types import DiscoverRequestParams, DiscoverResult, InitializeRequestParams, InitializeResult, evolve
from mcp_core.types.meta import TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.in_flight import OutboundRequest
    from mcp_core.engine.negotiation import Attempt, SendInitialize
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.types import ClientCapabilities, Implementation

__all__ = ["ClientHandshake"]


class ClientHandshake(Connection):
    """The part of a client connection that opens the connection. Use `ClientConnection`."""

    capabilities: ClientCapabilities

    def __init__(
        self,
        info: Implementation,
        capabilities: ClientCapabilities,
        *,
        revisions: tuple[Revision, ...] = tuple(REVISIONS.values()),
        limits: Limits | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        super().__init__(revisions=revisions, limits=limits or Limits(), extensions=extensions)
        self.info: Final = info
        """The name and version of the client."""
        self.capabilities = capabilities
        self._negotiation = Negotiation(revisions)
        self._probe: RequestId | None = None
        self._handshake: RequestId | None = None
        self.server: ServerPeer | None = None
        """The server, or `None` before the negotiation has succeeded."""

    @property
    def opened_with(self) -> tuple[str, ...]:
        """The methods that were sent to open the connection."""
        sent = ((self._probe, SERVER_DISCOVER.name), (self._handshake, INITIALIZE.name))
        return tuple(method for id, method in sent if id is not None)

    @property
    def initialize_refusal(self) -> McpError | None:
        """The error response to `initialize`, while the probe that followed is pending; otherwise `None`."""
        return self._negotiation.first_refusal

    # --- commands --------------------------------------------------------------------------------------------------

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
        self.forget(request)
        if request == self._probe and self._negotiation.progress is not Progress.PROBING:
            return None
        return self._refused(outbound, error)

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
        changed. The application must not send requests until the next `ConnectionOpened`. Pending outbound requests stay pending:
        call `forget` for those that the server dropped with the session. Inbound requests are abandoned, and later
        responses of their handlers are not sent: cancel the handlers of the requests in `owed` before this call.

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

    # --- steps -----------------------------------------------------------------------------------------------------

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

    @abstractmethod
    def _envelope(self, revision: Revision) -> JsonObject:
        """Return the request metadata (`_meta`) of each modern request."""

    def _result_received(
        self, outbound: OutboundRequest, result: object, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if isinstance(result, DiscoverResult) and outbound.id == self._probe:
            if self._negotiation.progress is Progress.DONE:
                return super()._result_received(outbound, result, raw, notes)
            return self._discovered(outbound, result, raw, notes)
        if isinstance(result, InitializeResult) and outbound.id == self._handshake:
            return self._initialized(result, notes)
        return super()._result_received(outbound, result, raw, notes)

    def _discovered(
        self, outbound: OutboundRequest, result: DiscoverResult, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        step = self._negotiation.discovered(result.supported_versions)
        if step is None:
            # The handshake is in progress, and the discover result offers no better revision.
            return super()._result_received(outbound, result, raw, notes)
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

    def _error_received(
        self, outbound: OutboundRequest, error: RemoteProtocolError | RequestFailed, notes: tuple[str, ...]
    ) -> ReceiveResult:
        if self._negotiation.progress is not Progress.DONE and outbound.id in (self._probe, self._handshake):
            if outbound.id == self._probe and self._negotiation.progress is not Progress.PROBING:
                return super()._error_received(outbound, error, notes)
            return self._refused(outbound, error, notes)
        return super()._error_received(outbound, error, notes)

    def _refused(self, outbound: OutboundRequest, error: McpError, notes: tuple[str, ...] = ()) -> ReceiveResult:
        """Handle the failure of the request that the negotiation waits for."""
        if outbound.id == self._handshake:
            self._lifecycle.receive(Kind.INITIALIZE_ERROR)
        return self._take(self._negotiation.refused(error), notes)


def _with_extensions(capabilities: ClientCapabilities) -> ClientCapabilities:
    """Return the capabilities in their form for a legacy server: with the extensions as unknown members.

    Capabilities are an open set in all revisions, so MCP Apps are declared to servers of any revision. The tasks
    extension is left out: legacy revisions have tasks in another form, or not at all.
    """
    announced = {
        name: settings for name, settings in (capabilities.extensions or {}).items() if name != TASKS_EXTENSION
    }
    if not announced:
        return capabilities
    return evolve(capabilities, extra={"extensions": announced, **capabilities.extra})
