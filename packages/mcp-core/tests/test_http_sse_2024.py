"""HTTP+SSE, the transport of 2024-11-05: the endpoint of a client, and the requests that a server admits."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.codec import Batch
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
from mcp_core.http.server import Rejection
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
from mcp_core.jsonrpc.messages import Request, ResultResponse
from mcp_core.limits import Limits

LIMITS: Final = Limits()
POLICY: Final = EndpointPolicy(allowed_origins=("https://app.example",))
URL: Final = "https://a.example:8443/mcp/sse?key=1"
RESULT: Final = b'{"jsonrpc":"2.0","id":7,"result":{}}'
CALL: Final = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}'


def make_head(status: int = 200, kind: str | None = "text/event-stream") -> HttpHead:
    return HttpHead(status=status, headers=Headers([] if kind is None else [("Content-Type", kind)]))


def open_stream(url: str = URL, limits: Limits = LIMITS) -> SseStream:
    stream = SseStream(url, limits)
    assert stream.receive_head(make_head())
    return stream


def get_endpoint(endpoint: str, url: str = URL) -> str | None:
    stream = open_stream(url)
    stream.receive_data(b"event: endpoint\ndata: %b\n\n" % endpoint.encode())
    return stream.endpoint


# --- the client ----------------------------------------------------------------------------------------------------


def test_client_stream_request_accepts_event_stream() -> None:
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
def test_endpoint_event_resolved_against_stream_url(endpoint: str, expected: str) -> None:
    assert get_endpoint(endpoint) == expected


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://a.example/sse", "https://a.example:443/m"),
        ("http://a.example:80/sse", "http://a.example/m"),
        ("http://[::1]:8080/sse", "http://[::1]:8080/m"),
    ],
)
def test_endpoint_origin_compared_normalized(url: str, endpoint: str) -> None:
    assert get_endpoint(endpoint, url) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "reason"),
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
def test_endpoint_of_other_origin_or_invalid_rejected(endpoint: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        get_endpoint(endpoint)
    assert caught.value.anchor == "basic/transports#http-with-sse"
    assert len(caught.value.message) < 300


def test_endpoint_error_omits_session_id() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        get_endpoint("https://evil.example/m?session=secret")
    assert "secret" not in str(caught.value)


@pytest.mark.spec("http-sse.message-events")
def test_messages_after_endpoint_delivered() -> None:
    stream = open_stream()

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


def test_event_over_limit_is_malformed_message() -> None:
    (bad,) = open_stream(limits=Limits(event_bytes=50)).receive_data(message_event(RESULT + b" " * 50))

    assert isinstance(bad, MalformedMessage)
    assert isinstance(bad.__cause__, LimitExceeded)


def test_second_endpoint_ignored() -> None:
    stream = open_stream()
    stream.receive_data(encode_event(b"/m", event="endpoint") * 2)
    assert stream.notes == []

    stream.receive_data(encode_event(b"/other", event="endpoint"))

    assert stream.endpoint == "https://a.example:8443/m"
    assert stream.notes == ["ignored a second endpoint with another URI"]


@pytest.mark.parametrize(("status", "kind"), [(200, "application/json"), (200, None), (404, None), (405, "text/html")])
def test_response_not_event_stream_failure_has_status(status: int, kind: str | None) -> None:
    stream = SseStream(URL, LIMITS)

    assert not stream.receive_head(make_head(status, kind))
    failure = stream.failure(b"x")
    assert failure.status == status
    assert failure.message.startswith(f"GET returned status {status}")


def test_stream_status_401_is_access_denied() -> None:
    stream = SseStream(URL, LIMITS)
    stream.receive_head(make_head(401))

    assert isinstance(stream.failure(b""), AccessDenied)


def test_failure_without_response_raises() -> None:
    with pytest.raises(LocalProtocolError):
        SseStream(URL, LIMITS).failure(b"")


def test_stream_end_ends_session() -> None:
    stream = open_stream()
    assert stream.receive_data(b"") == ()
    assert stream.ended().message == "the stream ended before the server named its endpoint, which ends the session"

    stream = open_stream()
    stream.receive_data(encode_event(b"/m", event="endpoint"))
    assert isinstance(stream.ended(), ConnectionEnded)
    assert stream.ended().message == "the stream ended, which ends the session"


@pytest.mark.parametrize("status", [200, 202, 204])
def test_post_success_status_accepted(status: int) -> None:
    assert post_failure(make_head(status, "text/plain"), b"Accepted") is None


def test_post_error_status_is_failure() -> None:
    failure = post_failure(make_head(404, "text/plain"), b"Could not find session")

    assert isinstance(failure, HttpFailure)
    assert failure.message == "POST returned status 404 and text/plain: Could not find session"
    assert ("content-type", "application/json") in post_headers()


@pytest.mark.property
@given(data=st.binary(max_size=200) | st.text(st.sampled_from("/:@[]?#.ahtpsx8443\\ -"), max_size=40).map(str.encode))
def test_arbitrary_endpoint_of_same_origin_or_rejected(data: bytes) -> None:
    stream = open_stream()
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


def make_request(method: str = "GET", target: str = "/sse", *, drop: str = "", **headers: str) -> HttpRequest:
    usual = {
        "host": "localhost:8000",
        "accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
        **({"content-type": "application/json", "content-length": "10"} if method == "POST" else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return HttpRequest(
        method=method, target=target, headers=Headers((name, value) for name, value in usual.items() if name != drop)
    )


def get_status(request: HttpRequest) -> int | None:
    rejection = admit(request, POLICY, LIMITS)
    return None if rejection is None else rejection.status


@pytest.mark.spec("http-sse.two-endpoints", "http-sse.origin-validate")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_get_and_post_have_same_access_checks(method: str) -> None:
    assert get_status(make_request(method)) is None
    assert get_status(make_request(method, drop="accept")) is None
    assert get_status(make_request(method, accept="*/*")) is None
    assert get_status(make_request(method, origin="https://app.example")) is None
    assert get_status(make_request(method, origin="http://localhost:8000")) is None
    assert get_status(make_request(method, host="evil.example")) == 403
    assert get_status(make_request(method, origin="https://evil.example")) == 403
    assert get_status(make_request(method, sec_fetch_site="cross-site")) == 403
    assert get_status(make_request(method, drop="host")) == 403
    assert get_status(make_request(method, accept="text/html")) == 406


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (make_request("POST", content_type="text/plain"), 415),
        (make_request("POST", drop="content-type"), 415),
        (make_request("POST", content_encoding="gzip"), 415),
        (make_request("POST", content_length=str(LIMITS.message_bytes + 1)), 413),
        (make_request("DELETE"), 405),
        (make_request("PUT"), 405),
        (make_request("HEAD"), 405),
        (make_request("OPTIONS"), 405),
        (make_request("OPTIONS", origin="https://app.example", access_control_request_method="POST"), 204),
        (make_request("OPTIONS", origin="https://evil.example", access_control_request_method="POST"), 403),
    ],
)
def test_request_not_allowed_rejected_with_status(request_: HttpRequest, status: int) -> None:
    rejection = admit(request_, POLICY, LIMITS)

    assert rejection is not None
    assert rejection.status == status
    assert rejection.reason


def test_method_not_allowed_lists_allowed_methods() -> None:
    rejection = admit(make_request("PATCH"), POLICY, LIMITS)

    assert rejection is not None
    assert rejection.head().headers.get("allow") == "GET, POST"


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
def test_session_id_read_from_query(target: str, session: str | None) -> None:
    assert session_of(make_request("POST", target)) == session


def test_post_body_message_or_batch_read() -> None:
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
def test_post_body_malformed_rejected(body: bytes, status: int, code: int, id: int | None) -> None:
    rejection = read_post(body, Limits(message_bytes=200))

    assert isinstance(rejection, Rejection)
    assert rejection.status == status
    assert rejection.error is not None
    assert (rejection.error.error.code, rejection.error.id) == (code, id)
    assert rejection.error.error.message == rejection.reason
    assert rejection.null_id is (id is None)


def test_post_malformed_response_has_answered_id() -> None:
    rejection = read_post(b'{"jsonrpc":"2.0","id":7,"result":5}', Limits())

    assert isinstance(rejection, Rejection)
    assert rejection.answers is not None
    assert rejection.answers.id == 7


def test_post_malformed_response_rejected_without_id() -> None:
    rejection = read_post(b'{"jsonrpc":"2.0","id":7,"result":1}', LIMITS)

    assert isinstance(rejection, Rejection)
    assert rejection.error is not None
    assert (rejection.status, rejection.error.id, rejection.null_id) == (400, None, False)


@pytest.mark.parametrize("meta", [{"io.modelcontextprotocol/protocolVersion": 1}, None, [], {"progressToken": 1}])
def test_post_incomplete_modern_metadata_accepted(meta: object) -> None:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}})

    assert isinstance(read_post(body, LIMITS), Request)


def test_post_modern_request_rejected_with_supported_versions() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    rejection = read_post(
        orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}}), LIMITS
    )

    assert isinstance(rejection, Rejection)
    assert rejection.status == 400
    assert rejection.error is not None
    assert rejection.error.id == 7
    assert rejection.error.error.code == -32022
    assert rejection.error.error.data == {
        "supported": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"],
        "requested": "2026-07-28",
    }
    assert "HTTP+SSE is the transport of 2024-11-05" in rejection.reason


# --- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/messages", "/a b/m", "//messages", "messages", "/\N{SNOWMAN}/?#"])
def test_endpoint_event_of_server_accepted_by_client(path: str) -> None:
    stream = open_stream()
    stream.receive_data(endpoint_event(path, "s/+ 1"))

    assert stream.endpoint is not None
    assert stream.endpoint.startswith("https://a.example:8443/")
    target = stream.endpoint.removeprefix("https://a.example:8443")
    assert session_of(make_request("POST", target)) == "s/+ 1"
    assert "?" not in HttpRequest(method="POST", target=target, headers=Headers()).path


def test_endpoint_event_has_path_without_host() -> None:
    assert endpoint_event("/prefix/messages", "abc") == b"event: endpoint\ndata: /prefix/messages?session=abc\n\n"


def test_message_event_contains_message() -> None:
    (event,) = SseParser(LIMITS).receive_data(message_event(RESULT))

    assert not isinstance(event, LimitExceeded)
    assert (event.event, event.data) == ("message", RESULT)
