"""Batches: where they are allowed, and how their members are answered (2025-03-26)."""

from __future__ import annotations

from typing import Final

import orjson
import pytest
from engine_pair import ALL, TEXT, ConnectionPair, make_server, opened

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import RequestReceived
from mcp_core.errors import ErrorCode, MalformedMessage
from mcp_core.jsonrpc.batch import BatchReply
from mcp_core.jsonrpc.codec import decode, encode
from mcp_core.jsonrpc.messages import (
    Batch,
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
NOTICE: Final[JsonObject] = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
INITIALIZE: Final[JsonObject] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}


def batch(*members: JsonValue) -> Batch:
    found = decode(orjson.dumps(list(members)))
    assert isinstance(found, Batch)
    return found


class Edge:
    """What stands before an engine and knows batches: the rule of every link."""

    def __init__(self, both: ConnectionPair) -> None:
        self.server = both.server
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

    def _take(self, joined: Batch | None) -> None:
        if joined is not None:
            self.replies.append(joined)

    @property
    def answers(self) -> list[Response]:
        (reply,) = self.replies
        return [each for each in reply.members if isinstance(each, (ResultResponse, ErrorResponse))]


@pytest.mark.spec("batch.receive")
@pytest.mark.parametrize("revision", ALL, ids=str)
def test_batches_are_allowed_in_one_revision(revision: Revision) -> None:
    both = opened(revision)
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
def test_no_batch_is_allowed_before_the_session_is_open(revision: Revision) -> None:
    refusal = make_server(revision).refuse_batch()
    assert refusal is not None
    assert "before the session was opened" in refusal.error.message


@pytest.mark.spec("batch.receive", "batch.responses-match-requests", "batch.stdio")
def test_members_are_answered_together_once_the_last_one_is() -> None:
    edge = Edge(opened(R2025_03_26))
    edge.receive(batch(CALL, NOTICE, {**CALL, "id": "1"}, PING))
    assert list(edge.events) == [1, "1"]
    assert edge.replies == []
    edge.respond("1")
    assert edge.replies == []
    edge.respond(1)
    assert [answer.id for answer in edge.answers] == [1, "1", "p"]
    assert orjson.loads(encode(edge.replies[0], null_id=True))[2] == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.spec("batch.no-initialize")
def test_the_handshake_is_never_a_member() -> None:
    edge = Edge(opened(R2025_03_26))
    edge.receive(batch(INITIALIZE, PING))
    refused, pong = edge.answers
    assert isinstance(refused, ErrorResponse)
    assert refused.id == 0
    assert refused.error.code == ErrorCode.INVALID_REQUEST
    assert pong == ResultResponse("p", {})


@pytest.mark.spec("batch.empty-array")
def test_an_empty_batch_is_one_error() -> None:
    with pytest.raises(MalformedMessage) as refused:
        decode(b"[]")
    assert refused.value.reply is not None
    assert refused.value.reply.error.code == ErrorCode.INVALID_REQUEST


@pytest.mark.spec("batch.responses-match-requests", "jsonrpc.notification-no-response")
def test_a_batch_of_notifications_is_not_answered() -> None:
    edge = Edge(opened(R2025_03_26))
    edge.receive(batch(NOTICE, NOTICE))
    assert edge.replies == []
    assert edge.reply.pending == frozenset()


def test_members_that_are_no_messages_are_answered_one_by_one() -> None:
    edge = Edge(opened(R2025_03_26))
    edge.receive(batch([PING], 5, {"jsonrpc": "2.0", "id": 4}, PING, CALL))
    edge.respond(1)
    answers = edge.answers
    assert [answer.id for answer in answers] == [None, None, 4, "p", 1]
    assert all(isinstance(answer, ErrorResponse) for answer in answers[:3])


def test_an_id_that_comes_twice_in_a_batch_is_refused_once() -> None:
    edge = Edge(opened(R2025_03_26))
    edge.receive(batch(CALL, CALL))
    edge.respond(1)
    first, second = edge.answers
    assert isinstance(first, ResultResponse)
    assert isinstance(second, ErrorResponse)


def test_refused_members_are_answered_by_their_errors() -> None:
    edge = Edge(opened(R2025_03_26))
    edge.receive(batch({**CALL, "method": "what"}, {**CALL, "id": 2, "params": {}}))
    assert [answer.error.code for answer in edge.answers if isinstance(answer, ErrorResponse)] == [-32601, -32602]


@pytest.mark.spec("batch.responses-match-requests", "cancellation.no-response")
def test_a_cancelled_member_is_left_out_of_the_answer() -> None:
    edge = Edge(opened(R2025_03_26))
    cancellation: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    edge.receive(batch(CALL, PING, cancellation))
    edge.respond(1)
    assert [answer.id for answer in edge.answers] == ["p"]


def test_a_batch_of_answers_settles_our_requests() -> None:
    both = opened(R2025_03_26)
    ids = []
    for _ in range(2):
        outgoing = both.server.request(m.ROOTS_LIST, t.ListRootsRequestParams(), for_request=None).message
        assert isinstance(outgoing, Request)
        ids.append(outgoing.id)
    edge = Edge(both)
    answers: list[JsonValue] = [{"jsonrpc": "2.0", "id": id, "result": {"roots": []}} for id in ids]
    edge.receive(batch(*answers))
    assert both.server.outbound_requests == {}
    assert edge.replies == []


@pytest.mark.spec("stdio.individual-messages")
def test_we_never_send_batches() -> None:
    both = opened(R2025_03_26)
    both.respond(both.call(m.TOOLS_CALL).id, t.CallToolResult(content=()))
    assert {sent.sender for sent in both.wire} == {Side.CLIENT, Side.SERVER}
    assert all(isinstance(sent.message, dict) for sent in both.wire)
