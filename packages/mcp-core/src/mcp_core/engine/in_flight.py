"""Who waits for what: request ids in both directions, progress tokens, cancellation.

`Asked` are our requests that the peer owes an answer, `Owed` the peer's that we owe one. The invariants:

- each of our requests ends exactly once: answered, failed, cancelled or abandoned;
- nothing is sent for a request of the peer after it was cancelled;
- progress goes only to live tokens, and only upwards.

The races of a cancellation are settled here: an answer that crosses our cancellation is dropped and noted, a
cancellation that crosses our answer is dropped without a word, as the specification wants it.

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
"""How many cancelled ids are remembered, to tell a late answer (expected) from an unknown id (a deviation)."""


@attrs.define(eq=False)
class Asked:
    """A request of ours that was sent and not answered."""

    id: RequestId
    row: Method[object, object]
    revision: Revision
    result: type
    """The class of the expected result."""
    token: RequestId | None = None
    """Its progress token, where progress was asked for."""
    augmented: bool = False
    """It shall run as a task (2025-11-25), so it is cancelled by `tasks/cancel`."""
    progress: float | None = None
    """The last progress that was received."""


@attrs.define(eq=False)
class Owed:
    """A request of the peer that was received and not answered."""

    id: RequestId
    row: Method[object, object]
    params: object
    peer: Peer
    token: RequestId | None = None
    """Its progress token, where progress was asked for."""
    progress: float | None = None
    """The last progress that was sent."""
    cancelled: bool = False
    """The peer no longer wants it, and nothing may be sent for it."""
    acknowledged: bool = False
    """A `subscriptions/listen` that was acknowledged."""
    abandoned: bool = False
    """It belonged to a session that is no more, so that its id is free."""


@attrs.define(eq=False)
class Outbound:
    """Our requests."""

    open: dict[RequestId, Asked] = attrs.field(factory=dict)
    _last: int = 0
    _cancelled: dict[RequestId, None] = attrs.field(factory=dict)
    _last_ended: int = 0
    """The last id that was given out before the running session began."""

    def ask(
        self, row: Method[object, object], revision: Revision, result: type, *, progress: bool, augmented: bool
    ) -> Asked:
        """A new request. Its id was never used on this connection; its token is the same number."""
        self._last += 1
        asked = Asked(self._last, row, revision, result, self._last if progress else None, augmented)
        self.open[asked.id] = asked
        return asked

    def find(self, id: RequestId | None) -> tuple[Asked | None, str | None]:
        """The request that an answer with `id` belongs to, and a note when it was not found straight away.

        Deployed peers return `"1"` for 1 or the reverse, and errors with `id: null`: the first is matched by its
        canonical form, the second when it can only mean one request.
        """
        if id is None:
            if len(self.open) == 1:
                return next(iter(self.open.values())), "the error has no id; it was taken for the only open request"
            return None, "an error without id belongs to no known request"
        if (asked := self.open.get(id)) is not None:
            return asked, None
        other = _other_form(id)
        if other is not None and (asked := self.open.get(other)) is not None:
            return asked, f"the answer's id is {quoted(id)} where {other!r} was sent"
        if id in self._cancelled or (other is not None and other in self._cancelled):
            return None, "the answer crossed our cancellation"
        if any(isinstance(form, int) and 0 < form <= self._last_ended for form in (id, other)):
            return None, "an answer to a request of a session that ended"
        return None, f"an answer with the unknown id {quoted(id)}"

    def settle(self, asked: Asked) -> None:
        """It was answered."""
        del self.open[asked.id]

    def cancel(self, id: RequestId) -> Asked | None:
        """We no longer want it: it is forgotten, and a late answer is expected. `None` when it is not open."""
        asked = self.open.pop(id, None)
        if asked is not None:
            self._cancelled[id] = None
            if len(self._cancelled) > _CANCELLED_REMEMBERED:
                del self._cancelled[next(iter(self._cancelled))]
        return asked

    def split(self) -> Outbound:
        """Move the open requests to a new table, since their session ended. Ids go on where they were."""
        ended = Outbound(self.open)
        self.open = {}
        self._cancelled.clear()
        self._last_ended = self._last
        return ended

    def with_token(self, token: RequestId) -> tuple[Asked | None, str | None]:
        """The open request with a progress token; deployed peers return `"2"` for 2."""
        for form in (token, _other_form(token)):
            asked = self.open.get(form) if form is not None else None
            if asked is not None and asked.token is not None:
                return (
                    asked,
                    None if form == token else f"the progress token is {quoted(token)} where {form!r} was sent",
                )
        return None, None


@attrs.define(eq=False)
class Inbound:
    """The peer's requests."""

    open: dict[RequestId, Owed] = attrs.field(factory=dict)

    def accept(self, owed: Owed) -> None:
        """A request came. Raises `Violation` when its id is in use."""
        known = self.open.get(owed.id)
        if known is not None and not known.abandoned:
            raise Violation(f"the request id {quoted(owed.id)} is in use", anchor="basic#requests")
        self.open[owed.id] = owed

    def get(self, id: RequestId) -> Owed:
        """The request that we owe an answer. Raises `LocalProtocolError` when there is none."""
        owed = self.open.get(id)
        if owed is None:
            raise LocalProtocolError(f"no answer is owed to a request with the id {id!r}", anchor="basic#responses")
        return owed

    def settle(self, id: RequestId) -> Owed:
        """It is answered, or its handler has ended after a cancellation."""
        owed = self.get(id)
        del self.open[id]
        return owed

    def cancel(self, id: RequestId) -> Owed | None:
        """The peer no longer wants it. `None` when it is unknown, answered or cancelled already."""
        owed = self.open.get(id)
        if owed is None:
            other = _other_form(id)
            owed = self.open.get(other) if other is not None else None
        if owed is None or owed.cancelled:
            return None
        owed.cancelled = True
        return owed

    def split(self, era: Era) -> Inbound:
        """Move the requests of an era to a new table. Their ids may come again."""
        ended = Inbound({id: owed for id, owed in self.open.items() if owed.peer.revision.era is era})
        for id in ended.open:
            del self.open[id]
        return ended

    def abandon(self) -> None:
        """The session that they came in is no more: nothing is sent for them, and their ids may come again."""
        for owed in self.open.values():
            owed.cancelled = owed.abandoned = True


def advance(request: Asked | Owed, progress: float) -> bool:
    """Takes down a progress value. False when it does not increase; then nothing is changed."""
    if request.progress is not None and progress <= request.progress:
        return False
    request.progress = progress
    return True


def _other_form(id: RequestId) -> RequestId | None:
    """The same id in the other JSON type, where there is one: `"1"` for 1, 1 for `"1"`."""
    if isinstance(id, int):
        return str(id)
    # Ids of ours are short: a longer text cannot be one of them, and `int` refuses texts beyond some thousand digits.
    return int(id) if id.isascii() and id.isdigit() and len(id) < 20 and str(int(id)) == id else None
