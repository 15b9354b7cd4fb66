"""The recording of a byte stream at the server's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_client.recording.format import Recorder

__all__ = ["ServedStream", "record_stream"]


class ServedStream(Protocol):
    """The server's end of a connection."""

    async def receive_some(self) -> bytes | bytearray:
        """Return the next bytes; empty at the end."""

    async def send_all(self, data: bytes | memoryview) -> None:
        """Write all of `data`."""


class _RecordedStream:
    """A stream that records what passes through it."""

    def __init__(self, stream: ServedStream, recorder: Recorder) -> None:
        self._stream: Final = stream
        self._recorder: Final = recorder

    async def receive_some(self) -> bytes | bytearray:
        data = await self._stream.receive_some()
        self._recorder.record("client", bytes(data))
        return data

    async def send_all(self, data: bytes | memoryview) -> None:
        self._recorder.record("server", bytes(data))
        await self._stream.send_all(data)


def record_stream(
    serve: Callable[[ServedStream], Awaitable[None]], recorder: Recorder
) -> Callable[[ServedStream], Awaitable[None]]:
    """Return a function that serves a stream as `serve` does, and records the conversation.

    Args:
        serve: Serves a stream, for example with `mcp_server.serve_stream`.
        recorder: Receives the messages of both sides.
    """

    async def serve_recorded(stream: ServedStream) -> None:
        await serve(_RecordedStream(stream, recorder))

    return serve_recorded
