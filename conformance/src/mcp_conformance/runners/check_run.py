"""The execution of a check, which always ends with one verdict."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.checks.registry.dependencies import SERVER_BASICS
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeAlias

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.model.check import Check, Transport
    from mcp_conformance.wire.transcript import Entry, Part
    from mcp_core.revisions import Revision

    Observe: TypeAlias = Callable[[Verdict, Sequence[Sequence[Entry]]], None]

__all__ = ["FAILING", "judged", "server_judged"]

FAILING: Final = (Outcome.FAILED, Outcome.BROKEN)
"""Outcomes that are reported with a transcript."""


class _UnderTest(Protocol):
    """The attributes that servers and clients under test have in common."""

    @property
    def revision(self) -> Revision:
        """Revision of the connection."""
        ...

    @property
    def transport(self) -> Transport:
        """Transport of the connection."""
        ...


async def judged(
    check: str,
    subject: _UnderTest,
    run: Callable[[], Awaitable[None]],
    evidence: Callable[[Exception], tuple[Sequence[str], str]],
) -> Verdict:
    """Run a check and return its verdict.

    Args:
        check: The id of the check.
        subject: The implementation under test.
        run: Runs the check: returns when it passes, raises otherwise.
        evidence: Returns the transcript and the log for a failed verdict, from the exception of the check.
    """
    clean = Verdict(
        check=check,
        revision=subject.revision.name,
        transport=subject.transport.value,
        outcome=Outcome.PASSED,
    )
    try:
        await run()
    except Deviation as deviation:
        failure: Exception = deviation
        found = attrs.evolve(clean, outcome=Outcome.FAILED, expected=deviation.expected, observed=deviation.observed)
    except NotApplicable as why:
        return attrs.evolve(clean, outcome=Outcome.NOT_APPLICABLE, reason=str(why))
    except NotTestable as why:
        return attrs.evolve(clean, outcome=Outcome.NOT_TESTABLE, reason=str(why))
    except Exception as error:  # noqa: BLE001  an error of a check is reported, and the others continue
        failure = error
        found = attrs.evolve(clean, outcome=Outcome.BROKEN, reason=traceback.format_exc())
    else:
        return clean
    lines, log = evidence(failure)
    return attrs.evolve(found, transcript=tuple(lines), log=log)


async def server_judged(
    check: Check[ServerUnderTest],
    subject: ServerUnderTest,
    run: Callable[[Check[ServerUnderTest], ServerUnderTest], Awaitable[None]],
    observe: Observe | None = None,
) -> Verdict:
    """Run a check of a server and return its verdict.

    Args:
        check: The check.
        subject: The server under test.
        run: Runs the check: returns when it passes, raises otherwise.
        observe: Receives the verdict with the entries of each connection of the check.
    """
    parts: list[Part] = []

    async def recorded() -> None:
        await run(check, attrs.evolve(subject, opened=parts))

    verdict = await judged(
        check.id,
        subject,
        recorded,
        lambda _: ([str(entry) for part in parts for entry in part.entries], _log(parts)),
    )
    if observe is not None:
        observe(verdict, [part.entries for part in parts])
    if verdict.outcome is not Outcome.FAILED:
        return verdict
    return attrs.evolve(verdict, broken_basics=await _broken_basics(check, subject, parts))


def _log(parts: Sequence[Part]) -> str:
    """Return the last lines of standard error of the process that a check used last; empty if none is known."""
    return next((log for part in reversed(parts) if (log := part.transcript.log())), "")


async def _broken_basics(
    check: Check[ServerUnderTest], subject: ServerUnderTest, parts: Sequence[Part]
) -> tuple[str, ...]:
    """Return the basic checks that fail with the messages of a check alone."""
    own = attrs.evolve(subject, evidence=[part.alone for part in parts], opened=[])
    found: list[str] = []
    for basic in (SERVER_CHECKS[id] for id in SERVER_BASICS):
        if basic.id != check.id and subject.revision.name in basic.revisions and subject.transport in basic.transports:
            try:
                await basic.run(own)
            except Deviation:
                found.append(basic.id)
            except (NotApplicable, NotTestable):
                continue
    return tuple(found)
