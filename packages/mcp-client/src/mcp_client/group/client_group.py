"""A group of clients: several servers at once, each with a connection of its own.

The servers are isolated from each other: each has its own transport, its own engine, and optionally its own handlers.
An unreachable server does not raise an error. `ClientGroup.failed` reports it, and the other servers work.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Literal, TypedDict, TypeVar, overload

import attrs
import trio

from mcp_client.config import ConfigError
from mcp_client.connectors.http import open_http
from mcp_client.connectors.options import DEFAULT_OPTIONS
from mcp_client.connectors.stdio import NO_HANDLERS, Connector, open_stdio
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.group.member import DEFAULT_RESTART, Member, Restart
from mcp_client.group.names import exposed_names
from mcp_client.handlers import Handlers
from mcp_client.worker_threads import check_plain
from mcp_core.errors import ConnectionEnded, LocalProtocolError, McpError
from mcp_core.field_methods import FieldValue
from mcp_core.revisions import REVISIONS
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.trio.owner_task import OwnerTask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client.client import Client
    from mcp_client.config import ServerConfig
    from mcp_client.connectors.options import ClientOptions
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.tool_result import ToolResult
    from mcp_client.group.member import MakeConnector
    from mcp_client.group.names import Naming
    from mcp_client.handlers import ProgressHandler
    from mcp_client.transports.http.authorizer import Authorization
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import GetPromptResult, Prompt, Resource, ResourceTemplate, Tool

__all__ = ["ClientGroup", "GroupListing", "Member", "Restart", "ServerItem", "configured", "open_group"]

T = TypeVar("T")
L = TypeVar("L")


@attrs.frozen(eq=False, repr=False)
class ServerItem(FieldValue, Generic[T]):
    """A tool, prompt, resource or resource template of one of the servers."""

    name: str
    """The name in the group."""
    server: str
    """The name of the server."""
    item: T
    """The item as the server sent it. Untrusted text."""


@attrs.frozen(eq=False, repr=False)
class GroupListing(FieldValue, Generic[T]):
    """The items of all servers."""

    items: tuple[ServerItem[T], ...]
    """The items of the servers that responded, in the order of the servers."""
    failed: Mapping[str, McpError]
    """The errors of the other servers, by name."""


class ClientGroup:
    """Several servers. Created by `open_group`.

    A list is complete when each server has responded or failed. The `Deadlines` of each connection limit the time to
    wait for its server.

    Iteration yields the names of the servers, and `group["weather"]` returns the `Member`.

    Args:
        members: The servers, by name.
        naming: The rule for unique names.
    """

    def __init__(self, members: Mapping[str, Member], naming: Naming) -> None:
        self._members: Final = dict(members)
        self._naming: Final = naming
        self._tools: dict[str, tuple[str, str]] = {}
        self._prompts: dict[str, tuple[str, str]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, name: str) -> Member:
        """Return the server with this name. Raises `LocalProtocolError` if the group does not have this server."""
        member = self._members.get(name)
        if member is None:
            raise LocalProtocolError(f"there is no server {name!r}; there are {', '.join(self._members) or 'none'}")
        return member

    @property
    def failed(self) -> dict[str, McpError]:
        """The errors of the servers without a connection, by name."""
        return {
            name: member.error or ConnectionEnded("not connected yet")
            for name, member in self._members.items()
            if member.state == "failed"
        }

    # --- lists -----------------------------------------------------------------------------------------------------

    @allow_asyncio
    async def list_tools(self) -> GroupListing[Tool]:
        """Return the tools of all servers, with their names for `call_tool`.

        Raises:
            NameCollision: Several servers use the same name, and `naming` is `strict`.
        """
        found, failed = await self._request_all(
            lambda client: client.list_tools() if client.capabilities.tools else _none()
        )
        self._tools = exposed_names(
            {server: [tool.name for tool in tools] for server, tools in found.items()}, self._naming
        )
        return _listed(found, failed, self._tools, lambda tool: tool.name)

    @allow_asyncio
    async def list_prompts(self) -> GroupListing[Prompt]:
        """Return the prompts of all servers, with their names for `get_prompt`.

        Raises:
            NameCollision: Several servers use the same name, and `naming` is `strict`.
        """
        found, failed = await self._request_all(
            lambda client: client.list_prompts() if client.capabilities.prompts else _none()
        )
        self._prompts = exposed_names(
            {server: [prompt.name for prompt in prompts] for server, prompts in found.items()}, self._naming
        )
        return _listed(found, failed, self._prompts, lambda prompt: prompt.name)

    @allow_asyncio
    async def list_resources(self) -> GroupListing[Resource]:
        """Return the resources of all servers, with their URIs as names.

        Two servers may use the same URI, so a URI identifies a resource only together with its server.
        """
        found, failed = await self._request_all(
            lambda client: client.list_resources() if client.capabilities.resources else _none()
        )
        return _by_server(found, failed, lambda resource: resource.uri)

    @allow_asyncio
    async def list_resource_templates(self) -> GroupListing[ResourceTemplate]:
        """Return the resource templates of all servers, with their URI templates as names."""
        found, failed = await self._request_all(
            lambda client: client.list_resource_templates() if client.capabilities.resources else _none()
        )
        return _by_server(found, failed, lambda template: template.uri_template)

    async def _request_all(
        self, ask: Callable[[Client], Awaitable[tuple[L, ...]]]
    ) -> tuple[dict[str, tuple[L, ...]], dict[str, McpError]]:
        """Run a request on all servers at once. Return the results and the errors by server."""
        found: dict[str, tuple[L, ...]] = {}
        failed: dict[str, McpError] = {}
        broken: list[Exception] = []

        async def one(member: Member) -> None:
            try:
                found[member.name] = await ask(await member.connected())
            except McpError as error:
                failed[member.name] = error
            except Exception as error:  # noqa: BLE001  the user's middleware: raised below, outside of the nursery
                broken.append(error)

        async with trio.open_nursery() as nursery:
            for member in self._members.values():
                nursery.start_soon(one, member)
        if broken:
            raise broken[0]
        return {name: found[name] for name in self._members if name in found}, failed

    # --- requests --------------------------------------------------------------------------------------------------

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: type[T],
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[T]: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: None = None,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[JsonValue]: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: object,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[object]: ...
    @allow_asyncio
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: object = None,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[object]:
        """Call a tool of one of the servers.

        Args:
            name: The name of the tool in the group, from `list_tools`.
            arguments: The arguments, as in `Client.call_tool`.
            returns: The type of `ToolResult.data`, as in `Client.call_tool`; `None` for plain JSON.
            raise_on_error: Whether a failed tool raises `ToolFailed`.
            on_progress: Called with each progress notification, as in `Client.call_tool`.
            deadlines: The deadlines of the call; `None` for those of the connection.

        Returns:
            The result of the tool.

        Raises:
            ToolFailed: The tool failed; the message has the text of the result.
            LocalProtocolError: No server offers a tool with this name.
            ConnectionEnded: The server is not connected.
            McpError: The other exceptions of `Client.call_tool`.
        """
        server, own = await self._find("tool", name)
        client = await self[server].connected()
        return await client.call_tool(
            own,
            arguments,
            returns=returns,
            raise_on_error=raise_on_error,
            on_progress=on_progress,
            deadlines=deadlines,
        )

    @allow_asyncio
    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Get a prompt of one of the servers.

        Args:
            name: The name of the prompt in the group, from `list_prompts`.
            arguments: The arguments, as in `Client.get_prompt`.

        Returns:
            The prompt with its arguments filled in.

        Raises:
            LocalProtocolError: No server offers a prompt with this name.
            ConnectionEnded: The server is not connected.
            McpError: The other exceptions of `Client.get_prompt`.
        """
        server, own = await self._find("prompt", name)
        return await (await self[server].connected()).get_prompt(own, arguments)

    def origin(self, name: str) -> tuple[str, str] | None:
        """Return the server and the original name of a tool; `None` for a name that `list_tools` did not return."""
        return self._tools.get(name)

    async def _find(self, kind: Literal["tool", "prompt"], name: str) -> tuple[str, str]:
        table = self._tools if kind == "tool" else self._prompts
        if name in table:
            return table[name]
        # The tool may be new, or the tools were not listed yet.
        listed = await (self.list_tools() if kind == "tool" else self.list_prompts())
        found = (self._tools if kind == "tool" else self._prompts).get(name)
        if found is None:
            silent = f"; {', '.join(listed.failed)} did not respond" if listed.failed else ""
            raise LocalProtocolError(f"no server of the group offers a {kind} {name!r}{silent}")
        return found


