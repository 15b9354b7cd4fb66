"""A scenario: what a client under test meets, and how the fake server behaves in it."""

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
    from mcp_conformance.scenarios.oauth_scenario import Scene
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["Host", "Scenario", "Stage"]

Host: TypeAlias = HttpHost | SseHost | StdioHost


@attrs.define(kw_only=True, eq=False)
class Stage:
    """Where a scenario is set up, before the client starts."""

    revision: Revision
    """What the client is told to speak."""
    transport: Transport
    """Over what."""
    server: FakeServer
    """What it will meet: correct, unless the scenario changes it."""
    host: Host
    """How it is reached."""
    patience: float
    """Seconds that something may take."""
    notes: dict[str, JsonValue] = attrs.field(factory=dict)
    """What checks are to know."""

    @property
    def http(self) -> HttpHost:
        """The host, of a scenario that is for Streamable HTTP alone."""
        if isinstance(self.host, HttpHost):
            return self.host
        raise AssertionError("this scenario is for HTTP alone")

    @property
    def stdio(self) -> StdioHost:
        """The host, of a scenario that is for stdio alone."""
        if isinstance(self.host, StdioHost):
            return self.host
        raise AssertionError("this scenario is for stdio alone")


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """What a client meets. It is told the name, and does what fits: at the least it connects, and uses what there is."""

    name: str
    """Its name, as the client is told."""
    title: str
    """What happens, in a sentence."""
    prepare: Callable[[Stage], None]
    """Changes the server."""
    revisions: frozenset[Revision] = attrs.field(factory=between)
    """In which revisions it is played."""
    transports: frozenset[Transport] = frozenset(Transport)
    """Over what."""
    speaks: tuple[Revision, ...] | None = None
    """What the server speaks; `None`: what the client is told to."""
    free: bool = False
    """The client is told no revision: it may speak whatever it can."""
    context: JsonObject | None = None
    """What the client is told besides."""
    scene: Scene | None = None
    """The world of OAuth that it is played in, with an MCP server of its own; `None`: none of that."""

    def belongs(self, revision: Revision, transport: Transport) -> bool:
        """Whether it is played there."""
        return revision in self.revisions and transport in self.transports
