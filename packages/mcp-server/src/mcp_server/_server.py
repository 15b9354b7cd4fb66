"""A server: what it offers, in decorators. Spec: server/"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, Unpack, overload

from mcp_core.engine.connection import Extensions
from mcp_core.engine.server import ServerConnection
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.methods import (
    INITIALIZE,
    LOGGING_SET_LEVEL,
    METHODS,
    NOTIFICATIONS_RESOURCES_UPDATED,
    PING,
    SERVER_DISCOVER,
)
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.types import Implementation, ResourceUpdatedNotificationParams, ServerCapabilities
from mcp_server._errors import RegistrationError
from mcp_server._hints import Function as AnyFunction
from mcp_server._run import is_async
from mcp_server._seal import InputPolicy
from mcp_server._service import ServerService
from mcp_server._signature import label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp_core.http.policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import Method
    from mcp_core.types import Icon, WireObject
    from mcp_server._answering import Call
    from mcp_server._context import Context
    from mcp_server._http_endpoint import HttpEndpoint, Identify, Template
    from mcp_server._options import PromptOptions, ResourceOptions, ToolOptions
    from mcp_server._stores import SessionStore

__all__ = ["Server"]

F = TypeVar("F", bound=AnyFunction)
P = TypeVar("P")
R = TypeVar("R")

_OURS: Final = frozenset({INITIALIZE, PING, SERVER_DISCOVER, LOGGING_SET_LEVEL})
"""What the connection itself answers, since it has to know of it."""


class Server:
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

    Raises:
        ValueError: It is to speak no revision at all.
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
    ) -> None:
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
        if not self.revisions:
            raise ValueError("a server has to speak at least one revision")
        self._methods: dict[str, Method[object, object]] = {}
        self._made: tuple[int, Template] | None = None
        self._service: Final = ServerService(self, input_policy or InputPolicy())

    def __repr__(self) -> str:
        return f"<Server {self.info.name} {self.info.version}>"

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server offers now, by what is registered."""
        service = self._service
        extensions: dict[str, JsonObject] = {
            row.extension: {} for row in self._methods.values() if row.extension is not None
        }
        return ServerCapabilities(
            tools=service.tools.capability,
            resources=service.resources.capability,
            prompts=service.prompts.capability,
            completions=service.completions.capability,
            logging={},
            extensions=extensions or None,
        )

    def connection(self) -> ServerConnection:
        """A new engine for one connection, for those who bring their own transport."""
        return self._connection(self.revisions)

    def _connection(self, revisions: tuple[Revision, ...]) -> ServerConnection:
        return ServerConnection(
            self.info,
            self.capabilities,
            revisions=revisions,
            instructions=self.instructions,
            limits=self.limits,
            extensions=Extensions(methods=dict(self._methods)),
        )

    def asgi(
        self,
        *,
        path: str = "/mcp",
        policy: EndpointPolicy | None = None,
        store: SessionStore | None = None,
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
            identify: Says who sends a request, by its headers: a name, or `None` for nobody in particular. A session, and
                the state of a request, can be used only by whom they were made for. It raises `AccessDenied` for whom it
                does not let in.
            healthz: A path that answers `GET` with 200 while the server takes requests, for load balancers.
            legacy_sse: Whether to serve clients of 2024-11-05 too, whose transport is a pair of endpoints of its own:
                `/sse` and `/messages`.

        Returns:
            The application. It needs no life-span events; `drain` ends it gracefully.
        """
        from mcp_core.http.policy import EndpointPolicy  # lazy: a server over stdio needs none of it
        from mcp_server._http_endpoint import HttpEndpoint  # lazy: likewise
        from mcp_server._http_sse_2024 import SsePair  # lazy: likewise
        from mcp_server._store_memory import MemoryStore  # lazy: likewise

        policy = policy or EndpointPolicy()
        pair = None
        if legacy_sse:
            legacy = tuple(revision for revision in self.revisions if revision.era is Era.LEGACY)
            if not legacy:
                raise ValueError("legacy_sse is for clients of a legacy revision, but this server speaks none")
            pair = SsePair(self._service, lambda: self._connection(legacy), policy, self.limits)
        return HttpEndpoint(
            self._service,
            self._template,
            self.revisions,
            path=path,
            policy=policy,
            limits=self.limits,
            store=store or MemoryStore(limits=self.limits),
            identify=identify,
            healthz=healthz,
            pair=pair,
        )

    def _template(self) -> Template:
        """What the engines of HTTP exchanges have in common; made anew when something was registered."""
        registered = self._service.registered
        if self._made is None or self._made[0] != registered:
            from mcp_core.http.headers import name_params  # lazy: a server over stdio needs none of it
            from mcp_server._http_endpoint import Template  # lazy: likewise

            names = name_params([*METHODS, *self._methods.values()])
            self._made = registered, Template(connection=self.connection(), names=names)
        return self._made[1]

    def offered(self) -> dict[str, tuple[WireObject, ...]]:
        """All tools, resources, templates and prompts as they are listed, by the name of their kind."""
        service = self._service
        return {
            "tools": service.tools.listed,
            "resources": service.resources.listed,
            "resource_templates": service.resources.listed_templates,
            "prompts": service.prompts.listed,
        }

    # --- tools -----------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: AnyFunction | None = None, /, **options: Unpack[ToolOptions]) -> object:
        """Registers a function as a tool: `@server.tool` or `@server.tool(...)`. See `add_tool`."""

        def register(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return register if function is None else register(function)

    def add_tool(self, function: AnyFunction, **options: Unpack[ToolOptions]) -> None:
        """Registers a function as a tool. Clients are told that the list has changed.

        The schemas follow from the signature, the descriptions from the docstring. A parameter that is annotated with
        `Context` gets the context. The function raises `ToolError` for a failure that the model should read.

        Args:
            function: The function.
            **options: See `ToolOptions`.

        Raises:
            RegistrationError: It cannot be a tool; the error says why.
        """
        self._service.tools.add(function, **options)

    def remove_tool(self, name: str) -> None:
        """Takes a tool away. Clients are told. Raises `RegistrationError` when there is none of that name."""
        self._service.tools.remove(name)

    # --- resources -------------------------------------------------------------------------------------------------

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Registers a function as a resource, or, when the URI has variables, as a template. See `add_resource`."""

        def register(function: F) -> F:
            self.add_resource(function, uri, **options)
            return function

        return register

    def add_resource(self, function: AnyFunction, uri: str, **options: Unpack[ResourceOptions]) -> None:
        """Registers a function that reads a resource. Clients are told that the list has changed.

        It returns a text, bytes, `File`, `Image`, `Audio`, the contents as the specification has them, a list of these,
        or anything else, which is written as JSON.

        Args:
            function: The function; its parameters are the variables of the template.
            uri: The URI, or a template by RFC 6570, as `city://{name}/climate`.
            **options: See `ResourceOptions`.

        Raises:
            RegistrationError: It cannot be a resource; the error says why.
        """
        self._service.resources.add(function, uri, **options)

    def remove_resource(self, uri: str) -> None:
        """Takes a resource or template away. Clients are told. Raises `RegistrationError` when there is none."""
        self._service.resources.remove(uri)

    def resource_updated(self, uri: str) -> None:
        """Tells those who subscribed to a resource that it has changed. Never waits; call it from any trio task."""
        self._service.publish(NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams(uri=uri), uri)

    # --- prompts ---------------------------------------------------------------------------------------------------

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: AnyFunction | None = None, /, **options: Unpack[PromptOptions]) -> object:
        """Registers a function as a prompt: `@server.prompt` or `@server.prompt(...)`. See `add_prompt`."""

        def register(function: F) -> F:
            self.add_prompt(function, **options)
            return function

        return register if function is None else register(function)

    def add_prompt(self, function: AnyFunction, **options: Unpack[PromptOptions]) -> None:
        """Registers a function as a prompt. Clients are told that the list has changed.

        It returns a text, which the user says; a content block; a `PromptMessage`; a list of these; or `GetPromptResult`.

        Args:
            function: The function; its parameters are the arguments of the prompt.
            **options: See `PromptOptions`.

        Raises:
            RegistrationError: It cannot be a prompt; the error says why.
        """
        self._service.prompts.add(function, **options)

    def remove_prompt(self, name: str) -> None:
        """Takes a prompt away. Clients are told. Raises `RegistrationError` when there is none of that name."""
        self._service.prompts.remove(name)

    # --- the rest --------------------------------------------------------------------------------------------------

    def completion(
        self, *, argument: str, prompt: str | None = None, resource: str | None = None, thread: bool | None = None
    ) -> Callable[[F], F]:
        """Registers a function that completes an argument of a prompt, or a variable of a template.

        It takes what was typed so far, and, where it has such parameters, `arguments` (a dict of what is filled in
        already) and a `Context`. It returns a list of texts, the best first; at most 100 of them are sent.

        Args:
            argument: The argument.
            prompt: The name of the prompt, which has to be registered before.
            resource: The template, which has to be registered before.
            thread: Whether a plain function runs in a worker thread; it does by default.

        Returns:
            The decorator; it returns the function unchanged.

        Raises:
            RegistrationError: There is no such argument, or the function takes something else.
        """

        def register(function: F) -> F:
            self._service.completions.add(function, prompt=prompt, resource=resource, argument=argument, thread=thread)
            self._service.registered += 1
            return function

        return register

    def method(
        self, row: Method[P, R]
    ) -> Callable[
        [Callable[[P, Context], Awaitable[R | JsonObject]]], Callable[[P, Context], Awaitable[R | JsonObject]]
    ]:
        """Registers a coroutine function for a whole method: one of an extension, or instead of what is there.

        It takes the parameters, an instance of `row.params`, and the context, and returns an instance of `row.result`,
        or the result in its wire form. For an error it raises `RequestFailed`.

        Args:
            row: The method. When it names an extension, the server declares that extension.

        Returns:
            The decorator; it returns the function unchanged.

        Raises:
            RegistrationError: The method is a part of the connection itself, or the function is no coroutine function.
        """

        def register(
            function: Callable[[P, Context], Awaitable[R | JsonObject]],
        ) -> Callable[[P, Context], Awaitable[R | JsonObject]]:
            if row in _OURS:
                raise RegistrationError(f"{row.name} cannot be replaced: the connection has to answer it")
            if not is_async(function):
                raise RegistrationError(
                    f"{label(function)}: what answers a method is a coroutine function; write `async def`"
                )

            async def handle(call: Call) -> object:
                # The engine has made the parameters by the row.
                params: P = call.request.params  # type: ignore[assignment]  # the engine reads them by the row
                context = self._service.context(call)
                try:
                    return await function(params, context)
                finally:
                    context._end()  # noqa: SLF001  # not for the users of a context

            self._service.handlers[row.name] = handle
            self._service.registered += 1
            if row not in METHODS:
                self._methods[row.name] = row
            return function

        return register
