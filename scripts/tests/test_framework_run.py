from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from interop.framework import run as official
from interop.framework.run import NEVER_RUN, PINNED, Finding, Leg, Scenario, complaints, read_leg, read_scenario, table

STAMP = "2026-11-22T06-37-44-084Z"


def checks(*statuses: str, name: str = "Check", id: str = "check") -> str:
    records = [
        {"id": id, "name": name, "description": f"description of {status}", "status": status} for status in statuses
    ]
    return json.dumps(records)


def write_results(folder: Path, scenarios: Mapping[str, str | None]) -> Path:
    """Write the results of a run of the framework, and return their folder."""
    for name, text in scenarios.items():
        place = folder / f"{name}-{STAMP}"
        place.mkdir(parents=True)
        if text is not None:
            (place / "checks.json").write_text(text)
    (folder / "output.txt").write_text("")
    return folder


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (("SUCCESS", "INFO"), "pass"),
        (("SUCCESS", "SKIPPED"), "skip"),
        (("SUCCESS", "SKIPPED", "WARNING"), "warn"),
        (("WARNING", "SKIPPED", "FAILURE", "SUCCESS"), "FAIL"),
        (("INFO",), "FAIL"),
        ((), "FAIL"),
    ],
)
def test_scenario_verdict_is_worst_check(statuses: tuple[str, ...], verdict: str) -> None:
    scenario = read_scenario("ping", checks(*statuses))
    assert (scenario.name, scenario.verdict) == ("ping", verdict)
    assert bool(scenario.findings) == (verdict != "pass")


def test_unknown_status_raises() -> None:
    with pytest.raises(KeyError, match="UNKNOWN"):
        read_scenario("ping", checks("SUCCESS", "UNKNOWN"))


def test_finding_has_message_or_description_of_check() -> None:
    text = json.dumps(
        [
            {"id": "a", "name": "A", "description": "what is asked", "status": "FAILURE", "errorMessage": "what came"},
            {"id": "b", "name": "B", "description": "what is asked", "status": "WARNING"},
        ]
    )
    assert read_scenario("ping", text).findings == (
        Finding("FAIL", "A", "what came"),
        Finding("warn", "B", "what is asked"),
    )


def test_scenario_without_result_failed() -> None:
    assert read_scenario("ping", None).verdict == "FAIL"


def test_valid_messages_alone_not_enough_to_pass() -> None:
    assert read_scenario("ping", checks("SUCCESS", id="wire-schema-valid")).verdict == "FAIL"


def test_skipped_check_that_never_runs_ignored() -> None:
    name = min(NEVER_RUN)
    assert read_scenario("ping", checks("SKIPPED", name=name)) == Scenario("ping", "none")
    assert read_scenario("ping", checks("SUCCESS", "SKIPPED", name=name)) == Scenario("ping", "pass")
    assert read_scenario("ping", checks("FAILURE", name=name)).verdict == "FAIL"


def test_leg_has_scenarios_with_results(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"server-server-initialize": checks("SUCCESS"), "server-ping": None})
    leg = read_leg("all", "server", folder, "Running all suite (2 scenarios) against a URL", 1)
    assert {scenario.name: scenario.verdict for scenario in leg.scenarios} == {
        "server-initialize": "pass",
        "ping": "FAIL",
    }
    assert leg.trouble == ()


def test_scenario_name_may_contain_slash(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"auth/metadata-var1": checks("SUCCESS"), "tools_call": checks("SUCCESS")})
    for path in folder.rglob("checks.json"):
        (path.parent / "stdout.txt").write_text("connected\ndone\n")
    leg = read_leg("all", "client", folder, "Running all suite (2 scenarios) in parallel...", 0)
    assert sorted(scenario.name for scenario in leg.scenarios) == ["auth/metadata-var1", "tools_call"]
    assert {scenario.verdict for scenario in leg.scenarios} == {"pass"}
    assert not leg.trouble


