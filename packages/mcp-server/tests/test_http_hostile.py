"""Hostile clients: the resources that they use are bounded, and other clients are served."""

from __future__ import annotations

import gc
import itertools
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from controlled_server import text_of
from raw_connection import RawConnection, call, connector, http, initialize, legacy, modern, notification
from raw_connection import request as rpc_request

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_03_26, R2025_11_25
from mcp_server import Context, Server
from mcp_server.host.embedded import HttpHost
from mcp_server.stores import MemoryStore
from mcp_server.transports.http.endpoint import HttpEndpoint
from mcp_server.transports.http.subscription import Subscription

Clock = trio.testing.MockClock

TIMEOUT = 10_000_000
"""Seconds of the mock clock for one test."""

MOMENT = 0.1


class Tools:
    """The tools that clients call."""

    def __init__(self, limits: Limits) -> None:
        self.server = server = Server("hostile", version="0", limits=limits)
        self.reported = 0
        self.running = 0
        self.most = 0
        self.release = trio.Event()

        @server.tool
        async def echo(text: str) -> str:
            return text

        @server.tool
        async def chatter(context: Context) -> str:
            """Report more progress than any client reads."""
            self.running += 1
            try:
                for step in range(5_000):
                    await context.progress(step)
                    self.reported += 1
                return "done"
            finally:
                self.running -= 1

        @server.tool
        async def flood() -> str:
            """Return 4 MB."""
            return "x" * 4_000_000

        @server.tool
        async def hold() -> str:
            """Wait for the release."""
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.release.wait()
                return "held"
            finally:
                self.running -= 1

        @server.resource("memo://{name}")
        async def memo(name: str) -> str:
            return name


class HostileTestbed:
    """A server, hostile clients and a regular client."""

    def __init__(self, tools: Tools, endpoint: HttpEndpoint, host: HttpHost, nursery: trio.Nursery) -> None:
        self.tools = tools
        self.endpoint = endpoint
        self.host = host
        self.nursery = nursery
        self._connect = connector(host, nursery)
        self._regular: RawConnection | None = None

    async def connect(self) -> RawConnection:
        return RawConnection(await self._connect())

    async def check_regular_client(self) -> None:
        # The host closes a connection that is idle for too long.
        if self._regular is None or self._regular.reader.headers.get("connection") == "close":
            self._regular = await self.connect()
        answer = await self._regular.exchange(modern(call("echo", text="here")))
        assert text_of(answer.json()) == "here"

    async def disconnect_regular_client(self) -> None:
        if self._regular is not None:
            await self._regular.aclose()
            self._regular = None

    async def open(self, connection: RawConnection) -> str:
        session = (await connection.exchange(http(body=initialize(R2025_11_25)))).headers["mcp-session-id"]
        assert (
            await connection.exchange(legacy(session, R2025_11_25, notification("notifications/initialized")))
        ).status == 202
        return session

    async def wait_until_idle(self, *, within: float) -> None:
        """Wait until all connections have ended and their state is freed, while the regular client is served."""
        with trio.fail_after(within):
            while self.endpoint.running or self.tools.running or self.host.connections:
                await self.check_regular_client()
                await self.disconnect_regular_client()
                await trio.sleep(MOMENT)
        assert not self.endpoint._modern_requests


@asynccontextmanager
async def open_testbed(limits: Limits | None = None, store: MemoryStore | None = None) -> AsyncIterator[HostileTestbed]:
    tools = Tools(limits or Limits())
    endpoint = tools.server.asgi(legacy_sse=True, store=store)
    with trio.fail_after(TIMEOUT):
        async with trio.open_nursery() as nursery:
            host = HttpHost(endpoint, limits=tools.server.limits)
            await nursery.start(host.run)
            yield HostileTestbed(tools, endpoint, host, nursery)
            nursery.cancel_scope.cancel()


# --- clients that do not read -----------------------------------------------------------------------------------------


