"""The endpoint on hosts that run on asyncio, in a process of their own: uvicorn on two loops, and Hypercorn."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncio_hosts
import attrs
import pytest
import trio
from asyncio_hosts import HOSTS

from mcp_client import Change, ElicitationAccepted, Handlers, open_http
from mcp_core.errors import McpError
from mcp_core.revisions import R2024_11_05, R2025_11_25, R2026_07_28, REVISIONS, Era, Revision

_APP = """
import attrs
import trio

from mcp_server import Context, Server

server = Server("hosted", version="1.0", async_library="trio")
ended = []


@attrs.frozen
class Name:
    name: str


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
def plain(text: str) -> str:
    return text.upper()


@server.tool
async def steps(context: Context) -> str:
    for step in range(3):
        await context.progress(step + 1, 3)
        await trio.sleep(0.02)
    return "done"


@server.tool
async def greet(context: Context) -> str:
    answer = await context.elicit(Name, "Who are you?")
    return f"Hello {answer.value.name}"


@server.tool
async def wait() -> str:
    try:
        await trio.sleep_forever()
    finally:
        ended.append("wait")


@server.tool
async def endings() -> list[str]:
    return ended


app = server.asgi()
"""

_ELICITATION = frozenset([REVISIONS["2025-06-18"], REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]])


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def served(folder: Path, host: str, *options: str, program: str = _APP, error: str = "") -> AsyncIterator[str]:
    """Serve a program during the block. Yield the URL of its endpoint."""
    (folder / "hosted.py").write_text(program)
    async with asyncio_hosts.served(folder, host, *options, app="hosted:app", error=error) as url:
        yield f"{url}/mcp"


@attrs.frozen
class Answer:
    name: str


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
async def test_host_each_revision_serves_all_kinds_of_tools(tmp_path: Path, host: str, revision: Revision) -> None:
    async def answer(*_: object) -> ElicitationAccepted[Answer]:
        return ElicitationAccepted(Answer("Ada"))

    progress: list[float] = []
    async with (
        served(tmp_path, host) as url,
        open_http(url, revisions=[revision], handlers=Handlers(elicit=answer)) as client,
    ):
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        assert (await client.call_tool("plain", {"text": "hi"})).text == "HI"
        report = await client.call_tool("steps", on_progress=lambda at, total, message: progress.append(at))
        assert report.text == "done"
        assert progress == [1, 2, 3]
        if revision in _ELICITATION:
            assert (await client.call_tool("greet")).text == "Hello Ada"


async def test_host_large_result_is_complete(tmp_path: Path, host: str) -> None:
    async with served(tmp_path, host) as url, open_http(url) as client:
        assert (await client.call_tool("echo", {"text": "x" * 300_000})).text == "x" * 300_000


async def test_uvicorn_without_lifespan_events_serves(tmp_path: Path) -> None:
    async with served(tmp_path, "uvicorn-asyncio", "--lifespan", "off") as url, open_http(url) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


_WITH_LIFESPAN = """
import asyncio
from contextlib import asynccontextmanager

from mcp_server import Context, Server

starts = []


@asynccontextmanager
async def lifespan(server):
    async with asyncio.timeout(600):
        starts.append("start")
        if len(starts) < FAILURES + 1:
            raise OSError("no database")
        yield starts


server = Server("hosted", version="1.0", lifespan=lifespan)


@server.tool
async def state(context: Context) -> list[str]:
    return context.state(list)


app = server.asgi()
"""


async def test_uvicorn_without_lifespan_events_starts_lifespan_at_first_request(tmp_path: Path) -> None:
    program = _WITH_LIFESPAN.replace("FAILURES", "0")
    async with (
        served(tmp_path, "uvicorn-asyncio", "--lifespan", "off", program=program) as url,
        open_http(url) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(8):
            nursery.start_soon(client.call_tool, "state")
        assert (await client.call_tool("state", returns=list[str])).data == ["start"]


async def test_uvicorn_without_lifespan_events_starts_failed_lifespan_again(tmp_path: Path) -> None:
    program = _WITH_LIFESPAN.replace("FAILURES", "1")
    modern = [REVISIONS["2026-07-28"]]
    options = ("--lifespan", "off")
    async with served(tmp_path, "uvicorn-asyncio", *options, program=program, error="no database") as url:
        with pytest.raises(McpError, match="the server is not started"):
            async with open_http(url, revisions=modern):
                pass
        async with open_http(url, revisions=modern) as client:
            assert (await client.call_tool("state", returns=list[str])).data == ["start", "start"]


@pytest.mark.parametrize("era", Era, ids=lambda era: era.name)
async def test_host_call_cancelled_ends_handler(tmp_path: Path, host: str, era: Era) -> None:
    revision = [each for each in REVISIONS.values() if each.era is era][-1]
    async with served(tmp_path, host) as url, open_http(url, revisions=[revision]) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await client.call_tool("steps")
            nursery.cancel_scope.cancel()
        while (await client.call_tool("endings", returns=list[str])).data != ["wait"]:
            await trio.lowlevel.checkpoint()


async def test_host_many_calls_at_once_each_return(tmp_path: Path, host: str) -> None:
    texts: list[str] = []
    async with served(tmp_path, host) as url, open_http(url) as client:

        async def call(text: str) -> None:
            texts.append((await client.call_tool("echo", {"text": text})).text)

        async with trio.open_nursery() as nursery:
            for number in range(64):
                nursery.start_soon(call, str(number))
    assert sorted(texts, key=int) == [str(number) for number in range(64)]


@pytest.mark.parametrize("host", [name for name in HOSTS if name.startswith("uvicorn")])
@pytest.mark.parametrize("revision", [R2024_11_05, R2025_11_25, R2026_07_28], ids=str)
async def test_uvicorn_stopped_by_signal_ends_streams(tmp_path: Path, host: str, revision: Revision) -> None:
    program = _APP.replace("server.asgi()", "server.asgi(legacy_sse=True)")
    changes: list[Change] = []
    async with trio.open_nursery() as nursery:

        async def listen(url: str, *, task_status: trio.TaskStatus[None]) -> None:
            # The connection may be closed by the server after the end of the stream.
            with contextlib.suppress(McpError):
                async with open_http(url, revisions=[revision]) as client, client.listen(tools=True) as found:
                    task_status.started()
                    changes.extend([change async for change in found])

        # Without a time limit: uvicorn waits for the streams.
        async with served(tmp_path, host, program=program) as url:
            await nursery.start(listen, url.replace("/mcp", "/sse") if revision.http_sse else url)
        nursery.cancel_scope.cancel()
    assert changes == []
