"""Next steps of an HTTP client after responses of deployed servers to its first request, and the cache of eras."""

from __future__ import annotations

from typing import Final, Literal
from unittest.mock import ANY

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.codec import Batch
from mcp_core.engine.client import ClientConnection
from mcp_core.engine.events import ConnectionOpened, Negotiating, NegotiationEnded, Outgoing, ReceiveResult
from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    HttpFailure,
    LimitExceeded,
    MalformedMessage,
    McpError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.framing.sse import encode_event
from mcp_core.http.client import ClientExchange, Expect, Lost
from mcp_core.http.fallback import EraCache, NegotiatedEndpoint, Next, neither, next_after, shows_era
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, JsonObject, Message, Notification, Request
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_11_25, R2026_07_28
from mcp_core.types import ClientCapabilities, Implementation

LIMITS: Final = Limits()
JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
HTML: Final = "text/html; charset=utf-8"


def error(code: int, message: str, **members: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}, **members})


def result(**members: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": members})


def attempt(
    client: ClientConnection, outgoing: Outgoing, status: int | None, kind: str | None, body: bytes
) -> tuple[str, ReceiveResult | McpError | None]:
    """Send a request of the engine to a server with this response. Return the next step and its reaction or error."""
    message = outgoing.message
    assert isinstance(message, Request)
    modern = message.method == "server/discover"
    exchange = ClientExchange(message, revision=R2026_07_28 if modern else None, limits=LIMITS)
    exchange.headers()
    failure: McpError | None = None
    reaction: ReceiveResult | None = None
    try:
        if status is not None:
            head = HttpHead(status=status, headers=Headers([] if kind is None else [("content-type", kind)]))
            for received in read_body(exchange, exchange.receive_head(head), body):
                reaction = receive(client, received) or reaction
        outcome = exchange.end(broken=status is None)
        if isinstance(outcome, Lost):
            failure = outcome.error
    except (HttpFailure, RemoteProtocolError) as caught:
        failure = caught
    if failure is not None and reaction is None:
        next_step = next_after(exchange, failure)
        if next_step is not Next.REFUSED:
            return next_step.name, failure
        reaction = client.opening_refused(failure, message.id)
    assert reaction is not None
    return describe_outcome(reaction), reaction


def read_body(exchange: ClientExchange, expect: Expect, body: bytes) -> tuple[object, ...]:
    if expect is Expect.TEXT:
        raise exchange.failure(body)
    if expect is Expect.STREAM:
        return (*exchange.receive_data(body), *exchange.receive_data(b""))
    return exchange.receive_body(body) if expect is Expect.MESSAGE else ()


def receive(client: ClientConnection, received: object) -> ReceiveResult | None:
    if isinstance(received, MalformedMessage):
        # As in the reader of a channel: for the engine, the request has failed.
        return (
            None
            if received.answers is None
            else client.receive(ErrorResponse(received.answers, ErrorObject(int(received.code), received.message)))
        )
    if isinstance(received, Batch):
        return None
    assert isinstance(received, Message)
    return client.receive(received)


def describe_outcome(reaction: ReceiveResult) -> str:
    event = reaction.event
    if isinstance(event, Negotiating):
        return event.method
    return event.peer.revision.name if isinstance(event, ConnectionOpened) else type(event).__name__


def make_client() -> ClientConnection:
    return ClientConnection(Implementation(name="c", version="1"), ClientCapabilities())


# --- responses of deployed servers ---------------------------------------------------------------------------------

PROBE_RESPONSES: Final = {
    "a discover result": (200, JSON, result(supportedVersions=["2026-07-28"], capabilities={}), "2026-07-28"),
    "a discover result in a stream": (
        200,
        STREAM,
        encode_event(result(supportedVersions=["2026-07-28"], capabilities={})),
        "2026-07-28",
    ),
    "a discover result of a legacy server": (
        200,
        JSON,
        result(supportedVersions=["2025-11-25"], capabilities={}),
        "initialize",
    ),
    "-32022 with nothing in common": (
        400,
        JSON,
        orjson.dumps({"id": 1, "error": {"code": -32022, "message": "no", "data": {"supported": ["2027-01-01"]}}}),
        "NegotiationEnded",
    ),
    "-32022 naming legacy revisions": (
        400,
        JSON,
        orjson.dumps({"id": 1, "error": {"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"]}}}),
        "initialize",
    ),
    "-32020": (400, JSON, error(-32020, "mismatch", id=1), "NegotiationEnded"),
    "-32021": (400, JSON, error(-32021, "needs sampling", id=None), "NegotiationEnded"),
    "-32601": (200, JSON, error(-32601, "Method not found", id=1), "initialize"),
    "-32601 with 404": (404, JSON, error(-32601, "Method not found", id=1), "initialize"),
    "-32602": (200, JSON, error(-32602, "Invalid request parameters", id=1), "initialize"),
    "-32602 in a stream": (200, STREAM, encode_event(error(-32602, "Invalid", id=1)), "initialize"),
    "-32600": (200, JSON, error(-32600, "Invalid Request", id=1), "initialize"),
    "400 Missing session ID": (
        400,
        JSON,
        error(-32600, "Bad Request: Missing session ID", id="server-error"),
        "initialize",
    ),
    "400 Unsupported protocol version": (
        400,
        JSON,
        error(-32000, "Bad Request: Unsupported protocol version", id=None),
        "initialize",
    ),
    "400 without id": (400, JSON, error(-32000, "Bad Request: Server not initialized"), "initialize"),
    "400 as text": (400, "text/plain", b"Bad Request", "initialize"),
    "400 as another API": (400, JSON, b'{"detail": "There was an error parsing the body"}', "initialize"),
    "400 without body": (400, None, b"", "initialize"),
    "404 as a page": (404, HTML, b"<h1>Not Found</h1>", "initialize"),
    "404 without body": (404, None, b"", "initialize"),
    "405": (405, JSON, error(-32000, "Method not allowed.", id=None), "initialize"),
    "406": (406, JSON, error(-32000, "Not Acceptable", id="server-error"), "initialize"),
    "422": (422, JSON, b'{"detail":[]}', "initialize"),
    "500": (500, "text/plain", b"Internal Server Error", "initialize"),
    "501": (501, HTML, b"", "initialize"),
    "200 as a page": (200, HTML, b"<html>", "initialize"),
    "200 as another API": (200, JSON, b'{"status":"ok"}', "initialize"),
    "200 without body": (200, JSON, b"", "initialize"),
    "202": (202, None, b"", "initialize"),
    "302": (302, HTML, b"", "initialize"),
    "an empty stream": (200, STREAM, b": hello\n\n", "initialize"),
    "the stream of HTTP+SSE": (200, STREAM, encode_event(b"/messages?session=1", event="endpoint"), "initialize"),
    "a result of something else": (200, JSON, result(tools=[]), "initialize"),
    "401": (401, JSON, b"{}", "GIVE_UP"),
    "403": (403, HTML, b"blocked", "GIVE_UP"),
    "a connection that ends": (None, None, b"", "GIVE_UP"),
}


