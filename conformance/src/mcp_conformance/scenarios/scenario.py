"""The definition of a scenario, and the setup of the fake server for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from mcp_conformance.drivers.client.http_host import HttpHost
from mcp_conformance.drivers.client.sse_host import SseHost
from mcp_conformance.drivers.client.stdio_host import StdioHost
from mcp_conformance.model.check import Transport
from mcp_core.revisions import between

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.drivers.client.fake_server import FakeServer
    from mcp_conformance.scenarios.oauth_scenario import OAuthSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["Host", "Scenario", "ScenarioSetup"]

Host: TypeAlias = HttpHost | SseHost | StdioHost


@attrs.define(kw_only=True, eq=False)
class ScenarioSetup:
    """The setup of a scenario before the client starts."""

    revision: Revision
    """The revision that the client is instructed to use."""
    transport: Transport
    """The transport."""
    server: FakeServer
    """The server, which is correct unless the scenario changes it."""
    host: Host
    """The host of the server."""
    timeout: float
    """Seconds that a response may take."""
    notes: dict[str, JsonValue] = attrs.field(factory=dict)
    """Data for the checks."""

    @property
    def http(self) -> HttpHost:
        """The host of a scenario for Streamable HTTP only."""
        if isinstance(self.host, HttpHost):
            return self.host
        raise AssertionError("the scenario is for HTTP only")

    @property
    def stdio(self) -> StdioHost:
        """The host of a scenario for stdio only."""
        if isinstance(self.host, StdioHost):
            return self.host
        raise AssertionError("the scenario is for stdio only")


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """A scenario. The client receives its name and acts accordingly: at least it connects and uses all features."""

    name: str
    """The name that the client receives."""
    title: str
    """A one-sentence description."""
    prepare: Callable[[ScenarioSetup], None]
    """The function that changes the server."""
    revisions: frozenset[Revision] = attrs.field(factory=between)
    """The revisions in which the scenario runs."""
    transports: frozenset[Transport] = frozenset(Transport)
    """The transports over which the scenario runs."""
    speaks: tuple[Revision, ...] | None = None
    """The revisions that the server supports; `None`: the one that the client is instructed to use."""
    free: bool = False
    """Whether the client may use any revision. Otherwise it is instructed which one to use."""
    context: JsonObject | None = None
    """Further data that the client receives."""
    oauth_setup: OAuthSetup | None = None
    """The OAuth setup with its own MCP server; `None` for scenarios without OAuth."""

    def belongs(self, revision: Revision, transport: Transport) -> bool:
        """Return whether the scenario runs in a revision over a transport."""
        return revision in self.revisions and transport in self.transports
