"""The log of the events of one legacy session, which a client reads after its connection broke.

The numbers of streams encode their kind: odd numbers respond to a POST, even numbers are standalone. A client that
resumes a stream is therefore served correctly, even by a worker that did not open the stream.

A failure of the store must not fail requests: they continue, but their streams cannot be resumed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from mcp_core.codec import encode
from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError
from mcp_core.framing.sse import encode_event
from mcp_core.http.event_log import event_id
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse
from mcp_server.cluster.messages import StreamAppended
from mcp_server.stores.sessions import PendingNotification, StoredEvent, StoredStream, StoreError, is_standalone

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_server.cluster.protocol import Cluster
    from mcp_server.stores.failures import StoreFailures
    from mcp_server.stores.sessions import SessionStore

__all__ = ["Item", "Log", "StreamReplaced", "written"]

_log: Final = logging.getLogger("mcp_server")

_RESTARTED: Final = ErrorObject(int(ErrorCode.INTERNAL_ERROR), "the server restarted before this request was complete")

S = TypeVar("S")
"""The class of the streams that a log records."""

Item = tuple[bytes, "RequestId | None", "PendingNotification | None"]
"""One JSON message, the request that it responds to, and the pending change that it notifies of."""


class StreamReplaced(Exception):  # it is caught here, and is no failure
    """Another worker has opened the standalone stream of the session."""


def written(stream: int, number: int, data: bytes) -> bytes:
    """Encode an event for the wire."""
    # Some clients require the event name, although `message` is the default.
    return encode_event(data, event="message", id=event_id(stream, number))


class Log(Generic[S]):
    """The log of the streams of one session.

    Args:
        store: Stores the events.
        failures: Logs failures of the store.
        session: The session id.
        cluster: Connects this worker to the others.
        priming: Whether streams start with an event that has only an id, and may be disconnected before they are
            complete.
    """

    __slots__ = ("_cluster", "_failures", "_session", "_store", "is_stored", "live", "priming")

    is_stored: bool
    """Whether the store has the session. Without the session, it silently discards streams."""
    live: dict[int, S]
    """The streams of this worker that are not complete, by number."""

    def __init__(
        self, store: SessionStore, failures: StoreFailures, session: str, *, cluster: Cluster, priming: bool
    ) -> None:
        self._store: Final = store
        self._failures: Final = failures
        self.is_stored = True
        self._session: Final = session
        self._cluster: Final = cluster
        self.priming: Final = priming
        self.live = {}

    async def find(self, stream: int) -> StoredStream | None:
        """Return a stream of any worker; `None` if the session never used this number. Raises `StoreError`."""
        streams = await self._store.streams(self._session)
        if not streams or not 0 < stream <= streams[-1].stream:
            return None
        # An ended stream may be missing.
        return next((each for each in streams if each.stream == stream), StoredStream(stream, 0))

    async def standalone_worker(self) -> str:
        """Return the worker that began the last standalone stream; empty without one. Raises `StoreError`."""
        streams = await self._store.streams(self._session)
        return next((each.worker for each in reversed(streams) if each.is_standalone), "")

    def is_running(self, stream: StoredStream) -> bool:
        """Return whether the requests of a stream run at this worker, or at another."""
        if stream.worker == self._cluster.worker:
            return stream.stream in self.live
        return self._cluster.is_alive(stream.worker)

    async def interrupt(self, stream: StoredStream) -> None:
        """Respond to the pending requests of a stream with an error, because their worker has ended.

        The store accepts one response for each request, and one event of each number. So several workers can do this
        at the same time, and a worker that has not ended after all cannot add a second response.
        """
        _log.warning("server restarted before requests of a session were complete: requests=%d", len(stream.pending))
        answers = [(encode(ErrorResponse(id, _RESTARTED), null_id=False), id, None) for id in stream.pending]
        await self.append(stream.stream, stream.last, answers)

    def inform(self, follower: str, stream: int, *, is_over: bool) -> None:
        """Inform the worker that serves a stream of this worker of new events, or of its end."""
        self._cluster.send(follower, StreamAppended(self._session, stream, is_over=is_over))

    async def begin(self, pending: Collection[RequestId]) -> int:
        """Open a stream.

        Args:
            pending: The requests that the stream responds to; empty for the standalone stream.

        Returns:
            The number of the stream. 0 if the stream cannot be resumed, because the store is full, does not have the
            session, or fails.
        """
        if not self.is_stored:
            return 0
        try:
            stream = await self._store.begin(self._session, tuple(pending), worker=self._cluster.worker)
        except LimitExceeded as excess:
            _log.warning("stream cannot be resumed: %s", excess)
            return 0
        except StoreError as error:
            self._failures.failed("a stream cannot be resumed", error)
            return 0
        if self._failures.count:
            self._failures.worked()
        return stream

    async def append(self, stream: int, last: int, items: Sequence[Item]) -> bool:
        """Record events.

        Args:
            stream: The number of the stream.
            last: The number of its last event.
            items: The messages that follow.

        Returns:
            Whether the events were recorded. If not, the stream cannot be resumed from here on.

        Raises:
            StreamReplaced: The stream was the standalone stream, and another worker has opened another one.
        """
        events = [StoredEvent(stream, number, *item) for number, item in enumerate(items, last + 1)]
        try:
            await self._store.append(self._session, events)
        except LimitExceeded as excess:
            _log.warning("stream cannot be resumed: %s", excess)
            # Otherwise the store would keep the stream until the end of the session.
            await self.delivered(stream)
            return False
        except (StoreError, LocalProtocolError) as error:
            if isinstance(error, LocalProtocolError) and is_standalone(stream) and self._cluster.is_shared:
                raise StreamReplaced from error
            self._failures.failed("events are not stored, and the stream cannot be resumed", error)
            return False
        if self._failures.count:
            self._failures.worked()
        return True

    async def delivered(self, stream: int) -> None:
        """Record that a stream is complete and its client received all of it."""
        try:
            await self._store.delivered(self._session, stream)
        except StoreError as error:
            self._failures.failed("the end of a stream is not stored", error)

    async def events(self, stream: int, after: int) -> Sequence[StoredEvent]:
        """Return the events of a stream after the event with this number. Raises `StoreError`."""
        return await self._store.events(self._session, stream, after)
