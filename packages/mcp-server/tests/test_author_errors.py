"""The output for the author of a server when a function fails, in real processes, of which the client sees nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from test_stdio_process import INITIALIZE, TIMEOUT_SECONDS, encode_lines, make_call, responses_by_id
from worker_testbed import RawConnection

from mcp_core.jsonrpc.messages import JsonObject

SOURCE: Final = """
import asyncio, sys
from contextlib import asynccontextmanager
from typing import Annotated

import trio
from mcp_core.middleware import Middleware
from mcp_server import Depends, Server, serve_http, serve_stdio

MODE = sys.argv[-1]

def fail(name):
    raise ValueError("secret of " + name)

class Failing(Middleware):
    async def request(self, message, proceed):
        if message.method == "completion/complete":
            fail("middleware")
        return await proceed(message)

@asynccontextmanager
async def lifespan(server):
    if MODE == "lifespan":
        fail("lifespan")
    yield

server = Server("weather", version="1", lifespan=lifespan, middleware=[Failing()])

@server.tool
async def async_tool() -> str:
    fail("async_tool")

@server.tool
def sync_tool() -> str:
    fail("sync_tool")

@server.tool(thread=False)
def inline_tool() -> str:
    fail("inline_tool")

async def async_provider() -> int:
    fail("async_provider")

@server.tool
async def with_async_provider(number: Annotated[int, Depends(async_provider)]) -> str:
    return ""

def sync_provider() -> int:
    fail("sync_provider")

@server.tool
def with_sync_provider(number: Annotated[int, Depends(sync_provider)]) -> str:
    return ""

async def provider_cleanup():
    yield 1
    fail("provider_cleanup")

@server.tool
async def with_provider_cleanup(number: Annotated[int, Depends(provider_cleanup)]) -> str:
    return ""

@server.resource("weather://now")
async def async_resource() -> str:
    fail("async_resource")

@server.resource("weather://at/{place}")
def sync_resource(place: str) -> str:
    fail("sync_resource")

@server.prompt
async def async_prompt() -> str:
    fail("async_prompt")

@server.prompt
def sync_prompt() -> str:
    fail("sync_prompt")

@server.completion(resource="weather://at/{place}", argument="place")
async def completion(value: str) -> list[str]:
    return []

if __name__ == "__main__":
    if MODE == "http":
        asyncio.run(serve_http(server, "127.0.0.1:0"))
    elif MODE == "asyncio":
        asyncio.run(serve_stdio(server))
    else:
        trio.run(serve_stdio, server)
"""

TOOLS: Final = {
    "async_tool": "async_tool",
    "sync_tool": "sync_tool",
    "inline_tool": "inline_tool",
    "async_provider": "with_async_provider",
    "sync_provider": "with_sync_provider",
    "provider_cleanup": "with_provider_cleanup",
}
"""The tool that leads to a function that fails."""

REQUESTS: Final[list[tuple[str, str, JsonObject]]] = [
    *((failing, "tools/call", JsonObject(name=tool, arguments={})) for failing, tool in TOOLS.items()),
    ("async_resource", "resources/read", {"uri": "weather://now"}),
    ("sync_resource", "resources/read", {"uri": "weather://at/sea"}),
    ("async_prompt", "prompts/get", {"name": "async_prompt"}),
    ("sync_prompt", "prompts/get", {"name": "sync_prompt"}),
    (
        "middleware",
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "weather://at/{place}"}, "argument": {"name": "place", "value": ""}},
    ),
]
"""The function that fails, and the request that leads to it."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weather.py"
    path.write_text(SOURCE)
    return path


