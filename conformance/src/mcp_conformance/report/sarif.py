"""A run as SARIF 2.1.0, for services that show findings: a rule for each check, a result for each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_conformance
from mcp_conformance.catalogue import Level
from mcp_conformance.roles import find
from mcp_conformance.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.verdicts import Run
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["sarif"]

_LEVELS: Final[Mapping[Level, str]] = {Level.MUST: "error", Level.SHOULD: "warning", Level.MAY: "note"}


def sarif(run: Run) -> JsonObject:
    """A run as a SARIF log."""
    red = [verdict for verdict in run.verdicts if verdict.outcome is Outcome.FAILED]
    rules: list[JsonValue] = []
    for id in sorted({verdict.check for verdict in red}):
        check = find(id)
        rules.append({"id": id, "shortDescription": {"text": check.title}})
    results: list[JsonValue] = [
        {
            "ruleId": verdict.check,
            "level": _LEVELS[find(verdict.check).level(verdict.revision)],
            "message": {
                "text": f"{verdict.revision} over {verdict.transport}: expected {verdict.expected}; "
                f"observed {verdict.observed}"
            },
            # There is no line of source to point at: what was tested is what the target names.
            "locations": [{"logicalLocations": [{"fullyQualifiedName": run.target}]}],
            "partialFingerprints": {"check/v1": f"{verdict.check} {verdict.revision} {verdict.transport}"},
        }
        for verdict in red
    ]
    driver: JsonObject = {"name": "mcp-conformance", "version": mcp_conformance.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
