"""The two clients that drive the engine without trio, against a real server process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcp_core.errors import ConnectionEnded, RequestFailed
from mcp_core.types import TextContent

SANSIO = Path(__file__).resolve().parents[1] / "howto" / "sansio"
sys.path.insert(0, str(SANSIO))

from asyncio_client import open_process  # noqa: E402  # the examples are no package
from blocking_client import BlockingClient, start  # noqa: E402

SERVER = """
import trio
from mcp_server import Server, serve_stdio
server = Server("adder", version="1.0")
cancelled = []

@server.tool
async def add(a: int, b: int) -> str:
    return str(a + b)

@server.tool
async def wait() -> None:
    try:
        await trio.sleep_forever()
    finally:
        cancelled.append(True)

@server.tool
async def count_cancelled() -> str:
    while not cancelled:
        await trio.lowlevel.checkpoint()
    return str(len(cancelled))

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
"""It is silent to what it does not know, and asks for what was not offered."""


@pytest.mark.parametrize("name", ["blocking_client.py", "asyncio_client.py"])
def test_it_is_short(name: str) -> None:
    assert len((SANSIO / name).read_text().splitlines()) < 150


@pytest.mark.parametrize("name", ["blocking_client.py", "asyncio_client.py"])
def test_it_does_not_need_trio(name: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(SANSIO)!r}); import {name[:-3]}; print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_blocking_client_calls_a_tool() -> None:
    ours, process = start([sys.executable, "-c", SERVER])
    with process, ours:
        client = BlockingClient(ours)
        assert client.server.revision.name == "2026-07-28"
        assert client.call_tool("add", {"a": 1, "b": 2}).content == (TextContent(text="3"),)
        with pytest.raises(RequestFailed, match="unknown tool"):
            client.call_tool("sub", {})


def test_the_blocking_client_survives_an_old_silent_server() -> None:
    ours, process = start([sys.executable, "-c", OLD_SERVER])
    with process, ours:
        client = BlockingClient(ours, patience=0.5)
        assert client.server.revision.name == "2024-11-05"
        assert [tool.name for tool in client.list_tools()] == ["-32601"]


def test_the_blocking_client_works_in_several_threads_with_one_client_each() -> None:
    sums: list[object] = []

    def work() -> None:
        ours, process = start([sys.executable, "-c", SERVER])
        with process, ours:
            sums.append(BlockingClient(ours).call_tool("add", {"a": 20, "b": 22}).content)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [(TextContent(text="42"),)] * 2


def test_the_asyncio_client_makes_calls_at_the_same_time() -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", SERVER]) as (client, server):
            assert server.revision.name == "2026-07-28"
            calls = [client.call_tool("add", {"a": number, "b": 1}) for number in range(50)]
            results = await asyncio.gather(*calls)
            texts = [block.text for result in results for block in result.content if isinstance(block, TextContent)]
            assert texts == [str(number + 1) for number in range(50)]

    asyncio.run(main())


def test_the_asyncio_client_cancels_a_call() -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", SERVER]) as (client, _):
            waiting = asyncio.create_task(client.call_tool("wait", {}))
            await client.call_tool("add", {"a": 1, "b": 1})
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await client.call_tool("count_cancelled", {})).content == (TextContent(text="1"),)

    asyncio.run(main())


def test_the_asyncio_client_survives_an_old_silent_server_and_its_end() -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", OLD_SERVER], patience=0.5) as (_, server):
            assert server.revision.name == "2024-11-05"

    asyncio.run(main())


REFUSING_SERVER = """
import json, sys
for line in sys.stdin:
    error = {"code": -32600, "message": "not today"}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""


@pytest.mark.parametrize(("code", "error"), [("input()", ConnectionEnded), (REFUSING_SERVER, RequestFailed)])
def test_opening_tells_why_it_is_not_possible(code: str, error: type[Exception]) -> None:
    async def main() -> None:
        async with open_process([sys.executable, "-c", code]):
            raise AssertionError("it opened")

    with pytest.raises(error):
        asyncio.run(main())

    ours, process = start([sys.executable, "-c", code])
    with process, ours, pytest.raises(error):
        BlockingClient(ours)
