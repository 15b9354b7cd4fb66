"""One connection of the embedded HTTP host: requests one after the other, in one task.

    wait for a request -> run the application -> end the exchange -> again

Waiting is bounded by the housekeeper (see `_host_timeouts`): `read` and `write` note until when they wait, and the look
that finds this in the past interrupts them. What was received behind a request is the beginning of the next one.

Requests of the common form are read here (`_host_head`), all others by h11. Each has a parser of its own, which costs a
hundredth of what it does, and so a connection that is idle holds next to nothing.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import LimitExceeded
from mcp_server.host.head import HeadReader, Refused, read_common, refusal
from mcp_server.host.request import PROMPT, Exchange
from mcp_server.host.response import plain_response

if TYPE_CHECKING:
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.host.embedded import Host
    from mcp_server.host.head import BodyReader, Head
    from mcp_server.host.stream import Pipe

__all__ = ["Address", "Connection"]

_log: Final = logging.getLogger("mcp_server")

_PIECE: Final = 64 * 1024
"""Bytes that are read at once."""

_UNREAD: Final = 16 * 1024
"""Bytes of output up to which nothing is charged: refusals have to get out when the memory is exhausted."""

_HELD: Final = 3
"""Times the size of a response that it takes in memory while it is written: the result, its JSON, and what is sent."""

_SPARED: Final = 0.5
"""Seconds for which a connection is not dropped for another client once a request has begun."""

Address = tuple[str, int]
"""Host and port, as ASGI has them."""


class Connection:
    """One connection.

    Args:
        host: What it belongs to.
        pipe: Its bytes.
        scheme: `http` or `https`.
        client: The address of the other side, if that is known.
        server: The address of this side.
        patience: Seconds that its first request may take to begin.
        begun: What was received already.
        leaving: There is nothing to serve any more but the client's reading of the last answer.
    """

    __slots__ = (
        "_leaving",
        "_output",
        "_output_bytes",
        "_output_due",
        "_patience",
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
        "scheme",
        "server",
        "waiting_since",
        "writing",
    )

    def __init__(
        self,
        host: Host,
        pipe: Pipe,
        *,
        scheme: str,
        client: Address | None,
        server: Address | None,
        patience: float,
        begun: bytes = b"",
        leaving: bool = False,
    ) -> None:
        self.host: Final = host
        """What it belongs to."""
        self.scheme: Final = scheme
        """`http` or `https`."""
        self.client: Final = client
        """The address of the other side."""
        self.server: Final = server
        """The address of this side."""
        self.look_at = math.inf
        """See `Watched`."""
        self.exchange: Exchange | None = None
        """The request that runs."""
        self.idle = False
        """It waits for a request, and nothing of one has come."""
        self.waiting_since: float | None = None
        """Since when there was no whole head of a request, by trio's clock; `None` while a request runs."""
        self.expired = False
        """The client kept us waiting for too long."""
        self.lost = False
        """Nothing more can be written."""
        self.abandoned = False
        """There is nobody at the other end: the application works on, without a connection."""
        self._pipe: Final = pipe
        self._leaving: Final = leaving
        self._patience = patience
        self._received = begun
        self.writing = False
        """A task waits in `write`; another one must not write meanwhile."""
        self._read_until = math.inf
        self._write_until = math.inf
        # The memory of a response that the client does not read, and when it will be charged.
        self._output: MemoryCharge | None = None
        self._output_bytes = 0
        self._output_due = math.inf
        # What `write_now` could not write.
        self._rest = b""

    async def run(self) -> None:
        """Serves it to its end, or until another task serves it."""
        try:
            if self._leaving:
                await self._linger()
            else:
                while await self._serve_one():
                    pass
        finally:
            # The two refer to each other, and large arguments would stay until they are found and collected.
            exchange, self.exchange = self.exchange, None
            if exchange is None or not exchange.handed_over:
                if self.lost:
                    self._pipe.abort()
                await self._pipe.aclose()

    # --- requests --------------------------------------------------------------------------------------------------

    async def _serve_one(self) -> bool:
        """Serves one request; says whether there may be another one."""
        try:
            read = await self._read_head()
        except Refused as refused:
            _log.debug("refused a request of %s: %s", self.client, refused)
            await self._answer(refused.status, str(refused))
            return False
        if read is None:
            return False
        head, body, began = read
        exchange = self.exchange = Exchange(self, head, body, began)
        try:
            running = self.host.app(exchange.scope(head), exchange.receive, exchange.send)
            # What is kept of the request is up to the application, which may go on for days.
            del read, head, body
            await running
            failed = False
        except Exception:  # noqa: BLE001  # whatever an application may raise
            _log.exception("the application failed in %s", exchange)
            failed = True
        if exchange.handed_over:
            exchange.forget()
            return False
        await exchange.end()
        if not await self._ended_well(exchange, failed=failed):
            return False
        self._received = exchange.remaining
        self._patience = self.host.timeouts.idle
        self.exchange = None
        return True

    async def _read_head(self) -> tuple[Head, BodyReader, float] | None:
        """The head of the next request, what reads its body, and when it came; `None` when there is none.

        Raises:
            Refused: What came is no request, or too large, or came too slowly.
        """
        data = await self._first_bytes()
        if not data:
            return None
        now = trio.current_time()
        found = read_common(data, self.host.limits.header_bytes) or await self._read_other_head(data, now)
        if found is None:
            return None
        self.waiting_since = None
        self.look_by(now + PROMPT)
        return (*found, now)

    async def _read_other_head(self, data: bytes, now: float) -> tuple[Head, BodyReader] | None:
        """The same for any request. `now` is when its beginning came."""
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
                    raise Refused(408, "the head of the request took too long; the setting is HostTimeouts.head")
                if not more:
                    return None
                data = more
        except LimitExceeded as excess:
            raise Refused(503, excess.message) from excess
        finally:
            charge.release()
        return found

    async def _first_bytes(self) -> bytes:
        """The beginning of a request; empty when there is none."""
        data = self._received
        self._received = b""
        if data:
            # Requests that were sent all at once must not keep others from running.
            await trio.lowlevel.checkpoint()
        # RFC 9112 section 2.2: an empty line before a request is ignored.
        data = data.lstrip(b"\r\n")
        if not data and not self.host.stopping:
            self.waiting_since = trio.current_time()
            until = self.waiting_since + self._patience
            self.idle = True
            while not data and (more := await self.read(until=until)):
                data = more.lstrip(b"\r\n")
            self.idle = False
        return data

    async def _ended_well(self, exchange: Exchange, *, failed: bool) -> bool:
        """Sees to it that the request was answered; says whether the connection can carry another one."""
        response = exchange.response
        if not response.begun:
            if exchange.broken is not None:
                refused = refusal(exchange.broken, self.host.limits.header_bytes)
                await self._answer(refused.status, str(refused))
            elif self.expired:
                await self._answer(408, "the body of the request took too long; the setting is HostTimeouts.body")
            elif not exchange.left:
                if not failed:
                    _log.error("the application returned from %s without an answer", exchange)
                await self._answer(500, "the server failed")
            return False
        if not response.complete:
            if not failed and not exchange.left and not self.lost:
                _log.error("the application returned from %s before its answer was complete", exchange)
            # Not a proper end: the client must not take it for all.
            self.lost = True
            return False
        if self.lost or exchange.left:
            return False
        if not exchange.body_complete:
            await self._linger()
        return not response.close

    async def _answer(self, status: int, text: str) -> None:
        """Answers for the application, and ends the connection."""
        await self.write(plain_response(status, text, date=self.host.date()), pause=False)
        await self._linger()

    async def _linger(self) -> None:
        """Drops what the client still sends: closing at once would take from it the answer that it has not read yet."""
        self._pipe.finish()
        until = trio.current_time() + self.host.timeouts.linger
        left = self.host.limits.message_bytes
        while left > 0 and not self.lost and (data := await self.read(until=until)):
            left -= len(data)

    def go_on_without(self, exchange: Exchange) -> None:
        """Lets another task serve the connection, while the application works on behind a complete response."""
        may = not (self.lost or exchange.left or exchange.response.close) and exchange.body_complete
        heir = Connection(
            self.host,
            self._pipe,
            scheme=self.scheme,
            client=self.client,
            server=self.server,
            patience=self.host.timeouts.idle,
            begun=exchange.remaining,
            leaving=not may or self.host.is_full,
        )
        self.host.start(heir)
        self.abandoned = True
        self.host.has_room()

    async def abandon(self) -> None:
        """The client has left, and the application knows, but may work on for long: others can have the connection."""
        if not self.abandoned:
            self.abandoned = self.lost = True
            self._pipe.abort()
            self.host.has_room()
        await self._pipe.aclose()

    # --- bytes -----------------------------------------------------------------------------------------------------

    async def read(self, *, until: float | None, most: int = _PIECE) -> bytes | None:
        """Waits for bytes.

        Args:
            until: How long, by trio's clock; `None` for ever.
            most: How many.

        Returns:
            Them; empty at the end of input; `None` when it broke or took too long, which `expired` tells.
        """
        if until is not None:
            self._read_until = until
            self.look_by(until)
        try:
            return await self._pipe.receive_some(most)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        finally:
            self._read_until = math.inf

    async def write(self, data: bytes, *, pause: bool) -> None:
        """Writes all of it, as fast as the client takes it. Once the client is lost it goes nowhere.

        Args:
            data: The bytes.
            pause: Let other tasks run, even if the client takes it at once.
        """
        if not self.lost:
            if self._rest:
                data, self._rest = self._rest + data, b""
            try:
                sent = self._pipe.send_now(data)
                if sent < len(data):
                    await self._write_rest(memoryview(data)[sent:], sent)
                    return
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._lose()
        if self.lost:
            await trio.lowlevel.checkpoint()
        elif pause:
            # It was sent: whoever is cancelled now must not take it for half sent, and the rest for lost.
            await trio.lowlevel.cancel_shielded_checkpoint()

    @property
    def prompt(self) -> bool:
        """Whether `write_now` can be expected to write."""
        return self._pipe.prompt

    def write_now(self, data: bytes) -> bool:
        """Writes what can be written without waiting; the rest goes before what is written next.

        Returns:
            Whether all was written, or the client is lost.

        Raises:
            trio.BusyResourceError: Another task writes, or there is a rest already.
        """
        if self.writing or self._rest:
            raise trio.BusyResourceError("what was sent before is still being written")
        if not self.lost:
            try:
                self._rest = data[self._pipe.send_now(data) :]
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._lose()
        return not self._rest

    def interrupt(self) -> None:
        """Ends the waiting of whoever reads."""
        self._pipe.interrupt()

    async def _write_rest(self, rest: memoryview, sent: int) -> None:
        stall = self.host.timeouts.stall
        self.writing = True
        # Whoever is cancelled in the middle leaves a part that cannot be completed.
        whole = False
        if len(rest) > _UNREAD:
            self._output_bytes = _HELD * (len(rest) + sent)
            if self._pipe.prompt:
                # The system has taken as much as it keeps for a client that does not read.
                self._charge_output()
            else:
                self._output_due = trio.current_time() + PROMPT
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
        """Charge a response that the client has not read for a moment."""
        self._output = self.host.budget.droppable(self.client or self)
        self._output.on_drop = self._drop_output
        try:
            self._output.resize(self._output_bytes)
        except LimitExceeded as excess:
            self._drop_output(excess)

    def _drop_output(self, why: LimitExceeded | None = None) -> None:
        """Drop the connection with what its client does not read: there is no memory for it."""
        _log.warning("dropped the connection of %s, which does not read: %s", self.client, why or "Limits.total_bytes")
        self._pipe.abort()

    def _lose(self) -> None:
        self.lost = True
        if self.exchange is not None:
            self.exchange.wake()

    # --- deadlines -------------------------------------------------------------------------------------------------

    def look_by(self, when: float) -> None:
        """Has the housekeeper look no later than `when`, by trio's clock."""
        if when < self.look_at:
            self.look_at = when
            self.host.housekeeper.at_latest(when)

    def look(self, now: float) -> None:
        """See `Watched`."""
        self.look_at = math.inf
        if self._write_until <= now:
            _log.debug("dropped %s: it takes nothing; the setting is HostTimeouts.stall", self.client)
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
        if exchange is not None:
            if exchange.began + PROMPT > now:
                self.look_by(exchange.began + PROMPT)
            else:
                exchange.look()
        self.look_by(min(self._read_until, self._write_until, self._output_due))

    def hurry(self) -> None:
        """The host stops: ends the connection if it is idle; else it ends with the response that is being made."""
        if self.idle:
            self._pipe.interrupt()

    def evictable(self, now: float) -> tuple[int, float] | None:
        """Return how well the connection can be spared for another client, or `None` if it cannot.

        The smallest value is the first to go: idle connections before unfinished heads before unfinished bodies, and of
        each kind the oldest. What has just begun is spared, since an honest client is about to send the rest.
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
        """Drop the connection: another client needs its place."""
        _log.debug("dropped %s: another client needs its place; the setting is Limits.connections", self.client)
        self.lost = True
        self._pipe.abort()
