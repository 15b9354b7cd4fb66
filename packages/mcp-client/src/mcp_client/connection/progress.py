"""The queue of progress notifications between the task that receives them and the callback that shows them.

Notifications are shown in order, and all of them are shown while the callback keeps up. A callback that is slower than
the server fills the queue. Then the oldest notification is dropped, because a later one has more recent information.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp_core.types import ProgressNotificationParams

__all__ = ["PROGRESS_CHARACTERS", "PROGRESS_NOTIFICATIONS", "ProgressQueue"]

PROGRESS_NOTIFICATIONS: Final = 1_000
"""Maximum number of queued notifications of one request. One read of a stream returns up to 64 KiB, which hold about
700 of the shortest notifications. None of them may be dropped before the callback has run."""

PROGRESS_CHARACTERS: Final = 1024 * 1024
"""Maximum size of the queued texts and metadata, in characters. A single larger notification is queued alone."""


class ProgressQueue:
    """The queued progress notifications of one request, in order."""

    __slots__ = ("_characters", "_waiting")

    def __init__(self) -> None:
        self._waiting: Final[deque[ProgressNotificationParams]] = deque()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, progress: ProgressNotificationParams) -> None:
        """Add a notification. When the queue is full, drop the oldest ones."""
        self._waiting.append(progress)
        self._characters += _characters(progress)
        while len(self._waiting) > PROGRESS_NOTIFICATIONS or (
            self._characters > PROGRESS_CHARACTERS and len(self._waiting) > 1
        ):
            self.take()

    def take(self) -> ProgressNotificationParams:
        """Remove the oldest notification and return it. Raises `IndexError` when the queue is empty."""
        progress = self._waiting.popleft()
        self._characters -= _characters(progress)
        return progress

    def clear(self) -> None:
        """Remove all notifications."""
        self._waiting.clear()
        self._characters = 0


def _characters(progress: ProgressNotificationParams) -> int:
    characters = len(progress.message or "")
    if progress.meta or progress.extra:
        # A server may add members of any size.
        characters += len(repr((progress.meta, progress.extra)))
    return characters
