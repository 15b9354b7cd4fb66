from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from program_path import PROGRAM_PATH

HERE = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((HERE / "action.yml").read_text())
STEPS = {step.get("id") or step["name"]: step for step in ACTION["runs"]["steps"]}
PROGRAM = (
    f"exec {shlex.quote(sys.executable)} -c 'import sys; from mcp_conformance.cli.main import main; sys.exit(main())'"
)
SERVER = shlex.join([sys.executable, "-m", "mutants.raw_server"])


def perform(folder: Path, *, program: str = PROGRAM, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step that runs the suite, as the CI service does."""
    installed = folder / "mcp-conformance" / "bin" / "mcp-conformance"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\n{program} "$@"\n')
    installed.chmod(0o755)
    values = {name: str(row.get("default", "")) for name, row in ACTION["inputs"].items()} | inputs
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], value)
        for name, value in STEPS["run"]["env"].items()
    }
    return subprocess.run(
        [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["run"]["run"]],
        cwd=folder,
        env=os.environ
        | environment
        | {
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "PYTHONPATH": PROGRAM_PATH,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", ["conformance/README.md", "docs/howto/test-your-server.md", "README.md"])
def test_documented_installation_includes_core_of_checkout(page: str) -> None:
    assert "python -m pip install ./packages/mcp-core ./conformance" in (HERE.parent / page).read_text()


def test_action_installs_suite_with_core_of_its_commit() -> None:
    assert '"$HERE/../packages/mcp-core" "$HERE"' in STEPS["Install the suite"]["run"]


def test_scripts_contain_no_inputs() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")


def test_inputs_are_used_and_described() -> None:
    text = json.dumps(ACTION["runs"])
    for name, row in ACTION["inputs"].items():
        assert re.search(rf"\binputs\.{name}(?![\w-])", text)
        assert row["description"]


@pytest.mark.parametrize(
    ("server", "areas", "status"), [(SERVER, "discover ping", 0), (f"{SERVER} --fault other-version", "version", 1)]
)
def test_action_returns_status_and_keeps_reports(tmp_path: Path, server: str, areas: str, status: int) -> None:
    inputs = {"server": server, "areas": areas, "revisions": "2025-11-25 2026-07-28"}
    process = perform(tmp_path, **inputs, **{"allow-untested": "true"})
    assert process.returncode == status, process.stdout + process.stderr
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert "## MCP conformance of the server" in (tmp_path / "summary").read_text()
    written = {path.name for path in (tmp_path / ACTION["inputs"]["report"]["default"]).iterdir()}
    assert {"report.html", "report.json", "report.sarif", "junit.xml", "badge.svg", "summary.md"} <= written


def test_action_passes_all_options(tmp_path: Path) -> None:
    """Run the step with a program that writes its arguments to a file in place of the suite."""
    recorder = tmp_path / "recorder.py"
    recorder.write_text("import json, sys\njson.dump(sys.argv[1:], open('words.json', 'w'))\n")
    perform(
        tmp_path,
        program=f"exec {shlex.quote(sys.executable)} {shlex.quote(str(recorder))}",
        start="node server.js --port {port}",
        auth="true",
        header="Authorization: Bearer a b\nX-Team: $HOME `id`\n",
        timeout="3",
        args="--jobs 1 --check 'a b' \"c d\" $HOME",
        **{"other-header": "Authorization: Bearer other"},
    )
    words = json.loads((tmp_path / "words.json").read_text())
    expected = (
        ("--start", "node server.js --port {port}"),
        ("--header", "Authorization: Bearer a b"),
        ("--header", "X-Team: $HOME `id`"),
        ("--other-header", "Authorization: Bearer other"),
        ("--timeout", "3"),
        ("--jobs", "1"),
        ("--check", "a b"),
        ("c d", "$HOME"),
    )
    for pair in expected:
        assert pair in pairwise(words), (pair, words)
    assert "--auth" in words
    assert "" not in words


def test_findings_are_uploaded_on_request() -> None:
    step = STEPS["Upload the findings"]
    assert step["if"] == "always() && inputs.upload-sarif == 'true'"
    assert ACTION["inputs"]["upload-sarif"]["default"] == "false"
    written = re.findall(r'give "--\$kind" "\$MCP_REPORT/report\.\$kind"', STEPS["run"]["run"])
    assert written
    assert step["with"]["sarif_file"] == "${{ inputs.report }}/report.sarif"


def test_action_without_inputs_returns_usage_error(tmp_path: Path) -> None:
    process = perform(tmp_path)
    assert process.returncode == 2
    assert "there is nothing to test" in process.stderr