@pytest.mark.spec(
    "compat.client-http-inspect-400",
    "compat.client-http-modern-error-retry",
    "compat.client-http-fallback",
    "compat.client-dual-modern",
    "compat.client-dual-legacy",
)
@pytest.mark.parametrize("response", PROBE_RESPONSES)
def test_probe_response_determines_next_step(response: str) -> None:
    status, kind, body, expected = PROBE_RESPONSES[response]
    client = make_client()

    next_step, _ = attempt(client, client.open(), status, kind, body)

    assert next_step == expected


HANDSHAKE: Final[JsonObject] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "s", "version": "1"},
}

INITIALIZE_RESPONSES: Final = {
    "its result": (200, JSON, result(**HANDSHAKE), "2025-06-18"),
    "its result in a stream": (200, STREAM, encode_event(result(**HANDSHAKE)), "2025-06-18"),
    "its result as text": (200, "text/plain", result(**HANDSHAKE), "2025-06-18"),
    "400 as text": (400, "text/plain", b"Bad Request", "OPEN_SSE"),
    "404 as a page": (404, HTML, b"Cannot POST /sse", "OPEN_SSE"),
    "405 as a page": (405, HTML, b"", "OPEN_SSE"),
    "405 as JSON-RPC": (405, JSON, error(-32000, "Method not allowed.", id=None), "OPEN_SSE"),
    "406 as text": (406, "text/plain", b"no", "OPEN_SSE"),
    "415 as text": (415, None, b"", "OPEN_SSE"),
    "the stream of HTTP+SSE": (200, STREAM, encode_event(b"/messages", event="endpoint"), "OPEN_SSE"),
    "404 as JSON-RPC": (404, JSON, error(-32601, "Method not found", id=1), "NegotiationEnded"),
    "400 as JSON-RPC": (400, JSON, error(-32600, "no", id=None), "NegotiationEnded"),
    "407": (407, HTML, b"", "GIVE_UP"),
    "408": (408, None, b"", "GIVE_UP"),
    "429": (429, "text/plain", b"slow down", "GIVE_UP"),
    "200 as a page": (200, HTML, b"<html>", "GIVE_UP"),
    "200 without body": (200, JSON, b"", "GIVE_UP"),
    "202": (202, None, b"", "GIVE_UP"),
    "302": (302, None, b"", "GIVE_UP"),
    "500": (500, "text/plain", b"Internal Server Error", "GIVE_UP"),
    "503": (503, HTML, b"", "GIVE_UP"),
    "an empty stream": (200, STREAM, b"", "GIVE_UP"),
    "401": (401, None, b"", "GIVE_UP"),
    "403": (403, None, b"", "GIVE_UP"),
    "a connection that ends": (None, None, b"", "GIVE_UP"),
    "another API": (200, JSON, b'{"status":"ok"}', "NegotiationEnded"),
}


