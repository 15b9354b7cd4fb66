"""Commands of both sides of a connection: respond, report progress, cancel, close.

A connection is one process over stdio, one session over legacy HTTP, or one HTTP request with its response over modern
HTTP. `receive` accepts decoded messages one by one. It returns an event for the application and a reply to send.
Commands return the messages to send. The connection does not buffer messages, so it has no queue to drain.

An invalid message from the peer leads to an error response with the matching code, or to a recorded deviation. An
invalid command of the caller raises `LocalProtocolError`, and nothing is sent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared
from mcp_core.engine.events import AbandonedRequests, ClientPeer, Outgoing
from mcp_core.engine.in_flight import advance
from mcp_core.engine.receiver import Extensions, MessageReceiver
from mcp_core.engine.results import CONDITIONAL_RESULTS, check_result, code_for, undeclared_need
from mcp_core.errors import LocalProtocolError, MissingRequiredClientCapability
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request, ResultResponse
from mcp_core.methods import INITIALIZE, NOTIFICATIONS_CANCELLED, NOTIFICATIONS_PROGRESS, SUBSCRIPTIONS_LISTEN
from mcp_core.types import CancelledNotificationParams, InputRequiredResult, ProgressNotificationParams, WireObject
from mcp_core.types.meta import PROGRESS_TOKEN

if TYPE_CHECKING:
    from mcp_core.engine.in_flight import InboundRequest
    from mcp_core.errors import RequestFailed
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.methods import RequestMethod
    from mcp_core.revisions import Revision

__all__ = ["Connection", "Extensions"]


class Connection(MessageReceiver):
    """One end of a connection: the base of `ServerConnection` and `ClientConnection`."""

    # --- commands --------------------------------------------------------------------------------------------------

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

    # --- for the subclasses ----------------------------------------------------------------------------------------

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
        check_result(inbound.definition, peer.revision, result, as_task=as_task)
        if isinstance(result, InputRequiredResult) and not result.input_requests and result.request_state is None:
            raise LocalProtocolError("an InputRequiredResult needs inputRequests or requestState")
        if isinstance(result, CONDITIONAL_RESULTS) and isinstance(peer, ClientPeer):
            missing = undeclared_need(result, peer.revision, peer.capabilities)
            if missing is not None:
                raise MissingRequiredClientCapability.of(as_object(missing), f"the result of {inbound.definition.name}")
        return converter(peer.revision).unstructure(result)  # type: ignore[arg-type]  # of a class of the method

    def _over(self, request: RequestId) -> None:
        """Release the state of an inbound request that has ended."""

    def _completed(self, inbound: InboundRequest, wire: JsonObject) -> JsonObject:  # noqa: ARG002  # the server looks at the peer
        """Update the subscriptions, and return the result with the members that the revision requires in each result."""
        return wire
