"""The report of a run as one self-contained HTML page.

It has a matrix of areas by revision and transport, then each cause of failures, then every check, with filters. The page
is built as a tree, so that text of a server stays text, and its content security policy allows only its own style and
its own script, which filters.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, tostring

import mcp_conformance
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.causes import causes, unexplained
from mcp_conformance.reports.findings import findings
from mcp_conformance.reports.html.checks_table import checks_section
from mcp_conformance.reports.html.elements import add, prose, requirement, slug
from mcp_conformance.reports.html.filters import filter_section, filterable
from mcp_conformance.reports.html.matrix import matrix_section
from mcp_conformance.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.reports.causes import Cause
    from mcp_conformance.reports.findings import Finding
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["html"]

_NO_TEXT: Final = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0001fffd]")
"""Characters that are invalid or invisible in HTML."""


@cache
def _own(name: str) -> tuple[str, str]:
    """Return a file of this package, and its digest for the content security policy."""
    text = resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")
    return text, f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def html(scored: ScoredRun) -> str:
    """Return a run as a page."""
    found = causes(scored)
    anchors = {
        id(verdict): f"f{number}-{part}"
        for number, cause in enumerate(found, 1)
        for part, finding in enumerate(cause.findings, 1)
        for verdict in finding.verdicts
    }
    root = Element("html", lang="en")
    _head(root, scored)
    body = SubElement(root, "body")
    add(
        body,
        "a",
        "Skip to the failures" if found else "Skip to the checks",
        href="#failures" if found else "#checks",
        cls="skip",
    )
    _opening(body, scored)
    main = SubElement(body, "main")
    if scored.run.verdicts:
        matrix_section(main, scored, anchors)
        filter_section(main, scored)
    _failures(main, scored, found)
    _rest(main, scored)
    if scored.run.verdicts:
        checks_section(main, scored, anchors)
    add(body, "footer", f"mcp-conformance {mcp_conformance.__version__}, {scored.rules.today.isoformat()}")
    add(body, "script", _own("page.js")[0])
    text = tostring(root, encoding="unicode", method="html")
    return f"<!doctype html>\n{_NO_TEXT.sub(chr(0xFFFD), text)}\n"


def _head(root: Element, scored: ScoredRun) -> None:
    head = SubElement(root, "head")
    add(head, "meta", charset="utf-8")
    style, style_digest = _own("page.css")
    script_digest = _own("page.js")[1]
    policy = (
        f"default-src 'none'; style-src {style_digest}; script-src {script_digest}; base-uri 'none'; form-action 'none'"
    )
    head.append(Element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}))
    add(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    add(head, "meta", name="referrer", content="no-referrer")
    name = scored.run.implementation or f"the {scored.run.role.value}"
    add(head, "title", f"MCP conformance of {name}: {scored.summary}")
    add(head, "style", style)


def _opening(body: Element, scored: ScoredRun) -> None:
    run, rules = scored.run, scored.rules
    header = SubElement(body, "header")
    add(header, "p", f"MCP conformance of the {run.role.value}", cls="kicker")
    add(header, "h1", run.implementation or run.target)
    add(header, "strong", scored.summary, cls=f"pill {'passed' if scored.status == 0 else 'failed'}")
    counts = scored.counts()
    tiles = add(header, "ul", cls="tiles")
    for verdict_score, count in counts.items():
        if count:
            tile = add(tiles, "li", cls=slug(verdict_score.value))
            add(tile, "strong", str(count)).tail = f" {verdict_score.value}"
    legs = sum(leg.refusal is None for leg in run.legs)
    parts = [f"{legs} {'run' if legs == 1 else 'runs'} by revision and transport"]
    parts.append(f"level {rules.level.value} and above" if rules.level.value != "MAY" else "all levels")
    if rules.profile is not None:
        parts.append(f"profile {rules.profile.name}, {rules.profile.digest}")
    add(header, "p", "; ".join(parts), cls="facts")
    if scored.sdk_summary:
        add(header, "p", f"{scored.sdk_summary}.", cls="sdk")
    add(add(header, "p", cls="facts"), "code", run.invocation or run.target)


def _failures(main: Element, scored: ScoredRun, found: Sequence[Cause]) -> None:
    section = add(main, "section", id="failures")
    if not found:
        return
    checks = {check for cause in found for check in cause.checks}
    add(section, "h2", f"Failures: {_number(checks, 'check')}, {_number(found, 'cause')}")
    add(section, "p", "The filters hide all failures.", id="no-failures", hidden="hidden")
    for number, cause in enumerate(found, 1):
        verdicts = [verdict for finding in cause.findings for verdict in finding.verdicts]
        article = add(section, "article", id=f"f{number}", cls=slug(cause.label))
        filterable(article, scored, verdicts)
        heading = add(article, "h3")
        add(heading, "span", cause.level.value, cls=f"level {cause.level.value.lower()}").tail = " "
        add(heading, "span", cause.title, cls="" if len(cause.title.split()) == 1 else "sentence")
        for part, finding in enumerate(cause.findings, 1):
            anchor = f"f{number}-{part}"
            if len(cause.findings) == 1:
                own = add(article, "div", id=anchor)
                if cause.title != finding.first.check:
                    add(own, "p", cls="check").append(_code(finding.first.check))
                prose(add(own, "p"), finding.check.title)
            else:
                own = add(article, "details", id=anchor, cls="finding")
                if part == 1:
                    own.set("open", "open")
                summary = add(own, "summary")
                add(summary, "code", finding.first.check).tail = " "
                if len(cause.checks) == 1:
                    add(summary, "span", finding.places, cls="title")
                else:
                    prose(add(summary, "span", cls="title"), finding.check.title)
            _failure(own, finding)
        if cause.followers:
            names = add(article, "p", "Not testable because of it: ", cls="followers")
            for follower in cause.followers:
                names.append(_code(follower))
                names[-1].tail = " "


def _number(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _code(text: str) -> Element:
    element = Element("code")
    element.text = text
    return element


def _failure(article: Element, finding: Finding) -> None:
    verdict = finding.first
    add(article, "p", finding.places, cls="places")
    rows = add(article, "ul", cls="requirements")
    for row in finding.requirements:
        requirement(rows, row, verdict.revision)
    details = add(article, "dl")
    if verdict.outcome is Outcome.FAILED:
        for name, value in (("expected", verdict.expected), ("observed", verdict.observed)):
            add(details, "dt", name)
            add(details, "dd", value)
    else:
        add(details, "dt", "error of the suite")
        add(add(details, "dd"), "pre", verdict.reason)
    if finding.sdk:
        add(details, "dt", "SDK")
        add(details, "dd", finding.sdk)
    add(details, "dt", "rerun")
    add(add(details, "dd"), "code", finding.again)
    where = f" in {verdict.revision} over {verdict.transport}" if len(finding.verdicts) > 1 else ""
    _folded(article, f"Transcript{where}", "\n".join(verdict.transcript))
    _folded(article, "End of standard error", verdict.log)


def _folded(parent: Element, title: str, text: str) -> None:
    if text:
        details = add(parent, "details")
        add(details, "summary", title)
        add(details, "pre", text, tabindex="0")


def _rest(main: Element, scored: ScoredRun) -> None:
    """Add the sections about untested, expected and refused parts of the run."""
    untested: dict[str, list[Verdict]] = {}
    for verdict in unexplained(scored):
        untested.setdefault(verdict.reason, []).append(verdict)
    details = {reason: dict.fromkeys(verdict.check for verdict in group) for reason, group in untested.items()}
    _lines(main, "Not testable", {reason: ", ".join(checks) for reason, checks in details.items()})
    known: dict[str, str] = {}
    for finding in findings(scored, scored.with_scores((Score.KNOWN,))):
        entry = scored.known(finding.first)
        known[f"{finding.first.check} ({finding.places})"] = "" if entry is None else entry.reason
    _lines(main, "Known", known)
    _lines(main, "Stale in the baseline", {str(entry): "does not fail" for entry in scored.comparison.stale})
    _lines(main, "Expired in the baseline", {str(entry): entry.reason for entry in scored.comparison.expired})
    refused = {
        f"{leg.revision} over {leg.transport}": leg.refusal for leg in scored.run.legs if leg.refusal is not None
    }
    _lines(main, "Not supported", refused)


def _lines(main: Element, title: str, lines: Mapping[str, str]) -> None:
    if not lines:
        return
    section = add(main, "section", id=slug(title))
    add(section, "h2", f"{title}: {len(lines)}")
    rows = add(section, "ul", cls="plain")
    for first, second in lines.items():
        add(rows, "li", f"{first}: {second}" if second else first)
