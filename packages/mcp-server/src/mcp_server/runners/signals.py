"""Stopping by a signal, as services are told to stop."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["stopped_by_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """What runs in the block is cancelled by SIGINT or SIGTERM: `serve_http` then stops gracefully, and the block ends.

    A second signal does what it would do without the block: SIGINT raises `KeyboardInterrupt`, SIGTERM ends the process.
    Only for the main thread, within `trio.run`.
    """
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
