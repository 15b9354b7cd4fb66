"""A second user of the server under test, who must not have access to what belongs to the first one."""

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
    """Open a connection of the other user.

    Raises:
        NotApplicable: The suite has no credentials of another user.
        NotTestable: The server does not accept the other user.
    """
    headers = server.settings.other_headers
    if not headers or not isinstance(server.target, UrlTarget):
        raise NotApplicable("the suite has credentials of one user only: see --other-header and --auth")
    async with AsyncExitStack() as stack:
        target = server.target.for_user(headers)
        try:
            peer = await stack.enter_async_context(target.open(server.revision, server.transport))
            await peer.fence()
        except Deviation as deviation:
            raise NotTestable(
                f"the control request failed: the server does not serve the other user: {deviation}"
            ) from deviation
        server.opened.append(Part(transcript=peer.transcript, since=0))
        yield peer
