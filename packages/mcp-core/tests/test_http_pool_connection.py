from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.trio.http_client.connection import HttpConnection, write_request
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.pool import HttpPool

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\nhello world",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
)


async def _exchange(pieces: list[bytes], *, close: bool) -> bytes | HttpConnectionEnded:
    """Return the body of a response that arrives in these pieces, or the error."""
    ours, theirs = trio.socket.socketpair()

    async def connect(host: str, port: int) -> trio.SocketStream:
        return trio.SocketStream(ours)

    async def serve() -> None:
        stream = trio.SocketStream(theirs)
        await stream.receive_some()
        for piece in pieces:
            await stream.send_all(piece)
            await trio.testing.wait_all_tasks_blocked()
        if close:
            await stream.aclose()

    pool = HttpPool(proxies=False, connect=connect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            async with pool.request("POST", "http://mcp.example/", (), b"{}") as response:
                outcome: bytes | HttpConnectionEnded = await response.read(99)
        except HttpConnectionEnded as error:
            outcome = error
    assert pool._policy.busy == 0
    assert len(pool._open) == pool._policy.idle == (isinstance(outcome, bytes) and not close)
    await pool.aclose()
    theirs.close()
    assert ours.fileno() == -1
    return outcome


@pytest.mark.parametrize("answer", ANSWERS, ids=["length", "chunks", "informational"])
def test_response_cut_anywhere_raises(answer: bytes) -> None:
    for cut in range(len(answer)):
        error = trio.run(partial(_exchange, [answer[:cut]] if cut else [], close=True))
        assert isinstance(error, HttpConnectionEnded), cut
        assert error.sent
        assert error.begun is (cut > 0)


@pytest.mark.property
@given(answer=st.sampled_from(ANSWERS), cuts=st.sets(st.integers(1, 60), max_size=8))
def test_response_in_any_pieces_read(answer: bytes, cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(answer)]
    pieces = [answer[start:end] for start, end in pairwise(edges) if answer[start:end]]
    assert trio.run(lambda: _exchange(pieces, close=False)) == b"hello world"


@pytest.mark.property
@given(answers=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=5))
def test_responses_of_all_forms_share_connection(answers: list[bytes]) -> None:
    # One with a known length is not read by h11, and the others are.
    async def main() -> None:
        ours, theirs = trio.socket.socketpair()

        async def connect(host: str, port: int) -> trio.SocketStream:
            return trio.SocketStream(ours)

        async def serve() -> None:
            stream = trio.SocketStream(theirs)
            for answer in answers:
                await stream.receive_some()
                await stream.send_all(answer)

        pool = HttpPool(proxies=False, connect=connect)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            for _ in answers:
                async with pool.request("POST", "http://mcp.example/", (), b"{}") as response:
                    assert await response.read(99) == b"hello world"
                assert pool._policy.idle == 1
        await pool.aclose()
        theirs.close()

    trio.run(main)


@pytest.mark.property
@given(data=st.one_of(st.binary(max_size=200), st.binary(max_size=80).map(b"HTTP/1.1 200 OK\r\n".__add__)))
def test_response_any_bytes_has_outcome(data: bytes) -> None:
    outcome = trio.run(lambda: _exchange([data] if data else [], close=True))
    assert isinstance(outcome, (bytes, HttpConnectionEnded))


_TEXT = st.text(st.characters(max_codepoint=0x17F), max_size=12)


@pytest.mark.property
@given(headers=st.lists(st.tuples(_TEXT, _TEXT), max_size=4), body=st.none() | st.binary(max_size=9))
def test_request_has_given_headers_or_is_rejected(headers: list[tuple[str, str]], body: bytes | None) -> None:
    import h11

    try:
        data = write_request("POST", "/mcp", "a.example", headers, body)
    except LocalProtocolError:
        return
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    request = reader.next_event()
    assert isinstance(request, h11.Request)
    expected = {"host", "accept-encoding", *(name.lower() for name, _ in headers)}
    assert {name.decode() for name, _ in request.headers} == expected | (
        {"content-length"} if body is not None else set()
    )
    assert len(list(request.headers)) == len(data.split(b"\r\n\r\n")[0].split(b"\r\n")) - 1
    for name, value in headers:
        assert (name.lower().encode(), value.encode("latin-1")) in list(request.headers) or name.lower() == "host"
    event = reader.next_event()
    if body:
        assert isinstance(event, h11.Data)
        assert bytes(event.data) == body


async def test_idle_connection_closed_by_peer_is_stale() -> None:
    ours, theirs = trio.socket.socketpair()
    connection = HttpConnection(trio.SocketStream(ours), ours, 1_024, "http://a")
    assert not connection.is_stale()
    theirs.close()
    assert connection.is_stale()
    connection.close()
    connection.close()


async def test_response_head_at_limit_accepted() -> None:
    for extra, allowed in ((0, True), (1, False)):
        ours, theirs = trio.socket.socketpair()
        connection = HttpConnection(trio.SocketStream(ours), ours, 1_024, "http://a")
        start = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: "
        head = start + b"x" * (1_024 - len(start) - 4 + extra) + b"\r\n\r\n"
        await theirs.send(head)
        if allowed:
            assert (await connection.exchange("GET", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")).status == 200
        else:
            with pytest.raises(LimitExceeded) as refused:
                await connection.exchange("GET", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert refused.value.observed == 1_025
        connection.close()
        theirs.close()
