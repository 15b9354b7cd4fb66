"""The request heads that the host parses itself: the result equals that of h11, and all other heads are left to h11."""

from __future__ import annotations

import itertools

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_core.http.messages import Headers
from mcp_server.host.http1 import BodyReader, Head, HeadReader, RepeatedHead, RequestHeadRejected, read_common

LIMIT = 1_000
HOST = b"Host: h\r\n"


def drain_body(reader: BodyReader) -> tuple[bytes, bool, object]:
    """Return the available body, whether it is complete, and the state of the client after it."""
    body = b""
    while isinstance(event := reader.next_event(), h11.Data):
        body += event.data
    assert event is h11.NEED_DATA or isinstance(event, h11.EndOfMessage)
    assert not reader.they_are_waiting_for_100_continue
    return body, event is not h11.NEED_DATA, reader.their_state if event is not h11.NEED_DATA else None


def by_h11(data: bytes) -> tuple[Head, h11.Connection]:
    """Return the head as parsed by h11, and the parser. Raises `h11.RemoteProtocolError`."""
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    request = parser.next_event()
    assert isinstance(request, h11.Request), request
    headers = [(name.lower(), value) for name, value in request.headers.raw_items()]
    return Head(request.method, request.target, request.http_version, headers), parser


# --- the common form -------------------------------------------------------------------------------------------------


def test_common_request_parsed_like_h11() -> None:
    data = (
        b"POST /mcp?x=%20 HTTP/1.1\r\nHost: h:1\r\nX-A:\t one  two \t\r\nx-a:\r\nx-b: \xe9\r\n"
        b"content-length: 5\r\nConnection: Keep-Alive\r\n\r\nhelloPOST"
    )
    common = read_common(data, LIMIT)
    assert common is not None
    head, body = common
    assert head == Head(
        b"POST",
        b"/mcp?x=%20",
        b"1.1",
        [
            (b"host", b"h:1"),
            (b"x-a", b"one  two"),
            (b"x-a", b""),
            (b"x-b", b"\xe9"),
            (b"content-length", b"5"),
            (b"connection", b"Keep-Alive"),
        ],
    )
    assert drain_body(body) == (b"hello", True, h11.DONE)
    assert body.trailing_data == (b"POST", False)
    assert by_h11(data)[0] == head


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"POST /mcp HTTP/1.1\r\nHost: h\r\n",
        b"POST /mcp HTTP/1.1\nHost: h\n\n",
        b"POST /mcp HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n\r\n",
        b"POST /mcp HTTP/1.0\r\nHost: h\r\n\r\n",
        b"POST /mcp HTTP/2.0\r\nHost: h\r\n\r\n",
        b"POST /mcp HTTP/1.1 \r\nHost: h\r\n\r\n",
        b"POST  /mcp HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /m\tcp HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /m\xe9 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST http://h/mcp HTTP/1.1\r\nHost: h\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        b"CONNECT /mcp HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PO ST /mcp HTTP/1.1\r\nHost: h\r\n\r\n",
        b"P\xd6ST /mcp HTTP/1.1\r\nHost: h\r\n\r\n",
        *[
            b"POST /mcp HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % line
            for line in (
                b"Host: h",
                b" folded: x",
                b"X: y\r\n\tfolded",
                b"X : y",
                b": y",
                b"X",
                b"X: \0",
                b"X: \x7f",
                b"X: a\x0bb",
                b"X\xe9: y",
                b"Content-Length: -1",
                b"Content-Length: +1",
                b"Content-Length: 1_0",
                b"Content-Length: 1, 1",
                b"Content-Length: \xb2",
                b"Content-Length:",
                b"Content-Length: 1234567890123456",
                b"Content-Length: 1\r\nContent-Length: 1",
                b"Content-Length: 1\r\nContent-Length: 2",
                b"Transfer-Encoding: chunked",
                b"Content-Length: 1\r\nTransfer-Encoding: chunked",
                b"Expect: 100-continue",
                b"Upgrade: websocket",
                b"Connection: close",
                b"Connection: keep-alive\r\nConnection: close",
                b"Connection: keep-alive, close",
            )
        ],
    ],
)
def test_uncommon_request_head_left_to_h11(head: bytes) -> None:
    assert read_common(head, LIMIT) is None
    assert read_common(head + b"x" * LIMIT, LIMIT) is None


def test_request_head_limited_to_size() -> None:
    head = b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n"
    for size in (LIMIT - 1, LIMIT):
        assert read_common(head % (b"x" * (size - len(head) + 2)), LIMIT) is not None
    assert read_common(head % (b"x" * (LIMIT + 1 - len(head) + 2)), LIMIT) is None


