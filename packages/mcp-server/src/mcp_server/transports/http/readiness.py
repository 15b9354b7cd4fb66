"""The readiness of an endpoint for requests, which load balancers check."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Readiness"]

_log: Final = logging.getLogger("mcp_server")

_REMEMBERED: Final = 1.0
"""Time for which a result is used again, in seconds. However many clients check, a store has one request a second."""

_TIMEOUT: Final = 2.0
"""Time for the stores to respond, in seconds. Load balancers usually wait longer."""


class Readiness:
    """The check of whether the stores of an endpoint respond.

    Args:
        check: Sends a request to each store, and returns when all have responded. Raises `StoreError`.
    """

    __slots__ = ("_check", "_checked_at", "_ended", "_ready")

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check: Final = check
        self._checked_at = -math.inf
        self._ready = False
        # Set when the running check ends; `None` if no check runs.
        self._ended: trio.Event | None = None

    async def stores_respond(self) -> bool:
        """Return whether the stores responded within the last second, or respond now."""
        while trio.current_time() - self._checked_at >= _REMEMBERED:
            if self._ended is not None:
                await self._ended.wait()
            else:
                await self._run()
        return self._ready

    async def _run(self) -> None:
        self._ended = trio.Event()
        ready = False
        try:
            with trio.fail_after(_TIMEOUT):
                await self._check()
            ready = True
        except (StoreError, trio.TooSlowError) as error:
            if self._ready:
                _log.warning("not ready, a store does not respond: error=%s", error)
        finally:
            # After a cancellation another request checks again.
            self._ended.set()
            self._ended = None
        self._ready = ready
        self._checked_at = trio.current_time()
