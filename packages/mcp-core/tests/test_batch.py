"""The joined reply to a batch: one answer for each request, none for the rest, in the order of the batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LocalProtocolError, MalformedMessage
from mcp_core.jsonrpc.batch import BatchReply
from mcp_core.jsonrpc.codec import decode
from mcp_core.jsonrpc.messages import (
    Batch,
    ErrorObject,
    ErrorResponse,
    Notification,
    Request,
    RequestId,
    Response,
    ResultResponse,
)

BAD = ErrorResponse(None, ErrorObject(-32600, "no"))


def _answer(request_id: RequestId) -> ResultResponse:
    return ResultResponse(request_id, {"to": request_id})


@pytest.mark.spec("batch.responses-match-requests")
def test_the_reply_comes_with_the_last_answer_in_the_order_of_the_requests() -> None:
    reply = BatchReply(Batch((Request("a", "x"), Notification("n"), Request(2, "y"))))

    assert reply.messages == (Request("a", "x"), Notification("n"), Request(2, "y"))
    assert reply.immediate is None
    assert reply.pending == {"a", 2}
    assert reply.add(_answer(2)) is None
    assert reply.pending == {"a"}
    error = ErrorResponse("a", ErrorObject(1, "m"))
    assert reply.add(error) == Batch((error, _answer(2)))
    assert reply.pending == frozenset()


@pytest.mark.spec("batch.http-202")
def test_a_batch_without_requests_is_not_answered() -> None:
    reply = BatchReply(Batch((Notification("a"), _answer(1), Notification("b"))))

    assert reply.messages == (Notification("a"), _answer(1), Notification("b"))
    assert (reply.immediate, reply.pending) == (None, frozenset())


def test_what_is_no_message_is_answered_from_the_start() -> None:
    members = (MalformedMessage("no", reply=BAD), Notification("n"), MalformedMessage("no", reply=None))

    reply = BatchReply(Batch(members))

    assert reply.messages == (Notification("n"),)
    assert reply.immediate == Batch((BAD,))
    assert reply.refused == (BAD,)


def test_an_answer_in_a_batch_that_cannot_be_read_is_an_error_for_who_waits_for_it() -> None:
    batch = decode(
        b'[{"jsonrpc":"2.0","id":7,"result":5},{"jsonrpc":"2.0","id":8},{"jsonrpc":"2.0","id":[],"result":5}]'
    )
    assert isinstance(batch, Batch)

    reply = BatchReply(batch)

    (failure,) = reply.messages
    assert isinstance(failure, ErrorResponse)
    assert failure.id == 7
    # The other one may be a request just as well, so it has to be answered.
    (refusal,) = reply.refused
    assert refusal.id == 8


def test_bad_members_keep_their_place_among_the_answers() -> None:
    reply = BatchReply(Batch((Request(1, "x"), MalformedMessage("no", reply=BAD), Request(2, "y"))))

    assert reply.immediate is None
    assert reply.add(_answer(2)) is None
    assert reply.add(_answer(1)) == Batch((_answer(1), BAD, _answer(2)))


def test_a_second_request_with_the_same_id_is_refused() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(1, "y"), Request("1", "z"))))

    assert reply.messages == (Request(1, "x"), Request("1", "z"))
    assert reply.pending == {1, "1"}
    reply.add(_answer("1"))
    joined = reply.add(_answer(1))
    assert joined is not None
    refusal = ErrorResponse(1, ErrorObject(-32600, "the id is already used by an earlier request of the batch"))
    assert joined.members == (_answer(1), refusal, _answer("1"))


@pytest.mark.spec("batch.no-initialize")
def test_initialize_is_refused_in_a_batch() -> None:
    reply = BatchReply(Batch((Request(1, "initialize"), Notification("initialize"))))

    assert reply.messages == (Notification("initialize"),)
    refusal = ErrorResponse(1, ErrorObject(-32600, "initialize must not be part of a batch"))
    assert reply.immediate == Batch((refusal,))


def test_a_cancelled_request_is_not_answered() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(2, "y"))))

    assert reply.add(_answer(1)) is None
    assert reply.drop(2) == Batch((_answer(1),))


def test_nothing_is_sent_when_all_requests_are_cancelled() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(2, "y"))))

    assert reply.drop(1) is None
    assert reply.drop(2) is None
    assert not reply.pending


@pytest.mark.parametrize("stranger", [3, "1", True, 1.0, None])
def test_ids_are_compared_by_type_and_value(stranger: RequestId) -> None:
    reply = BatchReply(Batch((Request(1, "x"),)))

    assert reply.is_pending(1)
    assert not reply.is_pending(stranger)
    with pytest.raises(LocalProtocolError, match="no pending request with the id"):
        reply.add(ErrorResponse(stranger, ErrorObject(1, "m")))
    with pytest.raises(LocalProtocolError, match="no pending request with the id"):
        reply.drop(stranger)
    assert reply.pending == {1}


def test_a_request_is_answered_once() -> None:
    reply = BatchReply(Batch((Request(1, "x"), Request(2, "y"))))

    reply.add(_answer(1))
    with pytest.raises(LocalProtocolError):
        reply.add(_answer(1))
    with pytest.raises(LocalProtocolError):
        reply.drop(1)
    assert reply.add(_answer(2)) is not None


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
def test_each_request_is_settled_once_and_the_reply_comes_once(
    members: list[Request | Notification | MalformedMessage], data: st.DataObject
) -> None:
    reply = BatchReply(Batch(tuple(members)))
    given_out = [message.id for message in reply.messages if isinstance(message, Request)]
    assert reply.pending == set(given_out)
    joined = [reply.immediate]
    dropped = 0
    for request_id in data.draw(st.permutations(given_out)):
        if data.draw(st.booleans()):
            joined.append(reply.add(_answer(request_id)))
        else:
            dropped += 1
            joined.append(reply.drop(request_id))

    assert not reply.pending
    assert all(early is None for early in joined[:-1])
    silent = sum(isinstance(m, Notification) or (isinstance(m, MalformedMessage) and m.reply is None) for m in members)
    expected = len(members) - silent - dropped
    last = joined[-1]
    assert (0 if last is None else len(last.members)) == expected


def test_a_decoded_batch_is_answered_in_full() -> None:
    batch = decode(
        b'[1,{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":1,"method":"a"},{"id":true,"method":"b"}]'
    )
    assert isinstance(batch, Batch)
    reply = BatchReply(batch)

    joined = reply.add(_answer(1))

    assert joined is not None
    answers: list[Response | MalformedMessage] = [
        m for m in joined.members if not isinstance(m, (Request, Notification))
    ]
    assert [type(answer) for answer in answers] == [ErrorResponse, ResultResponse, ErrorResponse, ErrorResponse]
