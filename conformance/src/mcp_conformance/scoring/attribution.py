"""The attribution of failures: one fault is one finding.

A check that depends on another one cannot judge when that one failed. Its failure is then not testable, with the reason;
a pass remains a pass. The rules of the score decide which failures explain others, so that a check outside of the level
or the profile, or a warning, hides nothing.
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


def attributed(run: Run, explains: Callable[[Verdict, Verdict], bool] = lambda *_: True) -> Run:
    """Return a run in which failures that follow from others are not testable.

    Args:
        run: The run.
        explains: Returns whether the failure of the first verdict may be the cause of the second one.
    """
    verdicts: list[Verdict] = []
    for leg in run.legs:
        own = run.of(leg)
        failed = [each for each in own if each.outcome is Outcome.FAILED]
        for each in own:
            found = each
            if each.outcome is Outcome.FAILED:
                found = _judged(each, {cause.check: cause for cause in failed if explains(cause, each)}, run.role)
            verdicts.append(found)
    return attrs.evolve(run, verdicts=tuple(verdicts))


def _judged(verdict: Verdict, failed: Mapping[str, Verdict], role: Role) -> Verdict:
    cause = _cause(verdict, failed, role)
    if cause is None:
        return verdict
    reason = f"not testable because of {cause.check}: expected {cause.expected}; observed {cause.observed}"
    return attrs.evolve(verdict, outcome=Outcome.NOT_TESTABLE, reason=reason, cause=cause.check)


def _cause(verdict: Verdict, failed: Mapping[str, Verdict], role: Role) -> Verdict | None:
    """Return the failure from which another one follows, first of all those that follow from none themselves."""
    for id in (*verdict.broken_basics, *find(verdict.check, role).depends_on):
        if id in failed:
            return _cause(failed[id], failed, role) or failed[id]
    return None
