"""The protocol of clusters, which connect the workers of one deployment.

A worker is a process that serves a server over HTTP. A deployment has one worker, or several behind a load balancer that
sends each request to any of them. The parts of a cluster:

    sessions, tasks      stores that all workers read and write
    replays              proofs and tokens that may be used once
    rates                rate limits of principals
    keys                 the keys that seal request states and cursors
    broadcast, send      messages between workers
    is_alive, others     which workers take part, and which have ended

*Who runs what.* Each worker has a replica of the sessions that it serves, with an engine of its own: it restores the
session from the store at the first request. A request runs at the worker that received it, and needs nothing from the
others. What belongs to a request that another worker runs is sent to that worker: responses to client requests,
cancellations, progress. Notifications reach the worker that serves the standalone stream of the session, or a
subscription.

*Lost workers.* A worker renews its entry. If the entry expires, the others are informed (`ClusterReceiver.lost`), and
end its requests with an error, or take over its tasks.

*Lost messages.* Changes are kept in a log of limited length, so that a worker whose connection broke continues where it
stopped. If that is not possible, it is informed (`ClusterReceiver.missed`), and behaves as if everything had changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.stores.tasks import TaskStore

__all__ = ["Cluster", "ClusterReceiver", "RateStore", "ReplayStore"]


class ReplayStore(Protocol):
    """A store of ids that may be used once: proofs (DPoP) and assertions (`jti`)."""

    async def take(self, id: bytes, seconds: float) -> bool:
        """Use an id.

        Args:
            id: The id, which includes the client that it belongs to.
            seconds: The time for which the id must be remembered.

        Returns:
            Whether the id was not used before. If the store cannot remember more ids, `False`.

        Raises:
            StoreError: The store failed.
        """


class RateStore(Protocol):
    """Rate limits that hold for all workers together."""

    async def take(self, key: str, *, count: int, per_second: float, burst: int) -> int:
        """Take events out of a limit.

        A worker takes several events at once, so that not each request needs the store.

        Args:
            key: What is limited, for example a principal and the name of the limit.
            count: The number of events to take.
            per_second: The number of events per second that are allowed in the long run.
            burst: The number of events that are allowed at once after a pause.

        Returns:
            The number of events that were taken, at most `count`.

        Raises:
            StoreError: The store failed.
        """


class ClusterReceiver(Protocol):
    """The part of a worker that handles messages of others. No method blocks, and no method raises."""

    def receive(self, sender: str, message: ClusterMessage) -> None:
        """Receive a message of another worker. Messages of one sender arrive in their order.

        Args:
            sender: The id of the worker that sent the message.
            message: The message.
        """

    def missed(self) -> None:
        """Learn that messages may have been lost: everything that others could have changed may have changed."""

    def lost(self, worker: str) -> None:
        """Learn that another worker has ended, regularly or not."""

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        """Learn the keys of request states and cursors. The first key seals, all keys unseal."""


class Cluster(Protocol):
    """A connection of one worker to the others, and to what they share.

    Methods that do not block queue what they send. The queue is bounded; what it cannot hold is lost, which is logged,
    and the receivers are informed (`ClusterReceiver.missed`).
    """

    @property
    def worker(self) -> str:
        """The id of this worker: random, and new in each process."""

    @property
    def is_shared(self) -> bool:
        """Whether other workers can join. A server that needs shared state starts several workers only if they can."""

    @property
    def sessions(self) -> SessionStore:
        """The sessions of legacy clients over HTTP."""

    @property
    def tasks(self) -> TaskStore:
        """The tasks."""

    @property
    def replays(self) -> ReplayStore:
        """The ids that may be used once."""

    @property
    def rates(self) -> RateStore:
        """The rate limits of principals."""

    async def run(
        self, receiver: ClusterReceiver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take part in the cluster until cancelled: connect, renew the entry of this worker, receive messages.

        `task_status.started` is called when the worker receives messages. If the cluster cannot be reached then, or
        later, the method tries again with growing pauses; the stores raise `StoreError` in the meantime. When
        cancelled, the method removes the entry of this worker.

        Args:
            receiver: Receives the messages.
            task_status: The status for `Nursery.start`.

        Raises:
            StoreError: The configuration is wrong, so that trying again is useless: the address, the certificate or the
                password is rejected, or another version of this package uses the same store.
            trio.BusyResourceError: The method is already running.
        """

    def broadcast(self, message: ClusterMessage) -> None:
        """Send a message to all other workers. Does not block and does not raise."""

    def send(self, worker: str, message: ClusterMessage) -> None:
        """Send a message to one worker. Does not block and does not raise. A message to a lost worker is dropped."""

    async def flush(self) -> None:
        """Wait until the changes that were recorded, and the messages that were sent, are not lost if this worker ends.

        Raises:
            StoreError: The cluster cannot be reached. What was not sent is kept, and sent later.
        """

    def is_alive(self, worker: str) -> bool:
        """Return whether a worker is not known to have ended. An unknown id belongs to a worker that has ended."""

    async def others(self) -> frozenset[str]:
        """Return the ids of the other workers that take part now. Raises `StoreError` if they are not known."""

    async def check(self) -> None:
        """Raise `StoreError` unless the cluster can be reached now, for readiness probes."""

    async def aclose(self) -> None:
        """Close the stores and the connections. Closing a closed cluster is not an error."""
