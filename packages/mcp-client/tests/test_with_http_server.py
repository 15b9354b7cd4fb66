"""The client and the server of this project over real sockets: each client feature in each revision and transport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, open_http
from mcp_client.connectors import http as http_connector
from mcp_core.errors import NegotiationFailed
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_11_25, R2026_07_28, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)
from mcp_server import Context, Server, serve_http

ROOT = Root(uri="file:///work")
REVISION = pytest.mark.parametrize("revision", LEGACY, ids=str)
PATH = pytest.mark.parametrize("path", ["/mcp", "/sse"])
DEADLINES = Deadlines(connect=20, idle=20)


def make_server(*revisions: Revision) -> Server:
    server = Server("test", version="1", revisions=revisions or LEGACY)

    @server.tool()
    async def roots(*, context: Context) -> str:
        return ", ".join(root.uri for root in await context.list_roots())

    @server.tool()
    async def sample(*, context: Context) -> str:
        content = (await context.sample("?", max_tokens=9)).content
        return content.text if isinstance(content, TextContent) else ""

    @server.tool()
    async def work(*, context: Context) -> str:
        for done in (1, 2):
            await context.progress(done, total=2)
        await context.info("quiet")
        await context.error("loud")
        return "done"

    @server.tool()
    async def hang(*, context: Context) -> str:
        await context.progress(1)
        await trio.sleep_forever()

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        return name

    return server


@asynccontextmanager
async def served(server: Server, path: str = "/mcp", policy: EndpointPolicy | None = None) -> AsyncIterator[str]:
    # Ports are reused by later servers.
    http_connector._eras.clear()
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve(server, policy, path, task_status))
        yield url.removesuffix("/mcp") + path
        nursery.cancel_scope.cancel()


async def serve(
    server: Server, policy: EndpointPolicy | None, path: str, task_status: trio.TaskStatus[tuple[str, ...]]
) -> None:
    legacy_sse = path == "/sse"
    await serve_http(server, "127.0.0.1:0", policy=policy, grace=0, legacy_sse=legacy_sse, task_status=task_status)


async def text(client: Client, tool: str) -> str:
    (content,) = (await client.call_tool(tool)).content
    assert isinstance(content, TextContent)
    return content.text


async def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="hi"), model="m")


@REVISION
@PATH
@pytest.mark.parametrize("answer", ["json", "stream"])
async def test_client_features_every_revision_and_transport(revision: Revision, path: str, answer: str) -> None:
    logged: list[object] = []

    def log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    server = make_server()
    policy = EndpointPolicy(answer="stream" if answer == "stream" else "json")
    handlers = Handlers(roots=[ROOT], sample=sample, log=log)
    async with (
        served(server, path, policy) as url,
        open_http(url, revisions=[revision], handlers=handlers, deadlines=DEADLINES, log_level="error") as client,
    ):
        assert client.revision is revision
        assert await text(client, "roots") == ROOT.uri
        assert await text(client, "sample") == "hi"
        assert await text(client, "work") == "done"
        assert logged == ["loud"]
        async with client.listen(tools=True, uris=["note://a"]) as changes:
            server.remove_tool("sample")
            assert await anext(changes) == Change(ChangeKind.TOOLS)
            server.resource_updated("note://a")
            assert await anext(changes) == Change(ChangeKind.RESOURCE, "note://a")
        started = trio.Event()
        with trio.CancelScope() as scope:

            def cancel(*_: object) -> None:
                started.set()
                scope.cancel()

            await client.call_tool("hang", on_progress=cancel)
        assert started.is_set()
        await client.ping()


@PATH
async def test_server_of_2024_11_05_only_every_transport(path: str) -> None:
    handlers = Handlers(roots=[ROOT])
    async with (
        served(make_server(R2024_11_05), path) as url,
        open_http(url, handlers=handlers, deadlines=DEADLINES) as client,
    ):
        assert client.revision is R2024_11_05
        assert await text(client, "roots") == ROOT.uri


async def test_server_of_2024_11_05_and_2026_07_28_both_negotiated() -> None:
    for revision in (R2024_11_05, R2026_07_28):
        async with (
            served(make_server(R2024_11_05, R2026_07_28)) as url,
            open_http(url, revisions=[revision], handlers=Handlers(roots=[ROOT]), deadlines=DEADLINES) as client,
        ):
            assert client.revision is revision
            assert await text(client, "roots") == ROOT.uri


async def test_client_without_2024_11_05_error_names_revision() -> None:
    async with served(make_server(R2024_11_05)) as url:
        with pytest.raises(NegotiationFailed, match="2024-11-05"):
            async with open_http(url, revisions=[R2025_11_25], deadlines=DEADLINES):
                raise AssertionError("the connection was opened")
