"""How the client's end of a connection comes to be open, and open again.

`open` begins the negotiation; what comes is given to `receive`, which says what to send next, until there is `Opened`
or `NegotiationEnded`. What comes is not always a message: silence (`probe_unanswered`) and an answer of HTTP that is
none of the protocol (`opening_refused`) lead on as well. `adopt` takes over what another connection found out.

A session of a legacy server may be lost without the connection: an HTTP server forgets it, and says so. `reopen` makes
a new one, on the same connection; what was asked stays asked, and no id is used twice.

Spec: basic/versioning (2026-07-28); basic/lifecycle, basic/transports#session-management (legacy).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from mcp_core.engine.connection import Connection
from mcp_core.engine.events import Negotiating, NegotiationEnded, Opened, Outgoing, Reaction, ServerPeer
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.engine.negotiation import Agreed, Failed, Negotiation, Probe, Progress
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
    from mcp_core.engine.in_flight import Asked
    from mcp_core.engine.negotiation import Attempt, Initialize
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.types import ClientCapabilities, Implementation

__all__ = ["Opening"]


class Opening(Connection):
    """The part of the client's end that opens it. Use `ClientConnection`."""

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
        """Who the client is."""
        self.capabilities = capabilities
        self._negotiation = Negotiation(revisions)
        self._probe: RequestId | None = None
        self._handshake: RequestId | None = None
        self._server: ServerPeer | None = None

    @property
    def server(self) -> ServerPeer | None:
        """Who the server is, once that is known."""
        return self._server

    @property
    def opened_with(self) -> tuple[str, ...]:
        """The methods that were sent to open the connection."""
        sent = ((self._probe, SERVER_DISCOVER.name), (self._handshake, INITIALIZE.name))
        return tuple(method for id, method in sent if id is not None)

    @property
    def initialize_refusal(self) -> McpError | None:
        """How the server refused `initialize`, while a probe that followed is not answered; else `None`."""
        return self._negotiation.first_refusal

    # --- commands --------------------------------------------------------------------------------------------------

    def open(self, *, era: Era | None = None) -> Outgoing:
        """Begins the negotiation.

        Args:
            era: What the server is known to speak from earlier; a hint, which may be wrong. `LEGACY` saves the probe:
                it is sent only if `initialize` is refused.

        Returns:
            What to send first: `server/discover`, or `initialize` when only legacy revisions are spoken.

        Raises:
            LocalProtocolError: It was opened already, or is over, or has no revision to speak.
        """
        self._check_new()
        reaction = self._take(self._negotiation.start(era), ())
        if reaction.reply is None:
            raise LocalProtocolError("this client was given no revision to speak")
        return reaction.reply

    def probe_unanswered(self) -> Reaction | None:
        """The caller waited long enough for the answer to `server/discover`; the server is taken for a legacy one.

        Returns:
            What to send, or why there is nothing more to try; `None` when no probe is open. An answer to the probe
            that comes late is still taken, as long as `initialize` is not answered.
        """
        if self._negotiation.progress is not Progress.PROBING or self.state is State.CLOSED:
            return None
        return self._take(self._negotiation.silent(), ())

    def opening_refused(self, error: McpError, request: RequestId) -> Reaction | None:
        """The answer to `server/discover` or `initialize` was none of the protocol, and nothing else will come.

        Args:
            error: What came instead, as `HttpFailure`.
            request: The id of the request.

        Returns:
            What to send, or why there is nothing more to try; `None` when the outcome of that request does not matter:
            it was answered, or is a probe that was given up waiting for.
        """
        asked = self._outbound.open.get(request)
        if asked is None or request not in (self._probe, self._handshake):
            return None
        self.forget(request)
        if request == self._probe and self._negotiation.progress is not Progress.PROBING:
            return None
        return self._refused(asked, error)

    def adopt(self, server: ServerPeer) -> None:
        """Takes over what is known of a modern server from another connection, instead of opening.

        Args:
            server: What was agreed there.

        Raises:
            LocalProtocolError: It is a legacy server: their sessions have to be opened; or the connection was opened.
        """
        self._check_new()
        if server.revision.era is Era.LEGACY:
            raise LocalProtocolError("a legacy session has to be opened by initialize", anchor="basic/lifecycle")
        self._negotiation.progress = Progress.DONE
        self._server = server

    def reopen(self) -> Outgoing:
        """The server forgot the session, and a new one is opened in its place.

        Until there is `Opened` again, nothing may be asked. The revision that was agreed on is proposed; who the server
        is, and what it offers, may have changed. Our requests that are open stay open: say `forget` for those that the
        server forgot as well. Its own requests are gone: cancel the handlers of `owed` before; what they answer later
        is not sent.

        It may be called again when it came to nothing.

        Returns:
            What to send, without the id of the old session.

        Raises:
            LocalProtocolError: There was no legacy session, or the connection is over.
        """
        if self._session is None or self._handshake is None or self.state is State.CLOSED:
            raise LocalProtocolError("there is no legacy session that could be opened again", anchor="basic/lifecycle")
        self.forget(self._handshake)
        self._inbound.abandon()
        self._lifecycle.reopen()
        return self._send(self._negotiation.again(self._session.revision))

    def _check_new(self) -> None:
        if self._negotiation.progress is not Progress.NEW or self.state is State.CLOSED:
            raise LocalProtocolError("the connection was opened already, or is over")

    # --- steps -----------------------------------------------------------------------------------------------------

    def _take(self, step: Attempt, notes: tuple[str, ...]) -> Reaction:
        """Does what the negotiation wants next."""
        if isinstance(step, Failed):
            return Reaction(NegotiationEnded(error=step.error, notes=notes))
        outgoing = self._send(step)
        method = SERVER_DISCOVER.name if isinstance(step, Probe) else INITIALIZE.name
        return Reaction(Negotiating(method=method, notes=notes), outgoing)

    def _send(self, step: Probe | Initialize) -> Outgoing:
        if isinstance(step, Probe):
            request = self._ask(
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
            request = self._ask(INITIALIZE, params, step.revision)
            self._handshake = request.id
        return Outgoing(request)

    @abstractmethod
    def _envelope(self, revision: Revision) -> JsonObject:
        """What each modern request says of the client."""

    def _answered(self, asked: Asked, result: object, raw: JsonObject, notes: tuple[str, ...]) -> Reaction:
        if isinstance(result, DiscoverResult) and asked.id == self._probe:
            if self._negotiation.progress is Progress.DONE:
                return super()._answered(asked, result, raw, notes)
            return self._discovered(asked, result, raw, notes)
        if isinstance(result, InitializeResult) and asked.id == self._handshake:
            return self._initialized(result, notes)
        return super()._answered(asked, result, raw, notes)

    def _discovered(self, asked: Asked, result: DiscoverResult, raw: JsonObject, notes: tuple[str, ...]) -> Reaction:
        step = self._negotiation.discovered(result.supported_versions)
        if step is None:
            # The handshake is under way, and there is nothing better to do.
            return super()._answered(asked, result, raw, notes)
        if not isinstance(step, Agreed):
            return self._take(step, notes)
        if self._handshake is not None:
            # The answer to the probe came after we had given up waiting for it; the handshake is not needed.
            self.forget(self._handshake)
        self._server = ServerPeer(
            revision=step.revision,
            capabilities=result.capabilities,
            implementation=read_server_info(raw, step.revision),
            instructions=result.instructions,
        )
        return Reaction(Opened(peer=self._server, notes=notes))

    def _initialized(self, result: InitializeResult, notes: tuple[str, ...]) -> Reaction:
        step = self._negotiation.initialized(result.protocol_version)
        if not isinstance(step, Agreed):
            return self._take(step, notes)
        self._lifecycle.receive(Kind.INITIALIZE_RESULT)
        self._session = self._server = ServerPeer(
            revision=step.revision,
            capabilities=result.capabilities,
            implementation=result.server_info,
            instructions=result.instructions,
        )
        self._lifecycle.send(Kind.INITIALIZED)
        return Reaction(Opened(peer=self._server, notes=notes), Outgoing(Notification(NOTIFICATIONS_INITIALIZED.name)))

    def _failed(self, asked: Asked, error: RemoteProtocolError | RequestFailed, notes: tuple[str, ...]) -> Reaction:
        if self._negotiation.progress is not Progress.DONE and asked.id in (self._probe, self._handshake):
            if asked.id == self._probe and self._negotiation.progress is not Progress.PROBING:
                return super()._failed(asked, error, notes)
            return self._refused(asked, error, notes)
        return super()._failed(asked, error, notes)

    def _refused(self, asked: Asked, error: McpError, notes: tuple[str, ...] = ()) -> Reaction:
        """The request that the negotiation waits for came to nothing."""
        if asked.id == self._handshake:
            self._lifecycle.receive(Kind.INITIALIZE_ERROR)
        return self._take(self._negotiation.refused(error), notes)


def _with_extensions(capabilities: ClientCapabilities) -> ClientCapabilities:
    """The capabilities as a legacy server gets them: with the extensions among what its revision does not define.

    Capabilities are an open set in all revisions, and MCP Apps are announced so to servers of any. That of tasks is not:
    legacy revisions have them in another form, or not at all.
    """
    told = {name: settings for name, settings in (capabilities.extensions or {}).items() if name != TASKS_EXTENSION}
    if not told:
        return capabilities
    return evolve(capabilities, extra={"extensions": told, **capabilities.extra})
