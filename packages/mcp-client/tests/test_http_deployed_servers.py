"""Responses of deployed servers to the opening of a connection: it succeeds, or the error states the cause."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import trio
import trio.testing
from fake_http_server import (
    DISCOVERED,
    OK,
    HttpSseServer,
    ReceivedRequest,
    Reply,
    Responder,
    initialized,
    legacy,
    modern,
    page,
    serving,
    silence,
)

from mcp_client import Deadlines, open_http
from mcp_client.connectors import http as http_connector
from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    HttpFailure,
    McpError,
    MissingRequiredClientCapability,
    NegotiationFailed,
    Phase,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LEGACY, MODERN, R2025_06_18, R2026_07_28


def error_responder(
    code: int, message: str, status: int = 400, *, id: JsonValue = "same", data: JsonValue = None
) -> Responder:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        body: JsonObject = {"code": code, "message": message}
        if data is not None:
            body["data"] = data
        sent = request.message["id"] if id == "same" else id
        await reply.json({"jsonrpc": "2.0", "id": sent, "error": body}, status)

    return answer


async def junk_result(request: ReceivedRequest, reply: Reply) -> None:
    await reply.result({"tools": []})


async def streamed_error(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event(
        {"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32601, "message": "Method not found"}}
    )
    await reply.end()


async def empty_stream(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.end()


PROBES: dict[str, Responder] = {
    "-32601": error_responder(-32601, "Method not found", 200),
    "-32602": error_responder(-32602, "Invalid request parameters", 200),
    "-32600": error_responder(-32600, "Invalid Request", 200),
    "-32601 with 404": error_responder(-32601, "Method not found", 404),
    "400 missing session": error_responder(-32600, "Bad Request: Missing session ID"),
    "400 missing session, no id": error_responder(-32000, "Bad Request: Mcp-Session-Id header is required", id=None),
    "400 invented id": error_responder(-32600, "Bad Request: Missing session ID", id="server-error"),
    "400 unsupported version, id null": error_responder(-32000, "Bad Request: Unsupported protocol version", id=None),
    "400 text": page(400, b"Invalid or missing session ID"),
    "400 empty": page(400, kind=None),
    "400 page": page(400, b"<html>Bad Request</html>", "text/html"),
    "400 JSON of its own": page(400, b'{"error": "bad request"}', "application/json"),
    "404 text": page(404, b"Not Found"),
    "405": page(405),
    "406": page(406, b"Not Acceptable"),
    "415": page(415),
    "422": page(422, b'{"detail": []}', "application/json"),
    "500": page(500, b"Internal Server Error"),
    "501": page(501),
    "202": page(202, kind=None),
    "204": page(204, kind=None),
    "200 empty": page(200, kind=None),
    "200 null": page(200, b"null", "application/json"),
    "200 page": page(200, b"<html>hello</html>", "text/html"),
    "200 broken JSON": page(200, b'{"jsonrpc": "2.0", "id"', "application/json"),
    "a result of its own": junk_result,
    "an error on a stream": streamed_error,
    "a stream without anything": empty_stream,
    "silence": silence,
}


@pytest.mark.spec(
    "compat.client-http-fallback",
    "compat.client-http-inspect-400",
    "compat.client-dual-legacy",
    "compat.client-http-modern-first",
)
@pytest.mark.parametrize("case", PROBES)
async def test_probe_any_legacy_response_opens_session(case: str, autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await (PROBES[case] if request.rpc == "server/discover" else inner)(request, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            assert client.revision.name == "2025-11-25"
            await client.call_tool("echo")
        assert server.rpcs().count("initialize") == 1
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


OTHER_SERVERS: dict[str, tuple[Responder, type[McpError], str]] = {
    "a page": (page(200, b"<html>Welcome</html>", "text/html"), HttpFailure, "Welcome"),
    "a page 404": (page(404, b"<html>Nothing</html>", "text/html"), HttpFailure, "status 404"),
    "text": (page(200, b"hello", "text/plain"), HttpFailure, "hello"),
    "always empty": (page(200, kind=None), McpError, "empty"),
    "always accepted": (page(202, kind=None), McpError, "202"),
    "500": (page(500, b"broken"), HttpFailure, "broken"),
    "503": (page(503, b"later"), HttpFailure, "later"),
    "429": (page(429, b"too many"), HttpFailure, "too many"),
    "compressed": (page(200, b"\x1f\x8b"), HttpFailure, "status 200"),
    "error without meaning": (error_responder(-32603, "boom", 200), RequestFailed, "boom"),
    "a redirect elsewhere": (page(302, kind=None), HttpFailure, "302"),
}


@pytest.mark.spec("compat.client-modern-legacy-surface")
@pytest.mark.parametrize("case", OTHER_SERVERS)
async def test_foreign_server_error_states_cause(case: str, autojump_clock: trio.testing.MockClock) -> None:
    answer, error_type, message = OTHER_SERVERS[case]

    async def anything(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "GET":
            await reply.body(404, b"no", "text/plain")
        else:
            await answer(request, reply)

    async with serving(anything, path="/mcp?key=secret") as server:
        with pytest.raises(error_type, match=message) as caught:
            async with open_http(server.url):
                pass
        assert caught.value.context.peer == server.url.partition("?")[0]
        assert caught.value.context.phase is Phase.NEGOTIATE
        assert "secret" not in str(caught.value)
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("when", ["server/discover", "initialize"])
async def test_probe_401_or_403_does_not_fall_back(status: int, when: str) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == when:
            await reply.body(status, b"who are you?", "text/plain", {"WWW-Authenticate": "Bearer"})
        else:
            await inner(request, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied, match="who are you") as caught:
            async with open_http(server.url):
                pass
        assert caught.value.challenges == ("Bearer",)
        assert server.rpcs()[-1] == when


@pytest.mark.parametrize("when", ["head", "body"])
async def test_probe_connection_failure_does_not_fall_back(when: str) -> None:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if when == "body":
            await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        await reply.cut()

    async with serving(answer) as server:
        with pytest.raises(ConnectionEnded):
            async with open_http(server.url):
                pass
        assert server.rpcs() == ["server/discover"]


@pytest.mark.spec("compat.client-http-modern-error-retry")
@pytest.mark.parametrize("id", ["same", None])
async def test_probe_modern_error_does_not_fall_back(id: JsonValue) -> None:
    answer = error_responder(-32021, "sampling is needed", id=id, data={"requiredCapabilities": {"sampling": {}}})
    async with serving(answer) as server:
        with pytest.raises(MissingRequiredClientCapability):
            async with open_http(server.url):
                pass
        assert server.rpcs() == ["server/discover"]


@pytest.mark.spec("compat.client-http-modern-error-retry")
async def test_probe_version_rejected_initialize_with_supported_version() -> None:
    inner = modern()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if len(server.requests) == 1:
            await error_responder(-32022, "no", data={"supported": ["2025-06-18"], "requested": "2026-07-28"})(
                request, reply
            )
        elif request.rpc == "initialize":
            await reply.result(initialized("2025-06-18"))
        elif request.rpc == "notifications/initialized":
            await reply.accept()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        assert client.revision is R2025_06_18


async def test_modern_only_client_legacy_server_raises() -> None:
    async with serving(legacy()) as server:
        with pytest.raises((NegotiationFailed, RequestFailed, HttpFailure), match="modern revisions only"):
            async with open_http(server.url, revisions=MODERN):
                pass
        assert server.rpcs() == ["server/discover"]


@pytest.mark.spec("http.sse-transport-not-adopted")
async def test_modern_only_client_does_not_try_http_sse() -> None:
    async with serving(HttpSseServer().answer) as server:
        with pytest.raises(NegotiationFailed, match="modern revisions only"):
            async with open_http(server.url, revisions=MODERN):
                pass
        assert server.rpcs() == ["server/discover"]


async def test_legacy_only_client_does_not_probe() -> None:
    async with serving(legacy()) as server, open_http(server.url, revisions=LEGACY) as client:
        await client.ping()
        assert server.rpcs()[0] == "initialize"


# --- slow servers ----------------------------------------------------------------------------------------------------


async def slow_modern(request: ReceivedRequest, reply: Reply) -> None:
    """Start for ten seconds, then serve modern revisions only."""
    await trio.sleep(max(0.0, 10 - trio.current_time()))
    if request.rpc == "server/discover":
        # The later request is answered first, which is the worst case.
        await trio.sleep(1)
        await reply.result(DISCOVERED)
    elif request.rpc == "tools/call":
        await reply.result(OK)
    else:
        await reply.error(-32601, "Method not found", 404)


async def test_slow_modern_server_negotiates_modern(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(slow_modern) as server, open_http(server.url) as client:
        assert client.revision is R2026_07_28
        await client.call_tool("echo")
        assert server.rpcs() == ["server/discover", "initialize", "tools/call"]


async def test_silent_server_connect_deadline_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving(silence) as server:
        start = trio.current_time()
        with pytest.raises(RequestTimeout, match="connect deadline of 20 s") as caught:
            async with open_http(server.url, deadlines=Deadlines(connect=20)):
                pass
        assert trio.current_time() - start == pytest.approx(20)
        assert caught.value.context.method == "initialize"
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


async def test_client_closed_while_connecting(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(silence) as server:
        opening = open_http(server.url)

        async def enter() -> None:
            with pytest.raises(ConnectionEnded, match="closed while it was connecting"):
                async with opening:
                    pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            await trio.testing.wait_all_tasks_blocked()
            await opening.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


async def test_initialize_response_resumed_by_get(autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            await reply.event(id="i1")
            await reply.end()
        elif "last-event-id" in request.headers:
            (handshake,) = server.of("initialize")
            await reply.stream()
            await reply.event_result_of(handshake, initialized())
            await reply.end()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.ping()
    assert server.requests[-1].headers["mcp-session-id"] == "s1"


# --- remembered eras --------------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-cache-era")
async def test_legacy_server_probed_once() -> None:
    async with serving(legacy()) as server:
        for _ in range(3):
            async with open_http(server.url) as client:
                await client.ping()
    assert server.rpcs().count("server/discover") == 1
    assert server.rpcs().count("initialize") == 3


BROKEN = page(503)


@pytest.mark.spec("compat.client-persist-era")
@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(legacy(), modern(), id="legacy to modern"),
        pytest.param(modern(), legacy(), id="modern to legacy"),
        pytest.param(legacy(), BROKEN, id="legacy to broken"),
    ],
)
async def test_remembered_era_outdated_corrected(first: Responder, later: Responder) -> None:
    current = first

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await current(request, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            await client.call_tool("echo")
        current = later
        for _ in range(2):
            # A server that fails now raises; a server of another era works.
            broken = pytest.raises(HttpFailure, match="503") if later is BROKEN else nullcontext()
            with broken:
                async with open_http(server.url) as client:
                    await client.call_tool("echo")
            assert (http_connector._eras[0].find(server.url) is None) == (later is BROKEN)
        current = first
        async with open_http(server.url) as client:
            await client.call_tool("echo")


@pytest.mark.parametrize("later", [modern(), legacy()], ids=["modern", "legacy"])
async def test_remembered_http_sse_server_changed_transport(later: Responder) -> None:
    sse_server = HttpSseServer()
    current: Responder = sse_server.answer

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await current(request, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            await client.ping()
        current = later
        first: list[str] = []
        for _ in range(2):
            before = len(server.requests)
            async with open_http(server.url) as client:
                await client.call_tool("echo")
            first.append(server.rpcs()[before])
        # The second opening uses the remembered era.
        assert first == ["GET", "initialize" if client.revision in LEGACY else "server/discover"]


async def test_remembered_http_sse_stream_without_endpoint_abandoned() -> None:
    sse_server, new = HttpSseServer(), legacy()
    stream_closed = trio.Event()
    changed = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if not changed:
            await sse_server.answer(request, reply)
        elif request.target.startswith("/messages"):
            await reply.body(410)
        elif request.method == "GET" and not stream_closed.is_set():
            await sse_server.answer(request, reply)
            stream_closed.set()
        else:
            await new(request, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            await client.ping()
        changed = True
        async with open_http(server.url) as client:
            await stream_closed.wait()
            await client.call_tool("echo")
            assert client.revision.name == "2025-11-25"


# --- responses -------------------------------------------------------------------------------------------------------


def raw_result(request: ReceivedRequest, **changes: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": OK, **changes}


async def as_text(request: ReceivedRequest, reply: Reply) -> None:
    await reply.body(200, json.dumps(raw_result(request)).encode(), "text/plain; charset=utf-8")


async def without_content_type(request: ReceivedRequest, reply: Reply) -> None:
    await reply.body(200, json.dumps(raw_result(request)).encode())


async def with_mixed_case_content_type(request: ReceivedRequest, reply: Reply) -> None:
    await reply.body(200, json.dumps(raw_result(request)).encode(), "Application/JSON; Charset=UTF-8")


async def with_string_id(request: ReceivedRequest, reply: Reply) -> None:
    await reply.json(raw_result(request, id=str(request.message["id"])))


async def with_crlf_lines(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.chunk(b"event: message\r\nid: 1\r\nretry: 5\r\ndata: ")
    await reply.chunk(json.dumps(raw_result(request)).encode() + b"\r")
    await reply.chunk(b"\n\r")
    await reply.chunk(b"\n")
    await reply.end()


async def without_event_end(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.chunk(b":ok\n\ndata:" + json.dumps(raw_result(request)).encode())
    await reply.end()


async def with_other_event_names(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event(name="ping")
    await reply.event("not JSON", name="welcome")
    await reply.event(raw_result(request), name="response")
    await reply.end()


async def with_several_data_lines(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    lines = json.dumps(raw_result(request), indent=1).encode().split(b"\n")
    await reply.chunk(b"".join(b"data: %b\n" % line for line in lines) + b"\n")
    await reply.end()


async def until_connection_end(request: ReceivedRequest, reply: Reply) -> None:
    await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    await reply.raw(b"data: %b\n\n" % json.dumps(raw_result(request)).encode())
    await reply.cut()


async def as_batch(request: ReceivedRequest, reply: Reply) -> None:
    await reply.json([raw_result(request)])


async def after_junk(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event("no JSON at all")
    await reply.event({"jsonrpc": "2.0", "method": "window/logMessage", "params": {}})
    await reply.event(raw_result(request))
    await reply.end()


async def with_session_id(request: ReceivedRequest, reply: Reply) -> None:
    await reply.json(raw_result(request), headers={"mcp-SESSION-id": "surprise"})


ANSWERS = [
    as_text,
    without_content_type,
    with_mixed_case_content_type,
    with_string_id,
    with_crlf_lines,
    without_event_end,
    with_other_event_names,
    with_several_data_lines,
    until_connection_end,
    as_batch,
    after_junk,
    with_session_id,
]


@pytest.mark.spec("http.content-type-charset", "http.sse-parse-standard", "http.client-both-response-types")
@pytest.mark.parametrize("calls", ANSWERS)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_response_any_form_read(calls: Responder, era: str) -> None:
    answer = modern(calls) if era == "modern" else legacy(calls)
    async with serving(answer) as server, open_http(server.url) as client:
        for _ in range(2):
            assert not (await client.call_tool("echo")).is_error
        assert not client._channel._calls
        assert not client._channel.connection.outbound_requests
        assert not server.of("DELETE")


async def test_session_id_of_later_responses_ignored() -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.result(OK, headers={"Mcp-Session-Id": f"s{len(server.requests)}"})

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        for _ in range(3):
            await client.call_tool("echo")
        assert {request.headers["mcp-session-id"] for request in server.of("tools/call")} == {"s1"}


async def test_redirect_to_path_with_slash_followed_with_body() -> None:
    inner = modern()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.target == "/mcp":
            await reply.body(307, headers={"Location": "/mcp/"})
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        assert server.requests[-1].target == "/mcp/"


async def test_initialized_notification_hanging_connect_deadline_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await (silence if request.rpc == "notifications/initialized" else inner)(request, reply)

    async with serving(answer) as server:
        with pytest.raises(RequestTimeout, match="connect deadline of 20 s"):
            async with open_http(server.url, deadlines=Deadlines(connect=20)):
                pass
        assert server.rpcs()[-1] == "DELETE"
