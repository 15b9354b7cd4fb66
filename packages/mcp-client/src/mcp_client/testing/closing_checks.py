"""What every transport has to keep when one end goes: by closing, by a cancellation, while the other talks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio
import trio.testing

from mcp_client.nursery import open_private_nursery
from mcp_client.testing.message_checks import MOST, until_blocked
from mcp_client.testing.transport_checks import (
    GONE,
    Lines,
    both_ways,
    echo,
    hear_end,
    line,
    lines,
    met,
    one_client,
    take,
    true,
    within,
)

if TYPE_CHECKING:
    from mcp_client.connection.transport import ByteStream
    from mcp_client.testing.transport_checks import Connect, End, OpenTransport, Role, ServedStream

__all__ = [
    "a_cancelled_send_can_be_closed",
    "a_closed_end_stays_closed",
    "a_sender_is_told_that_the_other_end_is_gone",
    "closing_in_a_cancelled_scope_closes",
    "closing_wakes_who_receives",
    "closing_wakes_who_sends",
    "nothing_is_left_behind",
    "the_server_may_go_while_the_client_sends",
    "what_was_said_last_arrives_and_then_the_end",
]


async def what_was_said_last_arrives_and_then_the_end(open_transport: OpenTransport) -> None:
    """All that was sent before an end was closed comes, then the end, and then the end again."""
    said = [*lines(20), line(20, 200_000), line(21)]

    def make() -> tuple[Role, Role]:
        async def give(stream: End) -> None:
            for each in said:
                with within("something is sent to an end that reads"):
                    await stream.send_all(each)

        async def hear(stream: End) -> None:
            reader = Lines(stream)
            await reader.take(said)
            for what in ("the end is seen", "the end is seen when it is asked for again"):
                with within(what):
                    more = await reader.next()
                true(more is None, f"{what}: {(more or b'')[:60]!r} came instead")

        return give, hear

    await both_ways(open_transport, make)


async def a_sender_is_told_that_the_other_end_is_gone(open_transport: OpenTransport) -> None:
    """`send_all` raises `trio.BrokenResourceError` sooner or later: what is said to nobody must not go on for ever."""

    def make() -> tuple[Role, Role]:
        async def leave(stream: End) -> None:
            await take(stream, [line(0)])

        async def give(stream: End) -> None:
            await stream.send_all(line(0))
            await hear_end(stream, "the end is seen")
            with within("sending to an end that is gone fails"):
                await _send_until_it_fails(stream)

        return give, leave

    await both_ways(open_transport, make)


async def _send_until_it_fails(stream: End) -> None:
    try:
        while True:
            await stream.send_all(line(1, 65_536))
            # It may take a moment until the other end's refusal is here.
            await trio.sleep(0.001)
    except GONE:
        pass


async def a_closed_end_stays_closed(open_transport: OpenTransport) -> None:
    """`aclose` may be called again, by two tasks at once too; nothing can be sent or received any more."""

    async def serve(stream: ServedStream) -> None:
        await take(stream, [line(0)])
        await hear_end(stream, "the server sees that the client has closed")

    async def act(stream: ByteStream) -> None:
        await stream.send_all(line(0))
        with within("closing twice at once, and once more"):
            async with open_private_nursery() as nursery:
                nursery.start_soon(stream.aclose)
                await stream.aclose()
            await stream.aclose()
        with within("a closed end says so"):
            try:
                await stream.send_all(line(1))
            except GONE:
                await hear_end(stream, "nothing is received at a closed end")
                return
        raise AssertionError("a closed end takes what is sent")

    await one_client(open_transport, serve, act)


async def closing_wakes_who_receives(open_transport: OpenTransport) -> None:
    """A task that waits in `receive_some` is not left there by another one that closes."""

    async def serve(stream: ServedStream) -> None:
        await hear_end(stream, "the server sees that the client has closed")

    async def act(stream: ByteStream) -> None:
        over = trio.Event()

        async def receive() -> None:
            await hear_end(stream, "a task that receives is woken when another one closes")
            over.set()

        async with open_private_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            with within("an end is closed where a task receives"):
                await stream.aclose()
            await over.wait()

    await one_client(open_transport, serve, act)


class _Flood:
    """Sends to an end that does not read, until that waits; and then until it fails."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.free = trio.Event()
        self._sent = 0

    async def run(self, stream: End) -> None:
        try:
            while self._sent * 65_536 < MOST:
                await stream.send_all(line(self._sent, 65_536))
                self._sent += 1
        except GONE:
            self.over.set()

    async def wait_until_it_waits(self) -> None:
        await until_blocked(lambda: self._sent)

    async def wait_over(self, what: str) -> None:
        with within(what):
            await self.over.wait()

    async def do_not_read(self, stream: ServedStream) -> None:
        """A server that begins to read late, when the client is gone: there is less than was sent, or an error."""
        await self.free.wait()
        with within("the server sees that the client is gone, behind what it had sent"):
            try:
                while await stream.receive_some():
                    pass
            except GONE:
                pass