async def test_subscriber_that_reads_nothing_dropped_with_bounded_notifications(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = await testbed.connect()
        uris: list[JsonValue] = [f"memo://{number}" for number in range(100)]
        await connection.send(
            modern(rpc_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}))
        )
        await connection.message(1)
        for _ in range(50):
            for uri in uris:
                testbed.tools.server.resource_updated(str(uri))
            await testbed.check_regular_client()
            subscriptions = [each for each in testbed.endpoint._modern_requests if isinstance(each, Subscription)]
            assert max(len(subscription._pending) for subscription in subscriptions) <= 100
        await testbed.wait_until_idle(within=40)
        await connection.aclose()


async def test_call_of_client_that_reads_nothing_is_cancelled(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = await testbed.connect()
        await connection.send(modern(call("chatter", token=1)))
        await connection.message(1)
        for _ in range(10):
            await testbed.check_regular_client()
        # Reported progress was written: none of it is queued.
        assert testbed.tools.reported < 10
        await testbed.wait_until_idle(within=40)
        assert testbed.tools.reported < 10
        await connection.aclose()


async def test_unread_events_of_session_are_bounded(autojump_clock: Clock) -> None:
    limits = Limits(replay_events=50, progress_per_second=1_000_000)
    store = MemoryStore(limits=limits)
    async with open_testbed(limits, store) as testbed:
        connection = await testbed.connect()
        session = await testbed.open(connection)
        await connection.send(legacy(session, R2025_11_25, call("chatter", token=1)))
        await connection.message(1)
        await testbed.wait_until_idle(within=40)
        # The disconnect does not cancel the handler. The oldest events are discarded.
        assert testbed.tools.reported == 5_000
        (stream,) = await store.streams(session)
        assert (stream.last, stream.pending) == (5_001, ())
        kept = await store.events(session, stream.stream, 0)
        assert [event.number for event in kept] == list(range(5_001 - 49, 5_002))
        await connection.aclose()


async def test_large_unread_responses_are_freed(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        raw_connections = [await testbed.connect() for _ in range(5)]
        session = await testbed.open(raw_connections[0])
        for connection in raw_connections:
            await connection.send(legacy(session, R2025_11_25, call("flood", id=raw_connections.index(connection) + 1)))
        await testbed.wait_until_idle(within=40)
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, bytes | bytearray) and len(each) > 1_000_000]
        for connection in raw_connections:
            await connection.aclose()


async def test_http_sse_client_that_reads_nothing_dropped(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(outgoing_bytes=10_000, progress_per_second=1_000_000)) as testbed:
        stream = await testbed.connect()
        await stream.send(http("GET", "/sse"))
        await stream.until(lambda: bool(stream.reader.events))
        target = stream.reader.events[0].data.decode()
        post_connection = await testbed.connect()
        assert (await post_connection.exchange(http("POST", target, initialize(R2025_03_26)))).status == 202
        assert (await post_connection.exchange(http("POST", target, call("chatter", token=1)))).status == 202
        await post_connection.aclose()
        await testbed.wait_until_idle(within=40)
        # The outbound queue is bounded; the handler waits while the queue is full.
        assert 0 < testbed.tools.reported < 200
        assert testbed.endpoint.sessions == 0
        await stream.aclose()


# --- clients that send slowly or with a wrong length ------------------------------------------------------------------


