"""Log messages about a failing session store, limited in rate, and about its recovery.

Requests continue without the store, so each request would log the failure. The log itself is often what fills the
disk.
"""

from __future__ import annotations

import logging
import math
from typing import Final

import trio

__all__ = ["StoreFailures"]

_log: Final = logging.getLogger("mcp_server")

_PAUSE: Final = 60.0
"""Time between two messages about a store that keeps failing, in seconds. The log then contains the failure but stays
small."""


class StoreFailures:
    """The failures of the session store of one endpoint."""

    __slots__ = ("_due", "_failed_at", "count")

    def __init__(self) -> None:
        self.count: int = 0
        """The number of failures since the store last worked. Without failures, `worked` does not have to be called."""
        self._due = -math.inf
        self._failed_at = -math.inf

    def failed(self, what: str, error: Exception) -> None:
        """Log a failure of the store, unless a failure was logged a short time ago.

        Args:
            what: The effect of the failure, for example "a stream cannot be resumed".
            error: The error that the store raised. It names the store.
        """
        self.count += 1
        now = self._failed_at = trio.current_time()
        if now < self._due:
            _log.debug("session store failed again: effect=%s error=%s", what, error)
            return
        self._due = now + _PAUSE
        _log.error(
            "session store failed, requests continue and unsaved data cannot be resumed: effect=%s error=%s "
            "failures=%d",
            what,
            error,
            self.count,
            exc_info=error,
        )

    def worked(self) -> None:
        """Log that the store recovered, if it failed before and has not failed for `_PAUSE` seconds.

        The pause is needed because operations that need no more space succeed on a full disk.
        """
        if self.count and trio.current_time() >= self._failed_at + _PAUSE:
            _log.warning("session store recovered: failures=%d", self.count)
            self.count = 0
            self._due = -math.inf
