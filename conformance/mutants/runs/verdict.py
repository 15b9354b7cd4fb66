"""The result of the suite for one broken peer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["TIMEOUT", "FaultResult", "failed_checks"]

TIMEOUT: Final = 10.0
"""The timeout of a response in seconds: long, so that the load of concurrent runs fails no check."""


def failed_checks(outcomes: Iterable[tuple[str, Outcome]]) -> frozenset[str]:
    """Return the checks that failed, and a sentence for each one that is broken, which detects nothing."""
    return frozenset(
        check if outcome is Outcome.FAILED else f"{check} is broken"
        for check, outcome in outcomes
        if outcome in (Outcome.FAILED, Outcome.BROKEN)
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
    """Other checks that failed."""

    @classmethod
    def of(
        cls, fault: str, revision: str, transport: str, *, expected: Collection[str], failed: Collection[str]
    ) -> FaultResult:
        """Build the result from the checks that must detect the fault and those that failed."""
        return cls(
            fault=fault,
            transport=transport,
            revision=revision,
            missed=tuple(sorted(set(expected) - set(failed))),
            collateral=tuple(sorted(set(failed) - set(expected))),
        )

    @property
    def killed(self) -> bool:
        """Whether all expected checks failed, and no other check."""
        return not self.missed and not self.collateral
