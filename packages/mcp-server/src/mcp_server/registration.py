"""Registration of tools, resources, prompts and methods on a server. Spec: server/"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar, Unpack, cast, overload

from mcp_core.methods import (
    INITIALIZE,
    LOGGING_SET_LEVEL,
    METHODS,
    NOTIFICATIONS,
    NOTIFICATIONS_RESOURCES_UPDATED,
    PING,
    SERVER_DISCOVER,
    NotificationMethod,
    RequestMethod,
    Side,
)
from mcp_core.types import ResourceUpdatedNotificationParams
from mcp_server.errors import RegistrationError
from mcp_server.features.mounting import LocalServer
from mcp_server.handlers.dependencies import Provider
from mcp_server.handlers.runner import is_async
from mcp_server.options import check_text
from mcp_server.schema.annotations import Function as AnyFunction
from mcp_server.schema.signature import label

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import Icon
    from mcp_server.connection.channel import RequestContext
    from mcp_server.features.proxy import RemoteServer
    from mcp_server.handlers.context import Context
    from mcp_server.options import PromptOptions, ResourceOptions, ToolOptions
    from mcp_server.service import ServerService

__all__ = ["Registration"]

F = TypeVar("F", bound=AnyFunction)
P = TypeVar("P")
R = TypeVar("R")

_OURS: Final = frozenset({INITIALIZE, PING, SERVER_DISCOVER, LOGGING_SET_LEVEL})
"""Methods that the engine handles itself, because they change its state."""


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"

_IDENTIFIER: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The grammar of extension identifiers: a prefix as in keys of `_meta`, which is required, a slash and a name."""


class Registration:
    """The registration methods of a server.

    Args:
        service: The service that handles the requests.
    """

    def __init__(self, service: ServerService) -> None:
        self._service: Final = service

    # --- tools -----------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: AnyFunction | None = None, /, **options: Unpack[ToolOptions]) -> object:
        """Register a function as a tool: `@server.tool` or `@server.tool(...)`, as `add_tool` does."""

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
        """Register a function as a resource, or as a template if the URI has variables, as `add_resource` does."""

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

        Does not wait for clients. Call it from any trio task, or from a function that trio runs in a worker thread.
        From another thread, use `trio.from_thread.run_sync` with the trio token.
        """
        self._service.publish(NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams(uri=uri), uri)

    # --- prompts ---------------------------------------------------------------------------------------------------

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: AnyFunction | None = None, /, **options: Unpack[PromptOptions]) -> object:
        """Register a function as a prompt: `@server.prompt` or `@server.prompt(...)`, as `add_prompt` does."""

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
            if not isinstance(definition, RequestMethod):
                raise RegistrationError(f"{label(function)}: register a method with its definition, not {definition!r}")
            if definition in _OURS:
                raise RegistrationError(f"{definition.name} cannot be replaced: the engine handles it")
            if not is_async(function):
                raise RegistrationError(
                    f"{label(function)}: the handler of a method must be a coroutine function; write `async def`"
                )

            async def handle(call: RequestContext) -> object:
                # The engine converts the parameters to the class of the method.
                params: P = call.request.params  # type: ignore[assignment]  # the engine uses the class of the method
                context = self._service.context(call)
                try:
                    return await function(params, context)
                finally:
                    context._end()  # noqa: SLF001  # not part of the public interface

            service = self._service
            service.handlers[definition.name] = handle
            service.registered += 1
            if definition in METHODS:
                service.replaced.update((definition.server_capability or ())[:1])
            else:
                service.methods[definition.name] = definition
                if definition.extension is not None:
                    service.extensions.setdefault(definition.extension, {})
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
            service = self._service
            if not isinstance(definition, NotificationMethod):
                raise RegistrationError(
                    f"{label(function)}: register a notification with its definition, not {definition!r}"
                )
            if definition in NOTIFICATIONS and Side.CLIENT not in definition.sender:
                raise RegistrationError(f"{label(function)}: clients do not send {definition.name}, only servers do")
            if is_async(function) or not callable(cast("object", function)):
                raise RegistrationError(f"{label(function)}: the handler of a notification must not block; write `def`")
            if definition.name in service.listeners:
                raise RegistrationError(f"{label(function)}: {definition.name} already has a function")
            service.listeners[definition.name] = cast(
                "Callable[[object], None]", function
            )  # the engine uses the class of the notification
            service.registered += 1
            if definition not in NOTIFICATIONS:
                service.notifications[definition.name] = definition
            return function

        return register

    def mount(self, other: Registration, *, prefix: str | None = None) -> None:
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
        if not isinstance(other, Registration):
            raise RegistrationError(f"mount accepts a server, not {other!r}; see also mount_remote")
        if prefix is not None:
            check_text("a prefix", prefix)
        service, theirs = self._service, other._service
        if service in theirs.everywhere():
            raise RegistrationError(f"{theirs.name!r} cannot be mounted on {service.name!r}, which is a part of it")
        if theirs.guard.restricts:
            raise RegistrationError(
                f"{theirs.name!r} has its own `access` function: pass the function to {service.name!r} instead"
            )
        if theirs.tasks is not None:
            raise RegistrationError(
                f"{theirs.name!r} has tools that run as tasks: only the server that clients connect to can have them"
            )
        if service.life.running and theirs.life.needed and not theirs.life.running:
            raise RegistrationError(
                f"{theirs.name!r} has a `lifespan` that starts with that of {service.name!r}, which is running: mount it"
                " before, or in a block of `async with other.running():`"
            )
        service.mounts.add(LocalServer(theirs), prefix)
        theirs.mounted_on.append(service)
        service.life.parts.append(theirs.life)
        service.tools_changed()
        service.resources_changed()
        service.prompts_changed()

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
        from mcp_server.features.proxy import ProxiedServer  # lazy: few servers are proxies

        check_text("a prefix", prefix)
        service = self._service
        proxied = ProxiedServer(remote, service)
        service.mounts.add(proxied, prefix)
        service.life.work(proxied.follow)
        service.tools_changed()
        service.resources_changed()
        service.prompts_changed()

    @contextmanager
    def override(self, provider: AnyFunction, replacement: AnyFunction) -> Iterator[None]:
        """Replace the provider of a dependency during the block, for tests.

        Args:
            provider: The function that `Depends` names.
            replacement: The function to call instead, of the kinds that `Depends` accepts.

        Raises:
            RegistrationError: The replacement cannot be a provider.
        """
        overrides = self._service.overrides
        before = overrides.get(provider)
        overrides[provider] = Provider(replacement)
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
        check_text("the identifier of an extension", identifier)
        if not isinstance(settings, dict | None):
            raise RegistrationError(f"the settings of {identifier!r} must be a dict, not {settings!r}")
        if _IDENTIFIER.fullmatch(identifier) is None:
            raise RegistrationError(
                f"{identifier!r} is not an extension identifier: use your domain name reversed, a slash and a name,"
                " for example 'com.example/search'"
            )
        service, rows = self._service, tuple(sends)
        for definition in rows:
            if definition in METHODS or definition in NOTIFICATIONS or Side.SERVER not in definition.sender:
                raise RegistrationError(f"{definition.name} is not a method of {identifier!r} that a server sends")
        service.methods.update(
            {definition.name: definition for definition in rows if isinstance(definition, RequestMethod)}
        )
        service.notifications.update(
            {definition.name: definition for definition in rows if isinstance(definition, NotificationMethod)}
        )
        service.extensions[identifier] = {} if settings is None else settings
        service.registered += 1
