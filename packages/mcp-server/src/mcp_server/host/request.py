"""A request of the embedded HTTP host, as its ASGI application sees it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import unquote

import h11
import trio

from mcp_server.asgi import CHARGE, COMPANION, CONVERT_HEADERS, SLOW_AFTER, WRITE_NOW
from mcp_server.host.body_deadline import BodyDeadline
from mcp_server.host.http1 import ResponseWriter, SizedBody, date_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVarTuple, Unpack

    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import BackgroundTask, Message, Scope
    from mcp_server.host.http1 import BodyReader, Head, RepeatedHead
    from mcp_server.host.timeouts import HostTimeouts

    Ts = TypeVarTuple("Ts")

__all__ = ["UNREAD", "Address", "AsgiRequest", "RequestConnection", "RequestHost"]

_log: Final = logging.getLogger("mcp_server")

UNREAD: Final = 16 * 1024
"""Largest output that is not charged, in bytes. Error responses must be sent even if the memory budget is exhausted."""

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}

_AHEAD_BYTES: Final = 4 * 1024
"""Largest number of bytes of later requests that are read while a request runs: 16 MiB for 4,096 connections. If a
client sends more, the host notices that it disconnects only when it writes."""

_EVENTS_AT_ONCE: Final = 256
"""Parts of a body that are read without letting other tasks run. A body can consist of chunks of one byte."""


Address = tuple[str, int]
"""Host and port, as in an ASGI scope."""


class RequestHost(Protocol):
    """The host of a request: `mcp_server.host.embedded.HttpHost`."""

    @property
    def limits(self) -> Limits:
        """The limits."""

    @property
    def timeouts(self) -> HostTimeouts:
        """The times to wait for clients."""

    @property
    def stopping(self) -> bool:
        """Whether the host accepts no more requests."""

    @property
    def leaving(self) -> bool:
        """Whether each response is the last one of its connection."""

    def start_soon(self, function: Callable[[Unpack[Ts]], Awaitable[object]], *arguments: *Ts) -> None:
        """Start a task that is cancelled when the host stops."""


class RequestConnection(Protocol):
    """The connection of a request: `mcp_server.host.connection.Connection`, which documents the members."""

    lost: bool
    writing: bool

    @property
    def host(self) -> RequestHost:
        """The host that owns the connection."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    @property
    def client(self) -> Address | None:
        """The address of the client."""

    @property
    def server(self) -> Address | None:
        """The address of the server."""

    @property
    def prompt(self) -> bool:
        """Whether `write_now` usually writes without waiting."""

    @property
    def repeated_head(self) -> RepeatedHead | None:
        """The head of the request, if it is kept for the next one."""

    async def read(self, *, until: float | None, most: int = ...) -> bytes | None:
        """Wait for bytes."""

    async def write(self, data: bytes, *, pause: bool, charged: bool = ...) -> None:
        """Write all bytes."""

    def drop_output(self) -> None:
        """Drop the connection and the output that its client does not read."""

    def write_now(self, data: bytes) -> bool:
        """Write what can be written without waiting."""

    def interrupt(self) -> None:
        """Interrupt the task that waits in `read`."""

    def look_by(self, when: float) -> None:
        """Check the deadlines no later than at `when`."""

    def go_on_without(self, exchange: AsgiRequest, /) -> None:
        """Serve later requests in another task, because the application continues after the response."""

    async def abandon(self) -> None:
        """Release the connection of a client that has disconnected, while the application continues."""


class _CompanionTask:
    """A task of the application that runs beside a slow request."""

    __slots__ = ("_function", "ended", "scope")

    def __init__(self, function: BackgroundTask) -> None:
        self._function: Final = function
        self.scope: Final = trio.CancelScope()
        self.ended: Final = trio.Event()

    async def run(self, of: AsgiRequest) -> None:
        try:
            with self.scope:
                await self._function()
        except Exception:  # noqa: BLE001  # an application can raise anything
            _log.exception("companion failed: request=%s", of)
        finally:
            self.ended.set()


