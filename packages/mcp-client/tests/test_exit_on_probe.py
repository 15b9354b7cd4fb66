"""Servers that exit when the first message is not `initialize`, as those made with rmcp before version 3 do."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from mcp_client import Deadlines, Grace, open_stdio
from mcp_client.group import Restart, open_group
from mcp_client.transports.stdio.command import StdioParameters
from mcp_client.transports.stdio.legacy_commands import LegacyCommands
from mcp_core.errors import ConnectionEnded, McpError, ProcessFailed, RequestFailed, RequestTimeout
from mcp_core.revisions import LATEST_LEGACY, R2025_06_18, R2026_07_28, Era

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_client.connectors.stdio import Connector
    from mcp_core.revisions import Revision

SERVER = """
import json, os, sys, time

directory = sys.argv[1]

def note(text):
    with open(directory + "/log", "a") as file:
        file.write(text + "\\n")

def answer(message, **answer):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)

def end(how, message):
    print("did not expect", message["method"], file=sys.stderr, flush=True)
    if how == "answer":
        answer(message, error={"code": -32600, "message": "expected initialize"})
        sys.exit(1)
    if how == "stdout":
        os.close(1)
        sys.stdin.read()
        sys.exit(0)
    elif how == "stdin":
        os.close(0)
        time.sleep(60)
    elif how == "signal":
        os.kill(os.getpid(), 9)
    sys.exit(int(how))

with open(directory + "/lives") as file:
    life, *others = file.read().split()
if others:
    with open(directory + "/lives", "w") as file:
        file.write(" ".join(others))
life, _, how = life.partition(":")
note("start %d" % os.getpid())
if life == "dead":
    print("no database", file=sys.stderr, flush=True)
    sys.exit(int(how))
if life == "slow":
    # It reads nothing until `initialize` was sent as well.
    lines = [sys.stdin.readline(), sys.stdin.readline()]
    end(how, json.loads(lines[0]))
