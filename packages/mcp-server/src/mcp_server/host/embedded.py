"""The embedded HTTP/1.1 host: runs an ASGI application on trio and h11.

What a full server has beside this (HTTP/2, several processes, lifespan, web sockets) hypercorn offers, and the same
application runs there. What this one has: less than half of the cost of a request, bounds on everything that a client can make
it keep or wait for, and a stop that breaks off nothing.

    Host ── accepts, counts, stops
     ├─ Housekeeper          one task: all deadlines                           _host_timeouts
     └─ Connection           one task each: requests one after the other       _host_connection
         ├─ Pipe             its bytes: a socket, TLS, a pair in memory        _host_pipe
         └─ Exchange         one request, as the application sees it           _host_exchange
             └─ Response     the bytes of its answer                           _host_response
"""

from __future__ import annotations

import errno
import logging
import math
import socket
import time
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_server.host.connection import Connection
from mcp_server.host.response import plain_response
from mcp_server.host.stream import SocketPipe, StreamPipe
from mcp_server.host.timeouts import HostTimeouts, Housekeeper

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeVarTuple, Unpack

    from mcp_server.asgi import Application
    from mcp_server.host.connection import Address
    from mcp_server.host.stream import Pipe

    Ts = TypeVarTuple("Ts")

__all__ = ["Host"]

_log: Final = logging.getLogger("mcp_server")

