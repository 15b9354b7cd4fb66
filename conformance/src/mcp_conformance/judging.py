"""What becomes of a check: one verdict, whatever it does."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.verdicts import Deviation, NotApplicable, NotTestable, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.checks import Check
    from mcp_conformance.transcript import Part
    from mcp_conformance.under_test import ServerUnderTest

__all__ = ["RED", "judged"]

RED: Final = (Outcome.FAILED, Outcome.BROKEN)
"""What is told with a transcript."""


async def judged(
    check: Check[ServerUnderTest],
    subject: ServerUnderTest,
    run: Callable[[Check[ServerUnderTest], ServerUnderTest], Awaitable[None]],
) -> Verdict:
    """Runs a check, and says what it came to.

    Args:
        check: It.
        subject: What it is put to.
        run: Runs it: returns when the subject passed, raises otherwise.
    """
    outcome, reason, expected, observed = Outcome.PASSED, "", "", ""
    parts: list[Part] = []
    try:
        await run(check, attrs.evolve(subject, opened=parts))
    except Deviation as deviation:
        outcome, expected, observed = Outcome.FAILED, deviation.expected, deviation.observed
    except NotApplicable as why:
        outcome, reason = Outcome.NOT_APPLICABLE, str(why)
    except NotTestable as why:
        outcome, reason = Outcome.NOT_TESTABLE, str(why)
    except Exception:  # noqa: BLE001  a fault of a check is told as one, and the others go on
        outcome, reason = Outcome.BROKEN, traceback.format_exc()
    told = outcome in RED
    return Verdict(
        check=check.id,
        revision=subject.revision.name,
        transport=subject.transport.value,
        outcome=outcome,
        reason=reason,
        expected=expected,
        observed=observed,
        transcript=tuple(str(entry) for part in parts for entry in part.entries) if told else (),
        log=subject.target.log if told else "",
    )
