"""A task beside a request: it detects that the client disconnects, and keeps a silent stream alive.

A short call does not need this task, so a host that supports it starts the task only for slow requests
(`mcp_server.asgi`). For a subscription, the task of the request does this work itself.
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
    from mcp_server.transports.http.response import AsgiResponse

__all__ = ["DisconnectWatcher", "run_beside"]


class DisconnectWatcher:
    """A watcher of one response: detects the disconnect, starts the stream, and writes keep-alive comments.

    Args:
        stream: The event stream of the response.
        response: The response.
        receive: The application's `receive`. The body is complete, so it returns only `http.disconnect`.
        policy: The settings of the endpoint. The watcher uses `stream_after`, `keep_alive` and `retry`.
        gone: Called when the client has disconnected, or `None`.
        flush: Queues or writes pending messages before each wait, or `None`.
        until: The time at which the stream ends, by trio's clock.
    """

    __slots__ = ("_flush", "_gone", "_pause", "_policy", "_receive", "_response", "_stream", "_stream_after", "_until")

    def __init__(
        self,
        stream: EventStream,
        response: AsgiResponse,
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
        # If the response is a stream in any case, start it as soon as the request is slow enough for this task to run.
        self._stream_after: Final = 0.0 if policy.answer == "stream" else policy.stream_after
        self._gone: Final = gone
        self._flush: Final = flush
        self._until: Final = until
        self._pause: trio.CancelScope | None = None

    async def run(self) -> None:
        """Watch until the client disconnects, or the response is complete."""
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
                    due = began + self._stream_after if stream.may_stream else math.inf
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
            # The request is complete, or the host stops. A write that waits for a client must not delay this.
            response.abort()
            raise
        finally:
            # The stream and this object refer to each other: until garbage collection, the arguments of the request
            # would stay.
            if stream.wake == self.wake:
                stream.wake = None
        stream.left(response)
        if self._gone is not None:
            self._gone()

    def wake(self) -> None:
        """Flush pending messages soon. Does not block."""
        if self._pause is not None:
            self._pause.cancel()


async def run_beside(
    scope: Scope, companion: Callable[[], Awaitable[None]], serve: Callable[[], Awaitable[None]]
) -> None:
    """Serve a request, with a companion task if the request is slow.

    Args:
        scope: The ASGI scope of the request. It states whether the host starts companions.
        companion: Runs beside the request and is cancelled at its end.
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
