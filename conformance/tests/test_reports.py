from __future__ import annotations

import base64
import datetime
import hashlib
import html.parser
import io
import json
import re
from pathlib import Path
from xml.etree.ElementTree import fromstring

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scored_runs import IDS, RECOMMENDED, REVISION, RULES, TODAY, client_run, run_of, scored, verdict

from mcp_conformance.catalogue.links import link
from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.model.check import Role
from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.reports.badge import badge, badge_svg
from mcp_conformance.reports.findings import again
from mcp_conformance.reports.html.page import html as page
from mcp_conformance.reports.json_document import document, schema
from mcp_conformance.reports.junit import junit
from mcp_conformance.reports.markdown import markdown
from mcp_conformance.reports.sarif import sarif, sarif_location
from mcp_conformance.reports.text import Progress, summary_lines
from mcp_conformance.scoring.baseline import Baseline, ExpectedFailure
from mcp_conformance.scoring.score import FAILING, Rules, Score, ScoredRun, score
from mcp_conformance.suite.profile import Profile

KNOWN = ExpectedFailure(check=IDS[0], reason="see 123")
SCHEMA = jsonschema_rs.validator_for(json.dumps(schema()))
VOID = {"meta", "input"}
RULES_WITH_BASELINE = attrs.evolve(RULES, baseline=Baseline((KNOWN,)))


