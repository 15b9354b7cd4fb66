from __future__ import annotations

import json
import re
import tomllib

import pytest

from interop.peers.run import (
    KNOWN,
    PROGRAMS,
    PYTHONS,
    ROLES,
    SDKS,
    TABLES,
    SuiteRun,
    findings,
    recorded,
    rows,
    surprises,
    table,
    trials,
)
from mcp_conformance.scoring.baseline import parse_baseline

_COUNTS = {"passed": 5, "failed": 2, "broken": 1, "not testable": 3}
_DOCUMENT: dict[str, object] = {
    "status": 1,
    "lanes": [
        {"revision": "2025-11-25", "transport": "http", "refusal": None, "counts": _COUNTS},
        {"revision": "2026-07-28", "transport": "http", "refusal": "unsupported protocol version", "counts": {}},
    ],
    "verdicts": [
        {"check": "a.one", "outcome": "failed", "revision": "2025-06-18", "transport": "http"},
        {"check": "a.one", "outcome": "failed", "revision": "2025-11-25", "transport": "http"},
        {"check": "a.two", "outcome": "broken", "revision": "2025-11-25", "transport": "http"},
        {"check": "a.three", "outcome": "passed", "revision": "2025-11-25", "transport": "http"},
    ],
}


def test_peers_run_in_their_roles_over_both_transports() -> None:
    names = [trial.name for trial in trials()]
    assert len(names) == len(set(names)) == 25
    assert {trial.peer for trial in trials() if trial.role == "client"} == {
        "python-1", "python-2", "typescript-1", "typescript-2", "fastmcp",
    }  # fmt: skip


def test_programs_of_peers_exist() -> None:
    words = " ".join(word for trial in trials() for option in trial.options for word in option.split())
    for module in re.findall(r"interop\.peers\.programs\.(\w+)", words):
        assert (PROGRAMS / f"{module}.py").exists()
    for program in re.findall(r"/(\w+\.mjs)", words):
        assert (PROGRAMS / program).exists()


def test_rows_have_counts_per_revision() -> None:
    trial = SuiteRun("some", "server", "http", ())
    assert list(rows(trial, _DOCUMENT)) == [
        ("some", "server", "http", "2025-11-25", "5", "3", "3"),
        ("some", "server", "http", "2026-07-28", "not spoken", "", ""),
    ]
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"


def test_findings_listed_by_check_with_all_places() -> None:
    assert findings([_DOCUMENT]) == {
        "a.one": ["2025-06-18 over http", "2025-11-25 over http"],
        "a.two": ["2025-11-25 over http"],
    }


def test_new_and_resolved_findings_reported() -> None:
    found = findings([_DOCUMENT])
    assert surprises(found, {"a.one": "so", "a.two": "so"}, whole=True) == []
    assert surprises(found, {"a.one": "so", "a.nine": "so"}, whole=True) == [
        "new: a.two (2025-11-25 over http)", "gone: a.nine",
    ]  # fmt: skip
    assert surprises(found, {"a.one": "so", "a.nine": "so"}, whole=False) == ["new: a.two (2025-11-25 over http)"]


def test_recorded_failures_are_known_ones_and_may_pass() -> None:
    check, other = "ping.empty-result", "jsonrpc.unknown-method"
    where = {"revision": "2025-11-25", "transport": "stdio"}
    verdicts = [
        {"check": check, "outcome": "failed", **where},
        {"check": check, "outcome": "passed", **where, "transport": "http"},
        {"check": "schema.empty-result", "outcome": "not testable", "cause": check, **where},
        {"check": other, "outcome": "failed", **where},
        {"check": "jsonrpc.parse-error", "outcome": "not testable", **where},
    ]
    known = {check: "so", "schema.empty-result": "likewise", "jsonrpc.parse-error": "never"}
    written = parse_baseline(tomllib.loads(recorded([{"verdicts": verdicts}], known)), "table")
    assert [(str(entry), entry.reason, entry.flaky) for entry in written.known] == [
        (f"{check} 2025-11-25 stdio", "so", True),
        ("schema.empty-result", "likewise", True),
    ]


def test_failure_left_to_the_program_is_not_one_of_the_sdk() -> None:
    verdicts = [{"check": "ping.empty-result", "outcome": "failed", "revision": "2025-11-25", "transport": "stdio"}]
    known = {"ping.empty-result": "Left to the program: the SDK raises an error."}
    assert not parse_baseline(tomllib.loads(recorded([{"verdicts": verdicts}], known)), "table").known


@pytest.mark.parametrize("role", ROLES)
def test_recorded_sdks_have_tables(role: str) -> None:
    assert {f"{sdk}.toml" for sdk in SDKS.values()} == {path.name for path in (TABLES / role).iterdir()}


def test_known_findings_belong_to_existing_peers() -> None:
    known = tomllib.loads(KNOWN.read_text())
    assert set(known) <= {f"{trial.peer} {trial.role}" for trial in trials()}


def test_peer_versions_exact_without_registry_urls() -> None:
    dependencies = json.loads((PROGRAMS / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in dependencies.values())
    packages = json.loads((PROGRAMS / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in package for package in packages.values())
    for required, versions in PYTHONS.values():
        assert required in versions.read_text().splitlines()


@pytest.mark.parametrize("name", ["bridges", "mcpb"])
def test_program_versions_exact_without_registry_urls(name: str) -> None:
    folder = PROGRAMS.parents[1] / name
    dependencies = json.loads((folder / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in dependencies.values())
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in package for package in packages.values())


def test_bridge_versions_of_python_exact() -> None:
    bridges = PROGRAMS.parents[1] / "bridges"
    frozen = [line for line in (bridges / "python.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in frozen)
