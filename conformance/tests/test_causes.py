"""Tests of the causes of failures: what belongs together, in which order, and in which reports."""

from __future__ import annotations

import attrs
import pytest
from scored_runs import RULES, run_of, verdict

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.reports.causes import causes
from mcp_conformance.reports.html.page import html
from mcp_conformance.reports.markdown import markdown
from mcp_conformance.reports.text import summary_lines
from mcp_conformance.scoring.baseline import Baseline, ExpectedFailure
from mcp_conformance.scoring.score import ScoredRun, score

INVALID = ("jsonrpc.no-request-method", "jsonrpc.no-request-id", "jsonrpc.no-request-old-version")
RECOMMENDED = "logging.unknown-level"
BASIC, DEPENDENT = "ping.empty-result", "schema.empty-result"
REVISION = "2025-11-25"


def failure(check: str, observed: str = "no response", *, outcome: Outcome = Outcome.FAILED) -> Verdict:
    return attrs.evolve(verdict(outcome, check=check, revision=REVISION), observed=observed)


def run(*verdicts: Verdict, strict: bool = False) -> ScoredRun:
    return score(run_of(*verdicts), attrs.evolve(RULES, strict=strict))


def test_same_observation_in_an_area_has_one_cause() -> None:
    (cause,) = causes(run(*(failure(each) for each in INVALID)))
    assert cause.checks == INVALID
    assert cause.title == "no response: 3 checks"
    assert cause.label == "failed"


def test_error_responses_with_the_same_code_have_one_cause() -> None:
    texts = [f'{{"jsonrpc": "2.0", "id": {n}, "error": {{"code": {7 + n // 2}, "message": "m{n}"}}}}' for n in range(3)]
    found = causes(run(*(failure(id, text) for id, text in zip(INVALID, texts, strict=True))))
    assert [each.title for each in found] == ["error 7: 2 checks", INVALID[2]]
    (status,) = causes(run(*(failure(id, f"{texts[0]} (HTTP 500)") for id in INVALID)))
    assert status.title == "error 7 (HTTP 500): 3 checks"


def test_observations_that_differ_in_request_ids_have_one_cause() -> None:
    texts = [f'{{"jsonrpc": "2.0", "id": {id}, "result": {{}}}}' for id in ("5", '"a-9"')]
    assert len(causes(run(*(failure(id, text) for id, text in zip(INVALID, texts, strict=False))))) == 1


def test_same_observation_in_other_area_has_another_cause() -> None:
    assert len(causes(run(failure(INVALID[0]), failure(BASIC)))) == 2


def test_failures_that_follow_belong_to_the_cause() -> None:
    (cause,) = causes(run(failure(DEPENDENT, "another"), failure(BASIC)))
    assert (cause.checks, cause.followers, cause.title) == ((BASIC,), (DEPENDENT,), "no response: 2 checks")


def test_causes_begin_with_must_and_many_checks() -> None:
    verdicts = (failure(RECOMMENDED), failure(BASIC), *(failure(each) for each in INVALID))
    for strict in (False, True):
        found = causes(run(*verdicts, strict=strict))
        assert [each.checks for each in found] == [INVALID, (BASIC,), (RECOMMENDED,)]
        assert [each.label for each in found] == ["failed", "failed", "failed" if strict else "warning"]


def test_error_of_the_suite_comes_first_and_alone() -> None:
    broken = failure(BASIC, "no response", outcome=Outcome.BROKEN)
    found = causes(run(*(failure(each) for each in INVALID), broken))
    assert [each.label for each in found] == ["broken", "failed"]
    assert found[0].title == BASIC


def test_long_observation_is_cut_in_the_title() -> None:
    (cause,) = causes(run(*(failure(each, "x" * 500) for each in INVALID)))
    assert len(cause.title) < 160
    assert "\N{HORIZONTAL ELLIPSIS}: 3 checks" in cause.title


def text_of(scored: ScoredRun) -> str:
    return "\n".join(summary_lines(scored))


@pytest.mark.parametrize("report", [text_of, markdown, html])
def test_reports_show_causes_with_all_their_checks(report: object) -> None:
    assert callable(report)
    verdicts = (
        *(failure(each) for each in INVALID),
        failure(RECOMMENDED, "-32603"),
        failure(BASIC),
        failure(DEPENDENT),
    )
    text = str(report(run(*verdicts)))
    order = [text.index(each) for each in ("no response: 3 checks", *INVALID)]
    # The page has a table of all checks at its end: the first occurrence counts.
    assert order == sorted(order)
    assert text.index(f"{BASIC}") < text.index(RECOMMENDED)
    assert text.count("ot testable because of it") == 1
    assert SERVER_CHECKS[INVALID[0]].title.split("`")[0] in text
    assert "1 warning" in text


@pytest.mark.parametrize("report", [text_of, markdown, html])
def test_follower_of_an_expected_failure_is_shown(report: object) -> None:
    assert callable(report)
    rules = attrs.evolve(RULES, baseline=Baseline((ExpectedFailure(check=BASIC, reason="x"),)))
    text = str(report(score(run_of(failure(BASIC), failure(DEPENDENT)), rules)))
    assert f"not testable because of {BASIC}" in text


def test_terminal_lists_a_follower_only_with_its_cause() -> None:
    text = text_of(run(failure(BASIC), failure(DEPENDENT)))
    assert text.count(DEPENDENT) == 1
