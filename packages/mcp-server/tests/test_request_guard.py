"""The request guard for other hosts: slow bodies, and requests of ambiguous length."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import h2.config
import h2.connection
import h2.events
import pytest
import trio
import trio.testing

from mcp_core.limits import Limits
from mcp_server import Server
from mcp_server.asgi import Application, Message, Receive, Scope, Send
from mcp_server.host.request_guard import RequestGuard
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.runners.hypercorn import serve_hypercorn

Clock = trio.testing.MockClock

TIMEOUTS: Final = HostTimeouts(body=10, body_rate=100)
LIMITS: Final = Limits(message_bytes=10_000)


class BodyReader:
    """An application that reads the body and responds with 200."""

    def __init__(self) -> None:
        self.body = b""
        self.disconnected = trio.Event()

    def combine(self, _: Application) -> Application:
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected.set()
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b"too late"})
                return
            part = message.get("body", b"")
            assert isinstance(part, bytes)
            self.body += part
            more = bool(message.get("more_body"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


class FakeHost:
    """The interface of a host: the parts of a body with pauses before each."""

    def __init__(self, *parts: tuple[float, bytes], complete: bool = True) -> None:
        self._parts = list(parts)
        self._complete = complete
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        if not self._parts:
            await trio.sleep_forever()
        pause, body = self._parts[0]
        await trio.sleep(pause)
        del self._parts[0]
        return {"type": "http.request", "body": body, "more_body": bool(self._parts) or not self._complete}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> object:
        assert [each["type"] for each in self.sent] == ["http.response.start", "http.response.body"]
        return self.sent[0]["status"]

    async def run(self, app: Application, *headers: tuple[bytes, bytes], version: str = "1.1") -> float:
        """Send a request through the guard and return its duration in seconds."""
        began = trio.current_time()
        guard = RequestGuard(app, limits=LIMITS, timeouts=TIMEOUTS)
        scope: Scope = {
            "type": "http",
            "http_version": version,
            "method": "POST",
            "path": "/",
            "headers": list(headers),
        }
        await guard(scope, self.receive, self.send)
        return trio.current_time() - began


async def test_body_above_minimum_rate_passed_on(autojump_clock: Clock) -> None:
    host, app = FakeHost((9, b"x" * 900), (9, b"y" * 100)), BodyReader()
    assert await host.run(app, (b"content-length", b"1000")) == 18
    assert (host.status, app.body) == (200, b"x" * 900 + b"y" * 100)


async def test_body_below_minimum_rate_returns_408(autojump_clock: Clock) -> None:
    host, app = FakeHost((9, b"one"), (9, b"two")), BodyReader()
    await host.run(app, (b"content-length", b"6"))
    assert (host.status, app.body) == (408, b"one")


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_dripping_body_returns_408_at_body_timeout(version: str, autojump_clock: Clock) -> None:
    host, app = FakeHost(*[(1.0, b"x")] * 1_000), BodyReader()
    took = await host.run(app, version=version)
    assert host.status == 408
    assert app.disconnected.is_set()
    assert 10 <= took <= 12
    assert ((b"connection", b"close") in host.sent[0]["headers"]) is (version == "1.1")  # type: ignore[operator]  # the types of ASGI are broad
    assert b"HostTimeouts.body" in host.sent[1]["body"]  # type: ignore[operator]  # the types of ASGI are broad


async def test_bytes_sent_at_once_earn_no_time(autojump_clock: Clock) -> None:
    host = FakeHost((0, b"x" * 9_999), complete=False)
    assert await host.run(BodyReader(), (b"content-length", b"10000")) == 10
    assert host.status == 408


async def test_body_of_unknown_length_has_time_of_longest_message(autojump_clock: Clock) -> None:
    host = FakeHost(*[(1.0, b"x" * 1_000)] * 1_000)
    assert await host.run(BodyReader()) == 10 + LIMITS.message_bytes / 100
    assert host.status == 408


async def test_application_time_not_counted_as_body_timeout(autojump_clock: Clock) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(1_000)
        await receive()
        await trio.sleep(1_000)
        await reader(scope, receive, send)

    host, reader = FakeHost((1, b"a"), (1, b"b"), (1, b"c")), BodyReader()
    await host.run(slow)
    assert (host.status, reader.body) == (200, b"bc")


async def test_reads_cancelled_by_application_count_as_body_timeout(autojump_clock: Clock) -> None:
    async def impatient(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(100):
            with trio.move_on_after(1):
                message = await receive()
                assert message["type"] == "http.disconnect"
                return

    host = FakeHost((math.inf, b""))
    assert await host.run(impatient) == 10
    assert host.status == 408


async def test_wait_for_disconnect_after_body_is_unlimited(autojump_clock: Clock) -> None:
    async def listening(scope: Scope, receive: Receive, send: Send) -> None:
        assert not (await receive()).get("more_body")
        with trio.move_on_after(1_000_000):
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    host = FakeHost((0, b""))
    await host.run(listening)
    assert host.status == 200


async def test_timeout_after_response_start_sends_no_second_response(autojump_clock: Clock) -> None:
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b""})

    host = FakeHost((1, b"a"), complete=False)
    await host.run(early)
    assert [each["type"] for each in host.sent] == ["http.response.start"]


@pytest.mark.parametrize(
    ("version", "headers", "status"),
    [
        ("1.1", [(b"content-length", b"1"), (b"transfer-encoding", b"chunked")], 400),
        ("1.0", [(b"transfer-encoding", b"chunked")], 400),
        ("9.9", [], 505),
        ("2.0", [], 505),
        ("0.9", [], 505),
    ],
)
async def test_request_of_ambiguous_length_not_passed_on(
    version: str, headers: list[tuple[bytes, bytes]], status: int, autojump_clock: Clock
) -> None:
    app = BodyReader()
    for parts in ([(0.0, b"x")], [(1.0, b"x")] * 1_000, [(0.0, b"x" * 5_000)] * 1_000):
        host = FakeHost(*parts)
        await host.run(app, *headers, version=version)
        assert host.status in (status, 408)
    assert app.body == b""


# --- Hypercorn --------------------------------------------------------------------------------------------------------

SHORT: Final = HostTimeouts(body=0.05)


@asynccontextmanager
async def hypercorn_of(app: BodyReader) -> AsyncIterator[trio.SocketStream]:
    """Connect to Hypercorn with a short body timeout."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_hypercorn, Server("s", version="1"), "127.0.0.1:0", timeouts=SHORT, companion=app)
            (url,) = await nursery.start(serve)
            port = int(url.removesuffix("/mcp").rpartition(":")[2])
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                yield stream
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("framing", [b"Content-Length: 4000000", b"Transfer-Encoding: chunked"])
async def test_hypercorn_closes_connection_of_stalled_body(framing: bytes) -> None:
    app = BodyReader()
    async with hypercorn_of(app) as stream:
        await stream.send_all(b"POST / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n1\r\nx\r\n" % framing)
        found = b"".join([bytes(data) async for data in stream])
    assert found.startswith(b"HTTP/1.1 408 ")
    assert app.disconnected.is_set()


async def test_hypercorn_ends_http_2_stream_of_stalled_body() -> None:
    app = BodyReader()
    async with hypercorn_of(app) as stream:
        client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        client.initiate_connection()
        head = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "h")]
        client.send_headers(1, head)
        client.send_data(1, b"x")
        assert await h2_status(client, stream, 1) == "408"
        client.send_headers(3, head, end_stream=True)
        assert await h2_status(client, stream, 3) == "200"
    assert app.disconnected.is_set()


async def h2_status(client: h2.connection.H2Connection, stream: trio.SocketStream, number: int) -> str:
    """Return the status of a response on an HTTP/2 stream once it is complete."""
    status = ""
    while True:
        await stream.send_all(client.data_to_send())
        data = await stream.receive_some()
        assert data, "the connection ended"
        for event in client.receive_data(bytes(data)):
            if isinstance(event, h2.events.ResponseReceived) and event.stream_id == number:
                status = dict(event.headers or [])[b":status"].decode()
            if isinstance(event, h2.events.StreamEnded) and event.stream_id == number:
                return status
