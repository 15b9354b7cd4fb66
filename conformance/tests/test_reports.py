from __future__ import annotations

import json
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_conformance.checks import Role
from mcp_conformance.report.document import document
from mcp_conformance.report.junit import junit
from mcp_conformance.report.markdown import markdown
from mcp_conformance.report.sarif import sarif
from mcp_conformance.report.text import summary_lines
from mcp_conformance.server import SERVER_CHECKS
from mcp_conformance.verdicts import Lane, Outcome, Run, Verdict

CHECKS = [check.id for check in SERVER_CHECKS if "2025-06-18" in check.revisions]


def made(outcome: Outcome, text: str, check: str = CHECKS[0]) -> Run:
    verdict = Verdict(
        check=check,
        revision="2025-06-18",
        transport="stdio",
        outcome=outcome,
        reason=text,
        expected=text if outcome is Outcome.FAILED else "",
        observed=text,
        transcript=(text, "--> {}"),
        log=text,
    )
    lane = Lane(revision="2025-06-18", transport="stdio", refusal=None)
    refused = Lane(revision="2026-07-28", transport="stdio", refusal=text)
    return Run(role=Role.SERVER, target="server", lanes=(lane, refused), verdicts=(verdict,))


@pytest.mark.property
@given(st.sampled_from(list(Outcome)), st.text(), st.sampled_from(CHECKS))
def test_every_report_bears_whatever_a_server_says(outcome: Outcome, text: str, check: str) -> None:
    run = made(outcome, text, check)
    root = fromstring(junit(run))
    (case,) = root.iter("testcase")
    assert case.get("name") == check
    assert bool(len(case)) == (outcome is not Outcome.PASSED)
    assert json.loads(json.dumps(document(run)))["verdicts"][0]["outcome"] == outcome.value
    assert len(json.loads(json.dumps(sarif(run)))["runs"][0]["results"]) == (outcome is Outcome.FAILED)
    assert "2025-06-18" in markdown(run)
    assert any(line.startswith("2025-06-18") for line in summary_lines(run))


def test_what_could_not_be_tested_is_no_pass_in_any_report() -> None:
    run = made(Outcome.NOT_TESTABLE, "the fixture is missing")
    assert fromstring(junit(run)).find(".//failure") is not None
    assert "not passed" in markdown(run)


def test_a_failure_says_what_is_required_where_and_how_to_see_it_again() -> None:
    lines = "\n".join(summary_lines(made(Outcome.FAILED, "something")))
    check = SERVER_CHECKS[CHECKS[0]]
    row = check.requirements("2025-06-18")[0]
    for part in (check.title, row.text, row.place, row.id, f"--check {check.id}", "--revision 2025-06-18"):
        assert part in lines


def test_backticks_do_not_end_the_block_in_markdown() -> None:
    text = markdown(made(Outcome.FAILED, "a ``` b ```` c"))
    assert "\n`````\n" in text
