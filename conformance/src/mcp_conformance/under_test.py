"""What a check of a server has in its hands."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.param_headers import annotated
from mcp_conformance.verdicts import NotTestable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_conformance.answers import Answer
    from mcp_conformance.checks import Transport
    from mcp_conformance.fixtures import Manifest
    from mcp_conformance.peer import ServerPeer
    from mcp_conformance.settings import Settings
    from mcp_conformance.survey import Survey
    from mcp_conformance.targets import ServerTarget
    from mcp_conformance.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["ServerUnderTest"]


@attrs.define(kw_only=True, eq=False)
class ServerUnderTest:
    """A server, in one revision over one transport."""

    target: ServerTarget
    """It."""
    revision: Revision
    """What is spoken."""
    transport: Transport
    """Over what."""
    survey: Survey
    """What it offers."""
    manifest: Manifest
    """What it has for the fixtures."""
    settings: Settings
    """The bounds."""
    evidence: Sequence[Transcript]
    """What went over the wire in this revision and transport so far: for checks that only look."""
    opened: list[Transcript] = attrs.field(factory=list)
    """What went over the connections that the check opened itself."""
    connected: ServerPeer | None = None
    """The connection that was opened for the check; `None` for a check that opens its own."""

    @property
    def peer(self) -> ServerPeer:
        """The connection that was opened for the check."""
        if self.connected is None:
            raise AssertionError("this check opens its own connections")
        return self.connected

    @asynccontextmanager
    async def open(
        self, *, capabilities: JsonObject | None = None, handshake: bool = True, revision: Revision | None = None
    ) -> AsyncIterator[ServerPeer]:
        """One more connection, for a block.

        Args:
            capabilities: What the client declares; `None`: what every revision understands.
            handshake: Whether it is opened as the revision wants it.
            revision: What is spoken in place of the present revision.
        """
        async with self.target.open(
            revision or self.revision,
            self.transport,
            capabilities=capabilities,
            handshake=handshake,
            by_tool=annotated(self.survey.lists.get("tools", ())),
        ) as peer:
            self.opened.append(peer.transcript)
            yield peer

    async def call(self, fixture: str, arguments: JsonObject | None = None) -> Answer:
        """Calls the tool that stands for a fixture.

        Raises:
            NotTestable: The server has none.
        """
        name, given = self.tool(fixture, arguments)
        return await self.peer.request("tools/call", {"name": name, "arguments": given})

    def tool(self, fixture: str, arguments: JsonObject | None = None) -> tuple[str, JsonObject]:
        """The name of the tool that stands for a fixture, and what to call it with.

        Raises:
            NotTestable: The server has none.
        """
        found = self.manifest.find("tools", fixture)
        if self.survey.find("tools", found.name) is None:
            raise NotTestable(f"the fixture tool {fixture!r} is missing")
        own = found.arguments
        return found.name, (arguments or {}) if own is None else own

    def require(self, kind: str, fixture: str) -> str:
        """The own name or URI of what stands for a fixture of any kind.

        Raises:
            NotTestable: The server has none.
        """
        found = self.manifest.find(kind, fixture)
        if self.survey.find(kind, found.name) is None:
            raise NotTestable(f"the fixture {fixture!r} is missing among the {kind}")
        return found.name
