"""A legacy session over Streamable HTTP: its requests, its standing stream, and what happens when something is lost.

What is lost, and what follows:

- the stream of an answer: the rest is fetched by GET with the id of the last event, not before the server wants it,
  and again and again, as long as the deadlines of the call allow;
- the standing stream: it is opened again, and again not before the server wants it;
- the session, which shows when the server answers 404 to a request of it: a new one is made, once for all who find out.
  The request that got the 404 was not processed, so it is made again, once. What else was under way in the old session
  may have been processed, and ends with an error.

Spec: basic/transports#session-management, basic/transports#resumability-and-redelivery (legacy)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_client.http_client.pool_policy import Use
from mcp_core.errors import (
    AuthorizationError,
    ConnectionEnded,
    HttpFailure,
    McpError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from mcp_core.http.client import ClientExchange, session_headers
from mcp_core.jsonrpc.messages import Batch, ErrorResponse, Notification, ResultResponse
from mcp_core.methods import NOTIFICATIONS_CANCELLED, NOTIFICATIONS_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_client.connection.channel import Link
    from mcp_client.connection.pending_request import Call
    from mcp_client.connection.transport import Deliver
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_core.errors import MalformedMessage
    from mcp_core.http.client import Resume
    from mcp_core.jsonrpc.messages import Message, Request
    from mcp_core.revisions import Revision

__all__ = ["CLOSE_SECONDS", "Pause", "Session", "Sessions", "end_session"]

_log: Final = logging.getLogger("mcp_client")

_ATTEMPTS: Final = 5
"""How often in a row a stream is fetched in vain before it is given up."""

_LONGEST_PAUSE: Final = 30.0
"""Seconds between such attempts at most; the first one is made as soon as the server allows, each pause is doubled."""

_NOT_NOW: Final = frozenset({408, 425, 429})
"""Statuses of 4xx that are about the moment."""

_FORGOTTEN: Final = frozenset({400, 410, 412, 416, 422})
"""How servers say that they do not know an event any more; there is no status of the protocol for it."""

_NOT_OFFERED: Final = frozenset({400, 404, 405, 406, 410, 415, 501})
"""Statuses that will not change by asking again."""

_ABOUT_REQUESTS: Final = frozenset({NOTIFICATIONS_CANCELLED.name, NOTIFICATIONS_PROGRESS.name})

CLOSE_SECONDS: Final = 2.0
"""Seconds that ending a session may take; it is a courtesy."""

_STANDING_SECONDS: Final = 1.0
"""Seconds that opening a connection waits for the standing stream. What the server asks before it is open would be
lost; but some servers answer a GET only when they have something to say."""


@attrs.frozen(eq=False)
class Session:
    """What every request of a session says."""

    id: str | None = attrs.field(repr=False)
    """Its id, a secret; `None` where the server needs none."""
    revision: Revision
    """The revision that was agreed."""


class Sessions:
    """The session of a connection, and the ones that replace it.

    Args:
        wire: Does the exchanges.
        link: The connection.
        session: The first session.
        renew: Makes a new session.
        on_lost: Is called when a new session has replaced one that the server lost.
    """

    def __init__(
        self,
        wire: Wire,
        link: Link,
        session: Session,
        renew: Callable[[], Awaitable[Session]],
        on_lost: Callable[[], None] | None,
    ) -> None:
        self._wire: Final = wire
        self._link: Final = link
        self._session = session
        self._renew: Final = renew
        self._on_lost: Final = on_lost
        self._standing = trio.CancelScope()
        self._renewing: _Renewing | None = None
        self.lost = False
        """The server lost the session, and there is no new one yet."""

    # --- requests and other messages -------------------------------------------------------------------------------

    async def perform(self, request: Request, call: Call) -> None:
        """Asks, and hands over what comes until the call has ended."""
        session = self._session
        exchange = self._exchange(request, session)
        try:
            rest = await self._wire.exchange(exchange, self._link.deliver, call=call, extra=call.headers)
        except SessionExpired:
            await self.replace(session)
            exchange = self._exchange(request, self._session)
            rest = await self._wire.exchange(exchange, self._link.deliver, call=call, extra=call.headers)
        if rest is not None:
            await self._fetch(exchange, rest, call)

    @property
    def session(self) -> Session:
        """The present one."""
        return self._session

    async def post(
        self, message: Message | Batch, headers: Sequence[tuple[str, str]] = (), session: Session | None = None
    ) -> None:
        """Sends what is no request, in a session, or in the present one. Raises `TransportError`."""
        session = session or self._session
        try:
            await self._post(message, session, headers)
        except SessionExpired:
            if _of_session(message):
                # It says nothing to a server that has forgotten what it is about.
                raise
            await self.replace(session)
            await self._post(message, self._session, headers)

    async def _post(self, message: Message | Batch, session: Session, headers: Sequence[tuple[str, str]]) -> None:
        exchange = self._exchange(message, session)
        await self._wire.exchange(exchange, self._link.deliver, extra=headers, use=Use.SIDE)

    def _exchange(
        self, message: Message | Batch | None, session: Session, last_event_id: str | None = None
    ) -> ClientExchange:
        return ClientExchange(
            message,
            revision=session.revision,
            limits=self._wire.limits,
            session_id=session.id,
            last_event_id=last_event_id,
        )

    async def _fetch(self, exchange: ClientExchange, rest: Resume | None, call: Call) -> None:
        """Fetches the rest of a stream that ended before its answer."""
        pause = Pause()
        while rest is not None:
            await trio.sleep(max(rest.after, pause.seconds))
            exchange = exchange.resumption()
            try:
                before = rest
                rest = await self._wire.exchange(
                    exchange, self._link.deliver, call=call, extra=call.headers, use=Use.STREAM
                )
            except (TransportError, RequestTimeout) as failure:
                if _passing(failure) and pause.more():
                    continue
                raise _not_fetched(failure) from failure
            if rest is not None and rest.last_event_id != before.last_event_id:
                pause = Pause()
            else:
                pause.longer()

    # --- the standing stream ---------------------------------------------------------------------------------------

    async def stand(self) -> None:
        """Opens the stream for what the server says of its own accord, and waits a little for it."""
        begun = trio.Event()
        self._standing = trio.CancelScope()
        self._link.nursery.start_soon(self._keep_standing, self._session, self._standing, begun)
        with trio.move_on_after(_STANDING_SECONDS):
            await begun.wait()

    async def _keep_standing(self, session: Session, scope: trio.CancelScope, begun: trio.Event) -> None:
        expired = False
        with scope:
            try:
                await self._stand(session, begun)
            except SessionExpired:
                expired = True
            finally:
                begun.set()
        if expired:
            try:
                with self._link.patience.move_on_after(self._link.deadlines.connect):
                    await self.replace(session)
            except McpError as error:
                if self._link.ended is None:
                    _log.warning("%s lost the session, and gives no new one: %s", self._wire.shown, error)

    async def _stand(self, session: Session, begun: trio.Event) -> None:
        """Reads the standing stream until there is none. Raises `SessionExpired`."""
        last_event_id: str | None = None
        was_open = False
        pause = Pause()
        while True:
            exchange = self._exchange(None, session, last_event_id)
            came = _Came(self._link.deliver)
            opened = trio.current_time()
            try:
                rest = await self._wire.exchange(exchange, came.take, use=Use.STREAM, on_stream=begun.set)
            except SessionExpired:
                raise
            except McpError as refusal:
                status = refusal.status if isinstance(refusal, HttpFailure) else None
                if was_open and status == 404 and session.id is not None:
                    raise SessionExpired(refusal.message) from refusal
                if not was_open and (isinstance(refusal, HttpFailure | AuthorizationError) or not pause.more()):
                    # Such a stream is an offer that a server need not make.
                    _log.debug("%s has no standing stream: %s", self._wire.shown, refusal)
                    return
                if status in _FORGOTTEN and last_event_id is not None:
                    last_event_id = None
                    # What came behind that event cannot be had any more.
                    _log.warning("%s forgot its last event; notifications may be lost", self._wire.shown)
                    self._link.listeners.lost()
                elif status in _NOT_OFFERED:
                    _log.warning(
                        "%s does not offer its standing stream any more, and tells no changes: %s",
                        self._wire.shown,
                        refusal,
                    )
                    return
                if was_open:
                    # An outage may last, and credentials may be renewed; the pauses become long.
                    pause.longer()
            else:
                was_open = True
                last_event_id = None if rest is None else rest.last_event_id
                if trio.current_time() - opened >= _LONGEST_PAUSE or came.anything:
                    pause = Pause()
                elif not pause.more():
                    _log.warning("%s ends its standing stream at once, again and again", self._wire.shown)
                    return
            await trio.sleep(max(exchange.retry_after, pause.seconds))

    # --- the end of a session --------------------------------------------------------------------------------------

    async def replace(self, lost: Session) -> None:
        """Makes a new session, unless somebody else does, or has done so since.

        Raises:
            McpError: There is none to be had.
        """
        while self._renewing is not None:
            renewing = self._renewing
            await renewing.done.wait()
            if renewing.failure is not None:
                # What one found out need not be found out by all who waited with him.
                raise SessionExpired(
                    f"the server lost the session, and gives no new one: {renewing.failure.message}"
                ) from renewing.failure
        if self._session is not lost:
            return
        ended = self._link.ended
        if ended is not None:
            raise ended
        renewing = self._renewing = _Renewing()
        self.lost = True
        try:
            self._standing.cancel()
            self._session = await self._renew()
            self.lost = False
        except McpError as failure:
            renewing.failure = failure
            raise
        finally:
            self._renewing = None
            renewing.done.set()
        _log.info("%s lost the session; there is a new one", self._wire.shown)
        self._link.listeners.renewed()
        if self._on_lost is not None:
            try:
                self._on_lost()
            except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
                _log.exception("the function for lost sessions failed")
        await self.stand()

    async def restore(self) -> None:
        """Waits for the session that replaces a lost one, or makes it.

        Raises:
            McpError: There is none to be had.
        """
        seconds = self._link.deadlines.connect
        with self._link.patience.move_on_after(seconds):
            # The new one may be lost as soon as it is there.
            while self.lost:
                await self.replace(self._session)
        if self.lost:
            raise RequestTimeout("the server gave no new session", deadline="connect", seconds=seconds)

    async def aclose(self) -> None:
        """Closes the standing stream and ends the session. Any answer will do."""
        self._standing.cancel()
        if self._session.id is None:
            return
        await end_session(self._wire, self._session.id, self._session.revision)


async def end_session(wire: Wire, id: str, revision: Revision | None) -> None:
    """Ends a session, in bounded time. Any answer will do, and none as well.

    Args:
        wire: Asks for it.
        id: Which.
        revision: What is spoken in it; `None`: nothing was agreed on.
    """
    with trio.move_on_after(CLOSE_SECONDS):
        try:
            async with await wire.request("DELETE", wire.url, session_headers(revision, id), None, use=Use.SIDE) as it:
                _log.debug("ending the session was answered with status %d", it.head.status)
        except McpError as error:
            _log.debug("the session could not be ended: %s", error)


class _Came:
    """Hands over what comes, and remembers that something did."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver: Final = deliver
        self.anything = False
        """Whether something came."""

    def take(self, what: Message | Batch | MalformedMessage) -> None:
        """Something came."""
        self.anything = True
        self._deliver(what)


