"""JSON-RPC batches: the revision that has them, and the responses to their members (2025-03-26)."""

from __future__ import annotations

from typing import Final

import orjson
import pytest
from engine_pair import ALL, TEXT, ConnectionPair, make_server, open_pair

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.codec import Batch, decode, encode
from mcp_core.engine.batch import BatchReply
from mcp_core.engine.events import RequestReceived
from mcp_core.errors import ErrorCode, MalformedMessage
from mcp_core.jsonrpc.messages import (
    ErrorResponse,
    JsonObject,
    JsonValue,
    Request,
    RequestId,
    Response,
    ResultResponse,
)
from mcp_core.methods import Side
from mcp_core.revisions import R2025_03_26, Revision

PING: Final[JsonObject] = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
CALL: Final[JsonObject] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
NOTIFICATION: Final[JsonObject] = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
INITIALIZE: Final[JsonObject] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}


def batch(*members: JsonValue) -> Batch:
    found = decode(orjson.dumps(list(members)))
    assert isinstance(found, Batch)
    return found


class BatchReceiver:
    """A receiver of batches in front of an engine, like in each channel."""

    def __init__(self, connectionsections: ConnectionPair) -> None:
        self.server = connectionsections.server
        self.events: dict[RequestId, RequestReceived] = {}
        self.replies: list[Batch] = []

    def receive(self, received: Batch) -> ErrorResponse | None:
        refusal = self.server.refuse_batch()
        if refusal is not None:
            return refusal
        self.reply = BatchReply(received)
        self._take(self.reply.immediate)
        for message in self.reply.messages:
            reaction = self.server.receive(message)
            if isinstance(reaction.event, RequestReceived):
                self.events[reaction.event.id] = reaction.event
            if reaction.reply is not None:
                self.answer(reaction.reply.message)
        return None

    def answer(self, message: object) -> None:
        assert isinstance(message, (ResultResponse, ErrorResponse))
        self._take(self.reply.add(message))

    def respond(self, id: RequestId) -> None:
        outgoing = self.server.respond(id, t.CallToolResult(content=(TEXT,)))
        if outgoing is None:
            self._take(self.reply.drop(id))
        else:
            self.answer(outgoing.message)

    def _take(self, replies: Batch | None) -> None:
        if replies is not None:
            self.replies.append(replies)

    @property
    def answers(self) -> list[Response]:
        (reply,) = self.replies
        return [each for each in reply.members if isinstance(each, (ResultResponse, ErrorResponse))]


@pytest.mark.spec("batch.receive")
@pytest.mark.parametrize("revision", ALL, ids=str)
def test_batches_allowed_only_in_2025_03_26(revision: Revision) -> None:
    both = open_pair(revision)
    for end in (both.client, both.server):
        refusal = end.refuse_batch()
        if revision is R2025_03_26:
            assert refusal is None
        else:
            assert refusal is not None
            assert refusal.id is None
            assert refusal.error.code == ErrorCode.INVALID_REQUEST
            assert "batch" in refusal.error.message


@pytest.mark.parametrize("revision", ALL, ids=str)
def test_batch_before_session_rejected(revision: Revision) -> None:
    refusal = make_server(revision).refuse_batch()
    assert refusal is not None
    assert "before the session was opened" in refusal.error.message


@pytest.mark.spec("batch.receive", "batch.responses-match-requests", "batch.stdio")
def test_batch_answered_after_last_member() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    receiver.receive(batch(CALL, NOTIFICATION, {**CALL, "id": "1"}, PING))
    assert list(receiver.events) == [1, "1"]
    assert receiver.replies == []
    receiver.respond("1")
    assert receiver.replies == []
    receiver.respond(1)
    assert [answer.id for answer in receiver.answers] == [1, "1", "p"]
    assert orjson.loads(encode(receiver.replies[0], null_id=True))[2] == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.spec("batch.no-initialize")
def test_initialize_in_batch_rejected() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    receiver.receive(batch(INITIALIZE, PING))
    rejection, pong = receiver.answers
    assert isinstance(rejection, ErrorResponse)
    assert rejection.id == 0
    assert rejection.error.code == ErrorCode.INVALID_REQUEST
    assert pong == ResultResponse("p", {})


@pytest.mark.spec("batch.empty-array")
def test_empty_batch_returns_one_error() -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(b"[]")
    assert caught.value.reply is not None
    assert caught.value.reply.error.code == ErrorCode.INVALID_REQUEST


@pytest.mark.spec("batch.responses-match-requests", "jsonrpc.notification-no-response")
def test_batch_of_notifications_has_no_reply() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    receiver.receive(batch(NOTIFICATION, NOTIFICATION))
    assert receiver.replies == []
    assert receiver.reply.pending == frozenset()


def test_malformed_members_answered_separately() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    receiver.receive(batch([PING], 5, {"jsonrpc": "2.0", "id": 4}, PING, CALL))
    receiver.respond(1)
    answers = receiver.answers
    assert [answer.id for answer in answers] == [None, None, 4, "p", 1]
    assert all(isinstance(answer, ErrorResponse) for answer in answers[:3])


def test_batch_repeated_id_rejected_once() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    receiver.receive(batch(CALL, CALL))
    receiver.respond(1)
    first, second = receiver.answers
    assert isinstance(first, ResultResponse)
    assert isinstance(second, ErrorResponse)


def test_rejected_members_answered_with_errors() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    receiver.receive(batch({**CALL, "method": "what"}, {**CALL, "id": 2, "params": {}}))
    assert [answer.error.code for answer in receiver.answers if isinstance(answer, ErrorResponse)] == [-32601, -32602]


@pytest.mark.spec("batch.responses-match-requests", "cancellation.no-response")
def test_cancelled_member_omitted_from_reply() -> None:
    receiver = BatchReceiver(open_pair(R2025_03_26))
    cancellation: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    receiver.receive(batch(CALL, PING, cancellation))
    receiver.respond(1)
    assert [answer.id for answer in receiver.answers] == ["p"]


def test_batch_of_responses_settles_requests() -> None:
    both = open_pair(R2025_03_26)
    ids = []
    for _ in range(2):
        outgoing = both.server.request(m.ROOTS_LIST, t.ListRootsRequestParams(), for_request=None).message
        assert isinstance(outgoing, Request)
        ids.append(outgoing.id)
    receiver = BatchReceiver(both)
    answers: list[JsonValue] = [{"jsonrpc": "2.0", "id": id, "result": {"roots": []}} for id in ids]
    receiver.receive(batch(*answers))
    assert both.server.outbound_requests == {}
    assert receiver.replies == []


@pytest.mark.spec("stdio.individual-messages")
def test_engines_never_send_batches() -> None:
    both = open_pair(R2025_03_26)
    both.respond(both.call(m.TOOLS_CALL).id, t.CallToolResult(content=()))
    assert {sent.sender for sent in both.wire} == {Side.CLIENT, Side.SERVER}
    assert all(isinstance(sent.message, dict) for sent in both.wire)
