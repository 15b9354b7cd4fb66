"""A server: what it offers, in decorators. Spec: server/"""

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
from mcp_server.lifespan import Life
from mcp_server.options import check_kinds, check_listed
from mcp_server.registration import Registration
from mcp_server.service import ServerService

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import Icon, WireObject
    from mcp_server.auth import ResourceServer
    from mcp_server.connection.authenticator import Identify
    from mcp_server.handlers.access import Access
    from mcp_server.lifespan import Lifespan
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.endpoint import HttpEndpoint, Template

__all__ = ["Server"]


class Server(Registration):
    """A server, in all revisions of the protocol at once.

    Register functions with the decorators, then serve it with `serve_stdio`, `serve_http` or `serve_stream`,
    or mount what `asgi` gives in an application. The decorators return
    the function unchanged. Plain functions run in a worker thread, so that a blocking one does not stop the others;
    `thread=False` runs them inline. What the server says that it offers follows from what is registered; a client is
    told at the beginning, so something of each kind should be registered before the server is served.

    Args:
        name: The name for programs.
        version: The version of the server, in any notation.
        title: The name for people.
        description: What it does.
        instructions: How to use it, for a model.
        icons: Its pictures.
        website_url: Where it is at home.
        revisions: The revisions that it speaks; all of them by default.
        limits: The bounds on what one client may make it do.
        input_policy: How questions to the client are asked in rounds, on 2026-07-28.
        lifespan: A function that takes the server and gives an asynchronous context manager, which runs around all
            serving. What it gives is what `Context.state` gives to handlers.
        middleware: What stands around all messages, the outermost first.
        access: Says who may see and use what: it is asked for each tool, resource, template and prompt before it is listed,
            called, read, got, completed or watched. What is not allowed is answered like what does not exist.
        redact: Takes the data of a log message, and gives what the client may see of it.
        tasks: How tasks are kept: where, and how long.
        cache: How long a client may use its lists again; by default not at all. Of resources it is said one by one.

    Raises:
        ValueError: It is to speak no revision at all.
        RegistrationError: An argument is of another kind than it has to be.
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
        life = Life(self, lifespan)
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
        """Who the server says it is."""
        self.instructions: Final = instructions
        """How to use it, for a model."""
        self.revisions: Final = tuple(revisions)
        """The revisions that it speaks."""
        self.limits: Final = limits
        """The bounds on what one client may make it do."""
        self.redact: Final = redact
        """What takes out of log messages what clients must not see."""
        if not self.revisions:
            raise ValueError("a server has to speak at least one revision")
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
        """What the server offers now, by what is registered."""
        service = self._service
        tasks = None
        if service.tasks is not None:
            requests = ServerTaskRequests(tools=ToolTaskRequests(call={}))
            tasks = ServerTasksCapability(list={}, cancel={}, requests=requests)
        # Who answers the methods of something by himself offers it.
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
        """The life of the server, for as long as the block runs: its `lifespan`, and what it does in the background.

        `serve_stdio`, `serve_http` and `serve_stream` begin it by themselves. Use it around several of them that shall
        have one life, and where the endpoint is mounted in an application whose host sends it no life-span events.
        It begins once: whoever comes later joins it, and the first waits for the others at its end.
        """
        return self._life.run()

    def connection(self) -> ServerConnection:
        """A new engine for one connection, for those who bring their own transport."""
        return self._connection(self.revisions)

    def _connection(self, revisions: tuple[Revision, ...], *, tells_apart: bool = True) -> ServerConnection:
        """An engine. `tells_apart`: whether a client can be shown what is its own, and nothing else."""
        service = self._service
        capabilities = self.capabilities
        if capabilities.tasks is not None and not tells_apart:
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
        identify: Identify | None = None,
        healthz: str | None = None,
        legacy_sse: bool = False,
    ) -> HttpEndpoint:
        """The server as an ASGI application, to be served by a host or mounted in another application.

        Args:
            path: Where the MCP endpoint is, relative to where the application is mounted; with or without a slash at its
                end, and nothing else is served.
            policy: What the endpoint allows: by default, to be called by a name of this machine only.
            store: Keeps the sessions of legacy clients, so that they survive a restart; by default they are kept in memory.
                It is not closed here.
            auth: Lets in who has an access token for this server.
            identify: Says who sends a request, by its headers, where that is known by other means: a `Principal`, a name, or
                `None` for nobody in particular. It raises `AccessDenied` for whom it does not let in. With either of the
                two, sessions, tasks and the state of requests can be used only by whom they were made for.
            healthz: A path that answers `GET` with 200 while the server takes requests, for load balancers.
            legacy_sse: Whether to serve clients of 2024-11-05 too, whose transport is a pair of endpoints of its own:
                `/sse` and `/messages`.

        Returns:
            The application. It needs no life-span events; `drain` ends it gracefully.
        """
        from mcp_core.http.endpoint_policy import EndpointPolicy  # lazy: a server over stdio needs none of it
        from mcp_server.connection.authenticator import Gate, NamedGate  # lazy: likewise
        from mcp_server.stores.memory.sessions import MemoryStore  # lazy: likewise
        from mcp_server.transports.http.endpoint import HttpEndpoint  # lazy: likewise
        from mcp_server.transports.http.sse_2024 import SsePair  # lazy: likewise

        where = f"the endpoint of {self.info.name!r}"
        check_kinds(
            where,
            path=(path, str),
            policy=(policy, EndpointPolicy),
            identify=(identify, Callable),
            healthz=(healthz, str),
        )
        if auth is not None and not isinstance(auth, Gate):
            raise RegistrationError(f"{where}: `auth` takes ResourceServer, not {auth!r}")
        if auth is not None and identify is not None:
            raise ValueError("auth and identify both say who sends a request: give one of them")
        gate = auth if identify is None else NamedGate(identify)
        policy = policy or EndpointPolicy()
        pair = None
        if legacy_sse:
            legacy = tuple(revision for revision in self.revisions if revision.era is Era.LEGACY)
            if not legacy:
                raise ValueError("legacy_sse is for clients of a legacy revision, but this server speaks none")
            pair = SsePair(self._service, lambda: self._connection(legacy), policy, self.limits)
        return HttpEndpoint(
            self._service,
            partial(self._template, tells_apart=gate is not None),
            self.revisions,
            path=path,
            policy=policy,
            limits=self.limits,
            store=store or MemoryStore(limits=self.limits, budget=self._service.budget),
            gate=gate,
            healthz=healthz,
            pair=pair,
        )

    def _template(self, *, tells_apart: bool) -> Template:
        """What the engines of HTTP exchanges have in common; made anew when something was registered."""
        registered = self._service.registered
        made = self._made.get(tells_apart)
        if made is None or made[0] != registered:
            from mcp_core.http.routing_headers import name_params  # lazy: a server over stdio needs none of it
            from mcp_server.transports.http.endpoint import Template  # lazy: likewise

            names = name_params([*METHODS, *self._service.methods.values()])
            connection = self._connection(self.revisions, tells_apart=tells_apart)
            made = self._made[tells_apart] = registered, Template(connection=connection, names=names)
        return made[1]

    def offered(self) -> dict[str, tuple[WireObject, ...]]:
        """All tools, resources, templates and prompts as they are listed, by the name of their kind."""
        service = self._service
        return {
            "tools": service.tools.listed,
            "resources": service.resources.listed,
            "resource_templates": service.resources.listed_templates,
            "prompts": service.prompts.listed,
        }
