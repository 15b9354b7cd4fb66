"""An HTTP request and its response, as an ASGI application sees them.

*Body.* A body is charged to the memory budget while it is received. A body that arrives in one part is not charged
here: the host already holds it, and the request in it is charged when the body is complete.

*Response.* A write is not interrupted: a handler may be cancelled at any time, and a part of an event would corrupt all
that follows on the connection. Therefore writes are shielded. A write ends early only if the client does not read for a
long time or is known to have disconnected. The connection is then lost. A disconnected client is not an error here:
data for it is discarded.

Spec: ASGI 3.0, HTTP 2.3
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_core.field_methods import FieldRepr
from mcp_core.http.messages import Headers, HttpHead, HttpRequest
from mcp_core.http.origin import rejection
from mcp_core.http.server import Responses
from mcp_server.asgi import CHARGE, CONVERT_HEADERS
from mcp_server.connection.authenticator import ANONYMOUS
from mcp_server.connection.turns import take_turn

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.server import Rejection, ServerExchange
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import ConvertHeaders, Message, Receive, Scope, Send
    from mcp_server.connection.authenticator import Identity

__all__ = [
    "LARGE",
    "AsgiResponse",
    "HttpContext",
    "is_of_principal",
    "memory_owner",
    "normal",
    "not_found",
    "receive_body",
    "request_of",
    "reserve_output",
    "serve_document",
]

LARGE: Final = 64 * 1024
"""Largest body that is not charged when it is created, in bytes. The host charges it if the client does not read it."""

_HELD: Final = 3
"""Memory of a response until it is written, as a multiple of its size: the result, its JSON, and the encoded bytes."""

_STALL: Final = 60.0
"""Time limit of one write, in seconds. Hosts that time writes have a shorter limit. Other hosts have no limit."""

_GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Exceptions that hosts raise if the client has disconnected."""


