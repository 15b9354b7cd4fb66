"""The endpoint on each host, over sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import h11
import pytest
from asgi_host import BOTH, as_object
from controlled_server import ControlledServer, text_of, until
from http_hosts import served
from raw_exchange import OPEN, RawExchange, legacy

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_11_25, R2026_07_28

META: JsonObject = {
    "io.modelcontextprotocol/protocolVersion": R2026_07_28.name,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(autouse=True)
async def _closed() -> AsyncIterator[None]:
    yield
    while OPEN:
        await OPEN.pop().aclose()


def modern(url: str, tool: str, **arguments: JsonValue) -> tuple[str, str, dict[str, str], bytes]:
    params: JsonObject = {"name": tool, "arguments": arguments, "_meta": {**META, "progressToken": 1}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "MCP-Protocol-Version": R2026_07_28.name,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    return url + "/mcp", "POST", headers, body


async def test_modern_requests_answered_streamed_and_cancelled(host: str) -> None:
    tools = ControlledServer()
    async with served(tools.server.asgi(), host) as url:
        reply = await RawExchange.start(*modern(url, "echo", text="hi"))
        assert text_of(await reply.json()) == "hi"
        assert reply.headers["content-type"] == "application/json"
        reply = await RawExchange.start(*modern(url, "steps", name="a"))
        assert (await reply.message())["method"] == "notifications/progress"
        tools.let("a1")
        assert (await reply.message())["method"] == "notifications/progress"
        tools.let("a2")
        assert text_of(await reply.message()) == "a"
        assert await reply.event() is None
        for tool in ("hold", "steps"):
            reply = await RawExchange.start(*modern(url, tool, name=f"left {tool}"))
            await tools.until_running(f"left {tool}")
            await reply.leave()
            await until(lambda tool=tool: f"left {tool}" in tools.cancelled)  # type: ignore[misc]  # mypy does not infer the default


async def test_slow_response_becomes_stream_with_keep_alive_comments(host: str) -> None:
    tools = ControlledServer()
    policy = EndpointPolicy(stream_after=0.05, keep_alive=0.05)
    async with served(tools.server.asgi(policy=policy), host) as url:
        reply = await RawExchange.start(*modern(url, "hold", name="a"))
        comments = 0
        while comments < 3:
            event = await reply._next()
            comments += isinstance(event, h11.Data)
        tools.let("a")
        assert text_of(await reply.message()) == "a"


async def test_subscription_notified_until_drain(host: str) -> None:
    tools = ControlledServer()
    app = tools.server.asgi()
    async with served(app, host) as url:
        body: JsonObject = {
            "jsonrpc": "2.0",
            "id": "s",
            "method": "subscriptions/listen",
            "params": {"notifications": {"toolsListChanged": True}, "_meta": META},
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": BOTH,
            "MCP-Protocol-Version": R2026_07_28.name,
            "Mcp-Method": "subscriptions/listen",
        }
        first = await RawExchange.start(url + "/mcp", "POST", headers, json.dumps(body).encode())
        assert (await first.message())["method"] == "notifications/subscriptions/acknowledged"
        second = await RawExchange.start(url + "/mcp", "POST", headers, json.dumps(body).encode())
        await second.message()
        await first.leave()
        await until(lambda: app.running == 1)
        tools.server.remove_tool("fail")
        assert (await second.message())["method"] == "notifications/tools/list_changed"
        await app.drain(5)
        assert (await second.message())["id"] == "s"
        assert await second.event() is None


async def test_session_streams_resumption_and_client_requests(host: str) -> None:
    tools = ControlledServer()
    app = tools.server.asgi(policy=EndpointPolicy(retry=0.001))
    async with served(app, host) as url:
        params: JsonObject = {
            "protocolVersion": R2025_11_25.name,
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "raw", "version": "0"},
        }
        reply = await RawExchange.start(*legacy(url, None, "initialize", params))
        assert as_object((await reply.json())["result"])["protocolVersion"] == R2025_11_25.name
        session = reply.headers["mcp-session-id"]
        initialized = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        target, method, headers, _ = legacy(url, session, "ping", {})
        reply = await RawExchange.start(target, method, headers, initialized)
        assert (await reply.body(), reply.status) == (b"", 202)

        listening = {"Accept": "text/event-stream", "Mcp-Session-Id": session}
        standalone = await RawExchange.start(target, "GET", listening)
        await standalone.event()
        tools.server.remove_tool("fail")
        assert (await standalone.message())["method"] == "notifications/tools/list_changed"

        call: JsonObject = {"name": "release", "arguments": {"name": "a"}, "_meta": {"progressToken": 1}}
        reply = await RawExchange.start(*legacy(url, session, "tools/call", call, 2))
        events = []
        while (event := await reply.event()) is not None:
            events.append(event)
        assert events[-1].retry == 1
        again = await RawExchange.start(target, "GET", {**listening, "Last-Event-ID": str(events[-1].id)})
        tools.let("a")
        assert (await again.message())["method"] == "notifications/progress"
        assert text_of(await again.message()) == "a"
        assert await again.event() is None

        reply = await RawExchange.start(*legacy(url, session, "tools/call", {"name": "look", "arguments": {}}, 3))
        client_request = await reply.message()
        answer = json.dumps({"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": []}}).encode()
        accepted = await RawExchange.start(target, method, headers, answer)
        await accepted.body()
        assert accepted.status == 202
        assert text_of(await reply.message()) == "0"

        # A disconnect does not cancel the request, and the client can resume its stream.
        call = {"name": "steps", "arguments": {"name": "b"}, "_meta": {"progressToken": 2}}
        reply = await RawExchange.start(*legacy(url, session, "tools/call", call, 4))
        primed = await reply.event()
        assert primed is not None
        await reply.message()
        await reply.leave()
        again = await RawExchange.start(target, "GET", {**listening, "Last-Event-ID": str(primed.id)})
        await again.message()
        tools.let("b1", "b2")
        await again.message()
        assert text_of(await again.message()) == "b"

        ended = await RawExchange.start(target, "DELETE", listening)
        await ended.body()
        assert ended.status == 200
        assert await standalone.event() is None
        assert app.sessions == 0
