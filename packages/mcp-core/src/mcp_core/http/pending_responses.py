"""Pending responses of one exchange: the requests of one POST without a response."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.codec import Batch
from mcp_core.errors import LimitExceeded, MalformedMessage
from mcp_core.jsonrpc.messages import ErrorResponse, Request, ResultResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.http.event_reader import Deviations, Received
    from mcp_core.jsonrpc.messages import Message, RequestId

__all__ = ["PendingResponses", "members"]


@attrs.define(eq=False)
class PendingResponses:
    """The pending requests of one exchange."""

    ids: set[RequestId]
    """The ids of the requests without a response."""
    has_requests: bool
    """Whether the exchange had requests."""

    @classmethod
    def of(cls, message: Message | Batch | None) -> PendingResponses:
        """Return the pending responses for a posted message."""
        if isinstance(message, Request):
            return cls({message.id}, has_requests=True)
        ids = {each.id for each in members(message) if isinstance(each, Request)}
        return cls(ids, has_requests=bool(ids))

    def copy(self) -> PendingResponses:
        """Return a copy for another exchange, independent of this one."""
        return PendingResponses(set(self.ids), has_requests=self.has_requests)

    @property
    def only(self) -> RequestId | None:
        """The id of the only pending request; `None` if there are several, or no pending requests."""
        return next(iter(self.ids)) if len(self.ids) == 1 else None

    def take(self, what: Received, notes: Deviations) -> Received:
        """Record the requests that have their response in `what`.

        Args:
            what: The received message.
            notes: Receives a sentence for each tolerated deviation.

        Returns:
            The message. An error without an id gets the id of the only pending request.
        """
        if isinstance(what, ErrorResponse) and what.id is None and self.only is not None:
            notes.note("the error has no id and was used as the response")
            what = attrs.evolve(what, id=self.only)
        if isinstance(what, MalformedMessage) and what.answers is None and isinstance(what.__cause__, LimitExceeded):
            # The message is too large to be parsed, so its id is unknown. In an exchange the response is the largest.
            what.answers = self.only
        for each in members(what) if isinstance(what, Batch) else (what,):
            if isinstance(each, MalformedMessage):
                self._settle(each.answers)
            elif isinstance(each, ResultResponse | ErrorResponse):
                if each.id in self.ids:
                    self.ids.remove(each.id)
                else:
                    self._settle(each.id)
        return what

    def _settle(self, id: RequestId | None) -> None:
        if id not in self.ids:
            # Some servers change strings to numbers or numbers to strings in ids. The engine accepts such ids too.
            id = next((awaited for awaited in self.ids if str(awaited) == str(id)), None)
        if id is not None:
            self.ids.discard(id)


def members(what: Received | None) -> Iterator[Message | MalformedMessage]:
    """Yield the messages of a received or posted item: one message, the members of a batch, or no message."""
    if isinstance(what, Batch):
        yield from what.members
    elif what is not None:
        yield what
