"""The service of a server: the handlers of all methods, and the targets of change notifications."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
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
from mcp_core.middleware import MiddlewareMessage, around, passed
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
from mcp_server.connection.client_requests import client_requests_of
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
    from collections.abc import Awaitable, Callable, Iterator

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.limits import Limits
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import WireObject
    from mcp_server.cache_hint import CacheHint
    from mcp_server.connection.channel import Channel, Handler, NotificationTarget, RequestContext
    from mcp_server.features.listing import PagedList
    from mcp_server.features.tasks.methods import Tasks
    from mcp_server.features.tasks.policy import TaskPolicy
    from mcp_server.handlers.access import Guard
    from mcp_server.handlers.dependencies import Provider
    from mcp_server.lifespan import LifespanRunner
    from mcp_server.schema.annotations import Function
    from mcp_server.server import Server

__all__ = ["ServerService"]

_log: Final = logging.getLogger("mcp_server")

C = TypeVar("C", bound=CacheableResult)


class Recorder(Protocol):
    """A recorder of changes for clients that are not connected."""

    def record(self, definition: NotificationMethod[object], params: object, /) -> None:
        """Record a change. Does not block."""


def _in_worker_thread() -> bool:
    """Return whether this is a thread of `trio.to_thread`. A registration before the server runs is not a change."""
    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True


class ServerService:
    """The `mcp_server.connection.stream_channel.Service` of a `Server`.

    Args:
        server: The server.
        policy: Settings of multi round-trip requests.
        life: Lifespan of the server.
        middleware: Middleware for all messages.
        limits: Limits of the server.
        guard: Access control of tools, resources and prompts.
        hint: Cache hint for the lists.
        task_policy: Settings of tasks.
    """

    def __init__(
        self,
        server: Server,
        policy: InputPolicy,
        life: LifespanRunner,
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
        """Memory of the HTTP clients of this server."""
        self.guard: Guard = guard
        self._hint: Final = hint
        self._channels: Final[set[NotificationTarget]] = set()
        self.recorders: Final[WeakSet[Recorder]] = WeakSet()
        """Recorders of changes for clients that are not connected."""
        self.limiter: trio.CapacityLimiter = new_limiter()
        self.overrides: dict[Function, Provider] = {}
        self.registered = 0
        """Number of registrations and removals. A change invalidates values that were computed before."""
        self.methods: Final[dict[str, RequestMethod[object, object]]] = {}
        """Extension methods."""
        self.replaced: Final[set[str]] = set()
        """Capabilities for which a function of the author handles a method of the specification."""
        self.notifications: Final[dict[str, NotificationMethod[object]]] = {}
        """Extension notifications that clients may send."""
        self.listeners: Final[dict[str, Callable[[object], None]]] = {}
        """Functions that handle notifications of clients, by method."""
        self.extensions: Final[dict[str, JsonObject]] = {}
        """Settings of the declared extensions, by identifier."""
        self.tasks: Tasks | None = None
        """The tasks; `None` until a tool that can run as a task is registered."""
        self.tools: Final = Tools(self, self.tools_changed)
        self.resources: Final = Resources(self, self.resources_changed)
        self.prompts: Final = Prompts(self, self.prompts_changed)
        self.completions: Final = Completions(self, self.prompts, self.resources)
        self.listings: Final[dict[str, PagedList]] = {
            "tool": self.tools.listing,
            "resource": self.resources.listing,
            "template": self.resources.template_listing,
            "prompt": self.prompts.listing,
        }
        """The lists, by the kind of their items."""
        self.mounts: Final = Mounts(self)
        self.mounted_on: Final[list[ServerService]] = []
        """The servers on which this server is mounted."""
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
        """The completions capability; `None` if there are no completions."""
        own = self.completions.capability
        return self.mounts.completions if own is None else own

    def header_params(self, tool: str) -> tuple[ParamHeader, ...]:
        """Return the parameters of a tool that HTTP headers repeat; empty for an unknown tool."""
        return self.tools.header_params(tool) or self.mounts.headers(tool)

    def standing_for(self, uri: str) -> list[str]:
        """Return the URIs and templates that match a URI, on this server and on mounted servers.

        The list is empty for a URI that is too long. `answer` rejects requests with such a URI.
        """
        try:
            check_length(uri)
        except LimitExceeded:
            return []
        found = self.resources.standing_for(uri)
        return found + [name for _, name in self.mounts.decided_by(uri)]

    async def exists(self, call: RequestContext, uri: str) -> bool:
        """Return whether a resource exists, for the client that sent `call`."""
        return await self.resources.exists(call, uri) or await self.mounts.exists(call, uri)

    # --- for links -------------------------------------------------------------------------------------------------

    async def answer(self, call: RequestContext) -> object:
        """Run the handler of a request, through the middleware. Return its result."""
        # The engine rejects methods that the server does not offer. All others have a handler.
        handler, request = self.handlers[call.request.method], call.request
        check_uris(request.params)
        result = await (self._around(handler, call) if self._middleware else handler(call))
        # A subscription may continue without its handler. Any other request would never get a response.
        if result is None and request.definition is not SUBSCRIPTIONS_LISTEN:
            raise InvalidResult(
                f"{request.method} has no result: a middleware or the handler of the method returned None"
            )
        return result

    def _around(self, handler: Handler, call: RequestContext) -> Awaitable[object]:
        """Pass a request through the middleware to its handler."""
        request = call.request

        def last(message: MiddlewareMessage) -> Awaitable[object]:
            if message.params is not request.params:
                call.request = attrs.evolve(request, params=message.params)
            return handler(call)

        message = MiddlewareMessage(
            method=request.method,
            params=request.params,
            raw=request.raw,
            incoming=True,
            revision=request.peer.revision,
            id=request.id,
            principal=call.channel.principal,
        )
        return around(self._middleware, message, last)

    def input_required(self, call: RequestContext) -> object | None:
        """Return the outcome of a request whose handler was cancelled."""
        if call.request.definition is SUBSCRIPTIONS_LISTEN:
            return SubscriptionsListenResult()
        if call.start_task is not None:
            return call.start_task()
        return None if call.client_requests is None else call.client_requests.result()

    def notified(self, channel: Channel, event: NotificationReceived) -> None:
        """Pass a notification through the middleware to its function, if there is one."""
        listener = self.listeners.get(event.definition.name)
        _log.debug("notification received: method=%s", event.method)
        if listener is None and not self._middleware:
            return
        message = MiddlewareMessage(
            method=event.method,
            params=event.params,
            raw=event.raw,
            incoming=True,
            revision=None,
            principal=channel.principal,
        )
        try:
            through = passed(self._middleware, message)
            if through is not None and listener is not None:
                listener(through.params)
        except Exception:  # noqa: BLE001 -- the author's function may raise anything; a notification has no response
            _log.exception("notification handler failed: method=%s", event.method)

    def opened(self, _: Channel) -> None:
        """Do nothing: a new session needs no preparation."""

    def connected(self, target: NotificationTarget) -> None:
        """Start to send change notifications to a target."""
        self._channels.add(target)

    def disconnected(self, target: NotificationTarget) -> None:
        """Stop sending change notifications to a target."""
        self._channels.discard(target)

    # --- for features ----------------------------------------------------------------------------------------------

    def hinted(self, result: C) -> C:
        """Return a list result with the cache hint of the server."""
        return hinted(result, self._hint, restricted=self.guard.restricts)

    def context(self, call: RequestContext) -> Context:
        """Return the context of a request. Raises `RequestFailed` if its `requestState` is invalid."""
        if call.client_requests is None:
            call.client_requests = client_requests_of(call, self.keys, self._policy)
        return Context(call, self._server, call.client_requests)

    def changed(self, definition: NotificationMethod[object], params: object) -> None:
        """Notify clients of this server, and of those it is mounted on, that a list has changed."""
        self.registered += 1
        self.publish(definition, params)
        for other in self.mounted_on:
            other.mounts.refresh()
            other.changed(definition, params)

    def outgoing(
        self,
        definition: NotificationMethod[object] | RequestMethod[object, object],
        params: object,
        revision: Revision | None,
    ) -> MiddlewareMessage:
        """Return an outbound message as middleware receives it."""
        return MiddlewareMessage(method=definition.name, params=params, raw={}, incoming=False, revision=revision)

    async def through_middleware(
        self,
        definition: RequestMethod[object, object],
        params: object,
        revision: Revision,
        send: Callable[[object], Awaitable[object]],
    ) -> object:
        """Pass a client request through the middleware. Return its result."""
        message = self.outgoing(definition, params, revision)
        return await around(self._middleware, message, lambda passing: send(passing.params))

    def notification_params(
        self, definition: NotificationMethod[object], params: object, revision: Revision | None
    ) -> object | None:
        """Pass a notification through the middleware. Return its parameters, or `None` if the middleware dropped it."""
        if not self._middleware:
            return params
        try:
            through = passed(self._middleware, self.outgoing(definition, params, revision))
        except Exception:  # noqa: BLE001 -- the author's function may raise anything; the notification is not sent
            _log.exception("notification dropped, the middleware failed: method=%s", definition.name)
            return None
        return None if through is None else through.params

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Notify the subscribed clients of a change."""
        for other in self.mounted_on:
            if key:
                # A resource keeps its URI. `changed` notifies clients of list changes.
                other.publish(definition, params, key)
        if not (self._channels or self.recorders):
            return
        if trio.lowlevel.in_trio_run():
            self._publish(definition, params, key)
        elif self._channels or _in_worker_thread():
            # A plain function in its worker thread. The connections belong to the trio thread.
            trio.from_thread.run_sync(self._publish, definition, params, key)

    def _publish(self, definition: NotificationMethod[object], params: object, key: str) -> None:
        params = self.notification_params(definition, params, None)
        if params is None:
            return
        for channel in tuple(self._channels):
            channel.publish(definition, params, key)
        for recorder in self.recorders:
            recorder.record(definition, params)

    def notify(
        self, target: NotificationTarget | None, definition: NotificationMethod[object], params: WireObject, key: str
    ) -> None:
        """Notify one target of a change; `None` notifies all subscribed clients."""
        if target is None:
            self.publish(definition, params, key)
            return
        sent = self.notification_params(definition, params, None)
        if sent is not None:
            target.publish(definition, sent, key)

    def offer_tasks(self) -> None:
        """Enable tasks for a tool that can run as a task. Raises `RegistrationError` if the server is mounted."""
        if self.mounted_on:
            raise RegistrationError(
                f"{self.name!r} is mounted on {self.mounted_on[0].name!r}: register tools that run as tasks there"
            )
        if self.tasks is None:
            from mcp_server.features.tasks.methods import Tasks  # lazy: likewise
            from mcp_server.features.tasks.policy import TaskPolicy  # lazy: most servers have no tasks

            self.tasks = Tasks(self, self._task_policy or TaskPolicy(), self.tools)
            self.handlers.update(self.tasks.handlers)

    def spare_connection(self) -> ServerConnection:
        """Return an engine without a connection."""
        return self._server.connection()

    def everywhere(self) -> Iterator[ServerService]:
        """Yield this server and all servers that are mounted on it."""
        yield self
        for mounted in self.mounts.local():
            yield from mounted.everywhere()

    def tools_changed(self) -> None:
        """Notify clients that the list of tools has changed."""
        self.changed(NOTIFICATIONS_TOOLS_LIST_CHANGED, ToolListChangedNotificationParams())

    def resources_changed(self) -> None:
        """Notify clients that the lists of resources have changed."""
        self.changed(NOTIFICATIONS_RESOURCES_LIST_CHANGED, ResourceListChangedNotificationParams())

    def prompts_changed(self) -> None:
        """Notify clients that the list of prompts has changed."""
        self.changed(NOTIFICATIONS_PROMPTS_LIST_CHANGED, PromptListChangedNotificationParams())

    # --- subscriptions (2026-07-28) --------------------------------------------------------------------------------

    async def _listen(self, call: RequestContext) -> None:
        params = cast(
            "SubscriptionsListenRequestParams", call.request.params
        )  # the engine uses the class of the method
        wanted = params.notifications
        if wanted.resource_subscriptions is not None:
            # Unknown resources are not granted. The acknowledgment lists the granted ones.
            requested = dict.fromkeys(wanted.resource_subscriptions)
            uris = tuple([uri for uri in requested if await self.exists(call, uri)])
            wanted = evolve(wanted, resource_subscriptions=uris)
        if wanted.task_ids is not None and self.tasks is not None:
            wanted = evolve(wanted, task_ids=await self.tasks.watchable(call, wanted.task_ids))
        await call.channel.listen(call, wanted)
