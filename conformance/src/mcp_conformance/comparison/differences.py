"""The differences between two implementations, and the requirements that decide them.

A check that one implementation fails and the other does not is decided by the requirements that it proves. Messages
that differ in a check with the same outcome are not decided: the specification permits both, or no check tests it. If
the same difference occurs in a check that is decided, it is named there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mcp_conformance.catalogue.requirements import Requirement
    from mcp_conformance.comparison.behavior import Facts, Step
    from mcp_conformance.model.check import CheckInfo, Role
    from mcp_conformance.model.verdict import Verdict

__all__ = ["CheckDifference", "CheckRecord", "Key", "WireDifference", "differences", "differing"]

Key: TypeAlias = "tuple[str, str, str]"
"""The id of a check, the revision and the transport."""
_ABSENT: Final = "absent"
_CODE: Final = "error.code"


@attrs.frozen(kw_only=True)
class CheckRecord:
    """The verdict and the conversation of one implementation in a check."""

    verdict: Verdict
    """The verdict."""
    steps: tuple[Step, ...] = ()
    """The steps of the conversation."""


@attrs.frozen(kw_only=True, order=True)
class WireDifference:
    """A fact that differs in a step."""

    step: str
    """What the suite sent."""
    fact: str
    """The fact, for instance `HTTP status` or `result.content[].type`."""
    a: str
    """The values of the first implementation."""
    b: str
    """The values of the second implementation."""

    @property
    def signature(self) -> tuple[str, str, str, str]:
        """The difference without the tool, prompt or resource, and without the number of the step."""
        return (self.step.partition(" ")[0], self.fact, self.a, self.b)


@attrs.frozen(kw_only=True)
class CheckDifference:
    """A difference in one check, in the legs in which it is the same."""

    check: CheckInfo
    """The check."""
    legs: tuple[tuple[str, str], ...]
    """The revisions and transports."""
    a: Verdict
    """The verdict of the first implementation in the first of the legs."""
    b: Verdict
    """The verdict of the second implementation there."""
    wire: tuple[WireDifference, ...]
    """The facts that differ."""
    decided_by: tuple[Requirement, ...]
    """The requirements that decide the difference; empty if it is not specified."""
    judged_by: tuple[str, ...] = ()
    """The checks that judge all messages, and decide a difference in these legs, perhaps this one; empty if decided."""
    also_in: int = 0
    """The number of other checks in which one of these facts differs in the same way."""

    @property
    def outcome_differs(self) -> bool:
        """Whether the check has another outcome."""
        return self.a.outcome is not self.b.outcome


def _wire(a: Sequence[Step], b: Sequence[Step]) -> Iterator[WireDifference]:
    """Yield the facts that differ in the steps that both have."""
    others = {step.label: step.facts for step in b}
    for step in a:
        if step.label in others:
            for fact, one, other in _unequal(step.facts, others[step.label]):
                yield WireDifference(step=step.label, fact=fact, a=one, b=other)


def _unequal(a: Facts, b: Facts) -> Iterator[tuple[str, str, str]]:
    for fact in sorted(a.keys() | b.keys()):
        one, other = a.get(fact), b.get(fact)
        parent = fact.removesuffix("[]") if fact.endswith("[]") else fact.rpartition(".")[0]
        if one == other or (fact != _CODE and parent and a.get(parent) != b.get(parent)):
            # What is below a value that differs is the same difference, except for the code of an error.
            continue
        yield fact, _values(one), _values(other)


def _values(values: frozenset[str] | None) -> str:
    return _ABSENT if values is None else ", ".join(sorted(values))


def differing(records: Mapping[Key, tuple[Sequence[CheckRecord], Sequence[CheckRecord]]]) -> frozenset[Key]:
    """Return the checks in which two implementations differ in every repetition.

    Args:
        records: The records of both, one for each repetition.
    """
    return frozenset(key for key, (a, b) in records.items() if _outcomes(a, b) or _common_wire(a, b))


def _outcomes(a: Sequence[CheckRecord], b: Sequence[CheckRecord]) -> bool:
    """Return whether no repetition of one has an outcome of the other."""
    return not {each.verdict.outcome for each in a} & {each.verdict.outcome for each in b}


def _common_wire(a: Sequence[CheckRecord], b: Sequence[CheckRecord]) -> tuple[WireDifference, ...]:
    """Return the facts that differ between each repetition of one and each of the other, as the first ones show them."""
    per_pair = [list(_wire(one.steps, other.steps)) for one in a for other in b]
    if not per_pair:
        return ()
    repeated = [{(each.step, each.fact) for each in found} for found in per_pair]
    return tuple(each for each in per_pair[0] if all((each.step, each.fact) in found for found in repeated))


def differences(
    records: Mapping[Key, tuple[Sequence[CheckRecord], Sequence[CheckRecord]]], role: Role
) -> list[CheckDifference]:
    """Return the differences: those in the outcome first, each in the order of the checks.

    Args:
        records: The records of both, one for each repetition.
        role: The role of the implementations.
    """
    found = [each for key, (a, b) in records.items() if (each := _difference(key, a, b, role)) is not None]
    known = {wire.signature for each in found if each.decided_by for wire in each.wire}
    elsewhere: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    judging: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in found:
        if each.decided_by and each.outcome_differs and each.check.scope is CheckScope.EVIDENCE:
            judging[each.legs[0]].append(each.check.id)
    kept: list[CheckDifference] = []
    for each in sorted(found, key=lambda each: (not each.decided_by, not each.outcome_differs)):
        for wire in each.wire:
            elsewhere[wire.signature].add(each.check.id)
        if not each.outcome_differs and not each.decided_by:
            # Each difference is shown once: where it is decided, or else in the first check that shows it.
            each = attrs.evolve(  # noqa: PLW2901
                each,
                wire=tuple(wire for wire in each.wire if wire.signature not in known),
                judged_by=tuple(judging[each.legs[0]]),
            )
            if not each.wire:
                continue
        kept.append(each)
    shown: dict[tuple[str, str, str, str], str] = {}
    once: list[CheckDifference] = []
    for each in _over_legs(kept):
        own = tuple(wire for wire in each.wire if shown.setdefault(wire.signature, each.check.id) == each.check.id)
        others = {id for wire in own for id in elsewhere[wire.signature]} - {each.check.id}
        if own or each.outcome_differs:
            once.append(attrs.evolve(each, wire=own, also_in=len(others)))
    return once


def _difference(key: Key, a: Sequence[CheckRecord], b: Sequence[CheckRecord], role: Role) -> CheckDifference | None:
    check, revision, transport = key
    if not a or not b:
        return None
    wire = _common_wire(a, b)
    one, other = a[0].verdict, b[0].verdict
    if not _outcomes(a, b):
        if not wire:
            return None
        # Outcomes that vary between repetitions are no difference.
        other = attrs.evolve(other, outcome=one.outcome)
    info = find(check, role)
    failed = Outcome.FAILED in (one.outcome, other.outcome)
    return CheckDifference(
        check=info,
        legs=((revision, transport),),
        a=one,
        b=other,
        wire=wire,
        decided_by=info.requirements(revision) if failed else (),
    )


def _over_legs(found: Iterable[CheckDifference]) -> Iterator[CheckDifference]:
    """Combine equal differences of a check in several legs."""
    groups: dict[tuple[object, ...], list[CheckDifference]] = {}
    for each in found:
        key = (
            each.check.id,
            each.a.outcome,
            each.b.outcome,
            tuple(row.id for row in each.decided_by),
            tuple(sorted({wire.signature for wire in each.wire})),
            each.judged_by,
        )
        groups.setdefault(key, []).append(each)
    for group in groups.values():
        yield attrs.evolve(group[0], legs=tuple(leg for each in group for leg in each.legs))
