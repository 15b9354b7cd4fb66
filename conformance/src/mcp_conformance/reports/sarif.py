"""The report of a run as SARIF 2.1.0: a rule for each check, a result for each failure.

GitHub shows only results with a physical location, a file of the repository. A tested server or client is no file, so
that the location is a file of the user that belongs to the run: see `sarif_location`.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import mcp_conformance
from mcp_conformance.catalogue.links import link
from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.findings import again
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.scoring.score import ScoredRun
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["sarif", "sarif_location"]

_LEVELS: Final[Mapping[Level, str]] = {Level.MUST: "error", Level.SHOULD: "warning", Level.MAY: "note"}
_WORKFLOW: Final = "GITHUB_WORKFLOW_REF"
"""The variable with the workflow that GitHub runs: `OWNER/REPOSITORY/.github/workflows/FILE@REF`."""


def sarif_location(files: Iterable[Path | None], environment: Mapping[str, str]) -> str | None:
    """Return the file in which the results are shown, as a relative URI.

    Args:
        files: The files of the command line that belong to the run; the first one in the working directory counts.
        environment: The environment variables, which name the workflow if there is no such file.

    Returns:
        The URI; `None` without such a file.
    """
    for path in files:
        if path is None:
            continue
        relative = os.path.relpath(path)
        if not relative.startswith("..") and not Path(relative).is_absolute():
            return quote(Path(relative).as_posix())
    workflow = re.fullmatch(r"[^/]+/[^/]+/(.+?)@.*", environment.get(_WORKFLOW, ""))
    return None if workflow is None else quote(workflow[1])


def sarif(scored: ScoredRun, location: str | None = None) -> JsonObject:
    """Return a run as a SARIF log, with expected failures as suppressed, and without unscored verdicts.

    Args:
        scored: The run.
        location: The URI of the file in which the results are shown.
    """
    run = scored.run
    failed = [each for each in run.verdicts if each.outcome is Outcome.FAILED and scored.rules.counts(each, run.role)]
    rules: list[JsonValue] = [_rule(scored, id) for id in sorted({verdict.check for verdict in failed})]
    version = mcp_conformance.__version__
    driver: JsonObject = {"name": "mcp-conformance", "version": version, "semanticVersion": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"mcp-conformance/{run.role.value}/"},
                "columnKind": "unicodeCodePoints",
                "results": [_result(scored, verdict, rules, location) for verdict in failed],
            }
        ],
    }


def _rule(scored: ScoredRun, id: str) -> JsonObject:
    check = find(id, scored.run.role)
    # A requirement may have the same words in several revisions: the link is that of the last one.
    rows = {row: revision for revision in sorted(check.revisions) for row in check.requirements(revision)}
    first, revision = next(iter(sorted(rows.items(), key=lambda item: list(Level).index(item[0].level))))
    lines = [f"{row.level.value} {row.id}: {row.text} ({row.place})" for row in rows]
    linked = [
        f"- **{row.level.value}** {_plain(row.text)} ([{_plain(row.place)}]({link(row, name)}))"
        for row, name in rows.items()
    ]
    return {
        "id": id,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": first.text},
        "help": {"text": "\n".join(lines), "markdown": "\n".join(linked)},
        "helpUri": link(first, revision),
        "defaultConfiguration": {"level": _LEVELS[first.level]},
        "properties": {"tags": ["mcp", check.area]},
    }


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


def _result(scored: ScoredRun, verdict: Verdict, rules: list[JsonValue], location: str | None) -> JsonObject:
    check, entry = find(verdict.check, scored.run.role), scored.known(verdict)
    sdk = scored.from_sdk(verdict)
    lines = [
        f"{verdict.revision} over {verdict.transport}: expected {verdict.expected}; observed {verdict.observed}",
        *([] if sdk is None or scored.sdk is None else [f"SDK {scored.sdk.name}: {sdk.reason}"]),
        again(scored.run, verdict),
    ]
    place: JsonObject = {"logicalLocations": [{"fullyQualifiedName": scored.run.target}]}
    if location is not None:
        place["physicalLocation"] = {"artifactLocation": {"uri": location}, "region": {"startLine": 1}}
    identity = f"{verdict.check} {verdict.revision} {verdict.transport}"
    found: JsonObject = {
        "ruleId": verdict.check,
        "ruleIndex": [rule["id"] for rule in rules if isinstance(rule, dict)].index(verdict.check),
        "level": _LEVELS[check.level(verdict.revision)],
        "message": {"text": "\n".join(lines)},
        "locations": [place],
        "partialFingerprints": {
            "check/v1": identity,
            # GitHub distinguishes results by this one, which otherwise is made from the line.
            "primaryLocationLineHash": f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}:1",
        },
    }
    if entry is not None:
        found["suppressions"] = [{"kind": "external", "justification": entry.reason}]
    return found
