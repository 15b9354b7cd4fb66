"""One request of the embedded HTTP host, as its ASGI application sees it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import h11
import trio

from mcp_server._asgi_types import COMPANION
from mcp_server._host_response import Response

if TYPE_CHECKING:
    from mcp_server._asgi_types import Companion, Message, Scope
    from mcp_server._host_connection import Connection

__all__ = ["PROMPT", "Exchange"]

_log: Final = logging.getLogger("mcp_server")

PROMPT: Final = 0.1
"""Seconds that a request may run before it is worth a companion."""

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}

_AHEAD_BYTES: Final = 64 * 1024
"""What is read of the requests to come while one runs. With more the client's leaving is noticed by writing only."""

_EVENTS_AT_ONCE: Final = 256
"""Pieces of a body that are taken without letting others run: a body may come in chunks of one byte."""


class _Companion:
    """A task beside a request."""

    __slots__ = ("_function", "ended", "scope")

    def __init__(self, function: Companion) -> None:
        self._function: Final = function
        self.scope: Final = trio.CancelScope()
        self.ended: Final = trio.Event()

    async def run(self, of: Exchange) -> None:
        try:
            with self.scope:
                await self._function()
        except Exception:  # noqa: BLE001  # whatever an application may raise
            _log.exception("the companion of %s failed", of)
        finally:
            self.ended.set()


