"""The interfaces between a client channel and its transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mcp_client.connection.pending_request import PendingRequest
from mcp_core.errors import MalformedMessage
from mcp_core.jsonrpc.messages import Batch, Message, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_client.connection.channel import ClientChannel
    from mcp_core.engine.events import ReceiveResult
    from mcp_core.errors import ConnectionEnded
    from mcp_core.types import Tool

__all__ = ["ByteStream", "Deliver", "Handshake", "Perform", "Pipe", "Transport"]

Deliver: TypeAlias = Callable[[Message | Batch | MalformedMessage], None]
"""A function that processes a received message without blocking."""

Perform: TypeAlias = Callable[[Request, PendingRequest], Awaitable[None]]
"""A function that sends a request and delivers the received messages until the request has ended. Raises
`TransportError` when the response is lost, and `RemoteProtocolError` when the server sent no response."""


class ByteStream(Protocol):
    """A bidirectional byte stream, with the methods of trio's streams: for example the pipes of a child process.

    `mcp_client.testing.transport_contract` tests implementations.
    """

    async def receive_some(self) -> bytes | bytearray:
        """Return the next bytes; empty at the end of the stream.

        Raises:
            trio.BrokenResourceError: The stream broke.
            trio.ClosedResourceError: `aclose` was called.
        """

    async def send_all(self, data: bytes) -> None:
        """Write all of `data`, and block while the peer does not read.

        Raises:
            trio.BrokenResourceError: The stream broke.
            trio.ClosedResourceError: `aclose` was called.
        """

    async def aclose(self) -> None:
        """Close the stream. Any task can call this, more than once."""


class Handshake(Protocol):
    """The handshake of one transport: the negotiation of the era and the revision."""

    async def open(self) -> None:
        """Negotiate with the server. Raises `McpError` when the negotiation fails."""

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete. `open` may return slightly later."""

    def advance(self, reaction: ReceiveResult) -> None:
        """Process a step of the negotiation, `Negotiating`, `Opened` or `NegotiationEnded`, and send its message."""

    def end(self, why: ConnectionEnded) -> None:
        """End the handshake: the connection has ended."""


class Transport(Protocol):
    """A transport of messages to and from one server.

    There are two kinds. A stream-based transport has one stream for all messages: `offer` and `send` write requests,
    and a background reader receives the responses. In the other kind each request is an HTTP exchange of its own, in
    the task of the caller (`perform`).
    """

    @property
    def perform(self) -> Perform | None:
        """The function that performs one request; `None` for a stream. It may change only during the handshake."""

    @property
    def interrupted(self) -> Callable[[], Awaitable[None]] | None:
        """After a lost session, the function to await before a request: it opens or awaits a new session."""

    @property
    def takes_headers(self) -> bool:
        """Whether a message can have HTTP headers of its own."""

    @property
    def stderr_tail(self) -> str | None:
        """The last lines of the server's stderr, at most 20; `None` if there is no stderr."""

    def handshake(self, channel: ClientChannel) -> Handshake:
        """Return the handshake of a connection over this transport."""

    async def send(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a message, and block while the server does not read.

        Args:
            message: The message.
            headers: HTTP headers of this message only.

        Raises:
            TransportError: The message was not delivered.
            RequestTimeout: The deadline of the transport passed, if it has one.
        """

    def offer(self, message: Message | Batch, *, more: bool) -> bool:
        """Send a message if that does not block.

        Args:
            message: The message.
            more: Whether other tasks may send soon, so that the transport can combine their messages into one write.

        Returns:
            Whether the message was sent. If not, call `send`, which blocks or raises.
        """

    def send_nowait(self, message: Message | Batch) -> None:
        """Send a message, for example a cancellation or an error, without blocking. A lost connection is ignored."""

    def usable(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return the listed tools that can be called over this transport, and remember their header parameters."""

    def describe(self) -> str:
        """Return a readable description of the server: a command line or an address."""

    async def aclose(self) -> None:
        """Close the transport, shielded and in bounded time. Any task can call this, more than once."""


class Pipe(Transport, Protocol):
    """A transport with one stream for all received messages."""

    async def run(self, deliver: Deliver) -> None:
        """Deliver the received messages until the stream ends or the transport is closed, without raising for that.

        Invalid messages are delivered too: a pending request may wait for one.
        """

    async def why_ended(self) -> ConnectionEnded:
        """Return the error for the requests that are pending when `run` returns."""