def test_request_head_almost_matching_parsed_in_linear_time() -> None:
    # With quadratic time this test would not end.
    for line in (b" " * 60_000, b"a" * 60_000, b"a " * 30_000, b":" * 60_000, b"a:" * 30_000, b"\r\na" * 20_000):
        for end in (b"\0", b"\r", b"\n"):
            assert read_common(b"GET / HTTP/1.1\r\nHost: h\r\nX: %b%b\r\n\r\n" % (line, end), 100_000) is None
            assert read_common(b"GET /%b%b HTTP/1.1\r\nHost: h\r\n\r\n" % (line, end), 100_000) is None
            assert read_common(b"%b%b / HTTP/1.1\r\nHost: h\r\n\r\n" % (line, end), 100_000) is None


NAMES = st.sampled_from(
    [
        b"Host",
        b"host",
        b"Accept",
        b"Content-Length",
        b"content-length",
        b"Transfer-Encoding",
        b"Connection",
        b"Expect",
        b"Upgrade",
        b"X-A",
        b" X",
        b"X ",
        b"",
        b"\xe9",
    ]
)
VALUES = st.one_of(
    st.sampled_from(
        [b"h", b"0", b"3", b"03", b"3, 3", b"+3", b"chunked", b"close", b"keep-alive", b"100-continue", b""]
    ),
    st.binary(max_size=6),
)
LINES = st.builds(
    lambda name, colon, value, end: name + colon + value + end,
    NAMES,
    st.sampled_from([b":", b": ", b":\t", b" : ", b""]),
    VALUES,
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b" \r\n", b"\r\n "]),
)
STARTS = st.builds(
    lambda method, target, version: b"%b %b %b\r\n" % (method, target, version),
    st.sampled_from([b"POST", b"GET", b"CONNECT", b"HEAD", b"post", b"P(T", b""]),
    st.one_of(st.sampled_from([b"/", b"/mcp?a=b#c", b"*", b"http://h/"]), st.binary(max_size=4).map(b"/".__add__)),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.11", b"http/1.1"]),
)


@settings(max_examples=400)
@given(start=STARTS, lines=st.lists(LINES, max_size=4), rest=st.sampled_from([b"", b"abc", b"abcdef", b"\r\n\r\nabc"]))
def test_random_request_parsed_like_h11(start: bytes, lines: list[bytes], rest: bytes) -> None:
    data = start + HOST + b"".join(lines) + b"\r\n" + rest
    common = read_common(data, LIMIT)
    if common is None:
        return
    head, body = common
    expected, parser = by_h11(data)
    assert head == expected
    assert drain_body(body) == drain_body(parser)
    assert body.trailing_data == parser.trailing_data


# --- repeated heads --------------------------------------------------------------------------------------------------


def repeated(data: bytes) -> RepeatedHead:
    """Return the kept head of a request of the common form."""
    common = read_common(data, LIMIT)
    assert common is not None
    return RepeatedHead(data[: data.index(b"\r\n\r\n") + 4], common[0], common[1].length)


