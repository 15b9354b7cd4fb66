"""Signals that stop a run."""

from __future__ import annotations

import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["RunStopped", "run_until_stopped"]

T = TypeVar("T")


class RunStopped(Exception):
    """The run was stopped by SIGTERM, and its processes have ended."""


def run_until_stopped(run: Callable[[], Awaitable[T]]) -> T:
    """Run a function until it ends or SIGTERM is received. Then no process remains, as with SIGINT.

    Args:
        run: The function.

    Raises:
        RunStopped: SIGTERM was received.
        KeyboardInterrupt: SIGINT was received.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread handles signals.
        return trio.run(run)
    return trio.run(partial(_watched, run))


async def _watched(run: Callable[[], Awaitable[T]]) -> T:
    found: list[T] = []
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with open_nursery() as nursery:

            async def finish() -> None:
                found.append(await run())
                nursery.cancel_scope.cancel()

            nursery.start_soon(finish)
            async for _ in signals:
                nursery.cancel_scope.cancel()
    if not found:
        raise RunStopped
    return found[0]
