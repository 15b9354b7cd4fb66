from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from program_path import PROGRAM_PATH

from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS

SERVER = shlex.join([sys.executable, "-m", "mutants.raw_server"])
BROKEN = f"{SERVER} --fault notification-answered"
ONE = "2025-06-18 and jsonrpc.notification-not-answered"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest, strictly, in an empty project."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n")
    environment = os.environ | {"PYTHONPATH": PROGRAM_PATH, "COLUMNS": "200"}
    # What the run of the suite's own tests has in its environment is not for another run.
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_without_its_options_it_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_x():\n    pass\n")
    done = run(tmp_path, "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "mcp_conformance(" not in run(tmp_path, "--markers").stdout


def test_nothing_heavy_is_loaded_without_its_options() -> None:
    program = "import sys, mcp_conformance.pytest_plugin.plugin as p; print([m for m in ('trio', 'h11', 'attrs') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COVERAGE_PROCESS_START": ""},
    )
    assert "trio" not in done.stdout
    assert "h11" not in done.stdout


def test_collecting_starts_nothing_and_finds_each_check_in_each_revision(tmp_path: Path) -> None:
    done = run(tmp_path, "--collect-only", "-q", "--mcp-server", "nothing-of-this-name")
    assert done.returncode == 0, done.stdout + done.stderr
    found = set(re.findall(r"^mcp-server::(\S+)::stdio::(\S+)$", done.stdout, re.MULTILINE))
    assert found == {
        (revision, check.id)
        for check in CHECKS[Role.SERVER]
        for revision in check.revisions
        if any(transport.value == "stdio" for transport in check.transports)
    }


def test_a_good_server_passes(tmp_path: Path) -> None:
    done = run(tmp_path, "--mcp-server", SERVER, "-k", ONE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_failure_shows_the_report(tmp_path: Path) -> None:
    done = run(tmp_path, "--mcp-server", BROKEN, "-k", ONE)
    assert done.returncode == 1
    assert "FAILED  jsonrpc.notification-not-answered  (2025-06-18 over stdio)" in done.stdout
    assert "rerun: mcp-conformance server --command" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_checks_are_chosen_by_the_marker(tmp_path: Path) -> None:
    mark = "mcp_conformance(revision='2025-06-18', area='jsonrpc', level='must')"
    done = run(tmp_path, "--collect-only", "-q", "--mcp-server", "x", "-m", mark)
    lines = [line for line in done.stdout.splitlines() if line.startswith("mcp-server::")]
    assert lines
    assert all(line.startswith("mcp-server::2025-06-18::stdio::jsonrpc.") for line in lines)


def test_what_is_known_is_expected_and_what_passes_in_spite_fails(tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[known]]\ncheck = "jsonrpc.notification-not-answered"\nreason = "see 123"\n')
    words = ("--mcp-baseline", str(known), "-k", ONE, "-rx")
    done = run(tmp_path, "--mcp-server", BROKEN, *words)
    assert done.returncode == 0, done.stdout
    assert "see 123" in done.stdout
    done = run(tmp_path, "--mcp-server", SERVER, *words)
    assert done.returncode == 1
    assert "which does not fail" in done.stdout


def test_what_could_not_be_tested_fails_unless_it_is_allowed(tmp_path: Path) -> None:
    manifest = tmp_path / "fixtures.toml"
    manifest.write_text('[tools.test_simple_text]\nname = "nowhere"\n')
    words = ("--mcp-server", SERVER, "--mcp-fixtures", str(manifest), "-k", "2025-06-18 and tools.text")
    assert "1 failed" in run(tmp_path, *words).stdout
    done = run(tmp_path, *words, "--mcp-allow-untested")
    assert done.returncode == 0
    assert "1 skipped" in done.stdout


def test_what_does_not_speak_at_all_is_not_green(tmp_path: Path) -> None:
    done = run(tmp_path, "--mcp-server", shlex.join([sys.executable, "-c", ""]), "-k", ONE)
    assert done.returncode == 1
    assert "not supported" in done.stdout
    done = run(tmp_path, "--mcp-server", "nothing-of-this-name", "-k", ONE)
    assert done.returncode == 1
    assert "nothing-of-this-name" in done.stdout
    done = run(tmp_path, "--mcp-server-url", "http://127.0.0.1:9/mcp", "-k", ONE)
    assert done.returncode == 1


def test_a_client_is_put_to_the_test(tmp_path: Path) -> None:
    client = shlex.join([sys.executable, "-c", "raise SystemExit(1)"])
    done = run(tmp_path, "--mcp-client", client, "-k", "mcp-client and 2025-06-18 and lifecycle")
    assert done.returncode == 1
    assert "the client sent no message" in done.stdout


def test_a_file_that_cannot_be_read_is_an_error_of_usage(tmp_path: Path) -> None:
    done = run(tmp_path, "--mcp-server", "x", "--mcp-baseline", "nowhere.toml")
    assert done.returncode == 4
    assert "nowhere.toml" in done.stderr
