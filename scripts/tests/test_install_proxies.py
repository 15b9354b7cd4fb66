"""`scripts/install_proxies`: it finds or installs the proxies, or prints instructions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "install_proxies"
LOGGED = 'echo "$*" >> "$LOG"'


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with only these programs, each one line of sh."""
    for name, line in {"id": "exec /usr/bin/id", **programs}.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    # The programs of the system must not be found.
    script = folder / "script"
    script.write_text(SCRIPT.read_text().replace("/usr/sbin", "/nowhere"))
    environment = {"PATH": str(folder), "LOG": str(folder / "log")}
    return subprocess.run(["/bin/sh", script], env=environment, capture_output=True, text=True, timeout=60, check=False)


def read_log(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_installed_proxies_found(tmp_path: Path) -> None:
    done = run(tmp_path, nginx=":", haproxy=":", caddy=":", apt_get=LOGGED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert read_log(tmp_path) == []


def test_root_installs_only_missing_proxies(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 0", haproxy=":", apt_get=LOGGED)
    assert done.returncode == 0
    assert read_log(tmp_path) == ["update", "install -y --no-install-recommends nginx caddy"]


def test_user_with_sudo_installs_proxies(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 1000", sudo='shift; "$@"', true=":", apt_get=LOGGED)
    assert done.returncode == 0
    assert read_log(tmp_path) == ["update", "install -y --no-install-recommends nginx haproxy caddy"]


@pytest.mark.parametrize(
    "programs",
    [
        {},
        {"id": "echo 1000", "sudo": "exit 1", "apt_get": LOGGED},
        {"id": "echo 0", "apt_get": "echo no network; exit 100"},
    ],
)
def test_proxies_not_installable_prints_instructions(tmp_path: Path, programs: dict[str, str]) -> None:
    done = run(tmp_path, **programs)
    assert done.returncode == 1
    assert "could not be installed: nginx haproxy caddy. Install them from your system" in done.stderr
    assert ("no network" in done.stderr) == ("no network" in str(programs))
    assert read_log(tmp_path) == []


def test_script_is_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)
