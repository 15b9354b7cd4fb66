"""One end of a connection: what both sides have in common.

A connection is one process over stdio, one session over legacy HTTP, or one HTTP request with its response over modern
HTTP. `receive` accepts decoded messages one by one. It returns an event for the application and a reply to send.
Commands return the messages to send. The connection does not buffer messages, so it has no queue to drain.

An invalid request from the peer is rejected with the matching error code. Other deviations are recorded and tolerated.
No message from a peer makes `receive` raise an exception. An invalid command of the caller raises
`LocalProtocolError`, and nothing is sent.

*Requests in flight.* `OutboundRequest` is an outbound request without a response, `InboundRequest` an inbound one:

- each outbound request ends exactly once: with a result, with an error, by cancellation or by being abandoned;
- nothing is sent for an inbound request after its cancellation;
- progress is accepted only for tokens of pending requests, and only if it increases.

*Races of a cancellation.* A response that crosses this side's cancellation is dropped and recorded as a deviation. A
cancellation that crosses this side's response is dropped without a record, as the specification requires.

Spec: basic/utilities/cancellation, basic/utilities/progress.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared
from mcp_core.engine.events import (
    AbandonedRequests,
    CancelReceived,
    ClientPeer,
    ErrorReceived,
    MessageIgnored,
    NotificationReceived,
    Outgoing,
    ProgressReceived,
    ReceiveResult,
    RequestHandled,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.lifecycle import Kind, Lifecycle, State, Violation
from mcp_core.engine.results import CONDITIONAL_RESULTS, allowed_results, code_for, undeclared_need
from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    LocalProtocolError,
    MissingRequiredClientCapability,
    RemoteProtocolError,
    RequestFailed,
    request_failed,
)
from mcp_core.excerpts import quoted, shown
from mcp_core.field_methods import FieldRepr
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request, ResultResponse
from mcp_core.methods import (
    INITIALIZE,
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    SUBSCRIPTIONS_LISTEN,
    TASKS_RESULT,
    Side,
    methods,
    notifications,
)
from mcp_core.revisions import LATEST_LEGACY
from mcp_core.types import (
    CancelledNotificationParams,
    InputRequiredResult,
    ProgressNotificationParams,
    Result,
    WireObject,
)
from mcp_core.types.meta import PROGRESS_TOKEN, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.engine.events import Event, Peer
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Message, RequestId
    from mcp_core.limits import Limits
    from mcp_core.methods import Alias, CapabilityPath, NotificationMethod, RequestMethod
    from mcp_core.revisions import Era, Revision
    from mcp_core.types import ClientCapabilities, ServerCapabilities

__all__ = [
    "Connection",
    "Extensions",
    "InboundRequest",
    "InboundRequests",
    "OutboundRequest",
    "OutboundRequests",
    "advance",
]

_CANCELLED_REMEMBERED: Final = 256
"""The number of remembered cancelled ids: a late response is expected, a response with an unknown id is a deviation."""


@attrs.define(eq=False, repr=False)
class OutboundRequest(FieldRepr):
    """An outbound request without a response."""

    id: RequestId
    definition: RequestMethod[object, object]
    revision: Revision
    result: type
    """The class of the expected result."""
    token: RequestId | None = None
    """The progress token, if progress was requested."""
    augmented: bool = False
    """Whether the request is task-augmented (2025-11-25), so that `tasks/cancel` cancels it."""
    progress: float | None = None
    """The last progress value received."""


@attrs.define(eq=False, repr=False)
class InboundRequest(FieldRepr):
    """An inbound request without a response."""

    id: RequestId
    definition: RequestMethod[object, object]
    params: object
    peer: Peer
    token: RequestId | None = None
    """The progress token, if progress was requested."""
    progress: float | None = None
    """The last progress value sent."""
    cancelled: bool = False
    """Whether the peer cancelled the request. Nothing may be sent for a cancelled request."""
    acknowledged: bool = False
    """Whether the request is a `subscriptions/listen` that was acknowledged."""
    abandoned: bool = False
    """Whether the session of the request has ended. The id of an abandoned request may be reused."""


@attrs.define(eq=False, repr=False)
class OutboundRequests(FieldRepr):
    """The outbound requests of a connection."""

    open: dict[RequestId, OutboundRequest] = attrs.field(factory=dict)
    _last: int = 0
    _cancelled: dict[RequestId, None] = attrs.field(factory=dict)
    _last_ended: int = 0
    """The last id that was assigned before the current session started."""

    def begin(
        self,
        definition: RequestMethod[object, object],
        revision: Revision,
        result: type,
        *,
        progress: bool,
        augmented: bool,
    ) -> OutboundRequest:
        """Add a request with an id that was never used on this connection. Its progress token is the same number."""
        self._last += 1
        outbound = OutboundRequest(
            self._last, definition, revision, result, self._last if progress else None, augmented
        )
        self.open[outbound.id] = outbound
        return outbound

    def start_after(self, last: int) -> None:
        """Assign ids greater than `last`, or greater than those assigned before, to later requests."""
        self._last = max(self._last, last)

    def find(self, id: RequestId | None) -> tuple[OutboundRequest | None, str | None]:
        """Find the request that a response with `id` belongs to.

        Deployed peers return `"1"` for 1 or the reverse, and errors with `id: null`. The first is matched by the other
        form of the id. The second is matched if exactly one request is pending.

        Returns:
            The request, or `None` if there is no match; and the deviation, or `None` if the id matched exactly.
        """
        if id is None:
            if len(self.open) == 1:
                return next(iter(self.open.values())), "the error has no id: matched to the only pending request"
            return None, "an error without an id matches no pending request"
        if (outbound := self.open.get(id)) is not None:
            return outbound, None
        other = _other_form(id)
        if other is not None and (outbound := self.open.get(other)) is not None:
            return outbound, f"the response has the id {quoted(id)}, but {other!r} was sent"
        if id in self._cancelled or (other is not None and other in self._cancelled):
            return None, "the response crossed the cancellation of its request"
        if any(isinstance(form, int) and 0 < form <= self._last_ended for form in (id, other)):
            return None, "a response to a request of a session that has ended"
        return None, f"a response with the unknown id {quoted(id)}"

    def settle(self, outbound: OutboundRequest) -> None:
        """Remove the request from the table: the peer has responded."""
        del self.open[outbound.id]

    def cancel(self, id: RequestId) -> OutboundRequest | None:
        """Remove the request and remember its id, so that a late response is expected. Return `None` if unknown."""
        outbound = self.open.pop(id, None)
        if outbound is not None:
            self._cancelled[id] = None
            if len(self._cancelled) > _CANCELLED_REMEMBERED:
                del self._cancelled[next(iter(self._cancelled))]
        return outbound

    def split(self) -> OutboundRequests:
        """Move the pending requests to a new table, because their session has ended. New ids continue the sequence."""
        ended = OutboundRequests(self.open)
        self.open = {}
        self._cancelled.clear()
        self._last_ended = self._last
        return ended

    def with_token(self, token: RequestId) -> tuple[OutboundRequest | None, str | None]:
        """Find the pending request with a progress token, and the deviation. Deployed peers return `"2"` for 2."""
        for form in (token, _other_form(token)):
            outbound = self.open.get(form) if form is not None else None
            if outbound is not None and outbound.token is not None:
                return (
                    outbound,
                    None if form == token else f"the progress token is {quoted(token)}, but {form!r} was sent",
                )
        return None, None


@attrs.define(eq=False, repr=False)
class InboundRequests(FieldRepr):
    """The inbound requests of a connection."""

    open: dict[RequestId, InboundRequest] = attrs.field(factory=dict)
    id_types: set[type] = attrs.field(factory=set)
    """The types of the ids of all requests of the peer, also of rejected ones: `int`, `str` or both."""

    def accept(self, inbound: InboundRequest) -> None:
        """Add a request. Raises `Violation` if its id is in use."""
        known = self.open.get(inbound.id)
        if known is not None and not known.abandoned:
            raise Violation(f"the request id {quoted(inbound.id)} is already in use", anchor="basic#requests")
        self.open[inbound.id] = inbound

    def get(self, id: RequestId) -> InboundRequest:
        """Return the pending request with this id. Raises `LocalProtocolError` for an unknown id."""
        inbound = self.open.get(id)
        if inbound is None:
            raise LocalProtocolError(f"no pending inbound request has the id {id!r}", anchor="basic#responses")
        return inbound

    def settle(self, id: RequestId) -> InboundRequest:
        """Remove the request: the response is ready, or its handler has ended after a cancellation."""
        inbound = self.get(id)
        del self.open[id]
        return inbound

    def cancel(self, id: RequestId) -> InboundRequest | None:
        """Mark the request as cancelled by the peer. Return `None` if it is unknown, completed or already cancelled.

        Deployed peers cancel `"1"` for 1 or the reverse. The other form of the id is tried only if no request had an id
        of the same type. Otherwise the cancellation may have crossed the response to such a request.
        """
        inbound = self.open.get(id)
        if inbound is None and type(id) not in self.id_types:
            other = _other_form(id)
            inbound = self.open.get(other) if other is not None else None
        if inbound is None or inbound.cancelled:
            return None
        inbound.cancelled = True
        return inbound

    def split(self, era: Era) -> InboundRequests:
        """Move the requests of an era to a new table. Their ids may be reused."""
        ended = InboundRequests({id: inbound for id, inbound in self.open.items() if inbound.peer.revision.era is era})
        for id in ended.open:
            del self.open[id]
        return ended

    def abandon(self) -> None:
        """Abandon all requests: their session has ended. Nothing is sent for them, and their ids may be reused."""
        for inbound in self.open.values():
            inbound.cancelled = inbound.abandoned = True


def advance(request: OutboundRequest | InboundRequest, progress: float) -> bool:
    """Record a progress value. Return `False` and change nothing if the value does not increase."""
    if request.progress is not None and progress <= request.progress:
        return False
    request.progress = progress
    return True


def _other_form(id: RequestId) -> RequestId | None:
    """Return the same id in the other JSON type, or `None`: `"1"` for 1, 1 for `"1"`."""
    if isinstance(id, int):
        return str(id)
    # This side's ids are short, so a longer text matches none. `int` raises for texts of more than a few thousand
    # digits.
    return int(id) if id.isascii() and id.isdigit() and len(id) < 20 and str(int(id)) == id else None


_NO_PARAMS: Final[JsonObject] = {}
_PEER: Final = {Side.CLIENT: Side.SERVER, Side.SERVER: Side.CLIENT}
_OVER: Final = "the connection has closed"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Extensions(FieldRepr):
    """Methods and notifications beyond the specification, with definitions of the same classes."""

    methods: Mapping[str, RequestMethod[object, object]] = attrs.field(factory=dict)
    """Definitions of requests, by method name."""
    notifications: Mapping[str, NotificationMethod[object]] = attrs.field(factory=dict)
    """Definitions of notifications, by method name."""


class Connection(ABC):
    """One end of a connection: the base of `ServerConnection` and `ClientConnection`."""

    role: Side
    """The side of this end."""
    capabilities: ClientCapabilities | ServerCapabilities
    """The capabilities that this side declared."""
    _aliases: ClassVar[Mapping[str, Alias]] = {}
    """The names of notifications from before the specification. Only servers sent them."""

    def __init__(self, *, revisions: tuple[Revision, ...], limits: Limits, extensions: Extensions | None) -> None:
        self.revisions: Final = revisions
        """The revisions that this side supports."""
        self.limits: Final = limits
        """The limits of this connection."""
        self._extensions = extensions or Extensions()
        self._lifecycle = Lifecycle()
        self._outbound = OutboundRequests()
        self._inbound = InboundRequests()
        self._session: Peer | None = None

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state of the legacy session; always `AWAITING` on a connection that uses modern requests only."""
        return self._lifecycle.state

    @property
    def session(self) -> Peer | None:
        """The peer of the legacy handshake; `None` before the handshake, or without one."""
        return self._session

    @property
    def outbound_requests(self) -> Mapping[RequestId, str]:
        """The pending outbound requests: method by id."""
        return {id: outbound.definition.name for id, outbound in self._outbound.open.items()}

    @property
    def inbound_requests(self) -> tuple[RequestId, ...]:
        """The ids of the pending inbound requests that are not cancelled."""
        return tuple(id for id, inbound in self._inbound.open.items() if not inbound.cancelled)

    @property
    def error_ids_are_null(self) -> bool:
        """Whether an error for a message without a readable id has `"id": null` instead of no `id` member.

        The revision of the peer decides. While the revision is unknown, the error has `"id": null`, as JSON-RPC 2.0
        (section 5) requires, unless all revisions of this side omit the member.
        """
        known = self._known_revision()
        spoken = self.revisions if known is None else (known,)
        return not all(revision.error_without_id for revision in spoken)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> ReceiveResult:
        """Receive one message of the peer.

        Invalid messages never raise an exception.

        Args:
            message: A message from `mcp_core.codec.decode`.

        Returns:
            The event for the application, and the reply to send.
        """
        if self._lifecycle.state is State.CLOSED:
            return ReceiveResult(MessageIgnored(reason=_OVER, message=message))
        if isinstance(message, Notification):
            return self._receive_notification(message)
        if not isinstance(message, Request):
            return self._receive_response(message)
        self._inbound.id_types.add(type(message.id))
        try:
            return self._accept(message)
        except Violation as violation:
            error = ErrorObject(int(violation.code), violation.message)
            reason = violation.message
        except RequestFailed as failure:
            error = ErrorObject(failure.code, failure.message, failure.data)
            reason = failure.message
        reply = Outgoing(ErrorResponse(message.id, error), message.id)
        return ReceiveResult(MessageIgnored(reason=reason, message=message), reply)

    def refuse_batch(self) -> ErrorResponse | None:
        """Check that a batch is allowed in the current session. Spec: basic#batching (2025-03-26 only)

        Returns:
            The error response for the whole batch if batches are not allowed: without a session, or in another
            revision. `None` if the caller must pass the members to `receive`, one by one (see
            `mcp_core.engine.batch.BatchReply`).
        """
        if self._session is not None and self._session.revision.batching:
            return None
        why = "before the session was opened" if self._session is None else f"in revision {self._session.revision}"
        error = ErrorObject(int(ErrorCode.INVALID_REQUEST), f"a batch is not allowed {why}")
        return ErrorResponse(None, error)

    @abstractmethod
    def _accept(self, message: Request) -> ReceiveResult:
        """Return the reaction to a request of the peer. Raises `Violation` or `RequestFailed` to reject the request."""

    def _admit(
        self, message: Request, definition: RequestMethod[object, object], peer: Peer, notes: tuple[str, ...] = ()
    ) -> RequestReceived:
        """Read the parameters of a valid request and record the request as pending."""
        raw = _NO_PARAMS if message.params is None else message.params
        try:
            params, repairs = converter(peer.revision).receive(raw, definition.params)
        except InvalidValue as bad:
            failure = RequestFailed(
                f"invalid params of {definition.name}: {bad.message}", code=ErrorCode.INVALID_PARAMS
            )
            raise failure from bad
        meta = raw.get("_meta")
        token = _as_token(meta[PROGRESS_TOKEN]) if isinstance(meta, dict) and PROGRESS_TOKEN in meta else None
        self._inbound.accept(InboundRequest(message.id, definition, params, peer, token))
        return RequestReceived(
            id=message.id,
            method=definition.name,
            definition=definition,
            params=params,
            raw=raw,
            peer=peer,
            notes=notes + repairs,
        )

    def _definition(self, message: Request, revision: Revision) -> RequestMethod[object, object]:
        """Return the definition of the request's method. Raises `RequestFailed` if the peer must not send it."""
        definition = self._method(message.method, revision)
        if definition is None or _PEER[self.role] not in definition.sender:
            raise RequestFailed(f"method not found: {shown(message.method)}", code=ErrorCode.METHOD_NOT_FOUND)
        return definition

    def _receive_notification(self, message: Notification) -> ReceiveResult:
        alias = self._aliases.get(message.method)
        name = message.method if alias is None else alias.definition.name
        notes: tuple[str, ...] = () if alias is None else (f"{message.method} was treated as {name}",)
        revision = self._notification_revision()
        definition = self._notification(name, revision)
        if definition is None or _PEER[self.role] not in definition.sender_in(revision):
            return ReceiveResult(
                MessageIgnored(reason=f"unknown notification {shown(message.method)}", message=message, notes=notes)
            )
        raw = _NO_PARAMS if message.params is None else message.params
        try:
            params, repairs = converter(revision).receive(
                raw if alias is None else alias.params(raw), definition.params
            )
            tolerated = self._lifecycle.receive(_kind_of_notification(definition)) if self._in_session() else None
        except (Violation, InvalidValue) as bad:
            # A notification has no response, not even an error (JSON-RPC 2.0 section 4.1).
            return ReceiveResult(MessageIgnored(reason=f"{name}: {bad}", message=message, notes=notes))
        notes += repairs if tolerated is None else (tolerated, *repairs)
        missing = self._undeclared(definition)
        if missing is not None:
            notes += (f"{name} requires the capability {'.'.join(missing)}, which was not declared",)
        if definition is NOTIFICATIONS_PROGRESS and isinstance(params, ProgressNotificationParams):
            return ReceiveResult(self._progressed(message, params, notes))
        if definition is NOTIFICATIONS_CANCELLED and isinstance(params, CancelledNotificationParams):
            return ReceiveResult(self._cancelled(message, params, notes))
        return self._notification_received(definition, params, raw, notes)

    def _notification_received(
        self, definition: NotificationMethod[object], params: object, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        """Handle a notification that is neither progress nor a cancellation."""
        meta = raw.get("_meta")
        subscription = _as_token(meta.get(SUBSCRIPTION_ID)) if isinstance(meta, dict) else None
        if subscription is not None and (listen := self._outbound.find(subscription)[0]) is not None:
            # The id has the JSON type in which it was sent.
            subscription = listen.id
        event = NotificationReceived(
            method=definition.name,
            definition=definition,
            params=params,
            raw=raw,
            subscription=subscription,
            notes=notes,
        )
        return ReceiveResult(event)

    def _progressed(self, message: Notification, params: ProgressNotificationParams, notes: tuple[str, ...]) -> Event:
        outbound, note = self._outbound.with_token(params.progress_token)
        if outbound is None:
            reason = f"progress for the token {quoted(params.progress_token)}, which no pending request has"
            return MessageIgnored(reason=reason, message=message, notes=notes)
        if not advance(outbound, params.progress):
            reason = f"progress {params.progress:g} after {outbound.progress:g}: it must increase"
            return MessageIgnored(reason=reason, message=message, notes=notes)
        return ProgressReceived(id=outbound.id, params=params, notes=notes if note is None else (*notes, note))

    def _cancelled(self, message: Notification, params: CancelledNotificationParams, notes: tuple[str, ...]) -> Event:
        inbound = None if params.request_id is None else self._inbound.cancel(params.request_id)
        if inbound is None:
            # Unknown, finished or malformed cancellations are ignored: they may have crossed the response.
            return MessageIgnored(reason="a cancellation of no pending request", message=message, notes=notes)
        self._over(inbound.id)
        return CancelReceived(id=inbound.id, reason=params.reason, notes=notes)

    def _receive_response(self, message: ResultResponse | ErrorResponse) -> ReceiveResult:
        outbound, note = self._outbound.find(message.id)
        notes = () if note is None else (note,)
        if outbound is None:
            return ReceiveResult(MessageIgnored(reason=note or "a response to no request", message=message))
        del self._outbound.open[outbound.id]
        if isinstance(message, ErrorResponse):
            error = request_failed(message.error.code, message.error.message, message.error.data)
            return self._error_received(outbound, error, notes)
        try:
            result, repairs = self._read_result(outbound, message.result)
        except RemoteProtocolError as bad:
            return self._error_received(outbound, bad, notes)
        return self._result_received(outbound, result, message.result, notes + repairs)

    def _read_result(self, outbound: OutboundRequest, raw: JsonObject) -> tuple[object, tuple[str, ...]]:
        """Return the result as a value. Raises `RemoteProtocolError` if the result is invalid for the method."""
        return converter(outbound.revision).receive(raw, outbound.result)

    def _result_received(
        self, outbound: OutboundRequest, result: object, raw: JsonObject, notes: tuple[str, ...]
    ) -> ReceiveResult:
        return ReceiveResult(
            ResultReceived(id=outbound.id, method=outbound.definition.name, result=result, raw=raw, notes=notes)
        )

    def _error_received(
        self, outbound: OutboundRequest, error: RemoteProtocolError | RequestFailed, notes: tuple[str, ...]
    ) -> ReceiveResult:
        return ReceiveResult(ErrorReceived(id=outbound.id, method=outbound.definition.name, error=error, notes=notes))

    # --- commands ----------------------------------------------------------------------------------------------------

    def respond(self, request: RequestId, result: object) -> Outgoing | None:
        """Return the result response to a request of the peer.

        Args:
            request: The id of the request.
            result: An instance of the method's result class, or the result in wire form, which is sent unchanged.

        Returns:
            The response, or `None` if the peer cancelled the request or the connection is closed.

        Raises:
            LocalProtocolError: There is no pending inbound request with this id, the result has the wrong class, or the
                peer's revision cannot express the result. In the last two cases, the request is still pending.
            MissingRequiredClientCapability: The result requires a capability that the client did not declare. The
                request is still pending.
            LimitExceeded: The request is `resources/subscribe`, and the subscriptions of the connection exceed
                `Limits.watched_resources`. The request is still pending.
        """
        inbound = self._inbound.get(request)
        if inbound.cancelled:
            del self._inbound.open[request]
            return None
        wire = result if isinstance(result, dict) else self._result_wire(inbound, result)
        wire = self._completed(inbound, wire)
        del self._inbound.open[request]
        return Outgoing(ResultResponse(request, wire), request)

    def fail(self, request: RequestId, error: RequestFailed) -> Outgoing | None:
        """Return an error response to a request of the peer. The code and form follow the peer's revision.

        Args:
            request: The id of the request.
            error: The error. Its code, message and data are sent to the peer.

        Returns:
            The response, or `None` if the peer cancelled the request or the connection is closed.

        Raises:
            LocalProtocolError: There is no pending inbound request with this id.
        """
        inbound = self._inbound.settle(request)
        self._over(request)
        if inbound.cancelled:
            return None
        code = code_for(error, inbound.peer.revision)
        return Outgoing(ErrorResponse(request, ErrorObject(code, error.message, error.data)), request)

    def withdraw(self, request: RequestId) -> None:
        """Remove an inbound request whose handler has ended without a response. An unknown id is ignored."""
        if self._inbound.open.pop(request, None) is not None:
            self._over(request)

    def progress(
        self, request: RequestId, progress: float, total: float | None = None, message: str | None = None
    ) -> Outgoing | None:
        """Return a progress notification for a request of the peer.

        Args:
            request: The id of the request.
            progress: The progress so far. The value must increase with each notification.
            total: The total amount of work, if known.
            message: A description of the current work, for the user.

        Returns:
            The message to send, or `None` if the peer did not request progress, cancelled the request or is
            disconnected.

        Raises:
            LocalProtocolError: There is no pending inbound request with this id, `progress` does not increase or is not
                finite, or the request is a subscription, whose stream carries only change notifications.
        """
        inbound = self._inbound.get(request)
        if inbound.definition is SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError(
                "a subscription has no progress notifications", anchor="basic/utilities/subscriptions"
            )
        if inbound.cancelled or inbound.token is None:
            return None
        if not math.isfinite(progress):
            raise LocalProtocolError(f"progress is {progress}: it must be a finite number")
        params = ProgressNotificationParams(
            progress_token=inbound.token, progress=progress, total=total, message=message
        )
        wire = converter(inbound.peer.revision).unstructure(params)
        if not advance(inbound, progress):
            raise LocalProtocolError(
                f"progress {progress:g} after {inbound.progress:g}: it must increase", anchor="basic/utilities/progress"
            )
        return Outgoing(Notification(NOTIFICATIONS_PROGRESS.name, wire), request)

    def cancel(self, request: RequestId, reason: str | None = None) -> Outgoing | None:
        """Cancel an outbound request.

        Args:
            request: The id of the request.
            reason: The reason, for the peer's log.

        Returns:
            The cancel notification, or `None` if no notification is needed: the response has arrived already, or the
            request is task-augmented, and only `tasks/cancel` cancels it.

        Raises:
            LocalProtocolError: The request is `initialize`, which must not be cancelled.
        """
        outbound = self._outbound.open.get(request)
        if outbound is None:
            return None
        if outbound.definition is INITIALIZE:
            raise LocalProtocolError(
                f"{outbound.definition.name} must not be cancelled", anchor="basic/utilities/cancellation"
            )
        self._outbound.cancel(request)
        if outbound.augmented:
            return None
        params = CancelledNotificationParams(request_id=request, reason=reason)
        return Outgoing(Notification(NOTIFICATIONS_CANCELLED.name, converter(outbound.revision).unstructure(params)))

    def forget(self, request: RequestId) -> None:
        """Abandon an outbound request without a cancel notification.

        Use it when the stream of the request is closed, or the request was never sent.
        """
        self._outbound.cancel(request)

    def end(self) -> AbandonedRequests:
        """Close the connection and abandon all pending requests. Later responses of handlers are not sent."""
        abandoned = AbandonedRequests(outbound=dict(self.outbound_requests), inbound=self.inbound_requests)
        self._outbound.open.clear()
        for request, inbound in self._inbound.open.items():
            inbound.cancelled = True
            self._over(request)
        self._lifecycle.close()
        return abandoned

    # --- for the subclasses ------------------------------------------------------------------------------------------

    def _begin_request(
        self,
        definition: RequestMethod[object, object],
        params: object,
        revision: Revision,
        *,
        meta: JsonObject | None = None,
        progress: bool = False,
    ) -> Request:
        """Build an outbound request and record it as pending."""
        wire = self._wire(params, definition.params, revision)
        # The response to a task-augmented request is the task; the client fetches the result later.
        augmented = revision.core_tasks and getattr(params, "task", None) is not None
        result = definition.task_results[revision] if augmented else definition.result
        outbound = self._outbound.begin(definition, revision, result, progress=progress, augmented=augmented)
        if meta is not None or progress:
            given = wire.get("_meta")
            joined: JsonObject = {**(given if isinstance(given, dict) else {}), **(meta or {})}
            if outbound.token is not None:
                joined[PROGRESS_TOKEN] = outbound.token
            wire["_meta"] = joined
        return Request(outbound.id, definition.name, wire)

    def _wire(self, value: object, expected: type, revision: Revision) -> JsonObject:
        """Return the wire form of a value to send. Raises `LocalProtocolError` if its class is wrong."""
        if not isinstance(value, WireObject) or not isinstance(value, expected):
            named = getattr(expected, "__name__", expected)
            raise LocalProtocolError(f"expected {named}, got {type(value).__name__}")
        return converter(revision).unstructure(value)

    def _result_wire(self, inbound: InboundRequest, result: object) -> JsonObject:
        peer = inbound.peer
        wants_task = peer.revision.core_tasks and getattr(inbound.params, "task", None) is not None
        # A side that does not offer tasks responds as if the request had no task parameter.
        as_task = wants_task and declared(self.capabilities, inbound.definition.task_capability or ())
        _check_result(inbound.definition, peer.revision, result, as_task=as_task)
        if isinstance(result, InputRequiredResult) and not result.input_requests and result.request_state is None:
            raise LocalProtocolError("an InputRequiredResult needs inputRequests or requestState")
        if isinstance(result, CONDITIONAL_RESULTS) and isinstance(peer, ClientPeer):
            missing = undeclared_need(result, peer.revision, peer.capabilities)
            if missing is not None:
                raise MissingRequiredClientCapability.of(as_object(missing), f"the result of {inbound.definition.name}")
        return converter(peer.revision).unstructure(result)  # type: ignore[arg-type]  # of a class of the method

    def _over(self, request: RequestId) -> None:  # noqa: B027  # a client has no such state
        """Release the state of an inbound request that has ended."""

    def _completed(self, inbound: InboundRequest, wire: JsonObject) -> JsonObject:  # noqa: ARG002  # the server looks at the peer
        """Update the subscriptions, and return the result with the members that the revision requires in each result."""
        return wire

    def _method(self, name: str, revision: Revision) -> RequestMethod[object, object] | None:
        definition = methods(revision).get(name)
        if definition is None:
            definition = self._extensions.methods.get(name)
        return definition if definition is not None and revision in definition.revisions else None

    def _notification(self, name: str, revision: Revision) -> NotificationMethod[object] | None:
        definition = notifications(revision).get(name)
        if definition is None:
            definition = self._extensions.notifications.get(name)
        return definition if definition is not None and revision in definition.revisions else None

    @abstractmethod
    def _undeclared(self, definition: NotificationMethod[object]) -> CapabilityPath | None:
        """Return the capability that a received notification requires and that was not declared."""

    def _notification_revision(self) -> Revision:
        """Return the revision to read a notification with. A notification does not name its revision."""
        return self._known_revision() or LATEST_LEGACY

    @abstractmethod
    def _known_revision(self) -> Revision | None:
        """Return the revision that the peer is known to use, or `None` if it is not known yet."""

    @abstractmethod
    def _in_session(self) -> bool:
        """Return whether the legacy lifecycle governs a notification."""

    def _pong(self, message: Request) -> ReceiveResult:
        """Respond to `ping`. Raises `Violation`."""
        tolerated = self._lifecycle.receive(Kind.PING)
        notes = () if tolerated is None else (tolerated,)
        reply = Outgoing(ResultResponse(message.id, {}), message.id)
        return ReceiveResult(RequestHandled(id=message.id, method=message.method, notes=notes), reply)

    def _session_peer(self, kind: Kind) -> tuple[Peer, str | None]:
        """Return the peer of the legacy session and the deviation. Raises `Violation` if there is no session yet."""
        if self._session is None:
            raise Violation(f"{kind.value} before the session was opened: send initialize first")
        return self._session, self._lifecycle.receive(kind)


def _kind_of_notification(definition: NotificationMethod[object]) -> Kind:
    if definition is NOTIFICATIONS_INITIALIZED:
        return Kind.INITIALIZED
    return Kind.LOG if definition is NOTIFICATIONS_MESSAGE else Kind.NOTIFICATION


def _as_token(value: JsonValue) -> RequestId | None:
    """Return the value if it can be a progress token or subscription id, otherwise `None`."""
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _check_result(
    definition: RequestMethod[object, object], revision: Revision, result: object, *, as_task: bool
) -> None:
    """Check that `result` has a class that the method allows.

    Args:
        definition: The definition of the method.
        revision: The revision of the request.
        result: The result.
        as_task: Whether the request is task-augmented and its receiver supports that (2025-11-25).

    Raises:
        LocalProtocolError: The class is wrong.
    """
    kind = getattr(result, "result_type", "complete")
    if as_task:
        expected: type[WireObject] | None = definition.task_results[revision]
    elif definition is TASKS_RESULT:
        # The result has the class of the request that started the task.
        expected = Result
    else:
        allowed = allowed_results(definition, revision, tasks=True)
        expected = allowed.get(kind) if revision.result_type else allowed["complete"]
    if expected is None or not isinstance(result, expected):
        raise LocalProtocolError(
            f"{definition.name} cannot return {type(result).__name__} of resultType {kind!r} in revision {revision}"
        )
