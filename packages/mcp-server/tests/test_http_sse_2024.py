"""The server's endpoint pair of HTTP+SSE, over the ASGI interface in memory."""

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


def known_as(name: str | None) -> Identity:
    return Identity(principal=None if name is None else Principal(subject=name))


class Client:
    """One stream, and POSTs to where it says."""

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
        self._asked = False
        self._parser = SseParser(LIMITS)
        self._arrived = trio.Event()
        self._last_id = 0

    async def run(self, *headers: tuple[str, str], method: str = "GET", root_path: str = "") -> None:
        request = HttpRequest(method=method, target="/sse", headers=Headers((HOST, *headers)))
        identity = known_as(self.principal)
        await self.pair.serve_stream(request, self._receive, self._send, identity=identity, root_path=root_path)
        self.ended = True
        self._arrived.set()

    async def _receive(self) -> MutableMapping[str, object]:
        if not self._asked:
            self._asked = True
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
    """Posts in two portions; `cut`: and leaves before the second."""
    given = {"content-type": "application/json", **dict((HOST,)), **dict(headers)}
    request = HttpRequest(method=method, target=target, headers=Headers(given.items()))
    parts: list[MutableMapping[str, object]] = [
        {"type": "http.request", "body": body[:10], "more_body": True},
        {"type": "http.disconnect"} if cut else {"type": "http.request", "body": body[10:]},
    ]
    status, said = 0, b""

    async def receive() -> MutableMapping[str, object]:
        return parts.pop(0)

    async def send(message: MutableMapping[str, object]) -> None:
        nonlocal status, said
        if message["type"] == "http.response.start":
            status = int(str(message["status"]))
        else:
            part = message.get("body", b"")
            assert isinstance(part, bytes)
            said += part

    await pair.serve_post(request, receive, send, identity=known_as(principal))
    return status, said


def make_pair(server: Server, policy: EndpointPolicy | None = None, limits: Limits | None = None) -> SsePair:
    legacy = attrs.evolve(limits or LIMITS)
    server.revisions = tuple(LEGACY)  # type: ignore[misc]  # a server of its own for this pair
    server.limits = legacy  # type: ignore[misc]
    return SsePair(server._service, server.connection, policy or EndpointPolicy(), legacy)


@asynccontextmanager
async def connected(
    pair: SsePair, principal: str | None = None, *, root_path: str = "", patience: float = 30
) -> AsyncIterator[Client]:
    client = Client(pair, principal)
    with trio.fail_after(patience):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.run(root_path=root_path))
            await client.event(0)
            yield client
            client.leave.set()
    assert client.ended


@pytest.fixture
def server() -> Server:
    server = Server("old", version="0")

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
async def test_a_client_posts_where_the_stream_says_and_reads_the_answers_there(
    server: Server, revision: Revision
) -> None:
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


async def test_a_session_cannot_be_guessed(server: Server) -> None:
    pair = make_pair(server)
    sessions = set()
    for _ in range(20):
        async with connected(pair) as client:
            sessions.add(client.session)
    assert len(sessions) == 20
    assert min(map(len, sessions)) * math.log2(64) >= 128


