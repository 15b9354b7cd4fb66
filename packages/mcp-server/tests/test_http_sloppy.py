"""Clients that are sloppy: what is meant can be seen, and is served; what cannot is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from asgi_host import as_object
from http_gate import text_of
from http_wires import META, Body, Reader, Wire, call, connector, http, initialize, legacy, modern, note
from http_wires import request as asking

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LEGACY, R2025_06_18, R2025_11_25, R2026_07_28, Revision
from mcp_server import Server
from mcp_server.host.embedded import HttpHost

Clock = trio.testing.MockClock

JSON = "application/json"
STREAM = "text/event-stream"


class Place:
    """A server, and one connection to it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.session: str | None = None
        self.revision: Revision = R2025_11_25

    async def open(self, revision: Revision = R2025_11_25) -> None:
        self.revision = revision
        self.session = (await self.wire.ask(http(body=initialize(revision)))).headers["mcp-session-id"]
        assert (await self.ask(note("notifications/initialized"))).status == 202

    async def ask(self, body: Body, **headers: str | None) -> Reader:
        """A request of the session."""
        version = self.revision.name if self.revision.version_header else None
        given: dict[str, str | None] = {"mcp_session_id": self.session, "mcp_protocol_version": version}
        return await self.wire.ask(http("POST", "/mcp", body, **(given | headers)))


@asynccontextmanager
async def place_of() -> AsyncIterator[Place]:
    server = Server("sloppy", version="0")

    @server.tool
    async def echo(text: str = "nothing") -> str:
        return text

    @server.tool
    async def integer(number: int) -> str:
        return str(number)

    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            host = HttpHost(server.asgi())
            await nursery.start(host.run)
            wire = Wire(await connector(host, nursery)())
            yield Place(wire)
            await wire.aclose()
            nursery.cancel_scope.cancel()


def answer_of(reader: Reader) -> JsonObject:
    """The answer, in whichever form it comes."""
    assert reader.status == 200, (reader.status, reader.body)
    return reader.messages()[-1] if reader.headers["content-type"] == STREAM else reader.json()


def refused(reader: Reader, status: int, code: int, *words: str) -> JsonObject:
    """The refusal says what is wrong, and where."""
    assert reader.status == status, (reader.status, reader.body)
    error = as_object(reader.json()["error"])
    assert error["code"] == code
    for word in words:
        assert word in str(error["message"]), error
    return error


# --- what they take and bring ----------------------------------------------------------------------------------------


