"""Streamable HTTP of both eras, and the HTTP+SSE transport that it replaced.

A request is an exchange in the task of its caller. The details depend on the era:

- 2026-07-28: one POST for each request. There are no background tasks, and no state except the header parameters of the
  tools. A lost response stays lost, and the caller decides whether to send the request again.
- Legacy: there may be a session, with a standalone stream for messages that the server initiates
  (`mcp_client.transports.http.session`).
- HTTP+SSE (2024-11-05): one GET and many POSTs, which behave like a byte stream
  (`mcp_client.transports.http.sse_2024`).

The opening of the connection determines the variant (`mcp_client.transports.http.handshake`).

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.transports.http.handshake import HttpHandshake
from mcp_client.transports.http.header_parameters import ToolHeaders
from mcp_client.transports.http.session import CLOSE_SECONDS
from mcp_core.errors import McpError, RequestTimeout
from mcp_core.http.client import ClientExchange
from mcp_core.http.routing_headers import NAME_PARAMS
from mcp_core.methods import SUBSCRIPTIONS_LISTEN
from mcp_core.trio.http_client.pool_policy import Use

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.pending_request import PendingRequest, Perform
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_client.transports.http.session import Session
    from mcp_core.codec import Batch
    from mcp_core.http.fallback import EraCache
    from mcp_core.jsonrpc.messages import Message, Request
    from mcp_core.trio.http_client.pool import HttpPool
    from mcp_core.types import Tool

__all__ = ["HttpTransport"]

_log: Final = logging.getLogger("mcp_client")

_POST_SECONDS: Final = 10.0
"""Time to send a message that no caller waits for, in seconds."""

_POSTS: Final = 256
"""Maximum number of such messages in flight. They respond to messages of the server, which could cause many."""

_FLUSH: Final = 0.5
"""Time that closing waits for the last messages to be sent, in seconds."""


class HttpTransport:
    """Messages over HTTP.

    Args:
        wire: Runs the exchanges.
        pool: The connections of `wire`; closed with the transport.
        eras: The known eras of servers, shared by connections.
        on_session_lost: Called when the server lost the session and a new one is open.
        names: The member of the params that `Mcp-Name` repeats, by method.
    """

    takes_headers: Final = True
    """Whether a request can have headers of its own."""
    stderr_tail: Final = None
    """`None`: an HTTP server has no stderr."""

    def __init__(
        self,
        wire: Wire,
        pool: HttpPool,
        eras: EraCache,
        on_session_lost: Callable[[], None] | None = None,
        names: Mapping[str, str] = NAME_PARAMS,
    ) -> None:
        self.wire: Final = wire
        self._pool: Final = pool
        self._eras: Final = eras
        self._on_session_lost: Final = on_session_lost
        self._names: Final = names
        self.perform: Perform | None = self._exchange
        """The function that runs an exchange; `None` over HTTP+SSE, which behaves like a byte stream."""
        self.interrupted: Callable[[], Awaitable[None]] | None = None
        """A function that waits for a new session, or opens it; `None` unless the server lost the session."""
        # The next two are set by `handshake`, which the channel calls when it is created.
        self._channel: ClientChannel
        self._handshake: HttpHandshake
        self._tools: Final = ToolHeaders()
        self._posting = 0
        self._posted = trio.Event()
        self._closing = False
        self._closed: Final = trio.Event()

    def handshake(self, channel: ClientChannel) -> HttpHandshake:
        """Return the object that opens a connection over HTTP."""
        self._channel = channel
        self.wire.pausable_deadlines = channel.pausable_deadlines
        self._handshake = HttpHandshake(
            channel,
            self.wire,
            self._eras,
            self._post_later,
            on_change=self._update,
            on_session_lost=self._on_session_lost,
        )
        return self._handshake

    def _update(self) -> None:
        """Choose how requests are sent: by the variant of the transport, and by the state of its session."""
        opened = self._handshake
        sessions = opened.sessions
        if opened.sse is not None:
            self.perform = None
        else:
            self.perform = self._exchange if sessions is None else sessions.perform
        self.interrupted = sessions.restore if sessions is not None and sessions.lost else None

    # --- requests --------------------------------------------------------------------------------------------------

    async def _exchange(self, request: Request, call: PendingRequest) -> None:
        """Send a request to a modern server. Closing the stream, for example on cancellation, cancels the request."""
        exchange = ClientExchange(
            request,
            revision=self._handshake.revision,
            limits=self.wire.limits,
            header_params=self._tools.of(request),
            names=self._names,
        )
        use = Use.STREAM if request.method == SUBSCRIPTIONS_LISTEN.name else Use.CALL
        await self.wire.exchange(exchange, self._channel.deliver, call=call, extra=call.headers, use=use)

    # --- other messages --------------------------------------------------------------------------------------------

    async def send(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Post a message.

        Raises:
            TransportError: The message was not delivered.
            RequestTimeout: The server neither accepted nor rejected the message in time.
        """
        seconds = self._channel.deadlines.idle
        with self._channel.pausable_deadlines.move_on_after(seconds) as scope:
            await self._send(message, headers)
        if scope.cancelled_caught:
            raise RequestTimeout("the server did not accept the message", deadline="idle", seconds=seconds)

    async def _send(
        self, message: Message | Batch, headers: Sequence[tuple[str, str]], session: Session | None = None
    ) -> None:
        opened = self._handshake
        if opened.sse is not None:
            await opened.sse.post(message, headers)
        elif opened.sessions is not None:
            await opened.sessions.post(message, headers, session)
        else:
            exchange = ClientExchange(message, revision=opened.revision, limits=self.wire.limits)
            await self.wire.exchange(exchange, self._channel.deliver, extra=headers, use=Use.SIDE)

    def offer(self, message: Message | Batch, *, more: bool) -> bool:  # noqa: ARG002  HTTP cannot send without blocking
        """Return false: HTTP cannot send a message without blocking."""
        return False

    def send_nowait(self, message: Message | Batch) -> None:
        """Post a message in the background. It is dropped if too many messages are in flight."""
        # The message belongs to the current session, even if a new session replaces it before the message is sent.
        sessions = self._handshake.sessions
        self._post_later(message, None if sessions is None else sessions.session)

    def _post_later(self, message: Message | Batch, session: Session | None) -> None:
        """Post a message in the background, in the given session; with `None`, in the current one."""
        if self._closing:
            return
        early = self._handshake.early
        if self._posting + len(early or ()) >= _POSTS:
            _log.warning("too many background messages in flight, message dropped: server=%s", self.describe())
        elif early is not None:
            early.append(message)
        else:
            self._posting += 1
            self._channel.nursery.start_soon(self._post, message, session)

    async def _post(self, message: Message | Batch, session: Session | None) -> None:
        try:
            with self._channel.pausable_deadlines.move_on_after(_POST_SECONDS):
                await self._send(message, (), session)
        except McpError as error:
            _log.debug("background message not delivered: server=%s error=%s", self.describe(), error)
        finally:
            self._posting -= 1
            self._posted.set()

    # --- other members ---------------------------------------------------------------------------------------------

    def usable(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return the tools whose `x-mcp-header` is valid; all tools if the revision does not have header parameters."""
        revision = self._handshake.revision
        return tools if revision is None or not revision.routing_headers else self._tools.learn(tools)

    def describe(self) -> str:
        """Return the URL without parts that may be secret."""
        return self.wire.shown

    async def aclose(self) -> None:
        """End the session if there is one, and close all connections."""
        first, self._closing = not self._closing, True
        with trio.CancelScope(shield=True):
            if not first:
                # The session can be ended only while the connections are open.
                await self._closed.wait()
                return
            with trio.move_on_after(_FLUSH):
                while self._posting:
                    self._posted = trio.Event()
                    await self._posted.wait()
            with trio.move_on_after(CLOSE_SECONDS):
                if self._handshake.sessions is not None:
                    await self._handshake.sessions.aclose()
                await self._handshake.aclose()
            await self._pool.aclose()
            self._closed.set()