@pytest.mark.parametrize(
    ("stdout", "stderr", "passes"),
    [
        ("connected\ndone\n", "", True),
        ("connected\ndone\n", "a warning", False),
        ("connected\n", "it broke", False),
        ("done\nconnected\n", "", False),
        (None, None, False),
    ],
)
def test_client_must_end_without_errors_to_pass(
    tmp_path: Path, stdout: str | None, stderr: str | None, passes: bool
) -> None:
    folder = write_results(tmp_path, {"tools_call": checks("SUCCESS")})
    for name, text in (("stdout.txt", stdout), ("stderr.txt", stderr)):
        if text is not None:
            (folder / f"tools_call-{STAMP}" / name).write_text(text)
    (scenario,) = read_leg("all", "client", folder, "Running all suite (1 scenarios) in parallel...", 0).scenarios
    assert (scenario.verdict == "pass") == passes
    assert passes or (stderr or "").strip() in scenario.findings[0].message


def test_authorization_server_results_have_own_prefix(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"authorization-server-authorization-server-metadata-endpoint": checks("SUCCESS")})
    leg = read_leg("all", "authorization", folder, "Running test (1 scenarios) against a URL", 0)
    assert [scenario.name for scenario in leg.scenarios] == ["authorization-server-metadata-endpoint"]
    assert not leg.trouble


def test_announced_scenario_without_result_is_trouble(tmp_path: Path) -> None:
    folder = write_results(tmp_path, {"server-ping": checks("SUCCESS")})
    (trouble,) = read_leg("all", "server", folder, "Running all suite (2 scenarios) against a URL", 0).trouble
    assert "announced 2" in trouble
    assert "of 1" in trouble


def test_interrupted_run_is_trouble(tmp_path: Path) -> None:
    leg = read_leg("all", "server", write_results(tmp_path, {}), "Unknown suite", 1)
    assert len(leg.trouble) == 2
    assert all("Unknown suite" in trouble for trouble in leg.trouble)


def test_table_has_row_per_scenario_and_column_per_leg() -> None:
    legs = [
        Leg("all", (Scenario("ping", "pass"), Scenario("a-long-name", "warn"))),
        Leg("2025-11-25", (Scenario("ping", "pass"), Scenario("tasks", "none"))),
    ]
    assert table(legs).splitlines() == [
        "scenario     all   2025-11-25",
        "a-long-name  warn  .",
        "ping         pass  pass",
        "tasks        .     none",
        "passed       1/2   1/1",
    ]


def test_complaints_grouped_by_reason() -> None:
    scenario = Scenario("ping", "FAIL", (Finding("FAIL", "A", "no\nanswer\n"), Finding("FAIL", "B", "no answer")))
    legs = [Leg("all", (scenario,)), Leg("2025-11-25", (scenario, Scenario("tools-list", "pass")), ("broke off",))]
    assert complaints(legs) == [
        "FAIL ping [all, 2025-11-25] A B: no answer",
        "FAIL the run [2025-11-25]: broke off",
    ]
    assert complaints([Leg("all", (Scenario("ping", "pass"), Scenario("tasks", "none")))]) == []


def test_install_without_npm_exits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(official, "PLACE", tmp_path / "place")
    with pytest.raises(SystemExit, match="npm"):
        official.install()
    assert not (tmp_path / "place").exists()


@pytest.mark.parametrize(
    ("side", "program"),
    [
        ("server", "everything-server"),
        ("server-uvloop", "everything-server"),
        ("client", "everything-client"),
        ("client-asyncio", "everything-client"),
        ("authorization", "authorization-server"),
    ],
)
def test_side_without_program_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, side: str, program: str) -> None:
    monkeypatch.setattr(official, "ROOT", tmp_path)
    monkeypatch.setattr(official, "RESULTS", tmp_path / "results")
    with pytest.raises(SystemExit, match=program):
        official.run_side(side)


def test_pinned_packages_have_exact_versions_without_registry_urls() -> None:
    dependencies = json.loads((PINNED / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d[\w.-]*", version) for version in dependencies.values())
    packages = json.loads((PINNED / "package-lock.json").read_text())["packages"]
    assert packages[""]["dependencies"] == dependencies
    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]