class Exchange:
    """One request and its response.

    Args:
        connection: Whose.
        parser: Has read the head of the request, and will read its body.
        request: The head.
        now: The time, by trio's clock.
    """

    __slots__ = (
        "_asked_for_body",
        "_body_given",
        "_companion",
        "_connection",
        "_parser",
        "_parts",
        "_received",
        "_request",
        "_waited",
        "_wanted",
        "_watch",
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

    def __init__(self, connection: Connection, parser: h11.Connection, request: h11.Request, now: float) -> None:
        self._connection: Final = connection
        self._parser: Final = parser
        self._request: Final = request
        self.began: Final = now
        """When the head had come."""
        self.response: Final = Response(head_only=request.method == b"HEAD", old=request.http_version < b"1.1")
        """The answer."""
        self.body_complete = False
        """The body was read to its end."""
        self.broken: h11.RemoteProtocolError | None = None
        """What was wrong with the body."""
        self.left = False
        """The client has left, or sends nothing any more."""
        self.finished = False
        """The response is on its way in full; the client may send its next request."""
        self.looked = False
        """The housekeeper has seen that it takes long."""
        self.over = False
        """The application has returned."""
        self.handed_over = False
        """Another task serves the connection, since the application goes on without it."""
        self._body_given = False
        self._parts: Final[list[bytes]] = []
        self._asked_for_body = False
        self._received = 0
        self._waited = 0.0
        self._watch: trio.CancelScope | None = None
        self._wanted: Companion | None = None
        self._companion: _Companion | None = None

    def scope(self) -> Scope:
        """What the application is told of the request."""
        request, connection = self._request, self._connection
        raw_path, _, query = request.target.partition(b"?")
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"),
            "scheme": connection.scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw_items()],
            "client": connection.client,
            "server": connection.server,
            "extensions": {COMPANION: self.start_later},
        }

    # --- what the application calls --------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """The next part of the body; after its end, waits until the client leaves or the response is complete."""
        if not self._body_given and not self.finished:
            await self._wait_for_body()
            if not self.left:
                body = b"".join(self._parts)
                self._parts.clear()
                self._body_given = self.body_complete
                return {"type": "http.request", "body": body, "more_body": not self.body_complete}
        await self._watch_client()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Takes a part of the response. When the client has left it goes nowhere."""
        match message:
            case {"type": "http.response.start", "status": int(status)}:
                self.response.start(status, message.get("headers", ()))  # type: ignore[arg-type]  # ASGI says so
            case {"type": "http.response.body"}:
                await self._send_body(message.get("body", b""), more=bool(message.get("more_body")))  # type: ignore[arg-type]  # ASGI says so
            case _:
                raise ValueError(f"{message.get('type')!r} is not a message that this host takes")

    def start_later(self, companion: Companion) -> None:
        """See `mcp_server._asgi_types.StartLater`.

        Raises:
            RuntimeError: The request has one.
        """
        if self._wanted is not None:
            raise RuntimeError("a request has one companion")
        self._wanted = companion
        if self.looked:
            self._start_companion()

    # --- the body --------------------------------------------------------------------------------------------------

    async def _wait_for_body(self) -> None:
        """Waits until there is some of the body, its end or the end of the client."""
        if self._received:
            # A body that comes in many small parts must not keep others from running.
            await trio.lowlevel.checkpoint()
        while True:
            self._take_body()
            if self._parts or self.body_complete or self.left:
                return
            if self._parser.they_are_waiting_for_100_continue and not (self._asked_for_body or self.response.begun):
                self._asked_for_body = True
                await self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n", pause=False)
            await self._read_body()

    def _take_body(self) -> None:
        """Takes what was received of the body already."""
        try:
            for _ in range(_EVENTS_AT_ONCE):
                if self.body_complete:
                    return
                event = self._parser.next_event()
                if type(event) is h11.Data:
                    self._parts.append(event.data)
                    self._received += len(event.data)
                elif type(event) is h11.EndOfMessage:
                    self.body_complete = True
                else:
                    return
        except h11.RemoteProtocolError as error:
            self.broken = error
            self.left = True

    async def _read_body(self) -> None:
        connection = self._connection
        timeouts = connection.host.timeouts
        began = trio.current_time()
        earned = timeouts.body + self._received / timeouts.body_rate
        data = await connection.read(until=began + earned - self._waited)
        self._waited += trio.current_time() - began
        if data is None:
            self.left = True
            return
        # At the end of input the parser finds that something is missing.
        self._parser.receive_data(data)

    # --- the client's leaving --------------------------------------------------------------------------------------

    async def _watch_client(self) -> None:
        if self.left or self.finished or self._connection.lost:
            await trio.lowlevel.checkpoint()
            return
        with trio.CancelScope() as self._watch:
            ahead = 0
            while not self.left:
                if ahead > _AHEAD_BYTES:
                    await trio.sleep_forever()
                data = await self._connection.read(until=None)
                if data:
                    ahead += len(data)
                    self._parser.receive_data(data)
                else:
                    self.left = True
        self._watch = None

    def wake(self) -> None:
        """Ends the waiting for the client's leaving: it has, or it no longer matters."""
        if self._watch is not None:
            self._watch.cancel()

    # --- the response ----------------------------------------------------------------------------------------------

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        response, connection = self.response, self._connection
        # What ends this has to do so now: what was made but not sent would be missing.
        if connection.writing:
            raise trio.BusyResourceError("another task is sending a part of this response")
        if more:
            await trio.lowlevel.checkpoint_if_cancelled()
        if not response.begun and not response.close:
            response.close = connection.host.stopping or not self._may_go_on()
        out = response.body(data, more=more, date=connection.host.date())
        # The last part gives nobody his turn: the read of the next request does.
        await connection.write(out, pause=more)
        if not more:
            self._finish()

    def _may_go_on(self) -> bool:
        """The connection can carry another request, so far as is known."""
        self._take_body()
        return self.body_complete and self._parser.their_state is not h11.MUST_CLOSE

    def _finish(self) -> None:
        self.finished = True
        if self._companion is not None:
            self._companion.scope.cancel()
        self.wake()
        if self.looked:
            # Let it see soon whether the application goes on without its client.
            self._connection.look_by(trio.current_time() + PROMPT)

    # --- what the host calls ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """It has taken long. Called by the housekeeper, once or more."""
        if self.over or self.handed_over:
            return
        self.looked = True
        if not self.finished:
            self._start_companion()
        elif self._companion is not None and not self._companion.ended.is_set():
            self._connection.look_by(trio.current_time() + PROMPT)
        else:
            self.handed_over = True
            self._connection.go_on_without(self)

    def _start_companion(self) -> None:
        if self._wanted is not None and self._companion is None:
            self._companion = _Companion(self._wanted)
            self._connection.host.start_soon(self._companion.run, self)

    async def end(self) -> None:
        """The application has returned: ends what belongs to it."""
        self.over = True
        if self._companion is not None:
            self._companion.scope.cancel()
            await self._companion.ended.wait()

    @property
    def remaining(self) -> bytes:
        """What was received behind the request."""
        return self._parser.trailing_data[0]

    def __str__(self) -> str:
        target = self._request.target.partition(b"?")[0]
        return f"{self._request.method.decode('ascii')} {target.decode('ascii')}"
