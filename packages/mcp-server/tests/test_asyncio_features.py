"""Each feature of a server with functions for asyncio, on hosts that run on asyncio: `feature_server`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from asyncio_hosts import HOSTS, SECONDS
from raw_exchange import RawExchange, legacy

from mcp_client import (
    Change,
    ChangeKind,
    Client,
    ElicitationAccepted,
    Handlers,
    RequestFailed,
    ToolFailed,
    open_http,
)
from mcp_core.errors import McpError
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import NOTIFICATIONS_MESSAGE
from mcp_core.revisions import R2024_11_05, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import CreateMessageResult, PromptReference, TextContent, TextResourceContents

_EACH_REVISION = pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
_WITH_FORMS = pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25, R2026_07_28], ids=str)
_EACH_ERA = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


@attrs.frozen
class Name:
    name: str


@pytest.fixture(scope="module", params=HOSTS)
def root(request: pytest.FixtureRequest) -> Iterator[str]:
    """Serve `feature_server` in a process for all tests of a host. Return the URL of its root."""
    command = [sys.executable, "-m", *HOSTS[str(request.param)], "feature_server:app"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=Path(__file__).parent
    ) as host:
        assert host.stderr is not None
        log = b""
        try:
            while b" to quit)" not in log:
                line = host.stderr.readline()
                assert line, log.decode()
                log += line
            yield log.lower().partition(b"running on ")[2].split()[0].decode()
            host.send_signal(signal.SIGTERM)
            _, log = host.communicate(timeout=SECONDS)
            assert host.returncode in {0, -signal.SIGTERM}, log.decode()
            # One test fails on purpose: with an exception, and with another one that it causes.
            assert log.count(b"Traceback (most recent") == 3 * log.count(b"OSError: the disk is gone"), log.decode()
        finally:
            host.kill()


@asynccontextmanager
async def connected(root: str, revision: Revision, handlers: Handlers | None = None) -> AsyncIterator[Client]:
    """Connect with a revision: with HTTP+SSE if it has only that."""
    url = root + ("/sse" if revision.http_sse else "/mcp")
    with trio.fail_after(SECONDS):
        async with open_http(url, revisions=[revision], handlers=handlers or Handlers()) as client:
            yield client


async def elicit(_: object) -> ElicitationAccepted[Name]:
    return ElicitationAccepted(Name("Ada"))


async def sample(_: object) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")


@_EACH_REVISION
async def test_functions_of_each_kind_return_results(root: str, revision: Revision) -> None:
    async with connected(root, revision) as client:
        assert (await client.call_tool("variables", returns=list[str])).data == ["tools/call", "host", "state"]
        assert (await client.call_tool("query")).text == "connection"
        assert "connection closed" in (await client.call_tool("events", returns=list[str])).data
        for uri, text in (("features://item", "item"), ("features://numbered/7", "7")):
            (contents,) = (await client.read_resource(uri)).contents
            assert isinstance(contents, TextResourceContents)
            assert contents.text == text
        (message,) = (await client.get_prompt("poem", {"of": "rain"})).messages
        assert message.content == TextContent(text="About rain")
        if revision is not R2024_11_05:
            assert (await client.complete(PromptReference(name="poem"), "of", "s")).values == ("snow",)


@_EACH_REVISION
async def test_access_function_hides_tool(root: str, revision: Revision) -> None:
    async with connected(root, revision) as client:
        assert "secret" not in [tool.name for tool in await client.list_tools()]
        with pytest.raises(RequestFailed):
            await client.call_tool("secret")


@_EACH_REVISION
async def test_progress_and_log_precede_result(root: str, revision: Revision) -> None:
    progress: list[float] = []
    logged: list[object] = []
    with trio.fail_after(SECONDS):
        async with open_http(
            root + ("/sse" if revision.http_sse else "/mcp"),
            revisions=[revision],
            handlers=Handlers(notifications={NOTIFICATIONS_MESSAGE: lambda params: logged.append(params.data)}),
            log_level="info",
        ) as client:
            result = await client.call_tool("steps", on_progress=lambda at, total, message: progress.append(at))
            assert result.text == "done"
    assert progress == [1, 2, 3]
    assert logged == ["step 1", "step 2", "step 3"]


@_EACH_REVISION
async def test_exceptions_become_errors_of_tool(root: str, revision: Revision) -> None:
    async with connected(root, revision) as client:
        for tool in ("slow", "fail"):
            with pytest.raises(ToolFailed, match=tool):
                await client.call_tool(tool)


@_WITH_FORMS
async def test_elicitation_and_sampling_at_once_return_both(root: str, revision: Revision) -> None:
    async with connected(root, revision, Handlers(elicit=elicit, sample=sample)) as client:
        assert (await client.call_tool("greet")).text == "Hello, Ada"


@_EACH_REVISION
async def test_call_cancelled_by_client_cancels_function(root: str, revision: Revision) -> None:
    async with connected(root, revision) as client:
        before = (await client.call_tool("events", returns=list[str])).data.count("wait cancelled")
        with trio.CancelScope() as scope:
            await client.call_tool("wait", on_progress=lambda *_: scope.cancel())
        while (await client.call_tool("events", returns=list[str])).data.count("wait cancelled") == before:
            await trio.lowlevel.checkpoint()


@_EACH_REVISION
async def test_listener_receives_changes(root: str, revision: Revision) -> None:
    async with connected(root, revision) as client:
        found: list[Change] = []
        async with client.listen(uris=["features://item"], tools=True) as changes:
            await client.call_tool("change")
            async for change in changes:
                found.append(change)
                if {each.kind for each in found} == {ChangeKind.RESOURCE, ChangeKind.TOOLS}:
                    break
        assert "features://item" in [each.uri for each in found]


@_EACH_ERA
async def test_task_returns_result_or_is_cancelled(root: str, revision: Revision) -> None:
    async with connected(root, revision) as client:
        assert (await (await client.start_task("work")).wait()).text == "worked"
        task = await client.start_task("work", {"ends": False})
        before = (await client.call_tool("events", returns=list[str])).data.count("work cancelled")
        await task.cancel()
        while (await client.call_tool("events", returns=list[str])).data.count("work cancelled") == before:
            await trio.lowlevel.checkpoint()


async def test_released_stream_is_resumed_with_result(root: str) -> None:
    async with connected(root, R2025_11_25) as client:
        assert (await client.call_tool("release")).text == "resumed"


async def test_standalone_stream_resumed_has_missed_notifications(root: str) -> None:
    client: JsonObject = {"name": "raw", "version": "0"}
    params: JsonObject = {"protocolVersion": R2025_11_25.name, "capabilities": {}, "clientInfo": client}
    with trio.fail_after(SECONDS):
        opened = await RawExchange.start(*legacy(root, None, "initialize", params))
        await opened.body()
        session = opened.headers["mcp-session-id"]
        url, post, headers, body = legacy(root, session, "tools/call", {"name": "change", "arguments": {}})
        notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        await (await RawExchange.start(url, post, headers, notification)).body()
        listening = {"accept": "text/event-stream", "mcp-session-id": session}
        stream = await RawExchange.start(url, "GET", listening)
        primed = await stream.event()
        assert primed is not None
        await stream.leave()
        # The notification is sent while no stream is open.
        await (await RawExchange.start(url, post, headers, body)).body()
        stream = await RawExchange.start(url, "GET", {**listening, "last-event-id": str(primed.id)})
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        await stream.leave()


@_EACH_ERA
async def test_token_verifier_names_principal_or_rejects(root: str, revision: Revision) -> None:
    url, revisions = f"{root}/protected", [revision]
    with trio.fail_after(SECONDS):
        async with open_http(url, revisions=revisions, headers={"Authorization": "Bearer ada"}) as client:
            assert (await client.call_tool("user")).text == "ada"
        with pytest.raises(McpError, match="401"):
            async with open_http(url, revisions=revisions, headers={"Authorization": "Bearer invalid"}):
                pass
