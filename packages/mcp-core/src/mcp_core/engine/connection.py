"""What both sides of a connection share: receiving, answering, notifying, cancelling, ending.

A connection is one process over stdio, one session over legacy HTTP, one exchange over modern HTTP. It takes decoded
messages one by one (`receive`) and says for each what the application should know and what has to be sent. Commands
return what has to be sent. Nothing is kept back, so there is nothing to drain or to lose.

Illegal things are refused where they come from. What the peer does wrong leads to an answer with the right error code,
or is noted and survived; what the caller does wrong raises `LocalProtocolError`, and nothing is sent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mcp_core.conversion.converter import converter
from mcp_core.engine.capabilities import as_object, declared
from mcp_core.engine.events import Abandoned, ClientPeer, Outgoing
from mcp_core.engine.in_flight import advance
from mcp_core.engine.receiver import Extensions, Receiving
from mcp_core.engine.results import check_result, code_for, undeclared_need
from mcp_core.errors import LocalProtocolError, MissingRequiredClientCapability
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request, ResultResponse
from mcp_core.methods import INITIALIZE, NOTIFICATIONS_CANCELLED, NOTIFICATIONS_PROGRESS, SUBSCRIPTIONS_LISTEN
from mcp_core.types import CancelledNotificationParams, InputRequiredResult, ProgressNotificationParams, WireObject
from mcp_core.types.meta import PROGRESS_TOKEN

if TYPE_CHECKING:
    from mcp_core.engine.in_flight import Owed
    from mcp_core.errors import RequestFailed
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.methods import Method
    from mcp_core.revisions import Revision

__all__ = ["Connection", "Extensions"]


class Connection(Receiving):
    """One end of a connection. Use `ServerConnection` or `ClientConnection`."""

    # --- commands --------------------------------------------------------------------------------------------------

    def respond(self, request: RequestId, result: object) -> Outgoing | None:
        """Answers a request of the peer.

        Args:
            request: Its id.
            result: An instance of the method's result class, or the result in its wire form, which is sent as it is.

        Returns:
            The answer, or `None` when the request was cancelled or the peer is gone: nothing is to be sent.

        Raises:
            LocalProtocolError: No answer is owed to that id, or the result is not one of the method's, or cannot be
                said in the peer's revision; the request is then still open.
            MissingRequiredClientCapability: It asks the client for what it did not declare; the request is still open.
            LimitExceeded: It was a subscription, and there are too many; the request is then still open.
        """
        owed = self._inbound.get(request)
        if owed.cancelled:
            self._inbound.settle(request)
            return None
        wire = result if isinstance(result, dict) else self._result_wire(owed, result)
        self._succeeded(owed)
        self._inbound.settle(request)
        return Outgoing(ResultResponse(request, self._stamp(owed, wire)), request)

    def fail(self, request: RequestId, error: RequestFailed) -> Outgoing | None:
        """Answers a request of the peer with an error. Code and form follow the peer's revision.

        Args:
            request: Its id.
            error: What went wrong; its code, message and data go on the wire.

        Returns:
            The answer, or `None` when the request was cancelled or the peer is gone.

        Raises:
            LocalProtocolError: No answer is owed to that id.
        """
        owed = self._inbound.settle(request)
        self._over(request)
        if owed.cancelled:
            return None
        code = code_for(error, owed.peer.revision)
        return Outgoing(ErrorResponse(request, ErrorObject(code, error.message, error.data)), request)

    def withdraw(self, request: RequestId) -> None:
        """Nothing will be sent for a request any more, its handler has ended; an answered one is none."""
        self._inbound.open.pop(request, None)
        self._over(request)

    def progress(
        self, request: RequestId, progress: float, total: float | None = None, message: str | None = None
    ) -> Outgoing | None:
        """Tells how far a request of the peer got.

        Args:
            request: Its id.
            progress: How far; more than the last time.
            total: How far it has to go, if known.
            message: What is being done, for a person.

        Returns:
            What to send, or `None`: the peer asked for no progress, cancelled the request or is gone.

        Raises:
            LocalProtocolError: No answer is owed to that id any more, `progress` does not increase or is no number, or
                the request is a subscription, whose stream has nothing but its notices.
        """
        owed = self._inbound.get(request)
        if owed.row is SUBSCRIPTIONS_LISTEN:
            raise LocalProtocolError("a subscription has no progress", anchor="basic/utilities/subscriptions")
        if owed.cancelled or owed.token is None:
            return None
        if not math.isfinite(progress):
            raise LocalProtocolError(f"progress has to be a finite number, not {progress}")
        params = ProgressNotificationParams(progress_token=owed.token, progress=progress, total=total, message=message)
        wire = converter(owed.peer.revision).unstructure(params)
        if not advance(owed, progress):
            raise LocalProtocolError(
                f"progress {progress:g} after {owed.progress:g}: it has to increase", anchor="basic/utilities/progress"
            )
        return Outgoing(Notification(NOTIFICATIONS_PROGRESS.name, wire), request)

    def cancel(self, request: RequestId, reason: str | None = None) -> Outgoing | None:
        """Gives up a request of ours.

        Args:
            request: Its id.
            reason: For the peer's log.

        Returns:
            What tells the peer, or `None` when there is nothing to tell: it is answered already, or it shall run as a
            task, which is cancelled by `tasks/cancel` only.

        Raises:
            LocalProtocolError: It is `initialize`, which must not be cancelled.
        """
        asked = self._outbound.open.get(request)
        if asked is None:
            return None
        if asked.row is INITIALIZE:
            raise LocalProtocolError(f"{asked.row.name} must not be cancelled", anchor="basic/utilities/cancellation")
        self._outbound.cancel(request)
        if asked.augmented:
            return None
        params = CancelledNotificationParams(request_id=request, reason=reason)
        return Outgoing(Notification(NOTIFICATIONS_CANCELLED.name, converter(asked.revision).unstructure(params)))

    def forget(self, request: RequestId) -> None:
        """Gives up a request of ours without telling the peer (its stream is closed, or it never went out)."""
        self._outbound.cancel(request)

    def end(self) -> Abandoned:
        """The peer is gone. Everything that was open ends here, once; what handlers answer later is not sent."""
        abandoned = Abandoned(asked=dict(self.asked), owed=self.owed)
        self._outbound.open.clear()
        for request, owed in self._inbound.open.items():
            owed.cancelled = True
            self._over(request)
        self._lifecycle.close()
        return abandoned

    # --- for the two sides -----------------------------------------------------------------------------------------

    def _ask(
        self,
        row: Method[object, object],
        params: object,
        revision: Revision,
        *,
        meta: JsonObject | None = None,
        progress: bool = False,
    ) -> Request:
        """Puts a request together and takes it down as open."""
        wire = self._wire(params, row.params, revision)
        # A request augmented with a task is answered by the task; the result itself is fetched later.
        augmented = revision.core_tasks and getattr(params, "task", None) is not None
        result = row.task_results[revision] if augmented else row.result
        asked = self._outbound.ask(row, revision, result, progress=progress, augmented=augmented)
        if meta is not None or progress:
            given = wire.get("_meta")
            joined: JsonObject = {**(given if isinstance(given, dict) else {}), **(meta or {})}
            if asked.token is not None:
                joined[PROGRESS_TOKEN] = asked.token
            wire["_meta"] = joined
        return Request(asked.id, row.name, wire)

    def _wire(self, value: object, expected: type, revision: Revision) -> JsonObject:
        """The wire form of something to be sent. Raises `LocalProtocolError`."""
        if not isinstance(value, WireObject) or not isinstance(value, expected):
            named = getattr(expected, "__name__", expected)
            raise LocalProtocolError(f"expected {named}, got {type(value).__name__}")
        return converter(revision).unstructure(value)

    def _result_wire(self, owed: Owed, result: object) -> JsonObject:
        peer = owed.peer
        asks_for_task = peer.revision.core_tasks and getattr(owed.params, "task", None) is not None
        # Who does not offer tasks answers as if none had been asked for.
        as_task = asks_for_task and declared(self.capabilities, owed.row.task_capability or ())
        check_result(owed.row, peer.revision, result, as_task=as_task)
        if isinstance(result, InputRequiredResult) and not result.input_requests and result.request_state is None:
            raise LocalProtocolError("an InputRequiredResult needs inputRequests or requestState")
        if isinstance(peer, ClientPeer):
            missing = undeclared_need(result, peer.revision, peer.capabilities)
            if missing is not None:
                raise MissingRequiredClientCapability.of(as_object(missing), f"the answer to {owed.row.name}")
        return self._wire(result, WireObject, peer.revision)

    def _succeeded(self, owed: Owed) -> None:
        """A request of the peer is about to be answered with success."""

    def _over(self, request: RequestId) -> None:
        """A request of the peer ended, in whatever way."""

    def _stamp(self, owed: Owed, wire: JsonObject) -> JsonObject:  # noqa: ARG002  # the server looks at the peer
        """Adds to a result what the revision wants in each."""
        return wire
