"""The attribution of failures: one fault is one finding.

A check that depends on another one cannot judge when that one failed. Its failure is then not testable, with the reason;
a pass remains a pass. A failure is attributed only to failures that count by the same rules, so that a check outside of
the level or the profile hides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_conformance.model.verdict import Outcome
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.model.check import Role
    from mcp_conformance.model.verdict import Run, Verdict

__all__ = ["attributed"]


def attributed(run: Run, counts: Callable[[Verdict], bool] = lambda _: True) -> Run:
    """Return a run in which failures that follow from others are not testable.

    Args:
        run: The run.
        counts: Returns whether the failure of a verdict counts.
    """
    verdicts: list[Verdict] = []
    for leg in run.legs:
        own = run.of(leg)
        failed = {each.check: each for each in own if each.outcome is Outcome.FAILED and counts(each)}
        verdicts += (_judged(each, failed, run.role) for each in own)
    return attrs.evolve(run, verdicts=tuple(verdicts))


def _judged(verdict: Verdict, failed: Mapping[str, Verdict], role: Role) -> Verdict:
    if verdict.outcome is not Outcome.FAILED:
        return verdict
    cause = _cause(verdict, failed, role)
    if cause is None:
        return verdict
    reason = f"not testable because of {cause.check}: expected {cause.expected}; observed {cause.observed}"
    return attrs.evolve(verdict, outcome=Outcome.NOT_TESTABLE, reason=reason)


def _cause(verdict: Verdict, failed: Mapping[str, Verdict], role: Role) -> Verdict | None:
    """Return the failure from which another one follows, first of all those that follow from none themselves."""
    for id in (*verdict.broken_basics, *find(verdict.check, role).depends_on):
        if id in failed:
            return _cause(failed[id], failed, role) or failed[id]
    return None
