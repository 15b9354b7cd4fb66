"""`scripts/install_redis`: it finds or installs Redis, or prints instructions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with only these programs, each one line of sh."""
    for name, line in {"id": "echo 1000", **programs}.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    environment = {"PATH": str(folder), "LOG": str(folder / "log")}
    return subprocess.run(
        ["/bin/sh", ROOT / "scripts" / "install_redis"], env=environment, capture_output=True, text=True, timeout=60
    )


def read_log(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_installed_server_found(tmp_path: Path) -> None:
    done = run(tmp_path, redis_server=":", redis_cli=":", apt_get='echo "$*" >> "$LOG"')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert read_log(tmp_path) == []


@pytest.mark.parametrize(
    "programs",
    [{"id": "echo 0"}, {"sudo": 'shift; "$@"', "true": ":"}, {"id": "echo 0", "redis_server": ":"}],
    ids=["root", "sudo", "without client"],
)
def test_missing_server_installed(tmp_path: Path, programs: dict[str, str]) -> None:
    done = run(tmp_path, apt_get='echo "$*" >> "$LOG"', **programs)
    assert done.returncode == 0
    assert read_log(tmp_path) == ["update", "install -y --no-install-recommends redis-server"]


@pytest.mark.parametrize("programs", [{}, {"id": "echo 0", "apt_get": "echo no network >&2; exit 1"}])
def test_missing_server_explained(tmp_path: Path, programs: dict[str, str]) -> None:
    done = run(tmp_path, **programs)
    assert done.returncode == 1
    assert "apt-get install" in done.stderr
    assert ("no network" in done.stderr) == bool(programs)


def test_script_is_executable() -> None:
    assert os.access(ROOT / "scripts" / "install_redis", os.X_OK)
