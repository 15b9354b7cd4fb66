"""Who on this side wants to know what happens on a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.errors import ConnectionEnded

__all__ = ["Listeners"]


class Listeners:
    """The listeners of one connection. They are called where things happen, so they must not wait."""

    def __init__(self) -> None:
        self._listeners: dict[Callable[[NotificationReceived], None], Callable[[ConnectionEnded], None] | None] = {}
        self._on_renewal: Final[list[Callable[[], None]]] = []
        self._on_loss: Final[list[Callable[[], None]]] = []

    def subscribe(
        self,
        listener: Callable[[NotificationReceived], None],
        on_end: Callable[[ConnectionEnded], None] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener` with each notification, and `on_end` when the connection is lost.

        Returns:
            What ends that.
        """
        self._listeners[listener] = on_end

        def stop() -> None:
            self._listeners.pop(listener, None)

        return stop

    def on_renewal(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when a new session has replaced one that the server lost."""
        self._on_renewal.append(listener)

    def on_loss(self, listener: Callable[[], None]) -> None:
        """Call `listener` when notifications of the session may have been lost."""
        self._on_loss.append(listener)

    def lost(self) -> None:
        """Report that notifications of the session may have been lost: anything may have changed meanwhile."""
        for listener in self._on_loss:
            listener()

    def notified(self, event: NotificationReceived) -> None:
        """A notification came."""
        for listener in tuple(self._listeners):
            listener(event)

    def renewed(self) -> None:
        """A new session has replaced one that the server lost: what the server knew of us it has forgotten."""
        for listener in self._on_renewal:
            listener()

    def end(self, why: Callable[[], ConnectionEnded]) -> None:
        """The connection is over. `why` makes an error for each."""
        for on_end in self._listeners.values():
            if on_end is not None:
                on_end(why())
        self._listeners.clear()
