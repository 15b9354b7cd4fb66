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


_HEADS = (
    b"HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nDate: later\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 3\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nDate: today\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=9\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=7\r\nTransfer-Encoding: chunked\r\n\r\n",
)


@pytest.mark.property
@given(answers=st.lists(st.tuples(st.sampled_from(("GET", "POST", "HEAD")), st.sampled_from(_HEADS)), max_size=8))
def test_repeated_response_heads_read_as_on_fresh_connection(answers: list[tuple[str, bytes]]) -> None:
    async def read(exchanges: list[tuple[str, bytes]]) -> tuple[object, ...]:
        """Return the last response of a connection, and the idle time that it announced."""
        ours, theirs = trio.socket.socketpair()
        connection = HttpConnection(trio.SocketStream(ours), ours, 1_024, "http://a")
        response: tuple[object, ...] = ()
        for method, head in exchanges:
            body = b"hey"[: 3 if b"Length: 3" in head else 2]
            sent = head if method == "HEAD" else head + (b"2\r\nhe\r\n0\r\n\r\n" if b"chunked" in head else body)
            await theirs.send(sent)
            found = await connection.exchange(method, b"request")
            received = b""
            while data := await connection.receive_some():
                received += data
            assert connection.recycle()
            response = (found.status, found.headers, received)
        theirs.close()
        connection.close()
        return (*response, connection.idle_seconds)

    announced = None
    for count, each in enumerate(answers, 1):
        *response, idle = trio.run(read, answers[:count])
        *expected, alone = trio.run(read, [each])
        announced = alone or announced
        assert response == expected
        assert idle == announced


_CALL_HEADERS = [("Mcp-Method", "tools/call"), ("Authorization", "Bearer a")]


@pytest.mark.property
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(("GET", "POST")),
            st.sampled_from(("http://a.example/", "http://a.example/mcp", "http://b.example/")),
            st.sampled_from(((), _CALL_HEADERS, [*_CALL_HEADERS[:1], ("Authorization", "Bearer b")])),
            st.sampled_from((None, b"", b"{}", b"{ }")),
        ),
        max_size=8,
    )
)
def test_repeated_request_heads_written_as_by_new_pool(
    calls: list[tuple[str, str, list[tuple[str, str]], bytes | None]],
) -> None:
    async def sent_by(*, shared: bool) -> list[bytes]:
        sent: list[bytes] = []

        async def connect(host: str, port: int) -> trio.SocketStream:
            ours, theirs = trio.socket.socketpair()
            nursery.start_soon(serve, trio.SocketStream(theirs))
            return trio.SocketStream(ours)

        async def serve(stream: trio.SocketStream) -> None:
            async with stream:
                while data := await stream.receive_some():
                    sent.append(bytes(data))
                    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        mutable: list[tuple[str, str]] = []
        async with trio.open_nursery() as nursery:
            pool = HttpPool(proxies=False, connect=connect)
            for method, url, headers, body in calls:
                if not shared:
                    await pool.aclose()
                    pool = HttpPool(proxies=False, connect=connect)
                # The same list, with other content.
                mutable[:] = headers
                async with pool.request(method, url, mutable, body) as response:
                    await response.read(99)
            await pool.aclose()
        return sent

    assert trio.run(partial(sent_by, shared=True)) == trio.run(partial(sent_by, shared=False))


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
