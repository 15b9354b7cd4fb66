"""HTTP exchanges of a client: the request sent, the response received, and the outcome without a response."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import attrs
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
    McpError,
    RemoteProtocolError,
    SessionExpired,
)
from mcp_core.framing.sse import encode_comment, encode_event
from mcp_core.http.client import FAILURE_BYTES, ClientExchange, Expect, Lost, Received, Resume, session_headers
from mcp_core.http.header_parameters import ParamHeader
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.jsonrpc.messages import (
    ErrorObject,
    ErrorResponse,
    JsonObject,
    JsonValue,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Revision

LIMITS: Final = Limits()
JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
CALL: Final = Request(7, "tools/call", {"name": "add"})
INITIALIZE: Final = Request(1, "initialize", {"protocolVersion": "2025-11-25"})
DISCOVER: Final = Request(1, "server/discover", {})
CHANGED: Final = Notification("notifications/roots/list_changed")
LOGGED: Final = Notification("notifications/message", {"level": "info", "data": "x"})
ANSWER: Final = ResultResponse(7, {"content": []})


def wire(**members: JsonValue) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **members})


def error(code: int, message: str, **members: JsonValue) -> bytes:
    return wire(error={"code": code, "message": message}, **members)


RESULT: Final = wire(id=7, result={"content": []})
LOG: Final = wire(method="notifications/message", params={"level": "info", "data": "x"})


def exchange_of(
    message: Message | Batch | None = CALL,
    revision: Revision | None = R2025_11_25,
    *,
    session_id: str | None = None,
    last_event_id: str | None = None,
    limits: Limits = LIMITS,
) -> ClientExchange:
    return ClientExchange(message, revision=revision, limits=limits, session_id=session_id, last_event_id=last_event_id)


def head_of(status: int = 200, kind: str | None = JSON, **more: str) -> HttpHead:
    headers = [(name.replace("_", "-"), value) for name, value in more.items()]
    return HttpHead(status=status, headers=Headers([*([] if kind is None else [("Content-Type", kind)]), *headers]))


def receive_head(exchange: ClientExchange, status: int = 200, kind: str | None = JSON, **more: str) -> Expect:
    return exchange.receive_head(head_of(status, kind, **more))


def receive_events(exchange: ClientExchange, *events: bytes) -> list[Received]:
    assert receive_head(exchange, kind=STREAM) is Expect.STREAM
    return [message for event in events for message in exchange.receive_data(event)]


def get_lost_error(exchange: ClientExchange, *, broken: bool = False) -> McpError:
    outcome = exchange.end(broken)
    assert isinstance(outcome, Lost), outcome
    return outcome.error


# --- requests ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.post-per-message", "http.post-accept", "http.accept-both", "http.content-type-json")
@pytest.mark.parametrize("revision", [None, *LEGACY, R2026_07_28], ids=str)
def test_post_headers_accept_json_and_event_stream(revision: Revision | None) -> None:
    exchange = exchange_of(revision=revision)

    headers = dict(exchange.headers())

    assert exchange.method == "POST"
    assert headers["accept"] == "application/json, text/event-stream"
    assert headers["content-type"] == "application/json"
    assert exchange.body() == b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}'


@pytest.mark.spec("http.get-accept")
def test_get_headers_accept_event_stream_only() -> None:
    exchange = exchange_of(None, session_id="s")

    assert exchange.method == "GET"
    assert exchange.body() is None
    assert exchange.headers() == [
        ("accept", "text/event-stream"),
        ("mcp-session-id", "s"),
        ("mcp-protocol-version", "2025-11-25"),
    ]


@pytest.mark.spec("http.protocol-version-header", "http.protocol-version-negotiated", "session.client-sends-id")
@pytest.mark.parametrize("message", [CALL, CHANGED, ANSWER, None], ids=["request", "notification", "answer", "get"])
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_session_request_has_session_headers(revision: Revision, message: Message | None) -> None:
    headers = dict(exchange_of(message, revision, session_id="s-1").headers())

    assert headers["mcp-session-id"] == "s-1"
    assert headers.get("mcp-protocol-version") == (revision.name if revision.version_header else None)
    assert "mcp-method" not in headers
    assert [item for item in session_headers(revision, "s-1") if headers[item[0]] != item[1]] == []


@pytest.mark.spec("session.client-reinitialize")
def test_initialize_request_has_no_session_headers() -> None:
    assert [name for name, _ in exchange_of(INITIALIZE, None).headers()] == [
        "accept",
        "content-type",
    ]
    assert session_headers(None, None) == []


@pytest.mark.spec("http.metadata-headers-on-post", "http.client-no-session-id")
def test_modern_post_has_routing_headers_and_no_session() -> None:
    message = Request(7, "tools/call", {"name": "add", "arguments": {"region": "eu"}})
    region = ParamHeader(header="Region", path=("region",), type="string")
    exchange = ClientExchange(
        message, revision=R2026_07_28, limits=LIMITS, session_id="left over", header_params=[region]
    )

    headers = dict(exchange.headers())

    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-name"] == "add"
    assert headers["mcp-param-region"] == "eu"
    assert "mcp-session-id" not in headers
    assert session_headers(R2026_07_28, "left over") == [("mcp-protocol-version", "2026-07-28")]


def test_extension_method_name_sent_in_header() -> None:
    message = Request(1, "x/fetch", {"which": "a"})
    exchange = ClientExchange(message, revision=R2026_07_28, limits=LIMITS, names={"x/fetch": "which"})

    assert ("mcp-name", "a") in exchange.headers()


@pytest.mark.spec("http.body-single-message", "http.post-single-message")
@pytest.mark.parametrize("revision", [None, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28], ids=str)
def test_batch_posted_only_in_2025_03_26(revision: Revision | None) -> None:
    batch = Batch((CALL, CHANGED))
    if revision is R2025_03_26:
        body = exchange_of(batch, revision).body()
        assert body is not None
        assert orjson.loads(body)[1]["method"] == CHANGED.method
    else:
        with pytest.raises(LocalProtocolError, match="a batch must not be posted"):
            exchange_of(batch, revision)


@pytest.mark.spec("http.client-no-responses", "http.client-no-get-stream")
def test_modern_client_posting_response_or_opening_get_raises() -> None:
    with pytest.raises(LocalProtocolError, match="a response must not be posted in revision 2026-07-28"):
        exchange_of(ANSWER, R2026_07_28)
    with pytest.raises(LocalProtocolError, match="a stream must not be fetched with GET in revision 2026-07-28"):
        exchange_of(None, R2026_07_28)
    assert exchange_of(CHANGED, R2026_07_28).method == "POST"


@pytest.mark.parametrize(("revision", "body"), [(R2025_06_18, True), (R2025_11_25, False), (None, False)])
def test_error_without_id_encoded_per_revision(revision: Revision | None, body: bool) -> None:
    sent = exchange_of(ErrorResponse(None, ErrorObject(-32700, "x")), revision).body()

    assert sent is not None
    assert ("id" in orjson.loads(sent)) is body


# --- JSON responses ------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.client-both-response-types", "http.client-supports-json", "http.content-type-charset")
@pytest.mark.parametrize(
    "kind", [JSON, "application/json; charset=utf-8", "Application/JSON", "text/json", "application/x+json"]
)
def test_json_response_ends_request(kind: str) -> None:
    exchange = exchange_of()

    assert receive_head(exchange, kind=kind) is Expect.MESSAGE
    before = exchange.answered
    assert exchange.receive_body(RESULT) == (ANSWER,)
    assert (before, exchange.answered) == (False, True)
    assert exchange.end(broken=False) is None
    assert exchange.notes == []
    assert exchange.status == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "text/plain; charset=utf-8"])
def test_json_with_other_media_type_tolerated(kind: str | None) -> None:
    exchange = exchange_of()

    assert receive_head(exchange, kind=kind) is Expect.MESSAGE
    assert exchange.receive_body(RESULT) == (ANSWER,)
    assert exchange.notes == ["the JSON body has another media type"]


def test_text_response_not_json_raises_http_failure() -> None:
    exchange = exchange_of()
    receive_head(exchange, kind="text/plain")

    with pytest.raises(HttpFailure, match=r"status 200 and text/plain: It works! .*not an MCP endpoint"):
        exchange.receive_body(b"It works!")


def test_html_response_failure_quotes_sanitized_body() -> None:
    exchange = exchange_of()

    assert receive_head(exchange, kind="text/html; charset=utf-8") is Expect.TEXT
    failure = exchange.failure(b"<html>\n\n  <title>Log\x1b[31m in</title>" + b"x" * 1_000)

    assert isinstance(failure, HttpFailure)
    assert failure.status == 200
    assert len(failure.body) == FAILURE_BYTES
    assert failure.message.startswith(
        "POST returned status 200 and text/html: <html> <title>Log\N{REPLACEMENT CHARACTER}[31m in</title>xxx"
    )
    assert failure.message.endswith(
        "... (the URL is not an MCP endpoint, or a web page, a login or a proxy responded in its place)"
    )
    assert len(failure.message) < 400


@pytest.mark.parametrize("body", [b"", b"null", b" \n"])
def test_empty_body_loses_response(body: bytes) -> None:
    exchange = exchange_of()
    receive_head(exchange)

    assert exchange.receive_body(body) == ()
    error = get_lost_error(exchange)
    assert isinstance(error, RemoteProtocolError)
    assert error.message == "the body (status 200) is empty, or does not contain the response to the request"


@pytest.mark.parametrize("status", [202, 204])
def test_request_accepted_without_body_loses_response(status: int) -> None:
    exchange = exchange_of()

    assert receive_head(exchange, status, None) is Expect.NOTHING
    error = get_lost_error(exchange)
    assert isinstance(error, RemoteProtocolError)
    assert f"status {status}" in error.message


def test_json_response_with_status_202_accepted() -> None:
    exchange = exchange_of()

    assert receive_head(exchange, 202) is Expect.MESSAGE
    assert exchange.receive_body(RESULT) == (ANSWER,)
    assert exchange.end(broken=False) is None


def test_response_with_other_id_delivered_request_pending() -> None:
    exchange = exchange_of()
    receive_head(exchange)

    assert exchange.receive_body(wire(id=8, result={})) == (ResultResponse(8, {}),)
    assert not exchange.answered
    assert isinstance(get_lost_error(exchange), RemoteProtocolError)


def test_response_id_as_string_matches() -> None:
    exchange = exchange_of()
    receive_head(exchange)

    assert exchange.receive_body(wire(id="7", result={})) == (ResultResponse("7", {}),)
    assert exchange.end(broken=False) is None


@pytest.mark.parametrize("members", [{}, {"id": None}])
def test_error_without_id_answers_request(members: JsonObject) -> None:
    exchange = exchange_of()
    receive_head(exchange)

    assert exchange.receive_body(error(-32603, "x", **members)) == (ErrorResponse(7, ErrorObject(-32603, "x")),)
    assert exchange.end(broken=False) is None
    assert "the error has no id and was used as the response" in exchange.notes


def test_malformed_body_answers_request() -> None:
    exchange = exchange_of()
    receive_head(exchange)

    (bad,) = exchange.receive_body(b'{"status": "ok"}')

    assert isinstance(bad, MalformedMessage)
    assert bad.answers == 7
    assert exchange.end(broken=False) is None


def test_malformed_response_with_id_answers_that_request() -> None:
    exchange = exchange_of(Batch((CALL, Request(8, "ping"))), R2025_03_26)
    receive_head(exchange)

    (bad,) = exchange.receive_body(b'{"jsonrpc":"2.0","id":8,"result":{"a":}}')

    assert isinstance(bad, MalformedMessage)
    assert bad.answers == 8
    assert not exchange.answered


@pytest.mark.spec("batch.http-requests-response")
def test_batch_responses_in_batch_or_separate_events() -> None:
    batch = Batch((CALL, Request("b", "ping"), CHANGED))
    exchange = exchange_of(batch, R2025_03_26)
    receive_head(exchange)

    (answers,) = exchange.receive_body(b"[" + RESULT + b"," + wire(id="b", result={}) + b",1]")

    assert isinstance(answers, Batch)
    assert answers.members[:2] == (ANSWER, ResultResponse("b", {}))
    assert exchange.end(broken=False) is None

    exchange = exchange_of(batch, R2025_03_26)
    receive_events(exchange, encode_event(wire(id="b", result={})))
    assert not exchange.answered
    exchange.receive_data(encode_event(RESULT))
    assert exchange.answered


@pytest.mark.spec("batch.http-sse-responses", "batch.http-sse-server-messages")
@pytest.mark.parametrize("message", [Batch((CALL, Request("b", "ping"))), None], ids=["post", "get"])
def test_event_with_batch_returns_batch(message: Batch | None) -> None:
    exchange = exchange_of(message, R2025_03_26)
    log_and_ping = b"[" + LOG + b"," + wire(id="q", method="ping") + b"]"
    answers = b"[" + RESULT + b"," + wire(id="b", result={}) + b"]"

    received = receive_events(exchange, encode_event(log_and_ping), encode_event(answers))

    assert received == [Batch((LOGGED, Request("q", "ping"))), Batch((ANSWER, ResultResponse("b", {})))]


def test_error_without_id_does_not_answer_batch() -> None:
    exchange = exchange_of(Batch((CALL, Request(8, "ping"))), R2025_03_26)
    receive_head(exchange, 400)

    with pytest.raises(HttpFailure, match="bad batch"):
        exchange.receive_body(error(-32600, "bad batch", id=None))


# --- HTTP errors ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.client-reads-error-body", "compat.client-http-inspect-400", "compat.client-http-404-with-body")
@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
@pytest.mark.parametrize("kind", [JSON, None, "text/plain"])
def test_http_error_with_jsonrpc_error_answers_request(status: int, kind: str | None) -> None:
    exchange = exchange_of(revision=R2026_07_28)

    assert receive_head(exchange, status, kind) is Expect.MESSAGE
    received = exchange.receive_body(error(-32601, "unknown", id=7))

    assert received == (ErrorResponse(7, ErrorObject(-32601, "unknown")),)
    assert exchange.end(broken=False) is None


@pytest.mark.parametrize("id", [None, "server-error", 0, "7"])
def test_http_error_with_other_id_answers_request(id: JsonValue) -> None:
    exchange = exchange_of()
    receive_head(exchange, 400)

    received = exchange.receive_body(error(-32600, "Bad Request", id=id))

    assert received == (ErrorResponse(7, ErrorObject(-32600, "Bad Request")),)
    assert exchange.end(broken=False) is None
    assert exchange.notes != []


def test_http_error_batch_answers_request() -> None:
    exchange = exchange_of(Batch((CALL,)), R2025_03_26)
    receive_head(exchange, 400)

    (answer,) = exchange.receive_body(b"[" + error(-32600, "x", id=7) + b"]")

    assert isinstance(answer, Batch)
    assert exchange.answered


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (400, JSON, b'{"detail": "no"}'),
        (404, JSON, LOG),
        (404, None, b"Not Found"),
        (422, JSON, b'{"detail":[{"loc":["body"]}]}'),
        (500, "text/plain", b"Internal Server Error"),
        (502, JSON, b""),
    ],
)
def test_http_error_without_jsonrpc_error_quotes_body(status: int, kind: str | None, body: bytes) -> None:
    exchange = exchange_of()
    assert receive_head(exchange, status, kind) is Expect.MESSAGE

    with pytest.raises(HttpFailure) as caught:
        exchange.receive_body(body)

    assert caught.value.status == status
    assert caught.value.body == body
    assert f"status {status}" in caught.value.message
    assert body[:40].decode() in caught.value.message


@pytest.mark.parametrize(("status", "kind"), [(404, "text/html"), (405, JSON), (405, None), (500, STREAM)])
def test_http_error_other_media_type_quotes_body(status: int, kind: str | None) -> None:
    exchange = exchange_of()

    assert receive_head(exchange, status, kind) is Expect.TEXT
    assert exchange.failure(b"").message.startswith(f"POST returned status {status}")


def test_redirect_failure_message_omits_query() -> None:
    exchange = exchange_of()

    assert receive_head(exchange, 302, "text/html", location="https://login.example/?token=secret") is Expect.TEXT
    message = exchange.failure(b"").message
    assert message.endswith("(it redirects to https://login.example/, and the redirect was not followed)")


def test_redirect_without_location_raises_http_failure() -> None:
    exchange = exchange_of()
    receive_head(exchange, 304, None)

    with pytest.raises(HttpFailure, match=r"POST returned status 304$"):
        exchange.receive_body(b"")


@pytest.mark.parametrize("kind", [JSON, STREAM])
def test_response_with_content_encoding_failure_names_encoding(kind: str) -> None:
    for message in (CALL, None):
        exchange = exchange_of(message)
        assert receive_head(exchange, 200, kind, content_encoding="GZip") is Expect.TEXT
        assert "the body is encoded as gzip, which the request did not accept" in exchange.failure(b"\x1f\x8b").message


def test_response_content_encoding_identity_accepted() -> None:
    assert receive_head(exchange_of(), content_encoding="Identity") is Expect.MESSAGE


@pytest.mark.parametrize(("status", "sentence"), [(401, "requires credentials"), (403, "denied access")])
@pytest.mark.parametrize("message", [CALL, CHANGED, None], ids=["request", "notification", "get"])
def test_access_denied_has_challenges(status: int, sentence: str, message: Message | None) -> None:
    exchange = exchange_of(message, session_id="s")
    head = HttpHead(
        status=status,
        headers=Headers([("WWW-Authenticate", "Bearer a"), ("content-type", JSON), ("www-authenticate", "DPoP b")]),
    )

    assert exchange.receive_head(head) is Expect.TEXT
    denied = exchange.failure(error(-32600, "Origin is not listed", id=None))

    assert isinstance(denied, AccessDenied)
    assert denied.status == status
    assert denied.challenges == ("Bearer a", "DPoP b")
    assert sentence in denied.message
    assert "Origin is not listed" in denied.message


# --- sessions ------------------------------------------------------------------------------------------------------


def test_initialize_response_sets_session_id() -> None:
    exchange = exchange_of(INITIALIZE, None)
    receive_head(exchange, MCP_SESSION_ID="abc!~")

    assert exchange.session_id == "abc!~"


@pytest.mark.parametrize(("message", "status"), [(CALL, 200), (CHANGED, 202), (INITIALIZE, 400)])
def test_session_id_in_later_response_ignored(message: Message, status: int) -> None:
    exchange = exchange_of(message)
    receive_head(exchange, status, mcp_session_id="other")

    assert exchange.session_id is None


@pytest.mark.parametrize("id", ["", "a b", "\xfc", "a\x7f", "a\tb"])
def test_session_id_invalid_characters_ignored(id: str) -> None:
    exchange = exchange_of(INITIALIZE, None)
    receive_head(exchange, mcp_session_id=id)

    assert exchange.session_id is None
    assert exchange.notes == ["the session id has invalid characters and is ignored"]


def test_initialize_response_without_session_id() -> None:
    exchange = exchange_of(INITIALIZE, None)
    receive_head(exchange)

    assert exchange.session_id is None
    assert exchange.notes == []


@pytest.mark.spec("session.client-reinitialize")
@pytest.mark.parametrize(
    ("message", "last_event_id"), [(CALL, None), (CHANGED, None), (ANSWER, None), (None, "3")], ids=repr
)
def test_status_404_in_session_raises_session_expired(message: Message | None, last_event_id: str | None) -> None:
    exchange = exchange_of(message, session_id="s", last_event_id=last_event_id)

    assert receive_head(exchange, 404) is Expect.TEXT
    expired = exchange.failure(error(-32600, "session not found", id=7))
    assert isinstance(expired, SessionExpired)
    assert "session not found" in expired.message


def test_status_404_on_first_get_returns_http_failure() -> None:
    exchange = exchange_of(None, session_id="s")

    assert receive_head(exchange, 404, None) is Expect.TEXT
    failure = exchange.failure(b"")
    assert isinstance(failure, HttpFailure)
    assert failure.status == 404


def test_status_404_modern_server_answers_request() -> None:
    exchange = ClientExchange(CALL, revision=R2026_07_28, limits=LIMITS, session_id="left over")

    assert receive_head(exchange, 404) is Expect.MESSAGE
    assert exchange.receive_body(error(-32601, "unknown", id=7)) != ()


@pytest.mark.parametrize(
    "body",
    [
        error(-32000, "Bad Request: No valid session ID provided", id=None),
        error(-32600, "Bad Request: Missing session ID", id="server-error"),
        error(-32000, "Bad Request: Server not initialized", id=None),
        b"Invalid session ID",
    ],
)
def test_status_400_for_lost_session_raises_session_expired(body: bytes) -> None:
    exchange = exchange_of(session_id="s")
    receive_head(exchange, 400)
    with pytest.raises(SessionExpired):
        exchange.receive_body(body)

    notification = exchange_of(CHANGED, session_id="s")
    receive_head(notification, 400)
    assert isinstance(notification.failure(body), SessionExpired)


@pytest.mark.parametrize(
    ("session", "status", "body"),
    [
        (None, 400, error(-32000, "No valid session ID", id=None)),
        ("s", 500, error(-32000, "No valid session ID", id=None)),
        ("s", 400, error(-32602, "session is an unknown argument", id=7)),
        ("s", 400, error(-32602, "unsupported version", id=None)),
    ],
)
def test_status_400_unrelated_to_session_answers_request(session: str | None, status: int, body: bytes) -> None:
    exchange = exchange_of(session_id=session)
    receive_head(exchange, status)

    (answer,) = exchange.receive_body(body)

    assert isinstance(answer, ErrorResponse)
    assert answer.id == 7


# --- messages without a response -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", [CHANGED, ANSWER, Batch((CHANGED, ANSWER))], ids=["notification", "answer", "batch"]
)
@pytest.mark.parametrize(
    ("status", "kind"), [(202, None), (204, None), (200, JSON), (200, STREAM), (200, "text/html"), (200, None)]
)
def test_message_without_response_accepted(message: Message | Batch, status: int, kind: str | None) -> None:
    exchange = exchange_of(message, R2025_03_26)

    assert receive_head(exchange, status, kind) is Expect.NOTHING
    assert exchange.end(broken=False) is None
    assert not exchange.answered
    assert exchange.notes == ([] if status != 200 else ["the status for a message without requests is 200, not 202"])


def test_message_without_response_http_error_quoted() -> None:
    exchange = exchange_of(CHANGED)

    assert receive_head(exchange, 400) is Expect.TEXT
    assert "no such thing" in exchange.failure(error(-32600, "no such thing")).message


def test_notification_connection_lost_ignored() -> None:
    assert exchange_of(CHANGED).end(broken=True) is None


# --- streams -------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "http.client-supports-sse", "http.sse-client-ignores-comments", "http.sse-parse-standard", "sse.disconnect-any-time"
)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_stream_messages_before_response_delivered(newline: bytes) -> None:
    exchange = exchange_of()
    events = (
        encode_comment("keep-alive") + encode_event(LOG) + b"event: message\nid\ndata:" + RESULT + b"\n\n"
    ).replace(b"\n", newline)

    assert receive_events(exchange, events) == [LOGGED, ANSWER]
    assert exchange.answered
    assert exchange.end(broken=True) is None


def test_events_without_message_ignored() -> None:
    exchange = exchange_of()

    received = receive_events(
        exchange, encode_event(id="1", retry=500), b"event: ping\ndata: {}\n\n", encode_event(b"hello", event="x")
    )

    assert received == []
    assert exchange.notes == ["ignored an event of type 'ping'", "ignored an event of type 'x'"]


def test_event_other_type_with_message_tolerated() -> None:
    exchange = exchange_of()

    assert receive_events(exchange, encode_event(RESULT, event="response")) == [ANSWER]
    assert exchange.notes == ["an event of type 'response' contains a message"]


def test_event_type_note_sanitized() -> None:
    exchange = exchange_of()

    receive_events(exchange, b"event: \x1b[2J" + b"x" * 500 + b"\ndata: 1\n\n")

    assert "\x1b" not in exchange.notes[0]
    assert len(exchange.notes[0]) < 300


def test_malformed_event_does_not_prevent_response() -> None:
    exchange = exchange_of()

    bad, answer = receive_events(exchange, encode_event(b"[DONE]"), encode_event(RESULT))

    assert isinstance(bad, MalformedMessage)
    assert bad.answers is None
    assert answer == ANSWER


@pytest.mark.parametrize("limits", [Limits(message_bytes=60), Limits(event_bytes=100)])
def test_response_over_limit_answers_with_malformed_message(limits: Limits) -> None:
    exchange = exchange_of(limits=limits)

    (bad,) = receive_events(exchange, encode_event(wire(id=7, result={"text": "x" * 100})))

    assert isinstance(bad, MalformedMessage)
    assert isinstance(bad.__cause__, LimitExceeded)
    assert bad.answers == 7
    assert exchange.answered


def test_tolerated_deviations_noted_and_bounded() -> None:
    exchange = exchange_of()
    loose = b'{"id":9,"result":{}}'

    receive_events(exchange, *[encode_event(loose)] * 1_000)

    assert 0 < len(exchange.notes) <= 20
    exchange.notes.clear()
    exchange.receive_data(encode_event(loose))
    assert len(exchange.notes) == 1


def test_stream_error_without_id_answers_request() -> None:
    exchange = exchange_of()

    assert receive_events(exchange, encode_event(error(-1, "x", id=None))) == [ErrorResponse(7, ErrorObject(-1, "x"))]
    assert exchange.answered


def test_standalone_stream_error_without_id_delivered() -> None:
    exchange = exchange_of(None)

    assert receive_events(exchange, encode_event(error(-1, "x", id=None))) == [
        ErrorResponse(None, ErrorObject(-1, "x"))
    ]
    assert not exchange.answered


def test_last_event_without_blank_line_delivered() -> None:
    exchange = exchange_of()

    assert receive_events(exchange, b"id: 1\ndata: " + RESULT) == []
    assert exchange.receive_data(b"") == (ANSWER,)
    assert exchange.notes == ["the blank line after the last event is missing"]
    assert exchange.end(broken=False) is None


@pytest.mark.parametrize("cut", [b"id: 2\ndata: {", b"id: 2\n", b"id: 2", b"event: x\nid: 2\ndata: {}"])
def test_truncated_event_discarded(cut: bytes) -> None:
    exchange = exchange_of()

    assert receive_events(exchange, encode_event(id="1"), cut) == []
    assert exchange.receive_data(b"") == ()
    assert exchange.end(broken=False) == Resume("1", 1.0)


def test_stream_end_received_twice_ignored() -> None:
    exchange = exchange_of()
    receive_events(exchange, b"data: " + RESULT)

    assert exchange.receive_data(b"") == (ANSWER,)
    assert exchange.receive_data(b"") == ()


def test_endpoint_event_on_post_raises_http_failure() -> None:
    exchange = exchange_of(INITIALIZE, None)

    with pytest.raises(HttpFailure, match="HTTP\\+SSE") as caught:
        receive_events(exchange, encode_event(b"/messages?session=1", event="endpoint"))

    assert caught.value.status == 200
    assert exchange.offers_endpoint


def test_endpoint_event_on_standalone_stream_ignored() -> None:
    exchange = exchange_of(None)

    assert receive_events(exchange, encode_event(b"/messages", event="endpoint")) == []
    assert not exchange.offers_endpoint


@pytest.mark.parametrize(("status", "kind"), [(200, JSON), (204, None), (404, None), (405, JSON), (501, STREAM)])
def test_standalone_stream_unsupported_returns_http_failure(status: int, kind: str | None) -> None:
    exchange = exchange_of(None)

    assert receive_head(exchange, status, kind) is Expect.TEXT
    failure = exchange.failure(b"")
    assert isinstance(failure, HttpFailure)
    assert failure.status == status
    assert failure.message.startswith("GET returned")
    assert ("not an event stream" in failure.message) == (status < 300)


# --- interrupted streams -------------------------------------------------------------------------------------------


@pytest.mark.spec("http.reissue-after-broken-stream", "http.sse-no-resumption")
@pytest.mark.parametrize("broken", [False, True])
def test_modern_stream_ended_early_lost(broken: bool) -> None:
    exchange = exchange_of(revision=R2026_07_28)
    receive_events(exchange, encode_event(LOG, id="1"))

    error = get_lost_error(exchange, broken=broken)

    assert isinstance(error, ConnectionEnded)
    assert error.message == "the stream ended before the response; the server may have processed the request"
    assert exchange.broken is broken


@pytest.mark.spec("sse.client-polls", "resume.client-last-event-id", "resume.always-get", "sse.client-respects-retry")
@pytest.mark.parametrize("revision", [*LEGACY, None], ids=str)
@pytest.mark.parametrize("broken", [False, True])
def test_legacy_stream_with_event_ids_resumed(revision: Revision | None, broken: bool) -> None:
    exchange = exchange_of(revision=revision, session_id="s")
    receive_events(exchange, encode_event(id="1-0", retry=250), encode_event(LOG, id="1-1"))

    assert exchange.end(broken) == Resume("1-1", 0.25)
    rest = exchange.resumption()

    assert rest.method == "GET"
    assert ("last-event-id", "1-1") in rest.headers()
    assert ("mcp-session-id", "s") in rest.headers()
    before = rest.answered
    assert receive_events(rest, encode_event(RESULT)) == [ANSWER]
    assert (before, rest.answered, exchange.answered) == (False, True, False)
    assert rest.end(broken=False) is None


def test_stream_resumed_after_each_break() -> None:
    exchange = exchange_of()
    receive_events(exchange, encode_event(id="1", retry=2_000))

    second = exchange.resumption()
    assert second.end(broken=True) == Resume("1", 2.0)
    third = second.resumption()
    receive_events(third, encode_event(LOG, id="2"))
    assert third.end(broken=True) == Resume("2", 2.0)
    fourth = third.resumption()
    receive_events(fourth, encode_event(LOG, retry=100))
    assert fourth.end(broken=False) == Resume("2", 0.1)
    # Later exchanges do not change the first one.
    assert not exchange.answered


def test_resumption_after_initialize_has_new_session_id() -> None:
    exchange = exchange_of(INITIALIZE, None)
    exchange.receive_head(head_of(kind=STREAM, mcp_session_id="new"))
    exchange.receive_data(encode_event(id="1"))

    assert exchange.end(broken=True) == Resume("1", 1.0)
    assert ("mcp-session-id", "new") in exchange.resumption().headers()


def test_resumption_status_404_session_expired() -> None:
    exchange = exchange_of(session_id="s")
    receive_events(exchange, encode_event(id="1"))
    rest = exchange.resumption()

    assert receive_head(rest, 404) is Expect.TEXT
    assert isinstance(rest.failure(b""), SessionExpired)


def test_legacy_stream_without_event_ids_lost() -> None:
    exchange = exchange_of()
    receive_events(exchange, encode_event(LOG))

    assert isinstance(get_lost_error(exchange), ConnectionEnded)


@pytest.mark.parametrize("id", ["a\x01b", "a\tb", "x" * (LIMITS.header_bytes + 1)])
def test_event_id_not_allowed_in_header_lost(id: str) -> None:
    exchange = exchange_of()
    receive_events(exchange, encode_event(id=id))

    assert isinstance(get_lost_error(exchange), ConnectionEnded)
    with pytest.raises(LocalProtocolError, match="a header cannot carry the event id"):
        exchange.resumption().headers()


def test_event_id_non_ascii_resent_as_utf8() -> None:
    exchange = exchange_of()
    receive_events(exchange, encode_event(id="ü €"))

    exchange.end(broken=True)
    headers = Headers(exchange.resumption().headers())

    assert (b"last-event-id", "ü €".encode()) in headers.raw()


@pytest.mark.parametrize(("retry", "seconds"), [(0, 0.1), (1_500, 1.5), (3_600_000, 3_600.0), (10**14, 3_600.0)])
def test_retry_delay_from_server_clamped(retry: int, seconds: float) -> None:
    exchange = exchange_of(None)
    assert exchange.retry_after == 1.0
    receive_events(exchange, encode_event(retry=retry))

    assert exchange.retry_after == seconds


def test_standalone_stream_resumed_after_last_event() -> None:
    exchange = exchange_of(None, session_id="s")
    receive_events(exchange, encode_event(LOG, id="5"))

    assert exchange.end(broken=False) == Resume("5", 1.0)
    rest = exchange.resumption()
    receive_events(rest)
    assert rest.end(broken=True) == Resume("5", 1.0)


@pytest.mark.spec("resume.client-last-event-id")
def test_stream_not_resumed_after_empty_event_id() -> None:
    exchange = exchange_of(None, last_event_id="5")
    receive_events(exchange, encode_event(LOG, id="6"), b"id:\ndata:\n\n")

    assert exchange.end(broken=False) is None
    assert "last-event-id" not in dict(exchange.resumption().headers())


@pytest.mark.spec("sse.get-close-any-time")
def test_standalone_stream_without_event_ids_ends() -> None:
    exchange = exchange_of(None)
    receive_events(exchange, encode_event(LOG))

    assert exchange.end(broken=True) is None


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
def test_connection_ended_before_response_lost(revision: Revision) -> None:
    silent = exchange_of(revision=revision)
    error = get_lost_error(silent, broken=True)
    assert isinstance(error, ConnectionEnded)
    assert error.message == "the connection ended before the response; the server may have processed the request"
    assert silent.status is None

    halfway = exchange_of(revision=revision)
    receive_head(halfway)
    assert isinstance(get_lost_error(halfway, broken=True), ConnectionEnded)

    assert isinstance(get_lost_error(exchange_of(revision=revision)), ConnectionEnded)


# --- misuse --------------------------------------------------------------------------------------------------------


def test_exchange_without_response_head_raises() -> None:
    exchange = exchange_of()
    with pytest.raises(LocalProtocolError):
        exchange.receive_body(b"")
    with pytest.raises(LocalProtocolError):
        exchange.failure(b"")
    with pytest.raises(LocalProtocolError):
        exchange.receive_data(b"x")


def test_exchange_repr_omits_session_id() -> None:
    exchange = exchange_of(session_id="secret")

    assert exchange.message is CALL
    assert "secret" not in repr(exchange)


# --- properties ----------------------------------------------------------------------------------------------------

_MESSAGES: Final = st.lists(
    st.sampled_from([LOG, RESULT, wire(id=8, result={"a": "b\nc"}), wire(id="x", method="ping"), b"junk", b""]),
    max_size=5,
)


@pytest.mark.property
@given(
    messages=_MESSAGES,
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    rest=st.sampled_from([b"", b"data: " + RESULT, b"data: {", b": x"]),
)
def test_stream_portions_do_not_change_outcome(
    messages: list[bytes], newline: bytes, cuts: list[int], rest: bytes
) -> None:
    stream = b"".join(encode_event(data, id=str(number)) for number, data in enumerate(messages)) + rest
    stream = stream.replace(b"\n", newline)

    def read(portions: Sequence[bytes]) -> tuple[list[str | Message | Batch], bool, str, list[str]]:
        exchange = exchange_of()
        received = [
            str(each) if isinstance(each, MalformedMessage) else each
            for each in receive_events(exchange, *[portion for portion in portions if portion], b"")
        ]
        outcome = exchange.end(broken=False)
        return received, exchange.answered, str(outcome), list(exchange.notes)

    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert b"".join(pieces) == stream
    assert read(pieces) == read([stream])


@pytest.mark.property
@given(
    message=st.sampled_from([CALL, INITIALIZE, CHANGED, None]),
    status=st.integers(200, 599),
    kind=st.sampled_from([None, JSON, STREAM, "text/html", "text/plain", ";;;", "\xff"]),
    session=st.sampled_from([None, "s"]),
    portions=st.lists(st.binary(max_size=60) | st.just(encode_event(RESULT)) | st.just(RESULT), max_size=4),
    broken=st.booleans(),
)
def test_arbitrary_response_has_one_outcome(
    message: Message | None,
    status: int,
    kind: str | None,
    session: str | None,
    portions: list[bytes],
    broken: bool,
) -> None:
    exchange = exchange_of(message, session_id=session)
    body = b"".join(portions)
    expect = receive_head(exchange, status, kind)
    try:
        if expect is Expect.TEXT:
            assert isinstance(exchange.failure(body), HttpFailure | SessionExpired)
            return
        if expect is Expect.MESSAGE:
            exchange.receive_body(body)
        elif expect is Expect.STREAM:
            for portion in [each for each in portions if each] + ([] if broken else [b""]):
                exchange.receive_data(portion)
    except (HttpFailure, SessionExpired):
        return
    outcome = exchange.end(broken)
    assert isinstance(outcome, Resume | Lost | None)
    if isinstance(message, Request):
        assert (outcome is None) == exchange.answered


@pytest.mark.property
@given(cut=st.integers(0, 400), modern=st.booleans(), ids=st.booleans())
def test_truncated_stream_answered_resumed_or_lost(cut: int, modern: bool, ids: bool) -> None:
    events = [
        encode_event(data, id=str(number) if ids else None) for number, data in enumerate([b"", LOG, LOG, RESULT])
    ]
    stream = b"".join(events)[:cut]
    exchange = exchange_of(revision=R2026_07_28 if modern else R2025_11_25)

    received = receive_events(exchange, *([stream] if stream else []))
    outcome = exchange.end(broken=True)

    whole = [number for number in range(4) if cut >= sum(map(len, events[: number + 1]))]
    assert len(received) == len([number for number in whole if number > 0])
    if 3 in whole:
        assert outcome is None
    elif ids and not modern and whole:
        assert outcome == Resume(str(whole[-1]), 1.0)
    else:
        assert isinstance(outcome, Lost)


def test_resume_is_attrs_value() -> None:
    assert attrs.astuple(Resume("1", 2.0)) == ("1", 2.0)
