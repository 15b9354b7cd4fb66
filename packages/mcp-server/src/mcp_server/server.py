"""A server of the Model Context Protocol. Spec: server/"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.engine.connection import Extensions
from mcp_core.engine.server import ServerConnection
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.methods import METHODS
from mcp_core.middleware import Middleware
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.types import (
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ServerTaskRequests,
    ServerTasksCapability,
    ToolsCapability,
    ToolTaskRequests,
    evolve,
)
from mcp_server.cache_hint import CacheHint
from mcp_server.connection.sealer import InputPolicy
from mcp_server.errors import RegistrationError
from mcp_server.features.tasks.policy import TaskPolicy
from mcp_server.handlers.access import Guard
from mcp_server.lifespan import LifespanRunner
from mcp_server.options import check_kinds, check_listed
from mcp_server.registration import Registration
from mcp_server.service import ServerService

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import Icon, WireObject
    from mcp_server.auth import ResourceServer
    from mcp_server.connection.authenticator import Authenticate
    from mcp_server.handlers.access import Access
    from mcp_server.lifespan import Lifespan
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.endpoint import HttpEndpoint, Template

__all__ = ["Server"]


class Server(Registration):
    """A server for all revisions of the protocol.

    Register functions with the decorators. Then serve the server with `serve_stdio`, `serve_http` or `serve_stream`, or
    mount the application that `asgi` returns. The decorators return the function unchanged. Plain functions run in a
    worker thread, so that a blocking function does not stop the others; `thread=False` runs them inline. The
    capabilities of the server are derived from the registered functions. A client receives them when it connects.
    Therefore register at least one function of each kind before the server is served.

    Args:
        name: Name for programs.
        version: Version of the server, in any format.
        title: Name for users.
        description: Description of the server.
        instructions: Instructions for a model that uses the server.
        icons: Icons of the server.
        website_url: URL of its website.
        revisions: Supported revisions; all of them by default.
        limits: Limits of what one client can make the server do.
        input_policy: Settings of multi round-trip requests, in revision 2026-07-28.
        lifespan: Function that receives the server and returns an asynchronous context manager, which runs while the
            server is served. Handlers receive its value from `Context.state`.
        middleware: Middleware for all messages, the outermost first.
        access: Function that decides which principal may use which tool, resource, template or prompt. The server calls
            it before it lists, calls, reads, gets, completes or subscribes to one of them. A denied object is reported
            as not found.
        redact: Function that receives the data of a log message and returns the data that the client may see.
        tasks: Settings of tasks: the store and the time to live.
        cache: Cache hint for the lists; by default clients do not reuse them. Resources have their own hints.

    Raises:
        ValueError: `revisions` is empty.
        RegistrationError: An argument has the wrong type, or `name`, `version` or another member cannot be sent.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        icons: Iterable[Icon] = (),
        website_url: str | None = None,
        revisions: Iterable[Revision] = tuple(REVISIONS.values()),
        limits: Limits = SERVER_LIMITS,
        input_policy: InputPolicy | None = None,
        lifespan: Lifespan | None = None,
        middleware: Iterable[Middleware] = (),
        access: Access | None = None,
        redact: Callable[[JsonValue], JsonValue] | None = None,
        tasks: TaskPolicy | None = None,
        cache: CacheHint | None = None,
    ) -> None:
        check_kinds(
            f"the server {name!r}",
            revisions=(revisions, Iterable),
            icons=(icons, Iterable),
            middleware=(middleware, Iterable),
            instructions=(instructions, str),
            limits=(limits, Limits),
            input_policy=(input_policy, InputPolicy),
            tasks=(tasks, TaskPolicy),
            cache=(cache, CacheHint),
            lifespan=(lifespan, Callable),
            access=(access, Callable),
            redact=(redact, Callable),
        )
        life = LifespanRunner(self, lifespan)
        policy, around = input_policy or InputPolicy(), tuple(middleware)
        super().__init__(
            ServerService(self, policy, life, around, limits=limits, guard=Guard(access), hint=cache, task_policy=tasks)
        )
        self.info: Final = Implementation(
            name=name,
            version=version,
            title=title,
            description=description,
            icons=tuple(icons) or None,
            website_url=website_url,
        )
        """Name, version and other metadata that the server sends."""
        self.instructions: Final = instructions
        """Instructions for a model."""
        self.revisions: Final = tuple(revisions)
        """Supported revisions."""
        self.limits: Final = limits
        """Limits of what one client can make the server do."""
        self.redact: Final = redact
        """Function that removes secrets from the data of log messages; `None` if there is no such function."""
        if not self.revisions:
            raise ValueError("a server must support at least one revision: revisions is empty")
        for revision in self.revisions:
            check_kinds(f"the server {name!r}", revisions=(revision, Revision))
        for layer in around:
            check_kinds(f"the server {name!r}", middleware=(layer, Middleware))
        check_listed(f"the server {name!r}", self.info)
        self._made: Final[dict[bool, tuple[int, Template]]] = {}
        self._life: Final = life

    def __repr__(self) -> str:
        return f"<Server {self.info.name} {self.info.version}>"

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities of the server, derived from the functions that are registered now."""
        service = self._service
        tasks = None
        if service.tasks is not None:
            requests = ServerTaskRequests(tools=ToolTaskRequests(call={}))
            tasks = ServerTasksCapability(list={}, cancel={}, requests=requests)
        # A replaced method declares the capability of its feature.
        has = service.replaced.__contains__
        return ServerCapabilities(
            tasks=tasks,
            tools=service.tools.capability or (ToolsCapability() if has("tools") else None),
            resources=service.resources.capability or (ResourcesCapability() if has("resources") else None),
            prompts=service.prompts.capability or (PromptsCapability() if has("prompts") else None),
            completions={} if service.completes is None and has("completions") else service.completes,
            logging={},
            extensions=dict(service.extensions) or None,
        )

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the lifespan of the server during the block: its `lifespan` and its background tasks.

        `serve_stdio`, `serve_http` and `serve_stream` run it automatically. Use this method around several of them to
        share one lifespan, or if the endpoint is mounted in an application whose host does not send lifespan events to
        it. The lifespan starts once. Later blocks join it, and the first block waits for them when it ends.
        """
        return self._life.run()

    def connection(self) -> ServerConnection:
        """Return a new engine for one connection, for use with a custom transport."""
        return self._connection(self.revisions)

    def _connection(self, revisions: tuple[Revision, ...], *, authenticated: bool = True) -> ServerConnection:
        """Return a new engine. `authenticated`: whether clients are authenticated, and so can list their own tasks."""
        service = self._service
        capabilities = self.capabilities
        if capabilities.tasks is not None and not authenticated:
            capabilities = evolve(capabilities, tasks=evolve(capabilities.tasks, list=None))
        return ServerConnection(
            self.info,
            capabilities,
            revisions=revisions,
            instructions=self.instructions,
            limits=self.limits,
            extensions=Extensions(methods=dict(service.methods), notifications=dict(service.notifications)),
        )

    def asgi(
        self,
        *,
        path: str = "/mcp",
        policy: EndpointPolicy | None = None,
        store: SessionStore | None = None,
        auth: ResourceServer | None = None,
        authenticate: Authenticate | None = None,
        healthz: str | None = None,
        legacy_sse: bool = False,
    ) -> HttpEndpoint:
        """Return the server as an ASGI application, for a host or for mounting in another application.

        Args:
            path: Path of the MCP endpoint, relative to the mount point of the application. A trailing slash is
                optional. Other paths are not served.
            policy: Policy of the endpoint. By default, requests must use a host name of this machine.
            store: Stores the sessions of legacy clients, so that they survive a restart; by default they are stored in
                memory. The caller closes it.
            auth: Authenticates clients by access tokens for this server.
            authenticate: Function that authenticates a request by its headers, if clients do not use access tokens. It
                returns a `Principal`, a name, or `None` for an anonymous client. It raises `AccessDenied` to reject the
                request. With `auth` or `authenticate`, only the principal that created a session, task or request state can
                use it.
            healthz: Path that responds to `GET` with status 200 while the server accepts requests, for load balancers.
            legacy_sse: Whether to serve clients of revision 2024-11-05 too. Their transport has two endpoints: `/sse`
                and `/messages`.

        Returns:
            The application. It does not need lifespan events. `drain` stops it gracefully.

        Raises:
            ValueError: `auth` and `authenticate` are both set, or `legacy_sse` is set but no legacy revision is supported.
            RegistrationError: An argument has the wrong type.
        """
        from mcp_core.http.endpoint_policy import EndpointPolicy  # lazy: a server over stdio needs none of it
        from mcp_server.connection.authenticator import Authenticator, CallableAuthenticator  # lazy: likewise
        from mcp_server.stores.memory.sessions import MemoryStore  # lazy: likewise
        from mcp_server.transports.http.endpoint import HttpEndpoint  # lazy: likewise
        from mcp_server.transports.http.sse_2024 import SsePair  # lazy: likewise

        where = f"the endpoint of {self.info.name!r}"
        check_kinds(
            where,
            path=(path, str),
            policy=(policy, EndpointPolicy),
            authenticate=(authenticate, Callable),
            healthz=(healthz, str),
        )
        if auth is not None and not isinstance(auth, Authenticator):
            raise RegistrationError(f"{where}: `auth` must be a ResourceServer, not {auth!r}")
        if auth is not None and authenticate is not None:
            raise ValueError("auth and authenticate are both set: set only one of them")
        authenticator = auth if authenticate is None else CallableAuthenticator(authenticate)
        policy = policy or EndpointPolicy()
        pair = None
        if legacy_sse:
            legacy = tuple(revision for revision in self.revisions if revision.era is Era.LEGACY)
            if not legacy:
                raise ValueError("legacy_sse is for clients of legacy revisions, but this server supports none of them")
            pair = SsePair(self._service, lambda: self._connection(legacy), policy, self.limits)
        return HttpEndpoint(
            self._service,
            partial(self._template, authenticated=authenticator is not None),
            self.revisions,
            path=path,
            policy=policy,
            limits=self.limits,
            store=store or MemoryStore(limits=self.limits, budget=self._service.budget),
            authenticator=authenticator,
            healthz=healthz,
            pair=pair,
        )

    def _template(self, *, authenticated: bool) -> Template:
        """Return the shared parts of the engines of HTTP requests. They are created again after a registration."""
        registered = self._service.registered
        made = self._made.get(authenticated)
        if made is None or made[0] != registered:
            from mcp_core.http.routing_headers import name_params  # lazy: a server over stdio needs none of it
            from mcp_server.transports.http.endpoint import Template  # lazy: likewise

            names = name_params([*METHODS, *self._service.methods.values()])
            connection = self._connection(self.revisions, authenticated=authenticated)
            made = self._made[authenticated] = registered, Template(connection=connection, names=names)
        return made[1]

    def offered(self) -> dict[str, tuple[WireObject, ...]]:
        """Return all tools, resources, templates and prompts as they are listed, by kind."""
        service = self._service
        return {
            "tools": service.tools.listed,
            "resources": service.resources.listed,
            "resource_templates": service.resources.listed_templates,
            "prompts": service.prompts.listed,
        }
