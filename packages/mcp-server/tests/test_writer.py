"""One writer joins what is waiting, and bounds it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcp_server.connection.writer import JoiningWriter


class Sink:
    """Takes bytes while it is open; counts the writes."""

    def __init__(self, taken: int = 0) -> None:
        self.writes: list[bytes] = []
        self.open = trio.Event()
        self.taken = taken
        self.broken = False

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.open.wait()
        if self.broken:
            raise trio.BrokenResourceError
        self.writes.append(bytes(data))

    def write_now(self, data: bytes) -> int:
        if self.broken:
            raise BrokenPipeError
        if not self.taken:
            raise BlockingIOError
        self.writes.append(data[: self.taken])
        return min(self.taken, len(data))


def overdue(writer: JoiningWriter) -> bool:
    """Asked anew each time: a type checker takes a property for a constant."""
    return writer.overdue


async def test_what_waits_is_written_at_once() -> None:
    sink = Sink()
    writer = JoiningWriter(sink.send_all, 100)
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


async def test_who_puts_waits_while_more_than_the_limit_is_waiting() -> None:
    sink = Sink()
    writer = JoiningWriter(sink.send_all, 3)
    passed: list[str] = []

    async def put(data: bytes) -> None:
        await writer.put(data)
        passed.append(data.decode())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await put(b"aa")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(put, b"bbbb")
        await trio.testing.wait_all_tasks_blocked()
        assert passed == ["aa"]
        sink.open.set()
        await trio.testing.wait_all_tasks_blocked()
        assert passed == ["aa", "bbbb"]
        writer.close()
    assert b"".join(sink.writes) == b"aabbbb"


@pytest.mark.parametrize(("taken", "expected"), [(100, [b"abc"]), (2, [b"ab", b"c"]), (0, [b"abc"])])
async def test_a_single_message_is_written_at_once_as_far_as_it_goes(taken: int, expected: list[bytes]) -> None:
    sink = Sink(taken)
    sink.open.set()
    writer = JoiningWriter(sink.send_all, 100, sink.write_now)
    writer.put_nowait(b"abc")
    writer.close()
    await writer.run()
    assert sink.writes == expected


async def test_a_message_waits_for_others_that_are_about_to_come() -> None:
    sink = Sink(100)
    sink.open.set()
    writer = JoiningWriter(sink.send_all, 100, sink.write_now)
    await writer.put(b"a", more=True)
    await writer.put(b"b")
    writer.close()
    await writer.run()
    assert sink.writes == [b"ab"]


async def test_when_the_other_end_is_gone_nobody_waits() -> None:
    sink = Sink()
    sink.broken = True
    writer = JoiningWriter(sink.send_all, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for _ in range(3):
            nursery.start_soon(writer.put, b"a")
        await trio.testing.wait_all_tasks_blocked()
        sink.open.set()
        await writer.wait_over()
    assert writer.broken
    await writer.put(b"dropped")


async def test_when_the_writer_is_cancelled_nobody_waits() -> None:
    sink = Sink()
    writer = JoiningWriter(sink.send_all, 0)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(writer.put, b"a")
        async with trio.open_nursery() as inner:
            inner.start_soon(writer.run)
            await trio.testing.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
    assert not writer.broken


async def test_writer_whose_first_immediate_write_fails_says_so_at_once_and_writes_nothing_more() -> None:
    sink = Sink(100)
    sink.broken = True
    sink.open.set()
    said: list[str] = []
    writer = JoiningWriter(sink.send_all, 100, sink.write_now, lambda: said.append("broken"))
    writer.put_nowait(b"a")
    assert said == ["broken"]
    assert writer.broken
    assert isinstance(writer.failure, OSError)
    writer.put_nowait(b"b")
    await writer.put(b"c")
    assert not writer.offer(b"d")
    await writer.run()
    assert said == ["broken"]
    assert sink.writes == []


async def test_writer_whose_stream_breaks_says_so_once() -> None:
    sink = Sink()
    sink.broken = True
    sink.open.set()
    said: list[str] = []
    writer = JoiningWriter(sink.send_all, 100, on_broken=lambda: said.append("broken"))
    writer.put_nowait(b"a")
    await writer.run()
    assert said == ["broken"]
    assert isinstance(writer.failure, trio.BrokenResourceError)


async def test_what_nobody_waits_for_is_counted() -> None:
    sink = Sink()
    writer = JoiningWriter(sink.send_all, 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.put_nowait(b"a")
        await trio.testing.wait_all_tasks_blocked()
        writer.put_nowait(b"bbb")
        assert not overdue(writer)
        writer.put_nowait(b"c")
        assert overdue(writer)
        nursery.start_soon(writer.wait_while_overdue)
        await trio.testing.wait_all_tasks_blocked()
        sink.open.set()
        await writer.wait_while_overdue()
        assert not overdue(writer)
        writer.close()
    assert sink.writes == [b"a", b"bbbc"]


async def test_an_offer_is_taken_only_where_nobody_has_to_wait() -> None:
    sink = Sink()
    writer = JoiningWriter(sink.send_all, 2)
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
