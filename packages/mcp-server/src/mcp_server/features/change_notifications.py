"""The targets of a server's change notifications: connected clients, and recorders for the others.

A change is published to the clients that are connected to this worker, and sent to the other workers of the cluster,
which publish it to theirs. The stores record it for the sessions without an open stream.

In a cluster, the response to a request waits until the others can learn of the changes that were published while its
handler ran. Otherwise the change would be lost if the worker were killed after the response, and before it had sent the
change: the client would know of a change that listeners are never notified of.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

import trio

from mcp_core.engine.subscription_index import SubscriptionIndex
from mcp_server.cluster.messages import ChangeMade
from mcp_server.connection.change_queue import ChangeQueue
from mcp_server.connection.changes import RECORDED, params_of, pending_notification
from mcp_server.stores.sessions import PendingNotification, StoreError

if TYPE_CHECKING:
    from mcp_core.methods import NotificationMethod
    from mcp_server.cluster.protocol import Cluster
    from mcp_server.connection.channel import SubscribedTarget
    from mcp_server.handlers.middleware import MiddlewareChain

__all__ = ["ChangeNotifier", "ChangeRecorder"]

_log: Final = logging.getLogger("mcp_server")


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
        self.targets: Final[SubscriptionIndex[SubscribedTarget]] = SubscriptionIndex()
        """The connected clients, by what they are subscribed to."""
        self._queue: Final = ChangeQueue(self.targets)
        self._token: trio.lowlevel.TrioToken | None = None
        self.recorders: Final[WeakSet[ChangeRecorder]] = WeakSet()
        """Recorders of changes for clients that are not connected."""
        self.cluster: Cluster | None = None
        """The cluster of several workers; `None` if this worker is the only one."""
        self.shared: int = 0
        """The number of changes that were published while there was a cluster."""

    def runs_here(self) -> None:
        """Note that the server runs in this trio run, where changes of other threads are published."""
        self._token = trio.lowlevel.current_trio_token()

    def publish(self, definition: NotificationMethod[object], params: object, key: str) -> None:
        """Notify the subscribed clients of a change. Call it in any thread. `key`: as in `NotificationTarget.publish`."""
        if not (self.targets or self.recorders or self.cluster):
            return
        if self.cluster is not None:
            self.shared += 1
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
        notification = None if self.cluster is None else pending_notification(definition, params)
        if self.cluster is not None and notification is not None:
            # First recorded: a worker that receives the message may read the record.
            self.cluster.sessions.record_notification(notification)
            self.cluster.broadcast(ChangeMade(notification.method, notification.uri))

    async def flush(self) -> None:
        """Wait until the changes that were published before are not lost if this worker ends.

        If the cluster cannot be reached, return: they are sent when it can be reached again.
        """
        if self.cluster is None:
            return
        # Changes of other threads, and of functions on asyncio, are published by callbacks, which run in their order.
        published = trio.Event()
        trio.lowlevel.current_trio_token().run_sync_soon(published.set)
        await published.wait()
        try:
            await self.cluster.flush()
        except StoreError as error:
            _log.debug("other workers learn of a change later: error=%s", error)

    def receive(self, change: ChangeMade) -> None:
        """Notify the clients that are connected to this worker of a change that another worker sent."""
        definition = RECORDED.get(change.method)
        if definition is not None:
            notification = PendingNotification(change.method, change.uri)
            self._queue.publish(definition, params_of(notification, definition), change.uri)

    def missed(self) -> None:
        """Notify the clients that are connected to this worker of all that may have changed. Does not block."""
        self._queue.refresh()


def _in_worker_thread() -> bool:
    """Return whether this is a thread of `trio.to_thread`. A registration before the server runs is not a change."""
    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True
