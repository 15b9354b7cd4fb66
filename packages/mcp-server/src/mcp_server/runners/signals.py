"""Graceful shutdown of a service by signals."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import WrongAsyncLibrary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["stopped_by_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Cancel the block on SIGINT or SIGTERM. `serve_http` then stops gracefully, and the block ends.

    On asyncio, `asyncio.run` cancels its task on SIGINT. For SIGTERM, use `loop.add_signal_handler(SIGTERM, task.cancel)`.

    A second signal has its usual effect: SIGINT raises `KeyboardInterrupt`, SIGTERM ends the process. Use it only in
    the main thread, within `trio.run`.

    Raises:
        WrongAsyncLibrary: trio does not run this code.
    """
    if not trio.lowlevel.in_trio_task():
        raise WrongAsyncLibrary(
            "stopped_by_signals cancels trio tasks, but trio does not run here: on asyncio, asyncio.run cancels its task on"
            " SIGINT, and loop.add_signal_handler(signal.SIGTERM, task.cancel) does the same for SIGTERM"
        )
    token = trio.lowlevel.current_trio_token()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    with trio.CancelScope() as scope:

        def stop(_number: int, _frame: FrameType | None) -> None:
            restore()
            token.run_sync_soon(scope.cancel)

        for number in _SIGNALS:
            signal.signal(number, stop)
        try:
            yield
        finally:
            restore()
