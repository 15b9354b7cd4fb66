"""Server end of a connection.

The engine responds to the handshake, `ping`, `server/discover` and `logging/setLevel`. `receive` returns every other
valid request as `RequestReceived`. Respond to it once, with `respond` or `fail`.

Spec: basic/lifecycle (legacy), basic/versioning and basic/patterns (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared, undeclared
from mcp_core.engine.events import ClientPeer, Event, Outgoing
from mcp_core.engine.lifecycle import Kind, State
from mcp_core.engine.server_receiver import ServerReceiver, require_client
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
    Side,
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
    from mcp_core.engine.events import AbandonedRequests
    from mcp_core.engine.in_flight import InboundRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import CapabilityPath, NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel

__all__ = ["ServerConnection", "SessionReplaced", "require_client"]

_DEFAULT_LOG_LEVEL: Final = "info"
"""The log level of a legacy client that has not sent `logging/setLevel`; the specification leaves it to the server."""

_OWN_COMMAND: Final = frozenset(
    {
        NOTIFICATIONS_CANCELLED,
        NOTIFICATIONS_MESSAGE,
        NOTIFICATIONS_PROGRESS,
        NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    }
)
"""Notifications that have their own commands; `notify` rejects them. Change notifications are sent with `publish`."""

_OF_TASKS: Final = frozenset({NOTIFICATIONS_PROGRESS, NOTIFICATIONS_TASKS_STATUS})
"""Notifications about a task (2025-11-25): its status, and its progress under the token of its first request."""


@attrs.frozen(kw_only=True, eq=False)
class SessionReplaced(Event):
    """The replacement of the legacy session by a second `initialize`; the response is in `ReceiveResult.reply`.

    Bridges that reuse one pipe for several clients send a second `initialize`. The caller must cancel the handlers of
    the requests in `abandoned.inbound` and fail the tasks that wait for the requests in `abandoned.outbound`. Handlers
    that still run must use `ended` from then on.
    """

    id: RequestId
    """The id of the second `initialize`."""
    abandoned: AbandonedRequests
    """The requests that were pending in the session that ended."""
    ended: ServerConnection
    """A closed connection that holds the requests of the session that ended.

    Request ids can be reused in the new session. Handlers of the old session therefore have a separate connection,
    whose commands send nothing.
    """


class ServerConnection(ServerReceiver):
    """The server end of one connection.

    Args:
        info: The name and version of the server.
        capabilities: The capabilities that the server declares. Methods of other capabilities are rejected.
        revisions: The revisions that the server supports.
        instructions: Instructions for a model on how to use the server.
        limits: The limits of this connection.
        extensions: Methods and notifications beyond the specification.
    """

    # --- commands --------------------------------------------------------------------------------------------------

    def request(
        self, definition: RequestMethod[object, object], params: object, *, for_request: RequestId | None
    ) -> Outgoing:
        """Return a request to send to the client (legacy).

        Args:
            definition: The definition of the method: sampling, elicitation, roots or ping.
            params: The parameters of the request.
            for_request: The id of the inbound request that it belongs to; `None` for none.

        Returns:
            The message to send. `receive` reports the response under the id of this request.

        Raises:
            LocalProtocolError: There is no session, its revision or state does not allow the request, there is no
                pending inbound request `for_request`, or the client cancelled that request.
            MissingRequiredClientCapability: The client did not declare a capability that the request requires.
        """
        session = self._client_session()
        revision = session.revision
        if (
            self._method(definition.name, revision) is not definition
            or Side.SERVER not in definition.sender
            or not revision.server_requests
        ):
            raise LocalProtocolError(f"a server may not send {definition.name} in revision {revision}")
        if for_request is not None and self._inbound.get(for_request).cancelled:
            raise LocalProtocolError(f"request {for_request!r} was cancelled: no client request can be sent for it")
        self._lifecycle.send(Kind.PING if definition is PING else Kind.SERVER_REQUEST)
        require_client(session, definition, params)
        if getattr(params, "task", None) is not None and not declared(
            session.capabilities, definition.task_capability or ()
        ):
            raise MissingRequiredClientCapability.of(
                as_object(definition.task_capability or ()), f"{definition.name} as a task"
            )
        return Outgoing(self._begin_request(definition, params, session.revision), for_request)

    def notify(
        self, definition: NotificationMethod[object], params: object, *, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Return a notification to send to the client.

        Args:
            definition: The definition of the notification.
            params: The parameters of the notification.
            for_request: The id of the inbound request that it belongs to; `None` for none.

        Returns:
            The message to send, or `None` if that request was cancelled.

        Raises:
            LocalProtocolError: The notification has its own command, or the revision, the state of the session or the
                capabilities forbid it, or there is no pending inbound request `for_request`.
        """
        if definition in _OWN_COMMAND or definition.filter_member is not None:
            raise LocalProtocolError(f"notify cannot send {definition.name}: it has its own command")
        inbound = None if for_request is None else self._inbound.get(for_request)
        if inbound is not None and inbound.cancelled:
            return None
        peer = self._client_of(inbound)
        self._check_notification(definition, peer)
        if peer.revision.era is Era.LEGACY:
            self._lifecycle.send(Kind.NOTIFICATION)
        wire = self._wire(params, definition.params, peer.revision)
        return Outgoing(Notification(definition.name, wire), for_request)

    def log(
        self, level: LoggingLevel, data: JsonValue, *, logger: str | None = None, for_request: RequestId | None = None
    ) -> Outgoing | None:
        """Return a log message to send to the client.

        Args:
            level: The severity.
            data: The content of the message: any JSON value.
            logger: The name of the logger.
            for_request: The id of the inbound request that the message belongs to. Required for modern clients, which
                receive the message on the stream of that request.

        Returns:
            The message to send, or `None` if the client does not request messages of this level or cancelled the
            request.

        Raises:
            LocalProtocolError: This server did not declare the `logging` capability, there is no session or no pending
                inbound request `for_request`, or the request is a subscription, whose stream carries only change
                notifications.
        """
        inbound = None if for_request is None else self._inbound.get(for_request)
        if inbound is not None and inbound.cancelled:
            return None
        if inbound is not None and inbound.definition is SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError("a subscription has no log messages", anchor="basic/utilities/subscriptions")
        peer = self._client_of(inbound)
        if peer.revision.session_log_level:
            # The client may have set the level after it sent the request.
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
        """Start a subscription: return the notification with the granted part of `subscriptions/listen`.

        Args:
            request: The id of the listen request, which is also the id of the subscription.
            wanted: An upper limit of the grant; `None` grants the whole filter. Notifications that the client did not
                request or that this server does not offer are omitted.

        Returns:
            The message to send, before all other messages of this subscription; `None` if the client has cancelled it.

        Raises:
            LocalProtocolError: There is no pending listen request with this id, or it was acknowledged already.
            LimitExceeded: The subscription exceeds a limit of subscribed resources. The request is still pending.
        """
        inbound = self._inbound.get(request)
        if not isinstance(inbound.params, SubscriptionsListenRequestParams) or inbound.acknowledged:
            raise LocalProtocolError(f"request {request!r} is not a subscription that awaits acknowledgment")
        if inbound.cancelled:
            return None
        grant = granted(inbound.params.notifications, wanted, self.capabilities, self._client_of(inbound))
        self._interests.listen(request, grant)
        inbound.acknowledged = True
        params = SubscriptionsAcknowledgedNotificationParams(notifications=grant)
        return self._tagged(NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, params, request, inbound.peer.revision)

    def finish(self, request: RequestId) -> tuple[Outgoing, ...]:
        """End a subscription from the server.

        Args:
            request: The id of the listen request.

        Returns:
            The result, and the cancel notification for transports with one stream for all messages. On HTTP, the stream
            is closed instead. Empty if the client has cancelled the subscription.

        Raises:
            LocalProtocolError: There is no pending subscription with this id, or it was not acknowledged.
        """
        inbound = self._inbound.get(request)
        if inbound.definition is not SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError(f"request {request!r} is not a subscription")
        answer = self.respond(request, SubscriptionsListenResult())
        if answer is None:
            return ()
        wire = converter(inbound.peer.revision).unstructure(CancelledNotificationParams(request_id=request))
        return answer, Outgoing(Notification(NOTIFICATIONS_CANCELLED.name, wire), request)

    def publish(self, definition: NotificationMethod[object], params: object) -> tuple[Outgoing, ...]:
        """Notify all subscribers of a change.

        Args:
            definition: `list_changed` of tools, prompts or resources, `notifications/resources/updated` or
                `notifications/tasks`; for the tasks of a legacy session, `notifications/tasks/status` or
                `notifications/progress`.
            params: The parameters of the notification.

        Returns:
            The messages to send: one for the legacy session, if allowed, and one for each matching subscription.

        Raises:
            LocalProtocolError: The notification is not a change notification, this server did not declare the
                capability, or progress of a task does not name the task.
        """
        if definition in _OF_TASKS:
            return self._publish_of_task(definition, params)
        if definition.filter_member is None:
            raise LocalProtocolError(f"{definition.name} is not a change notification; send it with notify")
        missing = undeclared(definition, self.capabilities, None)
        if missing is not None:
            raise _undeclared(definition, missing)
        messages: list[Outgoing] = []
        session = self._session
        # Before the session is open, the client has no lists that could have changed.
        if (
            session is not None
            and self.state is State.OPERATING
            and self._notification(definition.name, session.revision) is definition
        ):
            wire = self._wire(params, definition.params, session.revision)
            if self._interests.session_wants(params):
                messages.append(Outgoing(Notification(definition.name, wire)))
        for id in self._interests.listeners(definition, params):
            messages.append(self._tagged(definition, params, id, self._inbound.get(id).peer.revision))  # noqa: PERF401  # a generator would hide which command raises
        return tuple(messages)

    def _publish_of_task(self, definition: NotificationMethod[object], params: object) -> tuple[Outgoing, ...]:
        """Notify a legacy session of one of its tasks. A task can continue long after the response to its request."""
        session = self._session
        if not isinstance(session, ClientPeer) or self.state is not State.OPERATING or not session.revision.core_tasks:
            return ()
        self._check_notification(definition, session)
        if isinstance(params, ProgressNotificationParams) and RELATED_TASK not in (params.meta or {}):
            raise LocalProtocolError("progress of a task must name the task in _meta", anchor="basic/utilities/tasks")
        return (Outgoing(Notification(definition.name, self._wire(params, definition.params, session.revision))),)

    @property
    def subscriptions(self) -> tuple[RequestId, ...]:
        """The ids of the pending `subscriptions/listen` requests that were acknowledged."""
        return self._interests.listening

    # --- details ---------------------------------------------------------------------------------------------------

    def _end_session(self, id: RequestId, notes: tuple[str, ...]) -> SessionReplaced:
        # Modern requests belong to no session. They and their subscriptions stay on this connection.
        ended = self.exchange()
        ended._session = self._session  # noqa: SLF001  # of the same class
        ended._inbound = self._inbound.split(Era.LEGACY)  # noqa: SLF001
        ended._outbound = self._outbound.split()  # noqa: SLF001
        self._interests.unsubscribe_all()
        return SessionReplaced(id=id, abandoned=ended.end(), ended=ended, notes=notes)

    def _completed(self, inbound: InboundRequest, wire: JsonObject) -> JsonObject:
        if inbound.definition is RESOURCES_SUBSCRIBE and isinstance(inbound.params, SubscribeRequestParams):
            self._interests.subscribe(inbound.params.uri)
        elif inbound.definition is RESOURCES_UNSUBSCRIBE and isinstance(inbound.params, UnsubscribeRequestParams):
            self._interests.unsubscribe(inbound.params.uri)
        elif inbound.definition is SUBSCRIPTIONS_LISTEN:
            if not inbound.acknowledged:
                raise LocalProtocolError(f"the subscription {inbound.id!r} must be acknowledged before it ends")
            self._over(inbound.id)
        revision = inbound.peer.revision
        if not revision.server_info_in_results:
            return wire
        stamped = self._with_server_info(wire, revision)
        stamped.setdefault("resultType", "complete")
        return _tag(stamped, inbound.id) if inbound.definition is SUBSCRIPTIONS_LISTEN else stamped

    def _tagged(
        self, definition: NotificationMethod[object], params: object, id: RequestId, revision: Revision
    ) -> Outgoing:
        return Outgoing(Notification(definition.name, _tag(self._wire(params, definition.params, revision), id)), id)

    def _client_of(self, inbound: InboundRequest | None) -> ClientPeer:
        """Return the client of a request, or of the session."""
        return inbound.peer if inbound is not None and isinstance(inbound.peer, ClientPeer) else self._client_session()

    def _check_notification(self, definition: NotificationMethod[object], peer: ClientPeer) -> None:
        """Check that this side may send a notification to `peer`. Raises `LocalProtocolError`."""
        if self._notification(definition.name, peer.revision) is not definition or Side.SERVER not in definition.sender:
            raise LocalProtocolError(f"a server may not send {definition.name} in revision {peer.revision}")
        missing = undeclared(definition, self.capabilities, peer.capabilities)
        if missing is not None:
            raise _undeclared(definition, missing)


def _tag(wire: JsonObject, subscription: RequestId) -> JsonObject:
    """Return a copy of a message's parameters with the id of its subscription."""
    meta = wire.get("_meta")
    return {**wire, "_meta": {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION_ID: subscription}}


def _undeclared(definition: NotificationMethod[object], missing: CapabilityPath) -> LocalProtocolError:
    return LocalProtocolError(f"{definition.name} requires the capability {'.'.join(missing)}, which was not declared")
