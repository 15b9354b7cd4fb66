"""The connection's writer, which coalesces and bounds pending data."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcp_core.trio.writer import CoalescingWriter


class Sink:
    """A stream that records writes while it is open."""

    def __init__(self, accepted: int = 0) -> None:
        self.writes: list[bytes] = []
        self.open = trio.Event()
        self.accepted = accepted
        self.broken = False

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.open.wait()
        if self.broken:
            raise trio.BrokenResourceError
        self.writes.append(bytes(data))

    def write_now(self, data: bytes) -> int:
        if self.broken:
            raise BrokenPipeError
        if not self.accepted:
            raise BlockingIOError
        self.writes.append(data[: self.accepted])
        return min(self.accepted, len(data))


def is_overdue(writer: CoalescingWriter) -> bool:
    """Return the property. A function, because a type checker treats a property as constant."""
    return writer.overdue


async def test_pending_messages_are_written_together() -> None:
    sink = Sink()
    writer = CoalescingWriter(sink.send_all, 100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.put_nowait(b"a")
        await trio.testing.wait_all_tasks_blocked()
        writer.put_nowait(b"b")
        writer.put_nowait(b"c")
        sink.open.set()
        await trio.testing.wait_all_tasks_blocked()
        writer.close()
    assert sink.writes == [b"a", b"bc"]
    writer.put_nowait(b"too late")
    assert sink.writes == [b"a", b"bc"]


async def test_put_over_limit_waits() -> None:
    sink = Sink()
    writer = CoalescingWriter(sink.send_all, 3)
    completed: list[str] = []

    async def put(data: bytes) -> None:
        await writer.put(data)
        completed.append(data.decode())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await put(b"aa")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(put, b"bbbb")
        await trio.testing.wait_all_tasks_blocked()
        assert completed == ["aa"]
        sink.open.set()
        await trio.testing.wait_all_tasks_blocked()
        assert completed == ["aa", "bbbb"]
        writer.close()
    assert b"".join(sink.writes) == b"aabbbb"


@pytest.mark.parametrize(("accepted", "expected"), [(100, [b"abc"]), (2, [b"ab", b"c"]), (0, [b"abc"])])
async def test_single_message_is_written_immediately(accepted: int, expected: list[bytes]) -> None:
    sink = Sink(accepted)
    sink.open.set()
    writer = CoalescingWriter(sink.send_all, 100, sink.write_now)
    writer.put_nowait(b"abc")
    writer.close()
    await writer.run()
    assert sink.writes == expected


async def test_message_with_more_to_come_is_coalesced() -> None:
    sink = Sink(100)
    sink.open.set()
    writer = CoalescingWriter(sink.send_all, 100, sink.write_now)
    await writer.put(b"a", more=True)
    await writer.put(b"b")
    writer.close()
    await writer.run()
    assert sink.writes == [b"ab"]


async def test_broken_stream_releases_waiting_puts() -> None:
    sink = Sink()
    sink.broken = True
    writer = CoalescingWriter(sink.send_all, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for _ in range(3):
            nursery.start_soon(writer.put, b"a")
        await trio.testing.wait_all_tasks_blocked()
        sink.open.set()
        await writer.wait_over()
    assert writer.broken
    await writer.put(b"dropped")


async def test_cancelled_writer_releases_waiting_puts() -> None:
    sink = Sink()
    writer = CoalescingWriter(sink.send_all, 0)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(writer.put, b"a")
        async with trio.open_nursery() as inner:
            inner.start_soon(writer.run)
            await trio.testing.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
    assert not writer.broken


async def test_failed_immediate_write_reports_once_and_stops() -> None:
    sink = Sink(100)
    sink.broken = True
    sink.open.set()
    reported: list[str] = []
    writer = CoalescingWriter(sink.send_all, 100, sink.write_now, lambda: reported.append("broken"))
    writer.put_nowait(b"a")
    assert reported == ["broken"]
    assert writer.broken
    assert isinstance(writer.failure, OSError)
    writer.put_nowait(b"b")
    await writer.put(b"c")
    assert not writer.offer(b"d")
    await writer.run()
    assert reported == ["broken"]
    assert sink.writes == []


async def test_broken_stream_is_reported_once() -> None:
    sink = Sink()
    sink.broken = True
    sink.open.set()
    reported: list[str] = []
    writer = CoalescingWriter(sink.send_all, 100, on_broken=lambda: reported.append("broken"))
    writer.put_nowait(b"a")
    await writer.run()
    assert reported == ["broken"]
    assert isinstance(writer.failure, trio.BrokenResourceError)


async def test_put_nowait_over_limit_is_overdue() -> None:
    sink = Sink()
    writer = CoalescingWriter(sink.send_all, 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.put_nowait(b"a")
        await trio.testing.wait_all_tasks_blocked()
        writer.put_nowait(b"bbb")
        assert not is_overdue(writer)
        writer.put_nowait(b"c")
        assert is_overdue(writer)
        nursery.start_soon(writer.wait_while_overdue)
        await trio.testing.wait_all_tasks_blocked()
        sink.open.set()
        await writer.wait_while_overdue()
        assert not is_overdue(writer)
        writer.close()
    assert sink.writes == [b"a", b"bbbc"]


async def test_offer_over_limit_is_rejected() -> None:
    sink = Sink()
    writer = CoalescingWriter(sink.send_all, 2)
    assert writer.offer(b"aa")
    assert writer.offer(b"b")
    assert not writer.offer(b"c")
    sink.open.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await trio.testing.wait_all_tasks_blocked()
        assert writer.offer(b"d")
        writer.close()
        assert not writer.offer(b"e")
    assert sink.writes == [b"aab", b"d"]


class BlockingSink:
    """A sink that accepts data after `go` is set."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.go = trio.Event()

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.go.wait()
        self.chunks.append(bytes(data))


async def test_writer_coalesces_waiting_data(autojump_clock: trio.testing.MockClock) -> None:
    sink = BlockingSink()
    writer = CoalescingWriter(sink.send_all, 100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for data in (b"a", b"b", b"c"):
            await writer.put(data)
        await trio.testing.wait_all_tasks_blocked()
        await writer.put(b"d")
        writer.put_nowait(b"e")
        sink.go.set()
        await trio.testing.wait_all_tasks_blocked()
        writer.close()
        writer.put_nowait(b"too late")
    assert sink.chunks == [b"abc", b"de"]


async def test_writer_wakes_all_waiting_for_capacity(autojump_clock: trio.testing.MockClock) -> None:
    sink = BlockingSink()
    writer = CoalescingWriter(sink.send_all, 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        async with trio.open_nursery() as puts:
            for _ in range(5):
                puts.start_soon(writer.put, b"12345")
            await trio.testing.wait_all_tasks_blocked()
            assert len(puts.child_tasks) == 5
            sink.go.set()
            # Later ones wait again.
            await trio.testing.wait_all_tasks_blocked()
            sink.go = trio.Event()
            await writer.put(b"1")
            await trio.testing.wait_all_tasks_blocked()
            puts.start_soon(writer.put, b"12345")
            await trio.testing.wait_all_tasks_blocked()
            assert len(puts.child_tasks) == 1
            sink.go.set()
        nursery.cancel_scope.cancel()
    assert sum(map(len, sink.chunks)) == 31


async def test_writer_ended_wakes_waiting(autojump_clock: trio.testing.MockClock) -> None:
    sink = BlockingSink()
    writer = CoalescingWriter(sink.send_all, 3)
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
