"""The seam between a link and whatever carries its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.errors import ConnectionEnded, MalformedMessage
    from mcp_core.jsonrpc.messages import Batch, Message

__all__ = ["ByteStream", "Transport"]


class ByteStream(Protocol):
    """Bytes in both directions, as trio's streams have them; also a child process."""

    async def receive_some(self) -> bytes | bytearray:
        """The next bytes; empty at the end."""

    async def send_all(self, data: bytes) -> None:
        """Writes all of `data`."""

    async def aclose(self) -> None:
        """Closes it. Any task may, and more than once."""


class Transport(Protocol):
    """Carries messages to one server and back."""

    async def run(self, deliver: Callable[[Message | Batch | MalformedMessage], None]) -> None:
        """Hands over what comes, until the server is gone or the transport is closed. Never raises for that.

        What is no message is survived, and handed over too: it may be a broken answer that somebody waits for.
        """

    async def send(self, message: Message | Batch) -> None:
        """Sends; waits while the server is slow. Raises `ConnectionEnded` when it is gone."""

    def offer(self, message: Message | Batch, *, more: bool) -> bool:
        """Sends if that needs no waiting. False if it does, or cannot be done at all: `send` then waits, or raises.

        `more`: others may be about to send too, so that it pays to wait for them.
        """

    def send_nowait(self, message: Message | Batch) -> None:
        """Sends as far as that needs no waiting: cancellations, refusals. A server that is gone is no error."""

    async def why_ended(self) -> ConnectionEnded:
        """The error for everything that still waits when `run` has returned."""

    def describe(self) -> str:
        """Who is at the other end, for people: a command line, an address."""

    @property
    def stderr_tail(self) -> str | None:
        """The end of what the server wrote to stderr; `None` where it has none."""

    async def aclose(self) -> None:
        """Closes it, shielded and bounded. Any task may, and more than once."""
