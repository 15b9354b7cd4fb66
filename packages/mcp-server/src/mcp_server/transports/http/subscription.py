"""An open `subscriptions/listen` over modern HTTP. It notifies its client until the client or the server closes it.

There can be thousands of subscriptions, and nearly all of them are idle. Therefore the objects that served the request
are released after the acknowledgment. The task of the request waits in this module, close to the entry point of the
endpoint, and only this module holds data of the subscription.

One change concerns many subscriptions. Waking all their tasks, each of which writes and sleeps again, would cost
several times more than the writes. Therefore a `SubscriptionNotifier` writes for all of them, if the host offers writes without
waiting. It wakes the task only if the host does not, or if the client is slow. The task then writes the rest and what
arrived since.

Spec: basic/utilities/subscriptions, basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.codec import encode
from mcp_core.errors import LocalProtocolError
from mcp_core.framing.sse import encode_comment, encode_event
from mcp_core.types import SubscriptionsListenResult
from mcp_server.asgi import WRITE_NOW
from mcp_server.connection.changes import publish_all
from mcp_server.connection.pending_changes import bounded_change
from mcp_server.connection.turns import PART, take_turn

if TYPE_CHECKING:
    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.engine.subscriptions import SubscriptionRegistry
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import NotificationMethod
    from mcp_server.asgi import WriteNow
    from mcp_server.connection.channel import Service
    from mcp_server.transports.http.request import HttpContext

__all__ = ["Subscription", "SubscriptionNotifier"]

_log: Final = logging.getLogger("mcp_server")

_COMMENT: Final = encode_comment("still here")


class SubscriptionNotifier:
    """A notifier that writes for all subscriptions with pending notifications. It does not need a task."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: Final[deque[Subscription]] = deque()

    def schedule(self, subscription: Subscription) -> None:
        """Schedule a subscription with pending notifications. Call this method once until its `tell` is called."""
        if not self._due:
            self._go_on()
        self._due.append(subscription)

    def forget(self, subscription: Subscription) -> None:
        """Remove a scheduled subscription that has ended."""
        self._due.remove(subscription)

    def _go_on(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._notify_all)

    def _notify_all(self) -> None:
        written = 0
        while self._due and written < PART:
            subscription = self._due.popleft()
            try:
                written += max(1, subscription.notify_pending())
            except Exception:  # noqa: BLE001  # a host can raise anything, and here it would end the program
                _log.exception("subscription not notified of a change: %s", subscription)
        if self._due:
            self._go_on()


