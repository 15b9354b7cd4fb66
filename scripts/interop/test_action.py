"""The GitHub action of the conformance suite from its installation to its reports: pip installs the suite from the checkout."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from interop.composite_action import perform

ROOT = Path(__file__).resolve().parents[2]
SERVER = shlex.join([sys.executable, "-m", "mutants.raw_server"])

pytestmark = pytest.mark.timeout(600)


def test_action_installs_suite_and_tests_server(tmp_path: Path) -> None:
    run = perform(
        ROOT / "conformance" / "action.yml",
        tmp_path,
        {"start": f"{SERVER} --port {{port}}", "areas": "ping", "revisions": "2025-11-25", "upload-sarif": "true"},
        outputs={"actions/setup-python": {"python-path": sys.executable}},
        environment={"PYTHONPATH": f"{ROOT / 'conformance'}:{ROOT / 'conformance' / 'fixtures'}"},
    )
    assert run.status == 0, run.output
    assert (tmp_path / "mcp-conformance" / "report.html").exists()
    assert run.used["actions/upload-artifact"]["path"] == "mcp-conformance"
    assert run.used["github/codeql-action/upload-sarif"]["sarif_file"] == "mcp-conformance/report.sarif"
