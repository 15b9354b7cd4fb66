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
from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
)
from mcp_core.types import ResourceUpdatedNotificationParams
from mcp_server.stores.sessions import PendingNotification, StoredEvent, StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.methods import NotificationMethod
    from mcp_server.stores.failures import StoreFailures
    from mcp_server.stores.sessions import SessionStore

__all__ = ["RECORDED", "Item", "Log", "pending_notification", "written"]

_log: Final = logging.getLogger("mcp_server")

_RESTARTED: Final = ErrorObject(int(ErrorCode.INTERNAL_ERROR), "the server restarted before this request was complete")

S = TypeVar("S")
"""The class of the streams that a log records."""

Item = tuple[bytes, "RequestId | None", "PendingNotification | None"]
"""One JSON message, the request that it responds to, and the pending change that it notifies of."""

RECORDED: Final[Mapping[str, NotificationMethod[object]]] = {
    definition.name: definition
    for definition in (
        NOTIFICATIONS_TOOLS_LIST_CHANGED,
        NOTIFICATIONS_PROMPTS_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_UPDATED,
    )
}
"""The notifications that are recorded until the client of a session has received them, by method."""


def pending_notification(definition: NotificationMethod[object], params: object) -> PendingNotification | None:
    """Return the record of a notification for a store; `None` if notifications of this method are not recorded."""
    if definition.name not in RECORDED:
        return None
    return PendingNotification(
        definition.name, params.uri if isinstance(params, ResourceUpdatedNotificationParams) else ""
    )


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
        worker: The id of this worker.
        priming: Whether streams start with an event that has only an id, and may be disconnected before they are
            complete.
    """

    __slots__ = ("_failures", "_session", "_store", "_worker", "is_stored", "live", "priming")

    is_stored: bool
    """Whether the store has the session. Without the session, it silently discards streams."""
    live: dict[int, S]
    """The streams that are not complete, by number."""

    def __init__(
        self, store: SessionStore, failures: StoreFailures, session: str, *, worker: str, priming: bool
    ) -> None:
        self._store: Final = store
        self._failures: Final = failures
        self.is_stored = True
        self._session: Final = session
        self._worker: Final = worker
        self.priming: Final = priming
        self.live = {}

    async def knows(self, stream: int) -> bool:
        """Return whether a stream with this number may exist. Raises `StoreError`."""
        streams = await self._store.streams(self._session)
        return bool(streams) and 0 < stream <= streams[-1].stream

    async def recover(self) -> None:
        """Continue the log of an earlier process: end its pending requests with an error.

        Raises:
            StoreError: The store cannot be read.
        """
        streams = await self._store.streams(self._session)
        for each in streams:
            if each.pending:
                _log.warning(
                    "server restarted before requests of a session were complete: requests=%d", len(each.pending)
                )
                answers = [(encode(ErrorResponse(id, _RESTARTED), null_id=False), id, None) for id in each.pending]
                await self.append(each.stream, each.last, answers)

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
            stream = await self._store.begin(self._session, tuple(pending), worker=self._worker)
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
