"""The report of a run as SARIF 2.1.0: a rule for each check, a result for each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_conformance
from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.findings import again
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.scoring.score import ScoredRun
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["sarif"]

_LEVELS: Final[Mapping[Level, str]] = {Level.MUST: "error", Level.SHOULD: "warning", Level.MAY: "note"}


def sarif(scored: ScoredRun) -> JsonObject:
    """Return a run as a SARIF log, with expected failures as suppressed, and without unscored verdicts."""
    run = scored.run
    failed = [each for each in run.verdicts if each.outcome is Outcome.FAILED and scored.rules.counts(each, run.role)]
    rules: list[JsonValue] = [_rule(scored, id) for id in sorted({verdict.check for verdict in failed})]
    driver: JsonObject = {"name": "mcp-conformance", "version": mcp_conformance.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(scored, verdict) for verdict in failed]}],
    }


def _rule(scored: ScoredRun, id: str) -> JsonObject:
    check = find(id, scored.run.role)
    # A requirement may have the same words in several revisions.
    requirements = dict.fromkeys(
        f"{row.level.value} {row.id}: {row.text} ({row.place})"
        for revision in sorted(check.revisions)
        for row in check.requirements(revision)
    )
    return {"id": id, "shortDescription": {"text": check.title}, "help": {"text": "\n".join(requirements)}}


def _result(scored: ScoredRun, verdict: Verdict) -> JsonObject:
    check, entry = find(verdict.check, scored.run.role), scored.known(verdict)
    found: JsonObject = {
        "ruleId": verdict.check,
        "level": _LEVELS[check.level(verdict.revision)],
        "message": {
            "text": f"{verdict.revision} over {verdict.transport}: expected {verdict.expected}; "
            f"observed {verdict.observed}\n{again(scored.run, verdict)}"
        },
        # There is no source location: the target is what was tested.
        "locations": [{"logicalLocations": [{"fullyQualifiedName": scored.run.target}]}],
        "partialFingerprints": {"check/v1": f"{verdict.check} {verdict.revision} {verdict.transport}"},
    }
    if entry is not None:
        found["suppressions"] = [{"kind": "external", "justification": entry.reason}]
    return found
