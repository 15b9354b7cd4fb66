"""The notification of the subscribed targets of a change: byte streams, legacy sessions and subscriptions.

A change may concern thousands of targets, and an application may announce thousands of changes in a row. To notify all
targets at once would delay every request. Therefore only the first changes in an iteration of the event loop are
published immediately. The others are queued and published in the next iterations. A notification says that something
changed, not how often, so a queued change is not queued again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.engine.subscription_index import SubscriptionIndex
    from mcp_core.methods import NotificationMethod
    from mcp_server.connection.channel import SubscribedTarget

__all__ = ["ChangeQueue"]

_log: Final = logging.getLogger("mcp_server")

_FEW: Final = 64
"""Notifications that are few enough to be counted together with those of later iterations."""

_AT_ONCE: Final = 256
"""Targets that are notified in one iteration of the event loop, which takes 0.5 to 5 ms."""

_QUEUED: Final = 10_000
"""Largest number of queued changes. Beyond it, the oldest is published immediately."""


class ChangeQueue:
    """The queue of changes of which the targets of one server are notified.

    Args:
        targets: The connected targets. They, and what they are subscribed to, can change at any time.
    """

    __slots__ = ("_counting", "_missing", "_notified", "_queue", "_rest", "_targets")

    def __init__(self, targets: SubscriptionIndex[SubscribedTarget]) -> None:
        self._targets: Final = targets
        self._queue: Final[dict[tuple[str, str], tuple[NotificationMethod[object], object]]] = {}
        # The change that is being published: an iterator over the targets that it was published to.
        self._rest: Iterator[None] | None = None
        self._notified = 0
        self._counting = False
        # The targets that must be notified of all that may have changed.
        self._missing: dict[SubscribedTarget, None] = {}

    def refresh(self) -> None:
        """Notify all targets, soon, of all that may have changed. Call this method in the thread of trio."""
        self._missing.update(dict.fromkeys(self._targets))
        if self._missing and not self._counting:
            self._counting = True
            self._go_on()

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Notify the subscribed targets of a change, now or soon (`NotificationTarget.publish`). Does not block.

        Call this method in the thread of trio.
        """
        if self._rest is None and not self._queue:
            subscribed = self._targets.interested(definition, params)
            self._notified += len(subscribed)
            if self._notified > _FEW and not self._counting:
                self._counting = True
                self._go_on()
            if self._notified <= _AT_ONCE:
                for target in subscribed:
                    target.publish(definition, params, key)
                return
        self._queue[definition.name, key] = (definition, params)
        if len(self._queue) > _QUEUED:
            for _ in self._rest or self._publish_oldest():
                pass
            self._rest = None

    def _go_on(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._publish_queued)

    def _publish_queued(self) -> None:
        """Publish queued changes to as many targets as one iteration may notify."""
        self._notified = 0
        while self._missing:
            target = next(iter(self._missing))
            del self._missing[target]
            self._notified += self._refresh(target)
            if self._notified >= _AT_ONCE:
                self._go_on()
                return
        while self._rest is not None or self._queue:
            if self._rest is None:
                self._rest = self._publish_oldest()
            for _ in self._rest:
                self._notified += 1
                if self._notified >= _AT_ONCE:
                    self._go_on()
                    return
            self._rest = None
        self._counting = False

    def _refresh(self, target: SubscribedTarget) -> int:
        """Notify a target of all that may have changed. Return the number of notifications, and at least 1."""
        # It may have disconnected since.
        if target in self._targets:
            try:
                return max(1, target.missed())
            except Exception:  # noqa: BLE001  # here it would end the program
                _log.exception("target not notified of changes")
        return 1

    def _publish_oldest(self) -> Iterator[None]:
        """Publish the oldest queued change to one subscribed target after the other."""
        first = next(iter(self._queue))
        definition, params = self._queue.pop(first)
        for target in self._targets.interested(definition, params):
            # It may have disconnected since.
            if target in self._targets:
                try:
                    target.publish(definition, params, first[1])
                except Exception:  # noqa: BLE001  # here it would end the program
                    _log.exception("target not notified of a change: method=%s", definition.name)
                yield
