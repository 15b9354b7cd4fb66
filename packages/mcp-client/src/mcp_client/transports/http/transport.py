"""Messages over Streamable HTTP, in either era, or over the pair of endpoints that it replaced.

Requests are exchanges in the tasks of their callers. What that means is a matter of the era:

- 2026-07-28: one POST, and nothing else. There is no task in the background, and no state but which parameters of which
  tools are repeated in headers. A lost answer is lost, and the caller decides whether to ask again.
- Legacy: there may be a session, with a stream for what the server says of its own accord (`mcp_client.transports.http.session`).
- HTTP+SSE (2024-11-05): a pipe made of one GET and many POSTs (`mcp_client.transports.http.sse_2024`).

Which of them it is turns out when the connection is opened (`mcp_client.transports.http.handshake`).

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.http_client.pool_policy import Use
from mcp_client.transports.http.handshake import HttpOpening
from mcp_client.transports.http.header_parameters import ToolHeaders
from mcp_client.transports.http.session import CLOSE_SECONDS, Sessions
from mcp_core.errors import McpError, RequestTimeout
from mcp_core.http.client import ClientExchange
from mcp_core.http.routing_headers import NAME_PARAMS
from mcp_core.methods import SUBSCRIPTIONS_LISTEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_client.connection.channel import Link
    from mcp_client.connection.pending_request import Call
    from mcp_client.connection.transport import Perform
    from mcp_client.http_client.pool import HttpPool
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_client.transports.http.session import Session
    from mcp_client.transports.http.sse_2024 import SseConnection
    from mcp_core.http.fallback import EraCache
    from mcp_core.jsonrpc.messages import Batch, Message, Notification, Request
    from mcp_core.revisions import Revision
    from mcp_core.types import Tool

__all__ = ["HttpTransport"]

_log: Final = logging.getLogger("mcp_client")

_POST_SECONDS: Final = 10.0
"""Seconds that a message may take which nobody waits for."""

_POSTS: Final = 256
"""How many such messages may be on their way. They answer what the server sends, so it could make us send many."""

_FLUSH: Final = 0.5
"""Seconds that closing waits for what was said last."""


class HttpTransport:
    """Messages over HTTP.

    Args:
        wire: Does the exchanges.
        pool: The connections of `wire`; closed with the transport.
        eras: What is known of servers, across connections.
        on_session_lost: Is called when the server lost the session, and a new one was made.
        names: The member of the params that `Mcp-Name` repeats, by method.
    """

    def __init__(
        self,
        wire: Wire,
        pool: HttpPool,
        eras: EraCache,
        on_session_lost: Callable[[], None] | None = None,
        names: Mapping[str, str] = NAME_PARAMS,
    ) -> None:
        self.wire: Final = wire
        self.eras: Final = eras
        self._pool: Final = pool
        self._on_session_lost: Final = on_session_lost
        self._link: Link | None = None
        self._opening: HttpOpening | None = None
        self._revision: Revision | None = None
        self._names: Final = names
        self._sessions: Sessions | None = None
        self._sse: SseConnection | None = None
        self._perform: Perform | None = self._exchange
        self._tools: Final = ToolHeaders()
        self._early: list[Message | Batch] | None = None
        self._posting = 0
        self._posted = trio.Event()
        self._closing = False
        self._closed: Final = trio.Event()

    # --- opening ---------------------------------------------------------------------------------------------------

    @property
    def link(self) -> Link:
        """The connection that this carries."""
        if self._link is None:
            raise AssertionError("the transport carries no connection yet")
        return self._link

    def opener(self, link: Link) -> HttpOpening:
        """What opens a connection over HTTP."""
        self._link = link
        self.wire.patience = link.patience
        self._opening = HttpOpening(link, self)
        return self._opening

    def agreed(self, revision: Revision) -> None:
        """It is a modern server: there is nothing but requests."""
        self._revision = revision

    def in_session(self, session: Session, opening: HttpOpening) -> Sessions:
        """It is a legacy server, with or without a session."""
        self._revision = session.revision
        sessions = self._sessions = Sessions(self.wire, self.link, session, opening.renew, self._on_session_lost)
        self._perform = sessions.perform
        return sessions

    def over_sse(self, sse: SseConnection | None) -> None:
        """It is a server of HTTP+SSE, so there is a pipe; or, for `None`, it turned out to be none."""
        self._sse = sse
        self._perform = self._exchange if sse is None else None

    # --- requests --------------------------------------------------------------------------------------------------

    @property
    def perform(self) -> Perform | None:
        """Has an exchange; `None` over HTTP+SSE, which is a pipe."""
        return self._perform

    @property
    def interrupted(self) -> Callable[[], Awaitable[None]] | None:
        """Where the server lost the session: waits for a new one, or makes it."""
        sessions = self._sessions
        return sessions.restore if sessions is not None and sessions.lost else None

    async def _exchange(self, request: Request, call: Call) -> None:
        """Asks a modern server. What closes the stream, as a cancellation of the caller does, cancels the request."""
        exchange = ClientExchange(
            request,
            revision=self._revision,
            limits=self.wire.limits,
            designated=self._tools.of(request),
            names=self._names,
        )
        use = Use.STREAM if request.method == SUBSCRIPTIONS_LISTEN.name else Use.CALL
        await self.wire.exchange(exchange, self.link.deliver, call=call, extra=call.headers, use=use)

    # --- other messages --------------------------------------------------------------------------------------------

    async def send(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Posts a message.

        Raises:
            TransportError: It did not get there.
            RequestTimeout: The server neither took it nor refused it.
        """
        seconds = self.link.deadlines.idle
        with self.link.patience.move_on_after(seconds) as scope:
            await self._send(message, headers)
        if scope.cancelled_caught:
            raise RequestTimeout("the server did not take the message", deadline="idle", seconds=seconds)

    async def _send(
        self, message: Message | Batch, headers: Sequence[tuple[str, str]], session: Session | None = None
    ) -> None:
        if self._sse is not None:
            await self._sse.post(message, headers)
        elif self._sessions is not None:
            await self._sessions.post(message, headers, session)
        else:
            exchange = ClientExchange(message, revision=self._revision, limits=self.wire.limits)
            await self.wire.exchange(exchange, self.link.deliver, extra=headers, use=Use.SIDE)

    def offer(self, message: Message | Batch, *, more: bool) -> bool:  # noqa: ARG002  nothing can be sent without waiting
        """Nothing can be sent without waiting."""
        return False

    def send_nowait(self, message: Message | Batch) -> None:
        """Posts a message in the background; it is dropped when there are too many of them."""
        # What is said is said in this session, also if there is another one before it is written.
        self.post_later(message, None if self._sessions is None else self._sessions.session)

    def post_later(self, message: Message | Batch, session: Session | None) -> None:
        """Posts a message in the background, in a session; without one, in whichever there is."""
        if self._closing:
            return
        early = self._early
        if self._posting + len(early or ()) >= _POSTS:
            _log.warning("%s makes this client say so much that something was dropped", self.describe())
        elif early is not None:
            early.append(message)
        else:
            self._posting += 1
            self.link.nursery.start_soon(self._post, message, session)

    async def _post(self, message: Message | Batch, session: Session | None) -> None:
        try:
            with self.link.patience.move_on_after(_POST_SECONDS):
                await self._send(message, (), session)
        except McpError as error:
            _log.debug("a message did not get to %s: %s", self.describe(), error)
        finally:
            self._posting -= 1
            self._posted.set()

    def deliver_early(self, what: Request | Notification, answers: list[Message | Batch]) -> None:
        """Hands over what came before its session is open. What is answered at once is put into `answers`."""
        self._early = answers
        self.link.deliver(what)
        self._early = None

    # --- all else --------------------------------------------------------------------------------------------------

    @property
    def takes_headers(self) -> bool:
        """A request may have headers of its own."""
        return True

    @property
    def stderr_tail(self) -> None:
        """There is none."""

    def usable(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Those whose `x-mcp-header` is in order, where the revision has that."""
        if self._revision is None or not self._revision.routing_headers:
            return tools
        return self._tools.learn(tools)

    def describe(self) -> str:
        """The URL, without what may be a secret."""
        return self.wire.shown

    async def aclose(self) -> None:
        """Ends the session if there is one, and closes all connections."""
        first, self._closing = not self._closing, True
        with trio.CancelScope(shield=True):
            if not first:
                # Without the connections the session could not be ended.
                await self._closed.wait()
                return
            with trio.move_on_after(_FLUSH):
                while self._posting:
                    self._posted = trio.Event()
                    await self._posted.wait()
            with trio.move_on_after(CLOSE_SECONDS):
                if self._sessions is not None:
                    await self._sessions.aclose()
                if self._opening is not None:
                    await self._opening.aclose()
            await self._pool.aclose()
            self._closed.set()
