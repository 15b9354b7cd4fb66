"""Runs the checks of an authorization server that stands for itself, without any server behind it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks import Role, Transport
from mcp_conformance.fixtures import Manifest
from mcp_conformance.server import SERVER_CHECKS
from mcp_conformance.server.authorization_server import NEED
from mcp_conformance.survey import Survey
from mcp_conformance.targets import UrlTarget
from mcp_conformance.under_test import ServerUnderTest
from mcp_conformance.verdicts import Deviation, Lane, NotApplicable, NotTestable, Outcome, Run, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from mcp_conformance.checks import Check
    from mcp_conformance.settings import Settings
    from mcp_core.revisions import Revision

__all__ = ["run_authorization_server"]

_NOTHING: Final = Survey(capabilities={}, lists={})


async def run_authorization_server(
    issuer: str,
    settings: Settings,
    *,
    revisions: Sequence[Revision],
    chosen: Collection[str],
    show: Callable[[Verdict], None],
) -> Run:
    """Puts an authorization server to the test.

    Args:
        issuer: What it calls itself.
        settings: The bounds.
        revisions: By the rules of which revisions.
        chosen: The ids of the checks that run.
        show: Is told each verdict as it comes.
    """
    told = attrs.evolve(settings, authorization_server=issuer)
    target = UrlTarget(issuer, told)
    checks = [each for each in SERVER_CHECKS if NEED in each.needs and each.id in chosen]
    lanes, verdicts = [], []
    for revision in revisions:
        mine = [each for each in checks if revision.name in each.revisions]
        if not mine:
            continue
        lanes.append(Lane(revision=revision.name, transport=Transport.HTTP.value, refusal=None))
        subject = ServerUnderTest(
            target=target,
            revision=revision,
            transport=Transport.HTTP,
            survey=_NOTHING,
            manifest=Manifest(),
            settings=told,
            evidence=(),
        )
        for each in mine:
            verdicts.append(await _verdict(each, subject))
            show(verdicts[-1])
    return Run(role=Role.SERVER, target=issuer, lanes=tuple(lanes), verdicts=tuple(verdicts))


async def _verdict(check: Check[ServerUnderTest], subject: ServerUnderTest) -> Verdict:
    outcome, reason, expected, observed = Outcome.PASSED, "", "", ""
    try:
        await check.run(subject)
    except Deviation as deviation:
        outcome, expected, observed = Outcome.FAILED, deviation.expected, deviation.observed
    except NotApplicable as why:
        outcome, reason = Outcome.NOT_APPLICABLE, str(why)
    except NotTestable as why:
        outcome, reason = Outcome.NOT_TESTABLE, str(why)
    except Exception:  # noqa: BLE001  a fault of a check is told as one, and the others go on
        outcome, reason = Outcome.BROKEN, traceback.format_exc()
    return Verdict(
        check=check.id,
        revision=subject.revision.name,
        transport=subject.transport.value,
        outcome=outcome,
        reason=reason,
        expected=expected,
        observed=observed,
    )