@pytest.mark.parametrize("part", ["head", "body", "chunks"])
async def test_hundred_slow_clients_dropped_at_timeout(part: str, autojump_clock: Clock) -> None:
    whole = modern(call("echo", text="a"))
    split = 0 if part == "head" else whole.index(b"\r\n\r\n") + 4
    prefix, slow = whole[:split], [bytes([each]) for each in whole[split:]]
    if part == "chunks":
        prefix = prefix.replace(b"content-length: ", b"transfer-encoding: chunked\r\nx-not-length: ")
        slow = [b"1\r\n%c\r\n" % each for each in whole[split:]]
    statuses: list[int] = []

    async def drip(connection: RawConnection) -> None:
        if prefix:
            await connection.send(prefix)
        for each in slow:
            await trio.sleep(1)
            await connection.send(each)

    async def client(connection: RawConnection) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip, connection)
            statuses.append((await connection.answer()).status)
            nursery.cancel_scope.cancel()
        await connection.aclose()

    async with open_testbed() as testbed:
        began = trio.current_time()
        async with trio.open_nursery() as clients:
            for _ in range(100):
                clients.start_soon(client, await testbed.connect())
            for _ in range(15):
                await trio.sleep(1)
                await testbed.check_regular_client()
        assert statuses == [408] * 100
        assert trio.current_time() - began < 20
        await testbed.disconnect_regular_client()
        await testbed.wait_until_idle(within=5)


