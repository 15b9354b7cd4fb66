"""The verdict of a check, and the exceptions that produce it.

A check returns when the implementation keeps the rule, and raises otherwise. What was not tested is not a pass: a
report must distinguish "keeps the rule" from "was not tested".
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_conformance.model.check import Role

__all__ = ["Deviation", "ExpiredWait", "Leg", "NotApplicable", "NotTestable", "Outcome", "Run", "Verdict"]


class Outcome(enum.Enum):
    """The outcome of a check."""

    PASSED = "passed"
    """The implementation kept the rule where it was tested."""
    FAILED = "failed"
    """The implementation broke the rule."""
    NOT_APPLICABLE = "not applicable"
    """The rule does not concern this implementation: it does not declare the capability or offer the transport."""
    NOT_TESTABLE = "not testable"
    """The rule could not be tested: a fixture is missing, or the control request failed."""
    BROKEN = "broken"
    """An error of the suite. It says nothing about the implementation."""


class Deviation(Exception):
    """A rule that the implementation breaks.

    Args:
        expected: What the rule requires, as a noun phrase.
        observed: What the implementation did instead.
    """

    def __init__(self, expected: str, observed: str) -> None:
        super().__init__(f"expected {expected}; observed {observed}")
        self.expected = expected
        self.observed = observed


class ExpiredWait(Deviation):
    """A wait that ended without what the rule requires."""


class NotApplicable(Exception):
    """The rule does not concern the implementation. The argument is the reason."""


class NotTestable(Exception):
    """The rule could not be tested. The argument is the reason."""


@attrs.frozen(kw_only=True)
class Verdict:
    """The verdict of a check, in one revision over one transport."""

    check: str
    """Id of the check."""
    revision: str
    """Revision of the connection."""
    transport: str
    """Transport of the connection."""
    outcome: Outcome
    """Outcome of the check."""
    reason: str = ""
    """Reason why the check does not apply, could not test or had an error."""
    expected: str = ""
    """What the rule requires, when the check failed."""
    observed: str = ""
    """What the implementation did, when the check failed."""
    transcript: tuple[str, ...] = ()
    """Messages that the check exchanged, one per line, with secrets masked. Empty when the check passed."""
    log: str = ""
    """Last lines that the implementation wrote to standard error."""
    cause: str = ""
    """Id of the check whose failure makes this one not testable; empty without one."""
    broken_basics: tuple[str, ...] = ()
    """Ids of the basic checks whose rules the messages of the check break, when the check failed."""


@attrs.frozen(kw_only=True)
class Leg:
    """One revision over one transport."""

    revision: str
    """Name of the revision."""
    transport: str
    """Name of the transport."""
    refusal: str | None
    """Reason why nothing could be tested; `None` when the leg ran."""
    log: str = ""
    """Last lines that the implementation wrote to standard error."""


@attrs.frozen(kw_only=True)
class Run:
    """A run of the suite."""

    role: Role
    """The side under test."""
    target: str
    """The implementation under test: a command line or a URL."""
    implementation: str = ""
    """Name and version that the implementation states; empty when it stated none."""
    legs: tuple[Leg, ...]
    """The legs, in order."""
    verdicts: tuple[Verdict, ...]
    """All verdicts, by leg, then in the order of the checks."""
    invocation: str = ""
    """Command line that tests the same target with all checks; empty when unknown."""

    def of(self, leg: Leg) -> tuple[Verdict, ...]:
        """Return the verdicts of one leg."""
        return tuple(v for v in self.verdicts if (v.revision, v.transport) == (leg.revision, leg.transport))
