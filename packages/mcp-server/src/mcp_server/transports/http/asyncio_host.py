"""An endpoint in an application whose host runs on asyncio: uvicorn, granian, hypercorn, daphne.

The endpoint runs in trio tasks in the same thread (`mcp_core.trio.guest`). The ASGI functions `receive` and `send` belong
to asyncio, so each call of them crosses to the other loop, which costs about as much as a task. A short request therefore
crosses only twice: the first part of its body is received before its trio task starts, and a response that is complete is
sent after the task has ended, by the asyncio task of the host.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import attrs
import trio

from mcp_core.field_methods import FieldRepr
from mcp_core.trio.async_library import check_asyncio
from mcp_core.trio.guest import current_guest
from mcp_server.asgi import COMPANION, SLOW_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.trio.guest import TrioGuest
    from mcp_server.asgi import Application, BackgroundTask, Message, Receive, Scope, Send

__all__ = ["serve_from_asyncio", "stop_flag"]

_LAST: Final = frozenset({"lifespan.startup.failed", "lifespan.shutdown.complete", "lifespan.shutdown.failed"})
"""Messages after which a lifespan ends. They are sent when the trio task has ended, because Hypercorn cancels the lifespan
as soon as it has received them."""

_RESOLUTION: Final = 0.001
"""Seconds by which a timer of a loop may be early."""

_HELD: Final = 64 * 1024
"""Bytes of the largest body that is sent after the endpoint has returned. The endpoint waits while larger ones are sent,
because they are charged to the memory budget until then."""


async def serve_from_asyncio(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Run an application for trio in a trio task, for one call of an asyncio host.

    Args:
        app: The application.
        scope: The ASGI scope.
        receive: The ASGI `receive` of the host.
        send: The ASGI `send` of the host.

    Raises:
        WrongAsyncLibrary: No event loop runs in this thread.
        BaseException: The exceptions of the application and of the host.
    """
    check_asyncio(f"{type(app).__qualname__}.__call__")
    guest = current_guest()
    if scope["type"] != "http":
        await _serve_other(guest, app, scope, receive, send)
        return
    exchange = _Exchange(guest, await receive(), receive, send)
    await exchange.serve(app, scope)


def stop_flag() -> Callable[[], bool] | None:
    """Return a function that returns whether uvicorn is about to stop; `None` under other hosts.

    uvicorn first waits for open connections, without an event for the application, and then sends the lifespan event. Its
    server object, which handles the signals, has the documented attribute `should_exit`.
    """
    server: object = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if not any(each.__module__.partition(".")[0] == "uvicorn" for each in type(server).__mro__):
        return None
    return lambda: getattr(server, "should_exit", False) is True


async def _serve_other(guest: TrioGuest, app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Run an application for a scope that is not an HTTP request: the lifespan. The application refuses WebSockets."""
    last: list[Message] = []

    async def send_or_hold(message: Message) -> None:
        if message["type"] in _LAST:
            last.append(message)
        else:
            await guest.run_asyncio(partial(send, message))

    await guest.run(partial(app, scope, partial(guest.run_asyncio, receive), send_or_hold))
    for message in last:
        await send(message)


class _Exchange:
    """A request and its response between the two loops."""

    __slots__ = ("_companion", "_first", "_guest", "_held", "_receive", "_send", "_start", "_waiting")

    def __init__(self, guest: TrioGuest, first: Message, receive: Receive, send: Send) -> None:
        self._guest: Final = guest
        self._first: Message | None = first
        self._receive: Final = receive
        self._send: Final = send
        self._start: Message | None = None
        self._held: list[Message] = []
        self._companion: _CompanionTask | None = None
        self._waiting: _Waiting | None = None

    async def serve(self, app: Application, scope: Scope) -> None:
        """Run the application, then send the part of the response that it has not sent."""
        extensions = scope.get("extensions")
        offered = {**(extensions if isinstance(extensions, dict) else {}), COMPANION: self.start_later}
        try:
            await self._guest.run(partial(self._run, app, {**scope, "extensions": offered}))
        finally:
            if self._waiting is not None:
                self._waiting.start = None
        for message in self._held:
            await self._send(message)

    async def _run(self, app: Application, scope: Scope) -> None:
        try:
            await app(scope, self.receive, self.send)
        finally:
            if self._waiting is not None:
                self._waiting.start = None
            if self._companion is not None:
                await self._companion.stop()

    async def receive(self) -> Message:
        """Return the next message of the host."""
        message, self._first = self._first, None
        return await self._guest.run_asyncio(self._receive) if message is None else message

    async def send(self, message: Message) -> None:
        """Send a message, or hold it until the response is complete."""
        if message["type"] == "http.response.start":
            # A host sends the head together with the first part of the body.
            self._start = message
            return
        start, self._start = self._start, None
        messages = [message] if start is None else [start, message]
        body = message.get("body")
        if (
            start is not None
            and not message.get("more_body")
            and len(body if isinstance(body, bytes) else b"") <= _HELD
        ):
            self._held = messages
        else:
            await self._guest.run_asyncio(partial(self._send_all, messages))
            # The host may have sent without waiting. A stream of many parts must not prevent other tasks from running.
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def _send_all(self, messages: list[Message]) -> None:
        for message in messages:
            await self._send(message)

    def start_later(self, background: BackgroundTask) -> None:
        """Start a companion task if the request becomes slow (`mcp_server.asgi.StartLater`)."""
        self._waiting = _slow_requests(self._guest).wait(partial(self._start_companion, background))

    def _start_companion(self, background: BackgroundTask) -> None:
        self._companion = _CompanionTask(background)
        self._guest.start_soon(self._companion.run)


@attrs.define(eq=False, repr=False)
class _Waiting(FieldRepr):
    """A request that may become slow."""

    due: float
    """The time at which it is slow, by the clock of the loop."""
    start: Callable[[], None] | None
    """Starts the companion task; `None` once the request has ended."""


class _SlowRequests:
    """The requests of a loop that may become slow, with one timer for all of them: most end before it.

    Args:
        loop: The running loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._waiting: Final[deque[_Waiting]] = deque()

    def wait(self, start: Callable[[], None]) -> _Waiting:
        """Call a function after `SLOW_AFTER` seconds, unless the request ends before."""
        waiting = _Waiting(self._loop.time() + SLOW_AFTER, start)
        if not self._waiting:
            self._loop.call_later(SLOW_AFTER, self._start_due)
        self._waiting.append(waiting)
        return waiting

    def _start_due(self) -> None:
        # The timer may be early, by the resolution of the clock.
        now = self._loop.time() + _RESOLUTION
        while self._waiting and self._waiting[0].due <= now:
            start = self._waiting.popleft().start
            if start is not None:
                start()
        if self._waiting:
            self._loop.call_at(self._waiting[0].due, self._start_due)


_slow_requests_of: Final[WeakKeyDictionary[TrioGuest, _SlowRequests]] = WeakKeyDictionary()


def _slow_requests(guest: TrioGuest) -> _SlowRequests:
    """Return the requests of the running loop that may become slow."""
    found = _slow_requests_of.get(guest)
    if found is None:
        found = _slow_requests_of[guest] = _SlowRequests(asyncio.get_running_loop())
    return found


class _CompanionTask:
    """A task beside a slow request."""

    def __init__(self, background: Callable[[], Awaitable[None]]) -> None:
        self._background: Final = background
        self._scope: Final = trio.CancelScope()
        self._ended: Final = trio.Event()

    async def run(self) -> None:
        try:
            with self._scope:
                await self._background()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Cancel the task and wait until it has ended."""
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()
