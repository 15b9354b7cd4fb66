"""The server `everything`, run for the duration of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import trio

from everything import make_server
from mcp_server import serve_http

__all__ = ["open_everything_server"]


@asynccontextmanager
async def open_everything_server() -> AsyncIterator[int]:
    """Serve it on a free port and yield the port."""
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(serve_http, make_server(), "127.0.0.1:0")
        yield urlsplit(urls[0]).port or 0
        nursery.cancel_scope.cancel()
