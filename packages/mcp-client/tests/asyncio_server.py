"""A server over HTTP in an asyncio task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp_server import Server, serve_http

__all__ = ["served"]


class _Address:
    """The receiver of the URLs of a server."""

    def __init__(self) -> None:
        self.urls: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()

    def started(self, value: tuple[str, ...] = ()) -> None:
        self.urls.set_result(value)


@asynccontextmanager
async def served(server: Server, *, legacy_sse: bool = False) -> AsyncIterator[str]:
    """Serve over HTTP in an asyncio task. Yield the URL."""
    address = _Address()
    serving = asyncio.create_task(serve_http(server, "127.0.0.1:0", legacy_sse=legacy_sse, task_status=address))
    try:
        yield (await address.urls)[0]
    finally:
        serving.cancel()
        await asyncio.wait([serving])
