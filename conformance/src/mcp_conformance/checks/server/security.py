"""Security, as far as it can be tested without credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.unguessable_ids import flaw_of_ids

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

_SAMPLE: Final = 4


@check("security.session-ids", proves=("security.session-id-nondeterministic",), subject=CheckScope.PROCESS)
async def session_ids(server: ServerUnderTest) -> None:
    """Session ids are long, and cannot be derived from one another."""
    ids: list[str] = []
    for _ in range(_SAMPLE):
        async with server.open() as peer:
            if not isinstance(peer, HttpConnection):
                raise TypeError("the requirement is about HTTP")
            if peer.session_id is None:
                raise NotApplicable("the server has no sessions")
            ids.append(peer.session_id)
    wrong = flaw_of_ids(ids)
    if wrong is not None:
        raise Deviation("ids that cannot be guessed", f"{wrong}: {brief(list(ids))}")
