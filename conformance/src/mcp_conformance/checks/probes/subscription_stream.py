"""Subscriptions with `subscriptions/listen`, and their notifications."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks.probes.message_pairs import key_of
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.types.meta import SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ACKNOWLEDGED", "LISTEN", "SubscriptionStream", "is_tagged", "open_subscription", "tag_of"]

LISTEN: Final = "subscriptions/listen"
"""Method of the request."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
"""Method of the first notification."""


@attrs.define(kw_only=True, eq=False)
class SubscriptionStream:
    """A subscription, with the notifications received so far."""

    id: JsonValue
    """Id of the request."""
    peer: SuiteConnection
    """The connection."""
    since: int
    """Number of messages that the connection had received before."""
    answer: JsonRpcResponse | None = None
    """The response; `None` while the subscription is active."""
    failed: Deviation | None = None
    """The reason why the subscription failed."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """The scope of the exchange."""

    @property
    def ended(self) -> bool:
        """Whether the subscription has a response, or failed."""
        return self.answer is not None or self.failed is not None

    def is_own(self, message: JsonObject) -> bool:
        """Return whether a notification has the id of this subscription."""
        return key_of(tag_of(message)) == key_of(self.id)

    def is_of_another(self, message: JsonObject) -> bool:
        """Return whether a notification has the id of another subscription of the connection, which may be active too."""
        return not self.is_own(message) and is_tagged(self.peer, message)

    @property
    def messages(self) -> list[JsonObject]:
        """All notifications since the subscription began, of any subscription."""
        return self.peer.inbox[self.since :]

    def own(self, method: str | None = None) -> list[JsonObject]:
        """Return the notifications of this subscription, of one method or all."""
        return [each for each in self.messages if self.is_own(each) and method in (None, each.get("method"))]

    async def wait(self, method: str, *, count: int = 1) -> list[JsonObject]:
        """Wait for notifications.

        Raises:
            Deviation: They were not received in time.
        """
        await self.until(lambda: len(self.own(method)) >= count, f"{method} on the stream of {LISTEN}")
        return self.own(method)

    async def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for a condition that depends on received messages.

        Raises:
            Deviation: The condition is not true in time, or before the subscription ends.
        """
        await self.peer.until(lambda: bool(true()) or self.ended, what)
        if not true():
            raise Deviation(what, str(self.answer or self.failed))

    async def acknowledged(self) -> JsonObject:
        """Wait for the acknowledgment, and return the filter in it."""
        params = (await self.wait(ACKNOWLEDGED))[0].get("params")
        found = params.get("notifications") if isinstance(params, dict) else None
        return found if isinstance(found, dict) else {}

    async def cancel(self) -> None:
        """Cancel an active subscription: over HTTP its stream is closed, over stdio the server is notified."""
        if self.ended or self.scope.cancel_called:
            return
        self.scope.cancel()
        if self.peer.transport is Transport.STDIO:
            with trio.CancelScope(shield=True):
                await self.peer.notify("notifications/cancelled", {"requestId": self.id})


def tag_of(message: JsonObject) -> JsonValue:
    """Return the subscription id of a notification; "no tag" when it has none."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(SUBSCRIPTION_ID, "no tag") if isinstance(meta, dict) else "no tag"


def is_tagged(peer: SuiteConnection, message: JsonObject) -> bool:
    """Return whether a notification has the id of a subscription of this connection, active or ended."""
    sent = peer.transcript.messages(sent=True)
    listens = [each for each in sent if isinstance(each, dict) and each.get("method") == LISTEN]
    return key_of(tag_of(message)) in {key_of(each.get("id")) for each in listens}


@asynccontextmanager
async def open_subscription(
    peer: SuiteConnection,
    requested: JsonObject,
    *,
    id: JsonValue = None,
    meta: JsonObject | None = None,
    change: Callable[[JsonObject], JsonObject] = lambda message: message,
    deviant: str = "",
) -> AsyncIterator[SubscriptionStream]:
    """Open a subscription for a block, and cancel it at the end, unless the block has cancelled it.

    Args:
        peer: The connection.
        requested: The filter.
        id: The id of the request; `None`: the next one.
        meta: More members of `_meta`.
        change: Changes the request before it is sent, except its id.
        deviant: The rule that the changed request breaks on purpose.
    """
    message = change(peer.message(LISTEN, {"notifications": requested, "_meta": meta or {}}, id=id))
    subscription = SubscriptionStream(id=message["id"], peer=peer, since=len(peer.inbox))

    async def listen() -> None:
        with subscription.scope:
            try:
                subscription.answer = await peer.exchange(message, deviant=deviant)
            except Deviation as deviation:
                subscription.failed = deviation
        peer.wake()

    async with open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.lowlevel.checkpoint()
        try:
            yield subscription
        finally:
            await subscription.cancel()
