"""Tests of the relation between checks, and of the attribution of failures to other failures."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter

import attrs
import pytest
from program_path import PROGRAM_PATH
from scored_runs import REVISION, RULES, run_of, verdict

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.checks.registry import dependencies
from mcp_conformance.checks.registry.dependencies import (
    CLIENT_DEPENDENCIES,
    SERVER_BASICS,
    SERVER_DEPENDENCIES,
)
from mcp_conformance.drivers.server.targets import started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import CheckInfo, CheckScope, Role
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.runners.server import run_server
from mcp_conformance.scoring.attribution import attributed
from mcp_conformance.scoring.baseline import Baseline, ExpectedFailure
from mcp_conformance.scoring.score import Score, score
from mcp_conformance.suite.checks import CHECKS, find
from mcp_core.revisions import LATEST

DEPENDENCIES = {Role.SERVER: SERVER_DEPENDENCIES, Role.CLIENT: CLIENT_DEPENDENCIES}
SETTINGS = Settings(timeout=10.0)
BASIC = "ping.empty-result"
DEPENDENT = "schema.empty-result"


def failure(check: str, *, revision: str = REVISION, basics: tuple[str, ...] = ()) -> Verdict:
    return attrs.evolve(verdict(Outcome.FAILED, check=check, revision=revision), broken_basics=basics)


@pytest.mark.parametrize("role", DEPENDENCIES)
def test_dependencies_name_checks_that_run_together(role: Role) -> None:
    known: dict[str, CheckInfo] = {check.id: check for check in CHECKS[role]}
    for id, others in DEPENDENCIES[role].items():
        assert known[id].depends_on == others
        for other in others:
            assert known[id].revisions & known[other].revisions, f"{id} never runs with {other}"
            assert known[id].transports & known[other].transports, f"{id} never runs with {other}"


@pytest.mark.parametrize("table", ["SERVER_DEPENDENCIES", "CLIENT_DEPENDENCIES"])
def test_check_has_one_row_of_dependencies(table: str) -> None:
    # In a dict display, a later row replaces an earlier one silently.
    (rows,) = (
        each.value
        for each in ast.parse(inspect.getsource(dependencies)).body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id == table
    )
    assert isinstance(rows, ast.Dict)
    ids: Counter[str] = Counter()
    for key, value in zip(rows.keys, rows.values, strict=True):
        row = ast.fix_missing_locations(ast.Expression(ast.Dict([key], [value])))
        ids.update(eval(compile(row, table, "eval"), vars(dependencies)).keys())
    assert [id for id, count in ids.items() if count > 1] == []


@pytest.mark.parametrize("role", DEPENDENCIES)
def test_dependencies_have_no_circle(role: Role) -> None:
    def walk(id: str, path: tuple[str, ...]) -> None:
        assert id not in path, " > ".join((*path, id))
        for other in DEPENDENCIES[role].get(id, ()):
            walk(other, (*path, id))

    for id in DEPENDENCIES[role]:
        walk(id, ())


def test_basic_checks_judge_recorded_messages_alone() -> None:
    assert {find(id, Role.SERVER).scope for id in SERVER_BASICS} == {CheckScope.EVIDENCE}
    # Otherwise the attribution could go in a circle.
    assert not set(SERVER_BASICS) & {other for id in SERVER_BASICS for other in SERVER_DEPENDENCIES.get(id, ())} - {
        "jsonrpc.utf8",
        "jsonrpc.response-shape",
    }


def test_failure_behind_another_one_is_not_testable() -> None:
    found = score(run_of(failure(DEPENDENT), failure(BASIC)), RULES)

    assert [found.score_of(each) for each in found.run.verdicts] == [Score.NOT_TESTABLE, Score.FAILED]
    assert found.run.verdicts[0].reason == f"not testable because of {BASIC}: expected something; observed something"
    assert found.summary == "1 failed, 1 not testable"


def test_failure_alone_remains_one() -> None:
    found = attributed(run_of(failure(DEPENDENT), verdict(Outcome.PASSED, check=BASIC)))
    assert found.verdicts[0].outcome is Outcome.FAILED


def test_pass_beside_failed_dependency_remains_one() -> None:
    found = attributed(run_of(verdict(Outcome.PASSED, check=DEPENDENT), failure(BASIC)))
    assert found.verdicts[0].outcome is Outcome.PASSED


def test_failure_in_another_leg_explains_nothing() -> None:
    found = attributed(run_of(failure(DEPENDENT), failure(BASIC, revision="2025-11-25")))
    assert {each.outcome for each in found.verdicts} == {Outcome.FAILED}


def test_first_cause_is_named() -> None:
    found = attributed(
        run_of(failure("logging.level-is-forgotten"), failure("logging.not-without-level"), failure("logging.declared"))
    )
    reasons = [each.reason for each in found.verdicts if each.outcome is Outcome.NOT_TESTABLE]
    assert len(reasons) == 2
    assert all("because of logging.declared" in reason for reason in reasons)


def test_failure_whose_messages_break_basic_rule_is_not_testable() -> None:
    basic = "jsonrpc.version-member"
    found = attributed(run_of(failure("jsonrpc.unknown-method", basics=(basic,)), failure(basic)))
    assert [each.outcome for each in found.verdicts] == [Outcome.NOT_TESTABLE, Outcome.FAILED]
    # Broken basic rules in messages of a check are no failure of the basic check if that one did not run.
    assert attributed(run_of(failure("jsonrpc.unknown-method", basics=(basic,)))).verdicts[0].outcome is Outcome.FAILED


def test_failure_that_does_not_count_hides_nothing() -> None:
    below = next(
        (id, other)
        for id, others in SERVER_DEPENDENCIES.items()
        for other in others
        for revision in find(id, Role.SERVER).revisions & find(other, Role.SERVER).revisions & {REVISION}
        if find(id, Role.SERVER).level(revision) is Level.MUST
        and find(other, Role.SERVER).level(revision) is not Level.MUST
    )
    run = run_of(*(failure(id) for id in below))

    assert score(run, attrs.evolve(RULES, strict=True)).run.verdicts[0].outcome is Outcome.NOT_TESTABLE
    # A warning must not hide a failure.
    assert score(run, RULES).run.verdicts[0].outcome is Outcome.FAILED
    assert score(run, attrs.evolve(RULES, level=Level.MUST)).run.verdicts[0].outcome is Outcome.FAILED


def test_expected_failure_of_dependent_check_is_not_stale() -> None:
    known = Baseline((ExpectedFailure(check=DEPENDENT, reason="x"), ExpectedFailure(check=BASIC, reason="x")))
    assert score(run_of(failure(DEPENDENT), failure(BASIC)), attrs.evolve(RULES, baseline=known)).status == 0


async def test_fault_of_content_type_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    command = f"{sys.executable} -m mutants.raw_server --fault modern-streams-as-text --port {{port}}"
    chosen = {"http.content-type", "progress.only-with-token", "progress.token", "progress.shape"}
    async with started(command, "http://127.0.0.1:{port}/mcp", SETTINGS) as target:
        run = await run_server(target, SETTINGS, Manifest(), revisions=[LATEST], chosen=chosen)

    assert {each.check for each in run.verdicts if each.outcome is Outcome.FAILED} == chosen
    found = attributed(run)
    assert [each.check for each in found.verdicts if each.outcome is Outcome.FAILED] == ["http.content-type"]
    reasons = {each.reason.partition(":")[0] for each in found.verdicts if each.outcome is Outcome.NOT_TESTABLE}
    assert reasons == {"not testable because of http.content-type"}
