"""The reply to a JSON-RPC batch: its pending requests, and the joined responses.

Spec: basic#batching (2025-03-26 only); JSON-RPC 2.0 section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch, stand_in
from mcp_core.errors import ErrorCode, LocalProtocolError, MalformedMessage
from mcp_core.field_methods import FieldRepr
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Request

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import Message, RequestId, Response

__all__ = ["BatchReply"]

_INITIALIZE: Final = "initialize"
"""The only request that must not be part of a batch. Spec: basic/lifecycle#initialization (2025-03-26)"""

_Key: TypeAlias = "tuple[type, RequestId]"
"""An id with its type: `True` and 1 are equal in Python."""


@attrs.define(init=False, eq=False, repr=False)
class BatchReply(FieldRepr):
    """A collector of the responses to one received batch.

    Send `immediate` if it is not `None`. Otherwise pass each of `messages` to the engine, and call `add` or `drop` for
    each request among them. The call for the last pending request returns the joined reply, in the order of the batch.

    Members that cannot be processed have a response from the start: invalid messages, a request with the id of an
    earlier one, and `initialize`. For a response that cannot be read, `messages` contains the result of `stand_in`.
    """

    messages: tuple[Message, ...]
    """The messages to process, in the order of the batch."""
    immediate: Batch | None
    """The whole reply, if no request is pending. Also `None` if nothing is ever to send, for example for a batch of
    notifications; `owed` is then empty."""
    refused: tuple[Response, ...]
    """The responses that exist from the start, for callers that do not join responses."""
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
                self._answers[place] = _refusal(member.id, "the id is already used by an earlier request of the batch")
            else:
                self._waiting.add(key)
                self._answers[key] = None
                messages.append(member)
        self.messages = tuple(messages)
        self.refused = tuple([answer for answer in self._answers.values() if answer is not None])
        self.immediate = self._joined()

    @property
    def pending(self) -> frozenset[RequestId]:
        """The ids of the requests that have no response and are not dropped."""
        return frozenset(request_id for _, request_id in self._waiting)

    def is_pending(self, request_id: RequestId) -> bool:
        """Return whether this request is pending. Ids are compared by type and value."""
        return _key(request_id) in self._waiting

    def add(self, response: Response) -> Batch | None:
        """Add the response to one request.

        Returns:
            The reply, if this was the last pending request; otherwise `None`.

        Raises:
            LocalProtocolError: The batch has no pending request with this id.
        """
        self._answers[self._settle(response.id)] = response
        return self._joined()

    def drop(self, request_id: RequestId) -> Batch | None:
        """Remove a request that was cancelled and has no response.

        Returns:
            The reply, if this was the last pending request and there is a response to send; otherwise `None`.

        Raises:
            LocalProtocolError: The batch has no pending request with this id.
        """
        self._settle(request_id)
        return self._joined()

    def _settle(self, request_id: RequestId | None) -> _Key:
        if request_id is None or _key(request_id) not in self._waiting:
            raise LocalProtocolError(f"the batch has no pending request with the id {request_id!r}")
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
