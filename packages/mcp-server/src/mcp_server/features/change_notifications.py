"""The targets of a server's change notifications: connected clients, and recorders for the others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

import trio

from mcp_server.connection.change_queue import ChangeQueue

if TYPE_CHECKING:
    from mcp_core.methods import NotificationMethod
    from mcp_server.connection.channel import NotificationTarget
    from mcp_server.handlers.middleware import MiddlewareChain

__all__ = ["ChangeNotifier", "ChangeRecorder"]


class ChangeRecorder(Protocol):
    """A recorder of changes for clients that are not connected."""

    def record(self, definition: NotificationMethod[object], params: object, /) -> None:
        """Record a change. Does not block."""


class ChangeNotifier:
    """A sender of change notifications to the clients of one server.

    Args:
        middleware: The middleware of the server.
    """

    def __init__(self, middleware: MiddlewareChain) -> None:
        self._middleware: Final = middleware
        self.targets: Final[set[NotificationTarget]] = set()
        """The connected clients."""
        self._queue: Final = ChangeQueue(self.targets)
        self._token: trio.lowlevel.TrioToken | None = None
        self.recorders: Final[WeakSet[ChangeRecorder]] = WeakSet()
        """Recorders of changes for clients that are not connected."""

    def runs_here(self) -> None:
        """Note that the server runs in this trio run, where changes of other threads are published."""
        self._token = trio.lowlevel.current_trio_token()

    def publish(self, definition: NotificationMethod[object], params: object, key: str) -> None:
        """Notify the subscribed clients of a change. Call it in any thread. `key`: as in `NotificationTarget.publish`."""
        if not (self.targets or self.recorders):
            return
        if trio.lowlevel.in_trio_run():
            self._publish(definition, params, key)
        elif _in_worker_thread():
            # A plain function in its worker thread. The connections belong to the trio thread.
            trio.from_thread.run_sync(self._publish, definition, params, key)
        elif self._token is not None:
            # Another thread of the application. It must not wait: the trio thread may be waiting for it.
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._publish, definition, params, key)

    def _publish(self, definition: NotificationMethod[object], params: object, key: str) -> None:
        params = self._middleware.outbound_notification(definition, params, None)
        if params is None:
            return
        self._queue.publish(definition, params, key)
        for recorder in self.recorders:
            recorder.record(definition, params)


def _in_worker_thread() -> bool:
    """Return whether this is a thread of `trio.to_thread`. A registration before the server runs is not a change."""
    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True
