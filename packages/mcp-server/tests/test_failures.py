"""What is said of handlers that fail, and what is no failure of anybody."""

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

# --- a client that leaves is nobody's fault --------------------------------------------------------------------------


def curious() -> Server:
    """Its handlers ask the client, and let pass whatever comes of that."""
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
        raise ConnectionEnded("another server, which this one is a client of, went away")

    return server


INITIALIZE: JsonObject = {
    "protocolVersion": R2024_11_05.name,
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "raw", "version": "0"},
}

ASKING: list[tuple[str, JsonObject]] = [
    ("tools/call", {"name": "look"}),
    ("tools/call", {"name": "look_twice"}),
    ("prompts/get", {"name": "ask"}),
]


def said_of_leaving(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said at least to those who want to know of trouble; and that the rest was said to others."""
    assert [each.exc_info for each in caplog.records if "client disconnected" in each.getMessage()] == [None]
    return [each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG]


@pytest.mark.parametrize(("method", "params"), ASKING, ids=["tool", "several", "prompt"])
async def test_a_client_that_leaves_a_pipe_before_it_answers_is_no_error(
    method: str, params: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with connected(curious(), R2025_11_25) as client:
        await client.start(method, params)
        await client.wait_for(lambda: bool(client.asked))
    assert said_of_leaving(caplog) == []


@pytest.mark.parametrize(("method", "params"), ASKING, ids=["tool", "several", "prompt"])
async def test_a_client_that_leaves_its_http_session_before_it_answers_is_no_error(
    method: str, params: JsonObject, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with session(curious().asgi(policy=EndpointPolicy(session_idle=100))) as client:
        reply = client.post(client.request(method, params))
        await reply.message()
        reply.leave()
        await reply.returned.wait()
    assert said_of_leaving(caplog) == []


async def test_a_client_that_left_before_it_could_be_asked_is_no_error_but_one_that_takes_no_stream_is_told(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    server = curious()

    @server.tool
    async def look_later(context: Context) -> str:
        await trio.sleep(10)
        return str(len(await context.list_roots()))

    async with session(server.asgi()) as client:
        reply = client.post(client.call("look_later"))
        await trio.sleep(1)
        reply.leave()
        await reply.returned.wait()
        assert said_of_leaving(caplog) == []
        # Why is to be found in the log, as the answer says.
        answer = await client.post(client.call("look"), accept="application/json").json()
        assert "The log of the server contains the reason" in str(answer)
        assert "client request not sent: the client has no open stream" in caplog.text
        assert caplog.records[-1].levelno == logging.ERROR


@pytest.mark.parametrize("drained", [False, True])
async def test_a_client_of_2024_that_leaves_before_it_answers_is_no_error(
    drained: bool, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    app = curious().asgi(legacy_sse=True)
    async with hosted(app, R2024_11_05) as client:
        client.path = "/sse"
        stream = client.get()
        client.path, _, client.query = (await stream.event()).data.decode().partition("?")
        ready: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for message in (client.request("initialize", INITIALIZE, id=1), ready, client.request(*ASKING[0], id=2)):
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


async def test_another_connection_that_ends_is_a_failure_of_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(curious(), R2025_11_25) as client:
        await client.crash("relay")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "tool 'relay' failed: request=2")
    assert record.exc_info is not None


# --- sys.exit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_a_handler_that_calls_exit_ends_itself_and_not_the_server(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
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
