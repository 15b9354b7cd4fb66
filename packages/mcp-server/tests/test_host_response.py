"""The bytes of a response: a client reads the status, headers and body that the application sent."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.host.http1 import ResponseWriter, plain_response

DATE = b"Sun, 22 Nov 2026 02:33:42 GMT"

HEADERS = [(b"content-type", b"text/plain"), (b"x-note", b"caf\xe9")]


def encode(response: ResponseWriter, *parts: bytes) -> bytes:
    return b"".join(
        response.body(part, more=number < len(parts), date=DATE) for number, part in enumerate(parts, start=1)
    )


def read(data: bytes, method: bytes = b"GET") -> tuple[h11.Response, bytes, h11.Connection]:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target=b"/", headers=[(b"host", b"x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    client.receive_data(b"")
    head = client.next_event()
    assert isinstance(head, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage), event
    return head, body, client


@given(
    parts=st.lists(st.binary(max_size=40), min_size=1, max_size=5),
    old=st.booleans(),
    close=st.booleans(),
    counted=st.booleans(),
)
def test_response_parsed_by_client_equals_sent_body(parts: list[bytes], old: bool, close: bool, counted: bool) -> None:
    response = ResponseWriter(head_only=False, old=old)
    response.close = response.close or close
    length = [(b"Content-Length", b"%d" % len(b"".join(parts)))] if counted else []
    response.start(200, HEADERS + length)
    head, body, client = read(encode(response, *parts))
    assert body == b"".join(parts)
    assert response.complete
    assert head.status_code == 200
    assert [pair for pair in head.headers if pair[0] in {b"content-type", b"x-note"}] == HEADERS
    assert (b"date", DATE) in list(head.headers)
    assert (client.their_state is h11.MUST_CLOSE or client.their_state is h11.CLOSED) == (old or close)


def test_whole_response_has_content_length_and_stream_is_chunked() -> None:
    whole = ResponseWriter(head_only=False, old=False)
    whole.start(200, [])
    assert encode(whole, b"all") == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: " + DATE + b"\r\n\r\nall"
    stream = ResponseWriter(head_only=False, old=False)
    stream.start(200, [])
    assert encode(stream, b"", b"one", b"", b"two", b"") == (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: " + DATE + b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("status", "method", "length"),
    [(204, b"GET", None), (304, b"GET", b"3"), (200, b"HEAD", b"3"), (405, b"HEAD", b"3")],
)
def test_response_without_body_by_status_or_method(status: int, method: bytes, length: bytes | None) -> None:
    response = ResponseWriter(head_only=method == b"HEAD", old=False)
    response.start(status, [])
    head, body, _ = read(encode(response, b"abc"), method)
    assert body == b""
    assert dict(head.headers).get(b"content-length") == length
    assert b"transfer-encoding" not in dict(head.headers)


def test_framing_headers_of_application_are_replaced() -> None:
    response = ResponseWriter(head_only=False, old=False)
    response.start(200, [(b"Transfer-Encoding", b"gzip"), (b"Connection", b"keep-alive"), (b"Date", b"today")])
    head, body, client = read(encode(response, b"one", b"two"))
    assert body == b"onetwo"
    assert dict(head.headers) == {b"transfer-encoding": b"chunked", b"date": b"today"}
    assert client.their_state is not h11.MUST_CLOSE


def test_application_can_close_connection() -> None:
    response = ResponseWriter(head_only=False, old=False)
    response.start(200, [(b"connection", b"Close")])
    assert response.close
    assert b"connection: close\r\n" in encode(response, b"")


def test_unknown_status_has_empty_reason() -> None:
    response = ResponseWriter(head_only=False, old=False)
    response.start(299, [])
    assert encode(response, b"").startswith(b"HTTP/1.1 299 \r\n")


@pytest.mark.parametrize(
    "header",
    [
        (b"x-note", b"a\r\nset-cookie: b"),
        (b"x-note", b"a\nb"),
        (b"x-note", b"a\rb"),
        (b"x-note", b"a\0b"),
        (b"x note", b"a"),
        (b"x:", b"a"),
        (b"x\r\ny", b"a"),
        (b"", b"a"),
        (b"content-length", b"-1"),
        (b"content-length", b"1, 2"),
        (b"content-length", b""),
    ],
)
def test_header_with_line_break_or_invalid_length_raises(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match=r"header|Content-Length"):
        ResponseWriter(head_only=False, old=False).start(200, [header])


@pytest.mark.parametrize("status", [0, 100, 199, 1000, -200])
def test_informational_or_invalid_status_raises(status: int) -> None:
    with pytest.raises(ValueError, match="invalid status"):
        ResponseWriter(head_only=False, old=False).start(status, [])


def test_response_parts_out_of_order_raise() -> None:
    response = ResponseWriter(head_only=False, old=False)
    with pytest.raises(RuntimeError, match=r"before http\.response\.start"):
        response.body(b"", more=False, date=DATE)
    response.start(200, [])
    begun = [response.begun]
    with pytest.raises(RuntimeError, match="sent twice"):
        response.start(200, [])
    response.body(b"", more=False, date=DATE)
    begun.append(response.begun)
    assert begun == [False, True]
    with pytest.raises(RuntimeError, match="after the end"):
        response.body(b"", more=False, date=DATE)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([b"1234"], "1 bytes longer"),
        ([b"12", b"34"], "1 bytes longer"),
        ([b"12"], "1 bytes shorter"),
        ([b"", b""], "3 bytes shorter"),
    ],
)
def test_body_not_matching_content_length_raises(parts: list[bytes], message: str) -> None:
    response = ResponseWriter(head_only=False, old=False)
    response.start(200, [(b"content-length", b"3")])
    with pytest.raises(ValueError, match=message):
        encode(response, *parts)
    assert not response.complete


def test_plain_response_closes_connection() -> None:
    head, body, client = read(plain_response(431, "too much", date=DATE))
    assert (head.status_code, body) == (431, b"too much\n")
    assert dict(head.headers)[b"content-type"] == b"text/plain; charset=utf-8"
    assert client.their_state in {h11.MUST_CLOSE, h11.CLOSED}