async def closing_wakes_who_sends(open_transport: OpenTransport) -> None:
    """A task that waits in `send_all` for an end that does not read does not keep another one from closing."""
    flood = _Flood()

    async def act(stream: ByteStream) -> None:
        async with open_private_nursery() as nursery:
            nursery.start_soon(flood.run, stream)
            await flood.wait_until_it_waits()
            with within("an end is closed where a task sends"):
                await stream.aclose()
            await flood.wait_over("a task that sends is woken when another one closes")
        flood.free.set()

    await one_client(open_transport, flood.do_not_read, act)


async def a_cancelled_send_can_be_closed(open_transport: OpenTransport) -> None:
    """After a `send_all` that was cancelled halfway the end can be closed, and the other one sees it."""
    flood = _Flood()

    async def act(stream: ByteStream) -> None:
        async with open_private_nursery() as nursery:
            nursery.start_soon(flood.run, stream)
            await flood.wait_until_it_waits()
        with within("an end is closed after a cancelled send"):
            await stream.aclose()
        flood.free.set()

    await one_client(open_transport, flood.do_not_read, act)


async def the_server_may_go_while_the_client_sends(open_transport: OpenTransport) -> None:
    """A client that waits in `send_all` is told that the server has gone, and hears the end."""
    flood = _Flood()

    async def serve(stream: ServedStream) -> None:  # noqa: ARG001  it does not even look
        await flood.free.wait()

    async def act(stream: ByteStream) -> None:
        async with open_private_nursery() as nursery:
            nursery.start_soon(flood.run, stream)
            await flood.wait_until_it_waits()
            flood.free.set()
            await hear_end(stream, "the client sees the end while it sends")
            await flood.wait_over("a client that sends is told that the server is gone")

    await one_client(open_transport, serve, act)


async def closing_in_a_cancelled_scope_closes(open_transport: OpenTransport) -> None:
    """`aclose` frees what there is even where it may not wait, as it is called when everything is cancelled."""

    async def serve(stream: ServedStream) -> None:
        await take(stream, [line(0)])
        await hear_end(stream, "the server sees the end of a client that was closed in a cancelled scope")

    async def talk(connect: Connect) -> None:
        stream = await connect()
        await stream.send_all(line(0))
        with within("closing in a cancelled scope returns"), trio.CancelScope() as scope:
            scope.cancel()
            await stream.aclose()

    await met(open_transport, serve, talk)


async def nothing_is_left_behind(open_transport: OpenTransport) -> None:
    """No task and no open file, after clients that talked, were cancelled, or never got a connection."""
    await _come_and_go(open_transport)
    before = _footprint()
    for _ in range(3):
        await _come_and_go(open_transport)
    for what, number in _footprint().items():
        true(number <= before[what], f"{number - before[what]} more {what} than before, when everything is closed")


async def _come_and_go(open_transport: OpenTransport) -> None:
    async def talk(connect: Connect) -> None:
        with within("a client talks and closes"):
            stream = await connect()
            await stream.send_all(line(0))
            await Lines(stream).take([line(0)])
            await stream.aclose()
        with within("a client is cancelled while it receives"):
            stream = await connect()
            with trio.CancelScope() as scope:
                scope.cancel()
                await stream.receive_some()
            await stream.aclose()
        with within("a client is cancelled while it connects"), trio.CancelScope() as scope:
            scope.cancel()
            stream = await connect()
            await stream.aclose()

    await met(open_transport, echo, talk)


def _footprint() -> dict[str, int]:
    files = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
    return {"tasks": trio.lowlevel.current_statistics().tasks_living, "open files": files}