async def test_the_server_asks_on_the_stream_and_the_answer_is_posted(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        await client.open()
        call: JsonObject = {"jsonrpc": "2.0", "id": "t", "method": "tools/call", "params": {"name": "think"}}
        assert await client.post(call) == 202
        question = json.loads((await client.event(2)).data)
        assert question["method"] == "sampling/createMessage"
        result: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m-1"}
        assert await client.post({"jsonrpc": "2.0", "id": question["id"], "result": result}) == 202
        assert (await client.response("t"))["result"] == {"content": [{"type": "text", "text": "m-1"}]}


async def test_a_handler_sees_the_request_that_its_call_came_in(server: Server) -> None:
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
        said = [answer["result"]["content"][0]["text"] for answer in (single, *several)]
        assert said == ["Ann", "Bob"]


async def test_clients_are_told_of_changes(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        await client.open()
        server.remove_tool("echo")
        assert json.loads((await client.event(2)).data)["method"] == "notifications/tools/list_changed"


@pytest.mark.spec("http-sse.multiple-clients")
async def test_each_client_gets_its_own_answers(server: Server) -> None:
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


async def test_a_session_of_somebody_else_looks_like_none(server: Server) -> None:
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


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http-sse.origin-validate")
@pytest.mark.parametrize(
    "header", [("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")]
)
async def test_strangers_are_refused_on_both_endpoints(server: Server, header: tuple[str, str]) -> None:
    pair = make_pair(server)
    stranger = Client(pair)
    headers = [header] if header[0] != "host" else []
    request = HttpRequest(method="GET", target="/sse", headers=Headers([header] if not headers else [HOST, header]))
    await pair.serve_stream(request, stranger._receive, stranger._send)
    assert stranger.status == 403
    async with connected(pair) as client:
        assert await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, header) == 403
        assert len(client.events) == 1


@pytest.mark.parametrize(("method", "allowed"), [("POST", "GET"), ("DELETE", "GET")])
async def test_the_stream_is_got(server: Server, method: str, allowed: str) -> None:
    client = Client(make_pair(server))
    await client.run(("content-type", "application/json"), method=method)
    assert client.status == 405
    assert allowed in (client.headers.get("allow") or "")


async def test_messages_are_posted(server: Server) -> None:
    assert (await post(make_pair(server), b"", "/messages?session=x", method="GET"))[0] == 405


async def test_a_client_has_to_take_a_stream(server: Server) -> None:
    client = Client(make_pair(server))
    await client.run(("accept", "application/json"))
    assert client.status == 406


async def test_a_body_that_is_no_message_or_too_large_is_refused(server: Server) -> None:
    pair = make_pair(server, limits=Limits(message_bytes=1_000))
    async with connected(pair) as client:
        assert (await post(pair, b"{" * 20, client.target()))[0] == 400
        status, said = await post(pair, b" " * 2_000, client.target())
        assert status == 413
        assert b"Limits.message_bytes" in said
        assert (await post(pair, b"{}" * 20, client.target(), ("content-type", "text/plain")))[0] == 415
        assert (await post(pair, b"{}" * 20, client.target(), cut=True))[0] == 400
        assert len(client.events) == 1


@pytest.mark.spec("version.unsupported-error")
async def test_error_without_id_in_the_refusal_of_a_post_has_the_form_of_the_session(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        for revision, null in ((None, True), (R2024_11_05, True), (LEGACY[-1], False)):
            if revision is not None:
                await client.open(revision)
            status, said = await post(client.pair, b"{", client.target())
            assert status == 400
            assert ("id" in json.loads(said)) is null


async def test_modern_requests_are_refused_by_name(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        meta: JsonObject = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).encode()
        status, said = await post(client.pair, body, client.target())
        assert status == 400
        assert b"2026-07-28" in said
        assert b"2024-11-05" in said


async def test_batches_are_for_clients_that_agreed_on_them(server: Server) -> None:
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


async def test_sessions_are_bounded(server: Server) -> None:
    pair = make_pair(server, limits=Limits(sessions=1))
    async with connected(pair):
        late = Client(pair)
        await late.run()
        assert late.status == 503
        assert late.headers.get("retry-after")
        assert b"Limits.sessions" in late.events[0].data
    async with connected(pair):
        assert len(pair) == 1


# --- life ----------------------------------------------------------------------------------------------------------


async def test_the_handlers_end_with_the_stream(server: Server) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with connected(make_pair(server)) as client:
        await client.open()
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "hang"}})
        await begun.wait()
        client.leave.set()
        await cancelled.wait()


async def test_second_initialize_on_one_stream_begins_a_new_session(server: Server) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with connected(make_pair(server)) as client:
        await client.open()
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "hang"}})
        await begun.wait()
        assert (await client.open(R2025_03_26))["protocolVersion"] == "2025-03-26"
        await cancelled.wait()
        call: JsonObject = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
        await client.post([call])
        assert json.loads((await client.event(3)).data) == [{"jsonrpc": "2.0", "id": 9, "result": {}}]


