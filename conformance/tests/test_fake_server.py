"""Tests of the fake server behind its transports: responses to valid and to invalid messages."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.client.http_exchange import HttpExchange
from mcp_conformance.drivers.client.http_host import HttpHost, open_http_host
from mcp_conformance.drivers.client.scripted_request import NoReply, RawReply, ScriptedRequest
from mcp_conformance.drivers.client.sse_host import open_sse_host
from mcp_conformance.drivers.client.stdio_host import Launch, StdioHost, open_stdio_host
from mcp_conformance.protocol.param_headers import modern_headers
from mcp_conformance.wire.http_client import Endpoint, HttpResponse, IncompleteResponse
from mcp_conformance.wire.transcript import Transcript
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LATEST, LATEST_LEGACY, R2024_11_05, R2025_03_26, Revision
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

INFO: JsonObject = {"name": "test", "version": "1"}


@asynccontextmanager
async def open_fake_server(*speaks: Revision) -> AsyncIterator[tuple[FakeServer, HttpHost, Endpoint]]:
    server = FakeServer(speaks, 5.0)
    async with open_http_host(server, Transcript()) as (host, url):
        with trio.fail_after(30):
            yield server, host, Endpoint(url)
    assert server.faults == []


async def post(endpoint: Endpoint, value: JsonValue, *headers: tuple[str, str]) -> HttpResponse:
    async with endpoint.exchange(Transcript(), "POST", headers, json.dumps(value).encode()) as exchange:
        return await exchange.answer()


def modern(method: str, version: str = LATEST.name, **params: JsonValue) -> JsonObject:
    meta: JsonObject = {PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: {}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def legacy(method: str, id: int | None = 1, **params: JsonValue) -> JsonObject:
    message: JsonObject = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if id is None else {**message, "id": id}


def initialize(revision: Revision) -> JsonObject:
    return legacy("initialize", protocolVersion=revision.name, capabilities={}, clientInfo=INFO)


def json_of(answer: HttpResponse) -> JsonObject:
    value: JsonValue = json.loads(answer.body)
    assert isinstance(value, dict)
    return value


def code_of(answer: HttpResponse) -> JsonValue:
    error = json_of(answer)["error"]
    assert isinstance(error, dict)
    return error["code"]


async def test_modern_request_returns_required_members() -> None:
    async with open_fake_server(LATEST) as (_, _, endpoint):
        message = modern("tools/list")
        answer = await post(endpoint, message, *modern_headers(message, LATEST.name, {}))
        result = json_of(answer)["result"]
        assert answer.status == 200
        assert isinstance(result, dict)
        assert {"resultType", "_meta", "ttlMs", "cacheScope", "tools"} == set(result)


@pytest.mark.parametrize(
    ("message", "left_out", "status", "code"),
    [
        (modern("tools/list"), "Mcp-Method", 400, -32020),
        (modern("tools/call", name="add_numbers"), "Mcp-Name", 400, -32020),
        (modern("tools/list", "1999-01-01"), "", 400, -32022),
        (modern("nothing/known"), "", 404, -32601),
        (legacy("tools/list"), "", 400, -32602),
        (initialize(LATEST_LEGACY), "", 400, -32022),
    ],
)
async def test_invalid_modern_request_is_rejected(message: JsonObject, left_out: str, status: int, code: int) -> None:
    async with open_fake_server(LATEST) as (_, _, endpoint):
        headers = [line for line in modern_headers(message, LATEST.name, {}) if line[0] != left_out]
        answer = await post(endpoint, message, *headers)
        assert (answer.status, code_of(answer)) == (status, code)


async def test_modern_server_rejects_other_methods_and_paths() -> None:
    async with open_fake_server(LATEST) as (_, _, endpoint):
        for method, target, status in (("GET", None, 405), ("DELETE", None, 405), ("POST", "/else", 404)):
            async with endpoint.exchange(Transcript(), method, target=target) as exchange:
                assert exchange.status == status
        answer = await post(endpoint, "no message at all")
        assert answer.status == 202


_STREAM = "stream1-AbC~xYz!%2f+="
"""The beginning of the event ids of the first stream."""


async def test_legacy_session_is_opened_used_and_deleted() -> None:
    async with open_fake_server(LATEST_LEGACY) as (server, host, endpoint):
        opened = await post(endpoint, initialize(LATEST_LEGACY))
        session = ("Mcp-Session-Id", opened.header("mcp-session-id") or "")
        assert (await post(endpoint, legacy("notifications/initialized", None), session)).status == 202
        # The notification is accepted before it is handled.
        await server.sessions[0].ready.wait()
        assert "result" in json_of(await post(endpoint, legacy("tools/list", 2), session))
        assert (await post(endpoint, legacy("tools/list", 3))).status == 400
        assert (await post(endpoint, legacy("tools/list", 4), ("Mcp-Session-Id", "another"))).status == 404
        wrong = ("MCP-Protocol-Version", "1999-01-01")
        assert (await post(endpoint, legacy("tools/list", 5), session, wrong)).status == 400
        for status in (204, 404):
            async with endpoint.exchange(Transcript(), "DELETE", [session]) as exchange:
                assert exchange.status == status
        assert [each.known is not None for each in host.exchanges[:3]] == [True, True, True]


@pytest.mark.parametrize("last", ["", "nonsense", f"{_STREAM}-", f"{_STREAM}-x", "stream2-0"])
async def test_stream_with_unknown_last_event_id_is_rejected(last: str) -> None:
    async with open_fake_server(LATEST_LEGACY) as (_, _, endpoint):
        session = ("Mcp-Session-Id", (await post(endpoint, initialize(LATEST_LEGACY))).header("mcp-session-id") or "")
        # A stream exists to which the id may nearly belong.
        await post(endpoint, legacy("ping"), session)

        async with endpoint.exchange(Transcript(), "GET", [session, ("Last-Event-ID", last)]) as exchange:
            assert (await exchange.answer()).status == 400


async def test_batch_returns_array_in_batch_revision() -> None:
    async with open_fake_server(R2025_03_26) as (_, _, endpoint):
        opened = await post(endpoint, initialize(R2025_03_26))
        session = ("Mcp-Session-Id", opened.header("mcp-session-id") or "")
        batch: JsonValue = [legacy("ping", 2), legacy("notifications/initialized", None), legacy("tools/list", 3)]
        answer = await post(endpoint, batch, session)
        assert sorted(each["id"] for each in json.loads(answer.body)) == [2, 3]


async def test_request_before_initialize_is_rejected() -> None:
    async with open_fake_server(LATEST_LEGACY) as (_, host, endpoint):
        host.sessions = False
        await post(endpoint, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}})
        assert code_of(await post(endpoint, legacy("tools/list", 2))) == -32600


async def test_client_request_in_call_stream_is_answered_by_post() -> None:
    async def call_ping(turn: ScriptedRequest) -> JsonObject:
        response = await turn.send_client_request("ping")
        assert response is not None
        return {"content": []}

    async with open_fake_server(LATEST_LEGACY) as (server, _, endpoint):
        server.offers.add_tool("asks", "Asks", call_ping)
        opened = await post(endpoint, initialize(LATEST_LEGACY))
        session = ("Mcp-Session-Id", opened.header("mcp-session-id") or "")
        body = json.dumps(legacy("tools/call", 2, name="asks", arguments={})).encode()
        async with endpoint.exchange(Transcript(), "POST", [session], body) as exchange:
            priming, client_request = await exchange.next_event(), await exchange.next_event()
            assert priming is not None
            assert client_request is not None
            assert (priming.data, bool(priming.id)) == (b"", True)
            request = json.loads(client_request.data)
            answer: JsonObject = {"jsonrpc": "2.0", "id": request["id"], "result": {}}
            assert (await post(endpoint, answer, session)).status == 202
            response_event = await exchange.next_event()
            assert response_event is not None
            assert json.loads(response_event.data)["result"] == {"content": []}
            assert await exchange.next_event() is None
        assert [each.method for each in server.client_requests] == ["ping"]


async def test_invalid_result_of_scenario_is_suite_fault() -> None:
    async def wrong(_: ScriptedRequest) -> JsonObject:
        return {"tools": "none"}

    server = FakeServer((LATEST,), 5.0)
    server.handlers["tools/list"] = wrong
    async with open_http_host(server, Transcript()) as (_, url):
        message = modern("tools/list")
        answer = await post(Endpoint(url), message, *modern_headers(message, LATEST.name, {}))
    assert code_of(answer) == -32603
    assert len(server.faults) == 1
    assert "invalid result of tools/list" in server.faults[0]


async def test_scenario_replies_with_raw_bytes_or_nothing() -> None:
    async def raw_reply(_: ScriptedRequest) -> JsonObject:
        raise RawReply(b"{nonsense", "no JSON")

    async def no_reply(_: ScriptedRequest) -> JsonObject:
        raise NoReply("to see who waits")

    async with open_fake_server(LATEST) as (server, host, endpoint):
        server.handlers["tools/list"], server.handlers["prompts/list"] = raw_reply, no_reply
        message = modern("tools/list")
        assert (await post(endpoint, message, *modern_headers(message, LATEST.name, {}))).body == b"{nonsense"
        silent = modern("prompts/list")
        with trio.move_on_after(0.1) as timeout:
            await post(endpoint, silent, *modern_headers(silent, LATEST.name, {}))
        assert timeout.cancelled_caught
        with trio.fail_after(5):
            await host.exchanges[-1].gone.wait()


@pytest.mark.parametrize("wanted", [{"toolsListChanged": "true"}, [], None])
async def test_subscription_with_invalid_filter_is_rejected(wanted: JsonValue) -> None:
    async with open_fake_server(LATEST) as (_, _, endpoint):
        message = modern("subscriptions/listen", notifications=wanted)

        answer = await post(endpoint, message, *modern_headers(message, LATEST.name, {}))

        assert code_of(answer) == -32602


async def test_subscription_is_acknowledged_and_ends_with_stream() -> None:
    async with open_fake_server(LATEST) as (_, host, endpoint):
        message = modern("subscriptions/listen", notifications={"toolsListChanged": True})
        headers = modern_headers(message, LATEST.name, {})
        async with endpoint.exchange(Transcript(), "POST", headers, json.dumps(message).encode()) as exchange:
            event = await exchange.next_event()
            assert event is not None
            assert json.loads(event.data)["params"]["notifications"] == {"toolsListChanged": True}
        await host.exchanges[-1].gone.wait()


async def test_scenario_truncates_response() -> None:
    async def cut(exchange: HttpExchange) -> bool:
        await exchange.start(200, [("Content-Type", "application/json"), ("Content-Length", "100")])
        await exchange.chunk(b'{"jsonrpc"', deviant="half an answer")
        await exchange.cut()
        return True

    async with open_fake_server(LATEST) as (_, host, endpoint):
        host.before = cut
        with pytest.raises(IncompleteResponse):
            await post(endpoint, modern("tools/list"))


async def test_http_sse_endpoints_serve_first_revision() -> None:
    server = FakeServer((R2024_11_05,), 5.0)
    async with open_sse_host(server, Transcript()) as (_, url):
        endpoint = Endpoint(url)
        assert (await post(endpoint, initialize(R2024_11_05))).status == 405
        async with endpoint.exchange(Transcript(), "GET") as stream:
            first = await stream.next_event()
            assert first is not None
            assert first.event == "endpoint"
            place = Endpoint(f"{endpoint.origin}{first.data.decode()}")
            assert (await post(place, initialize(R2024_11_05))).status == 202
            event = await stream.next_event()
            assert event is not None
            assert json.loads(event.data)["result"]["protocolVersion"] == R2024_11_05.name
        assert (await post(Endpoint(f"{endpoint.origin}/messages?session=none"), legacy("ping"))).status == 404


@asynccontextmanager
async def open_relay(*speaks: Revision) -> AsyncIterator[tuple[StdioHost, trio.Process]]:
    server = FakeServer(speaks, 5.0)
    async with open_stdio_host(server, Transcript()) as (host, words):
        process = await trio.lowlevel.open_process(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            with trio.fail_after(30):
                yield host, process
        finally:
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()


async def exchange_line(process: trio.Process, data: bytes) -> JsonObject:
    """Write bytes and read a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.send_all(data)
    line = b""
    while not line.endswith(b"\n"):
        line += await process.stdout.receive_some(1)
    value: JsonValue = json.loads(line)
    assert isinstance(value, dict)
    return value


