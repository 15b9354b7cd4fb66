"""The asyncio loop that hosts the running trio, if there is one. This module does not import asyncio, which is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

__all__ = ["HostLoop", "host_of_trio", "running_host"]

T = TypeVar("T")


class HostLoop(Protocol):
    """An asyncio loop that hosts trio: `mcp_core.trio.guest.TrioGuest`, which documents the methods."""

    async def run_asyncio(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an asyncio coroutine function from a trio task."""

    def enter_asyncio(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> AbstractAsyncContextManager[T]:
        """Enter and leave an asyncio context manager from a trio task."""

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Start a trio task that is cancelled when the loop ends. The function must not raise."""

    async def wait_for_cancellation(self) -> None:
        """Wait for the cancellation of a scope around the asyncio task that called the current trio task, if one did."""


running_host: Final[trio.lowlevel.RunVar[HostLoop | None]] = trio.lowlevel.RunVar("host loop", None)
"""The asyncio loop of the running trio; `None` if trio has its own loop."""


def host_of_trio() -> HostLoop | None:
    """Return the asyncio loop that hosts the running trio; `None` if trio has its own loop."""
    return running_host.get()
