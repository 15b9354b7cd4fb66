"""Requests in flight: request ids in both directions, progress tokens, cancellation.

`Asked` is an outbound request without a response, `Owed` an inbound request without a response. The invariants:

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
    from mcp_core.methods import Method
    from mcp_core.revisions import Era, Revision

__all__ = ["Asked", "Inbound", "Outbound", "Owed", "advance"]

_CANCELLED_REMEMBERED: Final = 256
"""The number of remembered cancelled ids: a late response is expected, a response with an unknown id is a deviation."""


@attrs.define(eq=False)
class Asked:
    """An outbound request without a response."""

    id: RequestId
    row: Method[object, object]
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
class Owed:
    """An inbound request without a response."""

    id: RequestId
    row: Method[object, object]
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
class Outbound:
    """The outbound requests of a connection."""

    open: dict[RequestId, Asked] = attrs.field(factory=dict)
    _last: int = 0
    _cancelled: dict[RequestId, None] = attrs.field(factory=dict)
    _last_ended: int = 0
    """The last id that was assigned before the current session started."""

    def ask(
        self, row: Method[object, object], revision: Revision, result: type, *, progress: bool, augmented: bool
    ) -> Asked:
        """Add a request with an id that was never used on this connection. Its progress token is the same number."""
        self._last += 1
        asked = Asked(self._last, row, revision, result, self._last if progress else None, augmented)
        self.open[asked.id] = asked
        return asked

    def find(self, id: RequestId | None) -> tuple[Asked | None, str | None]:
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
        if (asked := self.open.get(id)) is not None:
            return asked, None
        other = _other_form(id)
        if other is not None and (asked := self.open.get(other)) is not None:
            return asked, f"the response has the id {quoted(id)}, but {other!r} was sent"
        if id in self._cancelled or (other is not None and other in self._cancelled):
            return None, "the response crossed the cancellation of its request"
        if any(isinstance(form, int) and 0 < form <= self._last_ended for form in (id, other)):
            return None, "a response to a request of a session that has ended"
        return None, f"a response with the unknown id {quoted(id)}"

    def settle(self, asked: Asked) -> None:
        """Remove the request from the table: the peer has responded."""
        del self.open[asked.id]

    def cancel(self, id: RequestId) -> Asked | None:
        """Remove the request and remember its id, so that a late response is expected. Return `None` if unknown."""
        asked = self.open.pop(id, None)
        if asked is not None:
            self._cancelled[id] = None
            if len(self._cancelled) > _CANCELLED_REMEMBERED:
                del self._cancelled[next(iter(self._cancelled))]
        return asked

    def split(self) -> Outbound:
        """Move the pending requests to a new table, because their session has ended. New ids continue the sequence."""
        ended = Outbound(self.open)
        self.open = {}
        self._cancelled.clear()
        self._last_ended = self._last
        return ended

    def with_token(self, token: RequestId) -> tuple[Asked | None, str | None]:
        """Find the pending request with a progress token, and the deviation. Deployed peers return `"2"` for 2."""
        for form in (token, _other_form(token)):
            asked = self.open.get(form) if form is not None else None
            if asked is not None and asked.token is not None:
                return (
                    asked,
                    None if form == token else f"the progress token is {quoted(token)}, but {form!r} was sent",
                )
        return None, None


@attrs.define(eq=False)
class Inbound:
    """The inbound requests of a connection."""

    open: dict[RequestId, Owed] = attrs.field(factory=dict)

    def accept(self, owed: Owed) -> None:
        """Add a request. Raises `Violation` if its id is in use."""
        known = self.open.get(owed.id)
        if known is not None and not known.abandoned:
            raise Violation(f"the request id {quoted(owed.id)} is already in use", anchor="basic#requests")
        self.open[owed.id] = owed

    def get(self, id: RequestId) -> Owed:
        """Return the pending request with this id. Raises `LocalProtocolError` for an unknown id."""
        owed = self.open.get(id)
        if owed is None:
            raise LocalProtocolError(f"no pending inbound request has the id {id!r}", anchor="basic#responses")
        return owed

    def settle(self, id: RequestId) -> Owed:
        """Remove the request: the response is ready, or its handler has ended after a cancellation."""
        owed = self.get(id)
        del self.open[id]
        return owed

    def cancel(self, id: RequestId) -> Owed | None:
        """Mark the request as cancelled by the peer. Return `None` if it is unknown, completed or already cancelled."""
        owed = self.open.get(id)
        if owed is None:
            other = _other_form(id)
            owed = self.open.get(other) if other is not None else None
        if owed is None or owed.cancelled:
            return None
        owed.cancelled = True
        return owed

    def split(self, era: Era) -> Inbound:
        """Move the requests of an era to a new table. Their ids may be reused."""
        ended = Inbound({id: owed for id, owed in self.open.items() if owed.peer.revision.era is era})
        for id in ended.open:
            del self.open[id]
        return ended

    def abandon(self) -> None:
        """Abandon all requests: their session has ended. Nothing is sent for them, and their ids may be reused."""
        for owed in self.open.values():
            owed.cancelled = owed.abandoned = True


def advance(request: Asked | Owed, progress: float) -> bool:
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
