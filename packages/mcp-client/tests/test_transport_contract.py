"""The contract of transports: memory, TCP and child processes keep it, and each check finds a broken transport."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from mcp_client import Grace
from mcp_client.testing.transport_contract import (
    TRANSPORT_CHECKS,
    Connect,
    OpenTransport,
    ServeClient,
    TransportCheck,
)
from mcp_client.transports.stdio.command import StdioParameters
from mcp_client.transports.stdio.process import ChildProcess
from mcp_core.errors import ConnectionEnded
from mcp_server.runners.descriptors import DescriptorStream

_NAMES = {check.__name__: check for check in TRANSPORT_CHECKS if hasattr(check, "__name__")}


def _name(check: TransportCheck) -> str:
    return getattr(check, "__name__", "?")


# --- transports that keep the contract -------------------------------------------------------------------------------


class _End:
    """One end of a pair of streams without a buffer, without faults."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, *, serves: bool) -> None:
        self.stream = stream
        self.nursery = nursery
        self.serves = serves

    async def receive_some(self) -> bytes:
        return bytes(await self.stream.receive_some())

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.stream.send_all(data)

    async def aclose(self) -> None:
        await self.stream.aclose()


def _in_memory(kind: type[_End] = _End) -> OpenTransport:
    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async def serve_client(end: _End) -> None:
            try:
                await serve(end)
            finally:
                await end.aclose()

        async with trio.open_nursery() as nursery:

            async def connect() -> _End:
                await trio.lowlevel.checkpoint()
                ours, theirs = trio.testing.lockstep_stream_pair()
                nursery.start_soon(serve_client, kind(theirs, nursery, serves=True))
                return kind(ours, nursery, serves=False)

            yield connect
            nursery.cancel_scope.cancel()

    return open_transport


@pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=_name)
async def test_memory_streams_keep_contract(check: TransportCheck, autojump_clock: trio.testing.MockClock) -> None:
    await check(_in_memory())


@pytest.mark.spec(
    "jsonrpc.custom-transport-stdio-framing",
    "jsonrpc.custom-transport-preserve",
    "jsonrpc.custom-transport",
    "jsonrpc.custom-transport-allowed",
)
@pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=_name)
async def test_tcp_keeps_contract(check: TransportCheck) -> None:
    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async def serve_client(stream: trio.SocketStream) -> None:
            async with stream:
                await serve(stream)

        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, serve_client, 0, host="127.0.0.1"))
            host, port = listener.socket.getsockname()
            yield partial(trio.open_tcp_stream, host, port)
            nursery.cancel_scope.cancel()

    await check(open_transport)


# --- the pipes of a child process ------------------------------------------------------------------------------------

_LENDING_PROGRAM = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as parent:
    parent.connect(sys.argv[1])
    socket.send_fds(parent, [b"!"], [0, 1])
    os.close(0)
    os.close(1)
    parent.recv(1)
"""
"""A program that passes its stdin and stdout to the test, so that a check can watch both ends, and lives until they are closed there."""


class _Child:
    """A child process that raises the errors of a stream."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child

    async def receive_some(self) -> bytes:
        return await self._child.receive_some()

    async def send_all(self, data: bytes) -> None:
        try:
            await self._child.send_all(data)
        except ConnectionEnded as ended:
            raise trio.BrokenResourceError from ended

    async def aclose(self) -> None:
        await self._child.aclose()


@pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=_name)
async def test_process_pipes_keep_contract(check: TransportCheck, tmp_path: Path) -> None:
    socket_path = str(tmp_path / "lent")

    async def serve_child(serve: ServeClient, lent: trio.SocketStream) -> None:
        async with lent:
            await trio.lowlevel.wait_readable(lent.socket)
            with socket.socket(fileno=os.dup(lent.socket.fileno())) as plain:
                data, (source, sink), _, _ = socket.recv_fds(plain, 1, 2)
            assert data == b"!"
            with DescriptorStream(source, sink) as stream:
                await serve(stream)

    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async with trio.open_nursery() as nursery:
            with trio.socket.socket(trio.socket.AF_UNIX) as listening_socket:
                await listening_socket.bind(socket_path)
                listening_socket.listen()
                command = [sys.executable, "-I", "-S", "-c", _LENDING_PROGRAM, socket_path]
                grace = Grace(close_stdin=0.5, terminate=0.5)
                parameters = StdioParameters(command=command, grace=grace)
                nursery.start_soon(
                    partial(trio.serve_listeners, partial(serve_child, serve), [trio.SocketListener(listening_socket)])
                )

                async def connect() -> _Child:
                    return _Child(await ChildProcess.open(parameters, nursery))

                yield connect
                nursery.cancel_scope.cancel()
        os.unlink(socket_path)

    await check(open_transport)


# --- transports that break the contract --------------------------------------------------------------------------------


