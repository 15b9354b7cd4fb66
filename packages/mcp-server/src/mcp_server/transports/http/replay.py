"""Where the streams of one legacy session keep their events, so that a client whose connection broke can have them again.

The numbers of streams tell what they are: odd ones answer a POST, even ones are standalone. So a client that resumes a
stream is told the truth about it even by a process that did not begin it.

A store that fails must not fail the requests: they go on, and cannot be resumed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError
from mcp_core.framing.sse import encode_event
from mcp_core.http.event_log import event_id
from mcp_core.jsonrpc.codec import encode
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
    from mcp_core.methods import NotificationRow
    from mcp_server.stores.failures import StoreFailures
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.event_stream import EventStream

__all__ = ["RECORDED", "Item", "Log", "is_standing", "pending_notification", "written"]

_log: Final = logging.getLogger("mcp_server")

_RESTARTED: Final = ErrorObject(
    int(ErrorCode.INTERNAL_ERROR), "the server was restarted while it worked on this request, which it did not finish"
)

Item = tuple[bytes, "RequestId | None", "PendingNotification | None"]
"""One JSON message, the request that it answers, and the pending change that it notifies of."""

RECORDED: Final[Mapping[str, NotificationRow[object]]] = {
    row.name: row
    for row in (
        NOTIFICATIONS_TOOLS_LIST_CHANGED,
        NOTIFICATIONS_PROMPTS_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_UPDATED,
    )
}
"""The notifications that are recorded until the client of a session has had them, by their methods."""


def pending_notification(row: NotificationRow[object], params: object) -> PendingNotification | None:
    """Return what a store records of a notification; `None` for one that is not recorded."""
    if row.name not in RECORDED:
        return None
    return PendingNotification(row.name, params.uri if isinstance(params, ResourceUpdatedNotificationParams) else "")


def is_standing(stream: int) -> bool:
    """Whether a stream is a standalone one, which answers no POST."""
    return stream % 2 == 0


def written(stream: int, number: int, data: bytes) -> bytes:
    """An event, as it goes over the wire."""
    # Some readers ask for the name, although it is what an event without one has.
    return encode_event(data, event="message", id=event_id(stream, number))


class Log:
    """The streams of one session.

    Args:
        store: Keeps the events.
        failures: Logs that it fails.
        session: The session id.
        priming: Whether streams begin with an event that has only an id, and may be let go before they are over.
    """

    __slots__ = ("_failures", "_last", "_session", "_store", "is_stored", "live", "priming")

    is_stored: bool
    """Whether the store has the session: a store takes no streams of a session that it does not have, and does not say so."""
    live: dict[int, EventStream]
    """The streams that are not over, by their numbers."""

    def __init__(self, store: SessionStore, failures: StoreFailures, session: str, *, priming: bool) -> None:
        self._store: Final = store
        self._failures: Final = failures
        self.is_stored = True
        self._session: Final = session
        self.priming: Final = priming
        self.live = {}
        self._last = 0

    def number(self, *, standing: bool) -> int:
        """A number for a new stream."""
        self._last += 1
        return 2 * self._last if standing else 2 * self._last - 1

    def knows(self, stream: int) -> bool:
        """Whether there may have been a stream of this number."""
        return 0 < stream <= 2 * self._last

    async def recover(self) -> None:
        """Takes up what an earlier process left: its numbers are not used again, and what it owed is answered by an error.

        Raises:
            StoreError: The store cannot say.
        """
        streams = await self._store.streams(self._session)
        for each in streams:
            self._last = max(self._last, (each.stream + 1) // 2)
            if each.owed:
                _log.warning(
                    "%d requests of a session were not answered before the server was started anew", len(each.owed)
                )
                answers = [(encode(ErrorResponse(id, _RESTARTED), null_id=False), id, None) for id in each.owed]
                await self.append(each.stream, each.last, answers)

    async def begin(self, stream: int, owed: Collection[RequestId]) -> bool:
        """Begin a stream.

        Returns:
            False when it cannot be resumed: the store has no room for it, does not have the session, or fails.
        """
        if not self.is_stored:
            return False
        try:
            await self._store.begin(self._session, stream, tuple(owed))
        except LimitExceeded as excess:
            _log.warning("a stream of a session cannot be resumed: %s", excess)
            return False
        except StoreError as error:
            self._failures.failed("a stream cannot be resumed", error)
            return False
        if self._failures.count:
            self._failures.worked()
        return True

    async def append(self, stream: int, last: int, items: Sequence[Item]) -> bool:
        """Puts events down. False when that failed: then the stream cannot be resumed from here on.

        Args:
            stream: The stream.
            last: The number of its last event.
            items: What follows.
        """
        events = [StoredEvent(stream, number, *item) for number, item in enumerate(items, last + 1)]
        try:
            await self._store.append(self._session, events)
        except LimitExceeded as excess:
            _log.warning("a stream of a session cannot be resumed: %s", excess)
            return False
        except (StoreError, LocalProtocolError) as error:
            self._failures.failed("events of a stream are not kept", error)
            return False
        if self._failures.count:
            self._failures.worked()
        return True

    async def delivered(self, stream: int) -> None:
        """A stream is over, and its client had all of it."""
        try:
            await self._store.delivered(self._session, stream)
        except StoreError as error:
            self._failures.failed("the end of a stream is not kept", error)

    async def events(self, stream: int, after: int) -> Sequence[StoredEvent]:
        """What followed an event. Raises `StoreError`."""
        return await self._store.events(self._session, stream, after)