async def test_bytes_after_body_parsed_as_next_request(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = await testbed.connect()
        await connection.send(modern(call("echo", text="a"), content_length="20") + b"\r\n\r\n")
        first = await connection.answer()
        assert (first.status, first.json()["error"]["code"]) == (400, -32700)  # type: ignore[index, call-overload]  # an error
        connection.reader = first.following()
        second = await connection.answer()
        assert (second.status, second.headers["connection"]) == (400, "close")
        await connection.aclose()
        await testbed.check_regular_client()


async def test_body_shorter_than_content_length_returns_408(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        waiting, leaving = await testbed.connect(), await testbed.connect()
        whole = modern(call("echo", text="a"), content_length="100000")
        await leaving.send(whole)
        await leaving.aclose()
        answer = await waiting.exchange(whole)
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert b"HostTimeouts.body" in answer.body
        await waiting.aclose()
        await testbed.wait_until_idle(within=5)


async def send_until_closed(connection: RawConnection, pieces: Iterator[bytes]) -> int:
    """Send until the connection is closed, and return the number of bytes."""
    sent = 0
    try:
        while sent < 20_000_000:
            piece = next(pieces)
            await connection.send(piece)
            sent += len(piece)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return sent
    raise AssertionError("the connection does not end")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/mcp", 413), ("/messages", 413), ("/messages?session=x", 404), ("/sse", 405), ("/nowhere", 404)],
)
async def test_body_without_end_returns_error_when_too_large(path: str, status: int, autojump_clock: Clock) -> None:
    limits = Limits(message_bytes=64 * 1024)
    async with open_testbed(limits) as testbed:
        connection, stream = await testbed.connect(), await testbed.connect()
        if path == "/messages":
            await stream.send(http("GET", "/sse"))
            await stream.until(lambda: bool(stream.reader.events))
            path = stream.reader.events[0].data.decode()
        head = http("POST", path, content_length=None, transfer_encoding="chunked")
        sent = 0

        async def send() -> None:
            nonlocal sent
            await connection.send(head)
            sent = await send_until_closed(connection, itertools.repeat(b"1000\r\n" + b" " * 4096 + b"\r\n"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            answer = await connection.answer()
            await connection.until(lambda: False, eof=True)
            await connection.aclose()
        assert answer.status == status
        if status == 413:
            assert b"Limits.message_bytes" in answer.body
        # The factor covers the bytes read before the error, and those dropped so that the client can read the error.
        assert sent < 3 * limits.message_bytes
        await stream.aclose()
        await testbed.wait_until_idle(within=5)


@pytest.mark.parametrize("piece", [b"x", b"x: y\r\n", b"x: " + b"y" * 1000 + b"\r\n"])
async def test_request_head_without_end_returns_431(piece: bytes, autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = await testbed.connect()
        sent = 0

        async def send() -> None:
            nonlocal sent
            await connection.send(b"POST /mcp HTTP/1.1\r\n")
            sent = await send_until_closed(connection, itertools.repeat(piece * (2048 // len(piece))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            answer = await connection.answer()
            await connection.until(lambda: False, eof=True)
            await connection.aclose()
        assert answer.status == 431
        assert b"Limits.header_bytes" in answer.body
        assert sent < testbed.host.limits.message_bytes + 4 * testbed.host.limits.header_bytes
        await testbed.check_regular_client()


# --- thousands of clients ---------------------------------------------------------------------------------------------


def count_own_objects() -> int:
    """Return the number of objects that are neither of trio, nor of Python, nor of the tests."""
    gc.collect()
    # The `__module__` of some classes is a property.
    return sum(str(type(each).__module__).startswith("mcp_") for each in gc.get_objects())


async def object_growth(action: Callable[[], Awaitable[None]], times: int) -> int:
    """Return the growth of the number of own objects between the first and the last repetition."""
    await action()
    before = count_own_objects()
    for _ in range(times - 1):
        await action()
    return count_own_objects() - before


async def test_ten_thousand_unused_sessions_are_bounded(autojump_clock: Clock) -> None:
    limits = Limits(sessions=500)
    store = MemoryStore(limits=limits)
    async with open_testbed(limits, store) as testbed:
        connection = await testbed.connect()

        async def open_some() -> None:
            for _ in range(1_000):
                answer = await connection.exchange(http(body=initialize(R2025_11_25)))
                assert answer.headers["mcp-session-id"]

        assert await object_growth(open_some, 10) < 20
        assert testbed.endpoint.sessions == 500
        assert repr(store) == "<MemoryStore of 500 sessions>"
        await testbed.check_regular_client()
        # Expired sessions are removed when a new session opens.
        await trio.sleep(2 * 3_600)
        (session,) = [await testbed.open(await testbed.connect())]
        assert testbed.endpoint.sessions == 1
        assert await store.load(session) is not None
        assert repr(store) == "<MemoryStore of 1 sessions>"
        await connection.aclose()


async def test_sessions_with_running_requests_not_evicted(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(sessions=20)) as testbed:
        raw_connections = [await testbed.connect() for _ in range(20)]
        sessions = [await testbed.open(connection) for connection in raw_connections]
        for connection, session in zip(raw_connections, sessions, strict=True):
            await connection.send(legacy(session, R2025_11_25, call("hold")))
        await trio.testing.wait_all_tasks_blocked()
        late_connection = await testbed.connect()
        for _ in range(50):
            send_rejected = await late_connection.exchange(http(body=initialize(R2025_11_25)))
            assert (send_rejected.status, send_rejected.headers["retry-after"]) == (503, "5")
            assert b"Limits.sessions" in send_rejected.body
        assert testbed.endpoint.sessions == 20
        await testbed.check_regular_client()
        testbed.tools.release.set()
        for connection in raw_connections:
            assert text_of((await connection.answer()).json()) == "held"
        assert (await late_connection.exchange(http(body=initialize(R2025_11_25)))).status == 200
        for connection in (late_connection, *raw_connections):
            await connection.aclose()


async def test_ten_thousand_abandoned_subscriptions_leak_nothing(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        listen = modern(rpc_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))

        async def wave() -> None:
            streams = [(await testbed.connect()).stream for _ in range(500)]
            for stream in streams:
                await stream.send_all(listen)
            for stream in streams:
                assert b"notifications/subscriptions/acknowledged" in await stream.receive_some()
            assert len(testbed.endpoint._modern_requests) == 500
            for stream in streams:
                await stream.aclose()
            await testbed.wait_until_idle(within=5)

        tasks = trio.lowlevel.current_statistics().tasks_living
        assert await object_growth(wave, 20) < 20
        assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_abandoned_http_sse_streams_leak_nothing(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(sessions=50)) as testbed:

        async def wave() -> None:
            raw_connections = [await testbed.connect() for _ in range(60)]
            statuses = []
            for connection in raw_connections:
                await connection.send(http("GET", "/sse"))
                await connection.until(lambda: bool(connection.reader.events) or connection.reader.complete)  # noqa: B023  # called at once
                statuses.append(connection.reader.status)
            assert statuses == [200] * 50 + [503] * 10
            assert testbed.endpoint.sessions == 50
            await testbed.check_regular_client()
            for connection in raw_connections:
                await connection.aclose()
            await testbed.wait_until_idle(within=5)
            assert testbed.endpoint.sessions == 0

        assert await object_growth(wave, 10) < 20


def rejected_requests(number: int) -> Iterator[tuple[int, bytes]]:
    """Yield requests that are rejected, different ones for each number."""
    odd = f"x{number}"
    message = modern(call("echo", text="a"))
    yield 403, modern(call("echo", text="a"), host=f"{odd}.example")
    yield 403, modern(call("echo", text="a"), origin=f"https://{odd}.example")
    yield 415, modern(call("echo", text="a"), content_type=f"text/{odd}")
    yield 406, modern(call("echo", text="a"), accept=f"text/{odd}")
    yield 400, modern(call("echo", text="a"), mcp_name=odd)
    yield 400, modern(call("echo", text="a"), mcp_protocol_version=odd)
    yield 404, modern(rpc_request(f"{odd}/method"))
    yield 404, legacy(odd, R2025_11_25, call("echo", text="a"))
    yield 404, http("GET", mcp_session_id=odd, last_event_id=odd)
    yield 404, http("DELETE", mcp_session_id=odd)
    yield 400, http(body=f"{{{odd}".encode())
    yield 404, http("POST", f"/messages?session={odd}", rpc_request("ping"))
    yield 404, http("GET", f"/{odd}")
    yield (
        400,
        http(body=rpc_request("initialize", {"protocolVersion": odd}), mcp_session_id=None, mcp_protocol_version=odd),
    )
    yield 405, http("PUT", x=odd, content_length="0")
    assert message


@pytest.mark.spec("security.no-session-authentication")
async def test_thousands_of_rejections_use_no_memory(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = await testbed.connect()

        async def send_rejected(numbers: range) -> int:
            """Send the requests and return the memory in use, in bytes."""
            for number in numbers:
                for status, data in rejected_requests(number):
                    answer = await connection.exchange(data)
                    assert answer.status == status, (data, answer.body)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        # The bounded cache of headers is full after this.
        await send_rejected(range(300))
        tracemalloc.start()
        try:
            before = await send_rejected(range(300, 301))
            # Some memory replaces untraced objects: a few dozen bytes per request.
            assert await send_rejected(range(301, 401)) - before < 1_500 * 100
        finally:
            tracemalloc.stop()
        assert testbed.endpoint.sessions == 0
        assert testbed.tools.reported == testbed.tools.running == 0
        await testbed.check_regular_client()
        await connection.aclose()


async def test_batch_members_share_limit_of_running_requests(autojump_clock: Clock) -> None:
    limits = Limits(running_requests=4, batch_members=20)
    async with open_testbed(limits) as testbed:
        connection = await testbed.connect()
        session = (await connection.exchange(http(body=initialize(R2025_03_26)))).headers["mcp-session-id"]
        members: list[JsonObject] = [call("hold", id=number) for number in range(1, 22)]
        too_many = await connection.exchange(legacy(session, R2025_03_26, list(members)))
        assert too_many.status == 400
        assert b"Limits.batch_members" in too_many.body
        await connection.send(legacy(session, R2025_03_26, list(members[:20])))
        await testbed.check_regular_client()
        assert testbed.tools.running == 4
        testbed.tools.release.set()
        answers = json.loads((await connection.answer()).body)
        assert [text_of(each) for each in answers] == ["held"] * 20
        assert testbed.tools.most == 4
        await connection.aclose()
