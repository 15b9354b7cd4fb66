"""The result of the suite for one broken peer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_conformance.model.verdict import Run

__all__ = ["TIMEOUT", "FaultResult", "failed_checks"]

TIMEOUT: Final = 10.0
"""The timeout of a response in seconds: long, so that the load of concurrent runs fails no check."""


def failed_checks(run: Run, transport: str | None = None) -> frozenset[str]:
    """Return the checks that failed, and a sentence for each one that is broken, which detects nothing.

    Args:
        run: The run.
        transport: The only transport that counts; `None`: all.
    """
    return frozenset(
        each.check if each.outcome is Outcome.FAILED else f"{each.check} is broken"
        for each in run.verdicts
        if each.outcome in (Outcome.FAILED, Outcome.BROKEN) and transport in (None, each.transport)
    )


@attrs.frozen(kw_only=True)
class FaultResult:
    """The result of the suite for one fault over one transport."""

    fault: str
    """The fault, or the empty string."""
    transport: str
    """The transport."""
    revision: str
    """The revision."""
    missed: tuple[str, ...]
    """The checks that must detect the fault and did not fail."""
    collateral: tuple[str, ...]
    """Other findings."""
    failures: int
    """The number of checks that failed."""
    findings: int
    """The number of those whose failure does not follow from another one, as reports show it."""

    @classmethod
    def of(
        cls,
        fault: str,
        revision: str,
        transport: str,
        *,
        expected: Collection[str],
        failed: Collection[str],
        findings: Collection[str],
    ) -> FaultResult:
        """Build the result from the checks that must detect the fault, those that failed, and the findings."""
        return cls(
            fault=fault,
            transport=transport,
            revision=revision,
            missed=tuple(sorted(set(expected) - set(failed))),
            collateral=tuple(sorted(set(findings) - set(expected))),
            failures=len(failed),
            findings=len(set(findings) & set(failed)),
        )

    @property
    def killed(self) -> bool:
        """Whether all expected checks failed, and no other check."""
        return not self.missed and not self.collateral
