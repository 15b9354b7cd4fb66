"""Requests in flight: request ids in both directions, progress tokens, cancellation.

`OutboundRequest` is an outbound request without a response, `InboundRequest` an inbound request without a response. The invariants:

- each outbound request ends exactly once: with a result, with an error, by cancellation or by being abandoned;
- nothing is sent for an inbound request after its cancellation;
- progress is accepted only for tokens of pending requests, and only if it increases.

This module also resolves the races of a cancellation. A response that crosses this side's cancellation is dropped and
recorded as a deviation. A cancellation that crosses this side's response is dropped without a record, as the
specification requires.

Spec: basic/utilities/cancellation, basic/utilities/progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.engine.lifecycle import Violation
from mcp_core.errors import LocalProtocolError
from mcp_core.excerpts import quoted

if TYPE_CHECKING:
    from mcp_core.engine.events import Peer
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.methods import RequestMethod
    from mcp_core.revisions import Era, Revision

__all__ = ["InboundRequest", "InboundRequests", "OutboundRequest", "OutboundRequests", "advance"]

_CANCELLED_REMEMBERED: Final = 256
"""The number of remembered cancelled ids: a late response is expected, a response with an unknown id is a deviation."""


@attrs.define(eq=False)
class OutboundRequest:
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


@attrs.define(eq=False)
class InboundRequest:
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


@attrs.define(eq=False)
class OutboundRequests:
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


@attrs.define(eq=False)
class InboundRequests:
    """The inbound requests of a connection."""

    open: dict[RequestId, InboundRequest] = attrs.field(factory=dict)

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
        """Mark the request as cancelled by the peer. Return `None` if it is unknown, completed or already cancelled."""
        inbound = self.open.get(id)
        if inbound is None:
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
