from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from mcp_client import Client, ClientOptions, Deadlines, Handlers, open_stream
from mcp_client.transports.stdio.stream import StreamTransport
from mcp_core.errors import ConnectionEnded, RequestTimeout
from mcp_core.jsonrpc.messages import Notification
from mcp_core.limits import CLIENT_LIMITS, Limits
from mcp_core.revisions import R2025_11_25
from mcp_core.types import Root

INITIALIZED = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"x","version":"1"}}}\n'
)
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


class ScriptedStream:
    """A server with a script of data, which reads only after `reading` is set."""

    def __init__(self, *script: bytes) -> None:
        self.script: Iterator[bytes] = iter(script)
        self.reading = trio.Event()
        self.received: list[bytes] = []
        self.sent_count = 0
        self.closed = trio.Event()
        self.broken = False

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        data = next(self.script, None)
        if data is None:
            await self.closed.wait()
            return b""
        self.sent_count += 1
        return data

    async def send_all(self, data: bytes) -> None:
        await self.reading.wait()
        if self.closed.is_set():
            raise trio.ClosedResourceError
        if self.broken:
            raise trio.BrokenResourceError
        self.received.append(data)

    async def aclose(self) -> None:
        self.closed.set()
        self.reading.set()
        await trio.lowlevel.checkpoint()


async def test_server_not_reading_responses_is_not_read(autojump_clock: trio.testing.MockClock) -> None:
    stream = ScriptedStream(INITIALIZED, *[PING] * 1000)
    async with open_stream(stream, revisions=[R2025_11_25], options=ClientOptions(limits=Limits(outgoing_bytes=500))):
        await trio.testing.wait_all_tasks_blocked()
        assert 10 < stream.sent_count < 50
        stream.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert stream.sent_count == 1001
    assert b"".join(stream.received).count(b'"result":{}') == 1000


async def test_calls_wait_for_full_write_buffer(autojump_clock: trio.testing.MockClock) -> None:
    stream = ScriptedStream(INITIALIZED)
    async with open_stream(
        stream,
        revisions=[R2025_11_25],
        options=ClientOptions(limits=Limits(outgoing_bytes=500)),
        deadlines=Deadlines(idle=60),
    ) as client:
        timed_out = []

        async def call(client: Client) -> None:
            with pytest.raises(RequestTimeout):
                await client.call_tool("a", {"text": "x" * 400})
            timed_out.append(client)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call, client)
            await trio.testing.wait_all_tasks_blocked()
            stream.reading.set()
        assert len(timed_out) == 5
    received = b"".join(stream.received)
    assert received.count(b"tools/call") == received.count(b"notifications/cancelled") == 5


async def test_close_with_server_not_reading_limited_to_half_second(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stream = ScriptedStream(INITIALIZED)
    options = ClientOptions(limits=Limits(outgoing_bytes=10))
    async with open_stream(stream, revisions=[R2025_11_25], options=options) as client:  # noqa: SIM117  the outer one must end last
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(ConnectionEnded, match="the client was closed"):
                    await client.call_tool("a")

            nursery.start_soon(call)
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            start = trio.current_time()
            await client.aclose()
    assert trio.current_time() - start == 0.5


async def test_broken_write_waits_one_second_for_server_output(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stream = ScriptedStream(INITIALIZED)
    stream.reading.set()
    async with open_stream(stream, revisions=[R2025_11_25]) as client:
        await trio.testing.wait_all_tasks_blocked()
        stream.broken = True
        start = trio.current_time()
        with pytest.raises(ConnectionEnded):
            await client.call_tool("a")
        assert trio.current_time() - start == 1
        with pytest.raises(ConnectionEnded):
            await client.call_tool("a")


async def test_send_after_close_raises(autojump_clock: trio.testing.MockClock) -> None:
    stream = ScriptedStream()
    transport = StreamTransport(stream, CLIENT_LIMITS)
    assert transport.describe() == "a stream"
    await transport.aclose()
    transport.send_nowait(Notification("a"))
    with pytest.raises(ConnectionEnded, match="closed by this side"):
        await transport.send(Notification("a"))
    assert stream.received == []


async def test_response_to_server_not_reading_dropped(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stream = ScriptedStream(INITIALIZED, b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n')
    stream.reading.set()
    release = trio.Event()

    async def roots() -> list[Root]:
        await release.wait()
        return []

    with caplog.at_level(logging.DEBUG, "mcp_client"):
        async with open_stream(stream, revisions=[R2025_11_25], handlers=Handlers(roots=roots)) as client:
            await trio.testing.wait_all_tasks_blocked()
            stream.broken = True
            await client.roots_changed()
            await trio.testing.wait_all_tasks_blocked()
            release.set()
            await client.wait_ended()
    assert "response dropped, connection ended: method=roots/list" in caplog.text


async def test_unwritten_request_times_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stream = ScriptedStream(INITIALIZED)
    limits, deadlines = Limits(outgoing_bytes=500), Deadlines(idle=60)
    deadlines_passed: list[str] = []

    async def call(client: Client) -> None:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("a", {"text": "x" * 400})
        deadlines_passed.append(caught.value.deadline)

    async with open_stream(
        stream, revisions=[R2025_11_25], options=ClientOptions(limits=limits), deadlines=deadlines
    ) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call, client)
        assert deadlines_passed == ["idle"] * 5
    assert stream.received == []


async def test_messages_of_one_read_yield_to_other_tasks() -> None:
    stream = ScriptedStream(INITIALIZED, PING * 1_000)
    stream.reading.set()
    steps = 0

    async def count_steps() -> None:
        nonlocal steps
        while True:
            steps += 1
            await trio.lowlevel.checkpoint()

    steps_at_read: list[int] = []
    receive = stream.receive_some

    async def receive_some() -> bytes:
        steps_at_read.append(steps)
        return await receive()

    stream.receive_some = receive_some  # type: ignore[method-assign]
    async with open_stream(stream, revisions=[R2025_11_25]), trio.open_nursery() as nursery:
        nursery.start_soon(count_steps)
        while len(steps_at_read) < 3:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert steps_at_read[2] - steps_at_read[1] >= 10
