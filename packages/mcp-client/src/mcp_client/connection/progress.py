"""The queue of progress notifications between the task that receives them and the callback that shows them.

What a server reports is shown in order, and nothing of it is left out as long as the callback keeps up. A callback that
is slower than its server would make the queue grow without bound; then the oldest notification gives way to the one
after it, which says more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp_core.types import ProgressNotificationParams

__all__ = ["PROGRESS_CHARACTERS", "PROGRESS_NOTIFICATIONS", "ProgressQueue"]

PROGRESS_NOTIFICATIONS: Final = 1_000
"""Notifications of one request that wait for its callback. One read of a pipe brings 64 KiB, in which there is room for
some 700 of the shortest ones: before the callback has had its turn, none of them may be left out."""

PROGRESS_CHARACTERS: Final = 1024 * 1024
"""Characters of their texts and metadata. A single longer notification is kept alone."""


class ProgressQueue:
    """Progress notifications of one request that wait for its callback, in order."""

    __slots__ = ("_characters", "_waiting")

    def __init__(self) -> None:
        self._waiting: Final[deque[ProgressNotificationParams]] = deque()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, progress: ProgressNotificationParams) -> None:
        """Add a notification. When the queue is full, the oldest ones are left out."""
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
