"""`scripts/install_browser`: it finds a browser, installs one, or says what to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("id", "env")


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Runs it where there is nothing but a few tools and these programs, each a line of sh."""
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


def said(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("name", ["chromium", "chromium_browser", "google_chrome"])
def test_a_browser_that_is_there_is_enough(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, **{name: ":", "apt_get": 'echo "$*" >> "$LOG"'})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert said(tmp_path) == []


def test_root_installs_one(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 0", apt_get='echo "$*" >> "$LOG"')
    assert done.returncode == 0
    assert said(tmp_path) == ["update", "install -y --no-install-recommends chromium"]


def test_others_install_one_if_they_need_no_password(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 1000", sudo='shift; "$@"', true=":", apt_get='echo "$*" >> "$LOG"')
    assert done.returncode == 0
    assert said(tmp_path) == ["update", "install -y --no-install-recommends chromium"]


@pytest.mark.parametrize(
    "programs",
    [
        {},
        {"id": "echo 1000", "apt_get": 'echo "$*" >> "$LOG"'},
        {"id": "echo 1000", "sudo": "exit 1", "apt_get": 'echo "$*" >> "$LOG"'},
        {"id": "echo 0", "apt_get": "echo no network; exit 100"},
    ],
)
def test_where_none_can_be_installed_it_is_said_what_to_do(tmp_path: Path, programs: dict[str, str]) -> None:
    done = run(tmp_path, **programs)
    assert done.returncode == 1
    assert "Install it from your system" in done.stderr
    assert ("no network" in done.stderr) == ("no network" in str(programs))
    assert said(tmp_path) == []


def test_it_can_be_run() -> None:
    assert os.access(ROOT / "scripts" / "install_browser", os.X_OK)
