"""One HTTP response, as an ASGI application sends it.

Writing does not stop in the middle: what a handler sends may be cancelled at any time, and a part of an event would
spoil all that follows on the connection. So a write is shielded, and given up only when the client takes nothing for a
long time, or is known to have left; then the connection is lost.

A client that is gone is no error here: what is written for it goes nowhere.

Spec: ASGI 3.0, HTTP 2.3
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_server.connection.authenticator import NOBODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.http.messages import Headers, HttpHead, HttpRequest
    from mcp_core.http.responses import Refusal
    from mcp_core.http.server import ServerExchange
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import Receive, Scope, Send
    from mcp_server.connection.authenticator import Identity

__all__ = ["Exchanged", "Response"]

_STALL: Final = 60.0
"""Seconds that one write may take. A host that watches over its writes ends them earlier; others do not at all."""

_GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""What hosts raise when the client is gone."""


@lru_cache(maxsize=16)
def _raw(headers: Headers) -> Sequence[tuple[bytes, bytes]]:
    """Responses begin alike, most of them."""
    return headers.raw()


class Response:
    """One response. It is written by one task at a time.

    Args:
        send: The application's `send`.
    """

    __slots__ = ("_attendance", "_send", "_writing", "begun", "ended", "lost", "written_at")

    begun: bool
    """Its head was sent, so it cannot become another one."""
    ended: bool
    """It is complete."""
    lost: bool
    """The client has left, or takes nothing: nothing more is sent."""
    written_at: float
    """When the last part of a stream was written, by trio's clock."""

    def __init__(self, send: Send) -> None:
        self._send: Final = send
        self.begun = self.ended = self.lost = False
        self.written_at = 0.0
        self._writing: trio.CancelScope | None = None
        self._attendance: trio.CancelScope | None = None

    @property
    def open(self) -> bool:
        """Whether a stream can be written to."""
        return self.begun and not (self.ended or self.lost)

    async def complete(self, head: HttpHead, body: bytes = b"") -> None:
        """The whole response. `content-length` is added where there is a body."""
        if self.lost:
            return
        self.begun = self.ended = True
        headers = _raw(head.headers)
        if body:
            headers = [*headers, (b"content-length", b"%d" % len(body))]
        try:
            await self._send({"type": "http.response.start", "status": head.status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})
        except _GONE:
            self.lost = True

    async def refuse(self, refusal: Refusal) -> None:
        """The response to a request that goes no further."""
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
        """The beginning of a stream.

        Args:
            head: The head.
            data: The first bytes. Not empty: hosts keep the head back until there are some.
        """
        self.begun = True
        await self._write(
            {"type": "http.response.start", "status": head.status, "headers": _raw(head.headers)},
            {"type": "http.response.body", "body": data, "more_body": True},
        )

    async def write(self, data: bytes) -> None:
        """More of a stream."""
        if self.open:
            await self._write({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """The end of a stream, with its last bytes."""
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
        """The client is known to have left, or has another connection by now: a write that waits for it is given up."""
        if self._writing is not None:
            self._writing.cancel()

    # --- who looks after it ----------------------------------------------------------------------------------------

    def attended(self, scope: trio.CancelScope) -> None:
        """A task looks after this response alone. `scope` is cancelled when it is no longer needed."""
        self._attendance = scope

    def leave(self) -> None:
        """Nobody has to look after it any more."""
        if self._attendance is not None:
            self._attendance.cancel()


@attrs.frozen(eq=False)
class Exchanged:
    """One HTTP request, as those who answer it have it."""

    exchange: ServerExchange
    """What is decided about it."""
    http: HttpRequest
    """Its head, as handlers see it."""
    response: Response
    """Its response."""
    receive: Receive
    """Tells that the client has left; the body was read."""
    scope: Scope
    """What the host said of it."""
    charge: MemoryCharge
    """Its memory."""
    identity: Identity = NOBODY
    """Who sent it."""
