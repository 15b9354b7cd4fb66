"""Channels between the engine and the transports: a channel runs the handler of each request and sends its outcome.

A `Channel` is the trio part of one connection: a byte stream (`mcp_server.connection.stream_channel`), one request of
modern HTTP (`mcp_server.transports.http.modern`), or a session of legacy HTTP (`mcp_server.transports.http.session`).
They differ in where handlers run and where messages are sent. This module contains what they have in common.

Each request has one outcome: a result, an error, or nothing after a cancellation.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import attrs
import trio

from mcp_core.codec import encode
from mcp_core.engine.events import ErrorReceived, RequestReceived, ResultReceived
from mcp_core.errors import ConnectionEnded, ErrorCode, LocalProtocolError, McpError, RequestFailed
from mcp_core.field_methods import FieldRepr
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Request
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.engine.events import NotificationReceived, Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.engine.subscriptions import SubscriptionRegistry
    from mcp_core.errors import LimitExceeded
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonValue, RequestId
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.types import (
        InputRequiredResult,
        LoggingMessageNotificationParams,
        ProgressNotificationParams,
        SubscriptionFilter,
        WireObject,
    )
    from mcp_server.connection.authenticator import Identity
    from mcp_server.connection.rate_limiter import RateLimiter
    from mcp_server.stores.failures import StoreFailures

__all__ = [
    "FAILURES",
    "UNAVAILABLE",
    "Channel",
    "ClientDisconnected",
    "ClientRequests",
    "Handler",
    "NotificationTarget",
    "PendingClientRequests",
    "RequestContext",
    "Service",
    "SubscribedTarget",
    "Throttle",
    "encoded",
    "log_failure",
]

_log: Final = logging.getLogger("mcp_server")

UNAVAILABLE: Final = "a store of the server cannot be reached: try again later"
"""The message of an error response if a store fails."""

FAILURES: Final = (Exception, SystemExit)
"""Exceptions of a handler that fail only its request. `sys.exit()` ends a handler, not the server."""


class Service(Protocol):
    """The handler of requests and notifications of a channel."""

    @property
    def store_failures(self) -> StoreFailures:
        """Logs failures of stores."""

    async def answer(self, call: RequestContext) -> object:
        """Return the result of a request. Raises `RequestFailed` for an error that is sent to the client."""

    def input_required(self, call: RequestContext) -> object | None:
        """Return the outcome of a request whose handler was cancelled.

        Returns:
            The result with the input requests, an error, or `None` if the handler has no input requests. For a
            subscription, which ends only by cancellation, its result.
        """

    def notified(self, channel: Channel, event: NotificationReceived, /) -> None:
        """Handle a notification of the client."""

    def opened(self, channel: Channel, /) -> None:
        """Handle the opening of a legacy session."""

    def connected(self, target: SubscribedTarget, /) -> None:
        """Start to send change notifications to a target."""

    def disconnected(self, target: SubscribedTarget, /) -> None:
        """Stop sending change notifications to a target."""


class NotificationTarget(Protocol):
    """A target of change notifications: a byte stream, a legacy session, or one subscription of modern HTTP."""

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "", /) -> None:
        """Notify the client of a change, if it is subscribed. Does not block.

        A notification says that something changed, not how often. While a notification is queued, the same
        notification is not queued again.

        Args:
            definition: The notification.
            params: Its parameters.
            key: Distinguishes notifications of the same method: the URI of a resource.
        """

    def missed(self) -> int:
        """Notify the client of all that may have changed: changes may have been lost. Does not block.

        Returns:
            The number of notifications.
        """


class SubscribedTarget(NotificationTarget, Protocol):
    """A target with the subscriptions of its client, by which an index finds the targets of a change."""

    @property
    def subscription_registry(self) -> SubscriptionRegistry:
        """The subscriptions of the client."""


class ClientRequests(Protocol):
    """Sender of the client requests of one inbound request."""

    async def request(self, definition: RequestMethod[object, object], params: WireObject, key: str | None) -> object:
        """Send a client request and return an instance of `row.result`. `key`: its key in `inputRequests`."""

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """Return the result of a function that runs once per request, for any number of round trips."""

    def result(self) -> InputRequiredResult | RequestFailed | None:
        """Return the outcome of a handler that ended with client requests; `None` if it has none."""

    def plan(self) -> JsonValue:
        """Return the value that `keep_plan` stored in an earlier round trip; `None` if it stored nothing."""

    def keep_plan(self, plan: JsonValue) -> None:
        """Store a value for the next round trip."""

    def answered(self, definition: RequestMethod[object, object], key: str) -> object | None:
        """Return the input response with this key as an instance of `row.result`; `None` if the client sent none."""


class Throttle(Protocol):
    """Sender of the progress and the log messages of one request, at a limited rate."""

    async def progress(self, said: ProgressNotificationParams) -> None:
        """Report progress, now or later."""

    async def log(self, said: LoggingMessageNotificationParams) -> None:
        """Send a log message, if its level and the rate allow it."""

    async def flush(self) -> None:
        """Send delayed messages, before the response."""


@attrs.define(eq=False, repr=False)
class RequestContext(FieldRepr):
    """The context of one inbound request."""

    request: RequestReceived
    """The request."""
    channel: Channel
    """The channel that received the request."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """The cancel scope of the handler. Cancelled when the client cancels the request."""
    client_requests: ClientRequests | None = None
    """Sends client requests of the handler; created with the context of the handler."""
    begin_task: Callable[[RequestContext], Awaitable[None]] | None = None
    """Ends the handler and creates a task that runs it again; `None` if the request cannot become a task."""
    start_task: Callable[[], object] | None = None
    """Starts the task that the handler has begun, and returns the result of the request."""
    task: str | None = None
    """The id of the task that the request runs for."""
    throttle: Throttle | None = None
    """Limits the rate of progress and log messages; created at the first of them."""
    pending_client_requests: int = 0
    """Number of responses of the client that the handler waits for (legacy)."""
    http: HttpRequest | None = None
    """The HTTP request that contained the request; `None` for a byte stream."""
    size: int = 0
    """Size that counts against `Limits.waiting_bytes` while the request is queued, in bytes."""
    identity: Identity | None = None
    """The identity of the sender; `None` for a byte stream."""
    charge: MemoryCharge | None = None
    """Its memory, if the request outlives the HTTP request that contained it."""
    dropped: LimitExceeded | None = None
    """The limit for which the request was evicted after its client had disconnected."""
    unavailable: str = ""
    """The message of the error, if a store that the request needs cannot be reached: HTTP has a status for it."""


Handler: TypeAlias = "Callable[[RequestContext], Awaitable[object]]"
"""Handler of a method: returns the result, as an instance of its class or in wire form, or raises `RequestFailed`."""


class Channel(ABC):
    """The trio part of one connection.

    Args:
        service: Handles requests and notifications.
        connection: The engine.
        principal: `Principal.key` of the authenticated client; `None` for an anonymous client.
    """

    __slots__ = ("_service", "connection", "log_limiter", "principal", "tasks")

    def __init__(self, service: Service, connection: ServerConnection, principal: str | None) -> None:
        self.connection: Final = connection
        self.principal: Final = principal
        self.log_limiter: RateLimiter | None = None
        self.tasks: dict[str, None] | None = None
        self._service: Final = service

    def hand_over(self, successor: Channel) -> None:
        """Move the tasks and the limit of log messages to another channel, which serves the handlers that still run."""
        successor.tasks, self.tasks = self.tasks, None
        successor.log_limiter, self.log_limiter = self.log_limiter, None

    # --- for handlers ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def send(self, outgoing: Outgoing | None) -> None:
        """Send the message that a command of the engine returned. Waits while the client reads slowly."""

    @abstractmethod
    async def request_client(
        self, definition: RequestMethod[object, object], params: object, call: RequestContext
    ) -> object:
        """Send a client request and wait for its response (legacy).

        Args:
            definition: The method.
            params: Its parameters.
            call: The inbound request that the client request belongs to.

        Returns:
            The result.

        Raises:
            RequestFailed: The client responded with an error, or did not declare the capability.
            RemoteProtocolError: The response violates the protocol.
            LocalProtocolError: The revision or the state of the session does not allow the request.
            ConnectionEnded: The client disconnected.
        """

    @abstractmethod
    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:
        """Open a subscription and send its notifications until the scope of the request is cancelled.

        Returns earlier only if the subscription continues without the handler. Its request then gets a response when
        the subscription ends.

        Args:
            call: The listen request.
            wanted: The notifications that may be granted.
        """

    async def release_stream(self, call: RequestContext) -> None:  # noqa: ARG002  # a byte stream is never released
        """Release the stream of the response to `call`, if the client can resume the stream later."""
        await trio.lowlevel.checkpoint()

    @property
    def session_target(self) -> NotificationTarget:
        """The target of notifications that concern the legacy session alone, such as the status of its tasks."""
        raise LocalProtocolError("no legacy session is open on this connection")

    @property
    def session_id(self) -> str | None:
        """The id of the legacy session that other workers can serve; `None` without one."""
        return None

    # --- for subclasses --------------------------------------------------------------------------------------------

    async def _run(self, call: RequestContext) -> Outgoing | None:
        """Run the handler of a request.

        Returns:
            The message to send: the result or the error. `None` after a cancellation.
        """
        outcome: object = None
        with call.scope:
            outcome = await self._outcome(call)
        if call.scope.cancelled_caught:
            # Cancelled by the client, or by the handler itself: its input request is answered in the next round trip.
            if call.dropped is None:
                outcome = self._service.input_required(call)
            else:
                outcome = RequestFailed(f"request evicted after its client disconnected: {call.dropped.message}")
        if outcome is None:
            return None
        if call.throttle is not None:
            await call.throttle.flush()
        # If the session ended while the handler ran, the request has a channel that sends nothing.
        return call.channel._finish(call.request.id, outcome)  # noqa: SLF001  # of the same class

    async def _outcome(self, call: RequestContext) -> object:
        """Return the result of the handler, or the error to send."""
        try:
            return await self._service.answer(call)
        except RequestFailed as failure:
            return failure
        except StoreError as error:
            self._service.store_failures.failed(f"{call.request.method} fails", error)
            call.unavailable = UNAVAILABLE
            return RequestFailed(UNAVAILABLE, code=ErrorCode.INTERNAL_ERROR)
        except FAILURES as error:  # the one place where a handler is called: logged, and reported without details
            return self._internal(call, error)
        except BaseExceptionGroup as group:
            failed, rest = group.split(FAILURES)
            outcome = None if failed is None else self._internal(call, failed)
            if rest is None:
                return outcome
            # The handler was cancelled while one of its tasks failed. Only the cancellation propagates.
            raise rest from None

    def _internal(self, call: RequestContext, error: BaseException) -> RequestFailed:
        log_failure(f"the handler of {call.request.method}", call, error)
        return RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)

    def _finish(self, id: RequestId, outcome: object) -> Outgoing | None:
        if isinstance(outcome, RequestFailed):
            return self.connection.fail(id, outcome)
        try:
            return self.connection.respond(id, outcome)
        except RequestFailed as failure:
            # The result contains an input request for which the client did not declare the capability.
            return self.connection.fail(id, failure)
        except McpError:
            # The result cannot be encoded in the revision of the client, or in any revision.
            _log.exception("result cannot be sent: request=%r", id)
            return self.connection.fail(id, RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR))


class ClientDisconnected(ConnectionEnded):
    """The client disconnected while a handler waited for its response."""


def log_failure(what: str, call: RequestContext, error: BaseException) -> None:
    """Log the failure of a handler. A client that disconnected is logged at the debug level only.

    Args:
        what: The function that failed, as text.
        call: The request.
        error: The exception.
    """
    rest = error.split(ClientDisconnected)[1] if isinstance(error, BaseExceptionGroup) else error
    if rest is None or isinstance(rest, ClientDisconnected):
        _log.debug("%s ended: client disconnected: request=%r", what, call.request.id)
    else:
        _log.error("%s failed: request=%r", what, call.request.id, exc_info=error)


@attrs.define(eq=False, repr=False)
class _Waiter(FieldRepr):
    """A task that waits for the response to a client request."""

    done: trio.Event = attrs.field(factory=trio.Event)
    outcome: ResultReceived | ErrorReceived | str = ""
    """The response, or the reason why it will not arrive."""


class PendingClientRequests:
    """The pending client requests of a connection, and the tasks that wait for their responses (legacy).

    Args:
        connection: The engine of the connection.
        give_up: Sends the cancellation of a client request, without waiting.
    """

    __slots__ = ("_connection", "_give_up", "_waiting")

    def __init__(self, connection: ServerConnection, give_up: Callable[[Outgoing, RequestContext], None]) -> None:
        self._connection: Final = connection
        self._give_up: Final = give_up
        self._waiting: dict[RequestId, _Waiter] = {}

    async def request(
        self,
        definition: RequestMethod[object, object],
        params: object,
        call: RequestContext,
        send: Callable[[Outgoing], Awaitable[None]],
        wait: Callable[[trio.Event, RequestContext], Awaitable[None]] | None = None,
    ) -> object:
        """Send a client request and wait for its response, as in `Channel.ask`.

        Args:
            definition: The method.
            params: Its parameters.
            call: The inbound request that the client request belongs to.
            send: Sends the request.
            wait: Waits for the event that the response arrived, or raises `ConnectionEnded`; `None` waits without a
                limit.
        """
        outgoing = self._connection.request(definition, params, for_request=call.request.id)
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
        if isinstance(waiter.outcome, ResultReceived):
            return waiter.outcome.result
        if isinstance(waiter.outcome, ErrorReceived):
            raise waiter.outcome.error
        self._connection.forget(id)
        why = waiter.outcome or "the client disconnected"
        raise ClientDisconnected(f"{why} before the response to {definition.name} arrived")

    def settle(self, event: ResultReceived | ErrorReceived) -> None:
        """Complete a client request: its response arrived."""
        waiter = self._waiting.pop(event.id, None)
        if waiter is not None:
            waiter.outcome = event
            waiter.done.set()

    def fail(self, id: RequestId) -> bool:
        """Fail a client request that could not be sent. Return whether it is pending."""
        waiter = self._waiting.pop(id, None)
        if waiter is None:
            return False
        waiter.outcome = "the client disconnected"
        waiter.done.set()
        return True

    def __len__(self) -> int:
        """Return the number of pending client requests."""
        return len(self._waiting)

    def end(self, why: str = "the client disconnected") -> None:
        """Fail all pending client requests, because no response can arrive. `why` begins the error message."""
        for waiter in self._waiting.values():
            waiter.outcome = why
            waiter.done.set()
        self._waiting.clear()


def encoded(answer: Answer, *, null_id: bool = False) -> tuple[Answer, bytes]:
    """Return a response and its bytes, or an error response if JSON cannot encode it. `null_id`: see `encode`."""
    try:
        return answer, encode(answer, null_id=null_id)
    except LocalProtocolError:
        # JSON cannot encode the result (for example a lone surrogate). Nothing was sent, so an error can be sent.
        _log.exception("result cannot be sent: request=%r", answer.id)
        error = ErrorResponse(answer.id, ErrorObject(int(ErrorCode.INTERNAL_ERROR), "Internal error"))
        return error, encode(error, null_id=False)
