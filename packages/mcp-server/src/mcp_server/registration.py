"""What a server offers, in decorators. `mcp_server.Server` is one of these. Spec: server/"""

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
    Method,
    NotificationRow,
    Role,
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
    from mcp_server.connection.channel import Call
    from mcp_server.features.proxy import RemoteServer
    from mcp_server.handlers.context import Context
    from mcp_server.options import PromptOptions, ResourceOptions, ToolOptions
    from mcp_server.service import ServerService

__all__ = ["Registration"]

F = TypeVar("F", bound=AnyFunction)
P = TypeVar("P")
R = TypeVar("R")

_OURS: Final = frozenset({INITIALIZE, PING, SERVER_DISCOVER, LOGGING_SET_LEVEL})
"""What the connection itself answers, since it has to know of it."""


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"

_IDENTIFIER: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""As the specification has the prefix of keys of `_meta`."""


class Registration:
    """What can be registered on a server.

    Args:
        service: What answers.
    """

    def __init__(self, service: ServerService) -> None:
        self._service: Final = service

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
        """Registers the files of a directory, and of those in it, as resources. Clients are told that the list has changed.

        Each file is listed with its size, its media type and when it was changed; it is read when a client asks for it,
        in a worker thread. There is a template as well, for files that are not listed (`Limits.listed_files`).
        Nothing outside of the directory can be read: links are not followed, and only regular files are opened.
        `resource_updated` tells of a file that was changed.

        Args:
            path: The directory. It may be a link itself, which is followed once, here.
            uri: What the URIs of the files begin with, as `docs://handbook/`; ends in a slash.
            name: The name of the template; the URI by default.
            title: Its name for people.
            description: What the files are, for the model.
            icons: Its pictures.
            hidden: Whether files and directories whose names begin with a dot are there too.

        Raises:
            RegistrationError: There is no such directory, or the URI cannot be the beginning of others.
        """
        self._service.resources.add_directory(
            path, uri, name=name, title=title, description=description, icons=icons, hidden=hidden
        )

    def remove_resource(self, uri: str) -> None:
        """Takes a resource, template or directory away. Clients are told. Raises `RegistrationError` when there is none."""
        self._service.resources.remove(uri)

    def resource_updated(self, uri: str) -> None:
        """Tells those who subscribed to a resource that it has changed.

        Never waits for a client. Call it from any trio task, or from a function that trio runs in a worker thread; from
        another thread by `trio.from_thread.run_sync`, with the token of trio.
        """
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
        already) and a `Context`. It returns a list of texts, the best first; at most 100 of
        them are sent, with how many there are. Or a `Completion` or `CompleteResult`, where it knows of more than it lists.

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
            if not isinstance(row, Method):
                raise RegistrationError(f"{label(function)}: a method is registered by its row, not {row!r}")
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

            service = self._service
            service.handlers[row.name] = handle
            service.registered += 1
            if row in METHODS:
                service.replaced.update((row.server_capability or ())[:1])
            else:
                service.methods[row.name] = row
                if row.extension is not None:
                    service.extensions.setdefault(row.extension, {})
            return function

        return register

    def notification(self, row: NotificationRow[P]) -> Callable[[Callable[[P], None]], Callable[[P], None]]:
        """Registers a function that takes a notification of clients: one of an extension, or of the specification.

        It takes the parameters, an instance of `row.params`. It is called where the notification is
        read, so it is a plain function and must not wait. What it raises goes to the log.

        Args:
            row: The notification.

        Returns:
            The decorator; it returns the function unchanged.

        Raises:
            RegistrationError: The function is a coroutine function, or there is one for this notification, or clients do not
                send it.
        """

        def register(function: Callable[[P], None]) -> Callable[[P], None]:
            service = self._service
            if not isinstance(row, NotificationRow):
                raise RegistrationError(f"{label(function)}: a notification is registered by its row, not {row!r}")
            if row in NOTIFICATIONS and Role.CLIENT not in row.sender:
                raise RegistrationError(f"{label(function)}: a client does not send {row.name}, which is the server's")
            if is_async(function) or not callable(cast("object", function)):
                raise RegistrationError(f"{label(function)}: a notification is taken without waiting; write `def`")
            if row.name in service.listeners:
                raise RegistrationError(f"{label(function)}: there is already a function for {row.name}")
            service.listeners[row.name] = cast("Callable[[object], None]", function)  # as the engine reads them
            service.registered += 1
            if row not in NOTIFICATIONS:
                service.notifications[row.name] = row
            return function

        return register

    def mount(self, other: Registration, *, prefix: str | None = None) -> None:
        """Makes another server a part of this one, with everything that it offers now and later.

        Its tools and prompts are called `prefix_name` here; resources keep their URIs. What is registered here comes first.
        It answers for itself, with its own middleware and `lifespan`, which runs within that of this server.

        Args:
            other: The server.
            prefix: What its names begin with; `None`: they are left as they are.

        Raises:
            RegistrationError: The prefix cannot be one, or is not told apart from another one; or the other server has tools
                that run as tasks, or an `access` of its own, or is this one, or a part of which this one is; or a
                `lifespan` that would not begin any more, since this one is served already.
        """
        if not isinstance(other, Registration):
            raise RegistrationError(f"what is mounted is a server, not {other!r}; see also mount_remote")
        if prefix is not None:
            check_text("a prefix", prefix)
        service, theirs = self._service, other._service
        if service in theirs.everywhere():
            raise RegistrationError(f"{theirs.name!r} cannot be mounted on {service.name!r}, which is a part of it")
        if theirs.guard.asks:
            raise RegistrationError(
                f"{theirs.name!r} has an `access` of its own; give it to {service.name!r}, which is asked first"
            )
        if theirs.tasks is not None:
            raise RegistrationError(
                f"{theirs.name!r} has tools that run as tasks, which only the server can have that clients talk to"
            )
        if service.life.running and theirs.life.needed and not theirs.life.running:
            raise RegistrationError(
                f"{theirs.name!r} has a `lifespan`, which begins with that of {service.name!r}, and that has begun; mount"
                " it before, or in a block of `async with other.running():`"
            )
        service.mounts.add(LocalServer(theirs), prefix)
        theirs.mounted_on.append(service)
        service.life.parts.append(theirs.life)
        service.tools_changed()
        service.resources_changed()
        service.prompts_changed()

    def mount_remote(self, remote: RemoteServer, *, prefix: str) -> None:
        """Makes a server that a client talks to a part of this one: a proxy.

            async with open_http("https://notes.example/mcp") as notes:
                server.mount_remote(notes, prefix="notes")
                await serve_stdio(server)

        Names are made as by `mount`. What the other server says is passed on as it came. Its questions go to the handlers
        of that client, and not to the clients of this server; the changes of its lists are passed on while this server
        runs, those of single resources are not.

        Args:
            remote: The connection to it, such as an `mcp_client.Client`.
            prefix: What its names begin with.

        Raises:
            RegistrationError: The prefix cannot be one, or is not told apart from another one.
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
        """As long as the block runs, another function provides what a parameter depends on: for tests.

        Args:
            provider: What `Depends` names.
            replacement: What is called instead; see `Depends` for what it may be.

        Raises:
            RegistrationError: The replacement cannot provide anything.
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
        sends: Iterable[Method[object, object] | NotificationRow[object]] = (),
    ) -> None:
        """Declares that the server supports an extension. Spec: basic/index#extension-negotiation (2026-07-28)

        Methods that name their extension declare it by themselves, without settings.

        Args:
            identifier: Its name, as `com.example/search`.
            settings: What there is to say about the support; an empty object by default.
            sends: What this server asks and tells clients by it, with `Context.ask` and `Context.notify`.

        Raises:
            RegistrationError: That is no name of an extension: a reversed domain, a slash, and a name. Or what shall be
                sent is the specification's, or what only clients send.
        """
        check_text("the name of an extension", identifier)
        if not isinstance(settings, dict | None):
            raise RegistrationError(f"the settings of {identifier!r} are a dict, not {settings!r}")
        if _IDENTIFIER.fullmatch(identifier) is None:
            raise RegistrationError(
                f"{identifier!r} is no name of an extension: it is a domain that is yours, reversed, a slash and a name,"
                " as 'com.example/search'"
            )
        service, rows = self._service, tuple(sends)
        for row in rows:
            if row in METHODS or row in NOTIFICATIONS or Role.SERVER not in row.sender:
                raise RegistrationError(f"{row.name} is no row of {identifier!r} that a server sends")
        service.methods.update({row.name: row for row in rows if isinstance(row, Method)})
        service.notifications.update({row.name: row for row in rows if isinstance(row, NotificationRow)})
        service.extensions[identifier] = {} if settings is None else settings
        service.registered += 1