@lru_cache(maxsize=16)
def _raw(headers: Headers) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers as ASGI expects them. Cached, because most responses have the same headers."""
    return headers.raw()


async def reserve_output(charge: MemoryCharge, size: int) -> LimitExceeded | None:
    """Charge a large body until it is written, and wait for a turn to write it.

    Args:
        charge: The charge of the request.
        size: The size of the body, in bytes.

    Returns:
        The error if the memory budget is exhausted.
    """
    try:
        charge.cover_output(_HELD * size)
    except LimitExceeded as excess:
        return excess
    await take_turn()
    return charge.dropped


class AsgiResponse:
    """An HTTP response. Only one task at a time may write.

    Args:
        send: The ASGI `send` of the request.
    """

    __slots__ = ("_send", "_watcher", "_writing", "begun", "charge", "ended", "lost", "written_at")

    begun: bool
    """Whether the head was sent, so that the status and the headers cannot change."""
    charge: MemoryCharge | None
    """The memory charge of the request, which also covers a large body."""
    ended: bool
    """Whether the response is complete."""
    lost: bool
    """Whether the client has disconnected or does not read. Nothing more is sent."""
    written_at: float
    """The time of the last write to a stream, by trio's clock."""

    def __init__(self, send: Send) -> None:
        self._send: Final = send
        self.charge = None
        self.begun = self.ended = self.lost = False
        self.written_at = 0.0
        self._writing: trio.CancelScope | None = None
        self._watcher: trio.CancelScope | None = None

    @property
    def open(self) -> bool:
        """Whether a stream can be written to."""
        return self.begun and not (self.ended or self.lost)

    async def complete(self, head: HttpHead, body: bytes = b"", charge: MemoryCharge | None = None) -> None:
        """Send a complete response. Add `content-length` if there is a body.

        Args:
            head: The head.
            body: The body.
            charge: The charge of a large body, from `reserve_output`.
        """
        if self.lost:
            return
        self.begun = self.ended = True
        headers = _raw(head.headers)
        if body:
            headers = [*headers, (b"content-length", b"%d" % len(body))]
        try:
            await self._send({"type": "http.response.start", "status": head.status, "headers": headers})
            message: dict[str, object] = {"type": "http.response.body", "body": body}
            if charge is not None:
                message[CHARGE] = charge
            await self._send(message)
        except _GONE:
            self.lost = True

    async def reject(self, rejection: Rejection) -> None:
        """Send the response to a rejected request."""
        if self.lost:
            return
        head = rejection.head()
        self.begun = self.ended = True
        try:
            await self._send({"type": "http.response.start", "status": head.status, "headers": head.headers.raw()})
            await self._send({"type": "http.response.body", "body": rejection.body()})
        except _GONE:
            self.lost = True

    async def begin(self, head: HttpHead, data: bytes) -> None:
        """Start a stream.

        Args:
            head: The head of the response.
            data: The first bytes. Must not be empty: hosts hold back the head until the first bytes.
        """
        self.begun = True
        await self._write(
            {"type": "http.response.start", "status": head.status, "headers": _raw(head.headers)},
            {"type": "http.response.body", "body": data, "more_body": True},
        )

    async def write(self, data: bytes) -> None:
        """Write to a stream."""
        if self.open:
            await self._write({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Complete a stream with its last bytes."""
        if self.open:
            self.ended = True
            await self._write({"type": "http.response.body", "body": data})
        self.leave()

    async def _write(self, *messages: dict[str, object]) -> None:
        self.written_at = trio.current_time()
        with trio.CancelScope(shield=True, deadline=self.written_at + _STALL) as self._writing:
            try:
                for message in messages:
                    await self._send(message)
            except _GONE:
                self.lost = True
        if self._writing.cancelled_caught:
            self.lost = True
        self._writing = None

    def abort(self) -> None:
        """Interrupt a write that waits for the client, because it has disconnected or has another connection."""
        if self._writing is not None:
            self._writing.cancel()

    # --- the watcher -----------------------------------------------------------------------------------------------

    def attended(self, scope: trio.CancelScope) -> None:
        """Set the scope of the task that watches this response. `scope` is cancelled when the response is complete."""
        self._watcher = scope

    def leave(self) -> None:
        """Cancel the task that watches this response."""
        if self._watcher is not None:
            self._watcher.cancel()


@attrs.frozen(eq=False, repr=False)
class HttpContext(FieldRepr):
    """An HTTP request with its response, memory charge and identity."""

    exchange: ServerExchange
    """The HTTP exchange, which decides how to respond."""
    http: HttpRequest
    """The head of the request, as handlers see it."""
    response: AsgiResponse
    """The response."""
    receive: Receive
    """The ASGI `receive`. The body was read, so it returns only `http.disconnect`."""
    scope: Scope
    """The ASGI scope of the request."""
    charge: MemoryCharge
    """The memory charge of the request."""
    identity: Identity = ANONYMOUS
    """The identity of the sender."""


_OVERHEAD: Final = 4
"""Divisor for the overhead: the parts of a body use up to 1/4 more memory than its bytes, because of block sizes."""


def memory_owner(principal: str | None, session: str | None, scope: Scope) -> Hashable:
    """Return the owner of the memory of a request: the principal, else its session, else the connection.

    A session id that does not exist is harmless: it is a separate owner, as another connection would be.

    Args:
        principal: The authenticated principal, by `Principal.key`.
        session: The session id in the request.
        scope: The ASGI scope of the request.
    """
    if principal is not None:
        return "principal", principal
    if session:
        return "session", session
    client = scope.get("client")
    # If the host reports no addresses, each request is a separate owner.
    return tuple(client) if isinstance(client, (tuple, list)) else id(scope)


async def receive_body(
    receive: Receive, charge: MemoryCharge, responses: Responses, limits: Limits
) -> bytes | Rejection | None:
    """Receive the body of a request.

    Args:
        receive: The ASGI `receive` of the request.
        charge: A droppable charge. It grows with the body.
        responses: Creates the rejections.
        limits: The limits. This function uses `message_bytes`.

    Returns:
        The body; a rejection if the body is too large or the memory budget is exhausted; `None` if the client
        disconnected before the end of the body.
    """
    message = await receive()
    part = _part(message)
    if part is None:
        return None
    if not message.get("more_body", False):
        return part if len(part) <= limits.message_bytes else responses.too_large(len(part))
    parts, size = [part], len(part)
    with trio.CancelScope() as scope:
        charge.on_drop = scope.cancel
        while charge.dropped is None:
            if size > limits.message_bytes:
                return responses.too_large(size)
            try:
                charge.resize(size + size // _OVERHEAD)
            except LimitExceeded as excess:
                return responses.busy(excess, own=is_of_principal(charge))
            message = await receive()
            part = _part(message)
            if part is None:
                return None
            parts.append(part)
            size += len(part)
            if not message.get("more_body", False):
                return b"".join(parts) if size <= limits.message_bytes else responses.too_large(size)
    return None if charge.dropped is None else responses.busy(charge.dropped, own=is_of_principal(charge))


def _part(message: Message) -> bytes | None:
    """Return a part of the body; `None` if the client has disconnected."""
    if message["type"] == "http.disconnect":
        return None
    part = message.get("body", b"")
    return part if isinstance(part, bytes) else b""


def is_of_principal(charge: MemoryCharge) -> bool:
    """Return whether a principal is charged, so that its own requests use the capacity."""
    return isinstance(charge.owner, tuple) and charge.owner[0] == "principal"


_DOCUMENT_HEADERS: Final = (
    # Public metadata: any client and any web page may read the document.
    ("access-control-allow-origin", "*"),
    ("cache-control", "public, max-age=300"),
    ("content-type", "application/json"),
    ("x-content-type-options", "nosniff"),
)
_PREFLIGHT: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, HEAD"),
    ("access-control-allow-headers", "*"),
    ("access-control-max-age", "600"),
)
_OF_PAGES: Final = frozenset({"origin", "sec-fetch-site"})


def normal(path: str) -> str:
    """Remove the slash at the end of a path, which is not significant."""
    return path.rstrip("/") or "/"


def request_of(scope: Scope) -> HttpRequest:
    """Return the request of a scope. The ASGI specification defines the types of its members."""
    raw, query = scope.get("raw_path"), scope.get("query_string")
    target = raw.decode("latin-1") if isinstance(raw, bytes) else str(scope["path"])
    if isinstance(query, bytes) and query:
        target = f"{target}?{query.decode('latin-1')}"
    client = scope.get("client")
    extensions = scope.get("extensions")
    offered = extensions.get(CONVERT_HEADERS) if isinstance(extensions, dict) else None
    # Only the embedded host uses this name.
    convert = Headers.from_raw if offered is None else cast("ConvertHeaders", offered)
    return HttpRequest(
        method=str(scope["method"]),
        target=target,
        headers=convert(scope["headers"]),  # type: ignore[arg-type]  # as ASGI specifies
        scheme=str(scope.get("scheme") or "http"),
        client=str(client[0]) if isinstance(client, (tuple, list)) and client else None,
    )


async def serve_document(document: bytes, policy: EndpointPolicy, limits: Limits, scope: Scope, send: Send) -> None:
    """Respond to a request for a public JSON document.

    Args:
        document: The document.
        policy: The settings of the endpoint; `allowed_hosts` is used.
        limits: The limits.
        scope: The ASGI scope of the request.
        send: The ASGI `send` of the request.
    """
    http, response = request_of(scope), AsgiResponse(send)
    responses = Responses(http, policy, limits)
    visitor = attrs.evolve(http, headers=Headers([pair for pair in http.headers if pair[0] not in _OF_PAGES]))
    foreign = rejection(visitor, policy.allowed_hosts, ())
    if foreign is not None:
        await response.reject(responses.reject(403, foreign))
    elif http.method == "GET":
        await response.complete(HttpHead(status=200, headers=Headers(_DOCUMENT_HEADERS)), document)
    elif http.method == "HEAD":
        length = ("content-length", str(len(document)))
        await response.complete(HttpHead(status=200, headers=Headers((*_DOCUMENT_HEADERS, length))))
    elif http.method == "OPTIONS":
        await response.complete(HttpHead(status=204, headers=Headers(_PREFLIGHT)))
    else:
        only = (("allow", "GET, HEAD, OPTIONS"),)
        await response.reject(
            responses.reject(405, f"method {http.method[:20]!a} is not allowed; use GET", headers=only)
        )


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001  # a route
    """Respond with 404 to a request for a path that is not served."""
    headers = Headers((("content-type", "text/plain; charset=utf-8"),))
    await AsgiResponse(send).complete(HttpHead(status=404, headers=headers), b"no MCP endpoint at this path\n")