def configured(
    servers: Mapping[str, ServerConfig],
    *,
    handlers: Handlers | Callable[[str], Handlers] = NO_HANDLERS,
    deadlines: Deadlines = DEFAULT_DEADLINES,
    middleware: Callable[[str], Iterable[Middleware]] | None = None,
    auth: Callable[[ServerConfig], Authorization | None] | None = None,
    options: ClientOptions = DEFAULT_OPTIONS,
) -> dict[str, MakeConnector]:
    """Return the `servers` of `open_group`, from the result of `read_config`. Disabled servers are omitted.

    A server with a `problem` is a failed server of the group: `ClientGroup.failed` has the reason.

    Args:
        servers: The configurations of the servers, by name.
        handlers: The handlers of client requests: the same for all servers, or a function of the server's name.
        deadlines: The deadlines of each connection and of its requests.
        middleware: Returns the middleware of a server, by its name, for example guards of `mcp_client.guards`. A
            reopened connection keeps the middleware, so a server cannot reset a limit by exiting.
        auth: Returns the source of credentials of a server with a URL, from its configuration; see
            `mcp_client.auth.configured_auth`. `None` to send only the configured headers.
        options: Further settings of each connection.

    Returns:
        Functions that return a new connector of a server, by name.

    Raises:
        LocalProtocolError: An argument is a coroutine function.
    """
    for argument, function in (("handlers", handlers), ("middleware", middleware), ("auth", auth)):
        if not isinstance(function, Handlers):
            check_plain(function, f"{argument} of configured")
    credentials = {} if auth is None else {name: auth(server) for name, server in servers.items() if server.url}
    around = {} if middleware is None else {name: tuple(middleware(name)) for name in servers}

    def connector(server: ServerConfig) -> Connector:
        if server.problem is not None:
            raise ConfigError(server.problem)
        own = handlers(server.name) if callable(handlers) else handlers
        common = _Common(
            handlers=own,
            revisions=server.revisions or tuple(REVISIONS.values()),
            deadlines=deadlines,
            options=options,
            middleware=around.get(server.name, ()),
        )
        try:
            if server.url is not None:
                own_auth = credentials.get(server.name)
                return open_http(server.url, headers=server.headers, auth=own_auth, **common)
            return open_stdio(server.command, env=server.env, cwd=server.cwd, **common)
        except ValueError as error:
            raise ConfigError(f"server {server.name!r}: {error}") from error

    return {
        name: partial(connector, server)
        for name, server in servers.items()
        if server.problem is not None or not server.disabled
    }