_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""There are as many open files as the process or the system may have."""

_WARN_PAUSE: Final = 60.0
"""Seconds between two warnings of that."""

_ACCEPT_PAUSE: Final = 0.1
"""Seconds before the next try when there is no room for another connection: there will be once some end."""


class Host:
    """Serves an ASGI application.

    Args:
        app: The application. Only scopes of type `http` are made; no lifespan.
        limits: `connections`, `header_bytes` and `message_bytes` count here.
        budget: What heads and output are charged to. `None`: a budget of the host alone, of `Limits.total_bytes`.
        timeouts: How long it waits for clients.
        tls: Makes it HTTPS.
    """

    def __init__(
        self,
        app: Application,
        *,
        limits: Limits = SERVER_LIMITS,
        timeouts: HostTimeouts | None = None,
        tls: ssl.SSLContext | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.budget: Final = MemoryBudget(limits.total_bytes) if budget is None else budget
        """The memory that clients occupy."""
        self.app: Final = app
        """The application."""
        self.limits: Final = limits
        """The bounds."""
        self.timeouts: Final = timeouts or HostTimeouts()
        """How long it waits."""
        # In the order of their beginning.
        self._connections: Final[dict[Connection, None]] = {}
        self.housekeeper: Final = Housekeeper(self._connections)
        """Keeps the deadlines."""
        self._tls: Final = tls
        self._nursery: trio.Nursery | None = None
        self._stop: Final = trio.Event()
        self._one_ended = trio.Event()
        # How many of the connections have nobody at the other end.
        self._abandoned = 0
        self._warned_at = -math.inf
        self._date = b""
        self._date_of = 0

    @property
    def connections(self) -> int:
        """The connections that there are now."""
        return len(self._connections) - self._abandoned

    @property
    def is_full(self) -> bool:
        """It has as many connections as it may, or as many calls again that go on without one."""
        return max(self.connections, self._abandoned) >= self.limits.connections

    @property
    def stopping(self) -> bool:
        """It takes no more requests."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Takes no more connections and requests; `run` returns when those that run have been answered."""
        self._stop.set()
        for connection in self._connections:
            connection.hurry()

    async def run(
        self,
        listeners: Sequence[trio.SocketListener] = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves those who connect.

        Args:
            listeners: Where. They are closed here.
            task_status: Told when it is ready.

        *Closing.* Returns after `stop`, when the last connection has ended. Cancel it to break them off.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.housekeeper.run)
            async with trio.open_nursery() as acceptors:
                for listener in listeners:
                    acceptors.start_soon(self._accept, listener)
                task_status.started()
                await self._stop.wait()
                acceptors.cancel_scope.cancel()
            while self._connections:
                await self._one_ended.wait()
            nursery.cancel_scope.cancel()

    async def serve_stream(self, stream: trio.abc.Stream, *, client: Address | None = None) -> None:
        """Serves one connection over a stream of yours, while `run` runs. The stream is closed here."""
        await self._run(self._connection(StreamPipe(stream, self.timeouts.linger), "http", client, None))

    # --- for the connections ---------------------------------------------------------------------------------------

    def start_soon(self, function: Callable[[Unpack[Ts]], Awaitable[object]], *arguments: *Ts) -> None:
        """Starts a task that ends with the host at the latest. Raises `RuntimeError` before `run`."""
        if self._nursery is None:
            raise RuntimeError("the host does not run yet")
        self._nursery.start_soon(function, *arguments)

    def start(self, connection: Connection) -> None:
        """Serves a connection in a task of its own."""
        self._connections[connection] = None
        self.start_soon(self._run, connection)

    def has_room(self) -> None:
        """There is nobody at the other end of a connection any more."""
        self._abandoned += 1
        self._tell()

    def _tell(self) -> None:
        self._one_ended.set()
        self._one_ended = trio.Event()

    def date(self) -> bytes:
        """The value of `Date` now."""
        now = int(time.time())
        if now != self._date_of:
            self._date_of = now
            self._date = formatdate(now, usegmt=True).encode("ascii")
        return self._date

    # --- inside ----------------------------------------------------------------------------------------------------

    def _connection(self, pipe: Pipe, scheme: str, client: Address | None, server: Address | None) -> Connection:
        return Connection(self, pipe, scheme=scheme, client=client, server=server, patience=self.timeouts.head)

    async def _run(self, connection: Connection) -> None:
        self._connections[connection] = None
        try:
            await connection.run()
        except Exception:  # noqa: BLE001  # one client must not end the others, whatever this is
            _log.exception("a connection failed")
        finally:
            del self._connections[connection]
            self._abandoned -= connection.abandoned
            self._tell()

    async def _accept(self, listener: trio.SocketListener) -> None:
        async with listener:
            while True:
                if self.is_full:
                    await trio.lowlevel.wait_readable(listener.socket)
                    await self._wait_for_room()
                try:
                    sock, address = await listener.socket.accept()
                except OSError as error:
                    self._accept_failed(error)
                    await trio.sleep(_ACCEPT_PAUSE)
                    continue
                self._begin(sock, (str(address[0]), int(address[1])))

    def _accept_failed(self, error: OSError) -> None:
        if error.errno not in _NO_DESCRIPTORS:
            _log.debug("cannot accept a connection: %s", error)  # as a rule the client has gone already
            return
        # Other parts of the process, or of the system, have more files open than was foreseen.
        self._evict()
        now = trio.current_time()
        if now - self._warned_at >= _WARN_PAUSE:
            self._warned_at = now
            _log.warning(
                "cannot accept connections: %s; %d are open. Raise the limit on open files (ulimit -n) or lower"
                " Limits.connections",
                error,
                self.connections,
            )

    async def _wait_for_room(self) -> None:
        """Make room for a client that connects, at the cost of the connection that can best be spared."""
        while self.is_full:
            self._evict()
            # Where no connection can be spared, one may become idle, which is not reported here.
            with trio.move_on_after(_ACCEPT_PAUSE):
                await self._one_ended.wait()

    def _evict(self) -> None:
        """Drop the connection that can best be spared, if there is one."""
        now = trio.current_time()
        candidates = [(key, each) for each in self._connections if (key := each.evictable(now)) is not None]
        if candidates:
            min(candidates, key=lambda candidate: candidate[0])[1].evict()

    def _begin(self, sock: trio.socket.SocketType, client: Address) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = sock.getsockname()
        except OSError:
            sock.close()  # it has gone already
            return
        server = (str(name[0]), int(name[1]))
        if self._tls is None:
            plain = socket.socket(fileno=sock.detach())
            plain.setblocking(False)  # noqa: FBT003  # its only parameter
            self.start(self._connection(SocketPipe(plain), "http", client, server))
            return
        # It shakes hands when it is first read from, within what a new connection has for its first request.
        stream = trio.SSLStream(trio.SocketStream(sock), self._tls, server_side=True, https_compatible=True)
        pipe = StreamPipe(stream, self.timeouts.linger, refusal=partial(self._refuse_plain, client))
        self.start(self._connection(pipe, "https", client, server))

    def _refuse_plain(self, client: Address) -> bytes:
        _log.debug("refused a request of %s: it is plain HTTP, and the port speaks HTTPS", client)
        return plain_response(400, "this port speaks HTTPS: use https:// in the URL", date=self.date())
