"""The recorded cancellations of tool calls, with the messages for these calls that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.message_pairs import key_of, objects
from mcp_conformance.checks.probes.recorded_values import member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["CancelledCall", "cancelled_calls"]

_PASSED: Final = 3
"""The number of later requests that a server answers, one after another, until it has certainly processed a cancellation."""


@attrs.define(kw_only=True, eq=False)
class CancelledCall:
    """A call that was cancelled before its response."""

    id: JsonValue
    """The id of the call."""
    token: JsonValue
    """The progress token of the call."""
    answered: bool = False
    """Whether the call has a response after the cancellation was processed."""
    progress: int = 0
    """The number of progress notifications after the cancellation was processed."""
    _pending: set[str] = attrs.field(factory=set, init=False)
    _passed: int = attrs.field(default=0, init=False)

    def sent(self, key: str) -> None:
        """Record a later request of the client."""
        self._pending.add(key)

    def received(self, message: JsonObject) -> None:
        """Record a later message of the server."""
        processed = self._passed >= _PASSED
        if message.get("method") == "notifications/progress":
            mine = self.token is not None and key_of(member(message, "params", "progressToken")) == key_of(self.token)
            self.progress += processed and mine
        elif "method" not in message:
            key = key_of(message.get("id"))
            self.answered = self.answered or (processed and key == key_of(self.id))
            if key in self._pending:
                # Each of these requests is sent after the response to the one before.
                self._pending.clear()
                self._passed += 1


def cancelled_calls(transcript: Transcript) -> Iterator[CancelledCall]:
    """Yield the cancelled calls of a connection whose messages have one order, and which are no tasks."""
    running: dict[str, JsonObject] = {}
    cancelled: dict[str, CancelledCall] = {}
    for entry in transcript:
        for each in objects(entry):
            key = key_of(each.get("id"))
            if not entry.sent:
                if "method" not in each:
                    running.pop(key, None)
                for call in cancelled.values():
                    call.received(each)
            elif "id" in each and "method" in each:
                # From now on, messages with the same id or token belong to this request.
                yield from _replaced(cancelled, each)
                if each["method"] == "tools/call" and member(each, "params", "task") is None:
                    running[key] = each
                for call in cancelled.values():
                    call.sent(key)
            elif each.get("method") == "notifications/cancelled" and not entry.deviant:
                request = running.pop(key_of(member(each, "params", "requestId")), None)
                if request is not None:
                    token = member(request, "params", "_meta", "progressToken")
                    cancelled[key_of(request["id"])] = CancelledCall(id=request["id"], token=token)
    yield from cancelled.values()


def _replaced(cancelled: dict[str, CancelledCall], request: JsonObject) -> Iterator[CancelledCall]:
    """Remove and yield the calls whose id or progress token a new request has."""
    token = member(request, "params", "_meta", "progressToken")
    for key, call in [*cancelled.items()]:
        if key == key_of(request["id"]) or (token is not None and key_of(token) == key_of(call.token)):
            yield cancelled.pop(key)
