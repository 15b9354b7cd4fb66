from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from mcp_client import Client, Deadlines, Handlers, open_stream
from mcp_client.transports.stdio.stream import StreamTransport
from mcp_client.transports.stdio.writer import CoalescingWriter
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


class Wall:
    """A server that says what it is told to, and reads only while `open`."""

    def __init__(self, *says: bytes) -> None:
        self.says: Iterator[bytes] = iter(says)
        self.reads = trio.Event()
        self.heard: list[bytes] = []
        self.said = 0
        self.closed = trio.Event()
        self.broken = False

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        data = next(self.says, None)
        if data is None:
            await self.closed.wait()
            return b""
        self.said += 1
        return data

    async def send_all(self, data: bytes) -> None:
        await self.reads.wait()
        if self.closed.is_set():
            raise trio.ClosedResourceError
        if self.broken:
            raise trio.BrokenResourceError
        self.heard.append(data)

    async def aclose(self) -> None:
        self.closed.set()
        self.reads.set()
        await trio.lowlevel.checkpoint()


async def test_a_server_that_asks_and_does_not_read_is_no_longer_read(autojump_clock: trio.testing.MockClock) -> None:
    wall = Wall(INITIALIZED, *[PING] * 1000)
    async with open_stream(wall, revisions=[R2025_11_25], limits=Limits(outgoing_bytes=500)):
        await trio.testing.wait_all_tasks_blocked()
        assert 10 < wall.said < 50
        wall.reads.set()
        await trio.testing.wait_all_tasks_blocked()
        assert wall.said == 1001
    assert b"".join(wall.heard).count(b'"result":{}') == 1000


async def test_callers_wait_while_much_is_waiting_to_be_written(autojump_clock: trio.testing.MockClock) -> None:
    wall = Wall(INITIALIZED)
    async with open_stream(
        wall, revisions=[R2025_11_25], limits=Limits(outgoing_bytes=500), deadlines=Deadlines(idle=60)
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
            wall.reads.set()
        assert len(timed_out) == 5
    said = b"".join(wall.heard)
    assert said.count(b"tools/call") == said.count(b"notifications/cancelled") == 5


async def test_closing_does_not_wait_long_for_a_server_that_does_not_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wall = Wall(INITIALIZED)
    async with open_stream(wall, revisions=[R2025_11_25], limits=Limits(outgoing_bytes=10)) as client:  # noqa: SIM117  the outer one has to end last
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


async def test_a_server_that_no_longer_reads_is_listened_to_for_a_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wall = Wall(INITIALIZED)
    wall.reads.set()
    async with open_stream(wall, revisions=[R2025_11_25]) as client:
        await trio.testing.wait_all_tasks_blocked()
        wall.broken = True
        start = trio.current_time()
        with pytest.raises(ConnectionEnded):
            await client.call_tool("a")
        assert trio.current_time() - start == 1
        with pytest.raises(ConnectionEnded):
            await client.call_tool("a")


async def test_nothing_is_sent_after_the_end(autojump_clock: trio.testing.MockClock) -> None:
    wall = Wall()
    transport = StreamTransport(wall, CLIENT_LIMITS)
    assert transport.describe() == "a stream"
    await transport.aclose()
    transport.send_nowait(Notification("a"))
    with pytest.raises(ConnectionEnded, match="closed by this side"):
        await transport.send(Notification("a"))
    assert wall.heard == []


async def test_an_answer_to_a_server_that_no_longer_reads_is_dropped(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    wall = Wall(INITIALIZED, b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n')
    wall.reads.set()
    release = trio.Event()

    async def roots() -> list[Root]:
        await release.wait()
        return []

    with caplog.at_level(logging.DEBUG, "mcp_client"):
        async with open_stream(wall, revisions=[R2025_11_25], handlers=Handlers(roots=roots)) as client:
            await trio.testing.wait_all_tasks_blocked()
            wall.broken = True
            await client.roots_changed()
            await trio.testing.wait_all_tasks_blocked()
            release.set()
            await client.wait_ended()
    assert "response dropped, connection ended: method=roots/list" in caplog.text


class Slow:
    """Takes bytes when it is told to."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.go = trio.Event()

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.go.wait()
        self.taken.append(bytes(data))


async def test_what_waits_is_written_at_once(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow()
    writer = CoalescingWriter(slow.send_all, 100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for data in (b"a", b"b", b"c"):
            await writer.put(data)
        await trio.testing.wait_all_tasks_blocked()
        await writer.put(b"d")
        writer.put_nowait(b"e")
        slow.go.set()
        await trio.testing.wait_all_tasks_blocked()
        writer.close()
        writer.put_nowait(b"too late")
    assert slow.taken == [b"abc", b"de"]


async def test_all_that_wait_for_room_are_woken(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow()
    writer = CoalescingWriter(slow.send_all, 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        async with trio.open_nursery() as puts:
            for _ in range(5):
                puts.start_soon(writer.put, b"12345")
            await trio.testing.wait_all_tasks_blocked()
            assert len(puts.child_tasks) == 5
            slow.go.set()
            # Those that come later wait again.
            await trio.testing.wait_all_tasks_blocked()
            slow.go = trio.Event()
            await writer.put(b"1")
            await trio.testing.wait_all_tasks_blocked()
            puts.start_soon(writer.put, b"12345")
            await trio.testing.wait_all_tasks_blocked()
            assert len(puts.child_tasks) == 1
            slow.go.set()
        nursery.cancel_scope.cancel()
    assert sum(map(len, slow.taken)) == 31


async def test_nobody_waits_for_a_writer_that_has_ended(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow()
    writer = CoalescingWriter(slow.send_all, 3)
    async with trio.open_nursery() as puts:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            await trio.testing.wait_all_tasks_blocked()
            writer.put_nowait(b"12345")
            await trio.testing.wait_all_tasks_blocked()
            puts.start_soon(writer.put, b"12345")
            writer.put_nowait(b"12345")
            assert writer.overdue
            puts.start_soon(writer.wait_while_overdue)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert not writer.broken
        writer.put_nowait(b"12345")
        await writer.wait_while_overdue()


async def test_a_request_that_cannot_be_written_is_given_up_at_its_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wall = Wall(INITIALIZED)
    limits, deadlines = Limits(outgoing_bytes=500), Deadlines(idle=60)
    given_up: list[str] = []

    async def call(client: Client) -> None:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("a", {"text": "x" * 400})
        given_up.append(caught.value.deadline)

    async with open_stream(wall, revisions=[R2025_11_25], limits=limits, deadlines=deadlines) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call, client)
        assert given_up == ["idle"] * 5
    assert wall.heard == []


async def test_many_messages_of_one_read_let_other_tasks_run_between_them() -> None:
    wall = Wall(INITIALIZED, PING * 1_000)
    wall.reads.set()
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    taken: list[int] = []
    receive = wall.receive_some

    async def receive_some() -> bytes:
        taken.append(turns)
        return await receive()

    wall.receive_some = receive_some  # type: ignore[method-assign]
    async with open_stream(wall, revisions=[R2025_11_25]), trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        while len(taken) < 3:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert taken[2] - taken[1] >= 10
