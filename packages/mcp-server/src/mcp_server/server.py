"""A server of the Model Context Protocol. Spec: server/"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, Unpack, overload

import attrs

from mcp_core.engine.server import ServerConnection
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED
from mcp_core.middleware import Middleware
from mcp_core.revisions import REVISIONS, Era, Revision
from mcp_core.schema.annotations import Function as AnyFunction
from mcp_core.trio.owner_task import enterable_from_asyncio
from mcp_core.types import (
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ResourceUpdatedNotificationParams,
    ServerCapabilities,
    ServerTaskRequests,
    ServerTasksCapability,
    ToolsCapability,
    ToolTaskRequests,
)
from mcp_server.cache_hint import CacheHint
from mcp_server.connection.sealer import InputPolicy, KeyRing
from mcp_server.errors import RegistrationError
from mcp_server.features.tasks.policy import TaskPolicy
from mcp_server.handlers.access import Guard
from mcp_server.handlers.dependencies import Provider
from mcp_server.handlers.environment import HandlerEnvironment
from mcp_server.handlers.middleware import MiddlewareChain
from mcp_server.lifespan import LifespanRunner
from mcp_server.options import check_async_library, check_kinds, check_listed, check_text
from mcp_server.service import ServerService
from mcp_server.stderr_log import show_warnings

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.schema.hooks import HookConverter
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_core.types import Icon, WireObject
    from mcp_server.auth import ResourceServer
    from mcp_server.cluster import Cluster
    from mcp_server.connection.authenticator import Authenticate
    from mcp_server.features.proxy import RemoteServer
    from mcp_server.handlers.access import Access
    from mcp_server.handlers.context import Context
    from mcp_server.observation import RequestObserver
    from mcp_server.openapi import Expose, HttpClient
    from mcp_server.openapi.document import OperationDocument
    from mcp_server.options import PromptOptions, ResourceOptions, ToolOptions
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.endpoint import HttpEndpoint

__all__ = ["Lifespan", "Server"]

F = TypeVar("F", bound=AnyFunction)
P = TypeVar("P")
R = TypeVar("R")

Lifespan: TypeAlias = "Callable[[Server], AbstractAsyncContextManager[object]]"
"""Function that returns the context manager of the server's state, for example a pool of database connections."""


def _check_name(kind: str, name: str, option: str | None) -> None:
    """Raise `RegistrationError` if a decorator has a second name."""
    if option is not None:
        raise RegistrationError(f"@server.{kind}({name!r}, name={option!r}) has two names: pass one of them")