class Subscription:
    """A subscription of one client.

    Args:
        service: Is informed when the subscription starts and ends.
        connection: The engine.
        id: The id of the request.
        exchanged: The HTTP request.
        keep_alive: Time between comments on a silent stream, in seconds.
        notifier: Notifies the subscription of changes.
    """

    __slots__ = (
        "_called",
        "_connection",
        "_finishing",
        "_id",
        "_keep_alive",
        "_notifier",
        "_pause",
        "_pending",
        "_receive",
        "_response",
        "_rest",
        "_service",
        "_until",
        "_write_now",
        "charge",
    )

    charge: MemoryCharge | None
    """The memory charge of the request, which is released when the subscription ends."""

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        id: RequestId,
        context: HttpContext,
        *,
        keep_alive: float,
        notifier: SubscriptionNotifier,
    ) -> None:
        self._service: Final = service
        self._connection: Final = connection
        self._id: Final = id
        self._response: Final = context.response
        self._receive: Final = context.receive
        self._keep_alive: Final = keep_alive
        self._until: Final = context.identity.until
        self._notifier: Final = notifier
        extensions = context.scope.get("extensions")
        self._write_now: WriteNow | None = extensions.get(WRITE_NOW) if isinstance(extensions, dict) else None
        # The pending notifications, and whether the subscription is scheduled.
        self._pending: dict[tuple[str, str], tuple[NotificationMethod[object], object]] = {}
        self._called = False
        # Whether a write without waiting was incomplete.
        self._rest = False
        self._finishing = False
        # The scope in which the task waits; `None` while it runs, because it checks its state before it waits again.
        self._pause: trio.CancelScope | None = None
        self.charge = None
        service.connected(self)

    def __repr__(self) -> str:
        return f"<Subscription {self._id!r}>"

    # --- notifications ---------------------------------------------------------------------------------------------

    @property
    def subscription_registry(self) -> SubscriptionRegistry:
        """The subscriptions of the client."""
        return self._connection.subscription_registry

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Queue a notification. A later notification with the same key replaces it. Does not block."""
        pending = self._pending
        if len(pending) >= self._connection.limits.watched_resources and (definition.name, key) not in pending:
            params, key = bounded_change(self._connection, params, key, len(pending))
        pending[definition.name, key] = (definition, params)
        if self._pause is not None and not self._called:
            self._notifier.schedule(self)
            self._called = True

    def missed(self) -> int:
        """Notify the client of all that may have changed. Does not block."""
        return publish_all(self, self._connection.listened)

    def notify_pending(self) -> int:
        """Write pending notifications if possible without waiting, else wake the task. Return how many were written."""
        self._called = False
        if self._pause is None:
            return 0
        if self._write_now is None or self._rest or not self._response.open:
            self._pause.cancel()
            return 0
        count = min(len(self._pending), PART)
        if data := self._events():
            self._response.written_at = trio.current_time()
            if not self._write_now(data):
                self._rest = True
                self._pause.cancel()
        if self._pending and not self._called and not self._rest:
            self._notifier.schedule(self)
            self._called = True
        return count

    def _events(self) -> bytes:
        """Encode and remove pending notifications, as many as may be written without letting other tasks run."""
        events: list[bytes] = []
        for key in tuple(islice(self._pending, PART)):
            definition, params = self._pending.pop(key)
            try:
                events += [_event(outgoing) for outgoing in self._connection.publish(definition, params)]
            except LocalProtocolError as error:
                _log.debug("notification not sent: %s", error)
        return b"".join(events)

    # --- the task --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the subscription until the client disconnects, its token expires, or the server stops.

        *Closing.* Cancel this method. Nothing more is written, except for a write that has started (`stop` aborts it).
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
        """Stop receiving notifications and release the memory charge."""
        self._service.disconnected(self)
        if self.charge is not None:
            self.charge.release()
        if self._called:
            self._called = False
            self._notifier.forget(self)

    async def _write(self) -> None:
        """Write the pending notifications, or a comment if nothing was written for the keep-alive time."""
        response = self._response
        while response.open and (self._pending or self._rest):
            await take_turn(max(1, min(len(self._pending), PART)))
            data = self._events()
            if data or self._rest:
                self._rest = False
                await response.write(data)
            if self._pending and await self._has_left():
                # To write the rest would only take time from other clients.
                response.lost = True
        if trio.current_time() >= response.written_at + self._keep_alive:
            await response.write(_COMMENT)

    async def _has_left(self) -> bool:
        """Return whether the client is known to have disconnected. Takes two iterations of the event loop."""
        with trio.CancelScope() as scope:
            token = trio.lowlevel.current_trio_token()
            # A host needs one iteration to return what it knows.
            token.run_sync_soon(lambda: token.run_sync_soon(scope.cancel))
            return (await self._receive())["type"] == "http.disconnect"
        return False

    async def _wait(self) -> bool:
        """Wait until there is something to do. Return whether the client has disconnected."""
        if self._pending or self._finishing or self._response.lost:
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
        await self._response.end(_event(cast("Outgoing", outgoing)))  # the client cannot have cancelled it by a message

    def finish(self) -> None:
        """End the subscription with its result because the server stops."""
        self._finishing = True
        if self._pause is not None:
            self._pause.cancel()

    def stop(self) -> None:
        """Abort the current write and end the subscription because the server stops."""
        self._response.abort()
        self.finish()


def _event(outgoing: Outgoing) -> bytes:
    return encode_event(encode(outgoing.message, null_id=False), event="message")
