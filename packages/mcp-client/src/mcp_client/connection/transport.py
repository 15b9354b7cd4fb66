"""The seams between a link and whatever carries its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mcp_client.connection.pending_request import Call
from mcp_core.errors import MalformedMessage
from mcp_core.jsonrpc.messages import Batch, Message, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_client.connection.channel import Link
    from mcp_core.engine.events import Reaction
    from mcp_core.errors import ConnectionEnded
    from mcp_core.types import Tool

__all__ = ["ByteStream", "Deliver", "Opener", "Perform", "Pipe", "Transport"]

Deliver: TypeAlias = Callable[[Message | Batch | MalformedMessage], None]
"""Takes what came; it never waits."""

Perform: TypeAlias = Callable[[Request, Call], Awaitable[None]]
"""Sends a request and hands over what comes for it, until its call has ended. Raises `TransportError` when its answer
cannot be had, `RemoteProtocolError` when there was none in what came."""


class ByteStream(Protocol):
    """Bytes in both directions, as trio's streams have them; also a child process.

    `mcp_client.testing.transport_contract` checks what is asked of one.
    """

    async def receive_some(self) -> bytes | bytearray:
        """The next bytes; empty at the end. Raises `trio.BrokenResourceError`, or `trio.ClosedResourceError` after `aclose`."""

    async def send_all(self, data: bytes) -> None:
        """Writes all of `data`, and waits while the other end does not read. Raises as `receive_some` does."""

    async def aclose(self) -> None:
        """Closes it. Any task may, and more than once."""


class Opener(Protocol):
    """Finds a common era and revision, the way that suits a transport."""

    async def open(self) -> None:
        """Returns when the engine has agreed with the server. Raises `McpError` when it cannot be had."""

    @property
    def is_open(self) -> bool:
        """Whether all was done that can be waited for; `open` may still be about to find out."""

    def advance(self, reaction: Reaction) -> None:
        """The negotiation went on: `Negotiating`, `Opened` or `NegotiationEnded`, and what is to be sent then."""

    def end(self, why: ConnectionEnded) -> None:
        """The connection is over."""


class Transport(Protocol):
    """Carries messages to one server and back.

    There are two kinds. One is a pipe for all messages: requests go out by `offer` and `send`, and the answers come by
    a reader in the background. In the other each request is an exchange of its own, in the task of the caller
    (`perform`).
    """

    @property
    def perform(self) -> Perform | None:
        """Has an exchange; `None` for a pipe. May change while the connection is being opened, not later."""

    @property
    def interrupted(self) -> Callable[[], Awaitable[None]] | None:
        """Where the server lost the session: waits for a new one, or makes it. Nothing can be asked before."""

    @property
    def takes_headers(self) -> bool:
        """Whether a message may have headers of its own."""

    @property
    def stderr_tail(self) -> str | None:
        """The last lines that the server wrote to stderr, 20 at most; `None` where it has none."""

    def opener(self, link: Link) -> Opener:
        """What opens a connection over this transport."""

    async def send(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Sends; waits while the server is slow. Raises `TransportError`, or `RequestTimeout` where there is a deadline.

        `headers`: HTTP headers for this message alone.
        """

    def offer(self, message: Message | Batch, *, more: bool) -> bool:
        """Sends if that needs no waiting. False if it does, or cannot be done at all: `send` then waits, or raises.

        `more`: others may be about to send too, so that it pays to wait for them.
        """

    def send_nowait(self, message: Message | Batch) -> None:
        """Sends as far as that needs no waiting: cancellations, refusals. A server that is gone is no error."""

    def usable(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Those of the listed tools that can be called over this transport; it remembers what calling them needs."""

    def describe(self) -> str:
        """Who is at the other end, for people: a command line, an address."""

    async def aclose(self) -> None:
        """Closes it, shielded and bounded. Any task may, and more than once."""


class Pipe(Transport, Protocol):
    """A transport with one stream for everything that comes."""

    async def run(self, deliver: Deliver) -> None:
        """Hands over what comes, until the server is gone or the transport is closed. Never raises for that.

        What is no message is survived, and handed over too: it may be a broken answer that somebody waits for.
        """

    async def why_ended(self) -> ConnectionEnded:
        """The error for everything that still waits when `run` has returned."""