async def test_relay_forwards_bytes_and_process_events() -> None:
    async with open_relay(LATEST_LEGACY, LATEST) as (host, process):
        data = json.dumps(initialize(LATEST_LEGACY)).encode() + b"\r\n"
        assert "result" in await exchange_line(process, data)
        assert "result" in await exchange_line(process, json.dumps(modern("server/discover")).encode() + b"\n")
        assert (await exchange_line(process, b"\xff\n"))["error"] == {"code": -32700, "message": "this is no JSON"}
        launch = host.launches[0]
        assert bytes(launch.received).startswith(data)
        assert launch.values[-1] is None
        assert process.stdin is not None
        await process.stdin.aclose()
        assert await process.wait() == 0
        await launch.over.wait()
        assert launch.events == ["input-ended", "exited"]


async def test_cancellation_in_the_same_read_as_its_request_cancels_it() -> None:
    cancelled = trio.Event()

    async def wait(_: ScriptedRequest) -> JsonObject:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError("the tool ends only by cancellation")

    async with open_relay(LATEST_LEGACY) as (host, process):
        host.server.offers.add_tool("waits", "Never ends", wait)
        await exchange_line(process, json.dumps(initialize(LATEST_LEGACY)).encode() + b"\n")
        call = legacy("tools/call", 2, name="waits", arguments={})
        cancellation = legacy("notifications/cancelled", None, requestId=2)
        assert process.stdin is not None
        await process.stdin.send_all(b"".join(json.dumps(each).encode() + b"\n" for each in (call, cancellation)))
        await cancelled.wait()


