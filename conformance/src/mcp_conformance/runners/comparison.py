"""The runner of comparisons: the same checks against two implementations, repeated where they differ.

What depends on time, for instance whether a notification is sent before a cancellation, can differ between two runs of
one implementation. A difference therefore counts only if it is found again when the checks that differ are repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import attrs

from mcp_conformance.comparison.behavior import client_steps, server_steps
from mcp_conformance.comparison.differences import CheckRecord, differences, differing
from mcp_conformance.model.check import CheckScope, Role
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Sequence

    from mcp_conformance.comparison.differences import CheckDifference, Key
    from mcp_conformance.model.verdict import Run, Verdict
    from mcp_conformance.runners.check_run import Observe
    from mcp_conformance.wire.transcript import Entry
    from mcp_core.revisions import Revision

    Records: TypeAlias = dict[Key, list[CheckRecord]]

__all__ = ["Comparison", "Conversation", "compare"]

_REPETITIONS: Final = range(2, 5)
"""Number of times that the checks with differences are repeated: after the minimum, until no difference disappears."""


class Conversation(Protocol):
    """A function that runs checks against one of the implementations."""

    def __call__(self, *, revisions: Sequence[Revision], chosen: Collection[str], observe: Observe) -> Awaitable[Run]:
        """Run the checks with some ids in some revisions. `observe` receives what they exchange."""
        ...


@attrs.frozen(kw_only=True)
class Comparison:
    """The result of a comparison."""

    a: Run
    """The first run of the first implementation."""
    b: Run
    """The first run of the second implementation."""
    differences: tuple[CheckDifference, ...]
    """The differences in checks."""
    compared: int
    """The number of verdicts that both have."""

    @property
    def refusals(self) -> tuple[tuple[str, str, str | None, str | None], ...]:
        """The legs that only one of them supports: revision, transport, and the reason why the first or second does not."""
        other = {(leg.revision, leg.transport): leg.refusal for leg in self.b.legs}
        pairs = [
            (leg, other[leg.revision, leg.transport]) for leg in self.a.legs if (leg.revision, leg.transport) in other
        ]
        return tuple(
            (leg.revision, leg.transport, leg.refusal, refusal)
            for leg, refusal in pairs
            if (leg.refusal is None) is not (refusal is None)
        )

    @property
    def differs(self) -> bool:
        """Whether there is any difference."""
        return bool(self.differences or self.refusals)


async def compare(
    a: Conversation, b: Conversation, role: Role, *, revisions: Sequence[Revision], chosen: Collection[str]
) -> Comparison:
    """Compare two implementations.

    Args:
        a: Runs checks against the first one.
        b: Runs checks against the second one.
        role: The role of both.
        revisions: The revisions to test.
        chosen: The ids of the checks that run.
    """
    records: tuple[Records, Records] = ({}, {})
    runs = [
        await converse(revisions=revisions, chosen=chosen, observe=_recorder(role, into))
        for converse, into in zip((a, b), records, strict=True)
    ]
    found = differing(_paired(records))
    for repetition in range(1, _REPETITIONS.stop):
        judging = {key for key in found if find(key[0], role).scope is CheckScope.EVIDENCE}
        # A check that judges the messages of others sees all of them only in a whole run: one repetition of it shows
        # which differences are chance.
        whole = repetition == 1 and bool(judging)
        again = found if whole else found - judging
        if not again:
            break
        for converse, into in zip((a, b), records, strict=True):
            await converse(
                revisions=[each for each in revisions if any(key[1] == each.name for key in again)],
                chosen=chosen if whole else {key[0] for key in again},
                observe=_recorder(role, into, again),
            )
        before, found = found, differing(_paired(records))
        if found == before and repetition in _REPETITIONS:
            break
    pairs = _paired(records)
    return Comparison(
        a=runs[0],
        b=runs[1],
        differences=tuple(differences({key: pairs[key] for key in pairs if key in found}, role)),
        compared=len(pairs),
    )


def _recorder(role: Role, records: Records, only: Collection[Key] | None = None) -> Observe:
    """Return a function that enters a record for each verdict, or for some checks only."""
    steps_of = server_steps if role is Role.SERVER else client_steps

    def observe(verdict: Verdict, parts: Sequence[Sequence[Entry]]) -> None:
        key = (verdict.check, verdict.revision, verdict.transport)
        if only is None or key in only:
            records.setdefault(key, []).append(CheckRecord(verdict=verdict, steps=steps_of(parts)))

    return observe


def _paired(records: tuple[Records, Records]) -> dict[Key, tuple[Sequence[CheckRecord], Sequence[CheckRecord]]]:
    """Return the records of the checks that both have, in the order of the first one."""
    a, b = records
    return {key: (a[key], b[key]) for key in a if key in b}
