"""A server over HTTP in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

import trio

from mcp_server import Server, serve_http

__all__ = ["served"]


@contextmanager
def served(server: Server) -> Iterator[str]:
    """Serve over HTTP in a trio run of a thread. Yield the URL."""
    started: SimpleQueue[tuple[str, trio.lowlevel.TrioToken, trio.CancelScope]] = SimpleQueue()

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(partial(serve_http, server, "127.0.0.1:0"))
            started.put((url, trio.lowlevel.current_trio_token(), nursery.cancel_scope))

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    url, token, scope = started.get()
    try:
        yield url
    finally:
        token.run_sync_soon(scope.cancel)
        thread.join()
