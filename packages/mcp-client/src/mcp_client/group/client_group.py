"""Several servers at once, each with a connection of its own.

Nothing passes from one server to another here: each has its own transport, its own engine, its own handlers if wanted.
That one of them cannot be reached is data, no error: the others work.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Literal, TypedDict, TypeVar

import attrs
import trio

from mcp_client.config import ConfigError
from mcp_client.connectors.http import open_http
from mcp_client.connectors.stdio import DEFAULT_INFO, NO_HANDLERS, Opening, open_stdio
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.group.member import DEFAULT_RESTART, Member, Restart
from mcp_client.group.names import exposed_names
from mcp_client.nursery import open_private_nursery
from mcp_core.errors import ConnectionEnded, LocalProtocolError, McpError
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from mcp_client.client import Client
    from mcp_client.config import ServerConfig
    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.deadlines import Deadlines
    from mcp_client.group.member import MakeOpening
    from mcp_client.group.names import Naming
    from mcp_client.handlers import Handlers
    from mcp_client.transports.http.authorizer import Authorization
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.limits import Limits
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import CallToolResult, GetPromptResult, Implementation, Prompt, Resource, ResourceTemplate, Tool

__all__ = ["ClientGroup", "Listed", "Member", "Named", "Restart", "configured", "open_group"]

T = TypeVar("T")
L = TypeVar("L")


@attrs.frozen
class Named(Generic[T]):
    """Something that one of the servers offers."""

    name: str
    """What it is called in the group."""
    server: str
    """Whose it is."""
    item: T
    """As the server says it. Untrusted text."""


@attrs.frozen
class Listed(Generic[T]):
    """What all servers offer."""

    items: tuple[Named[T], ...]
    """Those of the servers that answered, in the order of the servers."""
    failed: Mapping[str, McpError]
    """The servers that did not, and why."""


class ClientGroup:
    """Several servers. Made by `open_group`.

    What is listed is complete when each server has answered or failed: one that is silent is waited for as long as the
    `Deadlines` of its own connection say.

    Iterating gives their names, and `group["weather"]` the `Member`.

    Args:
        members: The servers, by name.
        naming: How names are made that are unique among all of them.
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
        """The server of that name. Raises `LocalProtocolError` when there is none."""
        member = self._members.get(name)
        if member is None:
            raise LocalProtocolError(f"there is no server {name!r}; there are {', '.join(self._members) or 'none'}")
        return member

    @property
    def failed(self) -> dict[str, McpError]:
        """The servers without a connection, and why."""
        return {
            name: member.error or ConnectionEnded("not connected yet")
            for name, member in self._members.items()
            if member.state == "failed"
        }

    # --- what they offer -------------------------------------------------------------------------------------------

    async def list_tools(self) -> Listed[Tool]:
        """The tools of all servers, each under the name for `call_tool`. Raises `NameCollision` with `strict` naming."""
        found, failed = await self._ask_all(
            lambda client: client.list_tools() if client.capabilities.tools else _none()
        )
        self._tools = exposed_names(
            {server: [tool.name for tool in tools] for server, tools in found.items()}, self._naming
        )
        return _listed(found, failed, self._tools, lambda tool: tool.name)

    async def list_prompts(self) -> Listed[Prompt]:
        """The prompts of all servers, each under the name for `get_prompt`. Raises as `list_tools` does."""
        found, failed = await self._ask_all(
            lambda client: client.list_prompts() if client.capabilities.prompts else _none()
        )
        self._prompts = exposed_names(
            {server: [prompt.name for prompt in prompts] for server, prompts in found.items()}, self._naming
        )
        return _listed(found, failed, self._prompts, lambda prompt: prompt.name)

    async def list_resources(self) -> Listed[Resource]:
        """The resources of all servers, each under its URI: two servers may have the same, so say whose is meant."""
        found, failed = await self._ask_all(
            lambda client: client.list_resources() if client.capabilities.resources else _none()
        )
        return _by_server(found, failed, lambda resource: resource.uri)

    async def list_resource_templates(self) -> Listed[ResourceTemplate]:
        """The resource templates of all servers, each under its URI template."""
        found, failed = await self._ask_all(
            lambda client: client.list_resource_templates() if client.capabilities.resources else _none()
        )
        return _by_server(found, failed, lambda template: template.uri_template)

    async def _ask_all(
        self, ask: Callable[[Client], Awaitable[tuple[L, ...]]]
    ) -> tuple[dict[str, tuple[L, ...]], dict[str, McpError]]:
        """Asks all servers at once. What one of them does wrong is its own affair."""
        found: dict[str, tuple[L, ...]] = {}
        failed: dict[str, McpError] = {}
        broken: list[Exception] = []

        async def one(member: Member) -> None:
            try:
                found[member.name] = await ask(await member.connected())
            except McpError as error:
                failed[member.name] = error
            except Exception as error:  # noqa: BLE001  a middleware of the user: raised below, where no nursery wraps it
                broken.append(error)

        async with trio.open_nursery() as nursery:
            for member in self._members.values():
                nursery.start_soon(one, member)
        if broken:
            raise broken[0]
        return {name: found[name] for name in self._members if name in found}, failed

    # --- using it --------------------------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> CallToolResult:
        """Calls a tool of one of the servers. See `Client.call_tool`, which says what it raises.

        Args:
            name: As `list_tools` gives it.
            arguments: See `Client.call_tool`.
            on_progress: Likewise.
            deadlines: Likewise.

        Raises:
            LocalProtocolError: No server offers a tool of that name.
        """
        server, own = await self._find("tool", name)
        client = await self[server].connected()
        return await client.call_tool(own, arguments, on_progress=on_progress, deadlines=deadlines)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Gets a prompt of one of the servers, by the name that `list_prompts` gives. See `Client.get_prompt`.

        Args:
            name: As `list_prompts` gives it.
            arguments: See `Client.get_prompt`.

        Raises:
            LocalProtocolError: No server offers a prompt of that name.
        """
        server, own = await self._find("prompt", name)
        return await (await self[server].connected()).get_prompt(own, arguments)

    def origin(self, name: str) -> tuple[str, str] | None:
        """The server of a tool, and what it calls it; `None` for a name that `list_tools` did not give."""
        return self._tools.get(name)

    async def _find(self, kind: Literal["tool", "prompt"], name: str) -> tuple[str, str]:
        table = self._tools if kind == "tool" else self._prompts
        if name in table:
            return table[name]
        # It may have been added since, or nobody has asked yet.
        listed = await (self.list_tools() if kind == "tool" else self.list_prompts())
        found = (self._tools if kind == "tool" else self._prompts).get(name)
        if found is None:
            silent = f"; {', '.join(listed.failed)} could not be asked" if listed.failed else ""
            raise LocalProtocolError(f"no server of the group offers a {kind} {name!r}{silent}")
        return found


def configured(
    servers: Mapping[str, ServerConfig],
    *,
    handlers: Handlers | Callable[[str], Handlers] = NO_HANDLERS,
    info: Implementation = DEFAULT_INFO,
    deadlines: Deadlines = DEFAULT_DEADLINES,
    limits: Limits = CLIENT_LIMITS,
    middleware: Callable[[str], Iterable[Middleware]] | None = None,
    auth: Callable[[ServerConfig], Authorization | None] | None = None,
) -> dict[str, MakeOpening]:
    """What `open_group` takes, from what `read_config` gives. Disabled servers are left out.

    A server with a `problem` is in the group all the same, as one that failed: `ClientGroup.failed` has the reason.

    Args:
        servers: The servers.
        handlers: What they may ask of us: the same for all, or a function of the server's name.
        info: Who we are.
        deadlines: How long to wait for what.
        limits: The bounds that hold here, for each of them.
        middleware: Gives what stands around the messages of a server, by its name: guards, as those of
            `mcp_client.guards`. A connection that is made again has the same, so that no server gets rid of a bound by
            dying.
        auth: Gives what gets credentials for a server that has a URL, by what is written down of it; see
            `mcp_client.auth.configured_auth`. Without it, only the headers that are written down are sent.
    """
    credentials = {} if auth is None else {name: auth(server) for name, server in servers.items() if server.url}
    around = {} if middleware is None else {name: tuple(middleware(name)) for name in servers}

    def opening(server: ServerConfig) -> Opening:
        if server.problem is not None:
            raise ConfigError(server.problem)
        own = handlers(server.name) if callable(handlers) else handlers
        common = _Common(
            handlers=own,
            info=info,
            revisions=server.revisions or tuple(REVISIONS.values()),
            deadlines=deadlines,
            limits=limits,
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
        name: partial(opening, server)
        for name, server in servers.items()
        if server.problem is not None or not server.disabled
    }


class _Common(TypedDict):
    """What all connections take."""

    handlers: Handlers
    info: Implementation
    revisions: Sequence[Revision]
    deadlines: Deadlines
    limits: Limits
    middleware: Sequence[Middleware]


async def _none() -> tuple[()]:
    """The server has nothing of that kind, so it is not asked."""
    await trio.lowlevel.checkpoint()
    return ()


def _listed(
    found: Mapping[str, tuple[T, ...]],
    failed: Mapping[str, McpError],
    names: Mapping[str, tuple[str, str]],
    own: Callable[[T], str],
) -> Listed[T]:
    shown = {meant: name for name, meant in names.items()}
    items = [Named(shown[server, own(item)], server, item) for server, given in found.items() for item in given]
    return Listed(tuple(items), failed)


def _by_server(
    found: Mapping[str, tuple[T, ...]], failed: Mapping[str, McpError], own: Callable[[T], str]
) -> Listed[T]:
    items = [Named(own(item), server, item) for server, given in found.items() for item in given]
    return Listed(tuple(items), failed)


@asynccontextmanager
async def open_group(
    servers: Mapping[str, MakeOpening],
    *,
    naming: Naming = "prefixed",
    restart: Restart = DEFAULT_RESTART,
) -> AsyncIterator[ClientGroup]:
    """Connects to several servers at once, and keeps the connections as long as the block runs.

        servers = {"weather": lambda: open_stdio(["weather-server"]), "notes": lambda: open_http("https://notes.example/mcp")}
        async with open_group(servers) as group:
            for tool in (await group.list_tools()).items:
                print(tool.name, tool.server)

    `configured` makes `servers` from the JSON in which applications write them down.

    Args:
        servers: What makes a connection to each of them, by the names that they have in the group.
        naming: How tools and prompts are called, so that no two have the same name.
        restart: When a lost connection is made again.

    Returns:
        The group, when every server is connected or has failed: `ClientGroup.failed` says which and why.

    *Closing*: ends all connections at once, each as `open_stdio` and `open_http` say.
    """
    members = {name: Member(name, make, restart) for name, make in servers.items()}
    async with open_private_nursery() as nursery:
        for member in members.values():
            nursery.start_soon(member.run)
        for member in members.values():
            await member._settled.wait()  # noqa: SLF001  # one module
        yield ClientGroup(members, naming)
