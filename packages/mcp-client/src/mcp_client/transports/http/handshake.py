"""Opening of a connection over HTTP: `server/discover`, `initialize`, and finally the GET of HTTP+SSE.

The core makes all decisions. The first request is the probe `server/discover`, so a modern server needs one round trip
in all. If the server does not respond to the probe in time, the client also sends `initialize`, and the first success
counts. Therefore the client does not mistake a slow server for a legacy one, and does not wait for a legacy server that
never responds to unknown methods.

The client remembers the era of each URL and uses it directly the next time. A server that was treated as a legacy
server because it was silent is not remembered; the client probes it again.

Each `initialize` may create a session, and some of these sessions are not used: the revision may be rejected, the
caller may be cancelled, or the response to the probe may arrive after all. The client ends the sessions that it does
not use.

Spec: basic/transports/streamable-http#backward-compatibility, basic/versioning (2026-07-28)
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.transports.http.session import Pause, Session, Sessions, end_session
from mcp_client.transports.http.sse_2024 import SseConnection
from mcp_core.engine.events import ConnectionOpened, Negotiating, NegotiationEnded
from mcp_core.errors import AccessDenied, ConnectionEnded, HttpFailure, McpError, RemoteProtocolError
from mcp_core.http.client import ClientExchange
from mcp_core.http.fallback import NegotiatedEndpoint, Next, neither, next_after, shows_era
from mcp_core.jsonrpc.messages import Notification, Request, ResultResponse
from mcp_core.methods import SERVER_DISCOVER
from mcp_core.revisions import REVISIONS, Era
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_core.codec import Batch
    from mcp_core.engine.events import ReceiveResult
    from mcp_core.http.client import Received
    from mcp_core.http.fallback import EraCache
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.revisions import Revision

__all__ = ["HttpHandshake"]

_log: Final = logging.getLogger("mcp_client")

_ENDPOINT_SECONDS: Final = 10.0
"""Time for a stream to start with the event `endpoint`, which identifies HTTP+SSE, in seconds."""


class HttpHandshake:
    """The opener of a connection over HTTP, and of new sessions on it.

    Args:
        channel: The channel of the connection.
        wire: Runs the exchanges.
        eras: The known eras of servers.
        post_later: Posts a message in a session, in the background.
        on_change: Called when `sse` or `sessions` changes, or the session is lost or replaced.
        on_session_lost: Called when the server lost the session and a new one is open.
    """

    def __init__(
        self,
        channel: ClientChannel,
        wire: Wire,
        eras: EraCache,
        post_later: Callable[[Message | Batch, Session], None],
        *,
        on_change: Callable[[], None],
        on_session_lost: Callable[[], None] | None,
    ) -> None:
        self._channel: Final = channel
        self._wire: Final = wire
        self._eras: Final = eras
        self._post_later: Final = post_later
        self._on_change: Final = on_change
        self._on_session_lost: Final = on_session_lost
        self._nursery: trio.Nursery | None = None
        self._settled = trio.Event()
        self._probed = trio.Event()
        self._running = 0
        self._opened: ConnectionOpened | None = None
        self._initialized: Message | None = None
        self._refusal: McpError | None = None
        self._era_known = False
        self._session_id: str | None = None
        self._attempts: Final[list[ClientExchange]] = []
        self._used: str | None = None
        self._unused: Final[list[tuple[str, Revision | None]]] = []
        self._ending: Final = trio.Lock()
        self._early: list[Message | Batch] = []
        self._hint = False
        self.revision: Revision | None = None
        """The negotiated revision; `None` before the end of the negotiation, and over HTTP+SSE."""
        self.sessions: Sessions | None = None
        """The session of a legacy server, even if the server does not use one; otherwise `None`."""
        self.sse: SseConnection | None = None
        """The connection over HTTP+SSE; `None` over Streamable HTTP."""
        self.early: list[Message | Batch] | None = None
        """The responses to send when the session is open, during the delivery of a message that arrived before."""
        self.is_open: bool = False
        """Whether the connection is ready: if there is a session, the server received `notifications/initialized`."""

    async def open(self) -> None:
        """Negotiate the revision with the server, and open the session if there is one. Raises `McpError`."""
        connection, eras, url = self._channel.connection, self._eras, self._wire.url
        if connection.server is not None:
            # Another connection has negotiated with the server.
            self.revision = connection.server.revision
            self.is_open = True
            await trio.lowlevel.checkpoint()
            return
        known = eras.find(url)
        era = None if known is None else known.revision.era
        self._hint = era is Era.LEGACY
        try:
            first = connection.open(era=era).message
            await self._negotiate(first, over_sse=known is not None and known.http_sse)
            await self._enter()
        except McpError:
            eras.forget(url)
            raise
        finally:
            self._sort_out()

    async def _enter(self) -> None:
        """Complete the opening after the negotiation, as the era requires."""
        revision = self._channel.server.revision
        if self._era_known and any(each.era is Era.MODERN for each in self._channel.connection.revisions):
            # Without a response to the probe the client cannot know that the server is not a modern one.
            self._eras.learn(self._wire.url, NegotiatedEndpoint(revision=revision, http_sse=self.sse is not None))
        if self.sse is not None:
            if self._initialized is not None:
                await self.sse.post(self._initialized)
        else:
            self.revision = revision
            if revision.era is Era.LEGACY:
                session = Session(self._session_id, revision)
                self._used = self._session_id
                self.sessions = Sessions(
                    self._wire,
                    self._channel,
                    session,
                    self.renew,
                    on_change=self._on_change,
                    on_lost=self._on_session_lost,
                )
                self._on_change()
                await self._confirm(session)
                self.is_open = True
                await self.sessions.stand()
        self.is_open = True

    async def renew(self) -> Session:
        """Open a new session after the server lost the last one.

        Raises:
            McpError: The server does not open a new session.
        """
        self._channel.forgotten()
        self._used = None
        try:
            await self._negotiate(self._channel.connection.reopen().message)
            session = Session(self._session_id, self._channel.server.revision)
            await self._confirm(session)
            self._used = session.id
        finally:
            self._sort_out()
        return session

    def _sort_out(self) -> None:
        """Collect the sessions that were created but not used, and end them in the background."""
        spoken = None if self._opened is None else self._opened.peer.revision
        revision = spoken if spoken is not None and spoken.era is Era.LEGACY else None
        for exchange in self._attempts:
            if exchange.session_id not in (None, self._used):
                self._unused.append((exchange.session_id, revision))
        self._attempts.clear()
        if self._unused and self._channel.ended is None:
            self._channel.nursery.start_soon(self._end_unused)

    async def _end_unused(self) -> None:
        async with self._ending:
            while self._unused:
                await end_session(self._wire, *self._unused[-1])
                self._unused.pop()

    async def aclose(self) -> None:
        """End the sessions that were created but not used."""
        self._sort_out()
        await self._end_unused()

    async def _confirm(self, session: Session) -> None:
        """Send `notifications/initialized`, then the responses that waited for the session."""
        if self._initialized is None:
            return
        exchange = ClientExchange(
            self._initialized,
            revision=session.revision,
            limits=self._wire.limits,
            session_id=session.id,
        )
        try:
            await self._wire.exchange(exchange, self._channel.deliver)
        except AccessDenied:
            raise
        except HttpFailure as failure:
            # The first request shows whether the session works.
            _log.warning("notifications/initialized rejected: server=%s error=%s", self._wire.shown, failure)
        early, self._early = self._early, []
        for answer in early:
            self._post_later(answer, session)

    # --- attempts --------------------------------------------------------------------------------------------------

    async def _negotiate(self, first: Message, *, over_sse: bool = False) -> None:
        """Send requests until the engine and the server agree. Raises `McpError` if they do not."""
        connection = self._channel.connection
        self._settled, self._probed = trio.Event(), trio.Event()
        self._probed.set()
        self._opened = self._initialized = self._refusal = self._session_id = None
        self._era_known = not _is_probe(first)
        self._early = []
        self._running = 0
        otherwise = any(revision.era is Era.LEGACY for revision in connection.revisions)
        async with open_private_nursery() as self._nursery:
            if over_sse:
                self._start_sse(first, None)
            else:
                self._start(first)
            with self._channel.pausable_deadlines.move_on_after(
                self._channel.deadlines.probe if otherwise else math.inf
            ):
                await self._settled.wait()
            if not self._settled.is_set():
                received = connection.probe_unanswered()
                if received is not None:
                    self.advance(received)
                await self._settled.wait()
        self._check()

    def _check(self) -> None:
        if self._refusal is not None and self._opened is None:
            raise self._refusal

    def _start(self, message: Message) -> None:
        if self._nursery is None or not isinstance(message, Request):
            raise AssertionError("only requests are sent to open a connection")
        self._running += 1
        self._nursery.start_soon(self._attempt, message)

    def _start_sse(self, message: Message, failure: McpError | None) -> None:
        if self._nursery is None or not isinstance(message, Request):
            raise AssertionError("only requests are sent to open a connection")
        self._running += 1
        self._nursery.start_soon(self._attempt_sse, message, failure)

    async def _attempt(self, request: Request) -> None:
        """Send one of the opening requests, and deliver its responses."""
        is_probe = _is_probe(request)
        exchange = ClientExchange(request, revision=_modern(request), limits=self._wire.limits)
        answers: list[Received] = []
        failure: McpError | None = None
        if is_probe:
            self._probed = trio.Event()
        else:
            self._attempts.append(exchange)
        try:
            await self._ask(exchange, answers)
        except McpError as error:
            failure = error
        finally:
            if is_probe:
                self._probed.set()
        if is_probe and (answers or (failure is not None and shows_era(failure))):
            self._era_known = True
        if not any(isinstance(answer, ResultResponse) for answer in answers):
            # A slow modern server may reject `initialize`; the response to the probe then follows.
            await self._probed.wait()
        self._running -= 1
        if not is_probe:
            self._session_id = exchange.session_id
        for answer in answers:
            self._channel.deliver(answer)
        if failure is not None and not answers:
            self._failed(exchange, request, failure)
        self._settle()

    async def _ask(self, exchange: ClientExchange, answers: list[Received]) -> None:
        """Run the request. Collect its responses in `answers`, and deliver all other messages immediately."""

        def take(what: Received) -> None:
            if isinstance(what, Request | Notification):
                # Immediate responses to these messages are sent in the session that is being opened.
                self.early = self._early
                self._channel.deliver(what)
                self.early = None
            else:
                answers.append(what)

        rest = await self._wire.exchange(exchange, take)
        pause = Pause()
        while rest is not None:
            await trio.sleep(max(rest.after, pause.seconds))
            pause.longer()
            exchange = exchange.resumption()
            rest = await self._wire.exchange(exchange, take)

    def _failed(self, exchange: ClientExchange, request: Request, failure: McpError) -> None:
        """Choose what follows a failed attempt."""
        hint, self._hint = self._hint, False
        what = next_after(exchange, failure)
        if what is Next.REFUSED or (hint and _about_the_server(failure)):
            self._refused(request, failure)
        elif what is Next.OPEN_SSE and self._opened is None:
            self._start_sse(request, failure)
        else:
            self._refusal = failure

    def _refused(self, request: Request, failure: McpError) -> None:
        received = self._channel.connection.opening_refused(failure, request.id)
        if received is not None:
            self.advance(received)

    async def _attempt_sse(self, request: Request, failure: McpError | None) -> None:
        """Try HTTP+SSE, after Streamable HTTP failed or for a server known to use it. The response arrives later."""
        sse = SseConnection(self._wire, self._channel)
        try:
            with self._channel.pausable_deadlines.move_on_after(_ENDPOINT_SECONDS) as scope:
                await self._channel.nursery.start(sse.serve)
            if scope.cancelled_caught:
                raise ConnectionEnded("the SSE stream does not start with an `endpoint` event")
            # The response may arrive before that of the POST.
            self.sse = sse
            self._on_change()
            await sse.post(request)
        except McpError as error:
            sse.drop()
            self.sse = None
            self._on_change()
            self._running -= 1
            if failure is None and _about_the_server(error):
                # The server used HTTP+SSE earlier, and does not support it now.
                self._start(request)
            else:
                self._refusal = error if failure is None else neither(failure, error)
            self._settle()

    async def _post_sse(self, sse: SseConnection, message: Message) -> None:
        try:
            await sse.post(message)
        except McpError as error:
            self._refusal = error
            self._settle()

    def advance(self, received: ReceiveResult) -> None:
        """Perform the engine's next step: an opened connection, a further request or the end of the negotiation."""
        event = received.event
        message = None if received.reply is None else received.reply.message
        if isinstance(event, ConnectionOpened):
            self._opened, self._initialized = event, message
        elif isinstance(event, Negotiating) and message is not None:
            self._refusal = None
            if self.sse is None:
                self._start(message)
            elif self._nursery is not None:
                self._nursery.start_soon(self._post_sse, self.sse, message)
        elif isinstance(event, NegotiationEnded):
            self._refusal = event.error
        self._settle()

    def _settle(self) -> None:
        if self._opened is not None or (self._refusal is not None and (not self._running or self.sse is not None)):
            self._settled.set()

    def end(self, why: ConnectionEnded) -> None:
        """Record that the connection ended before it was open."""
        if self._opened is None:
            self._refusal = why
            self._settled.set()


def _about_the_server(failure: McpError) -> bool:
    """Return whether a failure shows what the server does not support, unlike errors of credentials or the network."""
    return isinstance(failure, HttpFailure | RemoteProtocolError) and not isinstance(failure, AccessDenied)


def _is_probe(message: Message) -> bool:
    return isinstance(message, Request) and message.method == SERVER_DISCOVER.name


def _modern(request: Request) -> Revision | None:
    """Return the revision that a probe uses; `None` for `initialize`, which precedes the choice of a revision."""
    meta = None if request.params is None else request.params.get("_meta")
    name = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    return REVISIONS.get(name) if isinstance(name, str) else None
