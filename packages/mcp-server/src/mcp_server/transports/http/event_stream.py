"""The response to one POST, or another stream of events: JSON as long as possible, then an SSE stream.

The response to a call without notifications is plain JSON. The first notification turns the response into a stream.
A timeout does so, too, so that proxies see activity. After that, all messages are sent as events.

The events of a legacy stream are recorded in the log of the session before they are written, and have ids. The
connection may break, or be closed on purpose, while the handler continues. A client that reconnects receives the rest
from its last event, and nothing twice.

One task at a time writes. Decisions on the form of the response, writes and records therefore never overlap.

A second task may run beside the request: it detects that the client disconnects, and keeps a silent stream alive. A
short call does not need it, so a host that supports it starts the task only for slow requests (`mcp_server.asgi`). For a
subscription, the task of the request does this work itself.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.framing.sse import encode_comment, encode_event
from mcp_core.http.event_log import event_id
from mcp_core.http.statuses import status_of
from mcp_core.jsonrpc.messages import ErrorResponse
from mcp_server.asgi import COMPANION
from mcp_server.connection.channel import encoded
from mcp_server.stores.sessions import StoreError
from mcp_server.transports.http.coalescer import WriteCoalescer
from mcp_server.transports.http.replay import StreamReplaced, written
from mcp_server.transports.http.request import LARGE, is_of_principal, reserve_output

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.server import Rejection, ServerExchange
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.revisions import Era
    from mcp_server.asgi import Receive, Scope, StartLater
    from mcp_server.stores.sessions import PendingNotification
    from mcp_server.transports.http.replay import Item, Log
    from mcp_server.transports.http.request import AsgiResponse

__all__ = ["DisconnectWatcher", "EventStream", "run_beside"]

_log: Final = logging.getLogger("mcp_server")

_WRITE_SECONDS: Final = 1.0
"""Time for a client to read pending output before its stream ends, in seconds."""

_COMMENT: Final = encode_comment("still here")


class EventStream:
    """The messages that respond to one request, over one connection or several.

    Args:
        exchange: The HTTP exchange, which decides the head of the response.
        response: The response.
        era: The era whose rules apply.
        batch: Whether the requests were sent in one array.
        standalone: Whether this is a standalone stream: it responds to no request, and ends only when `end` is called.
        log: The log of its events; `None`: events are not stored, and the stream cannot be resumed.
        session_id: The id of the session that the response opens.
    """

    __slots__ = (
        "_answers",
        "_batch",
        "_coalescer",
        "_era",
        "_exchange",
        "_last",
        "_log",
        "_number",
        "_pending",
        "_session_id",
        "_standalone",
        "committed",
        "follower",
        "over",
        "response",
        "wake",
    )

    response: AsgiResponse | None
    """The response that carries the stream; `None` while the client is not connected."""
    committed: bool
    """Whether the response has become an SSE stream."""
    follower: str
    """The worker that serves the stream instead, because the client has resumed it there; empty: no other worker."""
    over: bool
    """Whether the response is complete."""
    wake: Callable[[], None] | None
    """Called when a message is queued, so that it is flushed soon."""

    def __init__(
        self,
        exchange: ServerExchange,
        response: AsgiResponse,
        era: Era,
        *,
        batch: bool = False,
        standalone: bool = False,
        log: Log[EventStream] | None = None,
        session_id: str | None = None,
    ) -> None:
        self.response = response
        self.committed = False
        self.follower = ""
        self.over = False
        self.wake = None
        self._exchange: Final = exchange
        self._era: Final = era
        self._pending: dict[RequestId, None] = {}
        self._batch: Final = batch
        self._standalone: Final = standalone
        self._log = log
        self._session_id: Final = session_id
        self._answers: list[Item] = []
        # Most responses are JSON and do not need a coalescer.
        self._coalescer: WriteCoalescer[Item] | None = None
        self._number = 0
        self._last = 0

    def expect(self, request: RequestId) -> None:
        """Expect a response of a handler to this request. Call this method before any response is sent."""
        self._pending[request] = None

    @property
    def may_stream(self) -> bool:
        """Whether this is a stream, or can become one."""
        return not self.over and self._exchange.accepts_stream

    @property
    def reaches(self) -> bool:
        """Whether a message reaches the client if it is sent now, if necessary after a reconnection."""
        if not self.may_stream:
            return False
        if self.committed and self._log is not None:
            return True
        return self.connected

    def _joined(self) -> WriteCoalescer[Item]:
        if self._coalescer is None:
            # Without a log there is only one write, which shields itself.
            self._coalescer = WriteCoalescer(self._hand_on, shielded=self._log is not None)
        return self._coalescer

    # --- messages of requests --------------------------------------------------------------------------------------

    async def send(self, *messages: bytes) -> None:
        """Send messages that are not responses. They are discarded if the client accepts no stream."""
        if self.reaches:
            await self._joined().put(*[(message, None, None) for message in messages])

    async def notify(self, notifications: Sequence[tuple[bytes, PendingNotification | None]]) -> bool:
        """Send notifications of changes, in the same way as `send`.

        Args:
            notifications: Encoded notifications, each with its record in the store.

        Returns:
            Whether the log contains them: the store does not list them as pending any more.
        """
        if self.reaches:
            await self._joined().put(*[(message, None, notification) for message, notification in notifications])
        return self._log is not None

    def leave(self, message: bytes) -> None:
        """Queue a message for the next write. Does not block."""
        self._joined().leave((message, None, None))
        if self.wake is not None:
            self.wake()

    async def flush(self) -> None:
        """Write the queued messages."""
        if self._coalescer is not None and self._coalescer.waiting:
            async with self._joined().alone():
                pass

    async def answer(self, answer: Answer, *, unavailable: str = "") -> None:
        """Send the response to an expected request. The last one completes the response.

        Args:
            answer: The response.
            unavailable: The message of the response if a store cannot be reached. HTTP then has a status for it, unless
                the response has begun or has several parts.
        """
        if unavailable and not (self.committed or self._batch) and self.response is not None:
            self.over = True
            await self.response.reject(self._exchange.unavailable(unavailable, id=answer.id))
            return
        answer, data = encoded(answer)
        if self.committed or self._exchange.prefers_stream:
            await self._joined().put((data, answer.id, None))
            return
        self._pending.pop(cast("RequestId", answer.id), None)  # the response to a request has its id
        self._answers.append((data, answer.id, None))
        if not self._pending:
            usual = self._batch or type(answer) is not ErrorResponse
            await self._complete(200 if usual else status_of(answer, self._era))

    async def give(self, answers: Sequence[Answer], *, refused: bool) -> None:
        """Send responses that no handler gives, before all others. If no handler runs, they complete the response.

        Args:
            answers: The responses.
            refused: Whether they reject their requests.
        """
        # The log does not store these responses: a client that sends invalid requests does not need them again.
        # Only a batch has members without a readable id. The revision that has batches uses a null id for them.
        self._answers = [(encoded(answer, null_id=self._batch)[1], None, None) for answer in answers]
        if self._pending:
            return
        if self._exchange.accepts_json:
            await self._complete(200 if self._batch else status_of(answers[0], self._era, refused=refused))
        else:
            async with self._joined().alone():
                await self._write(await self._commit(), last=True)

    async def drop(self, request: RequestId, rejection: Rejection | None = None) -> None:
        """Stop expecting a response to a request, because it was cancelled.

        If there is nothing else to send, the response becomes a stream without events. This is how a request without a
        response is expressed in this transport, and clients that cancelled tolerate it.

        Args:
            request: The id of the request.
            rejection: The response to send instead, if nothing was sent yet.
        """
        self._pending.pop(request, None)
        if self._pending or self.over:
            return
        async with self._joined().alone():
            if self.committed:
                if self._log is not None:
                    # Even if the client has disconnected: without a response, the request would stay pending.
                    await self._log.delivered(self._number)
                await self._end()
            elif self._answers:
                await self._complete(200)
            elif self.response is not None and rejection is not None:
                self.over = True
                await self.response.reject(rejection)
            elif self.response is not None and not self._exchange.accepts_stream:
                self.over = True
                await self.response.complete(self._exchange.empty_head())
            else:
                # Without an event id: the client has no reason to reconnect.
                self._log = None
                await self._write(await self._commit(), last=True)

    async def commit(self, replay: Callable[[], Awaitable[bytes]] | None = None) -> None:
        """Turn the response into a stream, if the client accepts one and the response is not complete.

        Args:
            replay: Returns events to write first. It is called after the stream has begun in the log.

        Raises:
            StoreError: `replay` failed. The stream is over, and nothing was sent.
        """
        if self.may_stream and not self.committed:
            async with self._joined().alone():
                await self._become_stream(replay)

    async def keep_alive(self, response: AsgiResponse) -> None:
        """Write a comment to a silent stream."""
        async with self._joined().alone():
            await response.write(_COMMENT)

    # --- connections -----------------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether a client is connected, as far as is known."""
        return bool(self.follower) or (self.response is not None and not self.response.lost)

    @property
    def number(self) -> int:
        """The number of the stream in the log; 0 if its events are not stored."""
        return 0 if self._log is None else self._number

    def left(self, response: AsgiResponse) -> None:
        """Detach a response whose client has disconnected."""
        response.lost = True
        response.abort()
        if self.response is response and self.committed:
            self.response = None

    async def release(self, retry: float) -> None:
        """Close the connection if the client knows how to reconnect for the rest.

        Args:
            retry: Time after which the client is to reconnect, in seconds.
        """
        if self._log is None or not self._log.priming or not self.may_stream:
            return
        async with self._joined().alone():
            await self._become_stream()
            await self._let_go(retry)

    async def resume(self, exchange: ServerExchange, response: AsgiResponse, after: int) -> bool:
        """Continue over another connection.

        Args:
            exchange: The HTTP exchange of the GET that resumes the stream.
            response: The new connection.
            after: The number of the last event that the client received.

        Returns:
            Whether the event exists. If not, nothing was sent.

        Raises:
            StoreError: The events to send again cannot be read.
        """
        before = self.response
        if before is not None:
            # It may wait for a client that has already reconnected.
            before.abort()
        async with self._joined().alone():
            if self._log is None or not 0 <= after <= self._last:
                return False
            events = await self._log.events(self._number, after)
            data = b"".join([written(self._number, event.number, event.data) for event in events])
            if before is not None:
                await before.end()
            self.response = response
            await response.begin(exchange.stream_head(), data or _COMMENT)
            if self.over:
                await self._close()
        return True

    async def follow(self, follower: str) -> None:
        """Leave the stream to another worker, where its client has resumed it.

        Args:
            follower: The id of the worker.
        """
        before = self.response
        if before is not None:
            # It may wait for a client that has already reconnected.
            before.abort()
        async with self._joined().alone():
            if before is not None:
                await before.end()
            self.response, self.follower = None, follower
            # The other worker may have read the events before this one knew of it.
            self._inform(is_over=self.over)

    def unfollow(self, follower: str) -> None:
        """Record that the client has disconnected from another worker."""
        if self.follower == follower:
            self.follower = ""

    def _inform(self, *, is_over: bool) -> None:
        if self.follower and self._log is not None:
            self._log.inform(self.follower, self._number, is_over=is_over)

    async def end(self, retry: float | None = None) -> None:
        """End a stream that expects no response, or whose handlers have been cancelled.

        Args:
            retry: Time after which the client is to reconnect, in seconds; `None`: not specified.
        """
        with trio.move_on_after(_WRITE_SECONDS) as scope:
            await self._end_alone(retry)
        if scope.cancelled_caught:
            if self.response is not None:
                self.response.abort()
            await self._end_alone(retry)

    async def end_before(self, number: int) -> None:
        """End a standalone stream unless it began after another one.

        Two workers can begin standalone streams of one session at the same time. The one with the greater number stays.

        Args:
            number: The number of the other stream; 0 if its events are not stored.
        """
        if self.response is not None:
            # A write can wait for a client that has already reconnected.
            with trio.move_on_after(_WRITE_SECONDS) as scope:
                await self._settle()
            if scope.cancelled_caught:
                self.response.abort()
                await self._settle()
        # A stream that has not begun yet gets a greater number.
        if self.committed and not self.number > number > 0:
            await self.end()

    async def _settle(self) -> None:
        """Wait until no task writes."""
        async with self._joined().alone():
            pass

    async def _end_alone(self, retry: float | None) -> None:
        async with self._joined().alone():
            if not self.over:
                primed = self._log is not None and self._log.priming
                await self._end(b"" if retry is None or not primed else self._farewell(retry))

    # --- called by one task at a time ------------------------------------------------------------------------------

    async def _hand_on(self, items: Sequence[Item]) -> None:
        if self.over:
            return
        data = b"" if self.committed else await self._commit()
        try:
            data += await self._put_down(items)
        except StreamReplaced:
            # The changes are still pending, and the other worker notifies the client of them.
            await self._end()
            return
        for _, answers, _ in items:
            if answers is not None:
                self._pending.pop(answers, None)
        is_last = not (self._pending or self._standalone)
        if not is_last:
            self._inform(is_over=False)
        await self._write(data, last=is_last)

    async def _become_stream(self, replay: Callable[[], Awaitable[bytes]] | None = None) -> None:
        if self.may_stream and not self.committed:
            first = await self._commit()
            if replay is not None:
                try:
                    # Now no other worker adds events to an earlier standalone stream.
                    first = await replay() + first
                except StoreError:
                    self.over = True
                    self._leave_log()
                    raise
            await self._write(first)

    async def _let_go(self, retry: float) -> None:
        response = self.response
        if self._log is not None and response is not None and not self.over:
            self.response = None
            await response.end(self._farewell(retry))

    async def _complete(self, status: int) -> None:
        """Send the response as JSON."""
        self.over = True
        body = b"[%b]" % b",".join([data for data, _, _ in self._answers]) if self._batch else self._answers[0][0]
        id = None if self._batch else self._answers[0][1]
        self._answers = []
        response = self.response
        if response is None or response.lost:
            return
        charge = response.charge if len(body) > LARGE else None
        if charge is not None and (excess := await reserve_output(charge, len(body))) is not None:
            await response.reject(self._exchange.busy(excess, id=id, own=is_of_principal(charge)))
            return
        await response.complete(self._exchange.json_head(status, session_id=self._session_id), body, charge)

    async def _commit(self) -> bytes:
        """Start the stream. Return the bytes to write first, including the responses that are complete."""
        self.committed = True
        answered, self._answers = self._answers, []
        if self.response is None or self.response.lost:
            # The client has no event id with which it could resume the stream.
            self._log = self.response = None
        if self._log is not None:
            pending = [*self._pending, *(answers for _, answers, _ in answered if answers is not None)]
            # Responses that no handler gave are not stored, and the standalone stream has no pending requests either.
            self._number = await self._log.begin(pending) if pending or self._standalone else 0
            if self._number:
                self._log.live[self._number] = self
            else:
                self._log = None
        primed = self._log is not None and self._log.priming
        first = encode_event(id=event_id(self._number, 0)) if primed else b""
        return first + await self._put_down(answered) if answered else first

    async def _put_down(self, items: Sequence[Item]) -> bytes:
        """Record items in the log, and return the encoded events."""
        first = self._last + 1
        if self._log is not None and not await self._log.append(self._number, self._last, items):
            self._inform(is_over=True)
            self.follower = ""
            self._leave_log()
            self._log = None
        self._last += len(items)
        if self._log is None:
            return b"".join([encode_event(data, event="message") for data, _, _ in items])
        return b"".join([written(self._number, number, data) for number, (data, _, _) in enumerate(items, first)])

    def _farewell(self, retry: float) -> bytes:
        return encode_event(id=event_id(self._number, self._last), retry=round(retry * 1000))

    async def _write(self, data: bytes, *, last: bool = False) -> None:
        response = self.response
        if response is not None and not response.begun:
            head = self._exchange.stream_head(session_id=self._session_id)
            if last and data:
                # The response is complete: send it in one write, with its length.
                await response.complete(head, data)
            else:
                await response.begin(head, data or _COMMENT)
            data = b""
        if last:
            await self._end(data)
        elif response is not None and data:
            await response.write(data)

    async def _end(self, data: bytes = b"") -> None:
        self.over = True
        self._leave_log()
        self._inform(is_over=True)
        await self._close(data)

    def _leave_log(self) -> None:
        if self._log is not None:
            self._log.live.pop(self._number, None)

    async def _close(self, data: bytes = b"") -> None:
        response = self.response
        if response is not None:
            await response.end(data)
            if self._log is not None and not response.lost:
                await self._log.delivered(self._number)


