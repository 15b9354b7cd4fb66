"""A barrier: waits until the other workers of a cluster have received what this worker sent before.

A worker answers a request that changes a session when the change is stored and the others know of it. A client that has
received the response can therefore send its next request to any worker: that worker does not use the earlier state.

Messages of one sender to all workers arrive in their order, and so do those to one worker. So it suffices that each worker
confirms a message that was sent in the same way after the change. It does so when it has also read what the running
requests of the session need. The alternative, a version of the session that is read from the store for each request,
would cost a command for requests that change nothing, and a request could not be served while the store cannot be
reached.

A message that must not be lost is confirmed itself (`deliver`): a queue that is full loses messages before it loses a
barrier.

A worker that does not confirm is lost, or too slow. The wait ends when it is known to be lost, and after `_SECONDS`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

import attrs
import trio

from mcp_core.field_methods import FieldRepr
from mcp_server.cluster.messages import BarrierReached, MessageConfirmed
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import Cluster

__all__ = ["ClusterBarrier", "Settler"]

_log: Final = logging.getLogger("mcp_server")

_SECONDS: Final = 1.0
"""Time to wait for workers that are not known to be lost. They usually confirm within milliseconds."""

_DELIVERY_SECONDS: Final = 4.0
"""Time to wait for the confirmation of a message. A silent worker is lost after three seconds, so this time passes only if
the message is lost. It must not pass otherwise: the sender reports a failure, and the client may send the message again."""


@attrs.define(eq=False, repr=False)
class _Wait(FieldRepr):
    """One call of `ClusterBarrier.wait`."""

    workers: set[str]
    """The workers that have not confirmed."""
    is_over: trio.Event = attrs.field(factory=trio.Event)

    def discard(self, worker: str) -> None:
        """Learn that a worker has confirmed or is lost."""
        self.workers.discard(worker)
        if not self.workers:
            self.is_over.set()


class Settler(Protocol):
    """A part of a worker that handles messages of others in tasks."""

    @property
    def is_unsettled(self) -> bool:
        """Whether a task still handles a message."""

    async def settle(self) -> None:
        """Wait until the messages are handled that were received before."""


class ClusterBarrier:
    """Waits until the other workers have received the earlier messages of this one.

    Args:
        cluster: Connects this worker to the others.
        start: Starts a task of this worker.
    """

    def __init__(self, cluster: Cluster, start: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        self._cluster: Final = cluster
        self._start: Final = start
        self.settlers: Final[WeakSet[Settler]] = WeakSet()
        """The parts of this worker that need time to handle messages."""
        self._number = 0
        self._waits: Final[dict[int, _Wait]] = {}

    async def wait(self) -> None:
        """Wait until the other workers have received all messages to all, are lost, or have not confirmed in time."""
        await self._wait_for_others(self._cluster.broadcast)

    async def wait_for_inboxes(self) -> None:
        """Wait, likewise, until each other worker has received all messages that were sent to it alone."""
        await self._wait_for_others(None)

    async def deliver(self, worker: str, message_of: Callable[[int], ClusterMessage]) -> bool:
        """Send a message to one worker, and wait until the worker has confirmed it.

        Args:
            worker: The id of the worker.
            message_of: Returns the message with a number, which `MessageConfirmed` sends back.

        Returns:
            Whether the worker has the message and has not ended.
        """
        missing = await self._wait(
            (worker,), lambda number: self._cluster.send(worker, message_of(number)), _DELIVERY_SECONDS
        )
        return not missing and self._cluster.is_alive(worker)

    async def _wait_for_others(self, broadcast: Callable[[ClusterMessage], None] | None) -> None:
        if not self._cluster.is_shared:
            return
        try:
            others = await self._cluster.others()
        except StoreError as error:
            _log.debug("other workers receive a change later: error=%s", error)
            return

        def send(number: int) -> None:
            if broadcast is not None:
                broadcast(BarrierReached(number))
                return
            for worker in others:
                self._cluster.send(worker, BarrierReached(number))

        missing = await self._wait(others, send, _SECONDS) if others else None
        if missing:
            _log.warning("other workers may receive a change too late: workers=%s", ",".join(sorted(missing)))

    async def _wait(self, workers: Iterable[str], send: Callable[[int], None], seconds: float) -> set[str]:
        """Send a message with a number to workers, and return those that have not confirmed in time."""
        self._number += 1
        number = self._number
        wait = self._waits[number] = _Wait(set(workers))
        try:
            send(number)
            with trio.move_on_after(seconds):
                await wait.is_over.wait()
            return wait.workers
        finally:
            del self._waits[number]

    def receive(self, sender: str, message: ClusterMessage) -> bool:
        """Receive a message of another worker, after all that the sender sent before. Does not block.

        Returns:
            Whether the message concerns a barrier.
        """
        if isinstance(message, BarrierReached):
            if any(each.is_unsettled for each in self.settlers):
                self._start(partial(self._confirm_later, sender, message.number))
            else:
                self.confirm(sender, message.number)
        elif isinstance(message, MessageConfirmed):
            wait = self._waits.get(message.number)
            if wait is not None:
                wait.discard(sender)
        else:
            return False
        return True

    async def _confirm_later(self, sender: str, number: int) -> None:
        for each in tuple(self.settlers):
            await each.settle()
        self.confirm(sender, number)

    def confirm(self, sender: str, number: int) -> None:
        """Confirm a message with a number. Does not block."""
        self._cluster.send(sender, MessageConfirmed(number))

    def lost(self, worker: str) -> None:
        """Learn that another worker has ended. Does not block."""
        for wait in self._waits.values():
            wait.discard(worker)
