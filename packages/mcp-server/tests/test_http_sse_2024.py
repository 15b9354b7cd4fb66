"""The endpoint pair of HTTP+SSE, over the ASGI interface in memory."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
import trio
import trio.testing
from http_hosts import served

from mcp_core.framing.sse import Event, SseParser
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.oauth.principal import Principal
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_03_26, R2025_11_25, Revision
from mcp_server import Context, Server
from mcp_server.connection.authenticator import Identity
from mcp_server.transports.http.sse_2024 import SsePair

HOST = ("host", "localhost:8000")
LIMITS = Limits()


def identity_of(name: str | None) -> Identity:
    return Identity(principal=None if name is None else Principal(subject=name))


class Client:
    """A client with one event stream that posts to the announced endpoint."""

    def __init__(self, pair: SsePair, principal: str | None = None) -> None:
        self.pair = pair
        self.principal = principal
        self.status = 0
        self.headers = Headers()
        self.events: list[Event] = []
        self.comments = 0
        self.ended = False
        self.leave = trio.Event()
        self.reads = trio.Event()
        self.reads.set()
        self.broken = False
        self._request_received = False
        self._parser = SseParser(LIMITS)
        self._arrived = trio.Event()
        self._last_id = 0

    async def run(self, *headers: tuple[str, str], method: str = "GET", root_path: str = "") -> None:
        request = HttpRequest(method=method, target="/sse", headers=Headers((HOST, *headers)))
        identity = identity_of(self.principal)
        await self.pair.serve_stream(request, self._receive, self._send, identity=identity, root_path=root_path)
        self.ended = True
        self._arrived.set()

    async def _receive(self) -> MutableMapping[str, object]:
        if not self._request_received:
            self._request_received = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, object]) -> None:
        if self.broken:
            raise OSError("gone")
        if message["type"] == "http.response.start":
            self.status = int(str(message["status"]))
            self.headers = Headers.from_raw(message["headers"])  # type: ignore[arg-type]  # pairs of bytes
            return
        await self.reads.wait()
        data = message.get("body", b"")
        assert isinstance(data, bytes)
        self.comments += data.startswith(b":")
        if self.status == 200:
            self.events += [event for event in self._parser.receive_data(data) if isinstance(event, Event)]
        else:
            self.events.append(Event(data=data))
        self._arrived.set()

    async def event(self, number: int) -> Event:
        while len(self.events) <= number:
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self.events[number]

    @property
    def session(self) -> str:
        return parse_qs(urlsplit(self.events[0].data.decode()).query)["session"][0]

    async def response(self, id: JsonValue) -> JsonObject:
        number = 1
        while True:
            message: JsonObject = json.loads((await self.event(number)).data)
            if message.get("id") == id and "method" not in message:
                return message
            number += 1

    # --- out

    async def post(self, message: JsonValue, *headers: tuple[str, str], session: str | None = None) -> int:
        return (
            await post(
                self.pair, json.dumps(message).encode(), self.target(session), *headers, principal=self.principal
            )
        )[0]

    def target(self, session: str | None = None) -> str:
        return f"/messages?session={session or self.session}"

    async def call(self, method: str, params: JsonObject | None = None) -> JsonObject:
        self._last_id += 1
        id = self._last_id
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        assert await self.post(message) == 202
        return await self.response(id)

    async def open(self, revision: Revision = R2024_11_05) -> JsonObject:
        params: JsonObject = {
            "protocolVersion": revision.name,
            "capabilities": {"sampling": {}},
            "clientInfo": {"name": "raw", "version": "0"},
        }
        answer = await self.call("initialize", params)
        assert await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        result = answer["result"]
        assert isinstance(result, dict)
        return result


async def post(
    pair: SsePair,
    body: bytes,
    target: str,
    *headers: tuple[str, str],
    principal: str | None = None,
    method: str = "POST",
    cut: bool = False,
) -> tuple[int, bytes]:
    """Post in two parts, and return the status and the body. `cut` disconnects before the second part."""
    given = {"content-type": "application/json", **dict((HOST,)), **dict(headers)}
    request = HttpRequest(method=method, target=target, headers=Headers(given.items()))
    parts: list[MutableMapping[str, object]] = [
        {"type": "http.request", "body": body[:10], "more_body": True},
        {"type": "http.disconnect"} if cut else {"type": "http.request", "body": body[10:]},
    ]
    status, response_body = 0, b""

    async def receive() -> MutableMapping[str, object]:
        return parts.pop(0)

    async def send(message: MutableMapping[str, object]) -> None:
        nonlocal status, response_body
        if message["type"] == "http.response.start":
            status = int(str(message["status"]))
        else:
            part = message.get("body", b"")
            assert isinstance(part, bytes)
            response_body += part

    await pair.serve_post(request, receive, send, identity=identity_of(principal))
    return status, response_body


def make_pair(server: Server, policy: EndpointPolicy | None = None, limits: Limits | None = None) -> SsePair:
    legacy = attrs.evolve(limits or LIMITS)
    server.revisions = tuple(LEGACY)  # type: ignore[misc]  # the server is used by this pair only
    server.limits = legacy  # type: ignore[misc]
    return SsePair(server._service, server.connection, policy or EndpointPolicy(), legacy)


@asynccontextmanager
async def connected(
    pair: SsePair, principal: str | None = None, *, root_path: str = "", seconds: float = 30
) -> AsyncIterator[Client]:
    client = Client(pair, principal)
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.run(root_path=root_path))
            await client.event(0)
            yield client
            client.leave.set()
    assert client.ended


@pytest.fixture
def server() -> Server:
    server = Server("old", version="0", async_library="trio")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def think(context: Context) -> str:
        return (await context.sample("?", max_tokens=1)).model

    return server


@pytest.mark.spec(
    "http-sse.two-endpoints", "http-sse.endpoint-event", "http-sse.message-events", "http-sse.compat-server-both"
)
@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_post_to_announced_endpoint_answered_on_stream(server: Server, revision: Revision) -> None:
    async with connected(make_pair(server), root_path="/app") as client:
        assert client.status == 200
        assert client.headers.get("content-type") == "text/event-stream"
        endpoint = client.events[0]
        assert endpoint.event == "endpoint"
        assert endpoint.data.startswith(b"/app/messages?session=")
        result = await client.open(revision)
        assert result["protocolVersion"] == revision.name
        answer = await client.call("tools/call", {"name": "echo", "arguments": {"text": "ü"}})
        assert answer["result"] == {"content": [{"type": "text", "text": "ü"}]}
        assert {event.event for event in client.events[1:]} == {"message"}


async def test_session_id_has_128_bits_of_entropy(server: Server) -> None:
    pair = make_pair(server)
    sessions = set()
    for _ in range(20):
        async with connected(pair) as client:
            sessions.add(client.session)
    assert len(sessions) == 20
    assert min(map(len, sessions)) * math.log2(64) >= 128


async def test_client_request_on_stream_answered_by_post(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        await client.open()
        call: JsonObject = {"jsonrpc": "2.0", "id": "t", "method": "tools/call", "params": {"name": "think"}}
        assert await client.post(call) == 202
        client_request = json.loads((await client.event(2)).data)
        assert client_request["method"] == "sampling/createMessage"
        result: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m-1"}
        assert await client.post({"jsonrpc": "2.0", "id": client_request["id"], "result": result}) == 202
        assert (await client.response("t"))["result"] == {"content": [{"type": "text", "text": "m-1"}]}


async def test_context_http_is_request_of_call(server: Server) -> None:
    @server.tool
    async def header(context: Context) -> str:
        return str(context.http and context.http.headers.get("x-who"))

    async with connected(make_pair(server)) as client:
        await client.open(R2025_03_26)
        call: JsonObject = {"jsonrpc": "2.0", "id": "h", "method": "tools/call", "params": {"name": "header"}}
        assert await client.post(call, ("x-who", "Ann")) == 202
        single = json.loads((await client.event(2)).data)
        assert await client.post([{**call, "id": "i"}], ("x-who", "Bob")) == 202
        several = json.loads((await client.event(3)).data)
        texts = [answer["result"]["content"][0]["text"] for answer in (single, *several)]
        assert texts == ["Ann", "Bob"]


async def test_change_notification_sent_on_stream(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        await client.open()
        server.remove_tool("echo")
        assert json.loads((await client.event(2)).data)["method"] == "notifications/tools/list_changed"


@pytest.mark.spec("http-sse.multiple-clients")
async def test_clients_receive_their_own_responses(server: Server) -> None:
    pair = make_pair(server)
    async with connected(pair) as other, connected(pair) as client:
        assert len(pair) == 2
        for each in (client, other):
            await each.open()
        for each, text in ((client, "one"), (other, "two")):
            answer = await each.call("tools/call", {"name": "echo", "arguments": {"text": text}})
            assert answer["result"] == {"content": [{"type": "text", "text": text}]}
        assert len(client.events) == len(other.events) == 3
        client.leave.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(pair) == 1
        assert await client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"}) == 404
        await other.call("ping")
    assert len(pair) == 0


async def test_session_of_other_principal_returns_404(server: Server) -> None:
    pair = make_pair(server)
    async with connected(pair, "ann") as client:
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        unknown = await post(pair, ping, client.target("unknown"), principal="ann")
        assert unknown[0] == 404
        assert b"session not found" in unknown[1]
        for principal in ("bob", None):
            assert await post(pair, ping, client.target(), principal=principal) == unknown
        assert await post(pair, ping, "/messages", principal="ann") == unknown
        assert (await post(pair, ping, client.target(), principal="ann"))[0] == 202


# --- rejections -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http-sse.origin-validate")
@pytest.mark.parametrize(
    "header", [("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")]
)
async def test_foreign_host_or_origin_rejected_on_both_endpoints(server: Server, header: tuple[str, str]) -> None:
    pair = make_pair(server)
    foreign_client = Client(pair)
    headers = [header] if header[0] != "host" else []
    request = HttpRequest(method="GET", target="/sse", headers=Headers([header] if not headers else [HOST, header]))
    await pair.serve_stream(request, foreign_client._receive, foreign_client._send)
    assert foreign_client.status == 403
    async with connected(pair) as client:
        assert await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, header) == 403
        assert len(client.events) == 1


@pytest.mark.parametrize(("method", "allowed"), [("POST", "GET"), ("DELETE", "GET")])
async def test_stream_endpoint_with_other_method_returns_405(server: Server, method: str, allowed: str) -> None:
    client = Client(make_pair(server))
    await client.run(("content-type", "application/json"), method=method)
    assert client.status == 405
    assert allowed in (client.headers.get("allow") or "")


async def test_message_endpoint_with_get_returns_405(server: Server) -> None:
    assert (await post(make_pair(server), b"", "/messages?session=x", method="GET"))[0] == 405


async def test_stream_without_event_stream_accepted_returns_406(server: Server) -> None:
    client = Client(make_pair(server))
    await client.run(("accept", "application/json"))
    assert client.status == 406


async def test_invalid_or_large_body_rejected(server: Server) -> None:
    pair = make_pair(server, limits=Limits(message_bytes=1_000))
    async with connected(pair) as client:
        assert (await post(pair, b"{" * 20, client.target()))[0] == 400
        status, response_body = await post(pair, b" " * 2_000, client.target())
        assert status == 413
        assert b"Limits.message_bytes" in response_body
        assert (await post(pair, b"{}" * 20, client.target(), ("content-type", "text/plain")))[0] == 415
        assert (await post(pair, b"{}" * 20, client.target(), cut=True))[0] == 400
        assert len(client.events) == 1


@pytest.mark.spec("version.unsupported-error")
async def test_error_of_rejected_post_has_null_id_by_revision(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        for revision, null in ((None, True), (R2024_11_05, True), (LEGACY[-1], False)):
            if revision is not None:
                await client.open(revision)
            status, response_body = await post(client.pair, b"{", client.target())
            assert status == 400
            assert ("id" in json.loads(response_body)) is null


async def test_modern_request_returns_400_with_supported_revisions(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        meta: JsonObject = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).encode()
        status, response_body = await post(client.pair, body, client.target())
        assert status == 400
        assert b"2026-07-28" in response_body
        assert b"2024-11-05" in response_body


async def test_batch_accepted_only_in_2025_03_26(server: Server) -> None:
    pings: JsonValue = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("a", "b")]
    pair = make_pair(server)
    async with connected(pair) as client:
        await client.open(R2025_03_26)
        assert await client.post(pings) == 202
        answers = json.loads((await client.event(2)).data)
        assert [answer["id"] for answer in answers] == ["a", "b"]
        client.leave.set()
    async with connected(pair) as client:
        await client.open(R2025_11_25)
        assert await client.post(pings) == 202
        assert json.loads((await client.event(2)).data)["error"]["code"] == -32600


async def test_sessions_over_limit_return_503(server: Server) -> None:
    pair = make_pair(server, limits=Limits(sessions=1))
    async with connected(pair):
        late = Client(pair)
        await late.run()
        assert late.status == 503
        assert late.headers.get("retry-after")
        assert b"Limits.sessions" in late.events[0].data
    async with connected(pair):
        assert len(pair) == 1


# --- lifetime ---------------------------------------------------------------------------------------------------------


async def test_disconnect_cancels_handlers(server: Server) -> None:
    started, cancelled = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with connected(make_pair(server)) as client:
        await client.open()
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "hang"}})
        await started.wait()
        client.leave.set()
        await cancelled.wait()


async def test_second_initialize_begins_new_session(server: Server) -> None:
    started, cancelled = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with connected(make_pair(server)) as client:
        await client.open()
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "hang"}})
        await started.wait()
        assert (await client.open(R2025_03_26))["protocolVersion"] == "2025-03-26"
        await cancelled.wait()
        call: JsonObject = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
        await client.post([call])
        assert json.loads((await client.event(3)).data) == [{"jsonrpc": "2.0", "id": 9, "result": {}}]


async def test_failed_send_ends_session(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        await client.open()
        client.broken = True
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        assert client.ended


async def test_silent_stream_has_keep_alive_comments(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(make_pair(server, EndpointPolicy(keep_alive=10)), seconds=1_000) as client:
        await trio.sleep(25)
        assert client.comments == 2
        await client.call("ping")
        await trio.sleep(9)
        assert client.comments == 2
        await trio.sleep(2)
        assert client.comments == 3


async def test_request_queue_full_responds_with_error_on_stream(server: Server) -> None:
    go = trio.Event()

    @server.tool
    async def wait() -> str:
        await go.wait()
        return ""

    pair = make_pair(server, limits=Limits(running_requests=1, waiting_requests=1))
    async with connected(pair) as client:
        await client.open()
        message: JsonObject = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "wait"}}
        for id in (11, 12, 13):
            assert await client.post({**message, "id": id}) == 202
            await trio.testing.wait_all_tasks_blocked()
        error = (await client.response(13))["error"]
        assert isinstance(error, dict)
        assert "2 is over the limit of 1; the setting is Limits.waiting_requests" in str(error["message"])
        assert (await client.call("ping"))["result"] == {}
        # A cancellation does not wait in the queue, and it frees a place there.
        assert (
            await client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12}})
            == 202
        )
        assert await client.post({**message, "id": 14}) == 202
        go.set()
        for id in (11, 14):
            assert "result" in await client.response(id)


@pytest.mark.parametrize("body", ['"result":5', '"result":null', '"error":"no"', '"result":{"a":NaN}', '"nothing":1'])
async def test_unreadable_response_fails_client_request(server: Server, body: str) -> None:
    pair = make_pair(server)
    async with connected(pair) as client:
        await client.open()
        call: JsonObject = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "think"}}
        assert await client.post(call) == 202
        client_request = json.loads((await client.event(2)).data)
        assert client_request["method"] == "sampling/createMessage"
        bad = f'{{"jsonrpc":"2.0","id":{json.dumps(client_request["id"])},{body}}}'
        status, _ = await post(pair, bad.encode(), client.target())
        assert status == 400
        error = (await client.response("c"))["error"]
        assert isinstance(error, dict)
        assert "the peer's response cannot be read" in str(error["message"])


async def test_posts_of_client_that_reads_nothing_are_delayed(server: Server) -> None:
    statuses: list[int] = []

    async def send_pings(client: Client) -> None:
        for id in range(100):
            status = await client.post({"jsonrpc": "2.0", "id": f"p{id}", "method": "ping"})
            statuses.append(status)

    pair = make_pair(server, limits=Limits(outgoing_bytes=1_000))
    async with connected(pair) as client, trio.open_nursery() as nursery:
        await client.open()
        client.reads = trio.Event()
        nursery.start_soon(send_pings, client)
        await trio.testing.wait_all_tasks_blocked()
        assert 5 < len(statuses) < 40
        client.reads.set()
        await client.response("p99")
        assert len(client.events) == 102
    assert set(statuses) == {202}


async def test_drain_completes_requests_until_timeout(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    started = trio.Event()

    @server.tool
    async def work(seconds: float) -> str:
        started.set()
        await trio.sleep(seconds)
        return "done"

    pair = make_pair(server)
    async with connected(pair) as client:
        await client.open()
        for id, seconds in (("short", 3), ("long", 100)):
            params: JsonObject = {"name": "work", "arguments": {"seconds": seconds}}
            await client.post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        await started.wait()
        await pair.drain(5)
        assert "result" in await client.response("short")
        assert [json.loads(event.data)["id"] for event in client.events[2:]] == ["short"]
        late = Client(pair)
        await late.run()
        assert late.status == 503
        await pair.drain(5)


async def test_blocked_client_does_not_delay_end_of_session(
    server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    pair = make_pair(server)
    async with connected(pair) as client:
        await client.open()
        client.reads = trio.Event()
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        client.leave.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(pair) == 0


# --- all hosts --------------------------------------------------------------------------------------------------------


async def _send_raw(url: str, text: str) -> trio.SocketStream:
    parts = urlsplit(url)
    stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or 0)
    await stream.send_all(text.encode())
    return stream


async def _until(stream: trio.SocketStream, end: bytes) -> bytes:
    text = b""
    while end not in text:
        portion = await stream.receive_some()
        assert portion, text
        text += portion
    return text


async def _post(url: str, endpoint: str, method: str, id: int | None = None, params: JsonObject | None = None) -> None:
    message = json.dumps(
        {"jsonrpc": "2.0", "method": method, **({} if id is None else {"id": id}), "params": params or {}}
    )
    head = f"POST {endpoint} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\ncontent-type: application/json\r\n"
    async with await _send_raw(url, f"{head}content-length: {len(message)}\r\n\r\n{message}") as posted:
        assert (await _until(posted, b"\r\n")).startswith(b"HTTP/1.1 202")


async def test_host_of_each_kind_serves_http_sse(server: Server, host: str) -> None:
    started, cancelled = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    app = server.asgi(legacy_sse=True)
    async with served(app, host) as url:
        prefix = urlsplit(url).path
        async with await _send_raw(url, f"GET {prefix}/sse HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\n\r\n") as stream:
            found = re.search(rb"event: endpoint\ndata: (\S+)", await _until(stream, b"\n\n"))
            assert found is not None
            endpoint = found[1].decode()
            assert endpoint.startswith(f"{prefix}/messages?session=")
            params: JsonObject = {
                "protocolVersion": "2024-11-05",
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "0"},
            }
            await _post(url, endpoint, "initialize", 7, params)
            assert b'data: {"jsonrpc":"2.0","id":7,"result":{' in await _until(stream, b"\n\n")
            await _post(url, endpoint, "notifications/initialized")
            await _post(url, endpoint, "tools/call", 8, {"name": "hang"})
            await started.wait()
            assert app.sessions == 1
        await cancelled.wait()
