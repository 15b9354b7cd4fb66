"""Runs built by hand, for tests of scores and reports."""

from __future__ import annotations

import datetime

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.model.check import Role
from mcp_conformance.model.verdict import Leg, Outcome, Run, Verdict
from mcp_conformance.scoring.score import Rules, ScoredRun, score
from mcp_conformance.suite.checks import CHECKS

TODAY = datetime.date(2026, 11, 22)
REVISION = "2025-06-18"
PRESENT = [check for check in SERVER_CHECKS if REVISION in check.revisions]
IDS = [
    check.id
    for check in PRESENT
    if {check.level(revision) for revision in check.revisions} == {Level.MUST}
    and check.revisions >= {"2024-11-05", "2025-03-26", "2025-11-25"}
    and not check.depends_on
]
RECOMMENDED = [check.id for check in PRESENT if check.level(REVISION) is Level.SHOULD]
RULES = Rules(today=TODAY)


def verdict(
    outcome: Outcome, text: str = "something", check: str = IDS[0], revision: str = REVISION, transport: str = "stdio"
) -> Verdict:
    return Verdict(
        check=check,
        revision=revision,
        transport=transport,
        outcome=outcome,
        reason=text,
        expected=text if outcome is Outcome.FAILED else "",
        observed=text,
        transcript=(text, "--> {}"),
        log=text,
    )


def run_of(*verdicts: Verdict, refusal: str = "does not", target: str = "server") -> Run:
    pairs = dict.fromkeys((each.revision, each.transport) for each in verdicts)
    legs = [Leg(revision=revision, transport=transport, refusal=None) for revision, transport in pairs]
    legs.append(Leg(revision="2024-11-05", transport="stdio", refusal=refusal))
    return Run(role=Role.SERVER, target=target, legs=tuple(legs), verdicts=verdicts)


def scored(*verdicts: Verdict, rules: Rules = RULES) -> ScoredRun:
    return score(run_of(*verdicts), rules)


def client_run(outcome: Outcome) -> ScoredRun:
    check = next(check for check in CHECKS[Role.CLIENT] if REVISION in check.revisions)
    run = run_of(verdict(outcome, check=check.id, transport="http"))
    return score(Run(role=Role.CLIENT, target="client", legs=run.legs, verdicts=run.verdicts), RULES)