class AsgiRequest:
    """A request and its response.

    Args:
        connection: The connection that received the request.
        head: The head of the request.
        body: The reader of the body.
        now: The time at which the head arrived, by trio's clock.
    """

    __slots__ = (
        "_ahead",
        "_background",
        "_body_given",
        "_body_requested",
        "_connection",
        "_counted",
        "_deadline",
        "_last",
        "_method",
        "_parser",
        "_parts",
        "_received",
        "_target",
        "_waited_until",
        "_wanted",
        "_watching",
        "began",
        "body_complete",
        "broken",
        "finished",
        "handed_over",
        "left",
        "looked",
        "over",
        "response",
    )

    def __init__(self, connection: RequestConnection, head: Head, body: BodyReader, now: float) -> None:
        self._connection: Final = connection
        # Used only until the end of the body.
        self._parser: BodyReader | None = body
        self._method: Final = head.method
        self._target: Final = head.target
        self.began: Final = now
        """The time at which the head arrived, by trio's clock."""
        self.response: Final = ResponseWriter(head_only=head.method == b"HEAD", old=head.version < b"1.1")
        """The encoder of the response."""
        self.body_complete: bool = False
        """Whether the body was read to its end."""
        self.broken: h11.RemoteProtocolError | None = None
        """The error in the body, if there is one."""
        self.left: bool = False
        """Whether the client has disconnected or ended its input."""
        self.finished: bool = False
        """Whether the complete response was sent. The client may send its next request."""
        self.looked: bool = False
        """Whether the request runs for longer than `SLOW_AFTER` seconds."""
        self.over: bool = False
        """Whether the application has returned."""
        self.handed_over: bool = False
        """Whether another task serves the connection, because the application continues after the response."""
        self._body_given = False
        self._parts: list[bytes] = []
        self._ahead = b""
        # The client accepts no response after this one.
        self._last = False
        self._body_requested = False
        self._received = 0
        # Most bodies arrive with the head and do not need a deadline.
        self._deadline: BodyDeadline | None = None
        self._counted = 0
        self._waited_until = 0.0
        # The wait for the client to disconnect: a scope, or `True` for the connection's `read`.
        self._watching: trio.CancelScope | bool = False
        self._wanted: BackgroundTask | None = None
        self._background: _CompanionTask | None = None

    def scope(self, head: Head) -> Scope:
        """Return the ASGI scope of the request."""
        connection = self._connection
        extensions: dict[str, object] = {COMPANION: self.start_later}
        if connection.prompt:
            extensions[WRITE_NOW] = self.write_now
        if connection.repeated_head is not None:
            extensions[CONVERT_HEADERS] = connection.repeated_head.convert
        raw_path, _, query = head.target.partition(b"?")
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": head.version.decode("ascii"),
            "method": head.method.decode("ascii"),
            "scheme": connection.scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": head.headers,
            "client": connection.client,
            "server": connection.server,
            "extensions": extensions,
        }

    # --- called by the application ---------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """Return the next part of the body, or after its end wait for the disconnect or the end of the response."""
        if not self._body_given and not self.finished:
            if self._received:
                # A body of many small parts must not prevent other tasks from running.
                await trio.lowlevel.checkpoint()
            self._take_body()
            if not (self.body_complete or self._parts or self.left):
                await self._wait_for_body()
            if not self.left:
                body = b"".join(self._parts)
                self._parts = []
                self._body_given = self.body_complete
                return {"type": "http.request", "body": body, "more_body": not self.body_complete}
        await self._watch_client()
        # If the body is malformed, the connection still has to send an error response.
        if self.body_complete and not self.finished:
            await self._connection.abandon()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the response. It is discarded if the client has disconnected.

        Raises:
            ValueError: The message is not one of a response, or the response is invalid.
            RuntimeError: The message is out of order.
            trio.BusyResourceError: Another task is sending a part of the response.
        """
        kind, status = message.get("type"), message.get("status")
        if kind == "http.response.body":
            await self._send_body(message)
        elif kind == "http.response.start" and isinstance(status, int):
            self.response.start(status, message.get("headers", ()))  # type: ignore[arg-type]  # as ASGI specifies
        else:
            raise ValueError(f"unexpected ASGI message {kind!r}: send http.response.start or http.response.body")

    def write_now(self, data: bytes) -> bool:
        """Write a part of the body without waiting (`mcp_server.asgi.WriteNow`).

        Returns:
            Whether all bytes were written, or the connection is lost.

        Raises:
            RuntimeError: The response has not started, or is complete.
            trio.BusyResourceError: Another task is writing, or bytes of an earlier call were not written yet.
        """
        if not self.response.begun:
            raise RuntimeError("the response has not started: send http.response.start and a body first")
        return self._connection.write_now(self.response.body(data, more=True, date=b""))

    def start_later(self, background: BackgroundTask) -> None:
        """Start a companion task if the request becomes slow (`mcp_server.asgi.StartLater`).

        Raises:
            RuntimeError: The request already has a companion.
        """
        if self._wanted is not None:
            raise RuntimeError("the request already has a companion")
        self._wanted = background
        if self.looked:
            self._start_companion()

    # --- the body --------------------------------------------------------------------------------------------------

    async def _wait_for_body(self) -> None:
        """Wait until a part or the end of the body arrives, or the client disconnects."""
        while (parser := self._parser) is not None and not (self._parts or self.left):
            if parser.they_are_waiting_for_100_continue and not (self._body_requested or self.response.begun):
                self._body_requested = True
                await self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n", pause=False)
            await self._read_body(parser)
            self._take_body()

    def _take_body(self) -> None:
        """Collect the parts of the body that were already received."""
        parser = self._parser
        if parser is None:
            return
        whole = parser.take_all() if isinstance(parser, SizedBody) else None
        if whole is not None:
            # As the loop below. Most bodies arrive with the head.
            if whole[0]:
                self._parts.append(whole[0])
            self._received += len(whole[0])
            self._ahead = whole[1]
            self.body_complete = True
            self._parser = None
            return
        try:
            for _ in range(_EVENTS_AT_ONCE):
                event = parser.next_event()
                if type(event) is h11.Data:
                    self._parts.append(event.data)
                    self._received += len(event.data)
                elif type(event) is h11.EndOfMessage:
                    self.body_complete = True
                    self._last = parser.their_state is h11.MUST_CLOSE
                    self._ahead = parser.trailing_data[0]
                    self._parser = None
                    return
                else:
                    return
        except h11.RemoteProtocolError as error:
            # The traceback refers to this exchange, and both would stay in memory until garbage collection.
            self.broken = error.with_traceback(None)
            self.left = True

    async def _read_body(self, parser: BodyReader) -> None:
        connection = self._connection
        now = trio.current_time()
        if self._deadline is None:
            # Bytes that were received with the head are not counted: sending data early does not extend the deadline.
            timeouts = connection.host.timeouts
            self._deadline = BodyDeadline(
                now=now,
                length=parser.length if isinstance(parser, SizedBody) else connection.host.limits.message_bytes,
                grace=timeouts.body,
                rate=timeouts.body_rate,
            )
        else:
            self._deadline.received(self._received - self._counted, self._waited_until)
            self._deadline.paused(now - self._waited_until)
        self._counted = self._received
        data = await connection.read(until=self._deadline.give_up_at)
        self._waited_until = trio.current_time()
        if data is None:
            self.left = True
            return
        # At the end of input, the parser reports that the body is incomplete.
        parser.receive_data(data)

    # --- disconnection of the client -------------------------------------------------------------------------------

    async def _watch_client(self) -> None:
        connection = self._connection
        if self._settled:
            await trio.lowlevel.checkpoint()
            return
        # No cancel scope around the read: it would exist for as long as the response, which can be days.
        self._watching = True
        try:
            while not self._settled:
                if len(self._ahead) >= _AHEAD_BYTES:
                    with trio.CancelScope() as self._watching:
                        await trio.sleep_forever()
                elif data := await connection.read(until=None, most=_AHEAD_BYTES):
                    self._ahead += data
                elif not self._settled:
                    self.left = True
        finally:
            self._watching = False

    @property
    def _settled(self) -> bool:
        """Whether the client has disconnected, or the response is complete."""
        return self.left or self.finished or self._connection.lost

    def wake(self) -> None:
        """Stop waiting for the client to disconnect."""
        if isinstance(self._watching, trio.CancelScope):
            self._watching.cancel()
        elif self._watching:
            self._connection.interrupt()

    # --- the response ----------------------------------------------------------------------------------------------

    async def _send_body(self, message: Message) -> None:
        response, connection = self.response, self._connection
        data: bytes = message.get("body", b"")  # type: ignore[assignment]  # as ASGI specifies
        more = bool(message.get("more_body"))
        # Check before anything is encoded: bytes that were encoded but not sent would be missing from the response.
        if connection.writing:
            raise trio.BusyResourceError("another task is sending a part of this response")
        if more:
            await trio.lowlevel.checkpoint_if_cancelled()
        if not response.begun and not response.close:
            if self._parser is not None:
                self._take_body()
            # Whether the connection can carry another request, as far as is known.
            host = connection.host
            response.close = host.stopping or host.leaving or self._last or not self.body_complete
        if len(data) > UNREAD:
            await self._send_large_body(data, more=more, charge=cast("MemoryCharge | None", message.get(CHARGE)))
        else:
            # No checkpoint after the last part: the read of the next request is one.
            await connection.write(response.body(data, more=more, date=date_value(int(time.time()))), pause=more)
        if more:
            return
        self.finished = True
        if self._background is not None:
            self._background.scope.cancel()
        if self._watching is not False:
            self.wake()
        if self.looked:
            # Check soon whether the application continues without its client.
            connection.look_by(trio.current_time() + SLOW_AFTER)

    async def _send_large_body(self, data: bytes, *, more: bool, charge: MemoryCharge | None) -> None:
        response, connection = self.response, self._connection
        if charge is not None:
            charge.on_drop = connection.drop_output
        try:
            if response.has_length and not response.begun:
                # The head alone: a copy of the body behind its head would need as much memory again.
                await connection.write(response.body(b"", more=True, date=date_value(int(time.time()))), pause=False)
            out = response.body(data, more=more, date=date_value(int(time.time())))
            await connection.write(out, pause=more, charged=charge is not None)
        finally:
            if charge is not None:
                charge.on_drop = None

    # --- called by the host ----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Handle a slow request: start its companion, or let another task serve the connection after the response.

        The timeout scheduler calls this method, once or more.
        """
        if self.over or self.handed_over:
            return
        self.looked = True
        if not self.finished:
            self._start_companion()
        elif self._watching is not False or (self._background is not None and not self._background.ended.is_set()):
            # A read may have been woken by the next request, and is about to take its bytes from the connection.
            self._connection.look_by(trio.current_time() + SLOW_AFTER)
        else:
            self.handed_over = True
            self._connection.go_on_without(self)

    def _start_companion(self) -> None:
        if self._wanted is not None and self._background is None:
            self._background = _CompanionTask(self._wanted)
            self._connection.host.start_soon(self._background.run, self)

    async def end(self) -> None:
        """Cancel the companion after the application has returned."""
        self.over = True
        background = self._background
        self._wanted = self._background = None
        if background is not None:
            background.scope.cancel()
            await background.ended.wait()

    def forget(self) -> None:
        """Drop the references to the application's side of the request, which refers to this exchange."""
        self._wanted = self._background = None

    @property
    def remaining(self) -> bytes:
        """The bytes that were received after the request."""
        return self._ahead if self._parser is None else self._parser.trailing_data[0]

    def __str__(self) -> str:
        target = self._target.partition(b"?")[0]
        return f"{self._method.decode('ascii')} {target.decode('ascii')}"
