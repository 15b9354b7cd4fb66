"""What runs beside a request: it notices that the client leaves, and keeps a stream that is silent alive.

A quick call needs none, so a host that can starts it only when a request takes long (`mcp_server.asgi`). Where
nothing else is to be done, as for a subscription, the request's own task does this, and no other one is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.asgi import COMPANION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_server.asgi import Receive, Scope, StartLater
    from mcp_server.transports.http.event_stream import EventStream
    from mcp_server.transports.http.response import Response

__all__ = ["Attendance", "accompanied"]


class Attendance:
    """Looks after one response.

    Args:
        stream: What is written to it.
        response: The response.
        receive: The application's `receive`, from which nothing but the client's leaving is to be expected any more.
        policy: `stream_after` and `keep_alive` are applied.
        gone: Is called when the client has left, if that means more than that nothing is written to it.
        flush: Writes what waits to be written, if there is such a thing.
        until: When the stream ends by itself, by trio's clock.
    """

    __slots__ = ("_flush", "_gone", "_patience", "_pause", "_policy", "_receive", "_response", "_stream", "_until")

    def __init__(
        self,
        stream: EventStream,
        response: Response,
        receive: Receive,
        policy: EndpointPolicy,
        *,
        gone: Callable[[], None] | None = None,
        flush: Callable[[], Awaitable[None]] | None = None,
        until: float = math.inf,
    ) -> None:
        self._stream: Final = stream
        self._response: Final = response
        self._receive: Final = receive
        self._policy: Final = policy
        # What becomes a stream in any case begins at once, if it takes long enough to have a companion at all.
        self._patience: Final = 0.0 if policy.answer == "stream" else policy.stream_after
        self._gone: Final = gone
        self._flush: Final = flush
        self._until: Final = until
        self._pause: trio.CancelScope | None = None

    async def run(self) -> None:
        """Returns when the client has left, or nothing more is written to this response."""
        stream, response = self._stream, self._response
        began = trio.current_time()
        stream.wake = self.wake
        try:
            while not (response.ended or response.lost):
                if self._flush is not None:
                    await self._flush()
                await stream.flush()
                if stream.committed:
                    due = response.written_at + self._policy.keep_alive
                else:
                    due = began + self._patience if stream.may_stream else math.inf
                with trio.CancelScope(deadline=min(due, self._until)) as self._pause:
                    if (await self._receive())["type"] == "http.disconnect":
                        break
                self._pause = None
                if trio.current_time() >= self._until:
                    await stream.end(self._policy.retry)
                elif not stream.committed:
                    await stream.commit()
                elif trio.current_time() >= response.written_at + self._policy.keep_alive:
                    await stream.keep_alive(response)
        except trio.Cancelled:
            # The request is over, or the host stops. A write that waits for a client must not keep it from that.
            response.abort()
            raise
        finally:
            # Each refers to the other, and the request with its arguments would stay until both are found and collected.
            if stream.wake == self.wake:
                stream.wake = None
        stream.left(response)
        if self._gone is not None:
            self._gone()

    def wake(self) -> None:
        """There is something to be flushed. Never waits."""
        if self._pause is not None:
            self._pause.cancel()


async def accompanied(
    scope: Scope, companion: Callable[[], Awaitable[None]], serve: Callable[[], Awaitable[None]]
) -> None:
    """Serves a request, with a companion if it takes long.

    Args:
        scope: The request's scope, which tells whether the host starts companions.
        companion: Runs beside the request. It is cancelled at its end.
        serve: Serves the request.
    """
    extensions = scope.get("extensions")
    start_later: StartLater | None = extensions.get(COMPANION) if isinstance(extensions, dict) else None
    if start_later is not None:
        start_later(companion)
        await serve()
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(companion)
        await serve()
        nursery.cancel_scope.cancel()
