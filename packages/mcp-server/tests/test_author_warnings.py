"""The warnings about mistakes in the code of an author, in real processes: prints, blocking, missing awaits, terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing
from asyncio_hosts import served
from command_process import running
from dev_command import run_dev
from test_stdio_process import INITIALIZE, TIMEOUT_SECONDS, encode_lines, make_call, responses_by_id

from mcp_client import open_http
from mcp_client.testing import open_in_memory
from mcp_core.jsonrpc.messages import JsonObject
from mcp_server import Server, serve_stream

HEAD: Final = """
import sys, time
import trio
from mcp_server import Context, Server, serve_stdio

server = Server("weather", version="1")
"""


def run(file: Path, source: str, *messages: JsonObject, options: tuple[str, ...] = ()) -> str:
    """Run a server with a file until it has responded to all messages, and return its log. Each call must succeed."""
    file.write_text(HEAD + source)
    return log_of([sys.executable, "-m", "mcp_server", "run", str(file), *options], *messages)


def log_of(command: Sequence[str], *messages: JsonObject) -> str:
    """Run a command until it has responded to all messages, and return its log. Each call must succeed."""
    expected = {0, *(message["id"] for message in messages)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
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


@contextmanager
def log_of_http_server(command: str, file: Path) -> Iterator[tuple[str, list[str]]]:
    """Run a server over HTTP. Yield its URL, and a list that has its log after the block."""
    log: list[str] = []
    if command == "run":
        with running(str(file)) as server:
            yield server.url, log
            server.process.send_signal(signal.SIGTERM)
            assert server.process.stderr is not None
            log.extend(server.process.stderr)
    else:
        with run_dev(file.parent, file.read_text(), name=file.name) as dev:
            yield dev.wait_for("is served at (.*)")[1], log
            dev.stop()
            log.extend(dev.rest())


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

@server.tool(thread=False)
def inline() -> str:
    compute()
    return ""

@server.tool
def thread() -> str:
    compute()
    return ""

@server.tool
async def waiting() -> str:
    await trio.sleep(0.5)
    return ""
"""

BLOCKED: Final = "event loop blocked for "


def blocking_lines(log: str) -> list[str]:
    """Return the warnings about tools that block the event loop."""
    return [line for line in log.splitlines() if BLOCKED in line]


def test_blocking_tool_is_warned_of_once(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    calls = [make_call(id, "forecast") for id in (1, 2, 3)]
    (line,) = blocking_lines(run(file, BLOCKING, *calls))
    assert re.fullmatch(
        r".* WARNING mcp_server: event loop blocked for 5\d\d ms by function \S*forecast "
        rf"\({re.escape(str(file))}:{line_of(BLOCKING, 'async def forecast') - 1}\); all other requests waited: register a"
        r" plain `def`, which runs in a thread, or pass the part that blocks to `await trio.to_thread.run_sync\(...\)`",
        line,
    )


def test_blocking_function_without_thread_is_warned_of(tmp_path: Path) -> None:
    (line,) = blocking_lines(run(tmp_path / "weather.py", BLOCKING, make_call(1, "inline")))
    assert ": register it without thread=False, or " in line


def test_waiting_tools_are_not_warned_of(tmp_path: Path) -> None:
    assert run(tmp_path / "weather.py", BLOCKING, make_call(1, "waiting"), make_call(2, "thread")) == ""


def test_blocking_tool_of_script_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    file.write_text(f"{HEAD}{BLOCKING}\ntrio.run(serve_stdio, server)\n")
    log = log_of([sys.executable, str(file)], make_call(1, "forecast"), make_call(2, "forecast"))
    assert len(blocking_lines(log)) == 1
    assert log.startswith("WARNING mcp_server: ")


def test_blocking_asyncio_tool_names_thread_of_asyncio(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    file.write_text(f"{HEAD}{BLOCKING}\nimport asyncio\nasyncio.run(serve_stdio(server))\n")
    (line,) = blocking_lines(log_of([sys.executable, str(file)], make_call(1, "forecast"), make_call(2, "forecast")))
    assert line.endswith("or pass the part that blocks to `await asyncio.to_thread(...)`")


def test_blocking_provider_is_warned_of_with_its_tool(tmp_path: Path) -> None:
    provided = """
from typing import Annotated
from mcp_server import Depends

async def place() -> str:
    time.sleep(0.5)
    return "Ghent"

@server.tool
async def forecast(where: Annotated[str, Depends(place)]) -> str:
    return where
"""
    (line,) = blocking_lines(run(tmp_path / "weather.py", provided, make_call(1, "forecast")))
    assert "forecast" in line


def test_warnings_not_logged_blocking_is_not_timed(tmp_path: Path) -> None:
    assert run(tmp_path / "weather.py", BLOCKING, make_call(1, "forecast"), options=("--log-level", "error")) == ""


@pytest.mark.parametrize("command", ["run", "dev"])
async def test_blocking_tool_over_http_is_warned_of_once(tmp_path: Path, command: str) -> None:
    file = tmp_path / "weather.py"
    file.write_text(HEAD.replace('"weather"', '"sample"') + BLOCKING)
    with log_of_http_server(command, file) as (url, log):
        async with open_http(url) as client:
            await client.call_tool("forecast")
            await client.call_tool("forecast")
            await client.call_tool("waiting")
    assert len(blocking_lines("".join(log))) == 1


ASGI: Final = """
import asyncio, time
from mcp_server import Server

server = Server("weather", version="1")

@server.tool
async def forecast() -> str:
    time.sleep(0.5)
    return ""

@server.tool
async def waiting() -> str:
    await asyncio.sleep(0.5)
    return ""

app = server.asgi()
"""


async def test_blocking_asyncio_tool_on_uvicorn_is_warned_of_once(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text(ASGI)
    async with (
        served(tmp_path, "uvicorn-asyncio", app="weather:app", once=BLOCKED) as url,
        open_http(f"{url}/mcp") as client,
    ):
        await client.call_tool("forecast")
        await client.call_tool("forecast")
        await client.call_tool("waiting")


async def test_tool_that_blocks_after_many_calls_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("sampled", version="1")

    @server.tool
    async def forecast(seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  # the mistake

    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        for _ in range(80):
            await client.call_tool("forecast", {"seconds": 0})
        assert not caplog.records
        for _ in range(16):
            await client.call_tool("forecast", {"seconds": 0.11})
    (record,) = caplog.records
    assert BLOCKED in record.getMessage()


async def test_frames_of_waiting_task_lead_into_the_handler() -> None:
    server = Server("frames", version="1")
    tasks: list[trio.lowlevel.Task] = []

    @server.tool
    async def forecast() -> None:
        tasks.append(trio.lowlevel.current_task())
        await trio.sleep_forever()

    async with (
        open_in_memory(lambda stream: serve_stream(server, stream)) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.call_tool, "forecast")
        await trio.testing.wait_all_tasks_blocked()
        names = [frame.f_code.co_name for frame, _ in tasks[0].iter_await_frames()]
        nursery.cancel_scope.cancel()
    assert names.index("forecast") < names.index("sleep_forever")


def test_blocking_line_is_logged_at_debug_level(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    calls = [make_call(id, "forecast") for id in (1, 2, 3)]
    log = run(file, BLOCKING, *calls, make_call(4, "thread"), options=("--log-level", "debug"))
    (line,) = [line for line in log.splitlines() if "event loop is blocked" in line]
    assert f"by forecast at {file}:{line_of(BLOCKING, 'time.sleep')}" in line


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
