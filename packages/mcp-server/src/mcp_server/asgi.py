"""What an ASGI application is, in types. Spec: ASGI 3.0, HTTP 2.3."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final, TypeAlias

__all__ = [
    "COMPANION",
    "WRITE_NOW",
    "Application",
    "Companion",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "StartLater",
    "WriteNow",
]

Scope: TypeAlias = MutableMapping[str, object]
"""What is known of a request, or of the life of the server."""

Message: TypeAlias = MutableMapping[str, object]
"""An event, in either direction."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]
"""Waits for the next event."""

Send: TypeAlias = Callable[[Message], Awaitable[None]]
"""Sends one."""

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""What a host runs, once for each request."""

COMPANION: Final = "mcp_server.companion"
"""The extension by which a host offers `StartLater` to a request, in `scope["extensions"]`."""

Companion: TypeAlias = Callable[[], Awaitable[None]]
"""A coroutine function that runs beside a request: it watches for the client's leaving and keeps the stream alive."""

StartLater: TypeAlias = Callable[[Companion], None]
"""Has a companion started by the host if the request still runs after a tenth of a second, and cancelled and waited for
when its response is complete or the application returns. Once per request. So a quick request costs no task."""

WRITE_NOW: Final = "mcp_server.write_now"
"""The extension by which a host offers `WriteNow` to a request, in `scope["extensions"]`."""

WriteNow: TypeAlias = Callable[[bytes], bool]
"""Sends a part of a body that has begun, from any task, without waiting. Says whether all of it went out; if not, the host
keeps the rest, which goes before the next message, and one has to be sent before this is called again: an empty part
will do. Raises `trio.BusyResourceError` when that was not done, or while another task sends."""
