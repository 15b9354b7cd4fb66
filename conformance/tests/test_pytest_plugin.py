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


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with strict options in an empty project."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n")
    environment = os.environ | {"PYTHONPATH": PROGRAM_PATH, "COLUMNS": "200"}
    # The options of the outer run do not apply to the inner run.
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:asyncio", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_plugin_without_options_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_x():\n    pass\n")
    process = run(tmp_path, "-q")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "1 passed" in process.stdout
    assert "mcp_conformance(" not in run(tmp_path, "--markers").stdout


def test_plugin_without_options_imports_no_dependencies() -> None:
    program = "import sys, mcp_conformance.pytest_plugin.plugin as p; print([m for m in ('trio', 'h11', 'attrs') if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COVERAGE_PROCESS_START": ""},
    )
    assert "trio" not in process.stdout
    assert "h11" not in process.stdout


def test_collection_lists_checks_without_starting_server(tmp_path: Path) -> None:
    process = run(tmp_path, "--collect-only", "-q", "--mcp-server", "nothing-of-this-name")
    assert process.returncode == 0, process.stdout + process.stderr
    collected = set(re.findall(r"^mcp-server::(\S+)::stdio::(\S+)$", process.stdout, re.MULTILINE))
    assert collected == {
        (revision, check.id)
        for check in CHECKS[Role.SERVER]
        for revision in check.revisions
        if any(transport.value == "stdio" for transport in check.transports)
    }


def test_conforming_server_passes(tmp_path: Path) -> None:
    process = run(tmp_path, "--mcp-server", SERVER, "-k", ONE)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "1 passed" in process.stdout


def test_failure_shows_report(tmp_path: Path) -> None:
    process = run(tmp_path, "--mcp-server", BROKEN, "-k", ONE)
    assert process.returncode == 1
    assert "FAILED  jsonrpc.notification-not-answered  (2025-06-18 over stdio)" in process.stdout
    assert "rerun: mcp-conformance server --command" in process.stdout
    assert "pytest_plugin.py" not in process.stdout


def test_marker_selects_checks(tmp_path: Path) -> None:
    mark = "mcp_conformance(revision='2025-06-18', area='jsonrpc', level='must')"
    process = run(tmp_path, "--collect-only", "-q", "--mcp-server", "x", "-m", mark)
    lines = [line for line in process.stdout.splitlines() if line.startswith("mcp-server::")]
    assert lines
    assert all(line.startswith("mcp-server::2025-06-18::stdio::jsonrpc.") for line in lines)


def test_known_failure_is_xfail_and_stale_entry_fails(tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[known]]\ncheck = "jsonrpc.notification-not-answered"\nreason = "see 123"\n')
    arguments = ("--mcp-baseline", str(known), "-k", ONE, "-rx")
    process = run(tmp_path, "--mcp-server", BROKEN, *arguments)
    assert process.returncode == 0, process.stdout
    assert "see 123" in process.stdout
    process = run(tmp_path, "--mcp-server", SERVER, *arguments)
    assert process.returncode == 1
    assert "which does not fail" in process.stdout


def test_untestable_check_fails_unless_allowed(tmp_path: Path) -> None:
    manifest = tmp_path / "fixtures.toml"
    manifest.write_text('[tools.test_simple_text]\nname = "nowhere"\n')
    arguments = ("--mcp-server", SERVER, "--mcp-fixtures", str(manifest), "-k", "2025-06-18 and tools.text")
    assert "1 failed" in run(tmp_path, *arguments).stdout
    process = run(tmp_path, *arguments, "--mcp-allow-untested")
    assert process.returncode == 0
    assert "1 skipped" in process.stdout


def test_server_without_response_fails(tmp_path: Path) -> None:
    process = run(tmp_path, "--mcp-server", shlex.join([sys.executable, "-c", ""]), "-k", ONE)
    assert process.returncode == 1
    assert "not supported" in process.stdout
    process = run(tmp_path, "--mcp-server", "nothing-of-this-name", "-k", ONE)
    assert process.returncode == 1
    assert "nothing-of-this-name" in process.stdout
    process = run(tmp_path, "--mcp-server-url", "http://127.0.0.1:9/mcp", "-k", ONE)
    assert process.returncode == 1


def test_client_option_tests_client(tmp_path: Path) -> None:
    client = shlex.join([sys.executable, "-c", "raise SystemExit(1)"])
    process = run(tmp_path, "--mcp-client", client, "-k", "mcp-client and 2025-06-18 and lifecycle")
    assert process.returncode == 1
    assert "the client sent no message" in process.stdout


def test_missing_baseline_file_is_usage_error(tmp_path: Path) -> None:
    process = run(tmp_path, "--mcp-server", "x", "--mcp-baseline", "nowhere.toml")
    assert process.returncode == 4
    assert "nowhere.toml" in process.stderr


def test_failed_recommendation_is_warning_unless_strict(tmp_path: Path) -> None:
    target = ("--mcp-server", f"{SERVER} --fault any-cursor", "-k", "2025-11-25 and pagination.invalid-cursor")
    process = run(tmp_path, *target, "-W", "default")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "PytestWarning: WARNING  pagination.invalid-cursor" in process.stdout
    assert re.search("1 passed, .*1 warning", process.stdout)
    process = run(tmp_path, *target, "--mcp-strict")
    assert process.returncode == 1, process.stdout + process.stderr
