"""The server's end of a connection.

Handshake, `ping`, `server/discover` and `logging/setLevel` are answered by the engine; every other request that is in
order comes out of `receive` as `RequestReceived` and is owed one `respond` or `fail`.

Spec: basic/lifecycle (legacy), basic/versioning and basic/patterns (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared, undeclared
from mcp_core.engine.events import ClientPeer, Outgoing, SessionReplaced
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.engine.server_receiver import Serving, require_client
from mcp_core.engine.subscriptions import granted
from mcp_core.errors import LocalProtocolError, MissingRequiredClientCapability
from mcp_core.jsonrpc.messages import Notification
from mcp_core.methods import (
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    NOTIFICATIONS_TASKS_STATUS,
    PING,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    SUBSCRIPTIONS_LISTEN,
    Role,
)
from mcp_core.revisions import Era
from mcp_core.types import (
    CancelledNotificationParams,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_core.types.logging import reaches
from mcp_core.types.meta import RELATED_TASK, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from mcp_core.engine.in_flight import Owed
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import CapabilityPath, Method, NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel

__all__ = ["ServerConnection", "require_client"]

_DEFAULT_LOG_LEVEL: Final = "info"
"""What a legacy client gets that never sent `logging/setLevel`; the specification leaves it to the server."""

_OWN_COMMAND: Final = frozenset(
    {
        NOTIFICATIONS_CANCELLED,
        NOTIFICATIONS_MESSAGE,
        NOTIFICATIONS_PROGRESS,
        NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    }
)
"""Notifications with rules of their own; `notify` does not know them. Notices of changes are published."""

_OF_TASKS: Final = frozenset({NOTIFICATIONS_PROGRESS, NOTIFICATIONS_TASKS_STATUS})
"""What is told of a task (2025-11-25): how it stands, and how far it got, under the token of the request that began it."""


class ServerConnection(Serving):
    """The server's end of one connection.

    Args:
        info: Who the server is.
        capabilities: What it offers. Methods of other capabilities are refused.
        revisions: The revisions that it speaks.
        instructions: How to use it, for a model.
        limits: The bounds that hold here.
        extensions: Methods and notifications beyond the specification.
    """

    # --- commands --------------------------------------------------------------------------------------------------

    def ask(self, row: Method[object, object], params: object, *, for_request: RequestId | None) -> Outgoing:
        """Sends the client a request (legacy).

        Args:
            row: The method: sampling, elicitation, roots, ping.
            params: Its parameters.
            for_request: The client's request that it is about; `None` for none.

        Returns:
            What to send; the answer comes out of `receive` under the id of its message.

        Raises:
            LocalProtocolError: There is no session, or its revision has no requests of the server or lacks this method,
                or the client no longer waits for `for_request`.
            MissingRequiredClientCapability: The client did not declare what the request needs.
        """
        session = self._client_session()
        revision = session.revision
        if self._method(row.name, revision) is not row or Role.SERVER not in row.sender or not revision.server_requests:
            raise LocalProtocolError(f"a server may not send {row.name} in revision {revision}")
        if for_request is not None and self._inbound.get(for_request).cancelled:
            raise LocalProtocolError(f"request {for_request!r} was cancelled: nothing may be asked for it")
        self._lifecycle.send(Kind.PING if row is PING else Kind.SERVER_REQUEST)
        require_client(session, row, params)
        if getattr(params, "task", None) is not None and not declared(session.capabilities, row.task_capability or ()):
            raise MissingRequiredClientCapability.of(as_object(row.task_capability or ()), f"{row.name} as a task")
        return Outgoing(self._ask(row, params, session.revision), for_request)

    def notify(
        self, row: NotificationRow[object], params: object, *, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Sends a notification that has no command of its own.

        Args:
            row: The notification.
            params: Its parameters.
            for_request: The client's request that it belongs to; `None` for none.

        Returns:
            What to send, or `None` when that request was cancelled.

        Raises:
            LocalProtocolError: The revision, the state or the capabilities forbid it, or it has a command of its own.
        """
        if row in _OWN_COMMAND or row.filter_member is not None:
            raise LocalProtocolError(f"{row.name} has a command of its own")
        owed = None if for_request is None else self._inbound.get(for_request)
        if owed is not None and owed.cancelled:
            return None
        peer = self._client_of(owed)
        self._check_notification(row, peer)
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.NOTIFICATION)
        wire = self._wire(params, row.params, peer.revision)
        return Outgoing(Notification(row.name, wire), for_request)

    def log(
        self, level: LoggingLevel, data: JsonValue, *, logger: str | None = None, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Sends a log message to the client.

        Args:
            level: How serious it is.
            data: What to say: anything that JSON can.
            logger: Who says it.
            for_request: The client's request that it is about; needed for modern clients, who get it on its stream.

        Returns:
            What to send, or `None`: the client does not want messages of this level, or cancelled the request.

        Raises:
            LocalProtocolError: This server did not declare the `logging` capability, or nobody is there to be told, or
                the request is a subscription, whose stream has nothing but its notices.
        """
        owed = None if for_request is None else self._inbound.get(for_request)
        if owed is not None and owed.cancelled:
            return None
        if owed is not None and owed.row is SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError("a subscription has no log messages", anchor="basic/utilities/subscriptions")
        peer = self._client_of(owed)
        if peer.revision.session_log_level:
            # The level may have been set after the request came.
            peer = self._client_session()
        self._check_notification(NOTIFICATIONS_MESSAGE, peer)
        wanted = (peer.log_level or _DEFAULT_LOG_LEVEL) if peer.revision.session_log_level else peer.log_level
        if wanted is None or not reaches(level, wanted):
            return None
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.LOG)
        params = LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        wire = converter(peer.revision).unstructure(params)
        return Outgoing(Notification(NOTIFICATIONS_MESSAGE.name, wire), for_request)

    def acknowledge(self, request: RequestId, wanted: SubscriptionFilter | None = None) -> Outgoing | None:
        """Begins a subscription: tells the client what of its `subscriptions/listen` is granted.

        Args:
            request: The id of the listen request, which is the subscription's id too.
            wanted: What to grant at most; the whole filter when `None`. What the client did not ask for, and what this
                server does not offer, is left out.

        Returns:
            What to send, first of all messages of this subscription; `None` when it was cancelled meanwhile.

        Raises:
            LocalProtocolError: It is no open listen request.
            LimitExceeded: Too many resources would be watched; the request is still open.
        """
        owed = self._inbound.get(request)
        if not isinstance(owed.params, SubscriptionsListenRequestParams) or owed.acknowledged:
            raise LocalProtocolError(f"request {request!r} is no subscription that waits to be acknowledged")
        if owed.cancelled:
            return None
        grant = granted(owed.params.notifications, wanted, self.capabilities, self._client_of(owed))
        self._interests.listen(request, grant)
        owed.acknowledged = True
        params = SubscriptionsAcknowledgedNotificationParams(notifications=grant)
        return self._tagged(NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, params, request, owed.peer.revision)

    def finish(self, request: RequestId) -> tuple[Outgoing, ...]:
        """Ends a subscription from this side.

        Args:
            request: The id of its listen request.

        Returns:
            The result, and the cancellation that says so where all share one pipe; an HTTP stream is closed instead.
            Nothing when the client has cancelled it.

        Raises:
            LocalProtocolError: It is no open subscription, or was not acknowledged.
        """
        owed = self._inbound.get(request)
        if owed.row is not SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError(f"request {request!r} is no subscription")
        answer = self.respond(request, SubscriptionsListenResult())
        if answer is None:
            return ()
        wire = converter(owed.peer.revision).unstructure(CancelledNotificationParams(request_id=request))
        return answer, Outgoing(Notification(NOTIFICATIONS_CANCELLED.name, wire), request)

    def publish(self, row: NotificationRow[object], params: object) -> tuple[Outgoing, ...]:
        """Tells everybody who wants to know of a change.

        Args:
            row: `list_changed` of tools, prompts or resources, `notifications/resources/updated`, `notifications/tasks`;
                or what a legacy session is told of its tasks: `notifications/tasks/status`, `notifications/progress`.
            params: Its parameters.

        Returns:
            What to send: for the legacy session, if it may have it, and for each subscription that asked for it.

        Raises:
            LocalProtocolError: This server did not declare the capability.
        """
        if row in _OF_TASKS:
            return self._publish_of_task(row, params)
        if row.filter_member is None:
            raise LocalProtocolError(f"{row.name} tells of no change; use notify")
        missing = undeclared(row, self.capabilities, None)
        if missing is not None:
            raise _undeclared(row, missing)
        messages: list[Outgoing] = []
        session = self._session
        # Before the session is open the client has no lists that could have changed.
        if (
            session is not None
            and self.state is State.OPERATING
            and self._notification(row.name, session.revision) is row
        ):
            wire = self._wire(params, row.params, session.revision)
            if self._interests.session_wants(params):
                messages.append(Outgoing(Notification(row.name, wire)))
        for id in self._interests.listeners(row, params):
            messages.append(self._tagged(row, params, id, self._inbound.get(id).peer.revision))  # noqa: PERF401  # a generator would hide which command refuses
        return tuple(messages)

    def _publish_of_task(self, row: NotificationRow[object], params: object) -> tuple[Outgoing, ...]:
        """What tells a legacy session of one of its tasks: the task goes on when its request was answered long ago."""
        session = self._session
        if not isinstance(session, ClientPeer) or self.state is not State.OPERATING or not session.revision.core_tasks:
            return ()
        self._check_notification(row, session)
        if isinstance(params, ProgressNotificationParams) and RELATED_TASK not in (params.meta or {}):
            raise LocalProtocolError("progress of a task says which one it is of", anchor="basic/utilities/tasks")
        return (Outgoing(Notification(row.name, self._wire(params, row.params, session.revision))),)

    @property
    def subscriptions(self) -> tuple[RequestId, ...]:
        """The ids of the open `subscriptions/listen` requests that were acknowledged."""
        return self._interests.listening

    # --- details ---------------------------------------------------------------------------------------------------

    def _end_session(self, id: RequestId, notes: tuple[str, ...]) -> SessionReplaced:
        # Modern requests belong to no session, so they stay, and so do their subscriptions.
        ended = self.exchange()
        ended._session = self._session  # noqa: SLF001  # of the same class
        ended._inbound = self._inbound.split(Era.LEGACY)  # noqa: SLF001
        ended._outbound = self._outbound.split()  # noqa: SLF001
        self._interests.unsubscribe_all()
        return SessionReplaced(id=id, abandoned=ended.end(), ended=ended, notes=notes)

    def _succeeded(self, owed: Owed) -> None:
        if owed.row is RESOURCES_SUBSCRIBE and isinstance(owed.params, SubscribeRequestParams):
            self._interests.subscribe(owed.params.uri)
        elif owed.row is RESOURCES_UNSUBSCRIBE and isinstance(owed.params, UnsubscribeRequestParams):
            self._interests.unsubscribe(owed.params.uri)
        elif owed.row is SUBSCRIPTIONS_LISTEN:
            if not owed.acknowledged:
                raise LocalProtocolError(f"the subscription {owed.id!r} has to be acknowledged before it ends")
            self._over(owed.id)

    def _stamp(self, owed: Owed, wire: JsonObject) -> JsonObject:
        revision = owed.peer.revision
        if not revision.server_info_in_results:
            return wire
        stamped = self._with_server_info(wire, revision)
        stamped.setdefault("resultType", "complete")
        return _tag(stamped, owed.id) if owed.row is SUBSCRIPTIONS_LISTEN else stamped

    def _tagged(self, row: NotificationRow[object], params: object, id: RequestId, revision: Revision) -> Outgoing:
        return Outgoing(Notification(row.name, _tag(self._wire(params, row.params, revision), id)), id)

    def _client_of(self, owed: Owed | None) -> ClientPeer:
        """Who is at the other end: of a request, or of the session."""
        return owed.peer if owed is not None and isinstance(owed.peer, ClientPeer) else self._client_session()

    def _check_notification(self, row: NotificationRow[object], peer: ClientPeer) -> None:
        """Raises `LocalProtocolError` when we may not send it."""
        if self._notification(row.name, peer.revision) is not row or Role.SERVER not in row.sender:
            raise LocalProtocolError(f"a server may not send {row.name} in revision {peer.revision}")
        missing = undeclared(row, self.capabilities, peer.capabilities)
        if missing is not None:
            raise _undeclared(row, missing)


def _tag(wire: JsonObject, subscription: RequestId) -> JsonObject:
    """The same, saying which subscription it belongs to."""
    meta = wire.get("_meta")
    return {**wire, "_meta": {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION_ID: subscription}}


def _undeclared(row: NotificationRow[object], missing: CapabilityPath) -> LocalProtocolError:
    return LocalProtocolError(f"{row.name} needs the capability {'.'.join(missing)}, which was not declared")
