"""Subscriptions to change notifications: with `subscriptions/listen` (2026-07-28), or in a legacy session."""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.deadlines import Deadlines
from mcp_client.features.changes import Changes
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

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.request_options import RequestOptions
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.types import ServerCapabilities

__all__ = ["Subscriptions"]

_log: Final = logging.getLogger("mcp_client")

_FOR_EVER: Final = Deadlines(idle=math.inf, total=math.inf)

_POLITENESS: Final = 1.0
"""Maximum time for `resources/unsubscribe` after the last subscriber has stopped, in seconds."""


class Subscriptions:
    """The subscriptions of one connection.

    Args:
        channel: The channel of the connection.
    """

    def __init__(self, channel: ClientChannel) -> None:
        self._channel: Final = channel
        self._watching: dict[str, list[RequestOptions]] = {}
        self._leaving: dict[str, trio.Event] = {}
        self._open: set[Changes] = set()
        channel.listeners.on_renewal(self._renewed)
        channel.listeners.on_loss(self._lost)

    def open(self, wanted: SubscriptionFilter, options: RequestOptions) -> AbstractAsyncContextManager[Changes]:
        """Subscribe to the notifications for the duration of the `async with` block."""
        listen = self._in_session if self._channel.server.revision.subscribe_pair else self._on_stream
        return listen(wanted, options)

    # --- legacy ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _in_session(self, wanted: SubscriptionFilter, options: RequestOptions) -> AsyncIterator[Changes]:
        ended = self._channel.ended
        if ended is not None:
            raise ended
        changes = Changes(wanted, self._channel.connection.limits)
        changes.granted = _granted(wanted, self._channel.server.capabilities)
        held: list[str] = []
        stop = self._channel.listeners.subscribe(changes.take, changes.finish)
        self._open.add(changes)
        try:
            for uri in changes.granted.resource_subscriptions or ():
                await self._watch(uri, options)
                held.append(uri)
            yield changes
        finally:
            stop()
            self._open.discard(changes)
            changes.finish()
            await self._unwatch(held, options)

    def _renewed(self) -> None:
        """Subscribe again in a new session, and report that anything may have changed."""
        self._lost()
        if self._watching:
            self._channel.nursery.start_soon(self._watch_again)

    def _lost(self) -> None:
        """Report to all subscribers of the session that anything may have changed."""
        for changes in self._open:
            changes.anything()

    async def _watch_again(self) -> None:
        for uri, listeners in tuple(self._watching.items()):
            try:
                await self._channel.request(RESOURCES_SUBSCRIBE, SubscribeRequestParams(uri=uri), listeners[0])
            except McpError as error:
                _log.warning("subscription lost with the session: uri=%r error=%s", uri, error)

    async def _watch(self, uri: str, options: RequestOptions) -> None:
        # Over HTTP, resources/subscribe could overtake resources/unsubscribe.
        while uri in self._leaving:
            await self._leaving[uri].wait()
        # Recorded before the response arrives: a subscriber that stops meanwhile must not send `resources/unsubscribe`.
        self._watching.setdefault(uri, []).append(options)
        try:
            await self._channel.request(RESOURCES_SUBSCRIBE, SubscribeRequestParams(uri=uri), options)
        except BaseException:
            self._release(uri, options)
            raise

    def _release(self, uri: str, options: RequestOptions) -> bool:
        """Remove a subscriber. Return whether it was the last one of the URI."""
        self._watching[uri].remove(options)
        if self._watching[uri]:
            return False
        del self._watching[uri]
        return True

    async def _unwatch(self, uris: Sequence[str], options: RequestOptions) -> None:
        last = [uri for uri in uris if self._release(uri, options)]
        self._leaving.update({uri: trio.Event() for uri in last})
        try:
            with trio.move_on_after(_POLITENESS, shield=True):
                for uri in last:
                    if self._channel.ended is None:
                        await self._unsubscribe(uri, options)
        finally:
            for uri in last:
                self._leaving.pop(uri).set()

    async def _unsubscribe(self, uri: str, options: RequestOptions) -> None:
        try:
            await self._channel.request(RESOURCES_UNSUBSCRIBE, UnsubscribeRequestParams(uri=uri), options)
        except McpError:
            # The error does not matter: there are no subscribers.
            return

    # --- modern ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _on_stream(self, wanted: SubscriptionFilter, options: RequestOptions) -> AsyncIterator[Changes]:
        ended = self._channel.ended
        if ended is not None:
            raise ended
        changes = Changes(wanted, self._channel.connection.limits)
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
                await self._channel.request(
                    SUBSCRIPTIONS_LISTEN, params, options, deadlines=_FOR_EVER, on_id=subscription.append
                )
            except Exception as error:  # noqa: BLE001  of the user's middleware: raised to the subscriber
                changes.finish(error)
            else:
                changes.finish()

        listening, left = trio.CancelScope(), trio.Event()

        async def listen() -> None:
            try:
                with listening:
                    await wait_for_its_end()
            finally:
                begun.set()
                left.set()

        stop = self._channel.listeners.subscribe(take)
        try:
            # In the nursery of the connection, so that any task can leave the block.
            self._channel.nursery.start_soon(listen)
            with trio.move_on_after(self._channel.deadlines.idle):
                await begun.wait()
            if not begun.is_set():
                raise self._unacknowledged(subscription)
            if changes.error is not None:
                raise changes.error
            if self._channel.ended is not None:
                raise self._channel.ended
            yield changes
        finally:
            stop()
            changes.finish()
            listening.cancel()
            with trio.CancelScope(shield=True):
                await left.wait()

    def _unacknowledged(self, subscription: Sequence[RequestId]) -> RequestTimeout:
        error = RequestTimeout(
            "the server did not acknowledge the subscription", deadline="idle", seconds=self._channel.deadlines.idle
        )
        id = subscription[0] if subscription else None
        self._channel.explain(error, method=SUBSCRIPTIONS_LISTEN.name, id=id, phase=Phase.REQUEST)
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
