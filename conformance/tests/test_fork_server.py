"""Tests of the fork server, which starts the peers with faults."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from program_path import PROGRAM_PATH

from mutants.runs.fork_server import fork_server, peer_command

if TYPE_CHECKING:
    from pathlib import Path

# A server that writes to a named pipe, which it keeps open until the end of its input.
SERVER = """
import os, sys
with open(os.environ["PIPE"], "w") as pipe:
    print(os.getppid(), os.getcwd(), os.environ["MARK"], sep="|", file=pipe, flush=True)
    os.environ["MARK"] == "exits" or sys.stdin.read()
"""
CLIENT = "mutants.raw_client"


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


def command(*arguments: str) -> list[str]:
    return [*peer_command(CLIENT), *arguments]


def test_peer_command_outside_of_block_starts_peer_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUTANTS_FORK_SERVER", raising=False)
    with fork_server(CLIENT):
        pass
    assert peer_command(CLIENT) == [sys.executable, "-m", CLIENT]


def test_end_of_inner_block_restores_outer_server() -> None:
    with fork_server(CLIENT):
        outer = peer_command(CLIENT)
        with fork_server(CLIENT):
            assert peer_command(CLIENT) != outer
        assert peer_command(CLIENT) == outer


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def start_client(pipe: Path, mark: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("--start", sys.executable, "-c", SERVER),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=pipe.parent,
        env={**os.environ, "PIPE": str(pipe), "MARK": mark},
    )


def test_client_gets_arguments_environment_folder_and_streams(pipe: Path) -> None:
    with fork_server(CLIENT), start_client(pipe, "exits") as process:
        _, folder, mark = pipe.read_text().rstrip().split("|")
        _, errors = process.communicate()

    assert (folder, mark) == (str(pipe.parent), "exits")
    assert process.returncode == 1
    assert "the server ended" in errors


def test_client_with_wrong_arguments_returns_exit_status_of_parser() -> None:
    with fork_server(CLIENT):
        found = subprocess.run(command("--unknown"), capture_output=True, text=True, check=False)

    assert found.returncode == 2
    assert "one of the arguments --url --start is required" in found.stderr


def test_client_ends_when_launcher_is_killed(pipe: Path) -> None:
    with fork_server(CLIENT), start_client(pipe, "waits") as process, pipe.open() as opened:
        client = int(opened.readline().partition("|")[0])
        assert client != process.pid
        process.kill()

        # The server ends because its client, which holds the writing side of its input, has ended.
        assert opened.read() == ""


def test_launcher_after_end_of_fork_server_fails() -> None:
    with fork_server(CLIENT):
        words = peer_command(CLIENT)

    found = subprocess.run(words, capture_output=True, text=True, check=False)

    assert found.returncode == 1
    assert "FileNotFoundError" in found.stderr


def test_end_of_output_of_peer_seen_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "silent_peer.py").write_text("""
import os, sys

def main():
    os.close(1)
    sys.stdin.read()
    return 3
""")
    monkeypatch.setenv("PYTHONPATH", f"{PROGRAM_PATH}{os.pathsep}{tmp_path}")
    with (
        fork_server("silent_peer"),
        subprocess.Popen(peer_command("silent_peer"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.poll() is None
        process.communicate()
        assert process.returncode == 3