class _Common(TypedDict):
    """The arguments that all connectors have in common."""

    handlers: Handlers
    revisions: Sequence[Revision]
    deadlines: Deadlines
    options: ClientOptions
    middleware: Sequence[Middleware]


async def _none() -> tuple[()]:
    """Return an empty list, for a server without the capability."""
    await trio.lowlevel.checkpoint()
    return ()


def _listed(
    found: Mapping[str, tuple[T, ...]],
    failed: Mapping[str, McpError],
    names: Mapping[str, tuple[str, str]],
    own: Callable[[T], str],
) -> GroupListing[T]:
    shown = {meant: name for name, meant in names.items()}
    items = [ServerItem(shown[server, own(item)], server, item) for server, given in found.items() for item in given]
    return GroupListing(tuple(items), failed)


def _by_server(
    found: Mapping[str, tuple[T, ...]], failed: Mapping[str, McpError], own: Callable[[T], str]
) -> GroupListing[T]:
    items = [ServerItem(own(item), server, item) for server, given in found.items() for item in given]
    return GroupListing(tuple(items), failed)


def open_group(
    servers: Mapping[str, MakeConnector],
    *,
    naming: Naming = "prefixed",
    restart: Restart = DEFAULT_RESTART,
) -> AbstractAsyncContextManager[ClientGroup]:
    """Connect to several servers at once, and keep the connections open during the block.

        servers = {"weather": lambda: open_stdio(["weather-server"]), "notes": lambda: open_http("https://notes.example/mcp")}
        async with open_group(servers) as group:
            for tool in (await group.list_tools()).items:
                print(tool.name, tool.server)

    `configured` makes `servers` from the `mcpServers` JSON of applications.

    Args:
        servers: Functions that return a new connector, by the name of the server in the group.
        naming: The rule for unique names of tools and prompts.
        restart: The policy for reopening lost connections.

    Returns:
        An asynchronous context manager for the group. It is entered when each server is connected or has failed:
        `ClientGroup.failed` has the reasons. Any task can enter and leave it.

    Raises:
        LocalProtocolError: A function of `servers` is a coroutine function.

    *Closing*: closes all connections at once, as described in `open_stdio` and `open_http`.
    """
    for name, make in servers.items():
        check_plain(make, f"servers[{name!r}] of open_group")
    return OwnerTask(partial(_opened, servers, naming, restart), "mcp_client group")


@asynccontextmanager
async def _opened(servers: Mapping[str, MakeConnector], naming: Naming, restart: Restart) -> AsyncIterator[ClientGroup]:
    members = {name: Member(name, make, restart) for name, make in servers.items()}
    async with open_private_nursery() as nursery:
        for member in members.values():
            nursery.start_soon(member.run)
        for member in members.values():
            await member._settled.wait()  # noqa: SLF001  # one module
        yield ClientGroup(members, naming)
