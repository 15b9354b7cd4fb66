"""The trial of one generated fault: the checks that see its target run until one names it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.model.check import CheckScope, Role, Transport
from mcp_conformance.model.verdict import Leg as RunLeg
from mcp_conformance.model.verdict import Outcome, Run
from mcp_conformance.scoring.attribution import attributed
from mcp_conformance.suite.checks import find
from mutants.generated.logins.operator import LOGIN
from mutants.generated.protected import PROTECTED
from mutants.generated.proxy import Observer
from mutants.generated.recording import run_faulty_client, run_faulty_server
from mutants.generated.relevance import is_related, is_unrelated_must

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_conformance.model.check import CheckInfo
    from mcp_conformance.model.verdict import Verdict
    from mutants.generated.fault import GeneratedFault, Leg, Recording

__all__ = ["Score", "TrialResult", "try_generated"]

_TOUR: Final = "schema.tour"
_FIRST_SCENARIOS: Final = (
    "initialize",
    "tools_call",
    "server-asks",
    "auth/metadata-default",
    "auth/dpop-nonce",
)
"""The scenarios that contain most messages."""
_CONTROLS: Final = ("auth/metadata-default", "auth/2025-03-26-oauth-metadata-backcompat")
"""The scenarios in which a client that logs in must succeed, so that checks of logins judge others."""
_FEW: Final = 3
_MANY: Final = 12
"""The number of scenarios in which a client is tested first, and then."""


class Score(enum.Enum):
    """The result of a fault."""

    NAMED = "named"
    """A check failed."""
    UNRELATED = "unrelated"
    """A check of the level MUST failed that proves no requirement of the areas that the fault violates."""
    REFUSED = "refused"
    """The suite reported that the leg cannot be tested, with the reason."""
    SURVIVED = "survived"
    """No check failed."""
    INVISIBLE = "invisible"
    """No check failed, and the specification permits it."""
    FALSE = "false"
    """A check failed, although the specification permits it."""
    UNREACHED = "unreached"
    """The peer never sent the target: the fault does not count."""

    @property
    def is_visible(self) -> bool:
        """Whether the fault counts as one that a check can name."""
        return self in (Score.NAMED, Score.UNRELATED, Score.REFUSED, Score.SURVIVED)

    @property
    def is_right(self) -> bool:
        """Whether the suite judges rightly."""
        return self in (Score.NAMED, Score.REFUSED, Score.INVISIBLE)


@attrs.frozen(kw_only=True)
class TrialResult:
    """The result of the suite for one generated fault."""

    fault: str
    """The name of the fault."""
    operator: str
    """Its operator."""
    area: str
    """Its area."""
    leg: Leg
    """The leg."""
    score: Score
    """The result."""
    checks: tuple[str, ...] = ()
    """The checks that failed, those of unrelated requirements first, or the reason of a refusal."""


class _Counter(Observer):
    def __init__(self) -> None:
        self.hits = 0

    def hit(self) -> None:
        """Count a change."""
        self.hits += 1


def _scope(check: str) -> CheckScope:
    return find(check, Role.SERVER).scope


def _check(id: str, fault: GeneratedFault) -> CheckInfo:
    return find(id, Role(fault.leg.role))


def _is_related(id: str, fault: GeneratedFault) -> bool:
    return is_related(_check(id, fault), fault)


async def try_generated(fault: GeneratedFault, recording: Recording, *, whole: bool = False) -> TrialResult:
    """Test a peer with a generated fault.

    Args:
        fault: The fault.
        recording: The recording of its leg.
        whole: Run every check that sees the target, also after one has failed.
    """
    if fault.leg.role == "client":
        return await _try_client(fault, recording)
    counter = _Counter()
    refusal = ""
    failed: list[str] = []
    for chosen in _stages(fault, recording):
        run = await _run(fault, counter, chosen, stops=not whole)
        failed, refusal = _judged(run, recording)
        if refusal or any(_is_related(each, fault) for each in failed):
            break
    return _result(fault, counter.hits, failed, refusal)


async def _try_client(fault: GeneratedFault, recording: Recording) -> TrialResult:
    """Test a client: first in a few scenarios that have the target, then in more, then in the others."""
    scenarios = recording.scenarios_with(fault.target.key)
    scenarios.sort(key=lambda each: (each not in _FIRST_SCENARIOS, len(recording.scenarios[each])))
    hits, failed, refusal = 0, [""][:0], ""
    # The checks of logins judge all scenarios at once, and need the first ones as controls.
    login = fault.leg.transport == LOGIN
    for some in (scenarios[:_FEW], *([scenarios] if login else [scenarios[_FEW:_MANY], scenarios[_MANY:]])):
        if not some:
            break
        checks = frozenset(
            each.id
            for each in CLIENT_CHECKS
            if not each.needs or any(need.removeprefix("scenario:") in some for need in each.needs)
        )
        found = await run_faulty_client(
            fault.leg,
            (fault.operator.name, fault.target.key, fault.target.detail),
            chosen=checks,
            looked_at=some,
            within={*some, *_CONTROLS} if login else None,
        )
        hits += found.hits
        failed, refusal = _judged(found.run, recording)
        if refusal or any(_is_related(each, fault) for each in failed):
            break
    return _result(fault, hits, failed, refusal)


def _judged(run: Run, recording: Recording) -> tuple[list[str], str]:
    """Return the checks that failed because of the fault, and the reason why the leg could not be tested."""
    failed = [each for each in _failures(run) if recording.outcomes.get(each) != Outcome.FAILED.value]
    return failed, next((leg.refusal for leg in run.legs if leg.refusal is not None), "")


def _result(fault: GeneratedFault, hits: int, failed: list[str], refusal: str) -> TrialResult:
    unrelated = [each for each in failed if is_unrelated_must(_check(each, fault), fault)]
    if not hits and not (fault.operator.provoked and not fault.operator.invisible):
        score = Score.UNREACHED
    elif fault.operator.invisible:
        score = Score.FALSE if failed or refusal else Score.INVISIBLE
    elif unrelated:
        score = Score.UNRELATED
    elif any(_is_related(each, fault) for each in failed):
        score = Score.NAMED
    else:
        score = Score.REFUSED if refusal else Score.SURVIVED
    return TrialResult(
        fault=fault.name,
        operator=fault.operator.name,
        area=fault.area,
        leg=fault.leg,
        score=score,
        checks=(*unrelated, *(each for each in failed if each not in unrelated)) or ((refusal,) if refusal else ()),
    )


def _stages(fault: GeneratedFault, recording: Recording) -> list[frozenset[str]]:
    """Return the sets of checks to run one after another: the quick ones first."""
    known = recording.outcomes.keys()
    judges = frozenset(each for each in known if _scope(each) is CheckScope.EVIDENCE)
    observers = recording.observers(fault.target.key)
    senders = observers - judges
    stages = [judges | {_TOUR}] if _TOUR in known else []
    # What all connections send to be opened is seen by each check; those of the same area judge it.
    own = frozenset(each for each in known if find(each, Role.SERVER).area == fault.area)
    stages.append(judges | senders | own)
    if not fault.operator.invisible:
        # Of checks that share what a server sent, the recording knows only the first one.
        stages.append(judges | frozenset(each for each in known if _is_related(each, fault)))
    return stages


async def _run(fault: GeneratedFault, counter: _Counter, chosen: Collection[str], *, stops: bool) -> Run:
    """Run checks; at the first failure of a related check, stop the run."""
    verdicts: list[Verdict] = []
    with trio.CancelScope() as scope:

        def show(verdict: Verdict) -> None:
            verdicts.append(verdict)
            if stops and verdict.outcome is Outcome.FAILED and _is_related(verdict.check, fault):
                scope.cancel()

        return await run_faulty_server(fault.leg, fault.mutation(), counter, chosen=chosen, show=show)
    return _cut(fault, verdicts)


def _cut(fault: GeneratedFault, verdicts: list[Verdict]) -> Run:
    transport = Transport.HTTP.value if fault.leg.transport == PROTECTED else fault.leg.transport
    leg = RunLeg(revision=fault.leg.revision, transport=transport, refusal=None)
    return Run(role=Role.SERVER, target="", legs=(leg,), verdicts=tuple(verdicts))


def _failures(run: Run) -> list[str]:
    return [each.check for each in attributed(run).verdicts if each.outcome is Outcome.FAILED]