async def test_relay_survives_signal_if_scenario_handles_it() -> None:
    signalled = trio.Event()

    async def stay(launch: Launch, number: signal.Signals) -> None:
        signalled.set()

    async with open_relay(LATEST) as (host, process):
        host.on_signal = stay
        await exchange_line(process, json.dumps(modern("server/discover")).encode() + b"\n")
        process.terminate()
        await signalled.wait()
        assert process.poll() is None
        process.kill()
        await host.launches[0].over.wait()
        assert host.launches[0].events == ["SIGTERM", "killed"]


async def test_process_left_running_is_reported_and_ended() -> None:
    async with open_relay(LATEST) as (host, process):
        await exchange_line(process, json.dumps(modern("server/discover")).encode() + b"\n")
        await host.settled(0.1)
        assert await process.wait() == 0
        assert host.launches[0].events[0] == "left-running"


async def test_connection_without_secret_is_no_relay() -> None:
    server = FakeServer((LATEST,), 5.0)
    async with open_stdio_host(server, Transcript()) as (host, words):
        async with await trio.open_tcp_stream("127.0.0.1", int(words[-2])) as stream:
            await stream.send_all(b"H\x00\x00\x00\x05wrong")
            with trio.fail_after(5):
                assert await stream.receive_some() == b""
        assert host.launches == []
