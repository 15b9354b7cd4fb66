"""A server under test, as checks receive it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import attrs

from mcp_conformance.drivers.server.connection_pool import ConnectionPool, kind_of
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.param_headers import annotated
from mcp_conformance.wire.transcript import Part, Transcript
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_conformance.drivers.server.inventory import ServerInventory
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Transport
    from mcp_conformance.model.fixtures_manifest import Manifest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["NotConnected", "ServerUnderTest"]

_Result = TypeVar("_Result")


class NotConnected(Exception):
    """A check uses its connection before one was opened."""


@attrs.define(kw_only=True, eq=False)
class ServerUnderTest:
    """A server in one revision over one transport."""

    target: ServerTarget
    """The server."""
    revision: Revision
    """The revision."""
    transport: Transport
    """The transport."""
    inventory: ServerInventory
    """The features of the server."""
    manifest: Manifest
    """The names of the fixtures on this server."""
    settings: Settings
    """The settings."""
    evidence: list[Transcript]
    """The transcripts of this leg so far, for checks that only inspect them."""
    connections: ConnectionPool
    """The connections that checks share."""
    conversations: dict[str, tuple[object, list[Part]]] = attrs.field(factory=dict)
    """The results of `once` in this leg, and the transcripts of their connections, by name."""
    opened: list[Part] = attrs.field(factory=list)
    """The transcripts of the connections of the check."""
    connected: SuiteConnection | None = None
    """The connection of the check; `None` before it is opened."""

    @property
    def peer(self) -> SuiteConnection:
        """The connection of the check.

        Raises:
            NotConnected: There is no connection yet. The runner opens one and repeats the check. A check whose
                precondition fails without a connection should not cost one, which may be a process.
        """
        if self.connected is None:
            raise NotConnected
        return self.connected

    @asynccontextmanager
    async def open(
        self, *, capabilities: JsonObject | None = None, handshake: bool = True, revision: Revision | None = None
    ) -> AsyncIterator[SuiteConnection]:
        """Open a separate connection while the block runs.

        Args:
            capabilities: The capabilities that the client declares; `None`: those that the revision has.
            handshake: Whether to perform the handshake of the revision.
            revision: The revision in place of the one under test.
        """
        # Before the connection is open: the transcript also shows why it cannot be opened.
        transcript = Transcript()
        self.opened.append(Part(transcript=transcript, since=0))
        async with self.target.open(
            revision or self.revision,
            self.transport,
            capabilities=capabilities,
            handshake=handshake,
            by_tool=annotated(self.inventory.lists.get("tools", ())),
            transcript=transcript,
        ) as peer:
            yield peer

    @asynccontextmanager
    async def share(
        self,
        *,
        capabilities: JsonObject | None = None,
        subject: CheckScope = CheckScope.SHARED,
        evident: bool = False,
        revision: Revision | None = None,
        initialized: bool = True,
        client: str = "",
    ) -> AsyncIterator[SuiteConnection]:
        """Borrow a connection that is shared with other checks, while the block runs.

        Args:
            capabilities: The capabilities that the client declares; `None`: those that the revision has.
            subject: The subject of the check; only checks with the same subject share the connection. Those that leave
                messages behind take over that of the recovering ones.
            evident: Whether its transcript is evidence for checks that only inspect transcripts.
            revision: The revision in place of the one under test.
            initialized: Whether the client has sent notifications/initialized after the result of `initialize`.
            client: Which of several clients, for a check that needs more than one; empty: the first.
        """
        used = revision or self.revision
        # Modern requests declare the capabilities themselves.
        bound = capabilities if used.era is Era.LEGACY or capabilities is None else {}
        key = partial(kind_of, capabilities=bound, revision=used.name, initialized=str(initialized), client=client)
        # Recovering checks have all run before those that leave messages behind.
        instead = key(CheckScope.RECOVERING) if subject is CheckScope.LEAVING else ""

        @asynccontextmanager
        async def open_connection() -> AsyncIterator[SuiteConnection]:
            opened = attrs.evolve(self, opened=[])
            try:
                async with opened.open(capabilities=capabilities, handshake=initialized, revision=revision) as peer:
                    if not initialized:
                        await peer.initialize()
                    if evident:
                        self.evidence.append(peer.transcript)
                    yield peer
            except Deviation:
                # The transcript of a connection that cannot be opened belongs to the check that needs it.
                self.opened.extend(opened.opened)
                raise

        async with self.connections.borrow(key(subject), open_connection, instead=instead) as peer:
            self.opened.append(Part(transcript=peer.transcript, since=len(peer.transcript.entries)))
            if capabilities is not None:
                peer.capabilities = capabilities
            yield peer

    async def once(self, name: str, converse: Callable[[], Awaitable[_Result]]) -> _Result:
        """Hold a conversation once in the leg for all checks that judge it: over stdio it may cost a process.

        Args:
            name: The name of the conversation.
            converse: Holds the conversation on connections that it opens, and returns its result.
        """
        if name not in self.conversations:
            known = len(self.opened)
            result = await converse()
            self.conversations[name] = result, self.opened[known:]
            return result
        found, parts = self.conversations[name]
        self.opened.extend(parts)
        return cast("_Result", found)  # by its name, the result of the same function

    async def call(self, fixture: str, arguments: JsonObject | None = None) -> JsonRpcResponse:
        """Call the tool that represents a fixture.

        Raises:
            NotTestable: The server does not have it.
        """
        name, given = self.tool(fixture, arguments)
        return await self.peer.request("tools/call", {"name": name, "arguments": given})

    def tool(self, fixture: str, arguments: JsonObject | None = None) -> tuple[str, JsonObject]:
        """Return the name of the tool that represents a fixture, and its arguments.

        Raises:
            NotTestable: The server does not have it.
        """
        found = self.manifest.find("tools", fixture)
        if self.inventory.find("tools", found.name) is None:
            raise NotTestable(f"the fixture tool {fixture!r} is missing")
        own = found.arguments
        return found.name, (arguments or {}) if own is None else own

    def require(self, kind: str, fixture: str) -> str:
        """Return the name or URI that represents a fixture of any kind on this server.

        Raises:
            NotTestable: The server does not have it.
        """
        found = self.manifest.find(kind, fixture)
        if self.inventory.find(kind, found.name) is None:
            raise NotTestable(f"the fixture {fixture!r} is missing among the {kind}")
        return found.name
