"""A legacy session over Streamable HTTP: its requests, its standalone stream, and recovery from losses.

The client recovers from these losses:

- The stream of a response breaks: the client fetches the rest by GET with the id of the last event. It waits as long as
  the server demands before each attempt, and repeats the attempts within the deadlines of the request. The status 404
  means that the session is lost: the client opens a new one, and the request fails.
- The standalone stream breaks: the client opens it again, after the delay that the server demands.
- A response to a request of the server is not delivered: the client sends it again.
- The server loses the session, and responds to a request of the session with 404: one task opens a new session for all
  tasks. The request that received the 404 was not processed, so the client sends it again, once, unless it has a cursor,
  which is valid only in the old session. Other requests in flight in the old session may have been processed, and fail
  with an error.

Spec: basic/transports#session-management, basic/transports#resumability-and-redelivery (legacy)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.codec import Batch
from mcp_core.errors import (
    AuthorizationError,
    ConnectionEnded,
    HttpFailure,
    McpError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from mcp_core.field_methods import FieldRepr
from mcp_core.http.client import ClientExchange, session_headers
from mcp_core.jsonrpc.messages import ErrorResponse, Notification, ResultResponse
from mcp_core.methods import NOTIFICATIONS_CANCELLED, NOTIFICATIONS_PROGRESS
from mcp_core.trio.http_client.pool_policy import Use

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.pending_request import PendingRequest
    from mcp_client.transports.http.message_exchanger import Wire
    from mcp_core.errors import MalformedMessage
    from mcp_core.http.client import Resume
    from mcp_core.jsonrpc.messages import Message, Request
    from mcp_core.revisions import Revision

__all__ = ["CLOSE_SECONDS", "Pause", "Session", "Sessions", "end_session"]

_log: Final = logging.getLogger("mcp_client")

_ATTEMPTS: Final = 5
"""Maximum number of consecutive failed attempts to fetch a stream."""

_LONGEST_PAUSE: Final = 30.0
"""Maximum pause between these attempts, in seconds. The first attempt starts as soon as the server allows; each pause
doubles."""

_NOT_NOW: Final = frozenset({408, 425, 429})
"""Statuses of 4xx that are temporary."""

_UNAVAILABLE: Final = frozenset({502, 503, 504}) | _NOT_NOW
"""Statuses with which a gateway or a server says that it is not available now."""

_FORGOTTEN: Final = frozenset({400, 410, 412, 416, 422})
"""Statuses with which servers reject an unknown event id; the protocol does not define one."""

_NOT_OFFERED: Final = frozenset({400, 404, 405, 406, 410, 415, 501})
"""Statuses that another attempt will not change."""

_ABOUT_REQUESTS: Final = frozenset({NOTIFICATIONS_CANCELLED.name, NOTIFICATIONS_PROGRESS.name})

CLOSE_SECONDS: Final = 2.0
"""Time to end a session, in seconds. The client does not depend on the result."""

_STANDING_SECONDS: Final = 1.0
"""Time that opening a connection waits for the standalone stream, in seconds. A request that the server sends before
the stream is open would be lost; but some servers respond to the GET only when they have a message to send."""


@attrs.frozen(eq=False, repr=False)
class Session(FieldRepr):
    """The data that each request of a session contains."""

    id: str | None = attrs.field(repr=False)
    """The session id, a secret; `None` if the server does not use one."""
    revision: Revision
    """The negotiated revision."""


class Sessions:
    """The current session of a connection, and the recovery from its loss.

    Args:
        wire: Runs the exchanges.
        channel: The channel of the connection.
        session: The first session.
        renew: Opens a new session.
        on_change: Called when `lost` changes.
        on_lost: Called when a new session has replaced one that the server lost.
    """

    def __init__(
        self,
        wire: Wire,
        channel: ClientChannel,
        session: Session,
        renew: Callable[[], Awaitable[Session]],
        *,
        on_change: Callable[[], None],
        on_lost: Callable[[], None] | None,
    ) -> None:
        self._wire: Final = wire
        self._channel: Final = channel
        self._session = session
        self._renew: Final = renew
        self._on_change: Final = on_change
        self._on_lost: Final = on_lost
        self._standing = trio.CancelScope()
        self._renewing: _Renewing | None = None
        self.lost: bool = False
        """Whether the server lost the session and no new session is open yet."""

    # --- requests and other messages -------------------------------------------------------------------------------

    async def perform(self, request: Request, call: PendingRequest) -> None:
        """Send a request, and deliver the messages of its response until the pending request has ended."""
        session = self._session
        exchange = self._exchange(request, session)
        try:
            rest = await self._wire.exchange(exchange, self._channel.deliver, call=call, extra=call.headers)
        except SessionExpired:
            await self.replace(session)
            if "cursor" in (request.params or ()):
                # "Don't persist cursors across sessions": the caller lists again from the start.
                raise
            session = self._session
            exchange = self._exchange(request, session)
            rest = await self._wire.exchange(exchange, self._channel.deliver, call=call, extra=call.headers)
        if rest is not None:
            await self._fetch(exchange, rest, call, session)

    @property
    def session(self) -> Session:
        """The current session."""
        return self._session

    async def post(
        self, message: Message | Batch, headers: Sequence[tuple[str, str]] = (), session: Session | None = None
    ) -> None:
        """Send a message other than a request, in the given or the current session.

        A response is sent again if the server is not available: the server waits for it, and ignores a response that it
        has received before.

        Raises:
            TransportError: The message is not delivered.
        """
        session = session or self._session
        pause = Pause()
        while True:
            try:
                await self._post(message, session, headers)
            except SessionExpired:
                if _of_session(message):
                    # The message refers to state that the server has lost.
                    raise
                await self.replace(session)
                await self._post(message, self._session, headers)
            except TransportError as failure:
                is_response = isinstance(message, ResultResponse | ErrorResponse)
                is_refused = isinstance(failure, HttpFailure) and failure.status not in _UNAVAILABLE
                if not is_response or is_refused or not pause.more():
                    raise
                await trio.sleep(pause.seconds)
                continue
            return

    async def _post(self, message: Message | Batch, session: Session, headers: Sequence[tuple[str, str]]) -> None:
        exchange = self._exchange(message, session)
        await self._wire.exchange(exchange, self._channel.deliver, extra=headers, use=Use.SIDE)

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

    async def _fetch(
        self, exchange: ClientExchange, rest: Resume | None, call: PendingRequest, session: Session
    ) -> None:
        """Fetch the rest of a stream that ended before its response."""
        pause = Pause()
        while rest is not None:
            await trio.sleep(max(rest.after, pause.seconds))
            exchange = exchange.resumption()
            try:
                before = rest
                rest = await self._wire.exchange(
                    exchange, self._channel.deliver, call=call, extra=call.headers, use=Use.STREAM
                )
            except (TransportError, RequestTimeout) as failure:
                if _passing(failure) and pause.more():
                    continue
                if isinstance(failure, SessionExpired):
                    await self._try_replace(session)
                raise _not_fetched(failure) from failure
            if rest is not None and rest.last_event_id != before.last_event_id:
                pause = Pause()
            else:
                pause.longer()

    # --- the standalone stream -------------------------------------------------------------------------------------

    async def stand(self) -> None:
        """Open the standalone stream, and wait a short time until it is open."""
        begun = trio.Event()
        self._standing = trio.CancelScope()
        self._channel.nursery.start_soon(self._keep_standing, self._session, self._standing, begun)
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
            await self._try_replace(session)

    async def _stand(self, session: Session, begun: trio.Event) -> None:
        """Read the standalone stream until the server stops offering it. Raises `SessionExpired`."""
        last_event_id: str | None = None
        was_open = anything = False
        pause = Pause()

        def deliver(message: Message | Batch | MalformedMessage) -> None:
            nonlocal anything
            anything = True
            self._channel.deliver(message)

        while True:
            exchange = self._exchange(None, session, last_event_id)
            anything = False
            opened = trio.current_time()
            try:
                rest = await self._wire.exchange(exchange, deliver, use=Use.STREAM, on_stream=begun.set)
            except SessionExpired:
                raise
            except McpError as refusal:
                status = refusal.status if isinstance(refusal, HttpFailure) else None
                if was_open and status == 404 and session.id is not None:
                    raise SessionExpired(refusal.message) from refusal
                is_refused = isinstance(refusal, HttpFailure | AuthorizationError) and status not in _UNAVAILABLE
                if not was_open and (is_refused or not pause.more()):
                    # Servers may omit the standalone stream.
                    _log.debug("standalone stream not available: server=%s error=%s", self._wire.shown, refusal)
                    return
                if status in _FORGOTTEN and last_event_id is not None:
                    last_event_id = None
                    # Messages after that event are lost.
                    _log.warning("last event id rejected, notifications may be lost: server=%s", self._wire.shown)
                    self._channel.listeners.lost()
                elif status in _NOT_OFFERED:
                    _log.warning(
                        "standalone stream rejected, change notifications are unavailable: server=%s error=%s",
                        self._wire.shown,
                        refusal,
                    )
                    return
                if was_open:
                    # An outage may last, and credentials may be renewed, so attempts continue with longer pauses.
                    pause.longer()
            else:
                was_open = True
                last_event_id = None if rest is None else rest.last_event_id
                if trio.current_time() - opened >= _LONGEST_PAUSE or anything:
                    pause = Pause()
                elif not pause.more():
                    _log.warning("standalone stream closed repeatedly right after opening: server=%s", self._wire.shown)
                    return
            await trio.sleep(max(exchange.retry_after, pause.seconds))

    # --- the end of a session --------------------------------------------------------------------------------------

    async def replace(self, lost: Session) -> None:
        """Open a new session in place of a lost one, unless another task does so or has done so.

        Raises:
            McpError: The server does not open a new session.
        """
        while self._renewing is not None:
            renewing = self._renewing
            await renewing.done.wait()
            if renewing.failure is not None:
                # One task renews the session; the tasks that waited for it share its failure.
                raise SessionExpired(
                    f"the server lost the session, and opening a new one failed: {renewing.failure.message}"
                ) from renewing.failure
        if self._session is not lost:
            return
        ended = self._channel.ended
        if ended is not None:
            raise ended
        renewing = self._renewing = _Renewing()
        self.lost = True
        self._on_change()
        try:
            self._standing.cancel()
            self._session = await self._renew()
            self.lost = False
            self._on_change()
        except McpError as failure:
            renewing.failure = failure
            raise
        finally:
            self._renewing = None
            renewing.done.set()
        _log.info("session lost and replaced: server=%s", self._wire.shown)
        self._channel.listeners.renewed()
        if self._on_lost is not None:
            try:
                self._on_lost()
            except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
                _log.exception("on_session_lost callback failed")
        await self.stand()

    async def _try_replace(self, lost: Session) -> None:
        """Open a new session in place of a lost one. A failure is logged; the next request tries again."""
        try:
            with self._channel.pausable_deadlines.move_on_after(self._channel.deadlines.connect):
                await self.replace(lost)
        except McpError as error:
            if self._channel.ended is None:
                _log.warning("session lost, new session failed: server=%s error=%s", self._wire.shown, error)

    async def restore(self) -> None:
        """Wait for the session that replaces a lost one, or open it.

        Raises:
            McpError: The server does not open a new session.
        """
        seconds = self._channel.deadlines.connect
        with self._channel.pausable_deadlines.move_on_after(seconds):
            # The new session may be lost immediately.
            while self.lost:
                await self.replace(self._session)
        if self.lost:
            raise RequestTimeout("the server did not open a new session", deadline="connect", seconds=seconds)

    async def aclose(self) -> None:
        """Close the standalone stream and end the session. The client accepts any response."""
        self._standing.cancel()
        if self._session.id is None:
            return
        await end_session(self._wire, self._session.id, self._session.revision)


async def end_session(wire: Wire, id: str, revision: Revision | None) -> None:
    """End a session, within `CLOSE_SECONDS`. The client accepts any response, or no response.

    Args:
        wire: Sends the request.
        id: The session id.
        revision: The negotiated revision; `None` before the negotiation.
    """
    with trio.move_on_after(CLOSE_SECONDS):
        try:
            async with await wire.request("DELETE", wire.url, session_headers(revision, id), None, use=Use.SIDE) as it:
                _log.debug("session ended: status=%d", it.head.status)
        except McpError as error:
            _log.debug("ending the session failed: error=%s", error)


@attrs.define(eq=False, repr=False)
class _Renewing(FieldRepr):
    """The renewal of a session, by one task for all."""

    done: trio.Event = attrs.field(factory=trio.Event)
    """Set when the renewal ends, with any result."""
    failure: McpError | None = None
    """Why the renewal failed. Also `None` if the task was cancelled; the next task then tries."""


class Pause:
    """The pause before the next attempt, and the count of attempts."""

    def __init__(self) -> None:
        self._failures = 0
        self.seconds: float = 0.0
        """Time to wait, in seconds, unless the server demands more."""

    def more(self) -> bool:
        """Count a failed attempt, and return whether to make another one."""
        self._failures += 1
        self.longer()
        return self._failures < _ATTEMPTS

    def longer(self) -> None:
        """Set the next pause to twice the length."""
        self.seconds = min(_LONGEST_PAUSE, max(1.0, self.seconds * 2))


def _of_session(message: Message | Batch) -> bool:
    """Return whether a message refers to another message of its session, so it has no meaning in a new session."""
    if isinstance(message, Notification):
        return message.method in _ABOUT_REQUESTS
    return isinstance(message, Batch | ResultResponse | ErrorResponse)


def _passing(failure: McpError) -> bool:
    """Return whether a failure may be temporary: the network, a restart, an overload."""
    if isinstance(failure, HttpFailure):
        return failure.status >= 500 or failure.status in _NOT_NOW
    return not isinstance(failure, SessionExpired)


def _not_fetched(cause: McpError) -> ConnectionEnded:
    return ConnectionEnded(
        f"the stream ended before its response, and fetching the rest failed: {cause.message}; "
        "the server may have processed the request"
    )
