"""Every shape in which deployed servers answer the opening of a connection: it succeeds, or says precisely why not."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import trio
import trio.testing
from zoo import (
    DISCOVERED,
    OK,
    Answer,
    Asked,
    OldServer,
    Reply,
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


def error(code: int, message: str, status: int = 400, *, id: JsonValue = "same", data: JsonValue = None) -> Answer:
    async def answer(asked: Asked, reply: Reply) -> None:
        body: JsonObject = {"code": code, "message": message}
        if data is not None:
            body["data"] = data
        sent = asked.message["id"] if id == "same" else id
        await reply.json({"jsonrpc": "2.0", "id": sent, "error": body}, status)

    return answer


async def junk_result(asked: Asked, reply: Reply) -> None:
    await reply.result({"tools": []})


async def streamed_error(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.event(
        {"jsonrpc": "2.0", "id": asked.message["id"], "error": {"code": -32601, "message": "Method not found"}}
    )
    await reply.end()


async def empty_stream(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.end()


PROBES: dict[str, Answer] = {
    "-32601": error(-32601, "Method not found", 200),
    "-32602": error(-32602, "Invalid request parameters", 200),
    "-32600": error(-32600, "Invalid Request", 200),
    "-32601 with 404": error(-32601, "Method not found", 404),
    "400 missing session": error(-32600, "Bad Request: Missing session ID"),
    "400 missing session, no id": error(-32000, "Bad Request: Mcp-Session-Id header is required", id=None),
    "400 invented id": error(-32600, "Bad Request: Missing session ID", id="server-error"),
    "400 unsupported version, id null": error(-32000, "Bad Request: Unsupported protocol version", id=None),
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
@pytest.mark.parametrize("shape", PROBES)
async def test_whatever_a_legacy_server_answers_to_the_probe_its_session_is_opened(
    shape: str, autojump_clock: trio.testing.MockClock
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        await (PROBES[shape] if asked.rpc == "server/discover" else inner)(asked, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            assert client.revision.name == "2025-11-25"
            await client.call_tool("echo")
        assert server.rpcs().count("initialize") == 1
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


NOT_OURS: dict[str, tuple[Answer, type[McpError], str]] = {
    "a page": (page(200, b"<html>Welcome</html>", "text/html"), HttpFailure, "Welcome"),
    "a page 404": (page(404, b"<html>Nothing</html>", "text/html"), HttpFailure, "status 404"),
    "text": (page(200, b"hello", "text/plain"), HttpFailure, "hello"),
    "always empty": (page(200, kind=None), McpError, "empty"),
    "always accepted": (page(202, kind=None), McpError, "202"),
    "500": (page(500, b"broken"), HttpFailure, "broken"),
    "503": (page(503, b"later"), HttpFailure, "later"),
    "429": (page(429, b"too many"), HttpFailure, "too many"),
    "compressed": (page(200, b"\x1f\x8b"), HttpFailure, "status 200"),
    "error without meaning": (error(-32603, "boom", 200), RequestFailed, "boom"),
    "a redirect elsewhere": (page(302, kind=None), HttpFailure, "302"),
}


@pytest.mark.spec("compat.client-modern-legacy-surface")
@pytest.mark.parametrize("shape", NOT_OURS)
async def test_what_is_no_server_of_the_protocol_is_told_precisely(
    shape: str, autojump_clock: trio.testing.MockClock
) -> None:
    answer, kind, words = NOT_OURS[shape]

    async def anything(asked: Asked, reply: Reply) -> None:
        if asked.method == "GET":
            await reply.body(404, b"no", "text/plain")
        else:
            await answer(asked, reply)

    async with serving(anything, path="/mcp?key=secret") as server:
        with pytest.raises(kind, match=words) as caught:
            async with open_http(server.url):
                pass
        assert caught.value.context.peer == server.url.partition("?")[0]
        assert caught.value.context.phase is Phase.NEGOTIATE
        assert "secret" not in str(caught.value)
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("when", ["server/discover", "initialize"])
async def test_missing_credentials_are_no_reason_to_try_something_older(status: int, when: str) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == when:
            await reply.body(status, b"who are you?", "text/plain", {"WWW-Authenticate": "Bearer"})
        else:
            await inner(asked, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied, match="who are you") as caught:
            async with open_http(server.url):
                pass
        assert caught.value.challenges == ("Bearer",)
        assert server.rpcs()[-1] == when


@pytest.mark.parametrize("when", ["head", "body"])
async def test_a_connection_that_fails_is_no_reason_to_try_something_older(when: str) -> None:
    async def answer(asked: Asked, reply: Reply) -> None:
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
async def test_a_modern_error_is_the_word_of_a_modern_server(id: JsonValue) -> None:
    answer = error(-32021, "sampling is needed", id=id, data={"requiredCapabilities": {"sampling": {}}})
    async with serving(answer) as server:
        with pytest.raises(MissingRequiredClientCapability):
            async with open_http(server.url):
                pass
        assert server.rpcs() == ["server/discover"]


@pytest.mark.spec("compat.client-http-modern-error-retry")
async def test_a_server_that_refuses_the_first_probe_by_its_version_is_asked_again() -> None:
    inner = modern()

    async def answer(asked: Asked, reply: Reply) -> None:
        if len(server.asked) == 1:
            await error(-32022, "no", data={"supported": ["2025-06-18"], "requested": "2026-07-28"})(asked, reply)
        elif asked.rpc == "initialize":
            await reply.result(initialized("2025-06-18"))
        elif asked.rpc == "notifications/initialized":
            await reply.accept()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        assert client.revision is R2025_06_18


async def test_a_client_of_modern_revisions_says_that_the_server_is_older() -> None:
    async with serving(legacy()) as server:
        with pytest.raises((NegotiationFailed, RequestFailed, HttpFailure), match="modern revisions only"):
            async with open_http(server.url, revisions=MODERN):
                pass
        assert server.rpcs() == ["server/discover"]


@pytest.mark.spec("http.sse-transport-not-adopted")
async def test_a_client_of_modern_revisions_does_not_look_for_http_sse() -> None:
    async with serving(OldServer().answer) as server:
        with pytest.raises(NegotiationFailed, match="modern revisions only"):
            async with open_http(server.url, revisions=MODERN):
                pass
        assert server.rpcs() == ["server/discover"]


async def test_a_client_of_legacy_revisions_does_not_probe() -> None:
    async with serving(legacy()) as server, open_http(server.url, revisions=LEGACY) as client:
        await client.ping()
        assert server.rpcs()[0] == "initialize"


# --- slow servers ----------------------------------------------------------------------------------------------------


async def slow_modern(asked: Asked, reply: Reply) -> None:
    """Needs ten seconds to start, and knows no `initialize`."""
    await trio.sleep(max(0.0, 10 - trio.current_time()))
    if asked.rpc == "server/discover":
        # What is asked later is answered first: the worst that can happen.
        await trio.sleep(1)
        await reply.result(DISCOVERED)
    elif asked.rpc == "tools/call":
        await reply.result(OK)
    else:
        await reply.error(-32601, "Method not found", 404)


async def test_a_slow_modern_server_is_not_taken_for_an_old_one(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(slow_modern) as server, open_http(server.url) as client:
        assert client.revision is R2026_07_28
        await client.call_tool("echo")
        assert server.rpcs() == ["server/discover", "initialize", "tools/call"]


async def test_a_server_that_never_answers_is_given_up_by_the_connect_deadline(
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


async def test_a_client_may_be_closed_while_it_connects(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_an_answer_to_initialize_may_be_fetched_by_get(autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            await reply.event(id="i1")
            await reply.end()
        elif "last-event-id" in asked.headers:
            (handshake,) = server.of("initialize")
            await reply.stream()
            await reply.event_result_of(handshake, initialized())
            await reply.end()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.ping()
    assert server.asked[-1].headers["mcp-session-id"] == "s1"


# --- what is remembered ----------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-cache-era")
async def test_a_legacy_server_is_probed_once() -> None:
    async with serving(legacy()) as server:
        for _ in range(3):
            async with open_http(server.url) as client:
                await client.ping()
    assert server.rpcs().count("server/discover") == 1
    assert server.rpcs().count("initialize") == 3


BROKEN = page(503)


@pytest.mark.spec("compat.client-persist-era")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(legacy(), modern(), id="legacy to modern"),
        pytest.param(modern(), legacy(), id="modern to legacy"),
        pytest.param(legacy(), BROKEN, id="legacy to broken"),
    ],
)
async def test_what_is_remembered_wrongly_heals_itself(first: Answer, then: Answer) -> None:
    now = first

    async def answer(asked: Asked, reply: Reply) -> None:
        await now(asked, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            await client.call_tool("echo")
        now = then
        for _ in range(2):
            # What is broken now is told; what is different works.
            broken = pytest.raises(HttpFailure, match="503") if then is BROKEN else nullcontext()
            with broken:
                async with open_http(server.url) as client:
                    await client.call_tool("echo")
            assert (http_connector._eras[0].find(server.url) is None) == (then is BROKEN)
        now = first
        async with open_http(server.url) as client:
            await client.call_tool("echo")


@pytest.mark.parametrize("then", [modern(), legacy()], ids=["modern", "legacy"])
async def test_a_server_that_was_of_http_sse_may_have_become_another(then: Answer) -> None:
    old = OldServer()
    now: Answer = old.answer

    async def answer(asked: Asked, reply: Reply) -> None:
        await now(asked, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            await client.ping()
        now = then
        first: list[str] = []
        for _ in range(2):
            before = len(server.asked)
            async with open_http(server.url) as client:
                await client.call_tool("echo")
            first.append(server.rpcs()[before])
        # The second time it is known.
        assert first == ["GET", "initialize" if client.revision in LEGACY else "server/discover"]


async def test_a_stream_of_http_sse_that_leads_nowhere_any_more_is_left() -> None:
    old, new = OldServer(), legacy()
    left = trio.Event()
    changed = False

    async def answer(asked: Asked, reply: Reply) -> None:
        if not changed:
            await old.answer(asked, reply)
        elif asked.target.startswith("/messages"):
            await reply.body(410)
        elif asked.method == "GET" and not left.is_set():
            await old.answer(asked, reply)
            left.set()
        else:
            await new(asked, reply)

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            await client.ping()
        changed = True
        async with open_http(server.url) as client:
            await left.wait()
            await client.call_tool("echo")
            assert client.revision.name == "2025-11-25"


# --- answers ---------------------------------------------------------------------------------------------------------


def raw_result(asked: Asked, **changes: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": asked.message["id"], "result": OK, **changes}


async def as_text(asked: Asked, reply: Reply) -> None:
    await reply.body(200, json.dumps(raw_result(asked)).encode(), "text/plain; charset=utf-8")


async def as_nothing(asked: Asked, reply: Reply) -> None:
    await reply.body(200, json.dumps(raw_result(asked)).encode())


async def shouted(asked: Asked, reply: Reply) -> None:
    await reply.body(200, json.dumps(raw_result(asked)).encode(), "Application/JSON; Charset=UTF-8")


async def id_as_text(asked: Asked, reply: Reply) -> None:
    await reply.json(raw_result(asked, id=str(asked.message["id"])))


async def crlf(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.chunk(b"event: message\r\nid: 1\r\nretry: 5\r\ndata: ")
    await reply.chunk(json.dumps(raw_result(asked)).encode() + b"\r")
    await reply.chunk(b"\n\r")
    await reply.chunk(b"\n")
    await reply.end()


async def unnamed_without_end(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.chunk(b":ok\n\ndata:" + json.dumps(raw_result(asked)).encode())
    await reply.end()


async def named_otherwise(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.event(name="ping")
    await reply.event("not JSON", name="welcome")
    await reply.event(raw_result(asked), name="response")
    await reply.end()


async def several_lines(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    lines = json.dumps(raw_result(asked), indent=1).encode().split(b"\n")
    await reply.chunk(b"".join(b"data: %b\n" % line for line in lines) + b"\n")
    await reply.end()


async def until_the_connection_ends(asked: Asked, reply: Reply) -> None:
    await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    await reply.raw(b"data: %b\n\n" % json.dumps(raw_result(asked)).encode())
    await reply.cut()


async def as_batch(asked: Asked, reply: Reply) -> None:
    await reply.json([raw_result(asked)])


async def junk_first(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.event("no JSON at all")
    await reply.event({"jsonrpc": "2.0", "method": "window/logMessage", "params": {}})
    await reply.event(raw_result(asked))
    await reply.end()


async def with_a_session(asked: Asked, reply: Reply) -> None:
    await reply.json(raw_result(asked), headers={"mcp-SESSION-id": "surprise"})


ANSWERS = [
    as_text,
    as_nothing,
    shouted,
    id_as_text,
    crlf,
    unnamed_without_end,
    named_otherwise,
    several_lines,
    until_the_connection_ends,
    as_batch,
    junk_first,
    with_a_session,
]


@pytest.mark.spec("http.content-type-charset", "http.sse-parse-standard", "http.client-both-response-types")
@pytest.mark.parametrize("calls", ANSWERS)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_whatever_an_answer_looks_like_it_is_understood(calls: Answer, era: str) -> None:
    answer = modern(calls) if era == "modern" else legacy(calls)
    async with serving(answer) as server, open_http(server.url) as client:
        for _ in range(2):
            assert not (await client.call_tool("echo")).is_error
        assert not client._channel._calls
        assert not client._channel.connection.outbound_requests
        assert not server.of("DELETE")


async def test_a_stateless_legacy_server_may_give_another_session_id_with_every_answer() -> None:
    async def calls(asked: Asked, reply: Reply) -> None:
        await reply.result(OK, headers={"Mcp-Session-Id": f"s{len(server.asked)}"})

    async with serving(legacy(calls)) as server, open_http(server.url) as client:
        for _ in range(3):
            await client.call_tool("echo")
        assert {asked.headers["mcp-session-id"] for asked in server.of("tools/call")} == {"s1"}


async def test_a_redirect_to_the_slashed_path_is_followed_with_the_body() -> None:
    inner = modern()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.target == "/mcp":
            await reply.body(307, headers={"Location": "/mcp/"})
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        await client.call_tool("echo")
        assert server.asked[-1].target == "/mcp/"


async def test_a_server_that_never_takes_the_first_notification_is_given_up_by_the_connect_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        await (silence if asked.rpc == "notifications/initialized" else inner)(asked, reply)

    async with serving(answer) as server:
        with pytest.raises(RequestTimeout, match="connect deadline of 20 s"):
            async with open_http(server.url, deadlines=Deadlines(connect=20)):
                pass
        assert server.rpcs()[-1] == "DELETE"
