"""A run as one JSON document: what every other report is made from, and what programs read.

The document has a version. Members may be added in it; what is there keeps its meaning.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import mcp_conformance
from mcp_conformance.roles import find
from mcp_conformance.verdicts import Outcome

if TYPE_CHECKING:
    from mcp_conformance.verdicts import Lane, Run, Verdict
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["VERSION", "document"]

VERSION: Final = 1
"""Of the document."""


def document(run: Run) -> JsonObject:
    """A run as JSON."""
    return {
        "version": VERSION,
        "suite": mcp_conformance.__version__,
        "role": run.role.value,
        "target": run.target,
        "lanes": [_lane(run, lane) for lane in run.lanes],
        "verdicts": [_verdict(verdict) for verdict in run.verdicts],
    }


def _lane(run: Run, lane: Lane) -> JsonObject:
    counts = Counter(
        verdict.outcome
        for verdict in run.verdicts
        if (verdict.revision, verdict.transport) == (lane.revision, lane.transport)
    )
    return {
        "revision": lane.revision,
        "transport": lane.transport,
        "refusal": lane.refusal,
        "counts": {outcome.value: counts[outcome] for outcome in Outcome},
    }


def _verdict(verdict: Verdict) -> JsonObject:
    check = find(verdict.check)
    found: JsonObject = {
        "check": verdict.check,
        "title": check.title,
        "revision": verdict.revision,
        "transport": verdict.transport,
        "outcome": verdict.outcome.value,
        "level": check.level(verdict.revision).value,
        "requirements": [
            {"id": row.id, "level": row.level.value, "place": row.place, "text": row.text}
            for row in check.requirements(verdict.revision)
        ],
    }
    for name, value in (("reason", verdict.reason), ("expected", verdict.expected), ("observed", verdict.observed)):
        if value:
            found[name] = value
    if verdict.transcript:
        found["transcript"] = list(verdict.transcript)
    if verdict.log:
        found["log"] = verdict.log
    return found
