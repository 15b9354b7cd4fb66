"""Listeners to the notifications and to the end of one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.errors import ConnectionEnded

__all__ = ["NotificationListeners"]


class NotificationListeners:
    """The listeners of one connection. The reader calls them, so they must not block."""

    def __init__(self) -> None:
        self._listeners: dict[Callable[[NotificationReceived], None], Callable[[ConnectionEnded], None] | None] = {}
        self._on_renewal: Final[list[Callable[[], None]]] = []
        self._on_loss: Final[list[Callable[[], None]]] = []

    def subscribe(
        self,
        listener: Callable[[NotificationReceived], None],
        on_end: Callable[[ConnectionEnded], None] | None = None,
    ) -> Callable[[], None]:
        """Call `listener` with each notification, and `on_end` when the connection ends.

        Returns:
            A function that removes the listener.
        """
        self._listeners[listener] = on_end

        def stop() -> None:
            self._listeners.pop(listener, None)

        return stop

    def on_renewal(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a new session has replaced one that the server lost."""
        self._on_renewal.append(listener)

    def on_loss(self, listener: Callable[[], None]) -> None:
        """Call `listener` when notifications of the session may have been lost."""
        self._on_loss.append(listener)

    def lost(self) -> None:
        """Report that notifications of the session may have been lost: anything may have changed meanwhile."""
        for listener in self._on_loss:
            listener()

    def notified(self, event: NotificationReceived) -> None:
        """Pass a received notification to the listeners."""
        for listener in tuple(self._listeners):
            listener(event)

    def renewed(self) -> None:
        """Report that a new session replaced one that the server lost, with all its subscriptions."""
        for listener in self._on_renewal:
            listener()

    def end(self, why: Callable[[], ConnectionEnded]) -> None:
        """Report the end of the connection and remove all listeners. `why` makes an error for each of them."""
        for on_end in self._listeners.values():
            if on_end is not None:
                on_end(why())
        self._listeners.clear()
