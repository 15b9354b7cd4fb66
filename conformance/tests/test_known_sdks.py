"""Tests of the known failures of SDKs: labels, recognition, and the baselines `sdk:NAME@VERSION`."""

from __future__ import annotations

import json

import attrs
import pytest
from scored_runs import IDS, RULES, run_of, verdict

from mcp_conformance.cli.main import main
from mcp_conformance.cli.options import CommandLineError, known_baseline
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.model.verdict import Leg, Outcome, Run, Verdict
from mcp_conformance.reports.html.page import html
from mcp_conformance.reports.json_document import document
from mcp_conformance.reports.markdown import markdown
from mcp_conformance.reports.text import summary_lines
from mcp_conformance.scoring.known_sdks import KnownSdk, known_sdk, recognized, sdk_names
from mcp_conformance.scoring.score import ScoredRun, score
from mcp_conformance.suite.checks import CHECKS, find
from mcp_core.errors import InvalidValue
from mcp_core.revisions import REVISIONS

SDKS = [(name, role) for role in Role for name in sdk_names(role)]


def run_of_sdk(sdk: KnownSdk, role: Role = Role.SERVER, *, fixed: int = 0, more: int = 0) -> Run:
    """Return a run over both transports with the failures of an SDK.

    Args:
        sdk: The SDK.
        role: The side under test.
        fixed: The number of its failures that pass.
        more: The number of other failures.
    """
    verdicts = [
        verdict(Outcome.PASSED, check=check.id, revision=revision, transport=transport.value)
        for revision in REVISIONS
        for check in CHECKS[role]
        for transport in check.transports
        if revision in check.revisions
    ]
    known = [each for each in verdicts if any(entry.covers(each) for entry in sdk.baseline.known)]
    other = [each for each in verdicts if each not in known and not find(each.check, role).depends_on]
    failed = [*known[fixed:], *other[:more]]
    run = run_of(*(attrs.evolve(each, outcome=Outcome.FAILED) if each in failed else each for each in verdicts))
    return attrs.evolve(run, role=role)


@pytest.mark.parametrize(("name", "role"), SDKS)
def test_table_names_checks_of_its_role(name: str, role: Role) -> None:
    entries = known_sdk(name, role).baseline.known
    assert len({entry.check for entry in entries}) > 3
    for entry in entries:
        check = find(entry.check, role)
        assert entry.flaky
        assert entry.reason
        assert entry.revision is None or entry.revision in check.revisions
        assert entry.transport is None or Transport(entry.transport) in check.transports


@pytest.mark.parametrize("role", Role)
def test_tables_exist_for_the_official_sdks_and_fastmcp(role: Role) -> None:
    assert {name.partition("@")[0] for name in sdk_names(role)} == {"fastmcp", "python", "typescript"}


@pytest.mark.parametrize(("name", "role"), SDKS)
def test_sdk_is_recognized_by_its_failures(name: str, role: Role) -> None:
    sdk = known_sdk(name, role)
    fixed, more = (2, 3) if role is Role.SERVER else (0, 1)
    assert recognized(run_of_sdk(sdk, role, fixed=fixed, more=more)) == sdk


def test_server_with_other_failures_is_not_recognized() -> None:
    sdk = known_sdk(sdk_names(Role.SERVER)[0], Role.SERVER)
    assert recognized(run_of_sdk(sdk, fixed=1000)) is None
    assert recognized(run_of_sdk(sdk, fixed=1000, more=50)) is None
    client = attrs.evolve(run_of_sdk(sdk), role=Role.CLIENT, verdicts=())
    assert recognized(client) is None


def scored_with(sdk: KnownSdk | None, *verdicts: Verdict) -> ScoredRun:
    return score(run_of(*verdicts), attrs.evolve(RULES, sdk=sdk))


def failing(sdk: KnownSdk) -> tuple[Verdict, Verdict]:
    """Return a known failure of an SDK, and another one."""
    entry = next(each for each in sdk.baseline.known if each.revision is None and each.transport is None)
    revision = min(find(entry.check, Role.SERVER).revisions)
    other = next(id for id in IDS if all(entry.check != id for entry in sdk.baseline.known))
    return verdict(Outcome.FAILED, "x", entry.check, revision), verdict(Outcome.FAILED, "y", other)


def text_of(scored: ScoredRun) -> str:
    return "\n".join(summary_lines(scored))


def test_failures_of_stated_sdk_are_labeled_and_still_fail() -> None:
    sdk = known_sdk("python@1.30.0", Role.SERVER)
    run = scored_with(sdk, *failing(sdk))
    entry = run.from_sdk(run.run.verdicts[0])
    assert entry is not None
    assert run.from_sdk(run.run.verdicts[1]) is None
    assert run.status == 1
    for text in (text_of(run), markdown(run), html(run)):
        assert "1 of 2 failed checks come from the SDK python" in text
        assert f"python@1.30.0: {entry.reason}" in text
    found = json.loads(json.dumps(document(run)))
    assert found["sdk"] == "python@1.30.0"
    assert [each.get("sdk") for each in found["verdicts"]] == [entry.reason, None]


def test_recognized_sdk_is_a_resemblance() -> None:
    run = score(run_of_sdk(known_sdk("python@1.30.0", Role.SERVER)), RULES)
    assert "python@1.30.0, which the failures resemble: --baseline sdk:python@1.30.0 expects them" in run.sdk_summary


def test_baseline_of_sdk_expects_its_failures() -> None:
    sdk = known_sdk("python@1.30.0", Role.SERVER)
    own, other = failing(sdk)
    passed = verdict(Outcome.PASSED, check=IDS[-1])
    rules = attrs.evolve(RULES, baseline=known_baseline(["sdk:python@1.30.0"], Role.SERVER))
    assert score(run_of(own, passed), rules).status == 0
    assert score(run_of(own, other), rules).status == 1
    # An SDK's failure that the server avoids is not stale.
    assert score(run_of(attrs.evolve(own, outcome=Outcome.PASSED)), rules).status == 0


def test_unknown_sdk_names_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidValue, match=r"there is no SDK 'python@0'; available: fastmcp@4"):
        known_sdk("python@0", Role.CLIENT)
    with pytest.raises(CommandLineError, match="there is no SDK 'python@0'"):
        known_baseline(["sdk:python@0"], Role.CLIENT)
    for role in Role:
        assert main([role.value, "--command", "x", "--sdk", "python@0"]) == 2
        assert "available: fastmcp@" in capsys.readouterr().err


def test_first_baseline_with_a_failure_applies(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("baseline") / "own.toml"
    own, _ = failing(known_sdk("python@1.30.0", Role.SERVER))
    path.write_text(f'[[known]]\ncheck = "{own.check}"\nreason = "mine"\n')
    entry = known_baseline([str(path), "sdk:python@1.30.0"], Role.SERVER).find(own, RULES.today)
    assert entry is not None
    assert entry.reason == "mine"


def test_leg_without_verdicts_is_not_recognized() -> None:
    empty = Run(
        role=Role.SERVER, target="x", legs=(Leg(revision="2025-11-25", transport="stdio", refusal="no"),), verdicts=()
    )
    assert recognized(empty) is None
