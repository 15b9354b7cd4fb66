"""What keeps strangers out, as far as it can be seen without credentials."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_peer import HttpPeer
from mcp_conformance.model.check import Subject
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

_SAMPLE: Final = 4
_LONG: Final = 16
"""Characters: fewer than 64 bits in hexadecimal digits are guessed."""

__all__ = ["flaw_of_ids"]


@check("security.session-ids", proves=("security.session-id-nondeterministic",), subject=Subject.PROCESS)
async def session_ids(server: ServerUnderTest) -> None:
    """The ids of sessions are long, and one does not follow from another."""
    ids: list[str] = []
    for _ in range(_SAMPLE):
        async with server.open() as peer:
            if not isinstance(peer, HttpPeer):
                raise TypeError("the requirement is one of HTTP")
            if peer.session_id is None:
                raise NotApplicable("the server has no sessions")
            ids.append(peer.session_id)
    wrong = flaw_of_ids(ids)
    if wrong is not None:
        raise Deviation("ids that cannot be guessed", f"{wrong}: {brief(list(ids))}")


def flaw_of_ids(ids: list[str]) -> str | None:
    """What is wrong with ids that should be beyond guessing; only gross faults can be seen."""
    if len(set(ids)) < len(ids):
        return "one came twice"
    if any(len(id) < _LONG for id in ids):
        return f"shorter than {_LONG} characters"
    for one, other in pairwise(ids):
        if sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other)) <= 2:
            return "two differ in two characters or less"
    return None
