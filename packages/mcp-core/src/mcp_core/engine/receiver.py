"""Receiving, for both sides: what a message of the peer leads to.

Illegal messages are refused where they come from: a bad request is answered with the right error code, everything else
that is wrong is noted and survived. Nothing that a peer sends makes `receive` raise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.conversion import compatibility
from mcp_core.engine.events import (
    AnswerReceived,
    CancelReceived,
    FailureReceived,
    Ignored,
    NotificationReceived,
    Outgoing,
    ProgressReceived,
    Reaction,
    RequestReceived,
    Served,
)
from mcp_core.engine.in_flight import Inbound, Outbound, Owed, advance
from mcp_core.engine.lifecycle import Kind, Lifecycle, State, Violation
from mcp_core.errors import ErrorCode, InvalidValue, RemoteProtocolError, RequestFailed, request_failed
from mcp_core.excerpts import quoted, shown
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request, ResultResponse
from mcp_core.methods import (
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    Role,
    methods,
    notifications,
)
from mcp_core.revisions import LATEST_LEGACY
from mcp_core.types import CancelledNotificationParams, ProgressNotificationParams
from mcp_core.types.meta import PROGRESS_TOKEN, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.engine.events import Event, Peer
    from mcp_core.engine.in_flight import Asked
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Message, RequestId
    from mcp_core.limits import Limits
    from mcp_core.methods import Alias, CapabilityPath, Method, NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import ClientCapabilities, ServerCapabilities

__all__ = ["Extensions", "Receiving"]

_NO_PARAMS: Final[JsonObject] = {}
_PEER: Final = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}
_OVER: Final = "the connection is over"


@attrs.frozen(kw_only=True, eq=False)
class Extensions:
    """Methods and notifications beyond the specification, on the same tables as its own."""

    methods: Mapping[str, Method[object, object]] = attrs.field(factory=dict)
    """Requests by name."""
    notifications: Mapping[str, NotificationRow[object]] = attrs.field(factory=dict)
    """Notifications by name."""


class Receiving(ABC):
    """The half of a connection that takes messages. `Connection` is the whole."""

    role: Role
    """Which end this is."""
    capabilities: ClientCapabilities | ServerCapabilities
    """What this side declared."""

    def __init__(self, *, revisions: tuple[Revision, ...], limits: Limits, extensions: Extensions | None) -> None:
        self.revisions: Final = revisions
        """The revisions that this side speaks."""
        self.limits: Final = limits
        """The bounds that hold here."""
        self._extensions = extensions or Extensions()
        self._lifecycle = Lifecycle()
        self._outbound = Outbound()
        self._inbound = Inbound()
        self._session: Peer | None = None

    # --- what is known ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """How far the legacy session is; `AWAITING` for ever where only modern requests are spoken."""
        return self._lifecycle.state

    @property
    def session(self) -> Peer | None:
        """Who the handshake was made with; `None` before it, and where there is none."""
        return self._session

    @property
    def asked(self) -> Mapping[RequestId, str]:
        """Our requests that are not answered: id and method."""
        return {id: asked.row.name for id, asked in self._outbound.open.items()}

    @property
    def owed(self) -> tuple[RequestId, ...]:
        """The peer's requests that are not answered and not cancelled."""
        return tuple(id for id, owed in self._inbound.open.items() if not owed.cancelled)

    @property
    def error_ids_are_null(self) -> bool:
        """Whether an error for a message without a readable id has `"id": null`, or no `id` member.

        The revision of the peer decides. As long as it is not known, the error has null, as JSON-RPC 2.0 (section 5)
        wants it, unless all revisions of this side leave the member out.
        """
        known = self._known_revision()
        spoken = self.revisions if known is None else (known,)
        return not all(revision.error_without_id for revision in spoken)

    # --- receiving -------------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> Reaction:
        """Takes one message of the peer.

        Args:
            message: As `mcp_core.jsonrpc.codec.decode` gives it.

        Returns:
            What happened, and what has to be sent. Bad messages never raise.
        """
        if self._lifecycle.state is State.CLOSED:
            return Reaction(Ignored(reason=_OVER, message=message))
        if isinstance(message, Request):
            return self._receive_request(message)
        if isinstance(message, Notification):
            return self._receive_notification(message)
        return self._receive_response(message)

    def refuse_batch(self) -> ErrorResponse | None:
        """Whether a batch may be received now. Spec: basic#batching (2025-03-26 only)

        Returns:
            What to answer to the whole batch where none is allowed: without a session, or in another revision. `None`
            when its members shall be given to `receive`, one by one (see `mcp_core.jsonrpc.batch.BatchReply`).
        """
        if self._session is not None and self._session.revision.batching:
            return None
        why = "before the session was opened" if self._session is None else f"in revision {self._session.revision}"
        error = ErrorObject(int(ErrorCode.INVALID_REQUEST), f"a batch is not allowed {why}")
        return ErrorResponse(None, error)

    def _receive_request(self, message: Request) -> Reaction:
        try:
            return self._accept(message)
        except Violation as violation:
            error = ErrorObject(int(violation.code), violation.message)
            reason = violation.message
        except RequestFailed as failure:
            error = ErrorObject(failure.code, failure.message, failure.data)
            reason = failure.message
        reply = Outgoing(ErrorResponse(message.id, error), message.id)
        return Reaction(Ignored(reason=reason, message=message), reply)

    @abstractmethod
    def _accept(self, message: Request) -> Reaction:
        """A request of the peer. Raises `Violation` or `RequestFailed` when it is refused."""

    def _admit(
        self, message: Request, row: Method[object, object], peer: Peer, notes: tuple[str, ...] = ()
    ) -> RequestReceived:
        """Everything about the request is in order: its parameters are read and an answer is owed from here on."""
        raw = _NO_PARAMS if message.params is None else message.params
        try:
            params, repairs = compatibility.receive(peer.revision, raw, row.params)
        except InvalidValue as bad:
            failure = RequestFailed(f"invalid params of {row.name}: {bad.message}", code=ErrorCode.INVALID_PARAMS)
            raise failure from bad
        meta = raw.get("_meta")
        token = meta.get(PROGRESS_TOKEN) if isinstance(meta, dict) else None
        self._inbound.accept(Owed(message.id, row, params, peer, _as_token(token)))
        return RequestReceived(
            id=message.id, method=row.name, row=row, params=params, raw=raw, peer=peer, notes=notes + repairs
        )

    def _row(self, message: Request, revision: Revision) -> Method[object, object]:
        """What is known of the request's method. Raises `RequestFailed` when the peer may not ask that."""
        row = self._method(message.method, revision)
        if row is None or _PEER[self.role] not in row.sender:
            raise RequestFailed(f"method not found: {shown(message.method)}", code=ErrorCode.METHOD_NOT_FOUND)
        return row

    def _receive_notification(self, message: Notification) -> Reaction:
        alias = self._alias(message.method)
        name = message.method if alias is None else alias.row.name
        notes: tuple[str, ...] = () if alias is None else (f"{message.method} was taken for {name}",)
        revision = self._notification_revision()
        row = self._notification(name, revision)
        if row is None or _PEER[self.role] not in row.sender_in(revision):
            return Reaction(
                Ignored(reason=f"unknown notification {shown(message.method)}", message=message, notes=notes)
            )
        raw = _NO_PARAMS if message.params is None else message.params
        try:
            params, repairs = compatibility.receive(revision, raw if alias is None else alias.params(raw), row.params)
            tolerated = self._lifecycle.receive(_kind_of_notification(row)) if self._in_session() else None
        except (Violation, InvalidValue) as bad:
            # A notification has no answer, not even an error (JSON-RPC 2.0 section 4.1).
            return Reaction(Ignored(reason=f"{name}: {bad}", message=message, notes=notes))
        notes += repairs if tolerated is None else (tolerated, *repairs)
        missing = self._undeclared(row)
        if missing is not None:
            notes += (f"{name} needs the capability {'.'.join(missing)}, which was not declared",)
        if row is NOTIFICATIONS_PROGRESS and isinstance(params, ProgressNotificationParams):
            return Reaction(self._progressed(message, params, notes))
        if row is NOTIFICATIONS_CANCELLED and isinstance(params, CancelledNotificationParams):
            return Reaction(self._cancelled(message, params, notes))
        return self._told(row, params, raw, notes)

    def _told(self, row: NotificationRow[object], params: object, raw: JsonObject, notes: tuple[str, ...]) -> Reaction:
        """A notification that is neither progress nor a cancellation."""
        meta = raw.get("_meta")
        subscription = _as_token(meta.get(SUBSCRIPTION_ID)) if isinstance(meta, dict) else None
        if subscription is not None:
            subscription = self._own_form(subscription)
        event = NotificationReceived(
            method=row.name, row=row, params=params, raw=raw, subscription=subscription, notes=notes
        )
        return Reaction(event)

    def _progressed(self, message: Notification, params: ProgressNotificationParams, notes: tuple[str, ...]) -> Event:
        asked, note = self._outbound.with_token(params.progress_token)
        if asked is None:
            reason = f"progress for the token {quoted(params.progress_token)}, which no open request has"
            return Ignored(reason=reason, message=message, notes=notes)
        if not advance(asked, params.progress):
            reason = f"progress {params.progress:g} after {asked.progress:g}: it has to increase"
            return Ignored(reason=reason, message=message, notes=notes)
        return ProgressReceived(id=asked.id, params=params, notes=notes if note is None else (*notes, note))

    def _cancelled(self, message: Notification, params: CancelledNotificationParams, notes: tuple[str, ...]) -> Event:
        owed = None if params.request_id is None else self._inbound.cancel(params.request_id)
        if owed is None:
            # Unknown, finished or malformed cancellations are ignored: they may have crossed our answer.
            return Ignored(reason="a cancellation of no open request", message=message, notes=notes)
        return CancelReceived(id=owed.id, reason=params.reason, notes=notes)

    def _receive_response(self, message: ResultResponse | ErrorResponse) -> Reaction:
        asked, note = self._outbound.find(message.id)
        notes = () if note is None else (note,)
        if asked is None:
            return Reaction(Ignored(reason=note or "an answer to nothing", message=message))
        self._outbound.settle(asked)
        if isinstance(message, ErrorResponse):
            error = request_failed(message.error.code, message.error.message, message.error.data)
            return self._failed(asked, error, notes)
        try:
            result, repairs = self._read_result(asked, message.result)
        except RemoteProtocolError as bad:
            return self._failed(asked, bad, notes)
        return self._answered(asked, result, message.result, notes + repairs)

    def _read_result(self, asked: Asked, raw: JsonObject) -> tuple[object, tuple[str, ...]]:
        """The result as a value. Raises `RemoteProtocolError` when it is not what the method gives."""
        return compatibility.receive(asked.revision, raw, asked.result)

    def _answered(self, asked: Asked, result: object, raw: JsonObject, notes: tuple[str, ...]) -> Reaction:
        return Reaction(AnswerReceived(id=asked.id, method=asked.row.name, result=result, raw=raw, notes=notes))

    def _failed(self, asked: Asked, error: RemoteProtocolError | RequestFailed, notes: tuple[str, ...]) -> Reaction:
        return Reaction(FailureReceived(id=asked.id, method=asked.row.name, error=error, notes=notes))

    # --- for the two sides -----------------------------------------------------------------------------------------

    def _method(self, name: str, revision: Revision) -> Method[object, object] | None:
        row = methods(revision).get(name)
        if row is None:
            row = self._extensions.methods.get(name)
        return row if row is not None and revision in row.revisions else None

    def _notification(self, name: str, revision: Revision) -> NotificationRow[object] | None:
        row = notifications(revision).get(name)
        if row is None:
            row = self._extensions.notifications.get(name)
        return row if row is not None and revision in row.revisions else None

    @abstractmethod
    def _undeclared(self, row: NotificationRow[object]) -> CapabilityPath | None:
        """The capability that a received notification needs and that was not declared."""

    def _alias(self, method: str) -> Alias | None:  # noqa: ARG002  only a client knows old names
        """Return what a name from before the specification stands for, or `None`."""
        return None

    def _notification_revision(self) -> Revision:
        """Under which revision a notification is read. It does not say so itself."""
        return LATEST_LEGACY if self._session is None else self._session.revision

    def _known_revision(self) -> Revision | None:
        """The revision that the peer has shown to speak; `None`: none so far."""
        return None if self._session is None else self._session.revision

    @abstractmethod
    def _in_session(self) -> bool:
        """Whether the legacy lifecycle governs a notification."""

    def _own_form(self, id: RequestId) -> RequestId:
        """An id of ours in the type in which we sent it."""
        asked, _ = self._outbound.find(id)
        return id if asked is None else asked.id

    def _pong(self, message: Request) -> Reaction:
        """The answer to `ping`. Raises `Violation`."""
        tolerated = self._lifecycle.receive(Kind.PING)
        notes = () if tolerated is None else (tolerated,)
        reply = Outgoing(ResultResponse(message.id, {}), message.id)
        return Reaction(Served(id=message.id, method=message.method, notes=notes), reply)

    def _session_peer(self, kind: Kind) -> tuple[Peer, str | None]:
        """The peer of the legacy session, for a request of it. Raises `Violation` when there is no session yet."""
        if self._session is None:
            raise Violation(f"{kind.value} before the session was opened: send initialize first")
        return self._session, self._lifecycle.receive(kind)


def _kind_of_notification(row: NotificationRow[object]) -> Kind:
    if row is NOTIFICATIONS_INITIALIZED:
        return Kind.INITIALIZED
    return Kind.LOG if row is NOTIFICATIONS_MESSAGE else Kind.NOTIFICATION


def _as_token(value: JsonValue) -> RequestId | None:
    """A progress token or subscription id, if it is one."""
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None
