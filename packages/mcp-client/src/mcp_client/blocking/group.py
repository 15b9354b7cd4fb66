"""Groups of blocking clients: the names of `mcp_client.group`.

with open_group({"weather": lambda: open_stdio(["weather-server"])}) as group:
    for tool in group.list_tools().items:
        print(tool.name, tool.server)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from mcp_client import group as for_trio
from mcp_client.blocking.client import Client, trio_connector
from mcp_client.blocking.proxies import BlockingContextManager, Proxy, blocking, blocking_proxy, described_as
from mcp_client.config import AuthConfig, ConfigError, ConfigInput, ServerConfig, read_config
from mcp_client.group.client_group import GroupListing, ServerItem, configured
from mcp_client.group.member import DEFAULT_RESTART, Restart
from mcp_client.group.names import NameCollision, Naming
from mcp_client.worker_threads import check_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from mcp_client.blocking.client import MakeConnector
    from mcp_core.errors import McpError

__all__ = [
    "AuthConfig",
    "ClientGroup",
    "ConfigError",
    "ConfigInput",
    "GroupListing",
    "Member",
    "NameCollision",
    "Naming",
    "Restart",
    "ServerConfig",
    "ServerItem",
    "configured",
    "open_group",
    "read_config",
]


class Member(Proxy[for_trio.Member]):
    """One server of a group, with its connection."""

    def __repr__(self) -> str:
        return repr(self._target)

    @property
    def name(self) -> str:
        """The name of the server in the group."""
        return self._target.name

    @property
    @described_as(for_trio.Member.state)
    def state(self) -> Literal["connecting", "connected", "failed"]:
        return self._target.state

    @property
    @described_as(for_trio.Member.error)
    def error(self) -> McpError | None:
        return self._target.error

    @property
    @described_as(for_trio.Member.client)
    def client(self) -> Client:
        return Client(self._target.client, self._thread)

    connected = blocking_proxy(Client, for_trio.Member.connected)
    close = blocking(for_trio.Member.aclose)

    @described_as(for_trio.Member.reconnect)
    def reconnect(self) -> None:
        self._thread.check_process()
        self._target.reconnect()


class ClientGroup(Proxy[for_trio.ClientGroup]):
    """Several servers. Created by `open_group`.

    A list is complete when each server has responded or failed. The `Deadlines` of each connection limit the time to
    wait for its server.

    Iteration yields the names of the servers, and `group["weather"]` returns the `Member`.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    @described_as(for_trio.ClientGroup.__getitem__)
    def __getitem__(self, name: str) -> Member:
        return Member(self._target[name], self._thread)

    @property
    @described_as(for_trio.ClientGroup.failed)
    def failed(self) -> dict[str, McpError]:
        return self._target.failed

    list_tools = blocking(for_trio.ClientGroup.list_tools)
    list_prompts = blocking(for_trio.ClientGroup.list_prompts)
    list_resources = blocking(for_trio.ClientGroup.list_resources)
    list_resource_templates = blocking(for_trio.ClientGroup.list_resource_templates)
    call_tool = blocking(for_trio.ClientGroup.call_tool)
    get_prompt = blocking(for_trio.ClientGroup.get_prompt)

    @described_as(for_trio.ClientGroup.origin)
    def origin(self, name: str) -> tuple[str, str] | None:
        return self._target.origin(name)


@described_as(for_trio.open_group)
def open_group(
    servers: Mapping[str, MakeConnector], *, naming: Naming = "prefixed", restart: Restart = DEFAULT_RESTART
) -> AbstractContextManager[ClientGroup]:
    for name, make in servers.items():
        check_plain(make, f"servers[{name!r}] of open_group")
    connectors = {name: partial(trio_connector, make) for name, make in servers.items()}
    return BlockingContextManager(for_trio.open_group(connectors, naming=naming, restart=restart), ClientGroup)
