"""What the suite said of a broken peer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["PATIENCE", "RED", "Trial"]

PATIENCE: Final = 10.0
"""Seconds that an answer may take: many are tried at a time, and a verdict must not come of that."""
RED: Final = (Outcome.FAILED, Outcome.BROKEN)
"""What counts as seen."""


@attrs.frozen(kw_only=True)
class Trial:
    """What the suite said of one fault over one transport."""

    fault: str
    """The fault; empty: there was none."""
    transport: str
    """Over what."""
    revision: str
    """In which revision."""
    missed: tuple[str, ...]
    """The checks that are meant for it and did not fail."""
    collateral: tuple[str, ...]
    """The checks that failed besides."""

    @classmethod
    def of(cls, fault: str, revision: str, transport: str, *, meant: Collection[str], red: Collection[str]) -> Trial:
        """From the checks that are meant to see it, and those that failed."""
        return cls(
            fault=fault,
            transport=transport,
            revision=revision,
            missed=tuple(sorted(set(meant) - set(red))),
            collateral=tuple(sorted(set(red) - set(meant))),
        )

    @property
    def killed(self) -> bool:
        """Whether it was seen by what is meant for it, and by nothing else."""
        return not self.missed and not self.collateral