class _SendsTwice(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        await super().send_all(data)
        await super().send_all(data)


class _Reorders(_End):
    held: bytes | memoryview | None = None

    async def send_all(self, data: bytes | memoryview) -> None:
        held, self.held = self.held, None
        if held is None:
            self.held = data
        else:
            await super().send_all(data)
            await super().send_all(held)


class _OneLinePerCall(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        await super().send_all(bytes(data).rstrip(b"\n") + b"\n")


class _DecodesPieces(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        await super().send_all(bytes(data).decode("utf-8", "replace").encode())


class _RequiresBytes(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        if not isinstance(data, bytes):
            raise TypeError("a bytes-like object of another kind")
        await super().send_all(data)


class _CutsLongLines(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        await super().send_all(bytes(data)[:100_000] + (b"\n" if len(data) > 100_000 else b""))


class _HalfDuplex(_End):
    sending = False

    async def send_all(self, data: bytes | memoryview) -> None:
        self.sending = True
        await super().send_all(data)
        self.sending = False

    async def receive_some(self) -> bytes:
        if self.sending:
            await trio.sleep_forever()
        return await super().receive_some()


class _UnboundedBuffer(_End):
    """An end that accepts everything at once, without a bound."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, *, serves: bool) -> None:
        super().__init__(stream, nursery, serves=serves)
        self.give, self.hoard = trio.testing.memory_stream_one_way_pair()
        nursery.start_soon(self.pump)

    async def pump(self) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in self.hoard:
                await self.stream.send_all(data)

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.give.send_all(bytes(data))


class _LosesDataOnCancellation(_End):
    async def receive_some(self) -> bytes:
        data = await super().receive_some()
        await trio.sleep(0.001)
        return data


class _LosesLastData(_End):
    """An end that drops data that is still being sent when it is closed."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, *, serves: bool) -> None:
        super().__init__(stream, nursery, serves=serves)
        self.give, self.waiting = trio.open_memory_channel[bytes](5)
        self.scope = trio.CancelScope()
        nursery.start_soon(self.pump)

    async def pump(self) -> None:
        with self.scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in self.waiting:
                await self.stream.send_all(data)

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.give.send(bytes(data))

    async def aclose(self) -> None:
        self.scope.cancel()
        await super().aclose()


class _SwallowsEnd(_End):
    async def receive_some(self) -> bytes:
        return await super().receive_some() or await trio.sleep_forever()


class _EndsOnce(_End):
    ended = False

    async def receive_some(self) -> bytes:
        if self.ended:
            await trio.sleep_forever()
        data = await super().receive_some()
        self.ended = not data
        return data


class _SwallowsErrors(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        try:
            await super().send_all(data)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()


class _RaisesOwnErrors(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        try:
            await super().send_all(data)
        except trio.BrokenResourceError as error:
            raise OSError("gone") from error


class _ClosesOnce(_End):
    closed = False

    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("it was closed before")
        self.closed = True
        await super().aclose()


class _SendsWhenClosed(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        try:
            await super().send_all(data)
        except trio.ClosedResourceError:
            await trio.lowlevel.checkpoint()


class _CloseWaitsForReceiver(_End):
    receiving = False

    async def receive_some(self) -> bytes:
        self.receiving = True
        data = await super().receive_some()
        self.receiving = False
        return data

    async def aclose(self) -> None:
        if self.receiving:
            await trio.sleep_forever()
        await super().aclose()


class _CloseWaitsForSender(_End):
    """An end whose close waits for pending sends, also for cancelled ones."""

    sending = False

    async def send_all(self, data: bytes | memoryview) -> None:
        self.sending = True
        await super().send_all(data)
        self.sending = False

    async def aclose(self) -> None:
        if self.sending:
            await trio.sleep_forever()
        await super().aclose()


class _BlocksOnClose(_End):
    async def aclose(self) -> None:
        await super().aclose()
        await trio.sleep_forever()


class _CloseIsCancellable(_End):
    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        await super().aclose()


class _LeaksTask(_End):
    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, *, serves: bool) -> None:
        super().__init__(stream, nursery, serves=serves)
        _OUTER_NURSERIES[-1].start_soon(trio.sleep_forever)


_OUTER_NURSERIES: list[trio.Nursery] = []
"""Nurseries that outlive the transport."""

_OPEN_FILES: list[int] = []
"""Descriptors that no transport closed."""


class _LeaksFile(_End):
    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, *, serves: bool) -> None:
        super().__init__(stream, nursery, serves=serves)
        _OPEN_FILES.append(os.open(os.devnull, os.O_RDONLY))


class _ChangesRevision(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        await super().send_all(bytes(data).replace(b"2025-06-18", b"2025-11-25"))


class _DropsCancellations(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        if b"notifications/cancelled" not in bytes(data):
            await super().send_all(data)


class _DropsClientRequests(_End):
    async def send_all(self, data: bytes | memoryview) -> None:
        if not (self.serves and b"roots/list" in bytes(data)):
            await super().send_all(data)


def _shared_connection() -> OpenTransport:
    """Return a transport on which all clients have the same connection."""

    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async with _in_memory()(serve) as connect:
            first = await connect()

            async def connect_again() -> object:
                await trio.lowlevel.checkpoint()
                return first

            yield connect_again  # type: ignore[misc]  # it returns a stream

    return open_transport


def _never_ends() -> OpenTransport:
    @asynccontextmanager
    async def open_transport(serve: ServeClient) -> AsyncIterator[Connect]:
        async with _in_memory()(serve) as connect:
            yield connect
            await trio.sleep_forever()

    return open_transport


_BROKEN: dict[str, tuple[OpenTransport, tuple[str, ...]]] = {
    "sends twice": (_in_memory(_SendsTwice), ("lines_arrive_unchanged",)),
    "reorders": (_in_memory(_Reorders), ("lines_arrive_unchanged",)),
    "makes a line of each call": (_in_memory(_OneLinePerCall), ("lines_arrive_in_any_chunks",)),
    "decodes pieces": (_in_memory(_DecodesPieces), ("lines_arrive_in_any_chunks",)),
    "requires bytes": (_in_memory(_RequiresBytes), ("memoryviews_are_sent",)),
    "cuts long lines": (_in_memory(_CutsLongLines), ("long_line_arrives_whole",)),
    "is half duplex": (_in_memory(_HalfDuplex), ("both_ends_can_send_at_once",)),
    "buffers without bound": (
        _in_memory(_UnboundedBuffer),
        ("slow_reader_slows_sender", "server_can_close_while_client_sends"),
    ),
    "loses data on cancellation": (
        _in_memory(_LosesDataOnCancellation),
        ("cancelled_receive_loses_no_data",),
    ),
    "has one connection": (_shared_connection(), ("clients_have_separate_connections",)),
    "loses the last data": (_in_memory(_LosesLastData), ("last_data_arrives_before_end",)),
    "swallows the end": (_in_memory(_SwallowsEnd), ("last_data_arrives_before_end",)),
    "ends once": (_in_memory(_EndsOnce), ("last_data_arrives_before_end",)),
    "swallows errors": (_in_memory(_SwallowsErrors), ("send_to_closed_peer_fails",)),
    "raises errors of its own": (_in_memory(_RaisesOwnErrors), ("send_to_closed_peer_fails",)),
    "closes once": (_in_memory(_ClosesOnce), ("closed_stream_stays_closed",)),
    "sends when closed": (_in_memory(_SendsWhenClosed), ("closed_stream_stays_closed",)),
    "close waits for receivers": (_in_memory(_CloseWaitsForReceiver), ("close_wakes_receiver",)),
    "close waits for senders": (
        _in_memory(_CloseWaitsForSender),
        ("close_wakes_sender", "cancelled_send_can_be_closed"),
    ),
    "blocks on close": (
        _in_memory(_BlocksOnClose),
        ("lines_arrive_unchanged", "closed_stream_stays_closed"),
    ),
    "close is cancellable": (_in_memory(_CloseIsCancellable), ("close_in_cancelled_scope_closes",)),
    "leaks a task": (_in_memory(_LeaksTask), ("closed_connections_leave_no_resources",)),
    "leaks a file": (_in_memory(_LeaksFile), ("closed_connections_leave_no_resources",)),
    "changes the revision": (_in_memory(_ChangesRevision), ("calls_work_in_each_revision",)),
    "drops cancellations": (_in_memory(_DropsCancellations), ("call_can_be_cancelled",)),
    "drops client requests": (_in_memory(_DropsClientRequests), ("server_can_send_request_during_call",)),
    "serves forever": (_never_ends(), ("lines_arrive_unchanged",)),
}
"""Ways to break the contract, and the checks that find them."""


@pytest.mark.parametrize("fault", _BROKEN)
async def test_check_finds_broken_transport(fault: str, autojump_clock: trio.testing.MockClock) -> None:
    open_transport, checks = _BROKEN[fault]
    try:
        async with trio.open_nursery() as outer_nursery:
            _OUTER_NURSERIES.append(outer_nursery)
            for check in checks:
                # Other errors of the transport are raised unchanged.
                with pytest.raises((AssertionError, OSError, RuntimeError, TypeError)):
                    await _NAMES[check](open_transport)
            outer_nursery.cancel_scope.cancel()
    finally:
        _OUTER_NURSERIES.clear()
        while _OPEN_FILES:
            os.close(_OPEN_FILES.pop())


def test_checks_all_have_broken_transport() -> None:
    assert {name for _, names in _BROKEN.values() for name in names} == set(_NAMES)
    assert len(_NAMES) == len(TRANSPORT_CHECKS)
