"""The log on stderr: a reader that does not read, programs with and without a configured log, and the end of the process."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from test_stdio_process import INITIALIZE, TIMEOUT_SECONDS, encode_lines, make_call, responses_by_id

from mcp_server.stderr_log import StderrHandler

FLOOD: Final = """
import logging, sys
import trio
from mcp_server import Server, serve_stdio

server = Server("loud", version="1")

@server.tool
async def flood(count: int) -> str:
    for number in range(count):
        logging.getLogger("mcp_server").warning("message %d %s", number, "x" * 1000)
        await trio.lowlevel.checkpoint()
    return "flooded"

@server.tool
async def echo(text: str) -> str:
    return text

if __name__ == "__main__":
    trio.run(serve_stdio, server)
"""

COUNT: Final = 1000
"""A megabyte of messages: the pipe of Linux has 64 KiB."""


@pytest.fixture(params=["script", "command"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    (tmp_path / "loud.py").write_text(FLOOD)
    before = [] if request.param == "script" else ["-m", "mcp_server", "run"]
    return [sys.executable, *before, str(tmp_path / "loud.py")]


def test_stderr_not_read_server_responds_and_counts_dropped_messages(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            encode_lines(INITIALIZE, make_call(1, "flood", count=COUNT), make_call(2, "echo", text="hi"))
        )
        process.stdin.flush()
        output = b"".join(process.stdout.readline() for _ in range(3))
        assert set(responses_by_id(output)) == {0, 1, 2}
        _, log = process.communicate(timeout=TIMEOUT_SECONDS)
    numbers = [int(number) for number in re.findall(rb"message (\d+) x{1000}\n", log)]
    dropped = sum(int(number) for number in re.findall(rb"^(\d+) log messages were dropped", log, re.MULTILINE))
    assert dropped > 0
    assert len(numbers) + dropped == COUNT
    # The order is kept, and the queue is bounded.
    assert numbers == sorted(numbers)
    assert len(log) < 700_000


def test_stderr_not_read_process_ends(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(encode_lines(INITIALIZE, make_call(1, "flood", count=COUNT)))
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_stderr_closed_server_responds(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.close()
        output, _ = process.communicate(
            encode_lines(INITIALIZE, make_call(1, "flood", count=COUNT), make_call(2, "echo", text="hi")),
            TIMEOUT_SECONDS,
        )
        assert set(responses_by_id(output)) == {0, 1, 2}
        assert process.returncode == 0


def test_messages_before_end_of_process_are_written(command: list[str]) -> None:
    done = subprocess.run(
        command,
        input=encode_lines(INITIALIZE, make_call(1, "flood", count=200)),
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    assert done.stderr.count(b"\n") == 200


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ("", "WARNING mcp_server: message 0 x"),
        ("logging.basicConfig(format='own %(message).9s')", "own message 0\n"),
        ("logging.getLogger('mcp_server').addHandler(logging.FileHandler('own.log'))", ""),
        ("logging.getLogger('mcp_server').propagate = False", "WARNING mcp_server: message 0 x"),
        ("logging.getLogger('mcp_server').setLevel('ERROR')", ""),
    ],
    ids=["none", "root", "logger", "no-propagation", "level"],
)
def test_warnings_shown_unless_program_configures_logging(tmp_path: Path, configuration: str, expected: str) -> None:
    # The configuration also counts if it follows the start of the server.
    file = tmp_path / "loud.py"
    file.write_text(FLOOD.replace("    for number", f"    {configuration}\n    for number"))
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        input=encode_lines(INITIALIZE, make_call(1, "flood", count=1)),
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    log = done.stderr.decode()
    assert log.startswith(expected)
    assert log.count("\n") == bool(expected)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    yield source, sink
    os.close(source)
    os.close(sink)


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("mcp_server", logging.WARNING, __file__, 1, text, None, None)


def test_message_that_encoding_lacks_is_escaped(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    handler = StderrHandler(sink, "ascii")
    handler.handle(record("5 \N{DEGREE SIGN}C"))
    handler.flush()
    assert os.read(source, 100) == b"5 \\xb0C\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_handler_writes_in_child_of_fork(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    handler = StderrHandler(sink, "utf-8")
    handler.handle(record("parent"))
    handler.flush()
    child = os.fork()
    if not child:
        handler.handle(record("child"))
        handler.flush()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(source, 100) == b"parent\nchild\n"
