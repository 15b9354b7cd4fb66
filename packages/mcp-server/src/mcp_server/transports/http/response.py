"""An HTTP response, as an ASGI application sends it.

A write is not interrupted: a handler may be cancelled at any time, and a part of an event would corrupt all that
follows on the connection. Therefore writes are shielded. A write ends early only if the client does not read for a long
time or is known to have disconnected. The connection is then lost.

A disconnected client is not an error here: data for it is discarded.

Spec: ASGI 3.0, HTTP 2.3
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_server.asgi import CHARGE
from mcp_server.connection.authenticator import ANONYMOUS
from mcp_server.connection.turns import take_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.http.messages import Headers, HttpHead, HttpRequest
    from mcp_core.http.responses import Refusal
    from mcp_core.http.server import ServerExchange
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import Receive, Scope, Send
    from mcp_server.connection.authenticator import Identity

__all__ = ["LARGE", "AsgiResponse", "HttpContext", "reserve_output"]

LARGE: Final = 64 * 1024
"""Largest body that is not charged when it is created, in bytes. The host charges it if the client does not read it."""

_HELD: Final = 3
"""Memory of a response until it is written, as a multiple of its size: the result, its JSON, and the encoded bytes."""

_STALL: Final = 60.0
"""Time limit of one write, in seconds. Hosts that time writes have a shorter limit. Other hosts have no limit."""

_GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Exceptions that hosts raise if the client has disconnected."""


@lru_cache(maxsize=16)
def _raw(headers: Headers) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers as ASGI expects them. Cached, because most responses have the same headers."""
    return headers.raw()


async def reserve_output(charge: MemoryCharge, size: int) -> LimitExceeded | None:
    """Charge a large body until it is written, and wait for a turn to write it.

    Args:
        charge: The charge of the request.
        size: The size of the body, in bytes.

    Returns:
        The error if the memory budget is exhausted.
    """
    try:
        charge.cover_output(_HELD * size)
    except LimitExceeded as excess:
        return excess
    await take_turn()
    return charge.dropped


class AsgiResponse:
    """An HTTP response. Only one task at a time may write.

    Args:
        send: The ASGI `send` of the request.
    """

    __slots__ = ("_send", "_watcher", "_writing", "begun", "charge", "ended", "lost", "written_at")

    begun: bool
    """Whether the head was sent, so that the status and the headers cannot change."""
    charge: MemoryCharge | None
    """The memory charge of the request, which also covers a large body."""
    ended: bool
    """Whether the response is complete."""
    lost: bool
    """Whether the client has disconnected or does not read. Nothing more is sent."""
    written_at: float
    """The time of the last write to a stream, by trio's clock."""

    def __init__(self, send: Send) -> None:
        self._send: Final = send
        self.charge = None
        self.begun = self.ended = self.lost = False
        self.written_at = 0.0
        self._writing: trio.CancelScope | None = None
        self._watcher: trio.CancelScope | None = None

    @property
    def open(self) -> bool:
        """Whether a stream can be written to."""
        return self.begun and not (self.ended or self.lost)

    async def complete(self, head: HttpHead, body: bytes = b"", charge: MemoryCharge | None = None) -> None:
        """Send a complete response. Add `content-length` if there is a body.

        Args:
            head: The head.
            body: The body.
            charge: The charge of a large body, from `reserve_output`.
        """
        if self.lost:
            return
        self.begun = self.ended = True
        headers = _raw(head.headers)
        if body:
            headers = [*headers, (b"content-length", b"%d" % len(body))]
        try:
            await self._send({"type": "http.response.start", "status": head.status, "headers": headers})
            message: dict[str, object] = {"type": "http.response.body", "body": body}
            if charge is not None:
                message[CHARGE] = charge
            await self._send(message)
        except _GONE:
            self.lost = True

    async def refuse(self, refusal: Refusal) -> None:
        """Send the response to a rejected request."""
        if self.lost:
            return
        head = refusal.head()
        self.begun = self.ended = True
        try:
            await self._send({"type": "http.response.start", "status": head.status, "headers": head.headers.raw()})
            await self._send({"type": "http.response.body", "body": refusal.body()})
        except _GONE:
            self.lost = True

    async def begin(self, head: HttpHead, data: bytes) -> None:
        """Start a stream.

        Args:
            head: The head of the response.
            data: The first bytes. Must not be empty: hosts hold back the head until the first bytes.
        """
        self.begun = True
        await self._write(
            {"type": "http.response.start", "status": head.status, "headers": _raw(head.headers)},
            {"type": "http.response.body", "body": data, "more_body": True},
        )

    async def write(self, data: bytes) -> None:
        """Write to a stream."""
        if self.open:
            await self._write({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Complete a stream with its last bytes."""
        if self.open:
            self.ended = True
            await self._write({"type": "http.response.body", "body": data})
        self.leave()

    async def _write(self, *messages: dict[str, object]) -> None:
        self.written_at = trio.current_time()
        with trio.CancelScope(shield=True, deadline=self.written_at + _STALL) as self._writing:
            try:
                for message in messages:
                    await self._send(message)
            except _GONE:
                self.lost = True
        if self._writing.cancelled_caught:
            self.lost = True
        self._writing = None

    def abort(self) -> None:
        """Interrupt a write that waits for the client, because it has disconnected or has another connection."""
        if self._writing is not None:
            self._writing.cancel()

    # --- the watcher -----------------------------------------------------------------------------------------------

    def attended(self, scope: trio.CancelScope) -> None:
        """Set the scope of the task that watches this response. `scope` is cancelled when the response is complete."""
        self._watcher = scope

    def leave(self) -> None:
        """Cancel the task that watches this response."""
        if self._watcher is not None:
            self._watcher.cancel()


@attrs.frozen(eq=False)
class HttpContext:
    """An HTTP request with its response, memory charge and identity."""

    exchange: ServerExchange
    """The HTTP exchange, which decides how to respond."""
    http: HttpRequest
    """The head of the request, as handlers see it."""
    response: AsgiResponse
    """The response."""
    receive: Receive
    """The ASGI `receive`. The body was read, so it returns only `http.disconnect`."""
    scope: Scope
    """The ASGI scope of the request."""
    charge: MemoryCharge
    """The memory charge of the request."""
    identity: Identity = ANONYMOUS
    """The identity of the sender."""
