"""Tests of the SARIF report of the conformance suite with the validator of Microsoft, which has the official schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest

from interop.framework.run import install

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NODE = ROOT / ".peers" / "sarif-node"
FAULTY = f"{sys.executable} -m mutants.raw_server --fault notification-answered"

READ = {"SARIF2005"}
"""What a valid log breaks, which shows that it was read: the suite has no page about itself (`informationUri`)."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def validator() -> Path:
    """The validator, which is installed if missing."""
    install("SARIF validator", HERE / "sarif", NODE)
    return NODE / "node_modules" / ".bin" / "sarif-multitool"


def run_suite(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Path:
    """Run the suite against a server with a fault, and return the SARIF log."""
    log = folder / "report.sarif"
    process = subprocess.run(
        [
            *(
                str(Path(sys.executable).with_name("mcp-conformance")),
                "server",
                "--command",
                FAULTY,
                "--area",
                "jsonrpc",
            ),
            *("--revision", "2025-06-18", "--sarif", str(log), *options),
        ],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOT / "conformance"), str(ROOT / "conformance" / "fixtures")])}
        | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (0, 1), process.stdout + process.stderr
    return log


def broken_rules(validator: Path, log: Path) -> set[str]:
    """Return the rules that a log breaks, at any level. A log that the validator cannot read breaks none."""
    found = log.with_name("validated.sarif")
    process = subprocess.run(
        [str(validator), "validate", str(log), "--output", str(found), "--log", "ForceOverwrite"],
        env=os.environ | {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (run,) = json.loads(found.read_text(encoding="utf-8-sig"))["runs"]
    return {result["ruleId"] for result in run["results"]}


def official_schema(validator: Path) -> jsonschema_rs.Validator:
    """Return the official schema of SARIF 2.1.0, which the validator includes."""
    package = validator.parents[1] / "@microsoft" / f"sarif-multitool-{sys.platform}"
    return jsonschema_rs.validator_for(json.loads((package / "sarif-2.1.0.json").read_text(encoding="utf-8-sig")))


@pytest.mark.parametrize("location", ["baseline", "workflow"])
def test_sarif_report_is_valid(validator: Path, tmp_path: Path, location: str) -> None:
    if location == "baseline":
        log = run_suite(tmp_path, "--write-baseline", "known.toml")
    else:
        workflow = "owner/repository/.github/workflows/ci.yml@refs/heads/main"
        log = run_suite(tmp_path, environment={"GITHUB_WORKFLOW_REF": workflow})
    assert broken_rules(validator, log) == READ
    assert list(official_schema(validator).iter_errors(json.loads(log.read_text()))) == []


@pytest.mark.parametrize("corrupt", ["region", "level"])
def test_invalid_log_is_rejected_by_validator(validator: Path, tmp_path: Path, corrupt: str) -> None:
    log = run_suite(tmp_path, "--sarif-location", "known.toml")
    document = json.loads(log.read_text())
    for result in document["runs"][0]["results"]:
        if corrupt == "region":
            del result["locations"][0]["physicalLocation"]["region"]
        else:
            result["level"] = "bad"
    log.write_text(json.dumps(document))
    assert broken_rules(validator, log) != READ
    assert official_schema(validator).is_valid(document) == (corrupt == "region")
