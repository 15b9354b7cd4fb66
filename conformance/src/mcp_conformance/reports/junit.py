"""The report of a run as JUnit XML, for CI services: a test suite for each leg, a test case for each check.

A case fails when it counts against the implementation, and is skipped when it does not apply, is expected to fail or is
not scored. A stale entry of the baseline, and a requested revision that is not supported, get a case too: whatever
makes the command fail must be a failure in the document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mcp_conformance.reports.findings import again
from mcp_conformance.scoring.score import FAILING, Score
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["junit"]

_TAGS: Final[Mapping[Score, str]] = {
    Score.FAILED: "failure",
    Score.WARNING: "skipped",
    Score.BROKEN: "error",
    # A check that could not test is not a pass, and must not look like one.
    Score.NOT_TESTABLE: "failure",
    Score.NOT_APPLICABLE: "skipped",
    Score.KNOWN: "skipped",
    Score.UNSCORED: "skipped",
}
_COUNTS: Final[Mapping[str, str]] = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""The attribute of a suite with the number of cases with a tag."""

_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(scored: ScoredRun) -> bytes:
    """Return a run as a JUnit document in UTF-8."""
    root = Element("testsuites", name=f"mcp-conformance {scored.run.role.value}")
    for leg in scored.run.legs:
        suite = SubElement(root, "testsuite", name=f"{leg.revision} {leg.transport}")
        if leg.refusal is not None:
            SubElement(SubElement(suite, "properties"), "property", name="not supported", value=_clean(leg.refusal))
        if leg in scored.unsupported:
            _add_failure(suite, leg.transport, f"supports {leg.revision}", leg.refusal or "")
        for verdict in scored.run.of(leg):
            _case(scored, suite, verdict)
    if scored.comparison.stale:
        suite = SubElement(root, "testsuite", name="baseline")
        for entry in scored.comparison.stale:
            _add_failure(suite, "baseline", str(entry), "the check does not fail: remove the entry")
    if not scored.run.verdicts:
        _add_failure(
            SubElement(root, "testsuite", name="all"), "all", "at least one check runs", "there was nothing to test"
        )
    for element in [root, *root.iter("testsuite")]:
        element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
        for tag, name in _COUNTS.items():
            element.set(name, str(sum(1 for _ in element.iter(tag))))
    indent(root)
    document: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _case(scored: ScoredRun, suite: Element, verdict: Verdict) -> None:
    place = f"{verdict.revision}.{verdict.transport}.{verdict.check.partition('.')[0]}"
    case = SubElement(suite, "testcase", classname=place, name=verdict.check)
    verdict_score = scored.score_of(verdict)
    tag = _TAGS.get(verdict_score)
    if tag is None:
        return
    if verdict_score in FAILING and not scored.rules.makes_run_fail(verdict, scored.run.role):
        tag = "skipped"
    message = f"expected {verdict.expected}; observed {verdict.observed}" if verdict.expected else verdict.reason
    entry = scored.known(verdict)
    if tag == "skipped":
        message = ": ".join(part for part in (verdict_score.value, message if entry is None else entry.reason) if part)
        SubElement(case, tag, message=_clean(message))
        return
    result = SubElement(case, tag, message=_clean(message), type=verdict_score.value)
    check = find(verdict.check, scored.run.role)
    rows = [f"{row.level.value} {row.id}: {row.text} ({row.place})" for row in check.requirements(verdict.revision)]
    result.text = _clean("\n".join([check.title, *rows, *verdict.transcript, f"rerun: {again(scored.run, verdict)}"]))
    if verdict.log:
        SubElement(case, "system-err").text = _clean(verdict.log)


def _add_failure(suite: Element, place: str, name: str, message: str) -> None:
    """Add a failing case that is not a check."""
    case = SubElement(suite, "testcase", classname=_clean(place), name=_clean(name))
    SubElement(case, "failure", message=_clean(message), type="failed")


def _clean(text: str) -> str:
    """Return a text without characters that XML does not allow."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
