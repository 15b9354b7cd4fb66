"""A barrier: waits until the other workers of a cluster have received what this worker sent before.

A worker answers a request that changes a session when the change is stored and the others know of it. A client that has
received the response can therefore send its next request to any worker: that worker does not use the earlier state.

Messages of one sender arrive in their order. So it suffices that each worker confirms a message that was sent after the
change. It does so when it has also read what the running requests of the session need. The alternative, a version of the session that is read from the store for each request, would cost a command for
requests that change nothing, and a request could not be served while the store cannot be reached.

A worker that does not confirm is lost, or too slow. The wait ends when it is known to be lost, and after `_SECONDS`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

import attrs
import trio

from mcp_server.cluster.messages import BarrierConfirmed, BarrierReached
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import Cluster

__all__ = ["ClusterBarrier", "Settler"]

_log: Final = logging.getLogger("mcp_server")

_SECONDS: Final = 1.0
"""Time to wait for workers that are not known to be lost. They usually confirm within milliseconds."""


@attrs.define(eq=False)
class _Wait:
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
        """Wait until each other worker has received all earlier messages, is lost, or has not confirmed in time."""
        if not self._cluster.is_shared:
            return
        try:
            others = await self._cluster.others()
        except StoreError as error:
            _log.debug("other workers receive a change later: error=%s", error)
            return
        if others:
            missing = await self._wait(others, self._cluster.broadcast)
            if missing:
                _log.warning("other workers may receive a change too late: workers=%s", ",".join(sorted(missing)))

    async def wait_for(self, worker: str) -> bool:
        """Wait until one worker has received all earlier messages.

        Returns:
            Whether it has confirmed. If not, the messages are lost, or arrive later.
        """
        return not await self._wait((worker,), partial(self._cluster.send, worker)) and self._cluster.is_alive(worker)

    async def _wait(self, workers: Iterable[str], send: Callable[[ClusterMessage], None]) -> set[str]:
        """Ask workers to confirm, and return those that have not."""
        self._number += 1
        number = self._number
        wait = self._waits[number] = _Wait(set(workers))
        try:
            send(BarrierReached(number))
            with trio.move_on_after(_SECONDS):
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
                self._cluster.send(sender, BarrierConfirmed(message.number))
        elif isinstance(message, BarrierConfirmed):
            wait = self._waits.get(message.number)
            if wait is not None:
                wait.discard(sender)
        else:
            return False
        return True

    async def _confirm_later(self, sender: str, number: int) -> None:
        for each in tuple(self.settlers):
            await each.settle()
        self._cluster.send(sender, BarrierConfirmed(number))

    def lost(self, worker: str) -> None:
        """Learn that another worker has ended. Does not block."""
        for wait in self._waits.values():
            wait.discard(worker)
