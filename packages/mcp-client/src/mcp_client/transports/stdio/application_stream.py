"""A byte stream of the application, called on the async library that it is written for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.trio.async_library import call_in, library_of

if TYPE_CHECKING:
    from mcp_client.transports.stdio.stream import ByteStream

__all__ = ["ApplicationStream"]


class ApplicationStream:
    """A byte stream of the application, for code on trio. Created by `of`.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream: Final = stream

    @classmethod
    def of(cls, stream: ByteStream) -> ByteStream:
        """Return a stream for trio: the stream itself if it is written for trio in any case."""
        if isinstance(stream, trio.abc.AsyncResource) or getattr(stream, "async_library", None) == "trio":
            return stream
        return cls(stream)

    async def receive_some(self) -> bytes | bytearray:
        """Return the next bytes."""
        return await call_in(library_of(self._stream), self._stream.receive_some)

    async def send_all(self, data: bytes) -> None:
        """Write all of `data`."""
        await call_in(library_of(self._stream), partial(self._stream.send_all, data))

    async def aclose(self) -> None:
        """Close the stream."""
        await call_in(library_of(self._stream), self._stream.aclose)
