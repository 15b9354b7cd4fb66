"""What a check can come to, and how it says so.

A check returns when all is well, and raises otherwise. What is neither is not a pass: whoever reads a report must be able
to tell "keeps the rule" from "nobody looked".
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_conformance.model.check import Role

__all__ = ["Deviation", "Lane", "NotApplicable", "NotTestable", "Outcome", "Run", "Verdict"]


class Outcome(enum.Enum):
    """What a check came to."""

    PASSED = "passed"
    """The rule was kept where it was put to the test."""
    FAILED = "failed"
    """It was broken."""
    NOT_APPLICABLE = "not applicable"
    """It does not concern this implementation: the capability is not declared, the transport not offered."""
    NOT_TESTABLE = "not testable"
    """It does, but it could not be put to the test: a fixture is missing, or the control did not succeed."""
    BROKEN = "broken"
    """The suite itself went wrong. It says nothing about the implementation."""


class Deviation(Exception):
    """The implementation breaks a rule.

    Args:
        expected: What the rule asks for, in a sentence.
        observed: What came instead.
    """

    def __init__(self, expected: str, observed: str) -> None:
        super().__init__(f"expected {expected}; observed {observed}")
        self.expected = expected
        self.observed = observed


class NotApplicable(Exception):
    """The rule does not concern the implementation. Why is the only argument."""


class NotTestable(Exception):
    """The rule could not be put to the test. Why is the only argument."""


@attrs.frozen(kw_only=True)
class Verdict:
    """What one check came to, in one revision over one transport."""

    check: str
    """The check's id."""
    revision: str
    """The revision that was spoken."""
    transport: str
    """Over what."""
    outcome: Outcome
    """What it came to."""
    reason: str = ""
    """Why it does not apply, could not be tested or broke."""
    expected: str = ""
    """Of a failure: what the rule asks for."""
    observed: str = ""
    """Of a failure: what came."""
    transcript: tuple[str, ...] = ()
    """What went over the wire for this check, one line each; secrets masked. Kept where it did not pass."""
    log: str = ""
    """The end of what the implementation wrote to standard error."""


@attrs.frozen(kw_only=True)
class Lane:
    """What became of one revision over one transport."""

    revision: str
    """The revision."""
    transport: str
    """The transport."""
    refusal: str | None
    """Why nothing could be tried there; `None` where it could."""
    log: str = ""
    """The end of what the implementation wrote to standard error then."""


@attrs.frozen(kw_only=True)
class Run:
    """A whole run."""

    role: Role
    """Which side was put to the test."""
    target: str
    """What was put to the test: a command line or a URL."""
    lanes: tuple[Lane, ...]
    """The lanes, in order."""
    verdicts: tuple[Verdict, ...]
    """All verdicts, by lane, then in the order of the checks."""
    invocation: str = ""
    """The command line that puts the same target to the test, without a choice of checks; empty where it is not known."""

    def of(self, lane: Lane) -> tuple[Verdict, ...]:
        """The verdicts of one lane."""
        return tuple(v for v in self.verdicts if (v.revision, v.transport) == (lane.revision, lane.transport))
