"""An open `subscriptions/listen` over modern HTTP: it tells its client of changes until that leaves, or the server stops.

There may be thousands, and nearly all the time nothing happens on any of them. So what served the request is let go once
it has been acknowledged: the task of the request waits here, not far below the endpoint's entrance, and what it holds on
to is in this module.

A change concerns many of them at once. To wake all these tasks, each of which then writes and goes back to sleep, would
cost several times what the writing does. So a `Herald` goes round and writes for them, where the host offers to write
without waiting. The task is woken only where that is not so, or a client is slow: it writes what is left, and what
came meanwhile.

Spec: basic/utilities/subscriptions, basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.errors import LocalProtocolError
from mcp_core.framing.sse import encode_comment, encode_event
from mcp_core.jsonrpc.codec import encode
from mcp_core.types import SubscriptionsListenResult
from mcp_server.asgi import WRITE_NOW
from mcp_server.connection.pending_changes import bounded_change

if TYPE_CHECKING:
    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import NotificationRow
    from mcp_server.asgi import WriteNow
    from mcp_server.connection.channel import Service
    from mcp_server.transports.http.response import Exchanged

__all__ = ["Herald", "Subscription"]

_log: Final = logging.getLogger("mcp_server")

_AT_ONCE: Final = 64
"""Notifications that are written without letting others run, which takes about two milliseconds."""

_COMMENT: Final = encode_comment("still here")


class Herald:
    """Goes round the subscriptions that something waits for. It needs no task of its own."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: Final[deque[Subscription]] = deque()

    def call(self, subscription: Subscription) -> None:
        """Something waits for a subscription. To be said once before it is told."""
        if not self._due:
            self._go_on()
        self._due.append(subscription)

    def forget(self, subscription: Subscription) -> None:
        """A subscription that was called has ended."""
        self._due.remove(subscription)

    def _go_on(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._tell)

    def _tell(self) -> None:
        written = 0
        while self._due and written < _AT_ONCE:
            subscription = self._due.popleft()
            try:
                written += max(1, subscription.tell())
            except Exception:  # noqa: BLE001  # whatever a host may raise: it would end the program here
                _log.exception("%s cannot be told of a change", subscription)
        if self._due:
            self._go_on()


class Subscription:
    """One of them.

    Args:
        service: Is told of its beginning and its end.
        connection: The engine.
        id: Of the request.
        exchanged: The HTTP request.
        keep_alive: Seconds between comments on a silent stream.
        herald: Tells it of changes.
    """

    __slots__ = (
        "_called",
        "_connection",
        "_finishing",
        "_herald",
        "_id",
        "_keep_alive",
        "_notices",
        "_pause",
        "_receive",
        "_response",
        "_rest",
        "_service",
        "_until",
        "_write_now",
        "charge",
    )

    charge: MemoryCharge | None
    """The memory of the request, which is kept as long as the subscription; released at its end."""

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        id: RequestId,
        exchanged: Exchanged,
        *,
        keep_alive: float,
        herald: Herald,
    ) -> None:
        self._service: Final = service
        self._connection: Final = connection
        self._id: Final = id
        self._response: Final = exchanged.response
        self._receive: Final = exchanged.receive
        self._keep_alive: Final = keep_alive
        self._until: Final = exchanged.identity.until
        self._herald: Final = herald
        extensions = exchanged.scope.get("extensions")
        self._write_now: WriteNow | None = extensions.get(WRITE_NOW) if isinstance(extensions, dict) else None
        # What waits to be told, and whether the herald knows.
        self._notices: dict[tuple[str, str], tuple[NotificationRow[object], object]] = {}
        self._called = False
        # What was written without waiting did not all go out.
        self._rest = False
        self._finishing = False
        # What the task waits in; `None` while it is busy, and looks by itself before it waits again.
        self._pause: trio.CancelScope | None = None
        self.charge = None
        service.connected(self)

    def __repr__(self) -> str:
        return f"<Subscription {self._id!r}>"

    # --- what is told ----------------------------------------------------------------------------------------------

    def publish(self, row: NotificationRow[object], params: object, key: str = "") -> None:
        """See `Audience.publish`."""
        notices = self._notices
        if len(notices) >= self._connection.limits.watched_resources and (row.name, key) not in notices:
            params, key = bounded_change(self._connection, params, key, len(notices))
        notices[row.name, key] = (row, params)
        if self._pause is not None and not self._called:
            self._herald.call(self)
            self._called = True

    def tell(self) -> int:
        """Writes what waits if that is possible without waiting, and else has the task do it. Returns how much that was."""
        self._called = False
        if self._pause is None:
            return 0
        if self._write_now is None or self._rest or not self._response.open:
            self._pause.cancel()
            return 0
        count = min(len(self._notices), _AT_ONCE)
        if data := self._events():
            self._response.written_at = trio.current_time()
            if not self._write_now(data):
                self._rest = True
                self._pause.cancel()
        if self._notices and not self._called and not self._rest:
            self._herald.call(self)
            self._called = True
        return count

    def _events(self) -> bytes:
        """Takes what waits, as it is written: as much as may be written without letting others run."""
        events: list[bytes] = []
        for key in tuple(islice(self._notices, _AT_ONCE)):
            row, params = self._notices.pop(key)
            try:
                events += [_event(outgoing) for outgoing in self._connection.publish(row, params)]
            except LocalProtocolError as error:
                _log.debug("not published: %s", error)
        return b"".join(events)

    # --- its task --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when it is over: its client has left, its token has ended, or the server stops.

        *Closing.* Cancel it. Nothing is written any more, but for a write that has begun; see `stop`.
        """
        try:
            while not (self._finishing or self._response.lost):
                await self._write()
                if await self._wait():
                    self._response.lost = True
                if trio.current_time() >= self._until:
                    self._finishing = True
            await self._end()
        finally:
            self.close()

    def close(self) -> None:
        """It is told nothing more."""
        self._service.disconnected(self)
        if self.charge is not None:
            self.charge.release()
        if self._called:
            self._called = False
            self._herald.forget(self)

    async def _write(self) -> None:
        """Writes what waits, and what is left; or a comment, when nothing was written for long."""
        response = self._response
        while response.open and (self._notices or self._rest):
            data = self._events()
            if data or self._rest:
                self._rest = False
                await response.write(data)
                await trio.lowlevel.checkpoint()
        if trio.current_time() >= response.written_at + self._keep_alive:
            await response.write(_COMMENT)

    async def _wait(self) -> bool:
        """Waits until something is to be done. Says whether the client has left."""
        if self._notices or self._finishing or self._response.lost:
            return False
        left = False
        self._pause = trio.CancelScope(deadline=min(self._response.written_at + self._keep_alive, self._until))
        try:
            with self._pause:
                left = (await self._receive())["type"] == "http.disconnect"
        finally:
            self._pause = None
        return left

    async def _end(self) -> None:
        outgoing = self._connection.respond(self._id, SubscriptionsListenResult())
        await self._response.end(_event(cast("Outgoing", outgoing)))  # no message of the client can have cancelled it

    def finish(self) -> None:
        """The server stops: it ends properly."""
        self._finishing = True
        if self._pause is not None:
            self._pause.cancel()

    def stop(self) -> None:
        """The server stops: nothing goes on."""
        self._response.abort()
        self.finish()


def _event(outgoing: Outgoing) -> bytes:
    return encode_event(encode(outgoing.message, null_id=False), event="message")
