"""`scripts/install_browser`: it finds or installs a browser, or prints instructions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("id", "env")


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with only a few tools and these programs, each one line of sh."""
    for name in TOOLS:
        (folder / name).symlink_to(
            next(path for path in (Path("/usr/bin") / name, Path("/bin") / name) if path.exists())
        )
    for name, line in programs.items():
        program = folder / name.replace("_", "-")
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    environment = {"PATH": str(folder), "LOG": str(folder / "log")}
    return subprocess.run(
        ["/bin/sh", ROOT / "scripts" / "install_browser"], env=environment, capture_output=True, text=True, timeout=60
    )


def read_log(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("name", ["chromium", "chromium_browser", "google_chrome"])
def test_installed_browser_found(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, **{name: ":", "apt_get": 'echo "$*" >> "$LOG"'})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert read_log(tmp_path) == []


def test_root_installs_browser(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 0", apt_get='echo "$*" >> "$LOG"')
    assert done.returncode == 0
    assert read_log(tmp_path) == ["update", "install -y --no-install-recommends chromium"]


def test_user_with_sudo_installs_browser(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 1000", sudo='shift; "$@"', true=":", apt_get='echo "$*" >> "$LOG"')
    assert done.returncode == 0
    assert read_log(tmp_path) == ["update", "install -y --no-install-recommends chromium"]


@pytest.mark.parametrize(
    "programs",
    [
        {},
        {"id": "echo 1000", "apt_get": 'echo "$*" >> "$LOG"'},
        {"id": "echo 1000", "sudo": "exit 1", "apt_get": 'echo "$*" >> "$LOG"'},
        {"id": "echo 0", "apt_get": "echo no network; exit 100"},
    ],
)
def test_browser_not_installable_prints_instructions(tmp_path: Path, programs: dict[str, str]) -> None:
    done = run(tmp_path, **programs)
    assert done.returncode == 1
    assert "Install it from your system" in done.stderr
    assert ("no network" in done.stderr) == ("no network" in str(programs))
    assert read_log(tmp_path) == []


def test_script_executable() -> None:
    assert os.access(ROOT / "scripts" / "install_browser", os.X_OK)