opened = False
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    note(method)
    if method == "initialize":
        if life == "silent":
            continue
        if life in ("refusing", "modern"):
            answer(message, error={"code": -32603, "message": "out of order"})
            continue
        if life == "doomed":
            end(how, message)
        opened = True
        info = {"name": "small", "version": "1"}
        version = message["params"]["protocolVersion"]
        answer(message, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    elif life == "modern":
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
        answer(message, result=result)
    elif not opened:
        end(how, message)
    elif method == "tools/call":
        if message["params"]["name"] == "exit":
            sys.exit(0)
        answer(message, result={"content": []})
"""

PROBE, INITIALIZE, INITIALIZED = "server/discover", "initialize", "notifications/initialized"
LONG_GRACE = Grace(close_stdin=60, terminate=60, kill=60)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Program:
    """A server with another behavior at each start, which records its starts and the methods that it reads.

    Its behaviors: `strict:HOW` serves, and exits on a message before `initialize`; `dead:STATUS` exits at once;
    `slow:HOW` exits after two messages; `doomed:HOW` exits on the first message; `silent:HOW` and
    `refusing:HOW` ignore `initialize`, or respond with an error; `modern` supports 2026-07-28 only.
    """

    def __init__(self, directory: Path, *lives: str) -> None:
        self._log = directory / "log"
        self._log.touch()
        self._lives = directory / "lives"
        self.set_lives(*lives)
        self.command = [sys.executable, "-I", "-S", "-c", SERVER, str(directory)]

    def set_lives(self, *lives: str) -> None:
        """Set the behaviors at the next starts; the last one is repeated."""
        self._lives.write_text(" ".join(lives))

    def open(
        self,
        *,
        grace: Grace = LONG_GRACE,
        deadlines: Deadlines | None = None,
        on_stderr: Callable[[str], None] | None = None,
        revisions: Sequence[Revision] | None = None,
    ) -> Connector:
        """Return a connection to the server."""
        deadlines = deadlines or Deadlines()
        if revisions is None:
            return open_stdio(self.command, grace=grace, deadlines=deadlines, on_stderr=on_stderr)
        return open_stdio(self.command, grace=grace, deadlines=deadlines, on_stderr=on_stderr, revisions=revisions)

    async def fail(
        self, kind: type[McpError], *, deadlines: Deadlines | None = None, revisions: Sequence[Revision] | None = None
    ) -> McpError:
        """Open a connection, and return the error with which that fails."""
        with pytest.raises(kind) as caught:
            async with self.open(deadlines=deadlines, revisions=revisions):
                raise AssertionError("the connection was opened")
        return caught.value

    @property
    def lines(self) -> list[str]:
        """The recorded lines, without process ids."""
        return [line.split(" ")[0] for line in self._log.read_text().splitlines()]

    @property
    def pids(self) -> list[int]:
        """The processes that were started."""
        return [int(line.split(" ")[1]) for line in self._log.read_text().splitlines() if line.startswith("start ")]

    @property
    def alive(self) -> list[int]:
        """The processes that run."""
        return [pid for pid in self.pids if is_running(pid)]


@pytest.mark.parametrize("how", ["0", "1", "signal", "stdout", "answer"])
async def test_server_exit_on_probe_restarted_and_initialized(tmp_path: Path, how: str) -> None:
    program = Program(tmp_path, f"strict:{how}")
    stderr: list[str] = []
    async with program.open(on_stderr=stderr.append) as client:
        assert client.revision is LATEST_LEGACY
        assert (await client.call_tool("a")).content == ()
        first, second = program.pids
        assert program.alive == [second]
    assert program.lines == ["start", PROBE, "start", INITIALIZE, INITIALIZED, "tools/call"]
    assert program.alive == []
    assert first != second
    # The stderr of the first process was read to its end.
    assert stderr == [f"did not expect {PROBE}"]


async def test_server_closed_stdin_on_probe_restarted(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:stdin")
    async with program.open(grace=Grace(close_stdin=0.01, terminate=60, kill=60)) as client:
        assert client.revision is LATEST_LEGACY
    assert program.lines == ["start", PROBE, "start", INITIALIZE, INITIALIZED]
    assert program.alive == []


async def test_slow_server_exit_after_probe_timeout_restarted(tmp_path: Path) -> None:
    program = Program(tmp_path, "slow:1", "strict:1")
    async with program.open(deadlines=Deadlines(probe=0.01)) as client:
        assert client.revision is LATEST_LEGACY
    assert program.lines == ["start", "start", INITIALIZE, INITIALIZED]
    assert program.alive == []


async def test_command_exited_on_probe_not_probed_again(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1")
    async with program.open():
        pass
    async with program.open() as client:
        assert client.revision is LATEST_LEGACY
    assert program.lines == ["start", PROBE, "start", INITIALIZE, INITIALIZED, "start", INITIALIZE, INITIALIZED]


async def test_group_restart_skips_probe(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1")
    async with open_group({"it": program.open}, restart=Restart(delay=0.01)) as group:
        client = group["it"].client
        with pytest.raises(ConnectionEnded):
            await client.call_tool("exit")
        await client.wait_ended()
        while group["it"].state != "connected" or group["it"].client is client:
            await trio.lowlevel.checkpoint()
        assert (await group["it"].client.call_tool("a")).content == ()
    assert program.lines.count(PROBE) == 1
    assert len(program.pids) == 3
    assert program.alive == []


async def test_remembered_legacy_command_now_modern_negotiated(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1")
    async with program.open():
        pass
    program.set_lives("modern")
    async with program.open() as client:
        assert client.revision is R2026_07_28


async def test_remembered_legacy_command_failure_forgotten(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1")
    async with program.open():
        pass
    program.set_lives("dead:3", "strict:1")
    error = await program.fail(ConnectionEnded)
    assert "exited with status 3" in str(error)
    async with program.open() as client:
        assert client.revision is LATEST_LEGACY
    assert program.lines[-5:] == ["start", PROBE, "start", INITIALIZE, INITIALIZED]


async def test_server_exit_on_both_requests_reports_both_attempts(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1", "doomed:2")
    error = await program.fail(ConnectionEnded)
    first, second = error.context.attempts
    assert f"sent {PROBE}" in first
    assert "exited with status 1" in first
    assert f"did not expect {PROBE}" in first
    assert f"sent {INITIALIZE}" in second
    assert "exited with status 2" in second
    assert error.context.stderr_tail == f"did not expect {INITIALIZE}\n"
    shown = str(error)
    assert "revisions=" in shown
    assert first in shown
    assert second in shown
    assert program.lines == ["start", PROBE, "start", INITIALIZE]
    assert program.alive == []


async def test_server_exit_on_start_reports_both_attempts(tmp_path: Path) -> None:
    program = Program(tmp_path, "dead:4")
    for starts in (2, 4):
        # A server that exits on start is not remembered, so each opening probes it.
        error = await program.fail(ConnectionEnded)
        assert "exited with status 4" in error.message
        assert len(error.context.attempts) == 2
        assert all("exited with status 4" in attempt for attempt in error.context.attempts)
        assert error.context.stderr_tail == "no database\n"
        assert len(program.pids) == starts
    assert program.alive == []


async def test_initialize_rejected_after_restart_reports_both_attempts(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1", "refusing:2")
    error = await program.fail(RequestFailed)
    assert error.message == "out of order"
    assert len(error.context.attempts) == 2
    assert program.alive == []


async def test_program_not_restartable_reports_both_attempts(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1")
    script = tmp_path / "server"
    script.write_text(f"#!{sys.executable}\n{SERVER}\n".replace("\ndirectory", "\nos.remove(__file__)\ndirectory"))
    script.chmod(0o700)
    program.command = [str(script), str(tmp_path)]
    error = await program.fail(ProcessFailed)
    assert len(error.context.attempts) == 2
    assert len(program.pids) == 1


async def test_connect_deadline_covers_both_starts(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1", "silent:1")
    error = await program.fail(RequestTimeout, deadlines=Deadlines(connect=2))
    assert "the connect deadline of 2 s passed" in error.message
    assert isinstance(error, RequestTimeout)
    assert error.seconds == 2
    assert len(error.context.attempts) == 2
    assert program.alive == []


@pytest.mark.parametrize("revision", [R2026_07_28, R2025_06_18])
async def test_server_exit_with_one_era_started_once(tmp_path: Path, revision: Revision) -> None:
    program = Program(tmp_path, "doomed:1")
    error = await program.fail(ConnectionEnded, revisions=[revision])
    assert error.context.attempts == ()
    assert len(program.pids) == 1


async def test_close_during_restart_leaves_no_process(tmp_path: Path) -> None:
    program = Program(tmp_path, "strict:1", "silent:1")
    opening = program.open()
    async with trio.open_nursery() as nursery:

        async def connect() -> None:
            with pytest.raises(ConnectionEnded, match="closed while it was connecting"):
                async with opening:
                    raise AssertionError("the connection was opened")

        nursery.start_soon(connect)
        while INITIALIZE not in program.lines:
            await trio.lowlevel.checkpoint()
        await opening.aclose()
    assert len(program.pids) == 2
    assert program.alive == []


def test_legacy_commands_bounded_and_keyed_by_working_directory() -> None:
    commands = LegacyCommands(most=2)
    first, second, third = (StdioParameters(command=[name]) for name in "abc")
    for parameters in (first, second, first, third):
        commands.learn(parameters)
    assert len(commands) == 2
    assert [commands.era(parameters) for parameters in (first, second, third)] == [Era.LEGACY, None, Era.LEGACY]
    assert commands.era(StdioParameters(command=["a"], cwd="/")) is None
    commands.era(first)
    commands.learn(second)
    assert commands.era(third) is None
    commands.forget(first)
    commands.forget(first)
    assert commands.era(first) is None
