"""Several servers at once, each with a connection of its own.

Nothing passes from one server to another here: each has its own transport, its own engine, its own handlers if wanted.
That one of them cannot be reached is data, no error: the others work.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeAlias, TypeVar

import attrs
import trio

from mcp_client._deadlines import DEFAULT_DEADLINES
from mcp_client._group_names import exposed_names
from mcp_client._nursery import open_private_nursery
from mcp_client._open import DEFAULT_INFO, NO_HANDLERS, Opening, open_stdio
from mcp_client._open_http import open_http
from mcp_core.errors import ConnectionEnded, LocalProtocolError, McpError
from mcp_core.limits import CLIENT_LIMITS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_client._call import ProgressHandler
    from mcp_client._client import Client
    from mcp_client._deadlines import Deadlines
    from mcp_client._group_names import Naming
    from mcp_client._handlers import Handlers
    from mcp_client._host_config import ServerConfig
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.limits import Limits
    from mcp_core.types import CallToolResult, GetPromptResult, Implementation, Prompt, Resource, ResourceTemplate, Tool

__all__ = ["ClientGroup", "Listed", "Member", "Named", "Restart", "configured", "open_group"]

_log: Final = logging.getLogger("mcp_client")

T = TypeVar("T")
L = TypeVar("L")

MakeOpening: TypeAlias = Callable[[], Opening]
"""Makes a connection to one server, each time anew: `lambda: open_stdio(["weather-server"])`."""


@attrs.frozen(kw_only=True)
class Restart:
    """When a connection that was lost is made again.

    One that could not be made in the first place is not tried again by itself: see `Member.reconnect`.
    """

    times: int = 3
    """How often, within `within` seconds; 0: never."""
    within: float = 60.0
    """Seconds after which earlier losses are forgotten."""
    delay: float = 0.5
    """Seconds before the first attempt; twice as long before each further one."""


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


class Member:
    """One server of a group.

    Args:
        name: What it is called in the group.
        make: Makes a connection to it.
        restart: When a lost one is made again.
    """

    def __init__(self, name: str, make: MakeOpening, restart: Restart) -> None:
        self.name: Final = name
        """What it is called in the group."""
        self._make: Final = make
        self._restart: Final = restart
        self._client: Client | None = None
        self._error: McpError | None = None
        self._wanted = trio.Event()
        self._settled = trio.Event()
        self._dismissed = False
        self._again = False

    def __repr__(self) -> str:
        return f"<Member {self.name!r}, {self.state}>"

    @property
    def state(self) -> Literal["connecting", "connected", "failed"]:
        """How it stands. `connecting` also while a lost connection is made again."""
        if self._client is not None:
            return "connected"
        return "failed" if self._settled.is_set() else "connecting"

    @property
    def error(self) -> McpError | None:
        """Why it is not connected, or why it was not before; `None` when it always was."""
        return self._error

    @property
    def client(self) -> Client:
        """Its client. Raises `ConnectionEnded` while there is none, with the reason as its cause."""
        if self._client is None:
            raise ConnectionEnded(f"there is no connection to {self.name!r} ({self.state})") from self._error
        return self._client

    async def connected(self) -> Client:
        """Its client, once an attempt that goes on has ended. Raises as `client` does."""
        await self._settled.wait()
        return self.client

    def reconnect(self) -> None:
        """Tries again, if there is no connection: at once, or when an attempt that goes on has failed."""
        if self._client is None:
            self._dismissed = False
            self._again = True
            if self._settled.is_set():
                self._settled = trio.Event()
            self._wanted.set()

    async def aclose(self) -> None:
        """Ends its connection, which is not made again but by `reconnect`."""
        self._dismissed = True
        if self._client is not None:
            await self._client.aclose()
        else:
            await trio.lowlevel.checkpoint()

    async def run(self) -> None:
        """Keeps the connection, until this is cancelled."""
        lost: list[float] = []
        while True:
            was_connected = await self._connection()
            if self._again:
                lost.clear()
            elif was_connected and not self._dismissed and self._may_again(lost):
                pause = self._restart.delay * 2 ** (len(lost) - 1)
                _log.warning(
                    "the connection to %s was lost and is made again in %g s: %s", self.name, pause, self._error
                )
                await trio.sleep(pause)
            else:
                self._settled.set()
                self._wanted = trio.Event()
                await self._wanted.wait()
                lost.clear()

    def _may_again(self, lost: list[float]) -> bool:
        """Whether it has not been lost too often lately. Notes when it was."""
        now = trio.current_time()
        lost[:] = [moment for moment in lost if moment > now - self._restart.within]
        if len(lost) >= self._restart.times:
            return False
        lost.append(now)
        return True

    async def _connection(self) -> bool:
        """One connection, from its beginning to its end. Returns whether there was one."""
        self._again = False
        try:
            async with self._make() as client:
                self._client = client
                self._settled.set()
                try:
                    await client.wait_ended()
                finally:
                    self._client = None
                    # What follows is not known before the connection has been taken down.
                    self._settled = trio.Event()
                self._error = ConnectionEnded(f"the connection to {self.name!r} was closed, or lost")
                return True
        except McpError as error:
            self._error = error
        except OSError as error:
            self._error = ConnectionEnded(f"{self.name!r} cannot be reached: {error}")
            self._error.__cause__ = error
        return False


class ClientGroup:
    """Several servers. Made by `open_group`.

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

        async def one(member: Member) -> None:
            try:
                found[member.name] = await ask(await member.connected())
            except McpError as error:
                failed[member.name] = error

        async with trio.open_nursery() as nursery:
            for member in self._members.values():
                nursery.start_soon(one, member)
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
        if name not in table:
            # It may have been added since, or nobody has asked yet.
            await (self.list_tools() if kind == "tool" else self.list_prompts())
            table = self._tools if kind == "tool" else self._prompts
        found = table.get(name)
        if found is None:
            raise LocalProtocolError(f"no server of the group offers a {kind} {name!r}")
        return found


def configured(
    servers: Mapping[str, ServerConfig],
    *,
    handlers: Handlers | Callable[[str], Handlers] = NO_HANDLERS,
    info: Implementation = DEFAULT_INFO,
    deadlines: Deadlines = DEFAULT_DEADLINES,
    limits: Limits = CLIENT_LIMITS,
) -> dict[str, MakeOpening]:
    """What `open_group` takes, from what `read_config` gives. Disabled servers are left out.

    Args:
        servers: The servers.
        handlers: What they may ask of us: the same for all, or a function of the server's name.
        info: Who we are.
        deadlines: How long to wait for what.
        limits: The bounds that hold here, for each of them.
    """

    def opening(server: ServerConfig) -> Opening:
        own = handlers(server.name) if callable(handlers) else handlers
        if server.url is not None:
            return open_http(
                server.url, headers=server.headers, handlers=own, info=info, deadlines=deadlines, limits=limits
            )
        return open_stdio(
            server.command,
            env=server.env,
            cwd=server.cwd,
            handlers=own,
            info=info,
            deadlines=deadlines,
            limits=limits,
        )

    return {name: partial(opening, server) for name, server in servers.items() if not server.disabled}


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
    restart: Restart = Restart(),  # frozen
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
