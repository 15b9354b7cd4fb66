"""The embedded HTTP/1.1 host: runs an ASGI application on trio and h11.

Hypercorn offers the features of a full server (HTTP/2, several processes, lifespan, web sockets) and runs the same
application. The embedded host serves a request at less than half of the cost. It bounds everything that a client can
make it store or wait for, and it completes running requests before it stops.

    `HttpHost`                 accepts, counts and stops connections           `mcp_server.host.embedded`
     ├─ `TimeoutScheduler`     one task for all deadlines                      `mcp_server.host.timeouts`
     └─ `Connection`           one task each; requests one after the other     `mcp_server.host.connection`
         ├─ `Pipe`             the bytes: a socket, TLS, or a pair in memory   `mcp_server.host.stream`
         └─ `AsgiRequest`      one request, as the application sees it         `mcp_server.host.request`
             └─ `ResponseWriter`   the bytes of the response                   `mcp_server.host.http1`
"""

from __future__ import annotations

import errno
import logging
import math
import select
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_server.host.connection import Connection
from mcp_server.host.http1 import date_value, plain_response
from mcp_server.host.stream import SocketPipe, StreamPipe
from mcp_server.host.timeouts import HostTimeouts, TimeoutScheduler

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeVarTuple, Unpack

    from mcp_server.asgi import Application
    from mcp_server.host.connection_counts import ConnectionCounts
    from mcp_server.host.request import Address
    from mcp_server.host.stream import Pipe

    Ts = TypeVarTuple("Ts")

__all__ = ["HttpHost"]

_log: Final = logging.getLogger("mcp_server")

