"""The command in a process of its own: what it does to stdin, stdout and stderr, and how it ends."""

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

PATIENCE: Final = 30
"""Seconds after which a process that does not end fails the test."""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "child.py").write_text(SOURCE)
    return [sys.executable, "-m", "mcp_server", "run", str(tmp_path / "child.py")]


def call(id: int, tool: str, **arguments: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def lines(*messages: JsonValue) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def answers(output: bytes) -> dict[JsonValue, JsonObject]:
    """The answers by their ids; anything else on stdout fails here."""
    return {message["id"]: message for message in map(json.loads, output.splitlines())}


@pytest.mark.spec("stdio.server-stdout-clean", "stdio.stdout-only-mcp")
def test_nothing_but_messages_gets_on_the_wire(command: list[str]) -> None:
    given = lines(INITIALIZE, call(1, "echo", text="hi"))
    ended = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert set(answers(ended.stdout)) == {0, 1}
    for stray in ("printed at import", "a stray print", "a stray write", "a chatty child", "''"):
        assert stray in ended.stderr.decode()


def test_a_regular_file_is_served_and_written(command: list[str], tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(lines(INITIALIZE, *(call(number, "large", size=100_000) for number in range(1, 6))))
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        ended = subprocess.run(
            command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert ended.returncode == 0
    assert set(answers(sink.read_bytes())) == set(range(6))


@pytest.mark.spec("stdio.server-exit-on-eof", "stdio.server-exits-on-eof")
def test_the_end_of_input_ends_it_while_a_tool_hangs(command: list[str]) -> None:
    given = lines(INITIALIZE, call(1, "hang"))
    ended = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert set(answers(ended.stdout)) == {0}
    assert b"cancelled" in ended.stderr


@pytest.mark.spec("stdio.cancel-server-stops")
def test_a_running_call_is_cancelled(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(lines(INITIALIZE, call(1, "hang")))
        process.stdin.flush()
        while b"hanging" not in process.stderr.readline():
            pass
        process.stdin.write(lines({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        process.stdin.flush()
        assert b"cancelled" in process.stderr.readline()
        process.stdin.write(lines({"jsonrpc": "2.0", "id": 2, "method": "ping"}))
        process.stdin.close()
        assert set(answers(process.stdout.read())) == {0, 2}
        assert process.wait(PATIENCE) == 0


def test_it_ends_when_the_reader_of_its_output_is_gone(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines(INITIALIZE))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(lines(call(1, "large", size=10), call(2, "large", size=10)))
        process.stdin.close()
        assert process.wait(PATIENCE) == 74


@pytest.mark.skipif(sys.platform == "win32", reason="a process there does not outlive its parent this way")
def test_it_ends_when_its_parent_dies(command: list[str], tmp_path: Path) -> None:
    # A parent that starts the server with pipes, tells its process id, and waits to be killed.
    parent = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({command!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(b'\\n'); child.stdin.flush()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    # What the server holds open to the end of its life: our pipe for stderr.
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        # Ends only when the last process that holds the pipe is gone.
        process.stderr.read()


@pytest.mark.spec("stdio.large-message")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs descriptors that can be full")
def test_a_slow_reader_gets_everything(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines(INITIALIZE, *(call(number, "large", size=300_000) for number in range(1, 30))))
        process.stdin.flush()
        seen = [json.loads(process.stdout.readline())["id"] for _ in range(30)]
        process.stdin.close()
        assert sorted(seen) == list(range(30))
        assert process.stdout.read() == b""
        assert process.wait(PATIENCE) == 0


def test_it_ends_at_once_when_there_is_no_input(command: list[str]) -> None:
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
@pytest.mark.parametrize(("redirection", "name"), [("<&-", "stdin"), (">&-", "stdout")])
def test_it_says_so_when_a_descriptor_of_the_wire_is_closed(redirection: str, name: str) -> None:
    program = "import trio; from mcp_server import Server, serve_stdio; trio.run(serve_stdio, Server('x', version='1'))"
    shell = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", program]
    ended = subprocess.run(shell, input=b"", capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert f"{name} is closed" in ended.stderr.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
@pytest.mark.parametrize(("word", "status"), [("run", 1), ("inspect", 2)])
def test_the_command_says_so_when_stdout_is_closed(command: list[str], word: str, status: int) -> None:
    words = [word if each == "run" else each for each in command]
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *words]
    ended = subprocess.run(shell, input=lines(INITIALIZE), capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == status
    assert "stdout is closed: " in ended.stderr.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
def test_without_stderr_what_is_printed_goes_nowhere(command: list[str]) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    given = lines(INITIALIZE, call(1, "echo", text="hi"))
    ended = subprocess.run(shell, input=given, capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert set(answers(ended.stdout)) == {0, 1}
