"""The report of a run as SARIF 2.1.0: a rule for each check, a result for each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import mcp_conformance
from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.findings import again
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.model.verdict import Run, Verdict
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
    proved = [(row, revision) for revision in sorted(check.revisions) for row in check.requirements(revision)]
    # A requirement may have the same words in several revisions.
    requirements = dict.fromkeys(f"{row.level.value} {row.id}: {row.text} ({row.place})" for row, _ in proved)
    rule: JsonObject = {
        "id": id,
        "shortDescription": {"text": check.title},
        "help": {"text": "\n".join(requirements) or check.title},
    }
    if proved:
        row, revision = proved[-1]
        rule["helpUri"] = row.url(revision)
    return rule


def _location(run: Run) -> JsonObject:
    """Return the location of a finding: the target, and the file of the user that names it.

    A service that shows findings beside the source, such as GitHub, requires a file and a line.
    """
    location: JsonObject = {"logicalLocations": [{"fullyQualifiedName": run.target}]}
    if run.source is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": quote(run.source), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 1},
        }
    return location


def _result(scored: ScoredRun, verdict: Verdict) -> JsonObject:
    check, entry = find(verdict.check, scored.run.role), scored.known(verdict)
    found: JsonObject = {
        "ruleId": verdict.check,
        "level": _LEVELS[check.level(verdict.revision)],
        "message": {
            "text": f"{verdict.revision} over {verdict.transport}: expected {verdict.expected}; "
            f"observed {verdict.observed}\n{again(scored.run, verdict)}"
        },
        "locations": [_location(scored.run)],
        "partialFingerprints": {"check/v1": f"{verdict.check} {verdict.revision} {verdict.transport}"},
    }
    if entry is not None:
        found["suppressions"] = [{"kind": "external", "justification": entry.reason}]
    return found
