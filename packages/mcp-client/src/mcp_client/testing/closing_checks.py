"""Checks of transports for closed connections: by `aclose`, by cancellation, and while the peer sends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio
import trio.testing

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
from mcp_core.trio.nursery import open_private_nursery

if TYPE_CHECKING:
    from mcp_client.testing.transport_checks import Connect, End, OpenTransport, Role, ServedStream
    from mcp_client.transports.stdio.stream import ByteStream

__all__ = [
    "cancelled_send_can_be_closed",
    "close_in_cancelled_scope_closes",
    "close_wakes_receiver",
    "close_wakes_sender",
    "closed_connections_leave_no_resources",
    "closed_stream_stays_closed",
    "last_data_arrives_before_end",
    "send_to_closed_peer_fails",
    "server_can_close_while_client_sends",
]


async def last_data_arrives_before_end(open_transport: OpenTransport) -> None:
    """Check that all data sent before closing arrives, followed by the end, and that the end is permanent."""
    said = [*lines(20), line(20, 200_000), line(21)]

    def make() -> tuple[Role, Role]:
        async def give(stream: End) -> None:
            for each in said:
                with within("sending to an end that reads"):
                    await stream.send_all(each)

        async def hear(stream: End) -> None:
            reader = Lines(stream)
            await reader.take(said)
            for what in ("the end arrives", "the end arrives again on a second read"):
                with within(what):
                    more = await reader.next()
                true(more is None, f"{what}: received {(more or b'')[:60]!r} instead")

        return give, hear

    await both_ways(open_transport, make)


async def send_to_closed_peer_fails(open_transport: OpenTransport) -> None:
    """Check that `send_all` raises `trio.BrokenResourceError` at some time after the peer has closed its end."""

    def make() -> tuple[Role, Role]:
        async def leave(stream: End) -> None:
            await take(stream, [line(0)])

        async def give(stream: End) -> None:
            await stream.send_all(line(0))
            await hear_end(stream, "the end arrives")
            with within("sending to a closed end fails"):
                await _send_until_it_fails(stream)

        return give, leave

    await both_ways(open_transport, make)


async def _send_until_it_fails(stream: End) -> None:
    try:
        while True:
            await stream.send_all(line(1, 65_536))
            # The reset by the peer may take a moment to arrive.
            await trio.sleep(0.001)
    except GONE:
        pass


async def closed_stream_stays_closed(open_transport: OpenTransport) -> None:
    """Check that `aclose` can be called again, also by two tasks at once, and that sending and receiving then fail."""

    async def serve(stream: ServedStream) -> None:
        await take(stream, [line(0)])
        await hear_end(stream, "the server receives the end from the client")

    async def act(stream: ByteStream) -> None:
        await stream.send_all(line(0))
        with within("closing twice at once, and a third time"):
            async with open_private_nursery() as nursery:
                nursery.start_soon(stream.aclose)
                await stream.aclose()
            await stream.aclose()
        with within("a closed end raises an error"):
            try:
                await stream.send_all(line(1))
            except GONE:
                await hear_end(stream, "a closed end receives nothing")
                return
        raise AssertionError("a closed end accepts data to send")

    await one_client(open_transport, serve, act)


async def close_wakes_receiver(open_transport: OpenTransport) -> None:
    """Check that closing wakes a task that waits in `receive_some`."""

    async def serve(stream: ServedStream) -> None:
        await hear_end(stream, "the server receives the end from the client")

    async def act(stream: ByteStream) -> None:
        over = trio.Event()

        async def receive() -> None:
            await hear_end(stream, "a receiving task is woken when another task closes the end")
            over.set()

        async with open_private_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            with within("closing an end while a task receives"):
                await stream.aclose()
            await over.wait()

    await one_client(open_transport, serve, act)


class _Flood:
    """A sender to an end that does not read: until `send_all` blocks, and then until it fails."""

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
        """Serve without reading until the client has closed. Then there is less data than was sent, or an error."""
        await self.free.wait()
        with within("the server receives the end after the data of the client"):
            try:
                while await stream.receive_some():
                    pass
            except GONE:
                pass


async def close_wakes_sender(open_transport: OpenTransport) -> None:
    """Check that a task that waits in `send_all` for a peer that does not read does not prevent closing."""
    flood = _Flood()

    async def act(stream: ByteStream) -> None:
        async with open_private_nursery() as nursery:
            nursery.start_soon(flood.run, stream)
            await flood.wait_until_it_waits()
            with within("closing an end while a task sends"):
                await stream.aclose()
            await flood.wait_over("a sending task is woken when another task closes the end")
        flood.free.set()

    await one_client(open_transport, flood.do_not_read, act)


async def cancelled_send_can_be_closed(open_transport: OpenTransport) -> None:
    """Check that an end can be closed after a `send_all` was cancelled halfway, and that the peer receives the end."""
    flood = _Flood()

    async def act(stream: ByteStream) -> None:
        async with open_private_nursery() as nursery:
            nursery.start_soon(flood.run, stream)
            await flood.wait_until_it_waits()
        with within("closing an end after a cancelled send"):
            await stream.aclose()
        flood.free.set()

    await one_client(open_transport, flood.do_not_read, act)


async def server_can_close_while_client_sends(open_transport: OpenTransport) -> None:
    """Check that a client in `send_all` gets an error when the server closes, and receives the end."""
    flood = _Flood()

    async def serve(stream: ServedStream) -> None:  # noqa: ARG001  this server does not use the stream
        await flood.free.wait()

    async def act(stream: ByteStream) -> None:
        async with open_private_nursery() as nursery:
            nursery.start_soon(flood.run, stream)
            await flood.wait_until_it_waits()
            flood.free.set()
            await hear_end(stream, "the client receives the end while it sends")
            await flood.wait_over("sending fails after the server has closed")

    await one_client(open_transport, serve, act)


async def close_in_cancelled_scope_closes(open_transport: OpenTransport) -> None:
    """Check that `aclose` frees all resources in a cancelled scope, where it cannot wait."""

    async def serve(stream: ServedStream) -> None:
        await take(stream, [line(0)])
        await hear_end(stream, "the server receives the end of a client that was closed in a cancelled scope")

    async def talk(connect: Connect) -> None:
        stream = await connect()
        await stream.send_all(line(0))
        with within("closing in a cancelled scope returns"), trio.CancelScope() as scope:
            scope.cancel()
            await stream.aclose()

    await met(open_transport, serve, talk)


async def closed_connections_leave_no_resources(open_transport: OpenTransport) -> None:
    """Check that no tasks and no open files remain after clients that talked, were cancelled, or did not connect."""
    await _come_and_go(open_transport)
    before = _footprint()
    for _ in range(3):
        await _come_and_go(open_transport)
    for what, number in _footprint().items():
        true(number <= before[what], f"{number - before[what]} more {what} than before, after everything was closed")


async def _come_and_go(open_transport: OpenTransport) -> None:
    async def talk(connect: Connect) -> None:
        with within("a client sends, receives and closes"):
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
