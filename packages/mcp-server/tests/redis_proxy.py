"""A proxy between a worker and Redis that injects faults."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio


@attrs.define
class Faults:
    """The faults of a proxy. A test changes them while the proxy runs."""

    refuses: bool = False
    """Whether new connections are closed at once."""
    hangs: bool = False
    """Whether nothing is passed on, as if the network was cut."""
    lost_replies: int = 0
    """The number of requests after which a connection is reset: the server ran the next command, and its reply is lost."""
    lost_calls: int = 0
    """The number of times that the reply to a command about a used id is lost, together with its connection."""
    delay: float = 0.0
    """The delay of each reply, in seconds."""
    piece: int = 65_536
    """The number of bytes that are passed on at a time."""


class RedisProxy:
    """The proxy: its port, its faults, and the connections so far."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.faults = Faults()
        self.opened = 0
        self.resets = 0
        self._requests: dict[trio.CancelScope, int] = {}
        self._losing: set[trio.CancelScope] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset all open connections."""
        for scope in self._requests:
            scope.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        self.opened += 1
        if self.faults.refuses:
            _reset(client)
            return
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.target)
        except OSError:
            _reset(client)
            return
        try:
            with trio.CancelScope() as scope:
                self._requests[scope] = 0
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._forward, client, server, scope)
                    await self._reply(server, client, scope)
                    scope.cancel()
            del self._requests[scope]
        finally:
            _reset(client)
            _reset(server)

    async def _forward(self, client: trio.SocketStream, server: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            async for data in client:
                await self._held()
                # A large command arrives in several parts. Only the first begins like a command.
                self._requests[scope] += data.startswith(b"*")
                if self.faults.lost_calls and b"{replay:" in data:
                    self.faults.lost_calls -= 1
                    self._losing.add(scope)
                await server.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    async def _reply(self, server: trio.SocketStream, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            async for data in server:
                if scope in self._losing or 0 < self.faults.lost_replies < self._requests[scope]:
                    self._losing.discard(scope)
                    self.resets += 1
                    return
                await self._held()
                if self.faults.delay:
                    await trio.sleep(self.faults.delay)
                for start in range(0, len(data), self.faults.piece):
                    await client.send_all(data[start : start + self.faults.piece])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _held(self) -> None:
        while self.faults.hangs:  # noqa: ASYNC110  # until the connection is cut
            await trio.sleep(0.05)


def _reset(stream: trio.SocketStream) -> None:
    """Close a connection with a reset."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


@asynccontextmanager
async def open_proxy(target: int) -> AsyncIterator[RedisProxy]:
    """Start a proxy for the server at a port of this machine."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = RedisProxy(listener.socket.getsockname()[1], target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
