"""The command as a process: its stdin, stdout and stderr, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mcp_core.jsonrpc.messages import JsonObject, JsonValue

SOURCE: Final = """
import os, subprocess, sys
import trio
from mcp_server import Context, Server

server = Server("child", version="1")
print("printed at import")

@server.tool
async def echo(text: str) -> str:
    print("a stray print")
    os.write(1, b"a stray write\\n")
    subprocess.run([sys.executable, "-c", "print('a chatty child'); import sys; print(repr(sys.stdin.read()))"])
    return text

@server.tool
async def hang() -> str:
    sys.stderr.write("hanging\\n")
    sys.stderr.flush()
    try:
        await trio.sleep_forever()
    finally:
        sys.stderr.write("cancelled\\n")
        sys.stderr.flush()

@server.tool
async def large(size: int) -> str:
    return "x" * size
"""

INITIALIZE: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}

TIMEOUT_SECONDS: Final = 30
"""The time in seconds after which a process that does not end fails the test."""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "child.py").write_text(SOURCE)
    return [sys.executable, "-m", "mcp_server", "run", str(tmp_path / "child.py")]


def make_call(id: int, tool: str, **arguments: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def encode_lines(*messages: JsonValue) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def responses_by_id(output: bytes) -> dict[JsonValue, JsonObject]:
    """Return the responses by their ids; any other output raises."""
    return {message["id"]: message for message in map(json.loads, output.splitlines())}


@pytest.mark.spec("stdio.server-stdout-clean", "stdio.stdout-only-mcp")
def test_stdout_contains_only_messages(command: list[str]) -> None:
    stdin_data = encode_lines(INITIALIZE, make_call(1, "echo", text="hi"))
    completed = subprocess.run(command, input=stdin_data, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    assert completed.returncode == 0
    assert set(responses_by_id(completed.stdout)) == {0, 1}
    for stray in ("printed at import", "a stray print", "a stray write", "a chatty child", "''"):
        assert stray in completed.stderr.decode()


def test_stdio_with_regular_files(command: list[str], tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(encode_lines(INITIALIZE, *(make_call(number, "large", size=100_000) for number in range(1, 6))))
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        completed = subprocess.run(
            command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=TIMEOUT_SECONDS, check=False
        )
    assert completed.returncode == 0
    assert set(responses_by_id(sink.read_bytes())) == set(range(6))


@pytest.mark.spec("stdio.server-exit-on-eof", "stdio.server-exits-on-eof")
def test_end_of_input_ends_process_with_hanging_tool(command: list[str]) -> None:
    stdin_data = encode_lines(INITIALIZE, make_call(1, "hang"))
    completed = subprocess.run(command, input=stdin_data, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    assert completed.returncode == 0
    assert set(responses_by_id(completed.stdout)) == {0}
    assert b"cancelled" in completed.stderr


@pytest.mark.spec("stdio.cancel-server-stops")
def test_running_call_is_cancelled(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(encode_lines(INITIALIZE, make_call(1, "hang")))
        process.stdin.flush()
        while b"hanging" not in process.stderr.readline():
            pass
        process.stdin.write(
            encode_lines({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        )
        process.stdin.flush()
        assert b"cancelled" in process.stderr.readline()
        process.stdin.write(encode_lines({"jsonrpc": "2.0", "id": 2, "method": "ping"}))
        process.stdin.close()
        assert set(responses_by_id(process.stdout.read())) == {0, 2}
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_process_ends_when_output_reader_closes(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_lines(INITIALIZE))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(encode_lines(make_call(1, "large", size=10), make_call(2, "large", size=10)))
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 74


@pytest.mark.skipif(sys.platform == "win32", reason="a process there does not outlive its parent this way")
def test_process_ends_when_parent_dies(command: list[str], tmp_path: Path) -> None:
    # The parent starts the server with pipes, prints its process id, and waits for the signal.
    parent = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({command!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(b'\\n'); child.stdin.flush()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    # The server keeps the pipe for stderr open until it ends.
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_SECONDS)
        # The read ends when the last process closes the pipe.
        process.stderr.read()


@pytest.mark.spec("stdio.large-message")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs descriptors that can be full")
def test_slow_reader_receives_all_responses(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            encode_lines(INITIALIZE, *(make_call(number, "large", size=300_000) for number in range(1, 30)))
        )
        process.stdin.flush()
        ids = [json.loads(process.stdout.readline())["id"] for _ in range(30)]
        process.stdin.close()
        assert sorted(ids) == list(range(30))
        assert process.stdout.read() == b""
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_empty_input_ends_process(command: list[str]) -> None:
    completed = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert (completed.returncode, completed.stdout) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
@pytest.mark.parametrize(("redirection", "name"), [("<&-", "stdin"), (">&-", "stdout")])
def test_closed_stdin_or_stdout_is_reported(redirection: str, name: str) -> None:
    program = "import trio; from mcp_server import Server, serve_stdio; trio.run(serve_stdio, Server('x', version='1'))"
    shell = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", program]
    completed = subprocess.run(shell, input=b"", capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    assert completed.returncode != 0
    assert f"{name} is closed" in completed.stderr.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
@pytest.mark.parametrize(("subcommand", "status"), [("run", 1), ("inspect", 2)])
def test_command_with_closed_stdout_is_reported(command: list[str], subcommand: str, status: int) -> None:
    arguments = [subcommand if each == "run" else each for each in command]
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *arguments]
    completed = subprocess.run(
        shell, input=encode_lines(INITIALIZE), capture_output=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert completed.returncode == status
    assert "stdout is closed: " in completed.stderr.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
def test_closed_stderr_discards_output(command: list[str]) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    stdin_data = encode_lines(INITIALIZE, make_call(1, "echo", text="hi"))
    completed = subprocess.run(shell, input=stdin_data, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    assert completed.returncode == 0
    assert set(responses_by_id(completed.stdout)) == {0, 1}
