"""The combined reply to a batch: one response for each request, in the order of the batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.codec import Batch, decode
from mcp_core.engine.batch import BatchReply
from mcp_core.errors import LocalProtocolError, MalformedMessage
from mcp_core.jsonrpc.messages import (
    ErrorObject,
    ErrorResponse,
    Notification,
    Request,
    RequestId,
    Response,
    ResultResponse,
)

BAD = ErrorResponse(None, ErrorObject(-32600, "no"))


def _response(request_id: RequestId) -> ResultResponse:
    return ResultResponse(request_id, {"to": request_id})


@pytest.mark.spec("batch.responses-match-requests")
def test_batch_reply_complete_after_last_response_in_request_order() -> None:
    reply = BatchReply(Batch((Request("a", "x"), Notification("n"), Request(2, "y"))))

    assert reply.messages == (Request("a", "x"), Notification("n"), Request(2, "y"))
    assert reply.immediate is None
    assert reply.pending == {"a", 2}
    assert reply.add(_response(2)) is None
    assert reply.pending == {"a"}
    error = ErrorResponse("a", ErrorObject(1, "m"))
    assert reply.add(error) == Batch((error, _response(2)))
    assert reply.pending == frozenset()


@pytest.mark.spec("batch.http-202")
def test_batch_without_requests_has_no_reply() -> None:
    reply = BatchReply(Batch((Notification("a"), _response(1), Notification("b"))))

    assert reply.messages == (Notification("a"), _response(1), Notification("b"))
    assert (reply.immediate, reply.pending) == (None, frozenset())


def test_batch_of_malformed_messages_answered_immediately() -> None:
    members = (MalformedMessage("no", reply=BAD), Notification("n"), MalformedMessage("no", reply=None))

    reply = BatchReply(Batch(members))

    assert reply.messages == (Notification("n"),)
    assert reply.immediate == Batch((BAD,))
    assert reply.refused == (BAD,)


def test_malformed_response_in_batch_becomes_error_for_request() -> None:
    batch = decode(
        b'[{"jsonrpc":"2.0","id":7,"result":5},{"jsonrpc":"2.0","id":8},{"jsonrpc":"2.0","id":[],"result":5}]'
    )
    assert isinstance(batch, Batch)

    reply = BatchReply(batch)

    (failure,) = reply.messages
    assert isinstance(failure, ErrorResponse)
    assert failure.id == 7
    # The other member may also be a request, so it needs a response.
    (rejection,) = reply.refused
    assert rejection.id == 8


def test_batch_reply_malformed_members_keep_order() -> None:
    reply = BatchReply(Batch((Request(1, "x"), MalformedMessage("no", reply=BAD), Request(2, "y"))))

    assert reply.immediate is None
    assert reply.add(_response(2)) is None
    assert reply.add(_response(1)) == Batch((_response(1), BAD, _response(2)))


def test_batch_request_repeated_id_rejected() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(1, "y"), Request("1", "z"))))

    assert reply.messages == (Request(1, "x"), Request("1", "z"))
    assert reply.pending == {1, "1"}
    reply.add(_response("1"))
    replies = reply.add(_response(1))
    assert replies is not None
    rejection = ErrorResponse(1, ErrorObject(-32600, "the id is already used by an earlier request of the batch"))
    assert replies.members == (_response(1), rejection, _response("1"))


@pytest.mark.spec("batch.no-initialize")
def test_batch_initialize_rejected() -> None:
    reply = BatchReply(Batch((Request(1, "initialize"), Notification("initialize"))))

    assert reply.messages == (Notification("initialize"),)
    rejection = ErrorResponse(1, ErrorObject(-32600, "initialize must not be part of a batch"))
    assert reply.immediate == Batch((rejection,))


def test_batch_reply_omits_cancelled_request() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(2, "y"))))

    assert reply.add(_response(1)) is None
    assert reply.drop(2) == Batch((_response(1),))


def test_batch_all_requests_cancelled_has_no_reply() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(2, "y"))))

    assert reply.drop(1) is None
    assert reply.drop(2) is None
    assert not reply.pending


@pytest.mark.parametrize("other", [3, "1", True, 1.0, None])
def test_batch_request_ids_compared_by_type_and_value(other: RequestId) -> None:
    reply = BatchReply(Batch((Request(1, "x"),)))

    assert reply.is_pending(1)
    assert not reply.is_pending(other)
    with pytest.raises(LocalProtocolError, match="no pending request with the id"):
        reply.add(ErrorResponse(other, ErrorObject(1, "m")))
    with pytest.raises(LocalProtocolError, match="no pending request with the id"):
        reply.drop(other)
    assert reply.pending == {1}


def test_batch_request_second_response_raises() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(2, "y"))))

    reply.add(_response(1))
    with pytest.raises(LocalProtocolError):
        reply.add(_response(1))
    with pytest.raises(LocalProtocolError):
        reply.drop(1)
    assert reply.add(_response(2)) is not None


_members = st.sampled_from(
    [
        Request(1, "a"),
        Request("1", "b"),
        Request(2, "c"),
        Request(3, "initialize"),
        Notification("n"),
        MalformedMessage("no", reply=BAD),
        MalformedMessage("no", reply=None),
    ]
)


@pytest.mark.property
@given(st.lists(_members, min_size=1, max_size=8), st.data())
def test_batch_each_request_settled_once_replies_once(
    members: list[Request | Notification | MalformedMessage], data: st.DataObject
) -> None:
    reply = BatchReply(Batch(tuple(members)))
    given_out = [message.id for message in reply.messages if isinstance(message, Request)]
    assert reply.pending == set(given_out)
    replies = [reply.immediate]
    dropped = 0
    for request_id in data.draw(st.permutations(given_out)):
        if data.draw(st.booleans()):
            replies.append(reply.add(_response(request_id)))
        else:
            dropped += 1
            replies.append(reply.drop(request_id))

    assert not reply.pending
    assert all(early is None for early in replies[:-1])
    silent = sum(isinstance(m, Notification) or (isinstance(m, MalformedMessage) and m.reply is None) for m in members)
    expected = len(members) - silent - dropped
    last = replies[-1]
    assert (0 if last is None else len(last.members)) == expected


def test_batch_decoded_answered_completely() -> None:
    batch = decode(
        b'[1,{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":1,"method":"a"},{"id":true,"method":"b"}]'
    )
    assert isinstance(batch, Batch)
    reply = BatchReply(batch)

    replies = reply.add(_response(1))

    assert replies is not None
    answers: list[Response | MalformedMessage] = [
        m for m in replies.members if not isinstance(m, (Request, Notification))
    ]
    assert [type(answer) for answer in answers] == [ErrorResponse, ResultResponse, ErrorResponse, ErrorResponse]