REPEATS = st.builds(
    lambda target, lines, length, end, rest: (
        b"POST %b HTTP/1.1\r\nHost: h\r\n%b%b%b\r\n%b" % (target, lines, length, end, rest)
    ),
    st.sampled_from([b"/", b"/a"]),
    st.sampled_from([b"", b"Mcp-Name: a\r\n", b"mcp-name: a\r\n", b"Mcp-Name: b\r\n", b"X: content-length: 1\r\n"]),
    st.one_of(
        st.sampled_from([b"", b"Content-Length: 3 \r\n", b"Content-Length:3\r\n", b"content-length: 03\r\n"]),
        st.integers(0, 30).map(lambda size: b"Content-Length: %d\r\n" % size),
        st.binary(max_size=3).map(lambda value: b"Content-Length: %b\r\n" % value),
    ),
    st.sampled_from(
        [
            b"",
            b"",
            b"Authorization: a\r\n",
            b"Authorization: b\r\n",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Connection: close\r\n",
            b" folded\r\n",
        ]
    ),
    st.sampled_from([b"", b"abc", b"\r\n\r\nabc", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"]),
)


@settings(max_examples=500)
@given(requests=st.lists(st.tuples(REPEATS, st.integers(0, 20)), min_size=2, max_size=8), limit=st.integers(30, 120))
def test_repeated_head_parsed_like_a_new_one(requests: list[tuple[bytes, int]], limit: int) -> None:
    kept: RepeatedHead | None = None
    for whole, missing in requests:
        data = whole[: len(whole) - missing] if missing > 10 else whole
        fresh = read_common(data, limit)
        again = None if kept is None else kept.read(data, limit)
        if again is not None:
            assert fresh is not None
            assert again[0] == fresh[0]
            assert again[1].length == fresh[1].length
            assert again[1].trailing_data == fresh[1].trailing_data
            assert kept
            assert kept.convert(again[0].headers) == Headers.from_raw(fresh[0].headers)
        elif fresh is not None:
            kept = RepeatedHead(data[: data.index(b"\r\n\r\n") + 4], fresh[0], fresh[1].length)


@pytest.mark.parametrize(
    "line", [b"", b"Content-Length: 3\r\n", b"Content-Length: 3 \r\n", b"content-length:\t3\r\n", b"X: y\r\n"]
)
def test_equal_head_recognized(line: bytes) -> None:
    data = b"POST / HTTP/1.1\r\nHost: h\r\n%b\r\nabcdef" % line
    again = repeated(data).read(data, LIMIT)
    fresh = read_common(data, LIMIT)
    assert again is not None
    assert fresh is not None
    assert again[0] == fresh[0]
    assert drain_body(again[1]) == drain_body(fresh[1])
    assert again[1].trailing_data == fresh[1].trailing_data


def test_head_with_other_content_length_recognized() -> None:
    data = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %b\r\nX: y\r\n\r\nabcdef"
    kept = repeated(data % b"3")
    for length, body in ((b"5", b"abcde"), (b"0", b""), (b"03", b"abc"), (b"3", b"abc")):
        again = kept.read(data % length, LIMIT)
        assert again is not None
        assert again[0].headers == [(b"host", b"h"), (b"content-length", length), (b"x", b"y")]
        assert drain_body(again[1])[0] == body
        assert kept.convert(again[0].headers).get("content-length") == length.decode()


@pytest.mark.parametrize(
    "other",
    [
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1234567890123456\r\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\nX: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX: z\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX: y\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3",
        b"",
    ],
)
def test_different_head_parsed_again(other: bytes) -> None:
    kept = repeated(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX: y\r\n\r\n")
    assert kept.read(other, LIMIT) is None


def test_repeated_head_limited_to_size() -> None:
    data = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
    kept, longer = repeated(data % 9), data % 10
    assert kept.read(longer, len(longer)) is not None
    assert kept.read(longer, len(longer) - 1) is None


def test_headers_changed_by_an_application_not_used_for_the_next_request() -> None:
    data = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    kept = repeated(data)
    first = kept.read(data, LIMIT)
    assert first is not None
    assert isinstance(first[0].headers, list)
    first[0].headers.append((b"authorization", b"added"))
    assert kept.convert(first[0].headers).get("authorization") == "added"
    second = kept.read(data, LIMIT)
    assert second is not None
    assert second[0].headers == [(b"host", b"h")]
    assert kept.convert(second[0].headers).get("authorization") is None


# --- the body --------------------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(0, 12), max_size=4).map(sorted), size=st.integers(0, 10))
def test_body_in_pieces_parsed(cuts: list[int], size: int) -> None:
    following = b"0123456789" + b"GET"
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size
    pieces = [following[start:end] for start, end in itertools.pairwise([0, *cuts, len(following)])]
    common = read_common(head + pieces.pop(0), LIMIT)
    assert common is not None
    reader, body = common[1], b""
    for piece in [*pieces, None]:
        while isinstance(event := reader.next_event(), h11.Data):
            assert event.data
            body += event.data
        assert event is h11.NEED_DATA or isinstance(event, h11.EndOfMessage)
        if piece:
            reader.receive_data(piece)
    assert isinstance(reader.next_event(), h11.EndOfMessage)
    assert body + reader.trailing_data[0] == following


def test_body_shorter_than_content_length_raises() -> None:
    common = read_common(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc", LIMIT)
    assert common is not None
    reader = common[1]
    assert isinstance(reader.next_event(), h11.Data)
    assert reader.next_event() is h11.NEED_DATA
    reader.receive_data(b"")
    with pytest.raises(h11.RemoteProtocolError, match="ends after 3 of 5 bytes"):
        reader.next_event()
    assert reader.trailing_data == (b"", True)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"GET / HTTP/1.1\nHost: h\r\n\r\n", "without a carriage return"),
        (b"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", "without a carriage return"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\n", "without a carriage return"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n more\r\n\r\n", "continues on the next line"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\tmore\r\n\r\n", "continues on the next line"),
    ],
)
def test_request_head_with_other_line_ends_rejected(head: bytes, reason: str) -> None:
    for length in range(1, len(head)):
        with pytest.raises(RequestHeadRejected, match=reason) as caught:
            read_in_two(head, length)
        assert caught.value.status == 400


def read_in_two(data: bytes, length: int) -> object:
    reader = HeadReader(LIMIT)
    return reader.receive_data(data[:length]) or reader.receive_data(data[length:])


def test_line_feeds_in_body_accepted() -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"
    for length in range(1, len(head)):
        assert read_in_two(head + b"a\nb\r\n c\n", length) is not None
