"""Checks of transports for open connections: the data that arrives, and the bound on buffered data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio
import trio.testing

from mcp_client.testing.transport_checks import (
    Lines,
    both_ways,
    echo,
    hear_end,
    line,
    lines,
    met,
    one_client,
    pieces,
    same_lines,
    take,
    true,
    within,
)
from mcp_core.trio.nursery import open_private_nursery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp_client.testing.transport_checks import Connect, End, OpenTransport, Role, ServedStream
    from mcp_client.transports.stdio.stream import ByteStream

__all__ = [
    "both_ends_can_send_at_once",
    "cancelled_receive_loses_no_data",
    "clients_have_separate_connections",
    "lines_arrive_in_any_chunks",
    "lines_arrive_unchanged",
    "long_line_arrives_whole",
    "memoryviews_are_sent",
    "slow_reader_slows_sender",
]

_MIB: Final = 1024 * 1024

MOST: Final = 32 * _MIB
"""Maximum number of bytes that a transport may accept for a peer that does not read. System buffers hold a few MiB."""

_CUTS: Final = ((1,), (2, 3, 5, 7), (1_000, 1), (5_000,))
"""Sizes of pieces, repeated: splits within characters, before and after line ends, and with several lines in one."""


async def lines_arrive_unchanged(open_transport: OpenTransport) -> None:
    """Check that lines of all sizes arrive once, in order and unchanged."""
    said = [line(number, number * number * 10) for number in range(50)]
    await both_ways(open_transport, lambda: _giving(said, said))


async def lines_arrive_in_any_chunks(open_transport: OpenTransport) -> None:
    """Check that a call of `send_all` may contain a part of a line, or several lines and a part."""
    said = lines(12, 60)
    for sizes in _CUTS:

        def make(sizes: Sequence[int] = sizes) -> tuple[Role, Role]:
            return _giving(pieces(b"".join(said), sizes), said)

        await both_ways(open_transport, make)


def _giving(given: Iterable[bytes], expected: Sequence[bytes]) -> tuple[Role, Role]:
    async def give(stream: End) -> None:
        for piece in given:
            with within("sending to an end that reads"):
                await stream.send_all(piece)
        await hear_end(stream, "the peer closes after it has received everything")

    async def hear(stream: End) -> None:
        await take(stream, expected)

    return give, hear


async def memoryviews_are_sent(open_transport: OpenTransport) -> None:
    """Check that a server can send a `memoryview`, as for the rest of a partial write."""
    said = lines(3, 100)

    async def serve(stream: ServedStream) -> None:
        for each in said:
            await stream.send_all(memoryview(b"--" + each)[2:])
        await hear_end(stream, "the client closes after it has received everything")

    async def act(stream: ByteStream) -> None:
        await take(stream, said)

    await one_client(open_transport, serve, act)


async def long_line_arrives_whole(open_transport: OpenTransport) -> None:
    """Check that a line of 1 MiB and the lines after it arrive complete."""
    said = [line(0), line(1, _MIB), line(2, _MIB), line(3)]
    await both_ways(open_transport, lambda: _giving(said, said))


async def both_ends_can_send_at_once(open_transport: OpenTransport) -> None:
    """Check that both ends can send at the same time, also more data than any buffer holds."""
    said = lines(1_000) + [line(number, 20_000) for number in range(1_000, 1_400)]

    async def chat(stream: End) -> None:
        given = trio.Event()

        async def give() -> None:
            for each in said:
                await stream.send_all(each)
            given.set()

        async with open_private_nursery() as nursery:
            nursery.start_soon(give)
            await take(stream, said)
            with within("everything is sent to an end that reads"):
                await given.wait()

    await one_client(open_transport, chat, chat)


@attrs.define
class _Flow:
    """The shared state of the two ends in the next check."""

    sent: int = 0
    stopped: bool = False


async def slow_reader_slows_sender(open_transport: OpenTransport) -> None:
    """Check that `send_all` waits for a peer that does not read, and that all data arrives when the peer continues."""
    await both_ways(open_transport, _flowing)


def _flowing() -> tuple[Role, Role]:
    flow = _Flow()
    size = 64 * 1024

    async def give(stream: End) -> None:
        while not flow.stopped:
            true(
                flow.sent * size < MOST,
                f"{MOST} bytes were accepted for a peer that does not read: memory is unbounded",
            )
            await stream.send_all(line(flow.sent, size))
            flow.sent += 1
        await stream.send_all(line(-1))
        await hear_end(stream, "the peer closes after it has received everything")

    async def hear(stream: End) -> None:
        await until_blocked(lambda: flow.sent)
        flow.stopped = True
        reader = Lines(stream)
        number = 0
        while True:
            with within(f"line {number} arrives when the reader continues"):
                found = await reader.next()
            if found == line(-1):
                break
            same_lines(found, line(number, size), number)
            number += 1
        true(number == flow.sent, f"{flow.sent} lines were sent, but {number} arrived")

    return give, hear


async def until_blocked(count: Callable[[], int]) -> None:
    """Wait until all tasks are blocked and the count does not grow."""
    before = -1
    while before != count():
        before = count()
        await trio.testing.wait_all_tasks_blocked()


async def cancelled_receive_loses_no_data(open_transport: OpenTransport) -> None:
    """Check that a cancelled `receive_some` does not lose data, with or without half a line in the buffer."""
    said = [line(number, number * 100) for number in range(20)]

    def make() -> tuple[Role, Role]:
        heard = [trio.Event() for _ in said]

        async def give(stream: End) -> None:
            for each, cancelled in zip(said, heard, strict=True):
                await stream.send_all(each[: len(each) // 2])
                await cancelled.wait()
                await stream.send_all(each[len(each) // 2 :])
            await hear_end(stream, "the peer closes after it has received everything")

        async def hear(stream: End) -> None:
            reader = Lines(stream)
            for wanted, cancelled in zip(said, heard, strict=True):
                async with open_private_nursery() as nursery:
                    # There is no complete line yet, so the task waits until it is cancelled.
                    nursery.start_soon(reader.next)
                    await trio.testing.wait_all_tasks_blocked()
                cancelled.set()
                await reader.take([wanted])

        return give, hear

    await both_ways(open_transport, make)


async def clients_have_separate_connections(open_transport: OpenTransport) -> None:
    """Check that concurrent clients each receive only the data that was sent to them."""

    async def talk(connect: Connect) -> None:
        with within("several clients connect"):
            streams = [await connect() for _ in range(5)]
        try:
            readers = [Lines(stream) for stream in streams]
            for turn in range(3):
                for number, stream in enumerate(streams):
                    await stream.send_all(line(turn * 10 + number, 1_000))
                for number, reader in enumerate(readers):
                    await reader.take([line(turn * 10 + number, 1_000)])
        finally:
            for stream in streams:
                with within("closing the end of a client"):
                    await stream.aclose()

    await met(open_transport, echo, talk)
