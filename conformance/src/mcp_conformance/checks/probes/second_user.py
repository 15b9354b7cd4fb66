"""A second user of the server under test: who must not get what is the first one's alone."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.wire.transcript import Part

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["other_user"]


@asynccontextmanager
async def other_user(server: ServerUnderTest) -> AsyncIterator[SuiteConnection]:
    """A connection of another user, for a block.

    Raises:
        NotApplicable: No other one is known.
        NotTestable: The control failed: the server does not let the other one in.
    """
    headers = server.settings.other_headers
    if not headers or not isinstance(server.target, UrlTarget):
        raise NotApplicable("only one user is known: see --other-header and --auth")
    async with AsyncExitStack() as stack:
        target = server.target.for_user(headers)
        try:
            peer = await stack.enter_async_context(target.open(server.revision, server.transport))
            await peer.fence()
        except Deviation as deviation:
            raise NotTestable(f"the control failed: the other user is not served: {deviation}") from deviation
        server.opened.append(Part(transcript=peer.transcript, since=0))
        yield peer
