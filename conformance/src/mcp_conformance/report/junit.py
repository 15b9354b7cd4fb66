"""A run as JUnit XML, which every CI service can show: a suite for each lane, a case for each check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mcp_conformance.roles import find
from mcp_conformance.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.verdicts import Run, Verdict

__all__ = ["junit"]

_TAGS: Final[Mapping[Outcome, str]] = {
    Outcome.FAILED: "failure",
    Outcome.BROKEN: "error",
    # What could not be tested is no pass, and must not look like one.
    Outcome.NOT_TESTABLE: "failure",
    Outcome.NOT_APPLICABLE: "skipped",
}

_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run) -> bytes:
    """A run as a JUnit document, in UTF-8."""
    root = Element("testsuites", name="mcp-conformance")
    for lane in run.lanes:
        mine = [v for v in run.verdicts if (v.revision, v.transport) == (lane.revision, lane.transport)]
        suite = SubElement(root, "testsuite", name=f"{lane.revision} {lane.transport}", tests=str(len(mine)))
        for tag in ("failure", "error", "skipped"):
            suite.set(f"{tag}s".replace("skippeds", "skipped"), str(sum(_TAGS.get(v.outcome) == tag for v in mine)))
        if lane.refusal is not None:
            SubElement(SubElement(suite, "properties"), "property", name="not spoken", value=_clean(lane.refusal))
        for verdict in mine:
            _case(suite, verdict)
    indent(root)
    document: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _case(suite: Element, verdict: Verdict) -> None:
    place = f"{verdict.revision}.{verdict.transport}.{verdict.check.partition('.')[0]}"
    case = SubElement(suite, "testcase", classname=place, name=verdict.check)
    tag = _TAGS.get(verdict.outcome)
    if tag is None:
        return
    message = f"expected {verdict.expected}; observed {verdict.observed}" if verdict.expected else verdict.reason
    told = SubElement(case, tag, message=_clean(message), type=verdict.outcome.value)
    check = find(verdict.check)
    lines = [check.title, *(f"{row.level.value} {row.id}: {row.text}" for row in check.requirements(verdict.revision))]
    told.text = _clean("\n".join([*lines, *verdict.transcript]))
    if verdict.log:
        SubElement(case, "system-err").text = _clean(verdict.log)


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