def run(*command: str, messages: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run a command until its input ends, and return its output."""
    return subprocess.run(
        [sys.executable, *command],
        input=messages.decode(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def traceback_of(failing: str, log: str) -> str:
    """Return the traceback in the log that ends with the exception of a function."""
    before, _, _ = log.partition(f"ValueError: secret of {failing}\n")
    return before[before.rindex("Traceback (most recent call last):\n") :]


def check_log(log: str, path: Path) -> None:
    """Check that the log shows each failure in the file of the author, and only there."""
    lines = SOURCE.splitlines()
    for failing, _, _ in REQUESTS:
        text = traceback_of(failing, log)
        number = lines.index(f'    fail("{failing}")' if failing != "middleware" else '            fail("middleware")')
        assert f'  File "{path}", line {number + 1}, in ' in text
        assert f'    fail("{failing}")\n' in text
        assert '    raise ValueError("secret of " + name)\n' in text
        files = set(re.findall(r'File "(.*?)"', text))
        assert files == {str(path)}
        assert re.search(r"\n  … \d+ frames? of [a-z_, ]+\n", text)
    assert "Group" not in log


def test_failing_function_over_stdio_shows_line_in_file(file: Path) -> None:
    messages: list[JsonObject] = [
        {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        for id, (_, method, params) in enumerate(REQUESTS, 1)
    ]
    for command in (["-m", "mcp_server", "run", str(file)], [str(file)], [str(file), "asyncio"]):
        done = run(*command, messages=encode_lines(INITIALIZE, *messages))
        assert set(responses_by_id(done.stdout.encode())) == set(range(len(REQUESTS) + 1))
        check_log(done.stderr, file)
        assert "secret" not in done.stdout
        assert str(file) not in done.stdout


@contextmanager
def served(command: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Serve over HTTP during the block. Return the address, and a list that has the log after the block."""
    log: list[str] = []
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stderr is not None
        try:
            found = re.search(r"http://(\S+?)/", process.stderr.readline())
            assert found is not None
            yield found[1], log
        finally:
            process.terminate()
            log.append(process.stderr.read())


def test_failing_function_over_http_shows_line_in_file(file: Path) -> None:
    with served(["-m", "mcp_server", "run", str(file), "--http", "127.0.0.1:0"]) as (address, log):
        for _, method, params in REQUESTS:
            connection = RawConnection(address)
            name = params.get("name", params.get("uri"))
            response = connection.start(method, params, name=None if name is None else str(name))
            body = response.read().decode()
            connection.close()
            assert "The log of the server" in body or "Internal error" in body
            assert "secret" not in body
            assert str(file) not in body
    check_log(log[0], file)


@pytest.mark.parametrize("arguments", [["-m", "mcp_server", "run"], []], ids=["command", "script"])
def test_failing_lifespan_shows_line_in_file(file: Path, arguments: list[str]) -> None:
    file.write_text(SOURCE.replace('MODE == "lifespan"', "True"))
    done = run(*arguments, str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    assert '    fail("lifespan")\n' in done.stderr
    if arguments:
        text = traceback_of("lifespan", done.stderr)
        assert set(re.findall(r'File "(.*?)"', text)) == {str(file)}


def test_debug_level_shows_all_frames(file: Path) -> None:
    done = run(
        "-m",
        "mcp_server",
        "run",
        str(file),
        "--log-level",
        "debug",
        messages=encode_lines(INITIALIZE, make_call(1, "async_tool")),
    )
    assert "runner.py" in traceback_of("async_tool", done.stderr)
    file.write_text("1 / 0\n")
    done = run("-m", "mcp_server", "run", str(file), "--log-level", "debug")
    assert "importlib._bootstrap" in done.stderr


def test_json_log_has_folded_traceback(file: Path) -> None:
    done = run(
        "-m",
        "mcp_server",
        "run",
        str(file),
        "--log-json",
        messages=encode_lines(INITIALIZE, make_call(1, "async_tool")),
    )
    (record,) = map(json.loads, done.stderr.splitlines())
    assert set(re.findall(r'File "(.*?)"', record["exception"])) == {str(file)}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "@server.tool\ndef forecast() -> str:\n    return fetch()\n",
            "returned a coroutine of fetch, which was never awaited; write 'async def' instead of 'def', and 'return await"
            " fetch(...)'",
        ),
        (
            "@server.tool(thread=False)\ndef forecast() -> str:\n    return fetch()\n",
            "write 'async def' instead of 'def', and 'return await fetch(...)'",
        ),
        (
            "@server.tool\nasync def forecast() -> str:\n    return fetch()\n",
            "which was never awaited; write 'return await fetch(...)'",
        ),
    ],
    ids=["thread", "inline", "async"],
)
def test_returned_coroutine_names_remedy(tmp_path: Path, source: str, message: str) -> None:
    file = tmp_path / "weather.py"
    head = "from mcp_server import Server\nserver = Server('weather', version='1')\nasync def fetch():\n    return ''\n"
    file.write_text(head + source)
    done = run("-m", "mcp_server", "run", str(file), messages=encode_lines(INITIALIZE, make_call(1, "forecast")))
    assert f"InvalidResult: function weather.forecast ({file}:5) returned a coroutine" in done.stderr
    assert message in done.stderr
    assert "RuntimeWarning" not in done.stderr
    assert responses_by_id(done.stdout.encode())[1]["result"] == {
        "content": [{"type": "text", "text": "The tool forecast failed. The log of the server contains the reason."}],
        "isError": True,
    }
