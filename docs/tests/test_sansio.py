"""Programs that use the core without trio: two clients with a server process, and an HTTP server with clients."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from mcp_client import open_http
from mcp_core.errors import ConnectionEnded, NegotiationFailed, RequestFailed
from mcp_core.revisions import LEGACY
from mcp_core.types import TextContent

SANSIO = Path(__file__).resolve().parents[1] / "howto" / "sansio"
SECONDS = 60.0
"""Timeout for a process that responds, on a machine with much other work."""
sys.path.insert(0, str(SANSIO))

from asyncio_client import open_process  # noqa: E402  # the examples are not a package
from blocking_client import BlockingClient, start  # noqa: E402
from blocking_http_server import Handler  # noqa: E402

SERVER = """
import trio
from mcp_server import Server, serve_stdio
server = Server("adder", version="1.0")
waiting = trio.Event()
cancelled = trio.Event()

@server.tool
async def add(a: int, b: int) -> str:
    return str(a + b)

@server.tool
async def wait() -> None:
    waiting.set()
    try:
        await trio.sleep_forever()
    finally:
        cancelled.set()

@server.tool
async def until_waiting() -> None:
    await waiting.wait()

@server.tool
async def until_cancelled() -> None:
    await cancelled.wait()

trio.run(serve_stdio, server)
"""

OLD_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "old", "version": "1"}
        result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        print("a stray line", flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}), flush=True)
        refused = json.loads(sys.stdin.readline())
        result = {"tools": [{"name": str(refused["error"]["code"]), "inputSchema": {"type": "object"}}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""A server that ignores unknown requests, and sends a request for an undeclared capability."""


@pytest.mark.parametrize("name", ["blocking_client.py", "asyncio_client.py", "blocking_http_server.py"])
def test_program_short(name: str) -> None:
    assert len((SANSIO / name).read_text().splitlines()) < 150


@pytest.mark.parametrize("name", ["blocking_client.py", "asyncio_client.py", "blocking_http_server.py"])
def test_program_does_not_import_trio(name: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(SANSIO)!r}); import {name[:-3]}; print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_blocking_client_calls_tool() -> None:
    connection, process = start([sys.executable, "-c", SERVER])
    with process, connection:
        client = BlockingClient(connection, probe_timeout=SECONDS)
        assert client.server.revision.name == "2026-07-28"
        assert client.call_tool("add", {"a": 1, "b": 2}).content == (TextContent(text="3"),)
        with pytest.raises(RequestFailed, match="unknown tool"):
            client.call_tool("sub", {})


def test_blocking_client_falls_back_for_silent_old_server() -> None:
    connection, process = start([sys.executable, "-c", OLD_SERVER])
    with process, connection:
        client = BlockingClient(connection, probe_timeout=0.5)
        assert client.server.revision.name == "2024-11-05"
        assert [tool.name for tool in client.list_tools()] == ["-32601"]


def test_blocking_client_usable_in_several_threads() -> None:
    sums: list[object] = []

    def work() -> None:
        connection, process = start([sys.executable, "-c", SERVER])
        with process, connection:
            sums.append(BlockingClient(connection, probe_timeout=SECONDS).call_tool("add", {"a": 20, "b": 22}).content)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [(TextContent(text="42"),)] * 2


def test_asyncio_client_sends_concurrent_calls() -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", SERVER], probe_timeout=SECONDS) as (client, server):
            assert server.revision.name == "2026-07-28"
            calls = [client.call_tool("add", {"a": number, "b": 1}) for number in range(50)]
            results = await asyncio.gather(*calls)
            texts = [block.text for result in results for block in result.content if isinstance(block, TextContent)]
            assert texts == [str(number + 1) for number in range(50)]

    asyncio.run(main())


def test_asyncio_client_cancels_call() -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", SERVER], probe_timeout=SECONDS) as (client, _):
            waiting = asyncio.create_task(client.call_tool("wait", {}))
            # A call that is cancelled before its handler runs would never run the handler.
            await client.call_tool("until_waiting", {})
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not (await client.call_tool("until_cancelled", {})).is_error

    asyncio.run(main())


def test_asyncio_client_falls_back_for_silent_old_server() -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", OLD_SERVER], probe_timeout=0.5) as (_, server):
            assert server.revision.name == "2024-11-05"

    asyncio.run(main())


REJECTING_SERVER = """
import json, sys
for line in sys.stdin:
    error = {"code": -32600, "message": "not today"}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""


@pytest.mark.parametrize(("code", "error"), [("input()", ConnectionEnded), (REJECTING_SERVER, RequestFailed)])
def test_open_failure_raises_cause(code: str, error: type[Exception]) -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", code], probe_timeout=SECONDS):
            raise AssertionError("it opened")

    with pytest.raises(error):
        asyncio.run(main())

    connection, process = start([sys.executable, "-c", code])
    with process, connection, pytest.raises(error):
        BlockingClient(connection, probe_timeout=SECONDS)


@pytest.fixture
def address() -> Iterator[str]:
    """The address of the blocking HTTP server, such as 127.0.0.1:4711."""

    class SilentHandler(Handler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), SilentHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def post(address: str, message: dict[str, object], **headers: str) -> tuple[int, dict[str, object]]:
    """Post a message, and return the status and the body."""
    connection = http.client.HTTPConnection(address, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", "/mcp", json.dumps(message), {"Content-Type": "application/json", **named})
    with connection.getresponse() as response:
        body = json.loads(response.read() or b"{}")
        assert isinstance(body, dict)
        connection.close()
        return response.status, body


def test_blocking_http_server_serves_client(address: str) -> None:
    async def main() -> None:
        async with open_http(f"http://{address}/mcp") as client:
            assert client.revision.name == "2026-07-28"
            assert [tool.name for tool in await client.list_tools()] == ["greet"]
            assert (await client.call_tool("greet", {"name": "Ada"})).content == (TextContent(text="Hello, Ada"),)
            assert (await client.call_tool("greet", raise_on_error=False)).is_error
            with pytest.raises(RequestFailed, match="unknown tool"):
                await client.call_tool("sub")
        with pytest.raises(NegotiationFailed):
            async with open_http(f"http://{address}/mcp", revisions=LEGACY):
                raise AssertionError("it opened")

    trio.run(main)


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
}


@pytest.mark.parametrize(
    ("method", "meta", "headers", "status"),
    [
        ("tools/list", META, {}, 200),
        ("tools/list", META, {"Host": "evil.example"}, 403),
        ("tools/list", META, {"Origin": "https://evil.example"}, 403),
        ("tools/list", META, {"Content_Type": "text/plain"}, 415),
        ("tools/list", META, {"Mcp_Method": "tools/call"}, 400),
        ("tools/list", {**META, "io.modelcontextprotocol/clientCapabilities": None}, {}, 400),
        ("no/such", META, {"Mcp_Method": "no/such"}, 404),
        ("resources/list", META, {"Mcp_Method": "resources/list"}, 404),
    ],
)
def test_blocking_http_server_returns_status_of_core(
    address: str, method: str, meta: dict[str, object], headers: dict[str, str], status: int
) -> None:
    message: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    request_headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/list", **headers}
    received_status, body = post(address, message, **request_headers)
    assert (received_status, "error" in body) == (status, status != 200)
    notification: dict[str, object] = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1},
    }
    assert post(address, notification, MCP_Protocol_Version="2026-07-28") == (202, {})
