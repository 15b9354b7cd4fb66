"""What every transport has to keep while both ends are there: what is carried, and how much of it may wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio
import trio.testing

from mcp_client.nursery import open_private_nursery
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp_client.connection.transport import ByteStream
    from mcp_client.testing.transport_checks import Connect, End, OpenTransport, Role, ServedStream

__all__ = [
    "a_cancelled_receive_loses_nothing",
    "a_long_line_comes_whole",
    "a_slow_reader_slows_the_sender",
    "both_ends_may_talk_at_once",
    "clients_are_apart",
    "it_does_not_matter_how_lines_are_cut",
    "lines_come_as_they_were_sent",
    "views_of_memory_are_sent",
]

_MIB: Final = 1024 * 1024

MOST: Final = 32 * _MIB
"""Bytes that no transport may take for a reader that does not read. A system's own buffers hold a few MiB."""

_CUTS: Final = ((1,), (2, 3, 5, 7), (1_000, 1), (5_000,))
"""Sizes of pieces, repeated: within characters, before and after line ends, several lines in one."""


async def lines_come_as_they_were_sent(open_transport: OpenTransport) -> None:
    """Each once, in their order, byte by byte, whatever their size."""
    said = [line(number, number * number * 10) for number in range(50)]
    await both_ways(open_transport, lambda: _giving(said, said))


async def it_does_not_matter_how_lines_are_cut(open_transport: OpenTransport) -> None:
    """A call of `send_all` may have a part of a line, or several lines and a part."""
    said = lines(12, 60)
    for sizes in _CUTS:

        def make(sizes: Sequence[int] = sizes) -> tuple[Role, Role]:
            return _giving(pieces(b"".join(said), sizes), said)

        await both_ways(open_transport, make)


def _giving(given: Iterable[bytes], expected: Sequence[bytes]) -> tuple[Role, Role]:
    async def give(stream: End) -> None:
        for piece in given:
            with within("something is sent to an end that reads"):
                await stream.send_all(piece)
        await hear_end(stream, "the other end closes when it has everything")

    async def hear(stream: End) -> None:
        await take(stream, expected)

    return give, hear


async def views_of_memory_are_sent(open_transport: OpenTransport) -> None:
    """A server may send a `memoryview`: the rest of what was written in part."""
    said = lines(3, 100)

    async def serve(stream: ServedStream) -> None:
        for each in said:
            await stream.send_all(memoryview(b"--" + each)[2:])
        await hear_end(stream, "the client closes when it has everything")

    async def act(stream: ByteStream) -> None:
        await take(stream, said)

    await one_client(open_transport, serve, act)


async def a_long_line_comes_whole(open_transport: OpenTransport) -> None:
    """A line of a MiB, and those behind it."""
    said = [line(0), line(1, _MIB), line(2, _MIB), line(3)]
    await both_ways(open_transport, lambda: _giving(said, said))


async def both_ends_may_talk_at_once(open_transport: OpenTransport) -> None:
    """Neither waits for the other to be silent, however much there is to say: more than any buffer holds."""
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
    """What the two ends of the next check know of each other."""

    sent: int = 0
    stopped: bool = False


async def a_slow_reader_slows_the_sender(open_transport: OpenTransport) -> None:
    """`send_all` waits for an end that does not read, so that little piles up. When it reads on, nothing is missing."""
    await both_ways(open_transport, _flowing)


def _flowing() -> tuple[Role, Role]:
    flow = _Flow()
    size = 64 * 1024

    async def give(stream: End) -> None:
        while not flow.stopped:
            true(flow.sent * size < MOST, f"{MOST} bytes were taken for an end that reads nothing: memory has no bound")
            await stream.send_all(line(flow.sent, size))
            flow.sent += 1
        await stream.send_all(line(-1))
        await hear_end(stream, "the other end closes when it has everything")

    async def hear(stream: End) -> None:
        await until_blocked(lambda: flow.sent)
        flow.stopped = True
        reader = Lines(stream)
        number = 0
        while True:
            with within(f"line {number} arrives when the reader reads on"):
                found = await reader.next()
            if found == line(-1):
                break
            same_lines(found, line(number, size), number)
            number += 1
        true(number == flow.sent, f"{flow.sent} lines were sent, and {number} came")

    return give, hear


async def until_blocked(count: Callable[[], int]) -> None:
    """Waits until nothing moves any more, and what is counted does not grow."""
    before = -1
    while before != count():
        before = count()
        await trio.testing.wait_all_tasks_blocked()


async def a_cancelled_receive_loses_nothing(open_transport: OpenTransport) -> None:
    """A `receive_some` that is cancelled has taken nothing: not when it waited, and not when half a line was there."""
    said = [line(number, number * 100) for number in range(20)]

    def make() -> tuple[Role, Role]:
        heard = [trio.Event() for _ in said]

        async def give(stream: End) -> None:
            for each, cancelled in zip(said, heard, strict=True):
                await stream.send_all(each[: len(each) // 2])
                await cancelled.wait()
                await stream.send_all(each[len(each) // 2 :])
            await hear_end(stream, "the other end closes when it has everything")

        async def hear(stream: End) -> None:
            reader = Lines(stream)
            for wanted, cancelled in zip(said, heard, strict=True):
                async with open_private_nursery() as nursery:
                    # There is no line yet: it stays in there until it is cancelled.
                    nursery.start_soon(reader.next)
                    await trio.testing.wait_all_tasks_blocked()
                cancelled.set()
                await reader.take([wanted])

        return give, hear

    await both_ways(open_transport, make)


async def clients_are_apart(open_transport: OpenTransport) -> None:
    """Clients that are connected at the same time hear what was said to them, and nothing else."""

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
                with within("a client's end is closed"):
                    await stream.aclose()

    await met(open_transport, echo, talk)