@pytest.mark.spec(
    "http-sse.compat-client-post-first",
    "http-sse.compat-client-fallback-4xx",
    "http-sse.compat-client-fallback-400-404-405",
    "compat.http-sse-client-fallback",
)
@pytest.mark.parametrize("response", INITIALIZE_RESPONSES)
def test_initialize_response_determines_next_step(response: str) -> None:
    status, kind, body, expected = INITIALIZE_RESPONSES[response]
    client = ClientConnection(Implementation(name="c", version="1"), ClientCapabilities(), revisions=LEGACY)

    next_step, outcome = attempt(client, client.open(), status, kind, body)

    assert next_step == expected
    if expected == "GIVE_UP" and status is not None:
        assert isinstance(outcome, McpError)
        assert f"{status}" in outcome.message or "stream ended" in outcome.message


@pytest.mark.parametrize(
    ("failure", "next_step"),
    [
        (RequestTimeout("x", deadline="probe", seconds=1), Next.REFUSED),
        (LimitExceeded("x", observed=2, allowed=1, setting="x"), Next.GIVE_UP),
        (ConnectionEnded("x"), Next.GIVE_UP),
        (RequestFailed("x"), Next.GIVE_UP),
        (AccessDenied("x", status=401), Next.GIVE_UP),
    ],
    ids=lambda value: type(value).__name__,
)
def test_probe_failure_determines_next_step(failure: McpError, next_step: Next) -> None:
    exchange = ClientExchange(Request(1, "server/discover", {}), revision=R2026_07_28, limits=LIMITS)

    assert next_after(exchange, failure) is next_step


def test_probe_stream_broken_gives_up() -> None:
    exchange = ClientExchange(Request(1, "server/discover", {}), revision=R2026_07_28, limits=LIMITS)
    exchange.receive_head(HttpHead(status=200, headers=Headers([("content-type", STREAM)])))
    outcome = exchange.end(broken=True)

    assert isinstance(outcome, Lost)
    assert next_after(exchange, outcome.error) is Next.GIVE_UP


@pytest.mark.parametrize("message", [None, Notification("x"), Request(1, "tools/list", {})])
def test_failure_after_opening_gives_up(message: Message | None) -> None:
    exchange = ClientExchange(message, revision=R2025_11_25, limits=LIMITS)

    assert next_after(exchange, HttpFailure("x", status=404)) is Next.GIVE_UP


@pytest.mark.spec("compat.client-cache-era")
@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        *((HttpFailure("x", status=status), True) for status in (200, 302, 400, 404, 405, 422)),
        *((HttpFailure("x", status=status), False) for status in (408, 425, 429, 500, 502, 503)),
        (RemoteProtocolError("x"), True),
        (RequestTimeout("x", deadline="probe", seconds=1), False),
        (ConnectionEnded("x"), False),
    ],
    ids=str,
)
def test_era_learned_only_from_responses_of_server(failure: McpError, expected: bool) -> None:
    assert shows_era(failure) is expected


# --- no supported transport ----------------------------------------------------------------------------------------


def test_both_transports_unsupported_error_has_both_reasons() -> None:
    first = HttpFailure("POST returned status 405", status=405, body=b"no")
    second = HttpFailure("GET returned status 200 and text/html", status=200)

    failure = neither(first, second)

    assert isinstance(failure, HttpFailure)
    assert (failure.status, failure.body) == (405, b"no")
    assert failure.message == (
        "the server supports neither Streamable HTTP nor HTTP+SSE: POST returned status 405; "
        "GET returned status 200 and text/html"
    )
    assert failure.__cause__ is second