async def test_a_host_that_finds_the_client_gone_ends_the_session(server: Server) -> None:
    async with connected(make_pair(server)) as client:
        await client.open()
        client.broken = True
        await client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        assert client.ended


async def test_a_silent_stream_is_kept_alive(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(make_pair(server, EndpointPolicy(keep_alive=10)), patience=1_000) as client:
        await trio.sleep(25)
        assert client.comments == 2
        await client.call("ping")
        await trio.sleep(9)
        assert client.comments == 2
        await trio.sleep(2)
        assert client.comments == 3


async def test_a_request_for_which_there_is_no_room_is_refused_and_nothing_else(server: Server) -> None:
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
        # A cancellation does not wait either, and makes room.
        assert (
            await client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12}})
            == 202
        )
        assert await client.post({**message, "id": 14}) == 202
        go.set()
        for id in (11, 14):
            assert "result" in await client.response(id)


@pytest.mark.parametrize("body", ['"result":5', '"result":null', '"error":"no"', '"result":{"a":NaN}', '"nothing":1'])
async def test_a_handler_does_not_wait_for_an_answer_that_came_and_cannot_be_read(server: Server, body: str) -> None:
    pair = make_pair(server)
    async with connected(pair) as client:
        await client.open()
        call: JsonObject = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "think"}}
        assert await client.post(call) == 202
        question = json.loads((await client.event(2)).data)
        assert question["method"] == "sampling/createMessage"
        bad = f'{{"jsonrpc":"2.0","id":{json.dumps(question["id"])},{body}}}'
        status, _ = await post(pair, bad.encode(), client.target())
        assert status == 400
        error = (await client.response("c"))["error"]
        assert isinstance(error, dict)
        assert "the peer's response cannot be read" in str(error["message"])


async def test_a_client_that_asks_and_does_not_read_is_slowed(server: Server) -> None:
    statuses: list[int] = []

    async def ask(client: Client) -> None:
        for id in range(100):
            status = await client.post({"jsonrpc": "2.0", "id": f"p{id}", "method": "ping"})
            statuses.append(status)

    pair = make_pair(server, limits=Limits(outgoing_bytes=1_000))
    async with connected(pair) as client, trio.open_nursery() as nursery:
        await client.open()
        client.reads = trio.Event()
        nursery.start_soon(ask, client)
        await trio.testing.wait_all_tasks_blocked()
        assert 5 < len(statuses) < 40
        client.reads.set()
        await client.response("p99")
        assert len(client.events) == 102
    assert set(statuses) == {202}


async def test_a_stopping_server_lets_requests_end(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    begun = trio.Event()

    @server.tool
    async def work(seconds: float) -> str:
        begun.set()
        await trio.sleep(seconds)
        return "done"

    pair = make_pair(server)
    async with connected(pair) as client:
        await client.open()
        for id, seconds in (("short", 3), ("long", 100)):
            params: JsonObject = {"name": "work", "arguments": {"seconds": seconds}}
            await client.post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        await begun.wait()
        await pair.drain(5)
        assert "result" in await client.response("short")
        assert [json.loads(event.data)["id"] for event in client.events[2:]] == ["short"]
        late = Client(pair)
        await late.run()
        assert late.status == 503
        await pair.drain(5)


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end(
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


# --- on real hosts -------------------------------------------------------------------------------------------------


async def _sent(url: str, text: str) -> trio.SocketStream:
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
    async with await _sent(url, f"{head}content-length: {len(message)}\r\n\r\n{message}") as posted:
        assert (await _until(posted, b"\r\n")).startswith(b"HTTP/1.1 202")


async def test_the_pair_works_on_every_host(server: Server, host: str) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    app = server.asgi(legacy_sse=True)
    async with served(app, host) as url:
        prefix = urlsplit(url).path
        async with await _sent(url, f"GET {prefix}/sse HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\n\r\n") as stream:
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
            await begun.wait()
            assert app.sessions == 1
        await cancelled.wait()
