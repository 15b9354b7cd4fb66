"""Which answers an exchange waits for: the requests of one POST, until they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.errors import LimitExceeded, MalformedMessage
from mcp_core.jsonrpc.messages import Batch, ErrorResponse, Request, ResultResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.http.event_reader import Deviations, Received
    from mcp_core.jsonrpc.messages import Message, RequestId

__all__ = ["Awaited", "members"]


@attrs.define(eq=False)
class Awaited:
    """The requests of one exchange."""

    ids: set[RequestId]
    """Those that are not answered."""
    asked: bool
    """Whether there were any."""

    @classmethod
    def of(cls, message: Message | Batch | None) -> Awaited:
        """What a posted message waits for."""
        ids = {each.id for each in members(message) if isinstance(each, Request)}
        return cls(ids, asked=bool(ids))

    def copy(self) -> Awaited:
        """The same, to be taken down by another exchange."""
        return Awaited(set(self.ids), asked=self.asked)

    @property
    def only(self) -> RequestId | None:
        """The id of the only one; `None` when there are several, or none."""
        return next(iter(self.ids)) if len(self.ids) == 1 else None

    def take(self, what: Received, notes: Deviations) -> Received:
        """Takes down what is answered by `what`.

        Args:
            what: What came.
            notes: Takes a sentence for each deviation that was survived.

        Returns:
            The same; an error without id has the only id that it can have.
        """
        if isinstance(what, ErrorResponse) and what.id is None and self.only is not None:
            notes.note("the error has no id; it was taken for the answer")
            what = attrs.evolve(what, id=self.only)
        if isinstance(what, MalformedMessage) and what.answers is None and isinstance(what.__cause__, LimitExceeded):
            # Too large to be read, so its id is not known; of what comes in an exchange, the answer is the largest.
            what.answers = self.only
        for each in members(what):
            if isinstance(each, MalformedMessage):
                self._settle(each.answers)
            elif isinstance(each, ResultResponse | ErrorResponse):
                self._settle(each.id)
        return what

    def _settle(self, id: RequestId | None) -> None:
        if id not in self.ids:
            # Some servers write ids as text, or as numbers what was text: the engine understands them, so they count.
            id = next((awaited for awaited in self.ids if str(awaited) == str(id)), None)
        if id is not None:
            self.ids.discard(id)


def members(what: Received | None) -> Iterator[Message | MalformedMessage]:
    """The messages in something that came, or goes: one, those of a batch, or none."""
    if isinstance(what, Batch):
        yield from what.members
    elif what is not None:
        yield what
