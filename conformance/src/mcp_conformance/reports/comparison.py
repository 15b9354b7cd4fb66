"""The report of a comparison: text for a terminal, and a JSON document for programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import mcp_conformance
from mcp_conformance.catalogue.links import link
from mcp_conformance.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcp_conformance.comparison.differences import CheckDifference
    from mcp_conformance.model.verdict import Run, Verdict
    from mcp_conformance.runners.comparison import Comparison
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["COMPARISON_VERSION", "comparison_document", "comparison_lines"]

COMPARISON_VERSION: Final = 1
"""Version of the JSON document."""
_NOT_SPECIFIED: Final = "not specified"
_LONGEST: Final = 40
"""Width of a column with values of the table of facts."""


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison: the differences by check, those that a requirement decides first, then the counts."""
    yield f"A  {_named(comparison.a)}"
    yield f"B  {_named(comparison.b)}"
    yield ""
    for group in _groups(comparison.differences):
        yield from _difference_lines(group[0])
        others = [each.check.id for each in group[1:]]
        if others:
            yield f"  likewise {', '.join(others)}"
        yield ""
    for revision, transport, a, b in comparison.refusals:
        yield f"{revision} over {transport} is supported only by {'B' if b is None else 'A'}: {a or b}"
        yield f"  {_NOT_SPECIFIED}"
        yield ""
    yield from _counts(comparison)
    yield ""
    yield f"{_total(comparison)} ({comparison.compared} verdicts compared, over all revisions)"


def _groups(differences: Sequence[CheckDifference]) -> Iterator[list[CheckDifference]]:
    """Yield the differences, those in the outcome together that have the same reasons and are not specified."""
    groups: dict[tuple[object, ...], list[CheckDifference]] = {}
    for number, each in enumerate(differences):
        alone = each.decided_by or not each.outcome_differs
        key = (number,) if alone else (_verdict(each.a), _verdict(each.b), each.legs)
        groups.setdefault(key, []).append(each)
    for group in groups.values():
        # The one with messages is shown.
        yield sorted(group, key=lambda each: not each.wire)


def _named(run: Run) -> str:
    return f"{run.target}{f'  ({run.implementation})' if run.implementation else ''}"


def _total(comparison: Comparison) -> str:
    found = comparison.differences
    if not comparison.differs:
        return "no difference"
    decided = len({each.check.id for each in found if each.decided_by})
    return f"differences in {_count(len({each.check.id for each in found}), 'check')}, of which requirements decide {decided}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _places(difference: CheckDifference) -> str:
    over: dict[str, list[str]] = {}
    for revision, transport in difference.legs:
        over.setdefault(transport, []).append(revision)
    return "; ".join(f"{', '.join(revisions)} over {transport}" for transport, revisions in over.items())


def _kind(difference: CheckDifference) -> str:
    return "OUTCOME" if difference.outcome_differs else "MESSAGES"


def _difference_lines(difference: CheckDifference) -> Iterator[str]:
    yield f"{_kind(difference)}  {difference.check.id}  ({_places(difference)})"
    yield f"  {difference.check.title}"
    if difference.outcome_differs:
        yield f"  A {_verdict(difference.a)}"
        yield f"  B {_verdict(difference.b)}"
    elif difference.a.outcome is Outcome.FAILED:
        yield "  both failed"
    if difference.wire:
        widths = [max(len(_short(text)) for text in column) for column in zip(*_cells(difference), strict=True)]
        for row in _cells(difference):
            yield (
                "    " + "  ".join(f"{_short(text):{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
            )
    if difference.also_in:
        yield f"    likewise in {_count(difference.also_in, 'other check')}"
    for requirement in difference.decided_by:
        yield f"  decided by {requirement.level.value} {requirement.id}: {requirement.text}"
        yield f"       {link(requirement, difference.legs[0][0])}"
    if not difference.decided_by:
        judges = ", ".join(difference.judged_by)
        yield f"  {f'no requirement of this check decides it; see {judges}' if judges else _NOT_SPECIFIED}"


def _cells(difference: CheckDifference) -> Iterator[tuple[str, str, str, str]]:
    yield ("sent", "", "A", "B")
    for each in difference.wire:
        yield (each.step, each.fact, each.a, each.b)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _verdict(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.FAILED:
        return f"failed: expected {verdict.expected}; observed {verdict.observed}"
    return f"{verdict.outcome.value}{f': {verdict.reason}' if verdict.reason else ''}"


def _counts(comparison: Comparison) -> Iterator[str]:
    """Yield a table with the number of differences by revision and transport."""
    by_kind: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in ("OUTCOME", "MESSAGES", "decided")}
    for each in comparison.differences:
        for place in each.legs:
            by_kind[_kind(each)][place] += 1
            by_kind["decided"][place] += bool(each.decided_by)
    yield f"{'revision':12}{'transport':10}{'outcome differs':>17}{'messages differ':>17}{'decided':>9}"
    for leg in comparison.a.legs:
        key = (leg.revision, leg.transport)
        cells = [by_kind[name][key] for name in by_kind]
        refused = "" if leg.refusal is None else f"   A does not support it: {leg.refusal}"
        yield f"{leg.revision:12}{leg.transport:10}{cells[0]:>17}{cells[1]:>17}{cells[2]:>9}{refused}"


def comparison_document(comparison: Comparison) -> JsonObject:
    """Return a comparison as JSON."""
    return {
        "version": COMPARISON_VERSION,
        "suite": mcp_conformance.__version__,
        "role": comparison.a.role.value,
        "a": {"target": comparison.a.target, "implementation": comparison.a.implementation},
        "b": {"target": comparison.b.target, "implementation": comparison.b.implementation},
        "differs": comparison.differs,
        "compared": comparison.compared,
        "legs": [
            {"revision": revision, "transport": transport, "refusal_of_a": a, "refusal_of_b": b}
            for revision, transport, a, b in comparison.refusals
        ],
        "differences": [_difference(each) for each in comparison.differences],
    }


def _difference(difference: CheckDifference) -> JsonObject:
    wire: list[JsonValue] = [
        {"step": each.step, "fact": each.fact, "a": each.a, "b": each.b} for each in difference.wire
    ]
    return {
        "check": difference.check.id,
        "title": difference.check.title,
        "legs": [{"revision": revision, "transport": transport} for revision, transport in difference.legs],
        "a": _outcome(difference.a),
        "b": _outcome(difference.b),
        "wire": wire,
        "other_checks": difference.also_in,
        "judged_by": list(difference.judged_by),
        "decided_by": [
            {"id": row.id, "level": row.level.value, "text": row.text, "link": link(row, difference.legs[0][0])}
            for row in difference.decided_by
        ],
    }


def _outcome(verdict: Verdict) -> JsonObject:
    found: JsonObject = {"outcome": verdict.outcome.value}
    for name, value in (("reason", verdict.reason), ("expected", verdict.expected), ("observed", verdict.observed)):
        if value:
            found[name] = value
    return found
