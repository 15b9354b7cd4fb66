"""Types of ASGI applications. Spec: ASGI 3.0, HTTP 2.3."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from mcp_core.http.messages import Headers

__all__ = [
    "CHARGE",
    "COMPANION",
    "CONVERT_HEADERS",
    "SLOW_AFTER",
    "WRITE_NOW",
    "Application",
    "BackgroundTask",
    "ConvertHeaders",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "StartLater",
    "WriteNow",
]

Scope: TypeAlias = MutableMapping[str, object]
"""Properties of a request, or of the lifespan of the server."""

Message: TypeAlias = MutableMapping[str, object]
"""An event, inbound or outbound."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]
"""Function that waits for the next event."""

Send: TypeAlias = Callable[[Message], Awaitable[None]]
"""Function that sends an event."""

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Function that a host runs once per request."""

COMPANION: Final = "mcp_server.companion"
"""Extension name in `scope["extensions"]` under which a host offers `StartLater`."""

BackgroundTask: TypeAlias = Callable[[], Awaitable[None]]
"""Coroutine function that runs during a request: it detects that the client disconnects, and keeps the stream alive."""

SLOW_AFTER: Final = 0.1
"""Time after which a running request counts as slow, in seconds. Its companion is started then."""

StartLater: TypeAlias = Callable[[BackgroundTask], None]
"""Function that schedules a companion. The host starts it if the request still runs after `SLOW_AFTER`. The host cancels
it and waits for it when the response is complete or the application returns. Call it at most once per request. A short
request therefore costs no task."""

CHARGE: Final = "mcp_server.charge"
"""Key of a message `http.response.body`, under which an application passes the `MemoryCharge` of the body to a host that
shares its memory budget. The host drops the connection if the charge is dropped while the client reads the body. Other
hosts ignore the key."""

WRITE_NOW: Final = "mcp_server.write_now"
"""Extension name in `scope["extensions"]` under which a host offers `WriteNow`."""

WriteNow: TypeAlias = Callable[[bytes], bool]
"""Function that sends a part of a started response body, from any task, without waiting. It returns whether all bytes
were written. If not, the host sends the remaining bytes before the next message. The application must then send a
message before the next call; an empty part is sufficient. Raises `trio.BusyResourceError` if it did not, or while
another task sends."""

CONVERT_HEADERS: Final = "mcp_server.convert_headers"
"""Extension name in `scope["extensions"]` under which a host offers `ConvertHeaders`."""

ConvertHeaders: TypeAlias = "Callable[[Sequence[tuple[bytes, bytes]]], Headers]"
"""Function that returns the headers of a scope as text. The host remembers the result for the requests of a connection
that repeat the same headers. Pass `scope["headers"]`: another application may have changed them."""
