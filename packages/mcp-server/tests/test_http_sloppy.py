"""Deviating clients: requests with a clear meaning are served, others are rejected with the reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from asgi_host import as_object
from controlled_server import text_of
from raw_connection import (
    META,
    Body,
    RawConnection,
    Reader,
    call,
    connector,
    http,
    initialize,
    legacy,
    modern,
    notification,
)
from raw_connection import request as rpc_request

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LEGACY, R2025_06_18, R2025_11_25, R2026_07_28, Revision
from mcp_server import Server
from mcp_server.host.embedded import HttpHost

Clock = trio.testing.MockClock

JSON = "application/json"
STREAM = "text/event-stream"


class SloppyClient:
    """A client with one connection to the server."""

    def __init__(self, connection: RawConnection) -> None:
        self.connection = connection
        self.session: str | None = None
        self.revision: Revision = R2025_11_25

    async def open(self, revision: Revision = R2025_11_25) -> None:
        self.revision = revision
        self.session = (await self.connection.exchange(http(body=initialize(revision)))).headers["mcp-session-id"]
        assert (await self.exchange(notification("notifications/initialized"))).status == 202

    async def exchange(self, body: Body, **headers: str | None) -> Reader:
        """Send a request of the session."""
        version = self.revision.name if self.revision.version_header else None
        given: dict[str, str | None] = {"mcp_session_id": self.session, "mcp_protocol_version": version}
        return await self.connection.exchange(http("POST", "/mcp", body, **(given | headers)))


@asynccontextmanager
async def open_client() -> AsyncIterator[SloppyClient]:
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
            connection = RawConnection(await connector(host, nursery)())
            yield SloppyClient(connection)
            await connection.aclose()
            nursery.cancel_scope.cancel()


def answer_of(reader: Reader) -> JsonObject:
    """Return the JSON-RPC response from a JSON body or an event stream."""
    assert reader.status == 200, (reader.status, reader.body)
    return reader.messages()[-1] if reader.headers["content-type"] == STREAM else reader.json()


def check_rejected(reader: Reader, status: int, code: int, *words: str) -> JsonObject:
    """Check that the error has this status and code and names the reason."""
    assert reader.status == status, (reader.status, reader.body)
    error = as_object(reader.json()["error"])
    assert error["code"] == code
    for word in words:
        assert word in str(error["message"]), error
    return error


# --- media types ------------------------------------------------------------------------------------------------------


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
async def test_accept_header_selects_media_type(accept: str | None, media: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        message = call("echo", text="a")
        answers = [await client.connection.exchange(modern(message, accept=accept))]
        await client.open()
        answers.append(await client.exchange(message, accept=accept))
        for answer in answers:
            assert answer.headers["content-type"] == media
            assert text_of(answer_of(answer)) == "a"


@pytest.mark.parametrize("accept", ["text/html", "text/plain", "application/xml", f"{JSON};q=0", "*/*;q=0"])
async def test_accept_header_without_supported_type_returns_406(accept: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        check_rejected(
            await client.connection.exchange(modern(call("echo"), accept=accept)), 406, -32600, "Accept", JSON, STREAM
        )


async def test_repeated_accept_header_is_joined(autojump_clock: Clock) -> None:
    async with open_client() as client:
        data = modern(call("echo", text="a"), accept="text/html")
        answer = await client.connection.exchange(
            data.replace(b"accept: text/html", b"accept: text/html\r\nAccept: " + JSON.encode())
        )
        assert text_of(answer_of(answer)) == "a"


async def test_stream_request_without_event_stream_accepted_returns_406(autojump_clock: Clock) -> None:
    async with open_client() as client:
        listen = rpc_request("subscriptions/listen", {"notifications": {}})
        check_rejected(await client.connection.exchange(modern(listen, accept=JSON)), 406, -32600, STREAM)
        await client.open()
        get = legacy(client.session, R2025_11_25, b"", "GET", accept=JSON)
        check_rejected(await client.connection.exchange(get), 406, -32600, STREAM)


@pytest.mark.parametrize(
    "media",
    ["application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/Json", "application/json ;"],
)
async def test_content_type_spellings_accepted(media: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        assert (
            text_of(answer_of(await client.connection.exchange(modern(call("echo", text="a"), content_type=media))))
            == "a"
        )


@pytest.mark.parametrize("media", [None, "", "text/plain", "text/json", "application/jsonl", "application/json-rpc"])
async def test_content_type_not_json_returns_415(media: str | None, autojump_clock: Clock) -> None:
    async with open_client() as client:
        check_rejected(
            await client.connection.exchange(modern(call("echo"), content_type=media)),
            415,
            -32600,
            "Content-Type",
            JSON,
        )


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id", ["1", "", "a" * 256, "é☃😀", "0", "null", 0, -1, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), "01", " 1 ", "{}"]
)
async def test_request_id_returned_unchanged(id: JsonValue, autojump_clock: Clock) -> None:
    async with open_client() as client:
        message = call("echo", id=id, text="a")
        await client.open()
        for answer in (
            await client.connection.exchange(modern(message)),
            await client.exchange(message),
            await client.exchange(rpc_request("ping", id=id)),
        ):
            returned = answer_of(answer)["id"]
            assert returned == id
            assert type(returned) is type(id)


@pytest.mark.parametrize(
    ("raw", "code", "word"),
    [
        *[(raw, -32600, "must be a string or an integer") for raw in ("null", "1.5", "1.0", "true", "[1]", "{}")],
        (f'"{"a" * 257}"', -32600, "Limits.id_chars"),
        ("1e400", -32700, "a number exceeds the range of a 64-bit float"),
        ("9" * 400, -32700, "a number exceeds the range of a 64-bit float"),
    ],
)
async def test_invalid_request_id_returns_400(raw: str, code: int, word: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        body = json.dumps({"jsonrpc": "2.0", "id": "ID", "method": "ping"}).replace('"ID"', raw).encode()
        await client.open()
        answer = await client.exchange(body)
        check_rejected(answer, 400, code, word)
        assert "id" not in answer.json()
        assert text_of(answer_of(await client.exchange(call("echo", text="a")))) == "a"


@pytest.mark.parametrize("params", ["null", "[]", "{}", None])
@pytest.mark.parametrize("method", ["ping", "tools/list", "notifications/initialized", "notifications/unknown"])
async def test_optional_params_may_be_null_array_object_or_absent(
    method: str, params: str | None, autojump_clock: Clock
) -> None:
    async with open_client() as client:
        await client.open()
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if not method.startswith("notifications"):
            message["id"] = 1
        body = json.dumps(message)[:-1] + ("}" if params is None else f', "params": {params}}}')
        answer = await client.exchange(body.encode())
        if "id" in message:
            assert "result" in answer_of(answer)
        else:
            assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("params", ["null", "[]", "{}", None, '{"name": null}', '{"name": 7}'])
async def test_missing_required_params_return_invalid_params(params: str | None, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        rest = "}" if params is None else f', "params": {params}}}'
        answer = await client.exchange(('{"jsonrpc":"2.0","id":1,"method":"tools/call"' + rest).encode())
        error = as_object(answer_of(answer)["error"])
        assert error["code"] == -32602
        assert "name" in str(error["message"])


@pytest.mark.parametrize("params", ["[1]", '"x"', "7", "true"])
async def test_params_of_wrong_type_return_400(params: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        answer = await client.exchange(f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}'.encode())
        check_rejected(answer, 400, -32602, "params must be an object")
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
        {"unknown": ["a", "b"]},
        {"task": None},
        {"cursor": None},
    ],
)
async def test_null_or_unknown_members_of_params_ignored(members: JsonObject, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        answer = await client.exchange(rpc_request("tools/call", {"name": "echo", **members}))
        assert text_of(answer_of(answer)) == "nothing"


@pytest.mark.spec("tools.call-arguments-optional")
async def test_call_without_arguments_accepted(autojump_clock: Clock) -> None:
    async with open_client() as client:
        assert (
            text_of(answer_of(await client.connection.exchange(modern(rpc_request("tools/call", {"name": "echo"})))))
            == "nothing"
        )


@pytest.mark.parametrize("number", ["1.0", "1e0", "9007199254740993"])
async def test_integer_argument_written_as_float_accepted(number: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        body = json.dumps(call("integer", number=0)).replace('"number": 0', f'"number": {number}')
        answer = await client.exchange(body.encode())
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
async def test_invalid_message_returns_400_and_connection_continues(
    body: bytes, code: int, autojump_clock: Clock
) -> None:
    async with open_client() as client:
        await client.open()
        for headers in ({}, {"mcp_protocol_version": R2026_07_28.name}):
            check_rejected(await client.exchange(body, **headers), 400, code)
        assert text_of(answer_of(await client.exchange(call("echo", text="a")))) == "a"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"\n"),
        (b"", b"\r\n\r\n"),
        (b"\r\n", b""),
        (b" \t\n", b"  "),
        (b"\xef\xbb\xbf", b""),
        (b"\xef\xbb\xbf\n", b"\n"),
    ],
)
async def test_whitespace_and_bom_around_message_ignored(before: bytes, after: bytes, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        answer = await client.exchange(before + json.dumps(call("echo", text="a")).encode() + after)
        assert text_of(answer_of(answer)) == "a"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
async def test_body_not_utf_8_returns_400(encoding: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        body = json.dumps(call("echo", text="é"), ensure_ascii=False).encode(encoding)
        check_rejected(await client.exchange(body, content_type=f"{JSON}; charset={encoding}"), 400, -32700)


async def test_text_roundtrip_with_and_without_escapes(autojump_clock: Clock) -> None:
    text = 'é☃😀\u2028\u2029\n\t\u0000\\"'
    async with open_client() as client:
        await client.open()
        for plain in (True, False):
            body = json.dumps(call("echo", text=text), ensure_ascii=plain).encode()
            for accept in (JSON, STREAM):
                assert text_of(answer_of(await client.exchange(body, accept=accept))) == text


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Mcp-Session-Id", "mcp-session-id", "MCP-SESSION-ID", "MCP-Session-ID"])
async def test_header_names_are_case_insensitive(name: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        data = legacy(client.session, R2025_11_25, rpc_request("ping")).replace(b"mcp-session-id", name.encode())
        assert (await client.connection.exchange(data)).status == 200


async def test_whitespace_around_header_value_ignored(autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        assert (await client.exchange(rpc_request("ping"), mcp_session_id=f" \t{client.session}  ")).status == 200


@pytest.mark.spec("session.missing-400")
async def test_session_id_missing_returns_400_unknown_returns_404(autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        session = str(client.session)
        for missing in (None, ""):
            check_rejected(
                await client.exchange(rpc_request("ping"), mcp_session_id=missing),
                400,
                -32600,
                "Mcp-Session-Id",
                "initialize",
            )
        for unknown in ("x", session.swapcase(), session + "x", f"{session}, {session}", f'"{session}"', "é", "null"):
            check_rejected(
                await client.exchange(rpc_request("ping"), mcp_session_id=unknown),
                404,
                -32600,
                "session not found",
                "initialize",
            )
        repeated = legacy(session, R2025_11_25, rpc_request("ping")).replace(
            b"\r\nmcp-s", f"\r\nmcp-session-id: {session}\r\nmcp-s".encode()
        )
        check_rejected(await client.connection.exchange(repeated), 400, -32600, "is repeated")


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_request_before_initialized_notification_answered(revision: Revision, autojump_clock: Clock) -> None:
    async with open_client() as client:
        opened = await client.connection.exchange(http(body=initialize(revision)))
        data = legacy(opened.headers["mcp-session-id"], revision, call("echo", text="a"))
        assert text_of(answer_of(await client.connection.exchange(data))) == "a"


@pytest.mark.parametrize("known", [True, False])
async def test_initialize_with_session_id_opens_another_session(known: bool, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        opened = await client.exchange(initialize(R2025_11_25), mcp_session_id=client.session if known else "gone")
        assert "result" in answer_of(opened)
        assert opened.headers["mcp-session-id"] not in (client.session, "gone")
        # The first session has not ended.
        assert (await client.exchange(rpc_request("ping"))).status == 200


# --- the version -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.protocol-version-assume", "http.protocol-version-400", "header.protocol-version-missing-legacy")
async def test_protocol_version_header_variants(autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open(R2025_06_18)
        for version in (None, R2025_06_18.name, R2025_11_25.name, "2025-03-26", f" {R2025_06_18.name} "):
            assert (
                text_of(answer_of(await client.exchange(call("echo", text="a"), mcp_protocol_version=version))) == "a"
            )
        for wrong in ("", "1.0", "2025-6-18", "2099-01-01", "DRAFT-2026-v1", "2025-06-18, 2025-06-18", "latest"):
            error = check_rejected(await client.exchange(call("echo"), mcp_protocol_version=wrong), 400, -32600)
            # The error shows the supported revisions.
            assert R2025_11_25.name in json.dumps(error)


async def test_protocol_version_header_with_initialize_accepted(autojump_clock: Clock) -> None:
    async with open_client() as client:
        for revision in LEGACY:
            opened = await client.connection.exchange(
                http("POST", "/mcp", initialize(revision), mcp_protocol_version=revision.name)
            )
            assert as_object(opened.json()["result"])["protocolVersion"] == revision.name


@pytest.mark.parametrize("version", ["2024-10-07", "2099-01-01", "latest", ""])
async def test_initialize_with_unknown_version_returns_latest_legacy_version(
    version: str, autojump_clock: Clock
) -> None:
    async with open_client() as client:
        body = initialize(R2025_11_25)
        as_object(body["params"])["protocolVersion"] = version
        opened = await client.connection.exchange(http(body=body))
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
async def test_modern_headers_not_matching_body_return_400(
    header: str, value: str | None, autojump_clock: Clock
) -> None:
    async with open_client() as client:
        answer = await client.connection.exchange(modern(call("echo", id="mine", text="a"), **{header: value}))
        check_rejected(answer, 400, -32020, header.replace("_", "-").title().replace("Mcp-Protocol", "MCP-Protocol"))
        assert answer.json()["id"] == "mine"


@pytest.mark.spec("header.name-case-insensitive", "header.value-ows-trimmed", "header.base64-mcp-name-accepted")
async def test_modern_header_spellings_accepted(autojump_clock: Clock) -> None:
    async with open_client() as client:
        for given in (
            {"MCP_NAME": " echo ", "mcp_name": None},
            {"mcp_name": "=?base64?ZWNobw==?="},
            {"mcp_session_id": "x"},
        ):
            headers: dict[str, str | None] = {**given}
            assert (
                text_of(answer_of(await client.connection.exchange(modern(call("echo", text="a"), **headers)))) == "a"
            )


async def test_modern_request_without_headers_returns_400(autojump_clock: Clock) -> None:
    async with open_client() as client:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": META}
        check_rejected(
            await client.connection.exchange(http(body=rpc_request("tools/call", params))),
            400,
            -32020,
            "MCP-Protocol-Version",
        )


# --- HTTP -------------------------------------------------------------------------------------------------------------


def chunked(data: bytes, size: int, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    """Return the same request with a chunked body."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    coded = b"".join(b"%x%b\r\n%b\r\n" % (len(each), extension, each) for each in chunks)
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", coded + b"0\r\n" + trailer + b"\r\n"])


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("extension", "trailer"), [(b"", b""), (b";x=y", b""), (b"", b"X-Late: yes\r\n")])
async def test_chunked_body_accepted(size: int, extension: bytes, trailer: bytes, autojump_clock: Clock) -> None:
    async with open_client() as client:
        data = chunked(modern(call("echo", text="a")), size, extension, trailer)
        for _ in range(2):
            assert text_of(answer_of(await client.connection.exchange(data))) == "a"


