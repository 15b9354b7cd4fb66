"""The service of a server: the handlers of all methods, and the targets of change notifications."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_core.methods import (
    METHODS,
    NOTIFICATIONS,
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    SUBSCRIPTIONS_LISTEN,
)
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types import (
    PromptListChangedNotificationParams,
    ResourceListChangedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotificationParams,
)
from mcp_core.types.meta import TASKS_EXTENSION
from mcp_server.cluster.barrier import ClusterBarrier
from mcp_server.cluster.local import LocalCluster
from mcp_server.cluster.messages import TASK_MESSAGES, ChangeMade, ClientMessageReceived
from mcp_server.connection.turns import PART, take_turn
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.features.change_notifications import ChangeNotifier
from mcp_server.features.completion import Completions
from mcp_server.features.methods import Methods
from mcp_server.features.mounting import Mounts
from mcp_server.features.prompts import Prompts
from mcp_server.features.resources import Resources
from mcp_server.features.tools import Tools
from mcp_server.guards import RateLimit
from mcp_server.stores.failures import StoreFailures
from mcp_server.stores.sessions import StoreError
from mcp_server.uris.length_limit import WITH_URIS, check_uris
from mcp_server.uris.matcher import check_length

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import NotificationMethod
    from mcp_core.types import WireObject
    from mcp_server.cluster import Cluster, ClusterReceiver
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.connection.channel import Channel, Handler, NotificationTarget, RequestContext, SubscribedTarget
    from mcp_server.features.listing import PagedList, Source
    from mcp_server.features.mounting import MountedServer
    from mcp_server.features.proxy import RemoteServer
    from mcp_server.features.tasks.methods import Tasks
    from mcp_server.features.tasks.policy import TaskPolicy
    from mcp_server.handlers.access import AccessKind
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["ServerService"]

_log: Final = logging.getLogger("mcp_server")

_JOIN_SECONDS: Final = 1.0
"""Time for which requests that need the other workers wait until this one has joined its cluster, in seconds."""

_SPECIFIED: Final = frozenset({each.name for each in METHODS} | {each.name for each in NOTIFICATIONS})
"""The names of all requests and notifications of the specification."""

_LIST_CHANGES: Final[Mapping[str, tuple[NotificationMethod[object], Callable[[], WireObject]]]] = {
    "tools": (NOTIFICATIONS_TOOLS_LIST_CHANGED, ToolListChangedNotificationParams),
    "resources": (NOTIFICATIONS_RESOURCES_LIST_CHANGED, ResourceListChangedNotificationParams),
    "prompts": (NOTIFICATIONS_PROMPTS_LIST_CHANGED, PromptListChangedNotificationParams),
}
"""The notification of a change of a list, and its parameters, by what the list contains."""


class ServerService:
    """The `mcp_server.connection.channel.Service` of a `Server`: its features, and the handler of each method.

    It is a `mcp_server.features.mounting.MountedServer`, too.

    Args:
        environment: The environment of the handlers.
        spare_connection: Returns an engine without a connection, for tasks.
        task_policy: Settings of tasks; `None`: the default settings.
    """

    is_remote: Final = False
    """It is in this process."""

    def __init__(
        self,
        environment: HandlerEnvironment,
        spare_connection: Callable[[], ServerConnection],
        task_policy: TaskPolicy | None,
    ) -> None:
        self.environment: Final = environment
        """The environment of the handlers."""
        self.life: Final = environment.life
        """The lifespan of the server."""
        self.budget: Final = environment.budget
        """Memory of the HTTP clients of this server."""
        self._middleware: Final = environment.middleware
        self._spare_connection: Final = spare_connection
        self._task_policy: Final = task_policy
        self.changes: Final = ChangeNotifier(environment.middleware)
        """Notifies clients of changes."""
        self.recorders: Final = self.changes.recorders
        """Recorders of changes for clients that are not connected."""
        self.registered: int = 0
        """Number of registrations and removals. A change invalidates values that were computed before."""
        self.store_failures: Final = StoreFailures()
        """Logs failures of stores."""
        self.cluster: Cluster = LocalCluster(limits=environment.limits, budget=environment.budget)
        """Connects the server to the other workers of its deployment."""
        self.barrier: ClusterBarrier = ClusterBarrier(self.cluster, self._start_job)
        """Waits until the other workers know what this one has changed."""
        self._has_joined: trio.Event | None = None
        self.session_receivers: Final[WeakSet[ClusterReceiver]] = WeakSet()
        """Receivers of the messages of other workers about sessions."""
        self.tasks: Tasks | None = None
        """The tasks; `None` until a tool that can run as a task is registered."""
        self.tools: Final = Tools(environment, partial(self.list_changed, "tools"), self._offer_tasks)
        self.resources: Final = Resources(environment, partial(self.list_changed, "resources"))
        self.prompts: Final = Prompts(environment, partial(self.list_changed, "prompts"))
        self.completions: Final = Completions(environment, self.prompts, self.resources)
        self.handlers: Final[dict[str, Handler]] = {
            **self.tools.handlers,
            **self.resources.handlers,
            **self.prompts.handlers,
            **self.completions.handlers,
            SUBSCRIPTIONS_LISTEN.name: self._listen,
        }
        """The handler of each method."""
        self.methods: Final = Methods(environment, self.handlers)
        self.listings: Final[Mapping[str, PagedList]] = {
            "tool": self.tools.listing,
            "resource": self.resources.listing,
            "template": self.resources.template_listing,
            "prompt": self.prompts.listing,
        }
        """The lists, by the kind of their items."""
        self.mounts: Final = Mounts(environment, self.handlers, self.listings, self.resources)
        self.mounted_on: Final[list[ServerService]] = []
        """The servers on which this server is mounted."""
        self._parts: Final[list[ServerService]] = []
        self._given_keys: tuple[bytes, ...] = ()

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.environment.server.info.name

    # --- for channels ----------------------------------------------------------------------------------------------

    async def answer(self, call: RequestContext) -> object:
        """Run the handler of a request, through the middleware. Return its result."""
        # The engine rejects methods that the server does not offer. All others have a handler.
        handler, request = self.handlers[call.request.method], call.request
        if type(request.params) in WITH_URIS:
            check_uris(request.params)
        shared = self.changes.shared
        try:
            result = await (
                self._middleware.inbound_request(handler, call) if self._middleware.layers else handler(call)
            )
        finally:
            if self.changes.shared != shared:
                await self.changes.flush()
        # A subscription may continue without its handler. Any other request would never get a response.
        if result is None and request.definition is not SUBSCRIPTIONS_LISTEN:
            raise InvalidResult(
                f"{request.method} has no result: a middleware or the handler of the method returned None"
            )
        return result

    def input_required(self, call: RequestContext) -> object | None:
        """Return the outcome of a request whose handler was cancelled."""
        if call.request.definition is SUBSCRIPTIONS_LISTEN:
            return SubscriptionsListenResult()
        if call.start_task is not None:
            return call.start_task()
        return None if call.client_requests is None else call.client_requests.result()

    def notified(self, channel: Channel, event: NotificationReceived) -> None:
        """Pass a notification through the middleware to its function, if there is one."""
        listener = self.methods.listeners.get(event.definition.name)
        _log.debug("notification received: method=%s", event.method)
        if listener is None and not self._middleware.layers:
            return
        try:
            through = self.environment.middleware.inbound_notification(channel, event)
            if through is not None and listener is not None:
                listener(through.params)
        except Exception:  # noqa: BLE001 -- the author's function may raise anything; a notification has no response
            _log.exception("notification handler failed: method=%s", event.method)

    def opened(self, _: Channel) -> None:
        """Prepare for a new session."""
        self.changes.runs_here()

    def connected(self, target: SubscribedTarget) -> None:
        """Start to send change notifications to a target."""
        self.changes.targets.add(target)
        self.changes.runs_here()

    def disconnected(self, target: SubscribedTarget) -> None:
        """Stop sending change notifications to a target."""
        self.changes.targets.remove(target)

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

    # --- changes ---------------------------------------------------------------------------------------------------

    def list_changed(self, kind: str) -> None:
        """Notify clients of this server, and of those it is mounted on, that a list has changed.

        Args:
            kind: What the list contains: `tools`, `resources` or `prompts`.
        """
        definition, params = _LIST_CHANGES[kind]
        self.registered += 1
        self.publish(definition, params())
        for other in self.mounted_on:
            other.mounts.refresh()
            other.list_changed(kind)

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        """Notify the subscribed clients of a change."""
        for other in self.mounted_on:
            if key:
                # A resource keeps its URI. `list_changed` notifies clients of list changes.
                other.publish(definition, params, key)
        self.changes.publish(definition, params, key)

    def _notify(
        self, target: NotificationTarget | None, definition: NotificationMethod[object], params: WireObject, key: str
    ) -> None:
        """Notify one target of a change; `None` notifies all subscribed clients."""
        if target is None:
            self.publish(definition, params, key)
            return
        sent = self.environment.middleware.outbound_notification(definition, params, None)
        if sent is not None:
            target.publish(definition, sent, key)

    # --- other workers ---------------------------------------------------------------------------------------------

    def join(self, cluster: Cluster) -> None:
        """Share sessions, tasks, changes, keys and rates with the workers of a cluster while the lifespan runs.

        Raises:
            RegistrationError: The server has joined another cluster, or its lifespan is running.
        """
        if cluster is self.cluster:
            return
        if self.cluster.is_shared:
            raise RegistrationError(
                f"the server {self.name!r} has joined another cluster: use one cluster for one server"
            )
        if self.life.running:
            raise RegistrationError(
                f"the server {self.name!r} is running: pass `cluster` to the first call that serves it, and do not enter"
                " `server.running()` before"
            )
        self.cluster = cluster
        self.barrier = ClusterBarrier(cluster, self._start_job)
        if self.tasks is not None:
            self.tasks.join(cluster, self.barrier)
        if cluster.is_shared:
            for layer in self.environment.middleware.given:
                if isinstance(layer, RateLimit):
                    layer.store = cluster.rates
            self.changes.cluster = cluster
            self._has_joined = trio.Event()
            self.life.needed = True
            self.life.jobs.append(self._run_cluster)
            self.life.starts.append(self._try_join)

    async def _run_cluster(self) -> None:
        # Other workers have listeners also while this one has none.
        self.changes.runs_here()
        try:
            async with open_private_nursery() as nursery:
                await nursery.start(self.cluster.run, self)
                if self._has_joined is not None:
                    self._has_joined.set()
                if self.tasks is not None:
                    await self.tasks.serve_others()
                await trio.sleep_forever()
        finally:
            self._has_joined = trio.Event()

    async def _try_join(self) -> None:
        """Wait a short time until this worker has joined: a request state of another one needs the keys of the cluster."""
        with suppress(StoreError):
            await self.wait_joined()

    async def wait_joined(self) -> None:
        """Wait until this worker receives the messages of others. Raises `StoreError` if that takes too long."""
        if self._has_joined is not None:
            with trio.move_on_after(_JOIN_SECONDS):
                await self._has_joined.wait()
                return
            raise StoreError("this worker has not joined its cluster yet: check that the cluster can be reached")

    def receive(self, sender: str, message: ClusterMessage) -> None:
        """Receive a message of another worker. Does not block."""
        if isinstance(message, ChangeMade):
            self.changes.receive(message)
            return
        if isinstance(message, TASK_MESSAGES):
            if self.tasks is not None:
                self.tasks.receive(message)
            return
        if self.barrier.receive(sender, message):
            return
        for receiver in tuple(self.session_receivers):
            receiver.receive(sender, message)
        if isinstance(message, ClientMessageReceived) and message.number:
            self.barrier.confirm(sender, message.number)

    def _start_job(self, job: Callable[[], Awaitable[None]]) -> None:
        self.life.nursery.start_soon(job)

    def missed(self) -> None:
        """Learn that messages of other workers may have been lost. Does not block."""
        self.changes.missed()
        if self.tasks is not None:
            # The end of a worker may be among them.
            self.tasks.lost()
        for receiver in tuple(self.session_receivers):
            receiver.missed()

    def lost(self, worker: str) -> None:
        """Learn that another worker has ended. Does not block."""
        _log.info("worker ended: worker=%s", worker)
        self.barrier.lost(worker)
        if self.tasks is not None:
            self.tasks.lost()
        for receiver in tuple(self.session_receivers):
            receiver.lost(worker)

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        """Use other keys for request states and cursors, unless the author has set the keys, also in mounted servers."""
        if not (self._given_keys or self.environment.input_policy.keys):
            self.environment.keys.use(keys)
        for part in self._parts:
            part.keys_changed(keys)

    # --- tasks and subscriptions -----------------------------------------------------------------------------------

    def _offer_tasks(self) -> Tasks:
        """Return the tasks, for a tool that can run as a task. Raises `RegistrationError` if the server is mounted."""
        if self.mounted_on:
            raise RegistrationError(
                f"{self.name!r} is mounted on {self.mounted_on[0].name!r}: register tools that run as tasks there"
            )
        if self.tasks is None:
            from mcp_server.features.tasks.methods import Tasks  # lazy: most servers have no tasks
            from mcp_server.features.tasks.policy import TaskPolicy  # lazy: likewise

            self.tasks = Tasks(
                self.environment,
                self._task_policy or TaskPolicy(),
                resumed=self.tools.resumed,
                notify=self._notify,
                spare_connection=self._spare_connection,
                targets=self.changes.targets,
                flush=self.changes.flush,
                cluster=self.cluster,
                barrier=self.barrier,
            )
            self.methods.extensions.setdefault(TASKS_EXTENSION, {})
            self.handlers.update(self.tasks.handlers)
        return self.tasks

    async def _listen(self, call: RequestContext) -> None:
        params = cast(
            "SubscriptionsListenRequestParams", call.request.params
        )  # the engine uses the class of the method
        wanted = params.notifications
        if wanted.resource_subscriptions is not None:
            # Unknown resources are not granted. The acknowledgment lists the granted ones.
            requested = tuple(dict.fromkeys(wanted.resource_subscriptions))
            uris: list[str] = []
            for start in range(0, len(requested), PART):
                part = requested[start : start + PART]
                if len(requested) > PART:
                    await take_turn(len(part))
                uris += [uri for uri in part if await self.exists(call, uri)]
            wanted = attrs.evolve(wanted, resource_subscriptions=tuple(uris))
        if wanted.task_ids is not None and self.tasks is not None:
            wanted = attrs.evolve(wanted, task_ids=await self.tasks.watchable(call, wanted.task_ids))
        await call.channel.listen(call, wanted)

    # --- mounting --------------------------------------------------------------------------------------------------

    def mount(self, other: ServerService, prefix: str | None) -> None:
        """Mount another server of this process on this one. Raises `RegistrationError`. See `Server.mount`."""
        if other in self.above():
            raise RegistrationError(f"{other.name!r} cannot be mounted on {self.name!r}, which is a part of it")
        if other.environment.guard.restricts:
            raise RegistrationError(
                f"{other.name!r} has its own `access` function: pass the function to {self.name!r} instead"
            )
        if other.tasks is not None:
            raise RegistrationError(
                f"{other.name!r} has tools that run as tasks: only the server that clients connect to can have them"
            )
        if self.life.running and other.life.needed and not other.life.running:
            raise RegistrationError(
                f"{other.name!r} has a `lifespan` that starts with that of {self.name!r}, which is running: mount it"
                " before, or in a block of `async with other.running():`"
            )
        self._mount(other, prefix)
        other.mounted_on.append(self)
        self._parts.append(other)
        self.life.parts.append(other.life)
        if self._given_keys:
            other.use_state_keys(self._given_keys)

    def use_state_keys(self, keys: Sequence[bytes]) -> None:
        """Use these keys for request states and cursors, also in mounted servers. See `Server.use_state_keys`."""
        self._given_keys = tuple(keys)
        self.environment.keys.use(keys)
        for part in self._parts:
            part.use_state_keys(keys)

    def mount_remote(self, remote: RemoteServer, prefix: str) -> None:
        """Mount a server behind a client on this one. Raises `RegistrationError`. See `Server.mount_remote`."""
        from mcp_server.features.proxy import ProxiedServer  # lazy: few servers are proxies

        proxied = ProxiedServer(remote, self.environment, self.list_changed)
        self._mount(proxied, prefix)
        self.life.work(proxied.follow)

    def _mount(self, mounted: MountedServer, prefix: str | None) -> None:
        self.mounts.add(mounted, prefix)
        for kind in _LIST_CHANGES:
            self.list_changed(kind)

    def above(self) -> Iterator[ServerService]:
        """Yield this server, and all servers that it is a part of."""
        yield self
        for other in self.mounted_on:
            yield from other.above()

    def source(self, kind: str) -> Source | None:
        """Return its list of a kind; `None` if it has no items or sources of the kind."""
        listing = self.listings[kind]
        return listing if listing.offers else None

    def has(self, kind: str, name: str) -> bool:
        """Return whether it, or a server mounted on it, has a tool or prompt with this name."""
        return name in self.listings[kind] or self.mounts.has(kind, name)

    def has_method(self, method: str) -> bool:
        """Return whether it knows a request or notification with this name."""
        return method in _SPECIFIED or method in self.methods.requests or method in self.methods.notifications

    def header_params(self, tool: str) -> tuple[ParamHeader, ...]:
        """Return the parameters of a tool that HTTP headers repeat; empty for an unknown tool."""
        return self.tools.header_params(tool) or self.mounts.header_params(tool)

    @property
    def completion_capability(self) -> JsonObject | None:
        """The completions capability; `None` if there are no completions."""
        own = self.completions.capability
        return self.mounts.completion_capability if own is None else own

    def decided_by(self, uri: str) -> Sequence[tuple[AccessKind, str]]:
        """Return the kinds and names that access to a resource is decided by, with the servers mounted on it."""
        return [*self.resources.decided_by(uri), *self.mounts.decided_by(uri)]

    async def exists(self, call: RequestContext, uri: str) -> bool:
        """Return whether a resource exists, for the client that sent `call`."""
        return await self.resources.exists(call, uri) or await self.mounts.exists(call, uri)