_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors that report the limit on open files of the process or the system."""

_WARN_PAUSE: Final = 60.0
"""Time between two warnings about the limit on open files, in seconds."""

_ACCEPT_PAUSE: Final = 0.1
"""Time until the next attempt to accept a connection while the host is at capacity, in seconds."""

_YIELD: Final = 0.002
"""Time in which a worker with fewer connections can accept a connection, in seconds."""


class HttpHost:
    """An HTTP/1.1 server for one ASGI application.

    Args:
        app: The application. The host creates only scopes of type `http`, no lifespan.
        limits: The limits. The host uses `connections`, `header_bytes`, `message_bytes` and `total_bytes`.
        budget: The memory budget for heads and output. `None`: a budget of `Limits.total_bytes` for this host alone.
        timeouts: The times to wait for clients.
        tls: The TLS context for HTTPS. `None`: plain HTTP.
        counts: The connections of all worker processes. `None`: no other process accepts connections.
    """

    def __init__(
        self,
        app: Application,
        *,
        limits: Limits = SERVER_LIMITS,
        timeouts: HostTimeouts | None = None,
        tls: ssl.SSLContext | None = None,
        budget: MemoryBudget | None = None,
        counts: ConnectionCounts | None = None,
    ) -> None:
        self.budget: Final = MemoryBudget(limits.total_bytes) if budget is None else budget
        """The memory budget that connections are charged to."""
        self.budget.drops_output = True
        self.app: Final = app
        """The application."""
        self.limits: Final = limits
        """The limits."""
        self.timeouts: Final = timeouts or HostTimeouts()
        """The times to wait for clients."""
        # In the order in which they were opened.
        self._connections: Final[dict[Connection, None]] = {}
        self.scheduler: Final = TimeoutScheduler(self._connections)
        """The scheduler of all deadlines."""
        self._tls: Final = tls
        self._counts: Final = counts
        self._nursery: trio.Nursery | None = None
        self._stop: Final = trio.Event()
        self._acceptors: trio.CancelScope | None = None
        self._one_ended = trio.Event()
        self.stopping: bool = False
        """Whether `stop` was called."""
        self.leaving: bool = False
        """Whether `leave` was called: each response is the last one of its connection."""
        # Number of connections without a client whose applications still run.
        self._abandoned = 0
        self._warned_at = -math.inf

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections) - self._abandoned

    @property
    def is_full(self) -> bool:
        """Whether the limit of connections is reached, or as many applications still run without a client."""
        return max(self.connections, self._abandoned) >= self.limits.connections

    def stop(self) -> None:
        """Stop accepting connections and requests. `run` returns after the running requests are complete."""
        self.stopping = True
        self._stop.set()
        for connection in self._connections:
            connection.hurry()

    async def leave(self) -> None:
        """Stop accepting connections, and wait until the last connection has closed. Requests are still served.

        Each response asks its client to close the connection, so that the next request reaches another process that
        accepts connections at the same address. To close idle connections now could lose requests that were sent
        at the same moment.
        """
        self.leaving = True
        if self._counts is not None:
            self._counts.clear()
        if self._acceptors is not None:
            self._acceptors.cancel()
        while self._connections:
            await self._one_ended.wait()

    async def run(
        self,
        listeners: Sequence[trio.SocketListener] = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve connections.

        Args:
            listeners: The listening sockets. They are closed before this method returns.
            task_status: Receives `started` when the host accepts connections.

        *Closing.* Returns after `stop`, when the last connection has ended. Cancel this method to abort connections.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.scheduler.run)
            async with trio.open_nursery() as acceptors:
                self._acceptors = acceptors.cancel_scope
                self._count()
                for listener in listeners:
                    acceptors.start_soon(self._accept, listener)
                task_status.started()
                await self._stop.wait()
                acceptors.cancel_scope.cancel()
            # Also after `leave`, which cancels the wait.
            await self._stop.wait()
            while self._connections:
                await self._one_ended.wait()
            nursery.cancel_scope.cancel()

    async def serve_stream(self, stream: trio.abc.Stream, *, client: Address | None = None) -> None:
        """Serve one connection over a stream, while `run` runs. The stream is closed at the end.

        Args:
            stream: The stream of the caller.
            client: The address of the client for the ASGI scope.
        """
        connection = self._connection(StreamPipe(stream, self.timeouts.linger), "http", client, None)
        self._connections[connection] = None
        await connection.run()

    # --- called by connections -------------------------------------------------------------------------------------

    def start_soon(self, function: Callable[[Unpack[Ts]], Awaitable[object]], *arguments: *Ts) -> None:
        """Start a task that is cancelled when the host stops.

        Raises:
            RuntimeError: `run` was not called.
        """
        if self._nursery is None:
            raise RuntimeError("cannot start a task: the host is not running; call run first")
        self._nursery.start_soon(function, *arguments)

    def start(self, connection: Connection) -> None:
        """Serve a connection in a new task."""
        self._connections[connection] = None
        self._count()
        self.start_soon(connection.run)

    def ended(self, connection: Connection) -> None:
        """Forget a connection whose task ends, and wake the waiting tasks."""
        del self._connections[connection]
        self._abandoned -= connection.abandoned
        self._notify_capacity()

    def notify_capacity(self) -> None:
        """Count a connection whose client has disconnected or that another task serves, and wake the waiting tasks."""
        self._abandoned += 1
        self._notify_capacity()

    def _notify_capacity(self) -> None:
        self._count()
        self._one_ended.set()
        self._one_ended = trio.Event()

    def _count(self) -> None:
        if self._counts is not None and not (self.leaving or self.stopping):
            self._counts.record(self.connections)

    # --- internal --------------------------------------------------------------------------------------------------

    def _connection(self, pipe: Pipe, scheme: str, client: Address | None, server: Address | None) -> Connection:
        return Connection(
            self, pipe, scheme=scheme, client=client, server=server, first_request_seconds=self.timeouts.head
        )

    async def _accept(self, listener: trio.SocketListener) -> None:
        async with listener:
            while True:
                if self.is_full:
                    await trio.lowlevel.wait_readable(listener.socket)
                    await self._wait_for_capacity()
                if self._counts is not None:
                    await trio.lowlevel.wait_readable(listener.socket)
                    if self._counts.others_have_fewer:
                        await trio.sleep(_YIELD)
                        if not _is_readable(listener.socket):
                            continue
                try:
                    sock, address = await listener.socket.accept()
                except OSError as error:
                    self._accept_failed(error)
                    await trio.sleep(_ACCEPT_PAUSE)
                    continue
                self._begin(sock, (str(address[0]), int(address[1])))

    def _accept_failed(self, error: OSError) -> None:
        if error.errno not in _NO_DESCRIPTORS:
            _log.debug("accept failed: %s", error)  # usually the client has already disconnected
            return
        # Other parts of the process, or other processes, have more open files than expected.
        self._evict()
        now = trio.current_time()
        if now - self._warned_at >= _WARN_PAUSE:
            self._warned_at = now
            _log.warning(
                "accept failed: %s; open connections: %d. Raise the limit on open files (ulimit -n) or lower"
                " Limits.connections",
                error,
                self.connections,
            )

    async def _wait_for_capacity(self) -> None:
        """Wait until the host can accept another connection, and evict a connection if possible."""
        while self.is_full:
            self._evict()
            # If no connection can be evicted, one may become idle. This is not reported, so check again.
            with trio.move_on_after(_ACCEPT_PAUSE):
                await self._one_ended.wait()

    def _evict(self) -> None:
        """Drop the connection with the smallest eviction key, if there is a candidate."""
        now = trio.current_time()
        candidates = [(key, each) for each in self._connections if (key := each.evictable(now)) is not None]
        if candidates:
            min(candidates, key=lambda candidate: candidate[0])[1].evict()

    def _begin(self, sock: trio.socket.SocketType, client: Address) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = sock.getsockname()
        except OSError:
            sock.close()  # the client has already disconnected
            return
        server = (str(name[0]), int(name[1]))
        if self._tls is None:
            plain = socket.socket(fileno=sock.detach())
            plain.setblocking(False)  # noqa: FBT003  # the only parameter
            self.start(self._connection(SocketPipe(plain), "http", client, server))
            return
        # The first read performs the TLS handshake, within the time that a new connection has for its first request.
        stream = trio.SSLStream(trio.SocketStream(sock), self._tls, server_side=True, https_compatible=True)
        pipe = StreamPipe(stream, self.timeouts.linger, rejection=partial(self._refuse_plain, client))
        self.start(self._connection(pipe, "https", client, server))

    def _refuse_plain(self, client: Address) -> bytes:
        _log.debug("request rejected, plain HTTP on an HTTPS port: client=%s", client)
        return plain_response(
            400, "this port expects HTTPS: use https:// in the URL", date=date_value(int(time.time()))
        )


def _is_readable(sock: trio.socket.SocketType) -> bool:
    """Return whether a connection waits to be accepted."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
