"""A guard for ASGI hosts other than the embedded one: rejects requests of ambiguous length, and slow bodies.

`RequestGuard` wraps an application and sees what the host forwards: the scope and the body. It rejects requests that a
proxy and the server may read differently, and ends slow bodies by the same `BodyDeadline` as the embedded host. It does
not see what a host does before there is a scope, such as reading heads.

Spec: RFC 9112 sections 2.3, 6.1 and 6.3
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_server.host.body_deadline import BodyDeadline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.limits import Limits
    from mcp_server.asgi import Application, Message, Receive, Scope, Send
    from mcp_server.host.timeouts import HostTimeouts

__all__ = ["RequestGuard"]

_log: Final = logging.getLogger("mcp_server")

_TEXT: Final = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_CLOSE: Final = (b"connection", b"close")

_HTTP_2: Final = "2"
"""The version that frames requests without headers. A parser of HTTP/1.1 reports `GET / HTTP/2.0` as `2.0`."""


class RequestGuard:
    """An ASGI application that forwards the requests that are safe to serve.

    Args:
        app: The application that serves them.
        limits: The limits. `message_bytes` is the assumed length of bodies of undeclared length.
        timeouts: The timeouts. The guard uses `body` and `body_rate`.
    """

    def __init__(self, app: Application, *, limits: Limits, timeouts: HostTimeouts) -> None:
        self._app: Final = app
        self._limits: Final = limits
        self._timeouts: Final = timeouts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(cast("Iterable[tuple[bytes, bytes]]", scope["headers"]))  # as ASGI specifies
        version = str(scope.get("http_version"))
        length = headers.get(b"content-length", b"")
        request = _TimedRequest(
            receive,
            send,
            version=version,
            length=int(length) if length.isdigit() else self._limits.message_bytes,
            timeouts=self._timeouts,
        )
        refused = _refusal(version, headers)
        if refused is None:
            await self._app(scope, request.receive, request.send)
            return
        _log.debug("request rejected: client=%s error=%s", scope.get("client"), refused[1])
        await request.reject(*refused, limit=self._limits.message_bytes)


def _refusal(version: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
    """Return the status and the reason to reject a request, or `None`."""
    if version == _HTTP_2:
        return None
    if not version.startswith("1."):
        return 505, "this server supports HTTP/2, HTTP/1.1 and HTTP/1.0"
    if b"transfer-encoding" in headers and (b"content-length" in headers or version == "1.0"):
        return 400, "Transfer-Encoding cannot be used with Content-Length or HTTP/1.0"
    return None


class _TimedRequest:
    """A request whose body has a deadline.

    Args:
        receive: The `receive` of the host.
        send: The `send` of the host.
        version: The HTTP version.
        length: Length of the body in bytes, or the limit if the length is unknown.
        timeouts: The timeouts.
    """

    __slots__ = ("_answered", "_complete", "_deadline", "_expired", "_receive", "_send", "_version", "_waited_until")

    def __init__(self, receive: Receive, send: Send, *, version: str, length: int, timeouts: HostTimeouts) -> None:
        self._receive: Final = receive
        self._send: Final = send
        self._version: Final = version
        self._waited_until = trio.current_time()
        self._deadline: Final = BodyDeadline(
            now=self._waited_until, length=length, grace=timeouts.body, rate=timeouts.body_rate
        )
        self._complete = False
        self._expired = False
        self._answered = False

    async def receive(self) -> Message:
        """Wait for the next part of the body until its deadline, or after the end of the body for the disconnect."""
        if self._complete:
            return await self._receive()
        if self._expired:
            await trio.lowlevel.checkpoint()
            return {"type": "http.disconnect"}
        deadline = self._deadline
        deadline.paused(trio.current_time() - self._waited_until)
        try:
            with trio.CancelScope(deadline=deadline.give_up_at):
                message = await self._receive()
                self._count(message)
                return message
        finally:
            self._waited_until = trio.current_time()
        return await self._give_up()

    def _count(self, message: Message) -> None:
        body = message.get("body", b"")
        self._deadline.received(len(body) if isinstance(body, bytes) else 0, trio.current_time())
        self._complete = message["type"] != "http.request" or not message.get("more_body")

    async def _give_up(self) -> Message:
        self._expired = True
        if not self._answered:
            settings = "HostTimeouts.body and HostTimeouts.body_rate"
            await self._answer(408, f"the body of the request took too long; the settings are {settings}")
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the response, unless the deadline of the body has passed."""
        if self._expired:
            await trio.lowlevel.checkpoint()
            return
        self._answered = True
        await self._send(message)

    async def reject(self, status: int, text: str, *, limit: int) -> None:
        """Read and discard the body, at most `limit` bytes, then send a complete response in plain text.

        A client that is still sending sees the response only if its data is read. In addition, hypercorn drops a
        response with `Connection: close` that is sent before the end of the request, if another request follows.
        """
        while limit > 0 and (message := await self.receive()).get("more_body"):
            body = message.get("body", b"")
            limit -= len(body) if isinstance(body, bytes) else 0
        if not self._expired:
            await self._answer(status, text)

    async def _answer(self, status: int, text: str) -> None:
        # Over HTTP/1, close the connection, so that bytes after the request are not read as another one.
        headers = _TEXT if self._version == _HTTP_2 else (*_TEXT, _CLOSE)
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await self._send({"type": "http.response.body", "body": text.encode() + b"\n", "more_body": False})
