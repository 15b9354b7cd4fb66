"""Ctrl+C at the command `mcp-server`: status 130 without a traceback, and the immediate end after a second one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from command_process import running, wait_until_refused
from test_stdio_process import INITIALIZE, TIMEOUT_SECONDS, encode_lines, make_call

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")

SOURCE: Final = """
import sys, threading
import trio
from mcp_server import Server

server = Server("sample", version="1")

def say(text):
    print(text, file=sys.stderr, flush=True)

@server.tool
async def wait() -> str:
    say("waiting")
    try:
        await trio.sleep_forever()
    finally:
        say("cancelled")

@server.tool
def block() -> str:
    say("blocking")
    threading.Event().wait()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sample_server.py"
    path.write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return path


@contextmanager
def serving_stdio(file: Path, *calls: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """Serve over stdio during the block. Its input stays open."""
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_server", "run", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"".join([encode_lines(INITIALIZE), *calls]))
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"{")
            yield process
        finally:
            process.kill()


def read_lines(process: subprocess.Popen[bytes], lines: Sequence[bytes]) -> None:
    """Read lines of stderr, in any order."""
    assert process.stderr is not None
    assert sorted(process.stderr.readline() for _ in lines) == sorted(lines)


def test_interrupt_of_idle_stdio_server_returns_130(file: Path) -> None:
    with serving_stdio(file) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_interrupt_of_stdio_server_cancels_running_call(file: Path) -> None:
    with serving_stdio(file, encode_lines(make_call(1, "wait"))) as process:
        read_lines(process, [b"waiting\n"])
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"cancelled\n"


def test_second_interrupt_ends_stdio_server_with_blocked_thread(file: Path) -> None:
    with serving_stdio(file, encode_lines(make_call(1, "wait"), make_call(2, "block"))) as process:
        read_lines(process, [b"waiting\n", b"blocking\n"])
        process.send_signal(signal.SIGINT)
        # The first signal has been handled.
        read_lines(process, [b"cancelled\n"])
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_second_interrupt_ends_http_server_with_blocked_thread(file: Path) -> None:
    # The helper calls the tool `wait`.
    file.write_text(SOURCE.replace("def wait", "def other").replace("def block", "def wait"))
    with running(str(file)) as server, server.post() as client:
        assert server.line() == "blocking\n"
        server.process.send_signal(signal.SIGINT)
        wait_until_refused(server.url)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(TIMEOUT_SECONDS) == 130
        assert server.line() == ""
        client.kill()


def test_interrupt_at_terminal_returns_130(file: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    # The terminal controls the process, so that it sends the signal to it.
    program = (
        "import fcntl, os, sys, termios\n"
        "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'mcp_server', 'run', sys.argv[1]])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        assert "is an MCP server" in process.stderr.readline()
        assert process.stderr.readline().startswith("`mcp-server dev ")
        os.write(ours, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        received = b""
        while b'"result"' not in received:
            received += os.read(ours, 4096)
        os.write(ours, b"\x03")
        assert process.wait(TIMEOUT_SECONDS) == 130
        assert process.stderr.read() == ""
    os.close(ours)
