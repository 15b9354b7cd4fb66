"""The logs and errors of failing handlers, and of clients that disconnect."""

from __future__ import annotations

import logging
import sys

import pytest
import trio
import trio.testing
from asgi_host import hosted, session
from raw_client import connected

from mcp_core.errors import ConnectionEnded, ErrorCode
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2024_11_05, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, EndpointPolicy, Server

# --- disconnected clients --------------------------------------------------------------------------------------------


def make_server() -> Server:
    """Return a server whose handlers send client requests without handling errors."""
    server = Server("curious", version="0")

    @server.tool
    async def look(context: Context) -> str:
        return str(len(await context.list_roots()))

    @server.tool
    async def look_twice(context: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.list_roots)
            nursery.start_soon(context.list_roots)
        return ""

    @server.prompt
    async def ask(context: Context) -> str:
        return str(len(await context.list_roots()))

    @server.tool
    async def relay() -> str:
        raise ConnectionEnded("the connection to another server ended")

    return server


INITIALIZE: JsonObject = {
    "protocolVersion": R2024_11_05.name,
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "raw", "version": "0"},
}

REQUESTS: list[tuple[str, JsonObject]] = [
    ("tools/call", {"name": "look"}),
    ("tools/call", {"name": "look_twice"}),
    ("prompts/get", {"name": "ask"}),
]


def log_messages_of_disconnect(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log messages above debug level. The disconnect itself must be logged once, without a traceback."""
    assert [each.exc_info for each in caplog.records if "client disconnected" in each.getMessage()] == [None]
    return [each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG]


@pytest.mark.parametrize(("method", "params"), REQUESTS, ids=["tool", "several", "prompt"])
async def test_stdio_disconnect_during_client_request_is_no_error(
    method: str, params: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with connected(make_server(), R2025_11_25) as client:
        await client.start(method, params)
        await client.wait_for(lambda: bool(client.client_requests))
    assert log_messages_of_disconnect(caplog) == []


@pytest.mark.parametrize(("method", "params"), REQUESTS, ids=["tool", "several", "prompt"])
async def test_http_disconnect_during_client_request_is_no_error(
    method: str, params: JsonObject, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with session(make_server().asgi(policy=EndpointPolicy(session_idle=100))) as client:
        reply = client.post(client.request(method, params))
        await reply.message()
        reply.leave()
        await reply.returned.wait()
    assert log_messages_of_disconnect(caplog) == []


async def test_client_request_without_stream_logs_error_only_while_connected(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    server = make_server()

    @server.tool
    async def look_later(context: Context) -> str:
        await trio.sleep(10)
        return str(len(await context.list_roots()))

    async with session(server.asgi()) as client:
        reply = client.post(client.call("look_later"))
        await trio.sleep(1)
        reply.leave()
        await reply.returned.wait()
        assert log_messages_of_disconnect(caplog) == []
        # As the result says, the log contains the reason.
        answer = await client.post(client.call("look"), accept="application/json").json()
        assert "The log of the server contains the reason" in str(answer)
        assert "client request not sent: the client has no open stream" in caplog.text
        assert caplog.records[-1].levelno == logging.ERROR


@pytest.mark.parametrize("drained", [False, True])
async def test_sse_disconnect_during_client_request_is_no_error(
    drained: bool, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    app = make_server().asgi(legacy_sse=True)
    async with hosted(app, R2024_11_05) as client:
        client.path = "/sse"
        stream = client.get()
        client.path, _, client.query = (await stream.event()).data.decode().partition("?")
        ready: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for message in (client.request("initialize", INITIALIZE, id=1), ready, client.request(*REQUESTS[0], id=2)):
            assert await client.post(message).body() == b""
        assert (await stream.message())["id"] == 1
        assert (await stream.message())["method"] == "roots/list"
        if drained:
            await app.drain(10)
        else:
            stream.leave()
        await stream.returned.wait()
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG] == []
    assert "client disconnected" in caplog.text


async def test_connection_ended_of_other_server_is_tool_error(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(make_server(), R2025_11_25) as client:
        await client.crash("relay")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "tool 'relay' failed: request=2")
    assert record.exc_info is not None


# --- sys.exit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_handler_sys_exit_fails_request_only(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("hasty", version="0")

    @server.tool
    async def leave() -> str:
        sys.exit(3)

    @server.tool
    def leave_thread() -> str:
        sys.exit("no")

    @server.tool
    async def leave_nursery() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exit_soon)
            await trio.sleep_forever()

    async def exit_soon() -> None:
        sys.exit()

    @server.prompt
    async def parting() -> str:
        sys.exit(1)

    async with connected(server, revision) as client:
        await client.crash("leave")
        await client.crash("leave_thread")
        for method, params in (("tools/call", {"name": "leave_nursery"}), ("prompts/get", {"name": "parting"})):
            error = await client.fail(method, {**params})
            assert error == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
        assert "SystemExit: 3" in caplog.text
        assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 4
        await client.crash("leave")
