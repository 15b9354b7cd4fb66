"""Subscriptions to change notifications: with `subscriptions/listen` (2026-07-28), or in a legacy session."""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.deadlines import Deadlines
from mcp_client.features.changes import Changes
from mcp_client.nursery import open_private_nursery
from mcp_core.errors import McpError, Phase, RequestTimeout
from mcp_core.methods import RESOURCES_SUBSCRIBE, RESOURCES_UNSUBSCRIBE, SUBSCRIPTIONS_LISTEN
from mcp_core.types import (
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client.connection.channel import Link
    from mcp_client.connection.request_options import Extras
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.types import ServerCapabilities

__all__ = ["Listening"]

_log: Final = logging.getLogger("mcp_client")

_FOR_EVER: Final = Deadlines(idle=math.inf, total=math.inf)

_POLITENESS: Final = 1.0
"""Maximum time for `resources/unsubscribe` after the last subscriber has stopped, in seconds."""


class Listening:
    """The subscriptions of one connection.

    Args:
        link: The channel of the connection.
    """

    def __init__(self, link: Link) -> None:
        self._link: Final = link
        self._watching: dict[str, list[Extras]] = {}
        self._leaving: dict[str, trio.Event] = {}
        self._open: set[Changes] = set()
        link.listeners.on_renewal(self._renewed)
        link.listeners.on_loss(self._lost)

    def open(self, wanted: SubscriptionFilter, extras: Extras) -> AbstractAsyncContextManager[Changes]:
        """Subscribe to the notifications for the duration of the `async with` block."""
        listen = self._in_session if self._link.server.revision.subscribe_pair else self._on_stream
        return listen(wanted, extras)

    # --- legacy ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _in_session(self, wanted: SubscriptionFilter, extras: Extras) -> AsyncIterator[Changes]:
        ended = self._link.ended
        if ended is not None:
            raise ended
        changes = Changes(wanted, self._link.connection.limits)
        changes.granted = _granted(wanted, self._link.server.capabilities)
        held: list[str] = []
        stop = self._link.listeners.subscribe(changes.take, changes.finish)
        self._open.add(changes)
        try:
            for uri in changes.granted.resource_subscriptions or ():
                await self._watch(uri, extras)
                held.append(uri)
            yield changes
        finally:
            stop()
            self._open.discard(changes)
            changes.finish()
            await self._unwatch(held, extras)

    def _renewed(self) -> None:
        """Subscribe again in a new session, and report that anything may have changed."""
        self._lost()
        if self._watching:
            self._link.nursery.start_soon(self._watch_again)

    def _lost(self) -> None:
        """Report to all subscribers of the session that anything may have changed."""
        for changes in self._open:
            changes.anything()

    async def _watch_again(self) -> None:
        for uri, listeners in tuple(self._watching.items()):
            try:
                await self._link.passage.ask(RESOURCES_SUBSCRIBE, SubscribeRequestParams(uri=uri), listeners[0])
            except McpError as error:
                _log.warning("subscription lost with the session: uri=%r error=%s", uri, error)

    async def _watch(self, uri: str, extras: Extras) -> None:
        # Over HTTP, resources/subscribe could overtake resources/unsubscribe.
        while uri in self._leaving:
            await self._leaving[uri].wait()
        # Recorded before the response arrives: a subscriber that stops meanwhile must not send `resources/unsubscribe`.
        self._watching.setdefault(uri, []).append(extras)
        try:
            await self._link.passage.ask(RESOURCES_SUBSCRIBE, SubscribeRequestParams(uri=uri), extras)
        except BaseException:
            self._release(uri, extras)
            raise

    def _release(self, uri: str, extras: Extras) -> bool:
        """Remove a subscriber. Return whether it was the last one of the URI."""
        self._watching[uri].remove(extras)
        if self._watching[uri]:
            return False
        del self._watching[uri]
        return True

    async def _unwatch(self, uris: Sequence[str], extras: Extras) -> None:
        last = [uri for uri in uris if self._release(uri, extras)]
        self._leaving.update({uri: trio.Event() for uri in last})
        try:
            with trio.move_on_after(_POLITENESS, shield=True):
                for uri in last:
                    if self._link.ended is None:
                        await self._unsubscribe(uri, extras)
        finally:
            for uri in last:
                self._leaving.pop(uri).set()

    async def _unsubscribe(self, uri: str, extras: Extras) -> None:
        try:
            await self._link.passage.ask(RESOURCES_UNSUBSCRIBE, UnsubscribeRequestParams(uri=uri), extras)
        except McpError:
            # The error does not matter: there are no subscribers.
            return

    # --- modern ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _on_stream(self, wanted: SubscriptionFilter, extras: Extras) -> AsyncIterator[Changes]:
        changes = Changes(wanted, self._link.connection.limits)
        subscription: list[RequestId] = []
        begun = trio.Event()

        def take(event: NotificationReceived) -> None:
            if event.subscription not in subscription:
                return
            if isinstance(event.params, SubscriptionsAcknowledgedNotificationParams):
                changes.granted = event.params.notifications
                begun.set()
            else:
                changes.take(event)

        async def wait_for_its_end() -> None:
            params = SubscriptionsListenRequestParams(notifications=wanted)
            try:
                await self._link.passage.ask(
                    SUBSCRIPTIONS_LISTEN, params, extras, deadlines=_FOR_EVER, on_id=subscription.append
                )
            except McpError as error:
                changes.finish(error)
            else:
                changes.finish()
            begun.set()

        stop = self._link.listeners.subscribe(take)
        try:
            async with open_private_nursery() as nursery:
                nursery.start_soon(wait_for_its_end)
                with trio.move_on_after(self._link.deadlines.idle):
                    await begun.wait()
                if not begun.is_set():
                    raise self._unacknowledged(subscription)
                if changes.error is not None:
                    raise changes.error
                yield changes
        finally:
            stop()
            changes.finish()

    def _unacknowledged(self, subscription: Sequence[RequestId]) -> RequestTimeout:
        error = RequestTimeout(
            "the server did not acknowledge the subscription", deadline="idle", seconds=self._link.deadlines.idle
        )
        id = subscription[0] if subscription else None
        self._link.explain(error, method=SUBSCRIPTIONS_LISTEN.name, id=id, phase=Phase.REQUEST)
        return error


def _granted(wanted: SubscriptionFilter, server: ServerCapabilities) -> SubscriptionFilter:
    """Return the requested notifications for which the server declared a capability."""
    tools, prompts, resources = server.tools, server.prompts, server.resources
    watchable = resources is not None and resources.subscribe is True
    return SubscriptionFilter(
        tools_list_changed=wanted.tools_list_changed and tools is not None and tools.list_changed is True,
        prompts_list_changed=wanted.prompts_list_changed and prompts is not None and prompts.list_changed is True,
        resources_list_changed=(
            wanted.resources_list_changed and resources is not None and resources.list_changed is True
        ),
        resource_subscriptions=wanted.resource_subscriptions if watchable else None,
    )