@attrs.define(eq=False)
class _Renewing:
    """A new session is being made, by one for all."""

    done: trio.Event = attrs.field(factory=trio.Event)
    """Set at the end, whatever came of it."""
    failure: McpError | None = None
    """Why there is none. `None` as well when whoever made it gave up: then the next one tries."""


class Pause:
    """How long to wait before the next attempt, and whether to make one."""

    def __init__(self) -> None:
        self._failures = 0
        self.seconds = 0.0
        """Seconds to wait, if the server does not want more."""

    def more(self) -> bool:
        """Another attempt was in vain; whether to make one more."""
        self._failures += 1
        self.longer()
        return self._failures < _ATTEMPTS

    def longer(self) -> None:
        """The next pause is twice as long."""
        self.seconds = min(_LONGEST_PAUSE, max(1.0, self.seconds * 2))


def _of_session(message: Message | Batch) -> bool:
    """Whether a message is about something that was said in the session, and means nothing in another."""
    if isinstance(message, Notification):
        return message.method in _ABOUT_REQUESTS
    return isinstance(message, Batch | ResultResponse | ErrorResponse)


def _passing(failure: McpError) -> bool:
    """Whether it may be over in a moment: the network, a restart, too much to do."""
    if isinstance(failure, HttpFailure):
        return failure.status >= 500 or failure.status in _NOT_NOW
    return not isinstance(failure, SessionExpired)


def _not_fetched(cause: McpError) -> ConnectionEnded:
    return ConnectionEnded(
        f"the stream ended before its answer, and the rest could not be fetched: {cause.message}; "
        "whether the request was processed is not known"
    )