@pytest.mark.spec("http.request-response-type", "http.request-response-content-type")
@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (JSON, JSON),
        (STREAM, STREAM),
        ("*/*", JSON),
        (None, JSON),
        ("", JSON),
        ("application/*", JSON),
        ("text/*", STREAM),
        ("*", JSON),
        ("APPLICATION/JSON", JSON),
        ("application/json;q=0.1", JSON),
        (f"{JSON};q=0, {STREAM}", STREAM),
        (f"{STREAM};q=0, */*", JSON),
        (f"text/html, {JSON};q=0.9, */*;q=0.8", JSON),
        (f"{JSON}, {STREAM}; charset=utf-8", JSON),
        (f"{JSON},{STREAM}", JSON),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", JSON),
        (", ,", JSON),
        ("nonsense", JSON),
    ],
)
async def test_a_client_gets_what_it_takes(accept: str | None, media: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        message = call("echo", text="a")
        answers = [await place.wire.ask(modern(message, accept=accept))]
        await place.open()
        answers.append(await place.ask(message, accept=accept))
        for answer in answers:
            assert answer.headers["content-type"] == media
            assert text_of(answer_of(answer)) == "a"


@pytest.mark.parametrize("accept", ["text/html", "text/plain", "application/xml", f"{JSON};q=0", "*/*;q=0"])
async def test_a_client_that_takes_nothing_of_it_is_told(accept: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        refused(await place.wire.ask(modern(call("echo"), accept=accept)), 406, -32600, "Accept", JSON, STREAM)


async def test_two_lines_of_accept_are_one(autojump_clock: Clock) -> None:
    async with place_of() as place:
        data = modern(call("echo", text="a"), accept="text/html")
        answer = await place.wire.ask(
            data.replace(b"accept: text/html", b"accept: text/html\r\nAccept: " + JSON.encode())
        )
        assert text_of(answer_of(answer)) == "a"


async def test_a_listener_that_takes_no_stream_is_told(autojump_clock: Clock) -> None:
    async with place_of() as place:
        listen = asking("subscriptions/listen", {"notifications": {}})
        refused(await place.wire.ask(modern(listen, accept=JSON)), 406, -32600, STREAM)
        await place.open()
        get = legacy(place.session, R2025_11_25, b"", "GET", accept=JSON)
        refused(await place.wire.ask(get), 406, -32600, STREAM)


@pytest.mark.parametrize(
    "media",
    ["application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/Json", "application/json ;"],
)
async def test_json_may_be_named_as_one_likes(media: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        assert text_of(answer_of(await place.wire.ask(modern(call("echo", text="a"), content_type=media)))) == "a"


@pytest.mark.parametrize("media", [None, "", "text/plain", "text/json", "application/jsonl", "application/json-rpc"])
async def test_what_is_not_named_json_is_refused(media: str | None, autojump_clock: Clock) -> None:
    async with place_of() as place:
        refused(await place.wire.ask(modern(call("echo"), content_type=media)), 415, -32600, "Content-Type", JSON)


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id", ["1", "", "a" * 256, "é☃😀", "0", "null", 0, -1, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), "01", " 1 ", "{}"]
)
async def test_an_id_comes_back_as_it_is(id: JsonValue, autojump_clock: Clock) -> None:
    async with place_of() as place:
        message = call("echo", id=id, text="a")
        await place.open()
        for answer in (
            await place.wire.ask(modern(message)),
            await place.ask(message),
            await place.ask(asking("ping", id=id)),
        ):
            back = answer_of(answer)["id"]
            assert back == id
            assert type(back) is type(id)


@pytest.mark.parametrize(
    ("raw", "code", "word"),
    [
        *[(raw, -32600, "must be a string or an integer") for raw in ("null", "1.5", "1.0", "true", "[1]", "{}")],
        (f'"{"a" * 257}"', -32600, "Limits.id_chars"),
        ("1e400", -32700, "infinity"),
        ("9" * 400, -32700, "infinity"),
    ],
)
async def test_what_is_no_id_is_refused(raw: str, code: int, word: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        body = json.dumps({"jsonrpc": "2.0", "id": "ID", "method": "ping"}).replace('"ID"', raw).encode()
        await place.open()
        answer = await place.ask(body)
        refused(answer, 400, code, word)
        assert "id" not in answer.json()
        assert text_of(answer_of(await place.ask(call("echo", text="a")))) == "a"


@pytest.mark.parametrize("params", ["null", "[]", "{}", None])
@pytest.mark.parametrize("method", ["ping", "tools/list", "notifications/initialized", "notifications/never/heard/of"])
async def test_no_params_may_be_said_in_any_way(method: str, params: str | None, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if not method.startswith("notifications"):
            message["id"] = 1
        body = json.dumps(message)[:-1] + ("}" if params is None else f', "params": {params}}}')
        answer = await place.ask(body.encode())
        if "id" in message:
            assert "result" in answer_of(answer)
        else:
            assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("params", ["null", "[]", "{}", None, '{"name": null}', '{"name": 7}'])
async def test_params_that_are_needed_are_missed(params: str | None, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        rest = "}" if params is None else f', "params": {params}}}'
        answer = await place.ask(('{"jsonrpc":"2.0","id":1,"method":"tools/call"' + rest).encode())
        error = as_object(answer_of(answer)["error"])
        assert error["code"] == -32602
        assert "name" in str(error["message"])


@pytest.mark.parametrize("params", ["[1]", '"x"', "7", "true"])
async def test_params_that_are_something_else_are_refused(params: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        answer = await place.ask(f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}'.encode())
        refused(answer, 400, -32602, "params must be an object")
        assert answer.json()["id"] == 1


@pytest.mark.parametrize(
    "members",
    [
        {"_meta": None},
        {"_meta": {}},
        {"arguments": None},
        {"arguments": {}},
        {"_meta": {"progressToken": None}},
        {"_meta": {"progressToken": "1"}},
        {"never": ["heard", "of"]},
        {"task": None},
        {"cursor": None},
    ],
)
async def test_members_that_are_null_or_unknown_do_no_harm(members: JsonObject, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        answer = await place.ask(asking("tools/call", {"name": "echo", **members}))
        assert text_of(answer_of(answer)) == "nothing"


@pytest.mark.spec("tools.call-arguments-optional")
async def test_no_arguments_are_none(autojump_clock: Clock) -> None:
    async with place_of() as place:
        assert text_of(answer_of(await place.wire.ask(modern(asking("tools/call", {"name": "echo"}))))) == "nothing"


@pytest.mark.parametrize("number", ["1.0", "1e0", "9007199254740993"])
async def test_whole_numbers_may_have_a_point(number: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        body = json.dumps(call("integer", number=0)).replace('"number": 0', f'"number": {number}')
        answer = await place.ask(body.encode())
        assert text_of(answer_of(answer)) == str(int(float(number)) if "." in number or "e" in number else int(number))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"   ", -32700),
        (b"{", -32700),
        (b"nonsense", -32700),
        (b"{'jsonrpc': '2.0'}", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
        (b"null", -32600),
        (b'"ping"', -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
    ],
)
async def test_what_is_no_message_is_refused_and_the_connection_goes_on(
    body: bytes, code: int, autojump_clock: Clock
) -> None:
    async with place_of() as place:
        await place.open()
        for headers in ({}, {"mcp_protocol_version": R2026_07_28.name}):
            refused(await place.ask(body, **headers), 400, code)
        assert text_of(answer_of(await place.ask(call("echo", text="a")))) == "a"


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (b"", b"\n"),
        (b"", b"\r\n\r\n"),
        (b"\r\n", b""),
        (b" \t\n", b"  "),
        (b"\xef\xbb\xbf", b""),
        (b"\xef\xbb\xbf\n", b"\n"),
    ],
)
async def test_what_surrounds_a_message_does_not_matter(before: bytes, behind: bytes, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        answer = await place.ask(before + json.dumps(call("echo", text="a")).encode() + behind)
        assert text_of(answer_of(answer)) == "a"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
async def test_other_encodings_are_refused(encoding: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        body = json.dumps(call("echo", text="é"), ensure_ascii=False).encode(encoding)
        refused(await place.ask(body, content_type=f"{JSON}; charset={encoding}"), 400, -32700)


async def test_text_is_text_however_it_is_written(autojump_clock: Clock) -> None:
    text = 'é☃😀\u2028\u2029\n\t\u0000\\"'
    async with place_of() as place:
        await place.open()
        for plain in (True, False):
            body = json.dumps(call("echo", text=text), ensure_ascii=plain).encode()
            for accept in (JSON, STREAM):
                assert text_of(answer_of(await place.ask(body, accept=accept))) == text


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Mcp-Session-Id", "mcp-session-id", "MCP-SESSION-ID", "MCP-Session-ID"])
async def test_names_of_headers_have_no_case(name: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        data = legacy(place.session, R2025_11_25, asking("ping")).replace(b"mcp-session-id", name.encode())
        assert (await place.wire.ask(data)).status == 200


async def test_blanks_around_a_value_do_not_matter(autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        assert (await place.ask(asking("ping"), mcp_session_id=f" \t{place.session}  ")).status == 200


@pytest.mark.spec("session.missing-400")
async def test_a_session_id_that_is_not_ours_is_told_from_a_missing_one(autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        session = str(place.session)
        for missing in (None, ""):
            refused(
                await place.ask(asking("ping"), mcp_session_id=missing), 400, -32600, "Mcp-Session-Id", "initialize"
            )
        for unknown in ("x", session.swapcase(), session + "x", f"{session}, {session}", f'"{session}"', "é", "null"):
            refused(
                await place.ask(asking("ping"), mcp_session_id=unknown), 404, -32600, "session not found", "initialize"
            )
        twice = legacy(session, R2025_11_25, asking("ping")).replace(
            b"\r\nmcp-s", f"\r\nmcp-session-id: {session}\r\nmcp-s".encode()
        )
        refused(await place.wire.ask(twice), 400, -32600, "is repeated")


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_a_client_that_does_not_say_that_it_is_ready_is_served(revision: Revision, autojump_clock: Clock) -> None:
    async with place_of() as place:
        opened = await place.wire.ask(http(body=initialize(revision)))
        data = legacy(opened.headers["mcp-session-id"], revision, call("echo", text="a"))
        assert text_of(answer_of(await place.wire.ask(data))) == "a"


@pytest.mark.parametrize("known", [True, False])
async def test_a_client_that_opens_another_session_may_name_the_one_it_had(known: bool, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        opened = await place.ask(initialize(R2025_11_25), mcp_session_id=place.session if known else "gone")
        assert "result" in answer_of(opened)
        assert opened.headers["mcp-session-id"] not in (place.session, "gone")
        # It had not been ended.
        assert (await place.ask(asking("ping"))).status == 200


# --- the version -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.protocol-version-assume", "http.protocol-version-400", "header.protocol-version-missing-legacy")
async def test_the_version_header_is_taken_as_far_as_it_goes(autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open(R2025_06_18)
        for version in (None, R2025_06_18.name, R2025_11_25.name, "2025-03-26", f" {R2025_06_18.name} "):
            assert text_of(answer_of(await place.ask(call("echo", text="a"), mcp_protocol_version=version))) == "a"
        for wrong in ("", "1.0", "2025-6-18", "2099-01-01", "DRAFT-2026-v1", "2025-06-18, 2025-06-18", "latest"):
            error = refused(await place.ask(call("echo"), mcp_protocol_version=wrong), 400, -32600)
            # Whoever reads it can see what is spoken here.
            assert R2025_11_25.name in json.dumps(error)


async def test_the_version_may_be_said_before_it_was_agreed_on(autojump_clock: Clock) -> None:
    async with place_of() as place:
        for revision in LEGACY:
            opened = await place.wire.ask(
                http("POST", "/mcp", initialize(revision), mcp_protocol_version=revision.name)
            )
            assert as_object(opened.json()["result"])["protocolVersion"] == revision.name


@pytest.mark.parametrize("asked", ["2024-10-07", "2099-01-01", "latest", ""])
async def test_a_version_that_nobody_knows_is_answered_by_one_that_is_spoken(asked: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        body = initialize(R2025_11_25)
        as_object(body["params"])["protocolVersion"] = asked
        opened = await place.wire.ask(http(body=body))
        assert as_object(opened.json()["result"])["protocolVersion"] == R2025_11_25.name
        assert opened.headers["mcp-session-id"]


@pytest.mark.spec(
    "header.protocol-version-mismatch-rejected", "header.mcp-method-missing-rejected", "header.mismatch-error-id"
)
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mcp_protocol_version", R2025_11_25.name),
        ("mcp_method", None),
        ("mcp_method", "TOOLS/CALL"),
        ("mcp_method", "ping"),
        ("mcp_name", None),
        ("mcp_name", "Echo"),
        ("mcp_name", "=?base64?!?="),
    ],
)
async def test_modern_headers_have_to_repeat_the_body(header: str, value: str | None, autojump_clock: Clock) -> None:
    async with place_of() as place:
        answer = await place.wire.ask(modern(call("echo", id="mine", text="a"), **{header: value}))
        refused(answer, 400, -32020, header.replace("_", "-").title().replace("Mcp-Protocol", "MCP-Protocol"))
        assert answer.json()["id"] == "mine"


@pytest.mark.spec("header.name-case-insensitive", "header.value-ows-trimmed", "header.base64-mcp-name-accepted")
async def test_modern_headers_may_be_written_in_other_ways(autojump_clock: Clock) -> None:
    async with place_of() as place:
        for given in (
            {"MCP_NAME": " echo ", "mcp_name": None},
            {"mcp_name": "=?base64?ZWNobw==?="},
            {"mcp_session_id": "x"},
        ):
            headers: dict[str, str | None] = {**given}
            assert text_of(answer_of(await place.wire.ask(modern(call("echo", text="a"), **headers)))) == "a"


async def test_a_modern_request_without_any_header_is_told_which(autojump_clock: Clock) -> None:
    async with place_of() as place:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": META}
        refused(await place.wire.ask(http(body=asking("tools/call", params))), 400, -32020, "MCP-Protocol-Version")


# --- http ------------------------------------------------------------------------------------------------------------


def chunked(data: bytes, size: int, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    """The same request, in chunks."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    coded = b"".join(b"%x%b\r\n%b\r\n" % (len(each), extension, each) for each in chunks)
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", coded + b"0\r\n" + trailer + b"\r\n"])


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("extension", "trailer"), [(b"", b""), (b";x=y", b""), (b"", b"X-Late: yes\r\n")])
async def test_a_body_may_come_in_chunks(size: int, extension: bytes, trailer: bytes, autojump_clock: Clock) -> None:
    async with place_of() as place:
        data = chunked(modern(call("echo", text="a")), size, extension, trailer)
        for _ in range(2):
            assert text_of(answer_of(await place.wire.ask(data))) == "a"


async def test_a_client_of_http_1_0_is_served(autojump_clock: Clock) -> None:
    for accept in (JSON, STREAM):
        async with place_of() as place:
            data = modern(call("echo", text="a"), accept=accept).replace(b"HTTP/1.1", b"HTTP/1.0")
            await place.wire.send(data)
            await place.wire.until(lambda: False, eof=True)
            assert "transfer-encoding" not in place.wire.reader.headers
            assert text_of(answer_of(place.wire.reader)) == "a"


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(autojump_clock: Clock) -> None:
    async with place_of() as place:
        head, _, body = modern(call("echo", text="a"), expect="100-continue").partition(b"\r\n\r\n")
        await place.wire.send(head + b"\r\n\r\n")
        assert (await place.wire.answer()).status == 100
        assert text_of(answer_of(await place.wire.ask(body))) == "a"
        # What is refused is not asked for.
        head, _, _ = modern(call("echo"), expect="100-continue", host="evil.example").partition(b"\r\n\r\n")
        assert (await place.wire.ask(head + b"\r\n\r\n")).status == 403


async def test_requests_may_be_sent_ahead(autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.wire.send(b"".join(modern(call("echo", id=id, text=str(id))) for id in range(10)))
        for id in range(10):
            answer = await place.wire.answer()
            assert (answer.json()["id"], text_of(answer.json())) == (id, str(id))
            place.wire.reader = answer.following()


@pytest.mark.parametrize(
    "target", ["http://localhost/mcp", "http://LOCALHOST/mcp", "http://localhost/mcp/?x=y", "/mcp?x=y", "/mcp/"]
)
async def test_the_path_may_be_written_in_other_ways(target: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        data = modern(call("echo", text="a")).replace(b" /mcp ", f" {target} ".encode())
        assert text_of(answer_of(await place.wire.ask(data))) == "a"


@pytest.mark.parametrize(
    "host", ["localhost:80", "LocalHost", "localhost.", "127.0.0.1:4711", "[::1]:4711", "[0:0:0:0:0:0:0:1]"]
)
async def test_this_machine_may_be_named_in_other_ways(host: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        assert text_of(answer_of(await place.wire.ask(modern(call("echo", text="a"), host=host)))) == "a"


async def test_headers_that_nobody_knows_do_no_harm(autojump_clock: Clock) -> None:
    async with place_of() as place:
        more: dict[str, str | None] = {
            "cookie": "a=b",
            "upgrade": "h2c",
            "connection": "keep-alive, upgrade",
            "te": "trailers",
            "user_agent": "x" * 5_000,
            "mcp_param_unknown": "x",
            "sec_fetch_site": "none",
            "sec_fetch_mode": "cors",
            "accept_encoding": "gzip, br",
            "last_event_id": "nonsense",
            "x_latin": "é",
        }
        assert text_of(answer_of(await place.wire.ask(modern(call("echo", text="a"), **more)))) == "a"
        await place.open()
        assert text_of(answer_of(await place.ask(call("echo", text="a"), **more))) == "a"


@pytest.mark.parametrize("id", ["nonsense", "1", "1-", "-1", "1-99", "99-0", "1-0-0", "é", "1" * 1_000, "0-0", "٣-٣"])
async def test_an_event_id_that_was_never_given_is_refused(id: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        await place.open()
        data = legacy(place.session, R2025_11_25, b"", "GET").replace(
            b"\r\n\r\n", b"\r\nlast-event-id: " + id.encode() + b"\r\n\r\n"
        )
        answer = await place.wire.ask(data)
        refused(answer, 400, -32600, "Last-Event-ID")
        assert (await place.ask(asking("ping"))).status == 200