async def test_http_1_0_client_served(autojump_clock: Clock) -> None:
    for accept in (JSON, STREAM):
        async with open_client() as client:
            data = modern(call("echo", text="a"), accept=accept).replace(b"HTTP/1.1", b"HTTP/1.0")
            await client.connection.send(data)
            await client.connection.until(lambda: False, eof=True)
            assert "transfer-encoding" not in client.connection.reader.headers
            assert text_of(answer_of(client.connection.reader)) == "a"


async def test_expect_continue_sends_100_only_for_accepted_request(autojump_clock: Clock) -> None:
    async with open_client() as client:
        head, _, body = modern(call("echo", text="a"), expect="100-continue").partition(b"\r\n\r\n")
        await client.connection.send(head + b"\r\n\r\n")
        assert (await client.connection.answer()).status == 100
        assert text_of(answer_of(await client.connection.exchange(body))) == "a"
        # A rejected request is not answered with 100.
        head, _, _ = modern(call("echo"), expect="100-continue", host="evil.example").partition(b"\r\n\r\n")
        assert (await client.connection.exchange(head + b"\r\n\r\n")).status == 403


async def test_pipelined_requests_answered(autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.connection.send(b"".join(modern(call("echo", id=id, text=str(id))) for id in range(10)))
        for id in range(10):
            answer = await client.connection.answer()
            assert (answer.json()["id"], text_of(answer.json())) == (id, str(id))
            client.connection.reader = answer.following()


@pytest.mark.parametrize(
    "target", ["http://localhost/mcp", "http://LOCALHOST/mcp", "http://localhost/mcp/?x=y", "/mcp?x=y", "/mcp/"]
)
async def test_target_spellings_accepted(target: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        data = modern(call("echo", text="a")).replace(b" /mcp ", f" {target} ".encode())
        assert text_of(answer_of(await client.connection.exchange(data))) == "a"


@pytest.mark.parametrize(
    "host", ["localhost:80", "LocalHost", "localhost.", "127.0.0.1:4711", "[::1]:4711", "[0:0:0:0:0:0:0:1]"]
)
async def test_loopback_host_spellings_accepted(host: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        assert text_of(answer_of(await client.connection.exchange(modern(call("echo", text="a"), host=host)))) == "a"


async def test_unknown_headers_ignored(autojump_clock: Clock) -> None:
    async with open_client() as client:
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
        assert text_of(answer_of(await client.connection.exchange(modern(call("echo", text="a"), **more)))) == "a"
        await client.open()
        assert text_of(answer_of(await client.exchange(call("echo", text="a"), **more))) == "a"


@pytest.mark.parametrize("id", ["nonsense", "1", "1-", "-1", "1-99", "99-0", "1-0-0", "é", "1" * 1_000, "0-0", "٣-٣"])
async def test_unknown_last_event_id_returns_400(id: str, autojump_clock: Clock) -> None:
    async with open_client() as client:
        await client.open()
        data = legacy(client.session, R2025_11_25, b"", "GET").replace(
            b"\r\n\r\n", b"\r\nlast-event-id: " + id.encode() + b"\r\n\r\n"
        )
        answer = await client.connection.exchange(data)
        check_rejected(answer, 400, -32600, "Last-Event-ID")
        assert (await client.exchange(rpc_request("ping"))).status == 200
