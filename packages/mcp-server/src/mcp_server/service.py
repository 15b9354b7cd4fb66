"""What stands behind the links of a server: one table of handlers, and who wants to be told of changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakSet

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    SUBSCRIPTIONS_LISTEN,
)
from mcp_core.middleware import Passing, around, passed
from mcp_core.types import (
    CacheableResult,
    PromptListChangedNotificationParams,
    ResourceListChangedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotificationParams,
    evolve,
)
from mcp_server.cache_hint import hinted
from mcp_server.connection.channel import Call
from mcp_server.connection.client_requests import asking
from mcp_server.connection.sealer import InputPolicy, KeyRing
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.features.completion import Completions
from mcp_server.features.mounting import Mounts
from mcp_server.features.prompts import Prompts
from mcp_server.features.resources import Resources
from mcp_server.features.tools import Tools
from mcp_server.handlers.context import Context
from mcp_server.handlers.runner import new_limiter
from mcp_server.uris.length_limit import check_uris
from mcp_server.uris.matcher import check_length

if TYPE_CHECKING:
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.limits import Limits
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import WireObject
    from mcp_server.cache_hint import CacheHint
    from mcp_server.connection.channel import Audience, Line
    from mcp_server.features.listing import Listing
    from mcp_server.features.tasks.methods import Tasks
    from mcp_server.features.tasks.policy import TaskPolicy
    from mcp_server.handlers.access import Guard
    from mcp_server.handlers.dependencies import Provider
    from mcp_server.lifespan import Life
    from mcp_server.schema.annotations import Function
    from mcp_server.server import Server

__all__ = ["Handler", "ServerService"]

_log: Final = logging.getLogger("mcp_server")

C = TypeVar("C", bound=CacheableResult)

Handler: TypeAlias = Callable[[Call], Awaitable[object]]
"""Answers a method: gives the result, as an instance of its class or in its wire form, or raises `RequestFailed`."""


class Recorder(Protocol):
    """Records changes for clients that are not connected."""

    def record(self, row: NotificationRow[object], params: object, /) -> None:
        """Record a change. Never waits."""


def _in_worker_thread() -> bool:
    """Return whether this is a thread of `trio.to_thread`. What is registered before the server runs is no change."""
    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True


class ServerService:
    """The `mcp_server.connection.stream_channel.Service` of a `Server`.

    Args:
        server: What contexts name as their server.
        policy: How questions are asked in rounds.
        life: Its life.
        middleware: What stands around its messages.
        limits: Its bounds.
        guard: Says who may see and use what.
        hint: How long its lists may be used again.
        task_policy: How its tasks are kept.
    """

    def __init__(
        self,
        server: Server,
        policy: InputPolicy,
        life: Life,
        middleware: tuple[Middleware, ...],
        *,
        limits: Limits,
        guard: Guard,
        hint: CacheHint | None = None,
        task_policy: TaskPolicy | None = None,
    ) -> None:
        self._server: Final = server
        self._middleware: Final = middleware
        self.life: Final = life
        self._policy: Final = policy
        self._task_policy: Final = task_policy
        self.keys: KeyRing = KeyRing(policy.keys)
        self.limits: Limits = limits
        self.budget: Final = MemoryBudget(limits.total_bytes)
        """The memory that the HTTP clients of this server occupy."""
        self.guard: Guard = guard
        self._hint: Final = hint
        self._links: Final[set[Audience]] = set()
        self.recorders: Final[WeakSet[Recorder]] = WeakSet()
        """Who records changes for clients that are not connected."""
        self.limiter: trio.CapacityLimiter = new_limiter()
        self.overrides: dict[Function, Provider] = {}
        self.registered = 0
        """How often something was registered or taken away: what was computed of it before is out of date."""
        self.methods: Final[dict[str, Method[object, object]]] = {}
        """Methods beyond those of the specification."""
        self.replaced: Final[set[str]] = set()
        """The capabilities of which a method of the specification is answered by a function of the author."""
        self.notifications: Final[dict[str, NotificationRow[object]]] = {}
        """Notifications beyond those of the specification, that clients may send."""
        self.listeners: Final[dict[str, Callable[[object], None]]] = {}
        """What takes notifications of clients."""
        self.extensions: Final[dict[str, JsonObject]] = {}
        """The extensions that are declared, with their settings."""
        self.tasks: Tasks | None = None
        """The tasks, once there is a tool that may run as one."""
        self.tools: Final = Tools(self, self.tools_changed)
        self.resources: Final = Resources(self, self.resources_changed)
        self.prompts: Final = Prompts(self, self.prompts_changed)
        self.completions: Final = Completions(self, self.prompts, self.resources)
        self.listings: Final[dict[str, Listing]] = {
            "tool": self.tools.listing,
            "resource": self.resources.listing,
            "template": self.resources.template_listing,
            "prompt": self.prompts.listing,
        }
        """The lists, by what they are of."""
        self.mounts: Final = Mounts(self)
        self.mounted_on: Final[list[ServerService]] = []
        """The servers that this one is a part of."""
        self.handlers: Final[dict[str, Handler]] = {
            **self.tools.handlers,
            **self.resources.handlers,
            **self.prompts.handlers,
            **self.completions.handlers,
            SUBSCRIPTIONS_LISTEN.name: self._listen,
        }

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._server.info.name

    @property
    def completes(self) -> JsonObject | None:
        """What is declared of completions; `None`: there are none."""
        own = self.completions.capability
        return self.mounts.completions if own is None else own

    def designated(self, tool: str) -> tuple[ParamHeader, ...]:
        """The parameters of a tool that HTTP headers repeat; none for a tool that does not exist."""
        return self.tools.designated(tool) or self.mounts.headers(tool)

    def standing_for(self, uri: str) -> list[str]:
        """What a URI may be read by: the URIs and templates that it matches, here and on what is mounted.

        Nothing for a URI that is too long: what names it is refused by `answer`.
        """
        try:
            check_length(uri)
        except LimitExceeded:
            return []
        found = self.resources.standing_for(uri)
        return found + [name for _, name in self.mounts.decided_by(uri)]

    async def exists(self, call: Call, uri: str) -> bool:
        """Whether there is such a resource, for the client that `call` comes from."""
        return await self.resources.exists(call, uri) or await self.mounts.exists(call, uri)

    # --- for links -------------------------------------------------------------------------------------------------

    async def answer(self, call: Call) -> object:
        """See `Service.answer`."""
        # The engine lets only methods through that are offered, and those have a handler.
        handler, request = self.handlers[call.request.method], call.request
        check_uris(request.params)
        result = await (self._around(handler, call) if self._middleware else handler(call))
        # A subscription may go on by itself. Of anything else the client would never hear again.
        if result is None and request.row is not SUBSCRIPTIONS_LISTEN:
            raise InvalidResult(
                f"{request.method} was answered with nothing: a middleware, or what is registered for it, returned no result"
            )
        return result

    def _around(self, handler: Handler, call: Call) -> Awaitable[object]:
        """Takes a request through the middleware to its handler."""
        request = call.request

        def last(message: Passing) -> Awaitable[object]:
            if message.params is not request.params:
                call.request = attrs.evolve(request, params=message.params)
            return handler(call)

        message = Passing(
            method=request.method,
            params=request.params,
            raw=request.raw,
            incoming=True,
            revision=request.peer.revision,
            id=request.id,
            principal=call.link.principal,
        )
        return around(self._middleware, message, last)

    def input_required(self, call: Call) -> object | None:
        """See `Service.input_required`."""
        if call.request.row is SUBSCRIPTIONS_LISTEN:
            return SubscriptionsListenResult()
        if call.deferred is not None and call.deferred.run is not None:
            return call.deferred.answer()
        return None if call.asking is None else call.asking.result()

    def notified(self, line: Line, event: NotificationReceived) -> None:
        """See `Service.notified`. Of itself none needs an answer here: roots are asked for when they are needed."""
        listener = self.listeners.get(event.row.name)
        _log.debug("the client sent %s", event.method)
        if listener is None and not self._middleware:
            return
        message = Passing(
            method=event.method,
            params=event.params,
            raw=event.raw,
            incoming=True,
            revision=None,
            principal=line.principal,
        )
        try:
            through = passed(self._middleware, message)
            if through is not None and listener is not None:
                listener(through.params)
        except Exception:  # noqa: BLE001 -- whatever the author's function raises: nobody waits for an answer
            _log.exception("what takes %s failed", event.method)

    def opened(self, _: Line) -> None:
        """See `Service.opened`."""

    def connected(self, audience: Audience) -> None:
        """It is told of changes from here on."""
        self._links.add(audience)

    def disconnected(self, audience: Audience) -> None:
        """It no longer is."""
        self._links.discard(audience)

    # --- for features ----------------------------------------------------------------------------------------------

    def hinted(self, result: C) -> C:
        """See `Host.hinted`."""
        return hinted(result, self._hint, asks=self.guard.asks)

    def context(self, call: Call) -> Context:
        """The context of a call. Raises `RequestFailed` when it comes with a state that is not valid."""
        if call.asking is None:
            call.asking = asking(call, self.keys, self._policy)
        return Context(call, self._server, call.asking)

    def changed(self, row: NotificationRow[object], params: object) -> None:
        """Notify clients of this server, and of those it is mounted on, that a list has changed."""
        self.registered += 1
        self.publish(row, params)
        for other in self.mounted_on:
            other.mounts.refresh()
            other.changed(row, params)

    def outgoing(
        self, row: NotificationRow[object] | Method[object, object], params: object, revision: Revision | None
    ) -> Passing:
        """What middleware is shown of a message of this side."""
        return Passing(method=row.name, params=params, raw={}, incoming=False, revision=revision)

    async def asked(
        self,
        row: Method[object, object],
        params: object,
        revision: Revision,
        ask: Callable[[object], Awaitable[object]],
    ) -> object:
        """Takes a question to a client through the middleware. Returns the answer."""
        message = self.outgoing(row, params, revision)
        return await around(self._middleware, message, lambda passing: ask(passing.params))

    def told(self, row: NotificationRow[object], params: object, revision: Revision | None) -> object | None:
        """Takes a notification to clients through the middleware. Returns its parameters; `None` when it was dropped."""
        if not self._middleware:
            return params
        try:
            through = passed(self._middleware, self.outgoing(row, params, revision))
        except Exception:  # noqa: BLE001 -- the author's function: what it did not let through is not sent
            _log.exception("the middleware failed at %s, which is not sent", row.name)
            return None
        return None if through is None else through.params

    def publish(self, row: NotificationRow[object], params: object, key: str = "") -> None:
        """Tells every client that wants to know of a change."""
        for other in self.mounted_on:
            if key:
                # A resource keeps its URI; the lists are told of by themselves.
                other.publish(row, params, key)
        if not (self._links or self.recorders):
            return
        if trio.lowlevel.in_trio_run():
            self._publish(row, params, key)
        elif self._links or _in_worker_thread():
            # A plain function, in its worker thread. The connections belong to the thread of trio.
            trio.from_thread.run_sync(self._publish, row, params, key)

    def _publish(self, row: NotificationRow[object], params: object, key: str) -> None:
        params = self.told(row, params, None)
        if params is None:
            return
        for link in tuple(self._links):
            link.publish(row, params, key)
        for recorder in self.recorders:
            recorder.record(row, params)

    def tell(self, audience: Audience | None, row: NotificationRow[object], params: WireObject, key: str) -> None:
        """Tells one audience of a change; `None`: every client that wants to know."""
        if audience is None:
            self.publish(row, params, key)
            return
        told = self.told(row, params, None)
        if told is not None:
            audience.publish(row, told, key)

    def offer_tasks(self) -> None:
        """There is a tool that may run as a task. Raises `RegistrationError` where there cannot be one."""
        if self.mounted_on:
            raise RegistrationError(
                f"{self.name!r} is mounted on {self.mounted_on[0].name!r}: tools that run as tasks have to be registered there"
            )
        if self.tasks is None:
            from mcp_server.features.tasks.methods import Tasks  # lazy: likewise
            from mcp_server.features.tasks.policy import TaskPolicy  # lazy: most servers have no tasks

            self.tasks = Tasks(self, self._task_policy or TaskPolicy(), self.tools)
            self.handlers.update(self.tasks.handlers)

    def spare_connection(self) -> ServerConnection:
        """An engine that is on no connection."""
        return self._server.connection()

    def everywhere(self) -> Iterator[ServerService]:
        """This server, and all that are mounted on it."""
        yield self
        for mounted in self.mounts.local():
            yield from mounted.everywhere()

    def tools_changed(self) -> None:
        """The list of tools is another one."""
        self.changed(NOTIFICATIONS_TOOLS_LIST_CHANGED, ToolListChangedNotificationParams())

    def resources_changed(self) -> None:
        """The lists of resources are others."""
        self.changed(NOTIFICATIONS_RESOURCES_LIST_CHANGED, ResourceListChangedNotificationParams())

    def prompts_changed(self) -> None:
        """The list of prompts is another one."""
        self.changed(NOTIFICATIONS_PROMPTS_LIST_CHANGED, PromptListChangedNotificationParams())

    # --- subscriptions (2026-07-28) --------------------------------------------------------------------------------

    async def _listen(self, call: Call) -> None:
        params = cast(
            "SubscriptionsListenRequestParams", call.request.params
        )  # the engine reads them by the row of the method
        wanted = params.notifications
        if wanted.resource_subscriptions is not None:
            # What does not exist is not granted, which the acknowledgement says.
            asked = dict.fromkeys(wanted.resource_subscriptions)
            uris = tuple([uri for uri in asked if await self.exists(call, uri)])
            wanted = evolve(wanted, resource_subscriptions=uris)
        if wanted.task_ids is not None and self.tasks is not None:
            wanted = evolve(wanted, task_ids=await self.tasks.watchable(call, wanted.task_ids))
        await call.link.listen(call, wanted)
