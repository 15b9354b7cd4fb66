"""Graceful shutdown of a service by signals."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_core.trio.signals import stop_signal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["stopped_by_signals"]


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Cancel the block on SIGINT or SIGTERM. `serve_http` then stops gracefully, and the block ends.

    On asyncio, `asyncio.run` cancels its task on SIGINT. For SIGTERM, use `loop.add_signal_handler(SIGTERM, task.cancel)`.

    A second signal has its usual effect: SIGINT raises `KeyboardInterrupt`, SIGTERM ends the process. Use it only in
    the main thread, within `trio.run`.

    Raises:
        WrongAsyncLibrary: trio does not run this code.
    """
    with stop_signal():
        yield
