"""The limit of concurrent legs and scenarios, which is higher while some of them hang.

One that hangs spends the seconds of its waits, and hardly uses the processor meanwhile. Beside it another one may run, so
that the waits for an implementation that hangs overlap, and each is as long as before.
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["AdaptiveLimiter"]

_RECENT: Final = 16
"""The number of the last legs or scenarios that count. It also bounds how far they raise the limit."""


class AdaptiveLimiter:
    """The limiter of the concurrent legs or scenarios of a run.

    Args:
        jobs: The limit while nothing hangs. A limit of 1 is never raised: an implementation may be unable to serve two at
            a time.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs: Final = jobs
        self._limiter: Final = trio.CapacityLimiter(jobs)
        self._recent: Final[deque[bool]] = deque(maxlen=_RECENT)

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Wait until the limit allows another leg or scenario, and count it as running in the block."""
        async with self._limiter:
            yield

    def count(self, *, hangs: bool) -> None:
        """Count a leg or a scenario. Each of the last ones that hangs raises the limit by one.

        Args:
            hangs: Whether it hangs.
        """
        self._recent.append(hangs)
        if self._jobs > 1:
            self._limiter.total_tokens = self._jobs + sum(self._recent)
