"""HTTP+SSE, the transport of 2024-11-05: one GET for all messages of the server, a POST for each message of the client.

The transport behaves like a byte stream: if its stream breaks, the messages are lost and the connection ends.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_client.transports.http.authorized_request import excerpt, operation_of
from mcp_core.codec import encode
from mcp_core.errors import ConnectionEnded, McpError
from mcp_core.http.sse_2024 import SseStream, post_failure, post_headers
from mcp_core.jsonrpc.messages import Request
from mcp_core.trio.http_client.pool_policy import Use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_client.connection.channel import ClientChannel, Deliver
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_core.codec import Batch
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.trio.http_client.pool import PooledResponse

__all__ = ["SseConnection"]


class SseConnection:
    """One connection over HTTP+SSE.

    Args:
        wire: Makes the requests.
        channel: The channel of the connection. It ends with the stream.
    """

    def __init__(self, wire: Wire, channel: ClientChannel) -> None:
        self._wire: Final = wire
        self._channel: Final = channel
        self._endpoint: str | None = None
        self._dropped = trio.CancelScope()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the stream. The task has started when the server has sent the URL for the POSTs.

        Raises:
            McpError: The response is not such a stream. After the start, an error ends the link instead.
        """
        stream = SseStream(self._wire.url, self._wire.limits)
        deliver: Deliver = self._channel.deliver
        if self._wire.observer is not None:
            deliver = self._wire.observer.observing(deliver, None)
        why: ConnectionEnded | None = None
        try:
            with self._dropped:
                block = await self._wire.request("GET", self._wire.url, stream.headers(), None, use=Use.STREAM)
                async with block as response:
                    stream = SseStream(response.url, self._wire.limits)
                    if not stream.receive_head(response.head):
                        raise self._wire.advised(stream.failure(await excerpt(response)))
                    await self._read(stream, response, deliver, task_status)
        except McpError as error:
            if self._endpoint is None:
                raise
            why = ConnectionEnded(f"the SSE stream of the server broke: {error.message}")
            why.__cause__ = error
        if self._endpoint is None:
            raise stream.ended()
        if not self._dropped.cancel_called:
            self._channel.end(why or stream.ended())

    def drop(self) -> None:
        """Close the stream without ending the link, because the transport is not usable."""
        self._dropped.cancel()

    async def _read(
        self, stream: SseStream, response: PooledResponse, deliver: Deliver, task_status: trio.TaskStatus[None]
    ) -> None:
        while data := await response.receive_some():
            messages = stream.receive_data(data)
            if self._endpoint is None and stream.endpoint is not None:
                self._endpoint = stream.endpoint
                task_status.started()
            for message in messages:
                deliver(message)
        for message in stream.receive_data(b""):
            deliver(message)

    async def post(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a message. Its response arrives on the stream. Raises `TransportError` if the server rejects it."""
        if self._endpoint is None:
            raise AssertionError("the server has not sent the URL for POST requests yet")
        body = encode(message, null_id=True)
        if self._wire.observer is not None:
            self._wire.observer.observe("sent", body)
        use = Use.CALL if isinstance(message, Request) else Use.SIDE
        block = await self._wire.request(
            "POST", self._endpoint, post_headers(), body, use=use, extra=headers, operation=operation_of(message)
        )
        async with block as response:
            # Read the body, so that the connection can be reused.
            failure = post_failure(response.head, await excerpt(response))
        if failure is not None:
            raise self._wire.advised(failure)
