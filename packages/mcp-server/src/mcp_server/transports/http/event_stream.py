"""The answer to one POST, and any other stream of events: JSON as long as it can be, then a stream.

A call that only returns is answered by plain JSON. The first notification makes a stream of the response, or a deadline,
so that proxies see life; from then on all goes out as events.

The events of a legacy stream are put down in the session's log before they are written, and have ids. So the connection
may break, or be let go on purpose, while the handler goes on: a client that comes back has the rest from there, and
nothing twice.

Everything is handed on by one task at a time. What decides the form of the answer, what is written and what is put down
therefore never overlap.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.framing.sse import encode_comment, encode_event
from mcp_core.http.event_log import event_id
from mcp_core.http.statuses import status_of
from mcp_server.connection.channel import encoded
from mcp_server.transports.http.coalescer import Joiner
from mcp_server.transports.http.replay import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.http.responses import Refusal
    from mcp_core.http.server import ServerExchange
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.revisions import Era
    from mcp_server.stores.sessions import PendingNotification
    from mcp_server.transports.http.replay import Item, Log
    from mcp_server.transports.http.response import Response

__all__ = ["EventStream"]

_log: Final = logging.getLogger("mcp_server")

_PATIENCE: Final = 1.0
"""Seconds that a stream which is to end waits for a client to take what was written before."""

_COMMENT: Final = encode_comment("still here")


class EventStream:
    """What goes to the client in response to one request, over one connection or several.

    Args:
        exchange: How the response may begin.
        response: The response.
        era: Under which rules it answers.
        batch: The requests came in one array.
        standing: It answers nothing, and ends only when somebody ends it.
        log: Where its events are kept; `None`: nowhere, and it cannot be resumed.
        session_id: The session that the answer opens.
    """

    __slots__ = (
        "_answers",
        "_batch",
        "_era",
        "_exchange",
        "_joiner",
        "_last",
        "_log",
        "_number",
        "_owed",
        "_session_id",
        "_standing",
        "committed",
        "over",
        "response",
        "wake",
    )

    response: Response | None
    """The connection that it goes over; `None` when there is none for now."""
    committed: bool
    """It is a stream."""
    over: bool
    """All was said."""
    wake: Callable[[], None] | None
    """Has what was left flushed soon."""

    def __init__(
        self,
        exchange: ServerExchange,
        response: Response,
        era: Era,
        *,
        batch: bool = False,
        standing: bool = False,
        log: Log | None = None,
        session_id: str | None = None,
    ) -> None:
        self.response = response
        self.committed = False
        self.over = False
        self.wake = None
        self._exchange: Final = exchange
        self._era: Final = era
        self._owed: dict[RequestId, None] = {}
        self._batch: Final = batch
        self._standing: Final = standing
        self._log = log
        self._session_id: Final = session_id
        self._answers: list[Item] = []
        # Most answers are JSON, and need none.
        self._joiner: Joiner[Item] | None = None
        self._number = 0
        self._last = 0

    def owe(self, request: RequestId) -> None:
        """A handler will answer a request. To be said before anything is answered."""
        self._owed[request] = None

    @property
    def may_stream(self) -> bool:
        """Whether it is a stream, or can become one."""
        return not self.over and self._exchange.accepts_stream

    @property
    def reaches(self) -> bool:
        """Whether what is sent now reaches the client, be it when it comes back."""
        if not self.may_stream:
            return False
        if self.committed and self._log is not None:
            return True
        return self.connected

    def _joined(self) -> Joiner[Item]:
        if self._joiner is None:
            # Without a log all there is to do is one write, which shields itself.
            self._joiner = Joiner(self._hand_on, shielded=self._log is not None)
        return self._joiner

    # --- what the requests send ------------------------------------------------------------------------------------

    async def send(self, *messages: bytes) -> None:
        """Sends messages that answer nothing. They go nowhere when the client takes no stream."""
        if self.reaches:
            await self._joined().put(*[(message, None, None) for message in messages])

    async def notify(self, notices: Sequence[tuple[bytes, PendingNotification | None]]) -> bool:
        """Send notifications of changes, as `send` does.

        Returns:
            Whether the log has them: they are not pending any more.
        """
        if self.reaches:
            await self._joined().put(*[(message, None, notification) for message, notification in notices])
        return self._log is not None

    def leave(self, message: bytes) -> None:
        """Puts a message down that goes with the next one, or soon. Never waits."""
        self._joined().leave((message, None, None))
        if self.wake is not None:
            self.wake()

    async def flush(self) -> None:
        """Writes what was left."""
        if self._joiner is not None and self._joiner.waiting:
            async with self._joined().alone():
                pass

    async def answer(self, answer: Answer) -> None:
        """Sends the answer to a request that is owed one; with the last one the response is complete."""
        answer, data = encoded(answer)
        if self.committed or self._exchange.prefers_stream:
            await self._joined().put((data, answer.id, None))
            return
        self._owed.pop(cast("RequestId", answer.id), None)  # of a request
        self._answers.append((data, answer.id, None))
        if not self._owed:
            await self._complete(200 if self._batch else status_of(answer, self._era))

    async def give(self, answers: Sequence[Answer], *, refused: bool) -> None:
        """Sends answers that no handler gives, before any other. If none is owed, the response is complete with them.

        Args:
            answers: The answers.
            refused: They refuse their requests.
        """
        # They are not what the log holds on to: a client that asks for nonsense has them, or can do without.
        # Only a batch has members without a readable id, and the revision that has batches has a null id for them.
        self._answers = [(encoded(answer, null_id=self._batch)[1], None, None) for answer in answers]
        if self._owed:
            return
        if self._exchange.accepts_json:
            await self._complete(200 if self._batch else status_of(answers[0], self._era, refused=refused))
        else:
            async with self._joined().alone():
                await self._write(await self._commit(), last=True)

    async def drop(self, request: RequestId, refusal: Refusal | None = None) -> None:
        """A request gets no answer: it was cancelled.

        A response that has nothing else to say is a stream without events: that is what the requirement of no answer
        looks like in this transport, and clients that cancelled survive it.

        Args:
            request: Its id.
            refusal: What to answer instead, where nothing was sent yet.
        """
        self._owed.pop(request, None)
        if self._owed or self.over:
            return
        async with self._joined().alone():
            if self.committed:
                await self._end()
            elif self._answers:
                await self._complete(200)
            elif self.response is not None and refusal is not None:
                self.over = True
                await self.response.refuse(refusal)
            elif self.response is not None and not self._exchange.accepts_stream:
                self.over = True
                await self.response.complete(self._exchange.empty_head())
            else:
                # Without an id: there is nothing to come back for.
                self._log = None
                await self._write(await self._commit(), last=True)

    async def commit(self, replay: bytes = b"") -> None:
        """Makes it a stream, if the client takes one and it is not answered yet.

        Args:
            replay: What is written before all else.
        """
        if self.may_stream and not self.committed:
            async with self._joined().alone():
                await self._become_stream(replay)

    async def keep_alive(self, response: Response) -> None:
        """Writes a comment to a silent stream."""
        async with self._joined().alone():
            await response.write(_COMMENT)

    # --- connections come and go -----------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether there is a client at the other end, for all that is known."""
        return self.response is not None and not self.response.lost

    def left(self, response: Response) -> None:
        """The client of a response has left."""
        response.lost = True
        response.abort()
        if self.response is response and self.committed:
            self.response = None

    async def release(self, retry: float) -> None:
        """Lets the connection go, where the client knows how to come back for the rest.

        Args:
            retry: Seconds after which it is told to come.
        """
        if self._log is None or not self._log.priming or not self.may_stream:
            return
        async with self._joined().alone():
            await self._become_stream()
            await self._let_go(retry)

    async def resume(self, exchange: ServerExchange, response: Response, after: int) -> bool:
        """Goes on over another connection.

        Args:
            exchange: Of the request that came for it.
            response: The new connection.
            after: The number of the last event that the client had.

        Returns:
            False when there is no such event. Then nothing was sent.

        Raises:
            StoreError: What is to be sent again cannot be read.
        """
        before = self.response
        if before is not None:
            # It may wait for a client that is here, by another connection.
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

    async def end(self, retry: float | None = None) -> None:
        """Ends a stream that owes nothing, or whose answers nobody will give any more.

        Args:
            retry: Seconds after which the client is told to come again; `None`: nothing is said.
        """
        with trio.move_on_after(_PATIENCE) as patience:
            await self._end_alone(retry)
        if patience.cancelled_caught:
            if self.response is not None:
                self.response.abort()
            await self._end_alone(retry)

    async def _end_alone(self, retry: float | None) -> None:
        async with self._joined().alone():
            if not self.over:
                primed = self._log is not None and self._log.priming
                await self._end(b"" if retry is None or not primed else self._farewell(retry))

    # --- one task at a time ----------------------------------------------------------------------------------------

    async def _hand_on(self, items: Sequence[Item]) -> None:
        if self.over:
            return
        data = b"" if self.committed else await self._commit()
        data += await self._put_down(items)
        for _, answers, _ in items:
            if answers is not None:
                self._owed.pop(answers, None)
        await self._write(data, last=not (self._owed or self._standing))

    async def _become_stream(self, replay: bytes = b"") -> None:
        if self.may_stream and not self.committed:
            await self._write(replay + await self._commit())

    async def _let_go(self, retry: float) -> None:
        response = self.response
        if self._log is not None and response is not None and not self.over:
            self.response = None
            await response.end(self._farewell(retry))

    async def _complete(self, status: int) -> None:
        """Answers in JSON."""
        self.over = True
        members = [data for data, _, _ in self._answers]
        self._answers = []
        body = b"[%b]" % b",".join(members) if self._batch else members[0]
        if self.response is not None and not self.response.lost:
            await self.response.complete(self._exchange.json_head(status, session_id=self._session_id), body)

    async def _commit(self) -> bytes:
        """Makes it a stream. Gives what is to be written first, with the answers that are there already."""
        self.committed = True
        answered, self._answers = self._answers, []
        if self.response is None or self.response.lost:
            # Nobody knows an id to come back with.
            self._log = self.response = None
        if self._log is not None:
            owed = [*self._owed, *(answers for _, answers, _ in answered if answers is not None)]
            self._number = self._log.number(standing=self._standing)
            if await self._log.begin(self._number, owed):
                self._log.live[self._number] = self
            else:
                self._log = None
        primed = self._log is not None and self._log.priming
        first = encode_event(id=event_id(self._number, 0)) if primed else b""
        return first + await self._put_down(answered) if answered else first

    async def _put_down(self, items: Sequence[Item]) -> bytes:
        """Gives the events to be written, which the log has from now on."""
        first = self._last + 1
        if self._log is not None and not await self._log.append(self._number, self._last, items):
            del self._log.live[self._number]
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
                # All of it is there: one write, and its length is known.
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
        if self._log is not None:
            self._log.live.pop(self._number, None)
        await self._close(data)

    async def _close(self, data: bytes = b"") -> None:
        response = self.response
        if response is not None:
            await response.end(data)
            if self._log is not None and not response.lost:
                await self._log.delivered(self._number)
