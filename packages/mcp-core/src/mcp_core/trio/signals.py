"""Graceful end of a block or a command by signals."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
import trio

from mcp_core.errors import WrongAsyncLibrary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

__all__ = ["StopSignal", "end_interrupted", "stop_signal"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def end_interrupted() -> NoReturn:
    """End the process immediately, with the status of a command that was interrupted.

    A plain function in a worker thread would delay the regular end, and a user who interrupts twice does not wait.
    """
    sys.stderr.flush()
    os._exit(128 + signal.SIGINT)


@attrs.define
class StopSignal:
    """The signal that stopped a block."""

    number: signal.Signals | None = None
    """The signal; `None` if the block ended without one."""

    @property
    def exit_status(self) -> int:
        """The exit status of a command after a graceful stop: 130 after SIGINT, as shells expect, otherwise 0."""
        return 128 + signal.SIGINT if self.number == signal.SIGINT else 0


@contextmanager
def stop_signal(
    numbers: Sequence[signal.Signals] = _SIGNALS, *, interrupted_again: Callable[[], None] | None = None
) -> Iterator[StopSignal]:
    """Cancel the block on a signal. A second one has its usual effect. Use it only in the main thread, within `trio.run`.

    Args:
        numbers: The signals.
        interrupted_again: Called in place of the usual effect of a second signal, if it is SIGINT.

    Returns:
        The received signal.

    Raises:
        WrongAsyncLibrary: trio does not run this code.
    """
    if not trio.lowlevel.in_trio_task():
        raise WrongAsyncLibrary(
            "stopped_by_signals cancels trio tasks, but trio does not run here: on asyncio, asyncio.run cancels its task on"
            " SIGINT, and loop.add_signal_handler(signal.SIGTERM, task.cancel) does the same for SIGTERM"
        )
    token = trio.lowlevel.current_trio_token()
    before = {number: signal.getsignal(number) for number in numbers}
    received = StopSignal()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def again(_number: int, _frame: FrameType | None) -> None:
        if interrupted_again is not None:
            interrupted_again()

    with trio.CancelScope() as scope:

        def stop(number: int, _frame: FrameType | None) -> None:
            received.number = signal.Signals(number)
            restore()
            if interrupted_again is not None:
                signal.signal(signal.SIGINT, again)
            token.run_sync_soon(scope.cancel)

        for number in numbers:
            signal.signal(number, stop)
        try:
            yield received
        finally:
            restore()
