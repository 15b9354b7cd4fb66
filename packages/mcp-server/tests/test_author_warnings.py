"""The warnings about mistakes in the code of an author, in real processes: prints, blocking, missing awaits, terminals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from test_stdio_process import INITIALIZE, TIMEOUT_SECONDS, encode_lines, make_call, responses_by_id

from mcp_core.jsonrpc.messages import JsonObject

HEAD: Final = """
import sys, time
import trio
from mcp_server import Context, Server, serve_stdio

server = Server("weather", version="1")
"""


def run(file: Path, source: str, *messages: JsonObject, options: tuple[str, ...] = ()) -> str:
    """Run a server with a file until it has responded to all messages, and return its log. Each call must succeed."""
    file.write_text(HEAD + source)
    expected = {0, *(message["id"] for message in messages)}
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_server", "run", str(file), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_lines(INITIALIZE, *messages))
        process.stdin.flush()
        # The end of the input would cancel a call that runs in a thread.
        output = b""
        while not expected <= set(responses_by_id(output)) and (line := process.stdout.readline()):
            output += line
        rest, log = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, log.decode()
    assert set(responses_by_id(output + rest)) == expected
    assert "isError" not in output.decode()
    return log.decode()


def line_of(source: str, text: str) -> int:
    """Return the number of the line with a text."""
    return next(number for number, line in enumerate((HEAD + source).splitlines(), 1) if text in line)


# --- print -----------------------------------------------------------------------------------------------------------

PRINTS: Final = """
@server.tool
async def one() -> str:
    for _ in range(3):
        print("from a tool")
    print("on stderr", file=sys.stderr)
    return ""

@server.tool
def two() -> str:
    sys.stdout.write("from a thread\\n")
    return ""
"""


def test_print_is_warned_of_once_for_each_place(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    log = run(file, PRINTS, make_call(1, "one"), make_call(2, "two"), make_call(3, "one"))
    warnings = [line for line in log.splitlines() if "text printed to stdout goes to stderr" in line]
    assert len(warnings) == 2
    for text in ("from a tool", "from a thread"):
        (warning,) = [
            line for line in warnings if f"{file}:{line_of(PRINTS, text)}; print with file=sys.stderr" in line
        ]
        assert "WARNING mcp_server" in warning
    assert log.count("from a tool\n") == 6
    assert "from a thread\n" in log


def test_print_by_script_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    file.write_text(f"{HEAD}{PRINTS}\ntrio.run(serve_stdio, server)\n")
    # stdout is a file, which can seek, and then leads to a pipe, which cannot.
    with (tmp_path / "output").open("wb") as output:
        done = subprocess.run(
            [sys.executable, str(file)],
            input=encode_lines(INITIALIZE, make_call(1, "one")),
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
    assert set(responses_by_id((tmp_path / "output").read_bytes())) == {0, 1}
    assert f"goes to stderr, because stdout has the messages of the server: {file}:" in done.stderr.decode()


# --- await -----------------------------------------------------------------------------------------------------------

UNAWAITED: Final = """
async def fetch() -> str:
    return ""

@server.tool
async def forecast(context: Context) -> str:
    context.info("not sent")
    text = fetch()
    return ""
"""


def test_coroutine_without_await_is_logged_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    log = run(file, UNAWAITED, *(make_call(id, "forecast") for id in (1, 2, 3)))
    lines = [line.partition("mcp_server: ")[2] for line in log.splitlines()]
    assert lines == [
        f"coroutine 'Context.info' was never awaited: {file}:{line_of(UNAWAITED, 'context.info')}; write 'await' before the"
        " call",
        "coroutine 'fetch' was never awaited; write 'await' before the call; the log shows its place from now on, and with"
        " --log-level debug from the start",
        f"coroutine 'fetch' was never awaited: {file}:{line_of(UNAWAITED, 'text = fetch')}; write 'await' before the call",
    ]


def test_warning_with_other_text_shown_unchanged(tmp_path: Path) -> None:
    log = run(tmp_path / "weather.py", "import warnings\nwarnings.warn('it rains', RuntimeWarning)\n")
    assert "RuntimeWarning: it rains" in log


# --- blocking --------------------------------------------------------------------------------------------------------

BLOCKING: Final = """
def compute() -> None:
    time.sleep(0.5)

@server.tool
async def forecast() -> str:
    compute()
    return ""

@server.tool
def thread() -> str:
    compute()
    return ""
"""


def test_blocking_tool_is_logged_once_with_line_at_debug_level(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    calls = [make_call(id, "forecast") for id in (1, 2, 3)]
    log = run(file, BLOCKING, *calls, make_call(4, "thread"), options=("--log-level", "debug"))
    (line,) = [line for line in log.splitlines() if "blocked" in line]
    assert f"event loop blocked for more than 0.1 s by forecast: {file}:{line_of(BLOCKING, 'time.sleep')}; " in line


def test_blocking_tool_is_not_watched_by_default(tmp_path: Path) -> None:
    assert run(tmp_path / "weather.py", BLOCKING, make_call(1, "forecast")) == ""


# --- terminal --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("is_command", [False, True], ids=["script", "command"])
def test_server_in_terminal_says_how_to_try_it(tmp_path: Path, is_command: bool) -> None:
    import pty

    file = tmp_path / "weather.py"
    file.write_text(f"{HEAD}\nif __name__ == '__main__':\n    trio.run(serve_stdio, server)\n")
    script = str(Path(sys.executable).with_name("mcp-server"))
    command = [script, "run", "weather.py"] if is_command else [sys.executable, "weather.py"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path, text=True
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        shown = "mcp-server run" if is_command else Path(sys.executable).name
        assert process.stderr.readline() == (
            "weather 1 is an MCP server: it waits for the messages of a client at this terminal, until Ctrl+C. To try it,"
            " run\n"
        )
        assert process.stderr.readline() == (
            f"`mcp-server dev weather.py` for a page in the browser, or `mcp-client probe -- {shown} weather.py`\n"
        )
        # The end of input at a terminal.
        os.write(ours, b"\x04")
        assert process.wait(TIMEOUT_SECONDS) == 0
        assert process.stderr.read() == ""
    os.close(ours)
