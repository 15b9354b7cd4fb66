"""The result of the suite for one broken peer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["NOT_PASSED", "TIMEOUT", "FaultResult"]

TIMEOUT: Final = 10.0
"""The timeout of a response in seconds: long, so that the load of concurrent runs fails no check."""
NOT_PASSED: Final = (Outcome.FAILED, Outcome.BROKEN)
"""The outcomes that count as detected."""


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
