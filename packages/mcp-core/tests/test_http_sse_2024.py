"""HTTP+SSE, the transport of 2024-11-05: where a client posts to, and what a server lets in."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    HttpFailure,
    LimitExceeded,
    LocalProtocolError,
    MalformedMessage,
    RemoteProtocolError,
)
from mcp_core.framing.sse import SseParser, encode_comment, encode_event
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import Headers, HttpHead, HttpRequest
from mcp_core.http.responses import Refusal
from mcp_core.http.sse_2024 import (
    SseStream,
    admit,
    endpoint_event,
    message_event,
    post_failure,
    post_headers,
    read_post,
    session_of,
)
from mcp_core.jsonrpc.messages import Batch, Request, ResultResponse
from mcp_core.limits import Limits

LIMITS: Final = Limits()
POLICY: Final = EndpointPolicy(allowed_origins=("https://app.example",))
URL: Final = "https://a.example:8443/mcp/sse?key=1"
RESULT: Final = b'{"jsonrpc":"2.0","id":7,"result":{}}'
CALL: Final = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}'


def head_of(status: int = 200, kind: str | None = "text/event-stream") -> HttpHead:
    return HttpHead(status=status, headers=Headers([] if kind is None else [("Content-Type", kind)]))


def stream_of(url: str = URL, limits: Limits = LIMITS) -> SseStream:
    stream = SseStream(url, limits)
    assert stream.receive_head(head_of())
    return stream


def named(endpoint: str, url: str = URL) -> str | None:
    stream = stream_of(url)
    stream.receive_data(b"event: endpoint\ndata: %b\n\n" % endpoint.encode())
    return stream.endpoint


# --- the client ----------------------------------------------------------------------------------------------------


def test_the_client_asks_for_a_stream() -> None:
    assert SseStream(URL, LIMITS).headers() == [("accept", "text/event-stream")]


@pytest.mark.spec("http-sse.endpoint-event", "http-sse.post-to-endpoint")
@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("/messages?session=1", "https://a.example:8443/messages?session=1"),
        ("messages", "https://a.example:8443/mcp/messages"),
        ("../m", "https://a.example:8443/m"),
        ("?session=1", "https://a.example:8443/mcp/sse?session=1"),
        ("https://a.example:8443/m#here", "https://a.example:8443/m"),
        ("https://A.EXAMPLE:8443/m", "https://A.EXAMPLE:8443/m"),
        ("//a.example:8443/m", "https://a.example:8443/m"),
        (" /messages ", "https://a.example:8443/messages"),
    ],
)
def test_the_server_says_where_to_post(endpoint: str, expected: str) -> None:
    assert named(endpoint) == expected


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://a.example/sse", "https://a.example:443/m"),
        ("http://a.example:80/sse", "http://a.example/m"),
        ("http://[::1]:8080/sse", "http://[::1]:8080/m"),
    ],
)
def test_an_origin_can_be_written_in_several_ways(url: str, endpoint: str) -> None:
    assert named(endpoint, url) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("https://evil.example/m", "must have the origin of the stream, https, a.example, port 8443"),
        ("//evil.example:8443/m", "must have the origin"),
        ("https://a.example/m", "must have the origin"),
        ("http://a.example:8443/m", "must have the origin"),
        ("https://a.example.:8443/m", "must have the origin"),
        ("https://user:secret@a.example:8443/m", "contains a user name or a password"),
        ("https://@a.example:8443/m", "contains a user name or a password"),
        ("https://a.example:99999/m", "not a valid URL"),
        ("https://[::1/m", "not a valid URL"),
        ("file:///etc/passwd", "must have the origin"),
        ("javascript:alert(1)", "must have the origin"),
        ("/\\evil.example/m", "not a URI"),
        ("\\\\evil.example/m", "not a URI"),
        ("/m\N{LATIN SMALL LETTER U WITH DIAERESIS}", "not a URI"),
        ("/m x", "not a URI"),
        ("/m\tx", "not a URI"),
        ("", "not a URI"),
        ('{"uri": "/m"}', "not a URI"),
    ],
)
def test_an_endpoint_elsewhere_is_refused_by_its_name(endpoint: str, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why) as caught:
        named(endpoint)
    assert caught.value.anchor == "basic/transports#http-with-sse"
    assert len(caught.value.message) < 300


def test_the_session_is_not_told_in_an_error() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        named("https://evil.example/m?session=secret")
    assert "secret" not in str(caught.value)


@pytest.mark.spec("http-sse.message-events")
def test_messages_follow_the_endpoint() -> None:
    stream = stream_of()

    received = stream.receive_data(
        encode_comment("ping")
        + encode_event(b"/m", event="endpoint")
        + message_event(RESULT)
        + encode_event(b"now", event="time")
        + encode_event(RESULT, event="answer")
    )

    assert stream.endpoint == "https://a.example:8443/m"
    assert received == (ResultResponse(7, {}), ResultResponse(7, {}))
    assert stream.notes == ["ignored an event of type 'time'", "an event of type 'answer' contains a message"]


def test_what_is_too_large_is_told_as_such() -> None:
    (bad,) = stream_of(limits=Limits(event_bytes=50)).receive_data(message_event(RESULT + b" " * 50))

    assert isinstance(bad, MalformedMessage)
    assert isinstance(bad.__cause__, LimitExceeded)


def test_a_second_endpoint_does_not_take_the_session_over() -> None:
    stream = stream_of()
    stream.receive_data(encode_event(b"/m", event="endpoint") * 2)
    assert stream.notes == []

    stream.receive_data(encode_event(b"/other", event="endpoint"))

    assert stream.endpoint == "https://a.example:8443/m"
    assert stream.notes == ["ignored a second endpoint with another URI"]


@pytest.mark.parametrize(("status", "kind"), [(200, "application/json"), (200, None), (404, None), (405, "text/html")])
def test_what_is_no_stream_is_told_with_its_status(status: int, kind: str | None) -> None:
    stream = SseStream(URL, LIMITS)

    assert not stream.receive_head(head_of(status, kind))
    failure = stream.failure(b"x")
    assert failure.status == status
    assert failure.message.startswith(f"GET returned status {status}")


def test_credentials_may_be_wanted() -> None:
    stream = SseStream(URL, LIMITS)
    stream.receive_head(head_of(401))

    assert isinstance(stream.failure(b""), AccessDenied)


def test_a_failure_needs_a_response() -> None:
    with pytest.raises(LocalProtocolError):
        SseStream(URL, LIMITS).failure(b"")


def test_the_session_ends_with_the_stream() -> None:
    stream = stream_of()
    assert stream.receive_data(b"") == ()
    assert stream.ended().message == "the stream ended before the server named its endpoint, which ends the session"

    stream = stream_of()
    stream.receive_data(encode_event(b"/m", event="endpoint"))
    assert isinstance(stream.ended(), ConnectionEnded)
    assert stream.ended().message == "the stream ended, which ends the session"


@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_post_is_accepted_with_any_status_of_success(status: int) -> None:
    assert post_failure(head_of(status, "text/plain"), b"Accepted") is None


def test_a_post_that_is_not_accepted_is_a_failure() -> None:
    failure = post_failure(head_of(404, "text/plain"), b"Could not find session")

    assert isinstance(failure, HttpFailure)
    assert failure.message == "POST returned status 404 and text/plain: Could not find session"
    assert ("content-type", "application/json") in post_headers()


@pytest.mark.property
@given(data=st.binary(max_size=200) | st.text(st.sampled_from("/:@[]?#.ahtpsx8443\\ -"), max_size=40).map(str.encode))
def test_whatever_a_server_names_it_is_of_the_same_origin_or_refused(data: bytes) -> None:
    stream = stream_of()
    line = data.replace(b"\n", b"").replace(b"\r", b"")
    try:
        stream.receive_data(b"event: endpoint\ndata: " + line + b"\n\n")
    except RemoteProtocolError:
        assert stream.endpoint is None
        return
    if stream.endpoint is not None:
        parts = urlsplit(stream.endpoint)
        assert (parts.scheme, parts.hostname, parts.port, parts.username) == ("https", "a.example", 8443, None)


# --- the server ----------------------------------------------------------------------------------------------------


def request_of(method: str = "GET", target: str = "/sse", *, drop: str = "", **headers: str) -> HttpRequest:
    usual = {
        "host": "localhost:8000",
        "accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
        **({"content-type": "application/json", "content-length": "10"} if method == "POST" else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return HttpRequest(
        method=method, target=target, headers=Headers((name, value) for name, value in usual.items() if name != drop)
    )


def status_of(request: HttpRequest) -> int | None:
    refusal = admit(request, POLICY, LIMITS)
    return None if refusal is None else refusal.status


@pytest.mark.spec("http-sse.two-endpoints", "http-sse.origin-validate")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_who_may_use_the_one_endpoint_may_use_the_other(method: str) -> None:
    assert status_of(request_of(method)) is None
    assert status_of(request_of(method, drop="accept")) is None
    assert status_of(request_of(method, accept="*/*")) is None
    assert status_of(request_of(method, origin="https://app.example")) is None
    assert status_of(request_of(method, origin="http://localhost:8000")) is None
    assert status_of(request_of(method, host="evil.example")) == 403
    assert status_of(request_of(method, origin="https://evil.example")) == 403
    assert status_of(request_of(method, sec_fetch_site="cross-site")) == 403
    assert status_of(request_of(method, drop="host")) == 403
    assert status_of(request_of(method, accept="text/html")) == 406


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (request_of("POST", content_type="text/plain"), 415),
        (request_of("POST", drop="content-type"), 415),
        (request_of("POST", content_encoding="gzip"), 415),
        (request_of("POST", content_length=str(LIMITS.message_bytes + 1)), 413),
        (request_of("DELETE"), 405),
        (request_of("PUT"), 405),
        (request_of("HEAD"), 405),
        (request_of("OPTIONS"), 405),
        (request_of("OPTIONS", origin="https://app.example", access_control_request_method="POST"), 204),
        (request_of("OPTIONS", origin="https://evil.example", access_control_request_method="POST"), 403),
    ],
)
def test_what_else_is_refused(request_: HttpRequest, status: int) -> None:
    refusal = admit(request_, POLICY, LIMITS)

    assert refusal is not None
    assert refusal.status == status
    assert refusal.reason


def test_what_is_allowed_instead_is_told() -> None:
    refusal = admit(request_of("PATCH"), POLICY, LIMITS)

    assert refusal is not None
    assert refusal.head().headers.get("allow") == "GET, POST"


@pytest.mark.parametrize(
    ("target", "session"),
    [
        ("/messages?session=abc", "abc"),
        ("/messages?x=1&session=a%2Fb", "a/b"),
        ("/messages", None),
        ("/messages?session=", None),
        ("/messages?session=a&session=b", None),
        ("/messages?Session=a", None),
        ("/messages?" + "&".join(f"x{number}=1" for number in range(100)) + "&session=a", None),
    ],
)
def test_a_post_names_one_session(target: str, session: str | None) -> None:
    assert session_of(request_of("POST", target)) == session


def test_a_message_is_read() -> None:
    assert read_post(CALL, LIMITS) == Request(7, "tools/list")
    assert isinstance(read_post(b"[" + CALL + b"]", LIMITS), Batch)


@pytest.mark.parametrize(
    ("body", "status", "code", "id"),
    [
        (b"{", 400, -32700, None),
        (b'{"jsonrpc":"2.0","id":7}', 400, -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"x":"' + b"x" * 200 + b'"}}', 413, -32700, None),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, status: int, code: int, id: int | None) -> None:
    refusal = read_post(body, Limits(message_bytes=200))

    assert isinstance(refusal, Refusal)
    assert refusal.status == status
    assert refusal.error is not None
    assert (refusal.error.error.code, refusal.error.id) == (code, id)
    assert refusal.error.error.message == refusal.reason
    assert refusal.null_id is (id is None)


def test_an_answer_that_is_broken_says_whose_waiting_is_over() -> None:
    refusal = read_post(b'{"jsonrpc":"2.0","id":7,"result":5}', Limits())

    assert isinstance(refusal, Refusal)
    assert refusal.answers is not None
    assert refusal.answers.id == 7


def test_an_answer_that_is_broken_is_refused_without_an_id() -> None:
    refusal = read_post(b'{"jsonrpc":"2.0","id":7,"result":1}', LIMITS)

    assert isinstance(refusal, Refusal)
    assert refusal.error is not None
    assert (refusal.status, refusal.error.id, refusal.null_id) == (400, None, False)


@pytest.mark.parametrize("meta", [{"io.modelcontextprotocol/protocolVersion": 1}, None, [], {"progressToken": 1}])
def test_what_only_looks_modern_is_let_in(meta: object) -> None:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}})

    assert isinstance(read_post(body, LIMITS), Request)


def test_a_modern_request_is_told_that_it_came_to_the_wrong_place() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    refusal = read_post(
        orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}}), LIMITS
    )

    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
    assert refusal.error is not None
    assert refusal.error.id == 7
    assert refusal.error.error.code == -32022
    assert refusal.error.error.data == {
        "supported": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"],
        "requested": "2026-07-28",
    }
    assert "HTTP+SSE is the transport of 2024-11-05" in refusal.reason


# --- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/messages", "/a b/m", "//messages", "messages", "/\N{SNOWMAN}/?#"])
def test_what_the_server_names_the_client_posts_to(path: str) -> None:
    stream = stream_of()
    stream.receive_data(endpoint_event(path, "s/+ 1"))

    assert stream.endpoint is not None
    assert stream.endpoint.startswith("https://a.example:8443/")
    target = stream.endpoint.removeprefix("https://a.example:8443")
    assert session_of(request_of("POST", target)) == "s/+ 1"
    assert "?" not in HttpRequest(method="POST", target=target, headers=Headers()).path


def test_the_endpoint_comes_first_and_has_no_host() -> None:
    assert endpoint_event("/prefix/messages", "abc") == b"event: endpoint\ndata: /prefix/messages?session=abc\n\n"


def test_a_message_is_one_event() -> None:
    (event,) = SseParser(LIMITS).receive_data(message_event(RESULT))

    assert not isinstance(event, LimitExceeded)
    assert (event.event, event.data) == ("message", RESULT)
