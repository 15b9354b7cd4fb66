"""What a check of a server has in its hands."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.drivers.server.connections import Connections, kind_of
from mcp_conformance.model.check import Subject
from mcp_conformance.model.verdict import NotTestable
from mcp_conformance.protocol.param_headers import annotated
from mcp_conformance.wire.transcript import Part, Transcript

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.inventory import Survey
    from mcp_conformance.drivers.server.peer import ServerPeer
    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Transport
    from mcp_conformance.model.fixtures_manifest import Manifest
    from mcp_conformance.protocol.response import Answer
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["NotConnected", "ServerUnderTest"]


class NotConnected(Exception):
    """A check wants its connection, and none was opened yet."""


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
    evidence: list[Transcript]
    """What went over the wire in this revision and transport so far: for checks that only look."""
    connections: Connections
    """The connections that checks share."""
    opened: list[Part] = attrs.field(factory=list)
    """What went over the connections of the check."""
    connected: ServerPeer | None = None
    """The connection of the check; `None` where there is none yet."""

    @property
    def peer(self) -> ServerPeer:
        """The connection of the check.

        Raises:
            NotConnected: There is none yet. The runner opens one, and begins again: a check that lacks something that
                shows without a connection should not cost one, which may be a process.
        """
        if self.connected is None:
            raise NotConnected
        return self.connected

    @asynccontextmanager
    async def open(
        self, *, capabilities: JsonObject | None = None, handshake: bool = True, revision: Revision | None = None
    ) -> AsyncIterator[ServerPeer]:
        """A connection of its own, for a block.

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
            self.opened.append(Part(transcript=peer.transcript, since=0))
            yield peer

    @asynccontextmanager
    async def share(
        self, *, capabilities: JsonObject | None = None, subject: Subject = Subject.SHARED, evident: bool = False
    ) -> AsyncIterator[ServerPeer]:
        """A connection that other checks had before and will have after, for a block.

        Args:
            capabilities: What the client declares; `None`: what every revision understands.
            subject: What is done on it, which it shares with its like alone.
            evident: Whether what goes over it is evidence for checks that only look.
        """

        @asynccontextmanager
        async def opening() -> AsyncIterator[ServerPeer]:
            opened = attrs.evolve(self, opened=[])
            async with opened.open(capabilities=capabilities) as peer:
                if evident:
                    self.evidence.append(peer.transcript)
                yield peer

        async with self.connections.borrow(kind_of(subject, capabilities), opening) as peer:
            self.opened.append(Part(transcript=peer.transcript, since=len(peer.transcript.entries)))
            yield peer

    async def call(self, fixture: str, arguments: JsonObject | None = None) -> Answer:
        """Call the tool that stands for a fixture.

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
