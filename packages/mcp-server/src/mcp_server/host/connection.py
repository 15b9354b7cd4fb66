"""A connection of the embedded HTTP host. One task serves its requests one after the other.

    read the head of a request -> run the application -> complete the response -> repeat

`read` and `write` record their deadlines, and the timeout scheduler (`mcp_server.host.timeouts`) interrupts those that
have passed. Bytes that are received after a request are the start of the next request.

`mcp_server.host.http1` reads requests of the common form, and h11 reads all others. Each request has its own parser, so
an idle connection uses little memory. Creating a parser costs about 1% of the work that it does.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_core.errors import LimitExceeded
from mcp_server.asgi import SLOW_AFTER
from mcp_server.host.http1 import (
    HeadReader,
    RepeatedHead,
    RequestHeadRejected,
    date_value,
    plain_response,
    read_common,
    rejection,
)
from mcp_server.host.request import UNREAD, AsgiRequest, RequestHost

if TYPE_CHECKING:
    from mcp_core.limits.memory_budget import MemoryBudget, MemoryCharge
    from mcp_server.asgi import Application
    from mcp_server.host.http1 import BodyReader, Head, SizedBody
    from mcp_server.host.request import Address
    from mcp_server.host.stream import Pipe
    from mcp_server.host.timeouts import TimeoutScheduler

__all__ = ["Connection", "ConnectionHost"]

_log: Final = logging.getLogger("mcp_server")

_PIECE: Final = 64 * 1024
"""Largest number of bytes in one read."""

_HELD: Final = 3
"""Memory of a response while it is written, as a multiple of its size: the result, its JSON, and the encoded bytes."""

_REPEATED: Final = 2 * 1024
"""Longest head that is kept for comparison with the next one, in bytes."""

_SPARED: Final = 0.5
"""Time after the start of a request in which its connection is not evicted, in seconds."""


class ConnectionHost(RequestHost, Protocol):
    """The host of a connection: `mcp_server.host.embedded.HttpHost`, which documents the members."""

    @property
    def app(self) -> Application:
        """The application."""

    @property
    def budget(self) -> MemoryBudget:
        """The memory budget that connections are charged to."""

    @property
    def scheduler(self) -> TimeoutScheduler:
        """The scheduler of all deadlines."""

    @property
    def is_full(self) -> bool:
        """Whether the limit of connections is reached."""

    def start(self, connection: Connection) -> None:
        """Serve a connection in a new task."""

    def ended(self, connection: Connection) -> None:
        """Forget a connection whose task ends."""

    def notify_capacity(self) -> None:
        """Count a connection that no longer has a client."""


class Connection:
    """A TCP or TLS connection, or a stream in memory, of the embedded host.

    Args:
        host: The host that owns the connection.
        pipe: The byte stream of the connection.
        scheme: `http` or `https`.
        client: The address of the client, if known.
        server: The address of the server, if known.
        first_request_seconds: Time to wait for the first request, in seconds.
        begun: Bytes that were received before this object was created.
        leaving: Whether the last response was sent. The connection then only discards input until the client closes.
    """

    __slots__ = (
        "_fields",
        "_first_request_seconds",
        "_leaving",
        "_output",
        "_output_bytes",
        "_output_due",
        "_pipe",
        "_read_until",
        "_received",
        "_rest",
        "_write_until",
        "abandoned",
        "client",
        "exchange",
        "expired",
        "host",
        "idle",
        "look_at",
        "lost",
        "prompt",
        "repeated_head",
        "scheme",
        "server",
        "waiting_since",
        "writing",
    )

    def __init__(
        self,
        host: ConnectionHost,
        pipe: Pipe,
        *,
        scheme: str,
        client: Address | None,
        server: Address | None,
        first_request_seconds: float,
        begun: bytes = b"",
        leaving: bool = False,
    ) -> None:
        self.host: Final = host
        """The host that owns the connection."""
        self.scheme: Final = scheme
        """`http` or `https`."""
        self.client: Final = client
        """The address of the client, or `None` if unknown."""
        self.server: Final = server
        """The address of the server, or `None` if unknown."""
        self.look_at: float = math.inf
        """The time of the next check of deadlines, by trio's clock; `math.inf` for no check."""
        self.exchange: AsgiRequest | None = None
        """The current request."""
        self.idle: bool = False
        """Whether the connection waits for a request and has received no byte of it."""
        self.waiting_since: float | None = None
        """The time since which the head of a request is incomplete, by trio's clock; `None` while a request runs."""
        self.repeated_head: RepeatedHead | None = None
        """The last head, which the next request may repeat; `None` if it was of another form, is long, has another number
        of headers than the one before, or was dropped, because the connection is idle or the request is slow."""
        self.expired: bool = False
        """Whether a read reached its deadline."""
        self.lost: bool = False
        """Whether nothing more can be written."""
        self.abandoned: bool = False
        """Whether the application runs without a client: it has disconnected, or another task serves the connection."""
        self.prompt: Final = pipe.prompt
        """Whether `write_now` usually writes without waiting."""
        self._pipe: Final = pipe
        self._leaving: Final = leaving
        self._first_request_seconds = first_request_seconds
        self._received = begun
        # The number of headers of the last head.
        self._fields = 0
        self.writing: bool = False
        """Whether a task waits in `write`. No other task may write at that time."""
        self._read_until = math.inf
        self._write_until = math.inf
        # The charge for a response that the client does not read, and the time at which it is made.
        self._output: MemoryCharge | None = None
        self._output_bytes = 0
        self._output_due = math.inf
        # Bytes that `write_now` did not write.
        self._rest = b""

    async def run(self) -> None:
        """Serve requests until the connection closes or another task serves it. Does not raise an `Exception`."""
        try:
            if self._leaving:
                await self._linger()
            else:
                while await self._serve_one():
                    pass
        except Exception:  # noqa: BLE001  # an error in one connection must not end the others
            _log.exception("connection failed")
        finally:
            # The exchange and the connection refer to each other: until garbage collection, large arguments would stay.
            exchange, self.exchange = self.exchange, None
            try:
                if exchange is None or not exchange.handed_over:
                    if self.lost:
                        self._pipe.abort()
                    await self._pipe.aclose()
            finally:
                self.host.ended(self)

    # --- requests --------------------------------------------------------------------------------------------------

    async def _serve_one(self) -> bool:
        """Serve one request. Return whether the connection can carry another request."""
        try:
            read = await self._read_head()
        except RequestHeadRejected as refused:
            _log.debug("request rejected: client=%s error=%s", self.client, refused)
            await self._answer(refused.status, str(refused))
            return False
        if read is None:
            return False
        head, body, began = read
        exchange = self.exchange = AsgiRequest(self, head, body, began)
        try:
            running = self.host.app(exchange.scope(head), exchange.receive, exchange.send)
            # The application decides what it keeps of the request. It can run for days.
            del read, head, body
            await running
            failed = False
        except Exception:  # noqa: BLE001  # an application can raise anything
            _log.exception("application failed: request=%s", exchange)
            failed = True
        if exchange.handed_over:
            exchange.forget()
            return False
        await exchange.end()
        if not await self._ended_well(exchange, failed=failed):
            return False
        self._received = exchange.remaining
        self._first_request_seconds = self.host.timeouts.idle
        self.exchange = None
        return True

    async def _read_head(self) -> tuple[Head, BodyReader, float] | None:
        """Read the head of the next request.

        Returns:
            The head, the reader of the body, and the time of arrival of the head; `None` if the connection has ended.

        Raises:
            Refused: The input is not an HTTP request, its head is too large, or it did not arrive in time.
        """
        data = self._received
        self._received = b""
        if data:
            # Pipelined requests must not prevent other tasks from running.
            await trio.lowlevel.checkpoint()
        # RFC 9112 section 2.2: an empty line before a request is ignored.
        data = data.lstrip(b"\r\n")
        if not data and not self.host.stopping:
            self.waiting_since = trio.current_time()
            until = self.waiting_since + self._first_request_seconds
            self.idle = True
            while not data and (more := await self.read(until=until)):
                data = more.lstrip(b"\r\n")
            self.idle = False
        if not data:
            return None
        now = trio.current_time()
        found = self._read_common(data) or await self._read_other_head(data, now)
        if found is None:
            return None
        self.waiting_since = None
        if now + SLOW_AFTER < self.look_at:
            self.look_by(now + SLOW_AFTER)
        return (*found, now)

    def _read_common(self, data: bytes) -> tuple[Head, SizedBody] | None:
        """Read a head of the common form, or one that repeats the last head."""
        limit = self.host.limits.header_bytes
        last = self.repeated_head
        found = None if last is None else last.read(data, limit)
        if found is None:
            found = read_common(data, limit)
            self.repeated_head = None
            fields = 0 if found is None else len(found[0].headers)
            # A head that differs from the one before, as in a handshake, is seldom repeated by the next request.
            if found is not None and fields == self._fields:
                end = data.find(b"\r\n\r\n", 0, _REPEATED) + 4
                if end >= 4:
                    self.repeated_head = RepeatedHead(data[:end], found[0], found[1].length)
            self._fields = fields
        return found

    async def _read_other_head(self, data: bytes, now: float) -> tuple[Head, BodyReader] | None:
        """Read the head of any request.

        Args:
            data: The first bytes of the request.
            now: The time at which they arrived.

        Returns:
            The head and the reader of the body; `None` if the connection has ended.

        Raises:
            Refused: The input is not an HTTP request, its head is too large, it did not arrive in time, or the memory
                budget is exhausted.
        """
        self.waiting_since = now
        reader = HeadReader(self.host.limits.header_bytes)
        until = now + self.host.timeouts.head
        charge = self.host.budget.droppable(self.client or self)
        charge.on_drop = self._pipe.abort
        try:
            while (found := reader.receive_data(data)) is None:
                charge.resize(charge.size + len(data))
                more = await self.read(until=until)
                if more is None and self.expired:
                    raise RequestHeadRejected(
                        408, "the head of the request took too long; the setting is HostTimeouts.head"
                    )
                if not more:
                    return None
                data = more
        except LimitExceeded as excess:
            raise RequestHeadRejected(503, excess.message) from excess
        finally:
            charge.release()
        return found

    async def _ended_well(self, exchange: AsgiRequest, *, failed: bool) -> bool:
        """Complete the response or send an error response. Return whether the connection can carry another request."""
        response = exchange.response
        if not response.begun:
            if exchange.broken is not None:
                refused = rejection(exchange.broken, self.host.limits.header_bytes)
                await self._answer(refused.status, str(refused))
            elif self.expired:
                await self._answer(408, "the body of the request took too long; the setting is HostTimeouts.body")
            elif not exchange.left:
                if not failed:
                    _log.error("application returned without a response: request=%s", exchange)
                await self._answer(500, "internal server error")
            return False
        if not response.complete:
            if not failed and not exchange.left and not self.lost:
                _log.error("application returned before the response was complete: request=%s", exchange)
            # Abort instead of closing: the client must not take the incomplete response for a complete one.
            self.lost = True
            return False
        if self.lost or exchange.left:
            return False
        if not exchange.body_complete:
            await self._linger()
        return not response.close

    async def _answer(self, status: int, text: str) -> None:
        """Send a response of the host itself and end the connection."""
        await self.write(plain_response(status, text, date=date_value(int(time.time()))), pause=False)
        await self._linger()

    async def _linger(self) -> None:
        """Discard input until the client closes: an immediate close could destroy a response that is not read yet."""
        self._pipe.finish()
        until = trio.current_time() + self.host.timeouts.linger
        left = self.host.limits.message_bytes
        while left > 0 and not self.lost and (data := await self.read(until=until)):
            left -= len(data)

    def go_on_without(self, exchange: AsgiRequest) -> None:
        """Serve the connection in another task, while the application continues after a complete response."""
        may = not (self.lost or exchange.left or exchange.response.close) and exchange.body_complete
        heir = Connection(
            self.host,
            self._pipe,
            scheme=self.scheme,
            client=self.client,
            server=self.server,
            first_request_seconds=self.host.timeouts.idle,
            begun=exchange.remaining,
            leaving=not may or self.host.is_full,
        )
        self.host.start(heir)
        self.abandoned = True
        self.host.notify_capacity()

    async def abandon(self) -> None:
        """Release the connection of a client that has disconnected, while the application continues.

        The application receives `http.disconnect`. Another client can use the capacity.
        """
        if not self.abandoned:
            self.abandoned = self.lost = True
            self._pipe.abort()
            self.host.notify_capacity()
        await self._pipe.aclose()

    # --- bytes -----------------------------------------------------------------------------------------------------

    async def read(self, *, until: float | None, most: int = _PIECE) -> bytes | None:
        """Wait for bytes.

        Args:
            until: The deadline, by trio's clock; `None` for no deadline.
            most: Largest number of bytes to return.

        Returns:
            The bytes; empty at the end of input; `None` if the connection broke or the deadline passed (`expired`).
        """
        if until is not None:
            self._read_until = until
            if until < self.look_at:
                self.look_by(until)
        try:
            return await self._pipe.receive_some(most)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        finally:
            self._read_until = math.inf

    async def write(self, data: bytes, *, pause: bool, charged: bool = False) -> None:
        """Write all of `data`, waiting for the client if necessary. Discard `data` if the connection is lost.

        Args:
            data: The bytes.
            pause: Whether to let other tasks run even if no waiting was necessary.
            charged: Whether the application has charged `data` to the memory budget.
        """
        if not self.lost:
            if self._rest:
                data, self._rest = self._rest + data, b""
            try:
                sent = self._pipe.send_now(data)
                if sent < len(data):
                    await self._write_rest(memoryview(data)[sent:], sent, charged=charged)
                    return
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._lose()
        if self.lost:
            await trio.lowlevel.checkpoint()
        elif pause:
            # Shielded: `data` was sent. A caller that is cancelled here must not conclude that only a part was sent.
            await trio.lowlevel.cancel_shielded_checkpoint()

    def write_now(self, data: bytes) -> bool:
        """Write what can be written without waiting. The next write sends the rest first.

        Returns:
            Whether all bytes were written, or the connection is lost.

        Raises:
            trio.BusyResourceError: Another task is writing, or bytes of an earlier call were not written yet.
        """
        if self.writing or self._rest:
            raise trio.BusyResourceError("bytes of an earlier write were not sent yet")
        if not self.lost:
            try:
                self._rest = data[self._pipe.send_now(data) :]
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._lose()
        return not self._rest

    def interrupt(self) -> None:
        """Interrupt the task that waits in `read`."""
        self._pipe.interrupt()

    async def _write_rest(self, rest: memoryview, sent: int, *, charged: bool) -> None:
        stall = self.host.timeouts.stall
        self.writing = True
        # If the task is cancelled during the write, the rest of the message is lost and nothing can follow it.
        whole = False
        if len(rest) > UNREAD and not charged:
            self._output_bytes = _HELD * (len(rest) + sent)
            if self.prompt:
                # The socket buffer of the system is full, because the client does not read.
                self._charge_output()
            else:
                self._output_due = trio.current_time() + SLOW_AFTER
                self.look_by(self._output_due)
        try:
            while rest:
                self._write_until = trio.current_time() + stall
                self.look_by(self._write_until)
                taken = 0
                while not taken:
                    taken = await self._pipe.send_some(rest)
                rest = rest[taken:]
            whole = True
        finally:
            if self._output is not None:
                self._output.release()
            self._output_due = self._write_until = math.inf
            self.writing = False
            if not whole:
                self._lose()

    def _charge_output(self) -> None:
        """Charge a response that the client has not read within `SLOW_AFTER` seconds."""
        self._output = self.host.budget.droppable(self.client or self)
        self._output.on_drop = self.drop_output
        try:
            self._output.resize(self._output_bytes)
        except LimitExceeded as excess:
            self.drop_output(excess)

    def drop_output(self, why: LimitExceeded | None = None) -> None:
        """Drop the connection and the output that its client does not read, because the memory budget is exhausted."""
        _log.warning("client does not read, connection dropped: %s error=%s", self.client, why or "Limits.total_bytes")
        self._pipe.abort()

    def _lose(self) -> None:
        self.lost = True
        if self.exchange is not None:
            self.exchange.wake()

    # --- deadlines -------------------------------------------------------------------------------------------------

    def look_by(self, when: float) -> None:
        """Check deadlines no later than at `when`, by trio's clock."""
        if when < self.look_at:
            self.look_at = when
            self.host.scheduler.at_latest(when)

    def look(self, now: float) -> None:
        """Interrupt the operations whose deadlines have passed, and handle a slow request."""
        self.look_at = math.inf
        if self._write_until <= now:
            _log.debug("connection dropped, client does not read: client=%s setting=HostTimeouts.stall", self.client)
            self._write_until = math.inf
            self._pipe.abort()
        if self._output_due <= now:
            self._output_due = math.inf
            self._charge_output()
        if self._read_until <= now:
            self._read_until = math.inf
            self.expired = True
            self._pipe.interrupt()
        exchange = self.exchange
        if exchange is not None and exchange.began + SLOW_AFTER > now:
            self.look_by(exchange.began + SLOW_AFTER)
        else:
            # Connections that are idle, or carry a stream for days, need no memory for their heads.
            self.repeated_head = None
            if exchange is not None:
                exchange.look()
        self.look_by(min(self._read_until, self._write_until, self._output_due))

    def hurry(self) -> None:
        """Close the connection if it is idle. Otherwise it closes after the response of the current request."""
        if self.idle:
            self._pipe.interrupt()

    def evictable(self, now: float) -> tuple[int, float] | None:
        """Return the sort key of the connection among the candidates for eviction, or `None` if it is not a candidate.

        The connection with the smallest key is evicted first: idle connections, then incomplete heads, then incomplete
        bodies, and the oldest of each kind. A request that has just started is exempt, because an honest client is
        about to send the rest.
        """
        if self.waiting_since is not None:
            if self.idle:
                return 0, self.waiting_since
            return (1, self.waiting_since) if now - self.waiting_since >= _SPARED else None
        exchange = self.exchange
        if exchange is None or exchange.body_complete or exchange.response.begun or now - exchange.began < _SPARED:
            return None
        return 2, exchange.began

    def evict(self) -> None:
        """Drop the connection in favor of another client."""
        _log.debug("connection evicted for another client: client=%s setting=Limits.connections", self.client)
        self.lost = True
        self._pipe.abort()