class DisconnectWatcher:
    """A watcher of one response: detects the disconnect, starts the stream, and writes keep-alive comments.

    Args:
        stream: The event stream of the response.
        response: The response.
        receive: The application's `receive`. The body is complete, so it returns only `http.disconnect`.
        policy: The settings of the endpoint. The watcher uses `stream_after`, `keep_alive` and `retry`.
        gone: Called when the client has disconnected, or `None`.
        flush: Queues or writes pending messages before each wait, or `None`.
        until: The time at which the stream ends, by trio's clock.
    """

    __slots__ = (
        "_flush",
        "_gone",
        "_is_woken",
        "_pause",
        "_policy",
        "_receive",
        "_response",
        "_stream",
        "_stream_after",
        "_until",
    )

    def __init__(
        self,
        stream: EventStream,
        response: AsgiResponse,
        receive: Receive,
        policy: EndpointPolicy,
        *,
        gone: Callable[[], None] | None = None,
        flush: Callable[[], Awaitable[None]] | None = None,
        until: float = math.inf,
    ) -> None:
        self._stream: Final = stream
        self._response: Final = response
        self._receive: Final = receive
        self._policy: Final = policy
        # If the response is a stream in any case, start it as soon as the request is slow enough for this task to run.
        self._stream_after: Final = 0.0 if policy.answer == "stream" else policy.stream_after
        self._gone: Final = gone
        self._flush: Final = flush
        self._until: Final = until
        self._pause: trio.CancelScope | None = None
        self._is_woken = False

    async def run(self) -> None:
        """Watch until the client disconnects, or the response is complete."""
        stream, response = self._stream, self._response
        began = trio.current_time()
        stream.wake = self.wake
        try:
            while not response.lost:
                if response.ended:
                    # Its last write may still run. It must not be interrupted, as after a disconnect.
                    return
                await self._write_pending()
                if stream.committed:
                    due = response.written_at + self._policy.keep_alive
                else:
                    due = began + self._stream_after if stream.may_stream else math.inf
                with trio.CancelScope(deadline=min(due, self._until)) as self._pause:
                    if (await self._receive())["type"] == "http.disconnect":
                        break
                self._pause = None
                await self._continue()
        except trio.Cancelled:
            # The request is complete, or the host stops. A write that waits for a client must not delay this.
            response.abort()
            raise
        finally:
            # The stream and this object refer to each other: until garbage collection, the arguments of the request
            # would stay.
            if stream.wake == self.wake:
                stream.wake = None
        if not response.ended:
            stream.left(response)
        # Otherwise the last bytes may be in the process of being written, which must not be aborted.
        if self._gone is not None and not stream.over:
            self._gone()

    async def _write_pending(self) -> None:
        self._is_woken = True
        while self._is_woken:
            # Set again if another message is queued during the write.
            self._is_woken = False
            if self._flush is not None:
                await self._flush()
            await self._stream.flush()

    async def _continue(self) -> None:
        """Do what is due after a pause: end or start the stream, or write a comment to a silent one."""
        now = trio.current_time()
        if now >= self._until:
            await self._stream.end(self._policy.retry)
        elif not self._stream.committed:
            await self._stream.commit()
        elif now >= self._response.written_at + self._policy.keep_alive:
            await self._stream.keep_alive(self._response)

    def wake(self) -> None:
        """Flush pending messages soon. Does not block."""
        self._is_woken = True
        if self._pause is not None:
            self._pause.cancel()


async def run_beside(
    scope: Scope, companion: Callable[[], Awaitable[None]], serve: Callable[[], Awaitable[None]]
) -> None:
    """Serve a request, with a companion task if the request is slow.

    Args:
        scope: The ASGI scope of the request. It states whether the host starts companions.
        companion: Runs beside the request and is cancelled at its end.
        serve: Serves the request.
    """
    extensions = scope.get("extensions")
    start_later: StartLater | None = extensions.get(COMPANION) if isinstance(extensions, dict) else None
    if start_later is not None:
        start_later(companion)
        await serve()
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(companion)
        await serve()
        nursery.cancel_scope.cancel()
