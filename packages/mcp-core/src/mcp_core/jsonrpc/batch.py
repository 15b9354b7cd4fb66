"""The answer to a batch: which of its requests are not answered yet, and the joined reply.

Spec: basic#batching (2025-03-26 only); JSON-RPC 2.0 section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import ErrorCode, LocalProtocolError, MalformedMessage
from mcp_core.jsonrpc.codec import stand_in
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse, Request

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import Message, RequestId, Response

__all__ = ["BatchReply"]

_INITIALIZE: Final = "initialize"
"""The one request that must not be part of a batch. Spec: basic/lifecycle#initialization (2025-03-26)"""

_Key: TypeAlias = "tuple[type, RequestId]"
"""An id by type and value: Python takes `True` and 1 for the same."""


@attrs.define(init=False, eq=False)
class BatchReply:
    """Collects the answers to one received batch.

    Send `immediate` if there is one. Else give each of `messages` to the engine, and call `add` or `drop` for each
    request among them: the call that settles the last one returns the joined reply, in the order of the batch.

    What cannot be processed is answered from the start: members that are no valid message, a request with the id of
    an earlier one, and `initialize`. For an answer that cannot be read, `messages` has what `stand_in` gives.
    """

    messages: tuple[Message, ...]
    """What is to be processed, in the order of the batch."""
    immediate: Batch | None
    """The whole reply, if no answer has to be waited for. `None` also when nothing is ever to be sent, as for a batch
    of notifications: then `owed` is empty."""
    refused: tuple[Response, ...]
    """The answers from the start, for those who do not join them with the others."""
    _answers: dict[_Key | int, Response | None]
    _waiting: set[_Key]

    def __init__(self, batch: Batch) -> None:
        messages: list[Message] = []
        self._answers = {}
        self._waiting = set()
        for place, member in enumerate(batch.members):
            if isinstance(member, MalformedMessage):
                self._answers[place] = member.reply
                failure = stand_in(member)
                if failure is not None and member.reply is None:
                    messages.append(failure)
            elif not isinstance(member, Request):
                messages.append(member)
            elif member.method == _INITIALIZE:
                self._answers[place] = _refusal(member.id, "initialize must not be part of a batch")
            elif (key := _key(member.id)) in self._waiting:
                self._answers[place] = _refusal(member.id, "the id is that of an earlier request of the batch")
            else:
                self._waiting.add(key)
                self._answers[key] = None
                messages.append(member)
        self.messages = tuple(messages)
        self.refused = tuple([answer for answer in self._answers.values() if answer is not None])
        self.immediate = self._joined()

    @property
    def owed(self) -> frozenset[RequestId]:
        """The ids of the requests that are neither answered nor dropped."""
        return frozenset(request_id for _, request_id in self._waiting)

    def owes(self, request_id: RequestId) -> bool:
        """Whether this request is neither answered nor dropped; ids are compared by type and value."""
        return _key(request_id) in self._waiting

    def add(self, response: Response) -> Batch | None:
        """Takes the answer to one request.

        Returns:
            The reply, if this was the last answer.

        Raises:
            LocalProtocolError: The batch is not waiting for it.
        """
        self._answers[self._settle(response.id)] = response
        return self._joined()

    def drop(self, request_id: RequestId) -> Batch | None:
        """Takes note that a request was cancelled and gets no answer.

        Returns:
            The reply, if it waited for nothing else.

        Raises:
            LocalProtocolError: The batch is not waiting for an answer to it.
        """
        self._settle(request_id)
        return self._joined()

    def _settle(self, request_id: RequestId | None) -> _Key:
        if request_id is None or _key(request_id) not in self._waiting:
            raise LocalProtocolError(f"the batch is not waiting for an answer to the id {request_id!r}")
        key = _key(request_id)
        self._waiting.remove(key)
        return key

    def _joined(self) -> Batch | None:
        if self._waiting:
            return None
        answers = tuple([answer for answer in self._answers.values() if answer is not None])
        return Batch(answers) if answers else None


def _key(request_id: RequestId) -> _Key:
    return type(request_id), request_id


def _refusal(request_id: RequestId, message: str) -> ErrorResponse:
    return ErrorResponse(request_id, ErrorObject(int(ErrorCode.INVALID_REQUEST), message))