class Server:
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
        converter: A `cattrs.Converter` whose hooks load and dump classes of the author. The annotations of a hook declare
            the JSON form of its class.
        async_library: The async library that the coroutine functions are written for, `asyncio` or `trio`: handlers,
            providers, `lifespan`, `access`, `authenticate` and middleware. By default that of the host: asyncio under
            uvicorn and in `asyncio.run`, trio under `trio.run`. A handler can have its own (`ToolOptions.async_library`).

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
        converter: HookConverter | None = None,
        async_library: AsyncLibrary | None = None,
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
        layers = tuple(middleware)
        for layer in layers:
            check_kinds(f"the server {name!r}", middleware=(layer, Middleware))
        check_async_library(f"the server {name!r}", async_library)
        check_listed(f"the server {name!r}", self.info)
        policy = input_policy or InputPolicy()
        environment = HandlerEnvironment(
            server=self,
            limits=limits,
            guard=Guard(access, async_library),
            input_policy=policy,
            keys=KeyRing(policy.keys),
            budget=MemoryBudget(limits.total_bytes),
            middleware=MiddlewareChain(layers, async_library),
            life=LifespanRunner(self.info, None if lifespan is None else partial(lifespan, self), async_library),
            redact=redact,
            cache=cache,
            converter=converter,
            async_library=async_library,
        )
        self._service: Final = ServerService(environment, self.connection, tasks)

    @classmethod
    def from_openapi(
        cls,
        document: Mapping[str, object],
        *,
        client: HttpClient,
        expose: Expose | None = None,
        names: Mapping[str, str] | None = None,
    ) -> Server:
        """Return a server of an HTTP API: its operations are tools, or resources. See `add_openapi` for the arguments.

        The server has the title, the version and the description of the document. To choose them, or to set other
        options, create a server and call `add_openapi`.

        Raises:
            RegistrationError: As `add_openapi`.
        """
        from mcp_server.openapi.document import OperationDocument  # lazy: few servers need it

        read = OperationDocument(document)
        server = cls(read.title, version=read.version, instructions=read.description)
        server._add_operations(read, client, expose, names)  # the same class
        return server

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
        completions = service.completion_capability
        # A replaced method declares the capability of its feature.
        has = service.methods.replaced.__contains__
        return ServerCapabilities(
            tasks=tasks,
            tools=service.tools.capability or (ToolsCapability() if has("tools") else None),
            resources=service.resources.capability or (ResourcesCapability() if has("resources") else None),
            prompts=service.prompts.capability or (PromptsCapability() if has("prompts") else None),
            completions={} if completions is None and has("completions") else completions,
            logging={},
            extensions=dict(service.methods.extensions) or None,
        )

    def add_middleware(self, middleware: Middleware) -> None:
        """Add middleware for all messages, around that of the constructor.

        Raises:
            RegistrationError: It is no `Middleware`.
        """
        check_kinds(f"the server {self.info.name!r}", middleware=(middleware, Middleware))
        self._service.environment.middleware.add_outermost(middleware)

    @property
    def has_state_keys(self) -> bool:
        """Whether the keys of request states were given, so that other processes of this server can have them."""
        return self._service.environment.keys.shared

    def use_state_keys(self, keys: Sequence[bytes]) -> None:
        """Use these keys for request states and cursors, instead of `InputPolicy.keys`, also in mounted servers.

        Args:
            keys: The keys, as in `InputPolicy.keys`: each at least 32 random bytes. The first key seals, all keys unseal.

        Raises:
            ValueError: A key is too short.
        """
        self._service.use_state_keys(InputPolicy(keys=keys).keys)

    # --- tools -----------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, name: str | None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: AnyFunction | str | None = None, /, **options: Unpack[ToolOptions]) -> object:
        """Register a function as a tool, as `add_tool` does.

        Use `@server.tool`, `@server.tool(...)` with options, or `@server.tool("name", ...)`.
        """
        if isinstance(function, str):
            _check_name("tool", function, options.get("name"))
            options["name"] = function
            function = None
        elif not (function is None or callable(function)):
            raise RegistrationError(f"@server.tool takes the name of the tool, which is a string, not {function!r}")

        def register(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return register if function is None else register(function)

    def add_tool(self, function: AnyFunction, **options: Unpack[ToolOptions]) -> None:
        """Register a function as a tool, and notify clients that the list has changed.

        The schemas are derived from the signature, and the descriptions from the docstring. A parameter that is
        annotated with `Context` receives the context. The function raises `ToolError` for a failure that the model
        should read.

        Args:
            function: The function.
            **options: The options, as in `ToolOptions`.

        Raises:
            RegistrationError: The function cannot be a tool. The message contains the reason.
        """
        self._service.tools.add(function, **options)

    def remove_tool(self, name: str) -> None:
        """Remove a tool and notify clients. Raises `RegistrationError` if there is no tool with this name."""
        self._service.tools.remove(name)

    # --- resources -------------------------------------------------------------------------------------------------

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource, or as a template if the URI has variables, as `add_resource` does.

        Raises:
            RegistrationError: The URI is missing: `@server.resource` needs it.
        """
        if not isinstance(uri, str):
            # Without the check, `@server.resource` would replace the function and register nothing.
            raise RegistrationError(
                f'@server.resource takes the URI: write @server.resource("note://{{id}}"), not {uri!r}'
            )

        def register(function: F) -> F:
            self.add_resource(function, uri, **options)
            return function

        return register

    def add_resource(self, function: AnyFunction, uri: str, **options: Unpack[ResourceOptions]) -> None:
        """Register a function that reads a resource, and notify clients that the list has changed.

        The function returns a string, bytes, `File`, `Image`, `Audio`, the contents as in the specification, or a list
        of these. Any other value is encoded as JSON.

        Args:
            function: The function. Its parameters are the variables of the template.
            uri: The URI, or a template of RFC 6570, for example `city://{name}/climate`.
            **options: The options, as in `ResourceOptions`.

        Raises:
            RegistrationError: The function cannot be a resource. The message contains the reason.
        """
        self._service.resources.add(function, uri, **options)

    def add_directory(
        self,
        path: str | os.PathLike[str],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Iterable[Icon] = (),
        hidden: bool = False,
    ) -> None:
        """Register the files of a directory and its subdirectories as resources, and notify clients of the change.

        Each file is listed with its size, its media type and the time of its last change. A worker thread reads it when
        a client requests it. A template covers files that are not listed (`Limits.listed_files`). Files outside of the
        directory cannot be read: links are not followed, and only regular files are opened. To notify clients that a
        file has changed, call `resource_updated`.

        Args:
            path: The directory. If it is a link, this method follows it once.
            uri: Prefix of the URIs of the files, for example `docs://handbook/`. It ends with a slash.
            name: Name of the template; the URI by default.
            title: Name of the template for users.
            description: Description of the files, for the model.
            icons: Icons of the template.
            hidden: Whether to include files and directories whose names begin with a dot.

        Raises:
            RegistrationError: The directory does not exist, or the URI cannot be a prefix of others.
        """
        self._service.resources.add_directory(
            path, uri, name=name, title=title, description=description, icons=icons, hidden=hidden
        )

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, template or directory and notify clients. Raises `RegistrationError` if it is unknown."""
        self._service.resources.remove(uri)

    def resource_updated(self, uri: str) -> None:
        """Notify the subscribers of a resource that it has changed.

        Does not wait for clients. Call it from any task or thread.
        """
        self._service.publish(NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams(uri=uri), uri)

    # --- prompts ---------------------------------------------------------------------------------------------------

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, name: str | None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: AnyFunction | str | None = None, /, **options: Unpack[PromptOptions]) -> object:
        """Register a function as a prompt, as `add_prompt` does.

        Use `@server.prompt`, `@server.prompt(...)` with options, or `@server.prompt("name", ...)`.
        """
        if isinstance(function, str):
            _check_name("prompt", function, options.get("name"))
            options["name"] = function
            function = None
        elif not (function is None or callable(function)):
            raise RegistrationError(f"@server.prompt takes the name of the prompt, which is a string, not {function!r}")

        def register(function: F) -> F:
            self.add_prompt(function, **options)
            return function

        return register if function is None else register(function)

    def add_prompt(self, function: AnyFunction, **options: Unpack[PromptOptions]) -> None:
        """Register a function as a prompt, and notify clients that the list has changed.

        The function returns a string (a user message), a content block, a `PromptMessage`, a list of these, or
        `GetPromptResult`.

        Args:
            function: The function. Its parameters are the arguments of the prompt.
            **options: The options, as in `PromptOptions`.

        Raises:
            RegistrationError: The function cannot be a prompt. The message contains the reason.
        """
        self._service.prompts.add(function, **options)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and notify clients. Raises `RegistrationError` if there is no prompt with this name."""
        self._service.prompts.remove(name)

    # --- OpenAPI ---------------------------------------------------------------------------------------------------

    def add_openapi(
        self,
        document: Mapping[str, object],
        *,
        client: HttpClient,
        expose: Expose | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Register the operations of an HTTP API that an OpenAPI document describes.

        The arguments of a tool are the parameters of the operation, and `body` is its request body. The model sees the
        responses of the API, error responses too. Operations that cannot be called are logged and omitted.

        Args:
            document: The parsed document, of OpenAPI 3.1 or 3.0.
            client: An `httpx.AsyncClient`. It sends the credentials, and the caller closes it. Requests go to its
                `base_url`, or without one to the first server of the document.
            expose: Function that receives each `mcp_server.openapi.Operation`. It returns "tool" or "resource", or
                `None` to omit the operation. By default each operation is a tool. Only a `GET` operation can be a
                resource; its URI is `openapi://`, the name of this server and the path.
            names: Names of tools and resources by the `operationId`, or by the method and the path (`GET /users/{id}`).
                By default the name is the `operationId`.

        Raises:
            RegistrationError: It is not such a document, the URL of the API is unknown, a name is invalid, taken or that
                of no operation, or `expose` returned another value.
        """
        from mcp_server.openapi.document import OperationDocument  # lazy: few servers need it

        self._add_operations(OperationDocument(document), client, expose, names)

    def _add_operations(
        self, document: OperationDocument, client: HttpClient, expose: Expose | None, names: Mapping[str, str] | None
    ) -> None:
        from mcp_server.openapi.registration import add_operations  # lazy: few servers need it

        add_operations(
            self, document, client=client, authority=self.info.name, expose=expose, names={} if names is None else names
        )

    # --- completions, methods, mounts, extensions ------------------------------------------------------------------

    def completion(
        self, *, argument: str, prompt: str | None = None, resource: str | None = None, thread: bool | None = None
    ) -> Callable[[F], F]:
        """Register a function that completes an argument of a prompt or a variable of a template.

        The function receives the text that the user has typed. If it has such parameters, it also receives `arguments`
        (a dict of the values that are already set) and a `Context`. It returns a list of strings, the best first. The
        server sends at most 100 of them and their total number. If more values exist than the function lists, it
        returns a `Completion` or `CompleteResult`.

        Args:
            argument: The argument or variable.
            prompt: The name of a registered prompt.
            resource: The URI template of a registered template.
            thread: Whether a plain function runs in a worker thread, which is the default.

        Returns:
            The decorator. It returns the function unchanged.

        Raises:
            RegistrationError: There is no such argument, or the function has other parameters.
        """

        def register(function: F) -> F:
            self._service.completions.add(function, prompt=prompt, resource=resource, argument=argument, thread=thread)
            self._service.registered += 1
            return function

        return register

    def method(
        self, definition: RequestMethod[P, R]
    ) -> Callable[
        [Callable[[P, Context], Awaitable[R | JsonObject]]], Callable[[P, Context], Awaitable[R | JsonObject]]
    ]:
        """Register a coroutine function as the handler of a method: an extension method, or one to replace.

        The function receives the parameters, an instance of `row.params`, and the context. It returns an instance of
        `row.result`, or the result in its wire form. It raises `RequestFailed` to send an error.

        Args:
            definition: The method. If it names an extension, the server declares that extension.

        Returns:
            The decorator. It returns the function unchanged.

        Raises:
            RegistrationError: The engine handles the method itself, or the function is not a coroutine function.
        """

        def register(
            function: Callable[[P, Context], Awaitable[R | JsonObject]],
        ) -> Callable[[P, Context], Awaitable[R | JsonObject]]:
            self._service.methods.add(definition, function)
            self._service.registered += 1
            return function

        return register

    def notification(self, definition: NotificationMethod[P]) -> Callable[[Callable[[P], None]], Callable[[P], None]]:
        """Register a function that handles a notification of clients, of an extension or of the specification.

        The function receives the parameters, an instance of `row.params`. The reader calls it, so it must be a plain
        function and must not block. Its exceptions are logged.

        Args:
            definition: The notification.

        Returns:
            The decorator. It returns the function unchanged.

        Raises:
            RegistrationError: The function is a coroutine function, the notification already has a function, or clients
                do not send the notification.
        """

        def register(function: Callable[[P], None]) -> Callable[[P], None]:
            self._service.methods.add_notification(definition, function)
            self._service.registered += 1
            return function

        return register

    def mount(self, other: Server, *, prefix: str | None = None) -> None:
        """Mount another server on this one, with everything that it offers now and later.

        Its tools and prompts are called `prefix_name` on this server. Resources keep their URIs. Names registered on
        this server take precedence. The other server handles its requests with its own middleware. Its `lifespan` runs
        within that of this server.

        Args:
            other: The server.
            prefix: Prefix of its names; `None` leaves the names unchanged.

        Raises:
            RegistrationError: The prefix is invalid or ambiguous with another prefix. The other server has tools that
                run as tasks, or its own `access` function. It is this server, or this server is mounted on it. Or it
                has a `lifespan` that cannot start, because this server is already running.
        """
        if not isinstance(other, Server):
            raise RegistrationError(f"mount accepts a server, not {other!r}; see also mount_remote")
        if prefix is not None:
            check_text("a prefix", prefix)
        self._service.mount(other._service, prefix)  # the same class

    def mount_remote(self, remote: RemoteServer, *, prefix: str) -> None:
        """Mount the server of a client connection on this server, as a proxy.

            async with open_http("https://notes.example/mcp") as notes:
                server.mount_remote(notes, prefix="notes")
                await serve_stdio(server)

        Names are formed as by `mount`. This server forwards the results of the other server unchanged. Client requests
        of the other server go to the handlers of that client, not to the clients of this server. While this server
        runs, it forwards list change notifications, but not updates of single resources.

        Args:
            remote: The connection to the other server, for example an `mcp_client.Client`.
            prefix: Prefix of its names.

        Raises:
            RegistrationError: The prefix is invalid or ambiguous with another prefix.
        """
        check_text("a prefix", prefix)
        self._service.mount_remote(remote, prefix)

    @contextmanager
    def override(self, provider: AnyFunction, replacement: AnyFunction) -> Iterator[None]:
        """Replace the provider of a dependency during the block, for tests.

        Args:
            provider: The function that `Depends` names.
            replacement: The function to call instead, of the kinds that `Depends` accepts.

        Raises:
            RegistrationError: The replacement cannot be a provider.
        """
        Provider(replacement)
        overrides = self._service.environment.overrides
        before = overrides.get(provider)
        overrides[provider] = replacement
        try:
            yield
        finally:
            if before is None:
                del overrides[provider]
            else:
                overrides[provider] = before

    def extension(
        self,
        identifier: str,
        settings: JsonObject | None = None,
        *,
        sends: Iterable[RequestMethod[object, object] | NotificationMethod[object]] = (),
    ) -> None:
        """Declare that the server supports an extension. Spec: basic/index#extension-negotiation (2026-07-28)

        `method` declares the extension of a method automatically, without settings.

        Args:
            identifier: Identifier of the extension, for example `com.example/search`.
            settings: Settings of the extension; an empty object by default.
            sends: Requests and notifications of the extension that this server sends, with `Context.ask` and
                `Context.notify`.

        Raises:
            RegistrationError: The identifier is not a reversed domain, a slash and a name. Or a method in `sends`
                belongs to the specification, or only clients send it.
        """
        self._service.methods.declare(identifier, settings, sends)
        self._service.registered += 1

    # --- serving ---------------------------------------------------------------------------------------------------

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the lifespan of the server during the block: its `lifespan` and its background tasks.

        `serve_stdio`, `serve_http` and `serve_stream` run it automatically. Use this method around several of them to
        share one lifespan, or if the endpoint is mounted in an application whose host does not send lifespan events to
        it. The lifespan starts once. Later blocks join it, and the first block waits for them when it ends.
        """
        show_warnings()
        return enterable_from_asyncio(self._service.life.run, f"lifespan of {self.info.name}")

    def join(self, cluster: Cluster | None) -> None:
        """Connect the server to the other workers of its deployment. `None` and the present cluster change nothing.

        `serve_http(server, cluster=...)` and `server.asgi(cluster=...)` call it. Call it yourself before you enter
        `running`.

        Args:
            cluster: The cluster. The caller closes it.

        Raises:
            RegistrationError: The server is running, or has joined another cluster.
        """
        if cluster is not None:
            self._service.join(cluster)

    def connection(self) -> ServerConnection:
        """Return a new engine for one connection, for use with a custom transport."""
        return self._connection(self.revisions)

    def _connection(
        self, revisions: tuple[Revision, ...], *, authenticated: bool = True, notify_changes: bool = True
    ) -> ServerConnection:
        """Return a new engine.

        Args:
            revisions: The revisions.
            authenticated: Whether clients are authenticated, and so can list their own tasks.
            notify_changes: Whether to declare that clients are notified of changes.
        """
        capabilities = self.capabilities
        if not notify_changes:
            capabilities = attrs.evolve(
                capabilities,
                tools=capabilities.tools and ToolsCapability(),
                resources=capabilities.resources and ResourcesCapability(),
                prompts=capabilities.prompts and PromptsCapability(),
            )
        if capabilities.tasks is not None and not authenticated:
            capabilities = attrs.evolve(capabilities, tasks=attrs.evolve(capabilities.tasks, list=None))
        return ServerConnection(
            self.info,
            capabilities,
            revisions=revisions,
            instructions=self.instructions,
            limits=self.limits,
            extensions=self._service.methods.known(),
        )

    def asgi(
        self,
        *,
        path: str = "/mcp",
        policy: EndpointPolicy | None = None,
        store: SessionStore | None = None,
        cluster: Cluster | None = None,
        auth: ResourceServer | None = None,
        authenticate: Authenticate | None = None,
        healthz: str | None = None,
        readyz: str | None = None,
        legacy_sse: bool = False,
        notify_changes: bool = True,
        observers: Iterable[RequestObserver] = (),
    ) -> HttpEndpoint:
        """Return the server as an ASGI application, for a host or for mounting in another application.

        Args:
            path: Path of the MCP endpoint, relative to the mount point of the application. A trailing slash is
                optional. Other paths are not served.
            policy: Policy of the endpoint. By default, requests must use a host name of this machine.
            store: Stores the sessions of legacy clients, so that they survive a restart; by default they are stored in
                memory, or in the cluster. The caller closes it.
            cluster: Connects this process to the other workers of the deployment, so that each of them can serve each
                request. The caller closes it. Clients then reach any worker through a plain load balancer.
            auth: Authenticates clients by access tokens for this server.
            authenticate: Function that authenticates a request by its headers, if clients do not use access tokens. It
                returns a `Principal`, a name, or `None` for an anonymous client. It raises `AccessDenied` to reject the
                request. With `auth` or `authenticate`, only the principal that created a session, task or request state can
                use it.
            healthz: Path that responds with status 200 while the process is alive.
            readyz: Path that responds with status 200 while the server accepts requests and its stores respond, and with
                503 otherwise, for load balancers. Both paths need no authorization.
            legacy_sse: Whether to serve clients of revision 2024-11-05 too. Their transport has two endpoints: `/sse`
                and `/messages`.
            notify_changes: Whether the server declares that it notifies clients of changes. Set it to `False` if several
                processes serve the same clients, and each knows only its own changes.
            observers: Are informed of each request, for example an `AccessLog`.

        Returns:
            The application. It does not need lifespan events. `drain` stops it gracefully.

        Raises:
            ValueError: `auth` and `authenticate` are both set, or `store` and a shared cluster are both set, or `legacy_sse` is set but no
                revision is supported.
            RegistrationError: An argument has the wrong type, or the server is running or has joined another cluster.
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
            readyz=(readyz, str),
        )
        if auth is not None and not isinstance(auth, Authenticator):
            raise RegistrationError(f"{where}: `auth` must be a ResourceServer, not {auth!r}")
        if auth is not None and authenticate is not None:
            raise ValueError("auth and authenticate are both set: set only one of them")
        authenticator = (
            auth
            if authenticate is None
            else CallableAuthenticator(authenticate, self._service.environment.async_library)
        )
        show_warnings()
        self.join(cluster)
        cluster = self._service.cluster
        if store is not None and cluster.is_shared:
            raise ValueError("`store` and `cluster` are both set: the workers of a cluster share its store of sessions")
        if auth is not None and cluster.is_shared:
            auth.replays = cluster.replays
        policy = policy or EndpointPolicy()
        pair = None
        if legacy_sse:
            legacy = tuple(revision for revision in self.revisions if revision.era is Era.LEGACY)
            if not legacy:
                raise ValueError("legacy_sse is for clients of legacy revisions, but this server supports none of them")
            pair = SsePair(self._service, lambda: self._connection(legacy), policy, self.limits)
        return HttpEndpoint(
            self._service,
            partial(
                self._connection,
                self.revisions,
                authenticated=authenticator is not None,
                notify_changes=notify_changes,
            ),
            self.revisions,
            path=path,
            policy=policy,
            limits=self.limits,
            store=store
            or (
                cluster.sessions if cluster.is_shared else MemoryStore(limits=self.limits, budget=self._service.budget)
            ),
            authenticator=authenticator,
            healthz=healthz,
            readyz=readyz,
            pair=pair,
            observers=observers,
        )

    def offered(self) -> dict[str, tuple[WireObject, ...]]:
        """Return all tools, resources, templates and prompts as they are listed, by kind."""
        service = self._service
        return {
            "tools": service.tools.listed,
            "resources": service.resources.listed,
            "resource_templates": service.resources.listed_templates,
            "prompts": service.prompts.listed,
        }
