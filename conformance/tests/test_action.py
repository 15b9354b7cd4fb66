from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from program_path import PROGRAM_PATH

from interop.composite_action import ActionRun, perform

HERE = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((HERE / "action.yml").read_text())
STEPS = {step.get("id") or step["name"]: step for step in ACTION["runs"]["steps"]}
PROGRAM = "import sys; from mcp_conformance.cli.main import main; sys.exit(main())"
SERVER = shlex.join([sys.executable, "-m", "mutants.raw_server"])


HEADER_SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open("headers", "a") as file:
            print(self.headers.get("X-Key"), file=file)
        self.send_error(500)
    do_GET = do_DELETE = do_POST
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""A server that writes a header of each request to a file, and rejects all requests."""


def perform_installed(folder: Path, inputs: dict[str, str]) -> ActionRun:
    """Perform the action with the suite of this environment in place of its own installation."""
    program = folder / "mcp-conformance" / "bin" / "mcp-conformance"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{PROGRAM}" "$@"\n')
    program.chmod(0o755)
    action = folder / "action" / "action.yml"
    action.parent.mkdir()
    steps = [step for step in ACTION["runs"]["steps"] if step.get("name") != "Install the suite"]
    action.write_text(yaml.safe_dump(ACTION | {"runs": ACTION["runs"] | {"steps": steps}}))
    outputs = {"actions/setup-python": {"python-path": sys.executable}}
    return perform(action, folder, inputs, outputs=outputs, environment={"PYTHONPATH": PROGRAM_PATH})


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
        assert f"inputs.{name} " in text
        assert row["description"]


@pytest.mark.parametrize(
    ("server", "areas", "status"), [(SERVER, "discover ping", 0), (f"{SERVER} --fault other-version", "version", 1)]
)
def test_action_returns_status_and_stores_reports(tmp_path: Path, server: str, areas: str, status: int) -> None:
    inputs = {"server": server, "areas": areas, "revisions": "2025-11-25 2026-07-28", "allow-untested": "true"}
    run = perform_installed(tmp_path, inputs)
    assert run.status == status, run.output
    assert run.contexts["steps.run.outputs.status"] == str(status)
    assert "## MCP conformance of the server" in (tmp_path / "summary").read_text()
    folder = tmp_path / run.used["actions/upload-artifact"]["path"]
    written = {path.name for path in folder.iterdir()}
    assert {"report.html", "report.json", "report.sarif", "junit.xml", "badge.svg", "summary.md"} <= written
    assert "github/codeql-action/upload-sarif" not in run.used


def test_action_uploads_findings_also_of_a_failed_run(tmp_path: Path) -> None:
    inputs = {"server": f"{SERVER} --fault other-version", "areas": "version", "upload-sarif": "true"}
    run = perform_installed(tmp_path, inputs | {"revisions": "2025-11-25"})
    assert run.status == 1, run.output
    uploaded = tmp_path / run.used["github/codeql-action/upload-sarif"]["sarif_file"]
    (result,) = json.loads(uploaded.read_text())["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": ".github/workflows/ci.yml"}


def test_action_without_inputs_returns_usage_error(tmp_path: Path) -> None:
    run = perform_installed(tmp_path, {"upload-sarif": "true"})
    assert run.status == 2
    assert "there is nothing to test" in run.output
    assert "github/codeql-action/upload-sarif" not in run.used


def test_action_passes_baselines_timeout_and_more_options(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[[known]]\ncheck = "ping.empty-result"\nreason = "x"\nflaky = true\n')
    inputs = {
        "server": SERVER,
        "areas": "ping",
        "revisions": "2025-11-25",
        "baseline": "own.toml\nsdk:python@1.30.0\n",
        "timeout": "33",
        "args": "--strict --sdk python@2.3.0\n--json *.json",
    }
    run = perform_installed(tmp_path, inputs)
    assert run.status == 0, run.output
    document = json.loads((tmp_path / "*.json").read_text())
    assert document["sdk"] == "python@2.3.0"
    assert "--timeout 33" in document["invocation"]


def test_action_sends_secret_headers_and_reports_do_not_contain_them(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(HEADER_SERVER)
    inputs = {
        "start": shlex.join([sys.executable, str(program), "{port}"]),
        "header": "X-Key: hush; one\nX-Other: $(touch pwned)\n",
        "other-header": "X-Key: hush; two",
        "areas": "ping",
        "revisions": "2025-11-25",
        "args": "$(touch pwned) --strict",
    }
    # The options after args are not understood: an input is never run.
    assert perform_installed(tmp_path, inputs).status == 2
    other = tmp_path / "again"
    other.mkdir()
    run = perform_installed(other, inputs | {"args": ""})
    assert run.status == 3, run.output
    assert set((other / "headers").read_text().splitlines()) == {"hush; one"}
    document = json.loads((other / "mcp-conformance" / "report.json").read_text())
    assert document["invocation"].count("<secret>") == 3
    assert all("hush" not in path.read_text() for path in (other / "mcp-conformance").glob("*.*"))
    assert not list(tmp_path.rglob("pwned"))


def test_action_tests_protected_server(tmp_path: Path) -> None:
    run = perform_installed(tmp_path, {"server": SERVER, "auth": "true"})
    assert (run.status, "--auth needs --start" in run.output) == (2, True)


def test_container_copies_and_installs_what_the_checkout_has() -> None:
    lines = (HERE / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:] for line in lines if line.startswith("COPY ") and "--from" not in line]
    for source, target in copied:
        assert (HERE.parent / source).exists()
        assert target == f"/source/{source}"
    (install,) = (line for line in lines if " install " in line)
    assert install.endswith("--constraint scripts/constraints.txt ./packages/mcp-core ./conformance")
