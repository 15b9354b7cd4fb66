"""The report of a run as one JSON document, for programs.

The document has a version, and a JSON Schema in the file `document-1.schema.json` of this folder. A version may get
additional members; the meaning of existing ones does not change.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Final, cast

import mcp_conformance
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.findings import again
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.scoring.baseline import ExpectedFailure
    from mcp_conformance.scoring.score import ScoredRun
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["VERSION", "document", "schema"]

VERSION: Final = 1
"""Version of the document."""


def schema() -> JsonObject:
    """Return the JSON Schema of the document."""
    text = resources.files(__package__ or "").joinpath(f"document-{VERSION}.schema.json").read_text(encoding="utf-8")
    return cast("JsonObject", json.loads(text))


def document(scored: ScoredRun) -> JsonObject:
    """Return a run as JSON."""
    run, rules, comparison = scored.run, scored.rules, scored.comparison
    profile: JsonObject | None = (
        None if rules.profile is None else {"name": rules.profile.name, "digest": rules.profile.digest}
    )
    return {
        "version": VERSION,
        "suite": mcp_conformance.__version__,
        "role": run.role.value,
        "target": run.target,
        "implementation": run.implementation,
        "invocation": run.invocation,
        "status": scored.status,
        "level": rules.level.value,
        "profile": profile,
        "sdk": None if scored.sdk is None else scored.sdk.name,
        "stale": [_entry(entry) for entry in comparison.stale],
        "expired": [_entry(entry) for entry in comparison.expired],
        "lanes": [
            {
                "revision": leg.revision,
                "transport": leg.transport,
                "refusal": leg.refusal,
                "counts": {verdict_score.value: count for verdict_score, count in scored.counts(leg).items()},
            }
            for leg in run.legs
        ],
        "verdicts": [_verdict(scored, verdict) for verdict in run.verdicts],
    }


def _entry(entry: ExpectedFailure) -> JsonObject:
    found: JsonObject = {"check": entry.check, "reason": entry.reason}
    for name, value in (("revision", entry.revision), ("transport", entry.transport)):
        if value is not None:
            found[name] = value
    if entry.expires is not None:
        found["expires"] = entry.expires.isoformat()
    return found


def _verdict(scored: ScoredRun, verdict: Verdict) -> JsonObject:
    check = find(verdict.check, scored.run.role)
    known = scored.known(verdict)
    found: JsonObject = {
        "check": verdict.check,
        "title": check.title,
        "revision": verdict.revision,
        "transport": verdict.transport,
        "outcome": verdict.outcome.value,
        "standing": scored.score_of(verdict).value,
        "level": check.level(verdict.revision).value,
        "requirements": [
            {"id": row.id, "level": row.level.value, "place": row.place, "text": row.text}
            for row in check.requirements(verdict.revision)
        ],
    }
    for name, value in (("reason", verdict.reason), ("expected", verdict.expected), ("observed", verdict.observed)):
        if value:
            found[name] = value
    if verdict.cause:
        found["cause"] = verdict.cause
    entry = scored.from_sdk(verdict)
    if entry is not None:
        found["sdk"] = entry.reason
    if known is not None:
        found["known"] = known.reason
    if verdict.transcript:
        found["transcript"] = list(verdict.transcript)
    if verdict.log:
        found["log"] = verdict.log
    if verdict.outcome in (Outcome.FAILED, Outcome.BROKEN):
        found["again"] = again(scored.run, verdict)
    return found
