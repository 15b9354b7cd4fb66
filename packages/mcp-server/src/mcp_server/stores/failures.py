"""What the log says of a session store that fails: that it does, once in a while, and that it works again.

Requests go on without the store, so its failure would be logged with each of them; and what fills up a disk is often the
log.
"""

from __future__ import annotations

import logging
import math
from typing import Final

import trio

__all__ = ["StoreFailures"]

_log: Final = logging.getLogger("mcp_server")

_PAUSE: Final = 60.0
"""Seconds between two messages about a store that goes on failing: a person who looks at the log finds one, and it stays
small."""


class StoreFailures:
    """The failures of the session store of one endpoint."""

    __slots__ = ("_due", "_failed_at", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many there were since the store worked; `worked` need not be called while there are none."""
        self._due = -math.inf
        self._failed_at = -math.inf

    def failed(self, what: str, error: Exception) -> None:
        """Log that something failed, unless that was logged a short time ago.

        Args:
            what: What did not happen.
            error: What the store raised; it names the store.
        """
        self.count += 1
        now = self._failed_at = trio.current_time()
        if now < self._due:
            _log.debug("session store failed again: %s: %s", what, error)
            return
        self._due = now + _PAUSE
        _log.error(
            "session store failed: %s: %s; failures since it worked: %d; requests go on, and what is not kept cannot be "
            "resumed",
            what,
            error,
            self.count,
            exc_info=error,
        )

    def worked(self) -> None:
        """Log that the store can be written again, if it failed before, and for a while did not.

        What needs no more space can be written to a full disk.
        """
        if self.count and trio.current_time() >= self._failed_at + _PAUSE:
            _log.warning("session store works again; failures: %d", self.count)
            self.count = 0
            self._due = -math.inf
