"""The responses that the HTTP client reads itself: the result equals that of h11, and all others are left to h11."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_core.http.messages import Headers, HttpHead
from mcp_core.trio.http_client.common_response import read_common_response

LIMIT = 1_000


def by_h11(method: str, data: bytes) -> tuple[HttpHead, bytes, bytes]:
    """Return the head, the received part of the body and the bytes after it, as parsed by h11."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "h")]))
    parser.send(h11.EndOfMessage())
    parser.receive_data(data)
    response = parser.next_event()
    assert isinstance(response, h11.Response), response
    body = b""
    while isinstance(event := parser.next_event(), h11.Data):
        body += event.data
    assert event is h11.NEED_DATA or isinstance(event, h11.EndOfMessage)
    # After the body, the connection can carry another request.
    assert event is h11.NEED_DATA or parser.their_state is h11.DONE
    assert response.http_version == b"1.1"
    headers = Headers.from_raw(response.headers)
    return HttpHead(status=response.status_code, headers=headers), body, parser.trailing_data[0]


def check_like_h11(method: str, data: bytes) -> bool:
    """Check that a response is parsed as by h11, and return whether it has the common form."""
    common = read_common_response(method, data, LIMIT)
    if common is None:
        return False
    head, length, rest = common
    assert (head, rest[:length], rest[length:]) == by_h11(method, data)
    return True


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200",
        b"HTTP/1.1 202 Accepted\r\nX-A:\t one  two \t\r\nx-a:\r\nx-b: \xe9\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 404 \r\ncontent-length: 0\r\nConnection: Keep-Alive\r\nKeep-Alive: timeout=5\r\n\r\n",
        b"HTTP/1.1 599\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_common_response_parsed_like_h11(data: bytes) -> None:
    assert check_like_h11("POST", data)


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("GET", b""),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
        ("GET", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
        ("GET", b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("CONNECT", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\n"),
        *[
            ("GET", b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % line)
            for line in (
                b"Transfer-Encoding: chunked",
                b"Content-Length: 1\r\nTransfer-Encoding: chunked",
                b"Content-Length: 1\r\nContent-Length: 1",
                b"Content-Length: 1\r\nContent-Length: 2",
                b"Content-Length: 1, 1",
                b"Content-Length: +1",
                b"Content-Length: 1_0",
                b"Content-Length: \xb2",
                b"Content-Length:",
                b"Content-Length: 1234567890123456",
                b"Content-Length: 0\r\nConnection: close",
                b"Content-Length: 0\r\nConnection: keep-alive\r\nConnection: close",
                b"Content-Length: 0\r\nUpgrade: websocket",
                b"Content-Length: 0\r\nX: y\r\n folded",
                b"Content-Length: 0\r\nX : y",
                b"Content-Length: 0\r\nX",
                b"Content-Length: 0\r\n: y",
                b"Content-Length: 0\r\nX: a\nb",
                b"Content-Length: 0\r\nX: a\rb",
                b"Content-Length: 0\r\nX: \0",
                b"Content-Length: 0\r\nX: \x7f",
                b"Content-Length: 0\r\nX\xe9: y",
            )
        ],
    ],
)
def test_uncommon_response_left_to_h11(method: str, data: bytes) -> None:
    assert read_common_response(method, data, LIMIT) is None


def test_response_head_above_limit_left_to_h11() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: %b\r\n\r\n"
    fits = head % (b"x" * (LIMIT - len(head) + 2))
    assert len(fits) == LIMIT
    assert read_common_response("GET", fits, LIMIT) is not None
    assert read_common_response("GET", head % (b"x" * (LIMIT - len(head) + 3)), LIMIT) is None


STARTS = st.builds(
    lambda version, status, reason: b"%b %b%b\r\n" % (version, status, reason),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.11", b"http/1.1"]),
    st.sampled_from([b"200", b"202", b"404", b"500", b"204", b"304", b"100", b"20", b"2000", b"999"]),
    st.one_of(st.sampled_from([b" OK", b"", b" ", b"  x"]), st.binary(max_size=4).map(b" ".__add__)),
)
LINES = st.builds(
    lambda name, colon, value, end: name + colon + value + end,
    st.sampled_from(
        [
            b"X",
            b"content-length",
            b"Content-Length",
            b"Connection",
            b"Transfer-Encoding",
            b"Upgrade",
            b"Keep-Alive",
            b"",
        ]
    ),
    st.sampled_from([b": ", b": ", b":", b" : ", b""]),
    st.one_of(
        st.sampled_from([b"0", b"3", b"3", b"keep-alive", b"close", b"chunked", b"1, 1", b"timeout=5"]),
        st.binary(max_size=4),
    ),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b" \r\n", b"\r\n "]),
)


@pytest.mark.property
@settings(max_examples=400)
@given(
    method=st.sampled_from(["POST", "GET", "DELETE", "HEAD"]),
    start=STARTS,
    lines=st.lists(LINES, max_size=4),
    sized=st.booleans(),
    rest=st.sampled_from([b"", b"abc", b"abcdef", b"\r\n\r\nabc"]),
)
def test_random_response_parsed_like_h11(
    method: str, start: bytes, lines: list[bytes], *, sized: bool, rest: bytes
) -> None:
    length = b"Content-Length: 3\r\n" if sized else b""
    check_like_h11(method, start + b"".join(lines) + length + b"\r\n" + rest)