def test_access_denied_takes_precedence() -> None:
    denied = AccessDenied("x", status=401)

    assert neither(HttpFailure("y", status=404), denied) is denied


def test_unrelated_failure_returned_unchanged() -> None:
    ended = ConnectionEnded("x")

    assert neither(ended, HttpFailure("y", status=404)) is ended


# --- the cache -----------------------------------------------------------------------------------------------------

LEGACY_SERVER: Final = NegotiatedEndpoint(revision=R2025_11_25)
MODERN_SERVER: Final = NegotiatedEndpoint(revision=R2026_07_28)
OLD_SERVER: Final = NegotiatedEndpoint(revision=R2024_11_05, http_sse=True)


@pytest.mark.spec("compat.client-cache-era", "compat.era-is-server-property")
def test_era_cache_remembers_revision_by_url_without_query() -> None:
    eras = EraCache()
    assert eras.find("https://a.example/mcp") is None

    eras.learn("https://a.example/mcp?key=1#x", MODERN_SERVER)
    eras.learn("https://a.example/sse", OLD_SERVER)

    assert eras.find("https://a.example/mcp") == MODERN_SERVER
    assert eras.find("https://a.example/mcp?key=2") == MODERN_SERVER
    assert eras.find("https://a.example/sse") == OLD_SERVER
    assert eras.find("https://b.example/mcp") is None


def test_era_cache_forgets_and_replaces() -> None:
    eras = EraCache()
    eras.forget("https://a.example/mcp")
    eras.learn("https://a.example/mcp", LEGACY_SERVER)
    eras.learn("https://a.example/mcp", MODERN_SERVER)
    assert eras.find("https://a.example/mcp") == MODERN_SERVER

    eras.forget("https://a.example/mcp#1")
    assert eras.find("https://a.example/mcp") is None


@pytest.mark.parametrize("used_by", ["find", "learn"])
def test_era_cache_keeps_most_recently_used(used_by: str) -> None:
    eras = EraCache(2)
    eras.learn("https://a.example/", LEGACY_SERVER)
    eras.learn("https://b.example/", LEGACY_SERVER)
    if used_by == "find":
        eras.find("https://a.example/")
    else:
        eras.learn("https://a.example/", LEGACY_SERVER)

    eras.learn("https://c.example/", LEGACY_SERVER)

    assert eras.find("https://a.example/") == LEGACY_SERVER
    assert eras.find("https://b.example/") is None


@pytest.mark.property
@given(
    steps=st.lists(st.tuples(st.sampled_from(["find", "learn", "forget"]), st.sampled_from("abcdef")), max_size=40),
    most=st.integers(1, 4),
)
def test_era_cache_bounded_evicts_least_recently_used(
    steps: list[tuple[Literal["find", "learn", "forget"], str]], most: int
) -> None:
    eras = EraCache(most)
    model: dict[str, NegotiatedEndpoint] = {}
    for step, name in steps:
        url = f"https://{name}.example/"
        if step == "find":
            assert eras.find(url) == model.get(name)
            if name in model:
                model[name] = model.pop(name)
        elif step == "learn":
            model.pop(name, None)
            model[name] = MODERN_SERVER
            eras.learn(url, MODERN_SERVER)
            if len(model) > most:
                del model[next(iter(model))]
        else:
            model.pop(name, None)
            eras.forget(url)
        assert len(eras) == len(model) <= most


# --- outdated cached era -------------------------------------------------------------------------------------------


def test_server_became_modern_negotiated_by_engine() -> None:
    client = make_client()
    first = client.open(era=LEGACY_SERVER.revision.era)

    next_step, reaction = attempt(client, first, 404, JSON, error(-32601, "Method not found", id=1))
    assert next_step == "server/discover"
    assert isinstance(reaction, ReceiveResult)
    assert reaction.reply is not None
    discovery = orjson.loads(result(supportedVersions=["2026-07-28"], capabilities={})) | {"id": 2}
    next_step, _ = attempt(client, reaction.reply, 200, JSON, orjson.dumps(discovery))

    assert next_step == "2026-07-28"


def test_unavailable_server_reports_first_failure() -> None:
    client = make_client()
    assert client.open(era=LEGACY_SERVER.revision.era).message == Request(1, "initialize", ANY)

    reaction = client.opening_refused(HttpFailure("the first", status=404), 1)
    assert reaction is not None
    assert describe_outcome(reaction) == "server/discover"
    reaction = client.opening_refused(HttpFailure("the second", status=404), 2)

    assert reaction is not None
    assert isinstance(reaction.event, NegotiationEnded)
    assert reaction.event.error.message == "the first"
