"""Answering requests, whatever they come by: the handler is run, and its outcome becomes what is sent.

A `Line` is the trio side of one connection: a pipe (`mcp_server.connection.stream_channel`), one exchange of modern HTTP
(`mcp_server.transports.http.modern`), a session of legacy HTTP (`mcp_server.transports.http.session`). They differ in where handlers run
and where messages go; what is the same for all of them is here.

Whatever a handler does, its request gets one outcome: a result, an error, or nothing after a cancellation.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_core.engine.events import AnswerReceived, FailureReceived, RequestReceived
from mcp_core.errors import ConnectionEnded, ErrorCode, LocalProtocolError, McpError, RequestFailed
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.engine.events import NotificationReceived, Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.errors import LimitExceeded
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.types import SubscriptionFilter
    from mcp_server.connection.authenticator import Identity
    from mcp_server.connection.client_requests import Asking
    from mcp_server.connection.throttle import Allowance, Pace
    from mcp_server.features.tasks.execution import TaskRun
    from mcp_server.features.tasks.promotion import Deferred

__all__ = ["FAILURES", "Audience", "Call", "ClientLeft", "Line", "Questions", "Service", "encoded", "log_failure"]

_log: Final = logging.getLogger("mcp_server")

FAILURES: Final = (Exception, SystemExit)
"""What a handler may raise without harm to others: `sys.exit()` ends a handler, and not the server."""


class Service(Protocol):
    """What stands behind a line."""

    async def answer(self, call: Call) -> object:
        """The result of a request. Raises `RequestFailed` for an error that the peer shall see."""

    def input_required(self, call: Call) -> object | None:
        """The handler's scope was cancelled: the result with its questions, an error, or `None` if it had none.

        The result of a subscription, whose handler ends in no other way.
        """

    def notified(self, line: Line, event: NotificationReceived, /) -> None:
        """The peer told something."""

    def opened(self, line: Line, /) -> None:
        """A legacy session is open."""

    def connected(self, audience: Audience, /) -> None:
        """It is told of changes from here on."""

    def disconnected(self, audience: Audience, /) -> None:
        """It no longer is."""


class Audience(Protocol):
    """Whom changes are told: a pipe, a legacy session, one subscription of modern HTTP."""

    def publish(self, row: NotificationRow[object], params: object, key: str = "", /) -> None:
        """Tells the client of a change, if it wants to know. Never waits.

        A notice says that something changed, not how often: as long as one is waiting to be sent, the same notice is
        not put down again. `key` tells notices of the same kind apart: the URI of a resource.
        """


@attrs.define(eq=False)
class Call:
    """One request that is being answered."""

    request: RequestReceived
    """What is asked."""
    link: Line
    """Where it came from."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """What its handler runs in. Cancelled when the client cancels the request."""
    asking: Asking | None = None
    """How its handler asks the client, once it may want to."""
    deferred: Deferred | None = None
    """Makes it a task, when its handler wants that."""
    task: TaskRun | None = None
    """The task that it is the work of."""
    pace: Pace | None = None
    """How fast its handler tells the client something, once it does."""
    questions: int = 0
    """How many answers of the client its handler waits for (legacy)."""
    http: HttpRequest | None = None
    """The HTTP request that it came in; `None` for a pipe."""
    size: int = 0
    """What it counts for while it waits for others to end, in bytes."""
    identity: Identity | None = None
    """Who sent it; `None` for a pipe."""
    charge: MemoryCharge | None = None
    """Its memory, where it outlives what it came in."""
    dropped: LimitExceeded | None = None
    """Why it was ended to make room for others, after its client had left."""


class Line(ABC):
    """The trio side of one connection.

    Args:
        service: Answers requests.
        connection: The engine.
        principal: Who the peer was established to be, by `Principal.key`; `None` where nobody is told apart.
    """

    __slots__ = ("_service", "connection", "log_allowance", "principal", "tasks")

    def __init__(self, service: Service, connection: ServerConnection, principal: str | None) -> None:
        self.connection: Final = connection
        self.principal: Final = principal
        self.log_allowance: Allowance | None = None
        self.tasks: dict[str, None] | None = None
        self._service: Final = service

    # --- for handlers ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def send(self, outgoing: Outgoing | None) -> None:
        """Sends what a command of the engine returned. Waits while the peer is slow."""

    @abstractmethod
    async def ask(self, row: Method[object, object], params: object, call: Call) -> object:
        """Sends the client a request and waits for its answer (legacy).

        Args:
            row: The method.
            params: Its parameters.
            call: The client's request that it is about.

        Returns:
            The result.

        Raises:
            RequestFailed: The client answered with an error, or did not declare the capability.
            RemoteProtocolError: Its answer breaks the rules.
            LocalProtocolError: The revision or the state forbids it.
            ConnectionEnded: The client is gone.
        """

    @abstractmethod
    async def listen(self, call: Call, wanted: SubscriptionFilter) -> None:
        """Begins a subscription, and tells what is published until its scope is cancelled.

        Returns before only where the subscription goes on by itself; then the request is answered at its end.

        Args:
            call: The listen request.
            wanted: What to grant at most.
        """

    async def release_stream(self, call: Call) -> None:  # noqa: ARG002  # a pipe has none
        """Lets the connection go that the answer to `call` was to come by, where the client can come back for it."""
        await trio.lowlevel.checkpoint()

    @property
    def session_audience(self) -> Audience:
        """The target of notifications that concern the legacy session alone, such as the status of its tasks."""
        raise LocalProtocolError("no legacy session is open on this connection")

    # --- for those who run calls -----------------------------------------------------------------------------------

    async def _run(self, call: Call) -> Outgoing | None:
        """Runs the handler.

        Returns:
            What to send: the result, or the error. `None` after a cancellation.
        """
        outcome: object = None
        with call.scope:
            outcome = await self._outcome(call)
        if call.scope.cancelled_caught:
            # By the client, or by the handler itself: it has a question that only the next round can answer.
            if call.dropped is None:
                outcome = self._service.input_required(call)
            else:
                outcome = RequestFailed(f"ended, since its client had left: {call.dropped.message}")
        if outcome is None:
            return None
        if call.pace is not None:
            await call.pace.flush()
        # A session that ended while the handler ran has another line, on which nothing is sent.
        return call.link._finish(call.request.id, outcome)  # noqa: SLF001  # of the same class

    async def _outcome(self, call: Call) -> object:
        """The result of the handler, or the error to be sent."""
        try:
            return await self._service.answer(call)
        except RequestFailed as failure:
            return failure
        except FAILURES as error:  # the one place where a handler is called: logged, and told in general
            return self._internal(call, error)
        except BaseExceptionGroup as group:
            failed, rest = group.split(FAILURES)
            outcome = None if failed is None else self._internal(call, failed)
            if rest is None:
                return outcome
            # Cancelled, and meanwhile one of its tasks failed. Only the cancellation is anybody else's affair.
            raise rest from None

    def _internal(self, call: Call, error: BaseException) -> RequestFailed:
        log_failure(f"the handler of {call.request.method}", call, error)
        return RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)

    def _finish(self, id: RequestId, outcome: object) -> Outgoing | None:
        if isinstance(outcome, RequestFailed):
            return self.connection.fail(id, outcome)
        try:
            return self.connection.respond(id, outcome)
        except RequestFailed as failure:
            # A question in the result that the client did not declare to answer.
            return self.connection.fail(id, failure)
        except McpError:
            # The handler's result cannot be said in the peer's revision, or at all.
            _log.exception("the result of request %r cannot be sent", id)
            return self.connection.fail(id, RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR))


class ClientLeft(ConnectionEnded):
    """The client went away while a handler waited for its answer."""


def log_failure(what: str, call: Call, error: BaseException) -> None:
    """Puts down that a handler failed. That its client left is nobody's fault, and nobody is there to be told.

    Args:
        what: What failed.
        call: What it was called for.
        error: Why.
    """
    rest = error.split(ClientLeft)[1] if isinstance(error, BaseExceptionGroup) else error
    if rest is None or isinstance(rest, ClientLeft):
        _log.debug("%s ended: the client has left (request %r)", what, call.request.id)
    else:
        _log.error("%s failed (request %r)", what, call.request.id, exc_info=error)


@attrs.define(eq=False)
class _Waiter:
    """A task that waits for the answer to a request of ours."""

    done: trio.Event = attrs.field(factory=trio.Event)
    outcome: AnswerReceived | FailureReceived | str = ""
    """The answer, or why none will come."""


class Questions:
    """Our requests to the client, and the tasks that wait for the answers (legacy).

    Args:
        connection: The engine that the requests are of.
        give_up: Sends, without waiting, that an answer is no longer wanted.
    """

    __slots__ = ("_connection", "_give_up", "_waiting")

    def __init__(self, connection: ServerConnection, give_up: Callable[[Outgoing, Call], None]) -> None:
        self._connection: Final = connection
        self._give_up: Final = give_up
        self._waiting: dict[RequestId, _Waiter] = {}

    async def ask(
        self,
        row: Method[object, object],
        params: object,
        call: Call,
        send: Callable[[Outgoing], Awaitable[None]],
        wait: Callable[[trio.Event, Call], Awaitable[None]] | None = None,
    ) -> object:
        """Asks. See `Line.ask`.

        Args:
            row: The method.
            params: Its parameters.
            call: The client's request that it is about.
            send: Sends the request.
            wait: Waits for the event that an answer came, or gives up; `None`: waits as long as it takes.
        """
        outgoing = self._connection.ask(row, params, for_request=call.request.id)
        id = outgoing.message.id if isinstance(outgoing.message, Request) else 0
        waiter = self._waiting[id] = _Waiter()
        try:
            await send(outgoing)
            if wait is None:
                await waiter.done.wait()
            else:
                await wait(waiter.done, call)
        except ConnectionEnded:
            self._connection.forget(id)
            raise
        except trio.Cancelled:
            cancellation = self._connection.cancel(id, "no longer needed")
            if cancellation is not None:
                self._give_up(cancellation, call)
            raise
        finally:
            self._waiting.pop(id, None)
        if isinstance(waiter.outcome, AnswerReceived):
            return waiter.outcome.result
        if isinstance(waiter.outcome, FailureReceived):
            raise waiter.outcome.error
        self._connection.forget(id)
        why = waiter.outcome or "the client went away"
        raise ClientLeft(f"{why} before {row.name} was answered")

    def settle(self, event: AnswerReceived | FailureReceived) -> None:
        """An answer came."""
        waiter = self._waiting.pop(event.id, None)
        if waiter is not None:
            waiter.outcome = event
            waiter.done.set()

    def __len__(self) -> int:
        """How many answers are waited for."""
        return len(self._waiting)

    def end(self, why: str = "the client went away") -> None:
        """Fail all that wait, since no answer comes any more. `why` begins the message of the error."""
        for waiter in self._waiting.values():
            waiter.outcome = why
            waiter.done.set()
        self._waiting.clear()


def encoded(answer: Answer, *, null_id: bool = False) -> tuple[Answer, bytes]:
    """Return an answer and its bytes; of another one, an error, where JSON cannot say it. `null_id`: see `encode`."""
    try:
        return answer, encode(answer, null_id=null_id)
    except LocalProtocolError:
        # JSON cannot say it, as half of a surrogate pair. Nothing was sent, so that the error can be.
        _log.exception("the result of request %r cannot be sent", answer.id)
        error = ErrorResponse(answer.id, ErrorObject(int(ErrorCode.INTERNAL_ERROR), "Internal error"))
        return error, encode(error, null_id=False)