class Page(html.parser.HTMLParser):
    """A parser that checks that the tags of a page are nested correctly."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.property
@given(st.sampled_from(list(Outcome)), st.text(), st.sampled_from(IDS), st.sampled_from([RULES, RULES_WITH_BASELINE]))
def test_reports_accept_any_server_text(outcome: Outcome, text: str, check: str, rules: Rules) -> None:
    run = score(run_of(verdict(outcome, text, check), refusal=text, target=text), rules)
    (case,) = fromstring(junit(run)).iter("testcase")
    assert case.get("name") == check
    assert bool(len(case)) == (outcome is not Outcome.PASSED)
    assert SCHEMA.is_valid(json.loads(json.dumps(document(run))))
    assert len(json.loads(json.dumps(sarif(run)))["runs"][0]["results"]) == (outcome is Outcome.FAILED)
    assert REVISION in markdown(run)
    assert any(line.startswith(REVISION) for line in summary_lines(run))
    assert not Page(page(run)).open
    fromstring(badge_svg(run))


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt; --></style>\x00\x1b[2J\u202e"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_server_text_is_escaped_in_page(outcome: Outcome) -> None:
    run = score(run_of(verdict(outcome, HOSTILE), refusal=HOSTILE, target=HOSTILE), RULES)
    parsed = Page(page(run))
    assert {tag for tag, _, _ in parsed.attributes}.isdisjoint({"script", "img", "link", "iframe", "object", "base"})
    assert parsed.tags.count("script") == 1
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name in ("style", "src", "srcset")]
    assert any("<script>alert(1)</script>" in text for text in parsed.text)


def test_page_loads_nothing_and_has_strict_csp() -> None:
    text = page(scored(verdict(Outcome.FAILED)))
    parsed = Page(text)
    links = {value.partition("#")[0] for _, name, value in parsed.attributes if name == "href"}
    assert all(link.startswith(("https://modelcontextprotocol.io/", "https://github.com/")) for link in links - {""})
    (policy,) = (value for _, name, value in parsed.attributes if name == "content" and "default-src" in value)
    digests = []
    for tag in ("style", "script"):
        (own,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digests.append(base64.b64encode(hashlib.sha256(own.encode()).digest()).decode())
        for word in ("url(", "@import", "fetch", "innerHTML", "eval"):
            assert word not in own
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_page_links_resolve() -> None:
    verdicts = [verdict(outcome, check=check) for outcome, check in zip(Outcome, IDS, strict=False)]
    parsed = Page(page(scored(*verdicts)))
    anchors = {value for _, name, value in parsed.attributes if name == "id"}
    links = {value[1:] for _, name, value in parsed.attributes if name == "href" and value.startswith("#")}
    assert {"failures", "f1-1"} <= links <= anchors


def test_page_links_requirement_to_its_place_in_the_specification() -> None:
    failure = verdict(Outcome.FAILED, check="ping.empty-result")
    links = {value for _, name, value in Page(page(scored(failure))).attributes if name == "href"}
    row = SERVER_CHECKS["ping.empty-result"].requirements(REVISION)[0]
    assert link(row, REVISION) in links
    assert link(row, REVISION).startswith("https://modelcontextprotocol.io/specification/2025-06-18/")


def test_page_names_the_implementation() -> None:
    run = score(attrs.evolve(run_of(verdict(Outcome.PASSED)), implementation="weather 1.2"), RULES)
    text = page(run)
    assert "<h1>weather 1.2</h1>" in text
    assert "<title>MCP conformance of weather 1.2: passed</title>" in text
    assert "weather 1.2" in markdown(run)
    assert document(run)["implementation"] == "weather 1.2"


def test_page_shows_details_of_failure() -> None:
    text = "".join(Page(page(scored(verdict(Outcome.FAILED, "what came")))).text)
    check = SERVER_CHECKS[IDS[0]]
    row = check.requirements(REVISION)[0]
    for part in (check.title, row.text, row.place, row.id, "what came", "--> {}", f"--check {check.id}"):
        assert part.replace("`", "") in text


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_TESTABLE, Outcome.BROKEN])
def test_failure_is_shown_in_reports(outcome: Outcome) -> None:
    run = scored(verdict(outcome), verdict(Outcome.PASSED, check=IDS[1]))
    assert run.status
    assert fromstring(junit(run)).find(".//failure" if outcome is not Outcome.BROKEN else ".//error") is not None
    assert "not passed" in markdown(run)
    assert document(run)["status"] == run.status
    assert badge(run)["color"] != badge(scored(verdict(Outcome.PASSED)))["color"]
    assert 'class="pill failed"' in page(run)


@pytest.mark.parametrize(
    ("rules", "outcome"),
    [
        (RULES_WITH_BASELINE, Outcome.FAILED),
        (attrs.evolve(RULES, allow_untested=True), Outcome.NOT_TESTABLE),
    ],
)
def test_tolerated_failure_passes_but_is_shown(rules: Rules, outcome: Outcome) -> None:
    run = scored(verdict(outcome), verdict(Outcome.PASSED, check=IDS[1]), rules=rules)
    assert run.status == 0
    root = fromstring(junit(run))
    assert root.find(".//failure") is None
    assert root.find(".//skipped") is not None
    assert ": passed" in markdown(run)
    assert 'class="pill passed"' in page(run)
    assert "open" in str(badge(run)["message"])
    label = run.score_of(run.run.verdicts[0]).value
    assert any(line.startswith(label) for line in summary_lines(run))


def test_stale_entry_and_missing_revision_fail_in_junit() -> None:
    run = scored(verdict(Outcome.PASSED), rules=attrs.evolve(RULES_WITH_BASELINE, demanded=frozenset({"2024-11-05"})))
    names = [case.get("name") for case in fromstring(junit(run)).iter("testcase") if case.find("failure") is not None]
    assert names == ["supports 2024-11-05", IDS[0]]
    assert "does not fail" in markdown(run)
    assert any(line.startswith("stale") for line in summary_lines(run))


def test_junit_of_empty_run_fails() -> None:
    assert fromstring(junit(scored())).get("failures") == "1"


def test_junit_counts_match_cases() -> None:
    outcomes = (Outcome.PASSED, Outcome.FAILED, Outcome.BROKEN, Outcome.NOT_APPLICABLE)
    root = fromstring(junit(scored(*(verdict(each, check=id) for each, id in zip(outcomes, IDS, strict=False)))))
    assert [root.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]


@pytest.mark.parametrize(
    ("files", "environment", "expected"),
    [
        (["own file.toml", "other.toml"], {}, "own%20file.toml"),
        ([None, "folder/known.toml"], {"GITHUB_WORKFLOW_REF": "o/r/.github/workflows/ci.yml@refs/heads/a@b"}, "folder/known.toml"),
        (["/elsewhere/known.toml"], {"GITHUB_WORKFLOW_REF": "o/r/.github/workflows/ci.yml@refs/heads/a@b"}, ".github/workflows/ci.yml"),
        (["../known.toml"], {}, None),
        ([], {"GITHUB_WORKFLOW_REF": ""}, None),
    ],
)  # fmt: skip
def test_sarif_location_is_a_file_of_the_repository(
    files: list[str | None], environment: dict[str, str], expected: str | None
) -> None:
    assert sarif_location([None if each is None else Path(each) for each in files], environment) == expected


def test_sarif_result_has_what_github_requires() -> None:
    failures = [verdict(Outcome.FAILED), verdict(Outcome.FAILED, transport="http")]
    (run,) = json.loads(json.dumps(sarif(scored(*failures), "known.toml")))["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["helpUri"].startswith("https://modelcontextprotocol.io/")
    for result in run["results"]:
        assert result["locations"][0]["physicalLocation"] == {
            "artifactLocation": {"uri": "known.toml"},
            "region": {"startLine": 1},
        }
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert len({each["partialFingerprints"]["primaryLocationLineHash"] for each in run["results"]}) == 2


def test_sarif_level_is_that_of_the_check() -> None:
    failures = [verdict(Outcome.FAILED), verdict(Outcome.FAILED, check=RECOMMENDED[0])]
    (run,) = json.loads(json.dumps(sarif(scored(*failures))))["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "warning"]


def test_sarif_suppresses_known_failure() -> None:
    (result,) = json.loads(json.dumps(sarif(scored(verdict(Outcome.FAILED), rules=RULES_WITH_BASELINE))))["runs"][0][
        "results"
    ]
    assert result["suppressions"] == [{"kind": "external", "justification": "see 123"}]


def test_summary_names_requirement_and_command_of_failure() -> None:
    lines = "\n".join(summary_lines(scored(verdict(Outcome.FAILED))))
    check = SERVER_CHECKS[IDS[0]]
    row = check.requirements(REVISION)[0]
    for part in (check.title, row.text, row.place, row.id, f"--check {check.id}", f"--revision {REVISION}"):
        assert part in lines


def test_failure_in_several_legs_is_reported_once() -> None:
    ids = [each for each in IDS if "2025-11-25" in SERVER_CHECKS[each].revisions]
    run = scored(
        verdict(Outcome.FAILED, check=ids[0]),
        verdict(Outcome.FAILED, check=ids[0], revision="2025-11-25"),
        verdict(Outcome.FAILED, check=ids[0], transport="http"),
    )
    lines = list(summary_lines(run))
    (line,) = (line for line in lines if line.startswith("FAILED"))
    assert line.endswith("(2025-06-18, 2025-11-25 over stdio; 2025-06-18 over http)")
    assert markdown(run).count("\n### ") == 1
    assert page(run).count("<article") == 1


def test_repeat_command_of_passive_check_selects_all_checks() -> None:
    run = run_of(verdict(Outcome.FAILED, check="jsonrpc.version-member"))
    assert again(run, run.verdicts[0]) == f"mcp-conformance server ... --revision {REVISION}"
    known = attrs.evolve(run, invocation="mcp-conformance server --command x")
    assert again(known, verdict(Outcome.FAILED, check="jsonrpc.parse-error")) == (
        f"mcp-conformance server --command x --revision {REVISION} --check jsonrpc.parse-error"
    )


def test_client_run_is_labeled_client() -> None:
    run = client_run(Outcome.FAILED)
    assert "MCP conformance of the client" in page(run)
    assert any("mcp-conformance client" in line for line in summary_lines(run))
    assert badge(run)["label"] == "MCP client"


def test_markdown_fence_exceeds_backticks_in_text() -> None:
    text = markdown(scored(verdict(Outcome.FAILED, "a ``` b ```` c```````d")))
    assert "\n````````\n" in text


def test_summary_lists_unscored_failures() -> None:
    check = next(each.id for each in SERVER_CHECKS if each.id in IDS and each.level(REVISION).value != "MAY")
    nothing = Rules(today=TODAY, profile=Profile(name="none", digest="", checks={role: {} for role in Role}))
    lines = list(summary_lines(scored(verdict(Outcome.FAILED, check=check), rules=nothing)))
    assert any(line.startswith("not scored") and check in line for line in lines)


def test_expired_entry_is_reported() -> None:
    entry = attrs.evolve(KNOWN, expires=TODAY - datetime.timedelta(days=1))
    run = scored(verdict(Outcome.FAILED), rules=attrs.evolve(RULES, baseline=Baseline((entry,))))
    assert run.status == 1
    assert any(line.startswith("expired") for line in summary_lines(run))
    (row,) = json.loads(json.dumps(document(run)))["expired"]
    assert row == {"check": IDS[0], "reason": "see 123", "expires": "2026-11-21"}
    assert "Expired in the baseline" in page(run)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def write_progress(stream: io.StringIO, *verdicts: Verdict) -> str:
    progress = Progress(stream, lambda each: RULES.score_of(each, run_of().role))
    for each in verdicts:
        progress(each)
    progress.close()
    return stream.getvalue()


def test_progress_on_terminal_rewrites_one_line() -> None:
    text = write_progress(Terminal(), verdict(Outcome.PASSED), verdict(Outcome.FAILED), verdict(Outcome.PASSED))
    assert text.count("\n") == 1
    assert "3 checks done, 1 failed" in text
    assert text.endswith("\r\x1b[K")


def test_progress_without_terminal_prints_failures_and_counts() -> None:
    text = write_progress(io.StringIO(), *[verdict(Outcome.PASSED)] * 99, verdict(Outcome.FAILED))
    assert text.splitlines()[0].startswith("failed")
    assert text.splitlines()[1:] == ["100 checks done, 1 failed"]
    assert "\x1b" not in text


def test_client_progress_counts_scenarios() -> None:
    stream = io.StringIO()
    progress = Progress(stream, lambda each: RULES.score_of(each, run_of().role))
    for number in range(100):
        progress.played(f"2025-11-25 http scenario-{number}")
    for _ in range(100):
        progress(verdict(Outcome.PASSED))
    assert stream.getvalue().splitlines() == [
        "100 scenarios played, 0 checks done, 0 failed",
        "100 scenarios played, 100 checks done, 0 failed",
    ]


def test_scores_match_report_schema() -> None:
    defined = schema()["$defs"]
    assert isinstance(defined, dict)
    assert json.loads(json.dumps(defined["standing"]))["enum"] == [label.value for label in Score]
    assert set(FAILING) < set(Score)


def test_markdown_truncates_findings() -> None:
    run: ScoredRun = scored(*(verdict(Outcome.FAILED, f"text {number}", IDS[number % 3]) for number in range(150)))
    text = markdown(run)
    assert text.count("\n### ") == 100
    assert "And 50 more." in text
