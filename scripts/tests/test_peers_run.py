from __future__ import annotations

import json
import re
import tomllib

from interop.peers.run import KNOWN, PROGRAMS, PYTHONS, Trial, findings, rows, surprises, table, trials

_COUNTS = {"passed": 5, "failed": 2, "broken": 1, "not testable": 3}
_DOCUMENT: dict[str, object] = {
    "status": 1,
    "lanes": [
        {"revision": "2025-11-25", "transport": "http", "refusal": None, "counts": _COUNTS},
        {"revision": "2026-07-28", "transport": "http", "refusal": "it is not spoken", "counts": {}},
    ],
    "verdicts": [
        {"check": "a.one", "outcome": "failed", "revision": "2025-06-18", "transport": "http"},
        {"check": "a.one", "outcome": "failed", "revision": "2025-11-25", "transport": "http"},
        {"check": "a.two", "outcome": "broken", "revision": "2025-11-25", "transport": "http"},
        {"check": "a.three", "outcome": "passed", "revision": "2025-11-25", "transport": "http"},
    ],
}


def test_every_peer_is_run_in_its_roles_over_both_transports() -> None:
    names = [trial.name for trial in trials()]
    assert len(names) == len(set(names)) == 18
    assert {trial.peer for trial in trials() if trial.role == "client"} == {
        "python-1", "python-2", "typescript-1", "typescript-2",
    }  # fmt: skip


def test_every_program_that_is_run_is_there() -> None:
    words = " ".join(word for trial in trials() for option in trial.options for word in option.split())
    for module in re.findall(r"interop\.peers\.programs\.(\w+)", words):
        assert (PROGRAMS / f"{module}.py").exists()
    for program in re.findall(r"/(\w+\.mjs)", words):
        assert (PROGRAMS / program).exists()


def test_a_row_tells_each_revision_and_which_is_not_spoken() -> None:
    trial = Trial("some", "server", "http", ())
    assert list(rows(trial, _DOCUMENT)) == [
        ("some", "server", "http", "2025-11-25", "5", "3", "3"),
        ("some", "server", "http", "2026-07-28", "not spoken", "", ""),
    ]
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"


def test_findings_are_told_by_check_with_all_places() -> None:
    assert findings([_DOCUMENT]) == {
        "a.one": ["2025-06-18 over http", "2025-11-25 over http"],
        "a.two": ["2025-11-25 over http"],
    }


def test_what_is_new_or_gone_is_no_secret() -> None:
    found = findings([_DOCUMENT])
    assert surprises(found, {"a.one": "so", "a.two": "so"}, whole=True) == []
    assert surprises(found, {"a.one": "so", "a.nine": "so"}, whole=True) == [
        "new: a.two (2025-11-25 over http)", "gone: a.nine",
    ]  # fmt: skip
    assert surprises(found, {"a.one": "so", "a.nine": "so"}, whole=False) == ["new: a.two (2025-11-25 over http)"]


def test_what_is_known_is_of_a_peer_that_is_run() -> None:
    known = tomllib.loads(KNOWN.read_text())
    assert set(known) <= {f"{trial.peer} {trial.role}" for trial in trials()}


def test_versions_are_exact_and_the_lock_has_no_address_of_a_registry() -> None:
    wanted = json.loads((PROGRAMS / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    packages = json.loads((PROGRAMS / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in package for package in packages.values())
    for wanted_there, versions in PYTHONS.values():
        assert wanted_there in versions.read_text().splitlines()


def test_versions_of_bridges_are_exact_and_the_lock_has_no_address_of_a_registry() -> None:
    bridges = PROGRAMS.parents[1] / "bridges"
    wanted = json.loads((bridges / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    packages = json.loads((bridges / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in package for package in packages.values())
    frozen = [line for line in (bridges / "python.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in frozen)
