"""What stands behind the links of a server: one table of handlers, and who wants to be told of changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    SUBSCRIPTIONS_LISTEN,
)
from mcp_core.types import (
    PromptListChangedNotificationParams,
    ResourceListChangedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotificationParams,
    evolve,
)
from mcp_server._answering import Call
from mcp_server._completion import Completions
from mcp_server._context import Context
from mcp_server._prompts import Prompts
from mcp_server._resources import Resources
from mcp_server._rounds import asking
from mcp_server._run import new_limiter
from mcp_server._seal import InputPolicy, KeyRing
from mcp_server._tools import Tools

if TYPE_CHECKING:
    import trio

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.methods import NotificationRow
    from mcp_server._answering import Line
    from mcp_server._server import Server

__all__ = ["Handler", "ServerService"]

_log: Final = logging.getLogger("mcp_server")

Handler: TypeAlias = Callable[[Call], Awaitable[object]]
"""Answers a method: gives the result, as an instance of its class or in its wire form, or raises `RequestFailed`."""


class ServerService:
    """The `mcp_server._link.Service` of a `Server`.

    Args:
        server: What contexts name as their server.
        policy: How questions are asked in rounds.
    """

    def __init__(self, server: Server, policy: InputPolicy) -> None:
        self._server: Final = server
        self._policy: Final = policy
        self._sealer: Final = KeyRing(policy.keys)
        self._links: Final[set[Line]] = set()
        self.limiter: trio.CapacityLimiter = new_limiter()
        self.registered = 0
        """How often something was registered or taken away: what was computed of it before is out of date."""
        self.tools: Final = Tools(self, self._tools_changed)
        self.resources: Final = Resources(self, self._resources_changed)
        self.prompts: Final = Prompts(self, self._prompts_changed)
        self.completions: Final = Completions(self, self.prompts, self.resources)
        self.handlers: Final[dict[str, Handler]] = {
            **self.tools.handlers,
            **self.resources.handlers,
            **self.prompts.handlers,
            **self.completions.handlers,
            SUBSCRIPTIONS_LISTEN.name: self._listen,
        }

    # --- for links -------------------------------------------------------------------------------------------------

    async def answer(self, call: Call) -> object:
        """See `Service.answer`."""
        # The engine lets only methods through that are offered, and those have a handler.
        return await self.handlers[call.request.method](call)

    def input_required(self, call: Call) -> object | None:
        """See `Service.input_required`."""
        if call.request.row is SUBSCRIPTIONS_LISTEN:
            return SubscriptionsListenResult()
        return None if call.asking is None else call.asking.result()

    def notified(self, _: Line, event: NotificationReceived) -> None:
        """See `Service.notified`. No notification of a client needs an answer here: roots are asked for when needed."""
        _log.debug("the client sent %s", event.method)

    def opened(self, _: Line) -> None:
        """See `Service.opened`."""

    def connected(self, link: Line) -> None:
        """A link is alive: it is told of changes from here on."""
        self._links.add(link)

    def disconnected(self, link: Line) -> None:
        """It no longer is."""
        self._links.discard(link)

    # --- for features ----------------------------------------------------------------------------------------------

    def context(self, call: Call) -> Context:
        """The context of a call. Raises `RequestFailed` when it comes with a state that is not valid."""
        call.asking = asking(call, self._sealer, self._policy)
        return Context(call, self._server, call.asking)

    def _changed(self, row: NotificationRow[object], params: object) -> None:
        self.registered += 1
        self.publish(row, params)

    def publish(self, row: NotificationRow[object], params: object, key: str = "") -> None:
        """Tells every client that wants to know of a change."""
        for link in tuple(self._links):
            link.publish(row, params, key)

    def _tools_changed(self) -> None:
        self._changed(NOTIFICATIONS_TOOLS_LIST_CHANGED, ToolListChangedNotificationParams())

    def _resources_changed(self) -> None:
        self._changed(NOTIFICATIONS_RESOURCES_LIST_CHANGED, ResourceListChangedNotificationParams())

    def _prompts_changed(self) -> None:
        self._changed(NOTIFICATIONS_PROMPTS_LIST_CHANGED, PromptListChangedNotificationParams())

    # --- subscriptions (2026-07-28) --------------------------------------------------------------------------------

    async def _listen(self, call: Call) -> None:
        params = cast(
            "SubscriptionsListenRequestParams", call.request.params
        )  # the engine reads them by the row of the method
        wanted = params.notifications
        if wanted.resource_subscriptions is not None:
            # What does not exist is not granted, which the acknowledgement says.
            uris = tuple(uri for uri in wanted.resource_subscriptions if self.resources.exists(uri))
            wanted = evolve(wanted, resource_subscriptions=uris)
        await call.link.listen(call, wanted)
