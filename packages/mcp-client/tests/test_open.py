from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

import mcp_client
from mcp_client import Client, Deadlines, Grace, Handlers, open_stdio, open_stream
from mcp_client.connectors.options import DEFAULT_INFO
from mcp_client.testing import Faults, ScriptedPeer, Transcript, open_in_memory, replayed, scripted
from mcp_core.errors import (
    ConnectionEnded,
    LimitExceeded,
    LocalProtocolError,
    McpError,
    NegotiationFailed,
    Phase,
    ProcessFailed,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LEGACY, MODERN, R2024_11_05, R2025_06_18, R2025_11_25, R2026_07_28

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "small", "version": "1"}
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/call":
        print("working", file=sys.stderr, flush=True)
        if message["params"]["name"] == "exit":
            sys.exit("out of cheese")
        result = {"content": []}
    elif "id" in message:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
LONG_GRACE = Grace(close_stdin=60, terminate=60, kill=60)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_client_info_has_package_version() -> None:
    assert DEFAULT_INFO.version == mcp_client.__version__


async def silence(peer: ScriptedPeer) -> None:
    await peer.receive()


# --- real processes --------------------------------------------------------------------------------------------------


@pytest.mark.spec("stdio.client-support")
async def test_stdio_server_started_called_and_stopped() -> None:
    lines: list[str] = []
    async with open_stdio(python(SERVER), grace=LONG_GRACE, on_stderr=lines.append) as client:
        assert client.revision is R2025_11_25
        assert client.server_info is not None
        assert client.server_info.name == "small"
        assert client.instructions is None
        assert (await client.call_tool("a")).content == ()
    assert lines == ["working"]


async def test_server_exit_at_start_reported_with_stderr() -> None:
    with pytest.raises(ConnectionEnded, match="exited with status 3") as caught:
        async with open_stdio(python("import sys; print('no such database', file=sys.stderr); sys.exit(3)")):
            raise AssertionError("the connection was opened")
    assert caught.value.context.stderr_tail == "no such database\n"
    assert "no such database" in str(caught.value)
    assert caught.value.context.phase is Phase.NEGOTIATE


async def test_server_exit_during_call_reported_to_caller() -> None:
    async with open_stdio(python(SERVER), grace=LONG_GRACE) as client:
        with pytest.raises(ConnectionEnded, match="exited with status 1") as caught:
            await client.call_tool("exit")
        assert caught.value.context.stderr_tail == "working\nout of cheese\n"
        assert caught.value.context.method == "tools/call"
        assert os.path.basename(sys.executable) in (caught.value.context.peer or "")
        with pytest.raises(ConnectionEnded, match="exited with status 1"):
            await client.call_tool("again")


async def test_rejected_request_reported_without_stderr() -> None:
    async with open_stdio(python(SERVER), grace=LONG_GRACE) as client:
        await client.call_tool("a")
        with pytest.raises(RequestFailed, match="Method not found") as caught:
            await client.ping()
        with pytest.raises(LocalProtocolError) as unsent:
            await client.list_prompts()
    for error in (caught.value, unsent.value):
        assert error.context.stderr_tail is None
        assert "working" not in str(error)


async def test_server_exit_reported_with_last_20_stderr_lines() -> None:
    code = "import sys\nfor n in range(100): print('line', n, file=sys.stderr)\nsys.exit(3)"
    with pytest.raises(ConnectionEnded, match="exited with status 3") as caught:
        async with open_stdio(python(code)):
            raise AssertionError("the connection was opened")
    assert caught.value.context.stderr_tail == "".join(f"line {n}\n" for n in range(80, 100))


async def test_silent_server_reported_with_stderr(mock_clock: trio.testing.MockClock) -> None:
    wrote = trio.Event()
    code = "import sys; print('waiting for the database', file=sys.stderr, flush=True); sys.stdin.read()"

    async def open_and_time_out() -> None:
        with pytest.raises(RequestTimeout, match="did not respond") as caught:
            async with open_stdio(python(code), on_stderr=lambda _: wrote.set()):
                raise AssertionError("the connection was opened")
        assert caught.value.context.stderr_tail == "waiting for the database\n"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_and_time_out)
        await wrote.wait()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(Deadlines().probe)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(Deadlines().connect)


async def test_closed_client_reported_without_stderr() -> None:
    async with open_stdio(python(SERVER), grace=LONG_GRACE) as client:
        await client.call_tool("a")
        await client.aclose()
        with pytest.raises(ConnectionEnded, match="the client was closed") as caught:
            await client.call_tool("a")
    assert caught.value.context.stderr_tail is None


async def test_missing_program_named() -> None:
    with pytest.raises(ProcessFailed, match="no-such-program"):
        async with open_stdio(["no-such-program"]):
            raise AssertionError("the connection was opened")


async def test_server_closing_stdin_connection_ended() -> None:
    code = f"import os, sys, signal\n{SERVER.replace('for line', 'for number, line')}".replace(
        "in sys.stdin:", "in enumerate(iter(sys.stdin.readline, '')):"
    ).replace("else:\n        continue", "else:\n        os.close(0)\n        signal.pause()")
    async with open_stdio(python(code), grace=Grace(close_stdin=0.01)) as client:
        with pytest.raises(ConnectionEnded, match="closed its end of the connection"):  # noqa: PT012  repeated until the write fails
            while True:
                with trio.move_on_after(0.05):
                    await client.call_tool("a")


# --- opening and closing ---------------------------------------------------------------------------------------------


async def test_clients_closed_in_any_order(autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        clients: list[Client] = []
        for _ in range(3):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(scripted(lambda peer: peer.initialize(tools={})), theirs)
            client: Client = await nursery.start(open_stream(ours).run)
            clients.append(client)
        for client in (clients[0], clients[2], clients[1], clients[0]):
            await client.aclose()
            with pytest.raises(ConnectionEnded):
                await client.list_tools()


async def test_nested_clients_closed_first_opened_first(autojump_clock: trio.testing.MockClock) -> None:
    serve = scripted(lambda peer: peer.initialize(tools={}))
    async with open_in_memory(serve) as first, open_in_memory(serve) as second:
        await first.aclose()
        await second.aclose()
        await second.aclose()


async def test_run_ends_when_server_closes_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await trio.sleep(5)
        await peer.aclose()

    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scripted(script), theirs)
        await nursery.start(open_stream(ours).run)
    assert trio.current_time() < 10


async def test_close_while_connecting_raises(autojump_clock: trio.testing.MockClock) -> None:
    ours, _theirs = trio.testing.memory_stream_pair()
    opening = open_stream(ours)
    async with trio.open_nursery() as nursery:

        async def connect() -> None:
            with pytest.raises(ConnectionEnded, match="closed while it was connecting") as caught:
                async with opening:
                    raise AssertionError("the connection was opened")
            assert caught.value.context.phase is Phase.CONNECT

        nursery.start_soon(connect)
        await trio.testing.wait_all_tasks_blocked()
        await opening.aclose()
        await opening.aclose()


async def test_close_before_connecting_raises(autojump_clock: trio.testing.MockClock) -> None:
    ours, _theirs = trio.testing.memory_stream_pair()
    opening = open_stream(ours)
    await opening.aclose()
    with pytest.raises(ConnectionEnded, match="closed while it was connecting"):
        await opening.__aenter__()


async def test_opening_used_twice_raises(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    opening = open_stream(ours)
    with pytest.raises(RuntimeError, match="was not opened"):
        await opening.__aexit__(None, None, None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scripted(lambda peer: peer.initialize()), theirs)
        async with opening:
            with pytest.raises(RuntimeError, match="already used"):
                await opening.__aenter__()


async def test_exception_of_block_raised_unwrapped(autojump_clock: trio.testing.MockClock) -> None:
    serve = scripted(lambda peer: peer.initialize())
    with pytest.raises(ZeroDivisionError) as caught:
        async with open_in_memory(serve):
            raise ZeroDivisionError
    assert caught.value.__context__ is None
    # Also when the block is cancelled at the same time.
    with trio.move_on_after(5) as scope, pytest.raises(ZeroDivisionError):  # noqa: PT012  raised while cancelled
        async with open_in_memory(serve):
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError
    assert scope.cancel_called
    group = ExceptionGroup("mine", [ValueError()])
    with pytest.raises(ExceptionGroup) as raised:
        async with open_in_memory(serve):
            raise group
    assert raised.value.message == "mine"


@pytest.mark.parametrize("server", [silence, lambda peer: peer.initialize()])
async def test_client_cancelled_ends(
    server: Callable[[ScriptedPeer], Awaitable[object]], autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await server(peer)

    with trio.move_on_after(2) as scope:
        async with open_in_memory(scripted(script)):
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_close_after_server_closed_raises_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.aclose()

    async with open_in_memory(scripted(script)) as client:
        await client.wait_ended()
        await client.aclose()


async def test_notification_before_close_sent(autojump_clock: trio.testing.MockClock) -> None:
    received: list[JsonObject] = []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        received.append(await peer.receive())

    async with open_in_memory(scripted(script), handlers=Handlers(roots=[])) as client:
        await client.roots_changed()
    assert [message["method"] for message in received] == ["notifications/roots/list_changed"]


# --- negotiation -----------------------------------------------------------------------------------------------------


def initialized(version: str = "2025-06-18", **more: JsonValue) -> JsonObject:
    return {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}, **more}


PROBE_ANSWERS: dict[str, JsonValue] = {
    "method not found": {"error": {"code": -32601, "message": "Method not found"}},
    "invalid params (python v1)": {"error": {"code": -32602, "message": "Invalid request parameters", "data": ""}},
    "invalid request": {"error": {"code": -32600, "message": "Server not initialized"}},
    "a server error": {"error": {"code": -32000, "message": "Bad Request: Missing session ID"}},
    "an error without id": {"id": None, "error": {"code": -32000, "message": "Unsupported protocol version"}},
    "an error with a code that is a string": {"error": {"code": "-32601", "message": "?"}},
    "an error with nothing in it": {"error": {}},
    "an empty result": {"result": {}},
    "a result that is null": {"result": None},
    "a result that is a list": {"result": []},
    "a result of something else": {"result": {"tools": []}},
    "an initialize result": {"result": initialized()},
    "the id as a string": {"id": "1", "error": {"code": -32601, "message": "Method not found"}},
}


@pytest.mark.parametrize("answer", PROBE_ANSWERS.values(), ids=PROBE_ANSWERS)
async def test_probe_any_legacy_response_negotiates_legacy(
    answer: JsonObject, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        request = await peer.receive("server/discover")
        await peer.send({"jsonrpc": "2.0", "id": request["id"], **answer})
        await peer.answer(await peer.receive("initialize"), initialized())
        await peer.receive("notifications/initialized")

    async with open_in_memory(scripted(script)) as client:
        assert client.revision is R2025_06_18
    assert trio.current_time() < Deadlines().probe


@pytest.mark.parametrize("junk", [b"", b"Starting up...\n", b"\xff\xfe\n\n  \n", b"\xef\xbb\xbf"])
async def test_probe_without_response_negotiates_legacy(junk: bytes, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.send_bytes(junk)
        await peer.receive("server/discover")
        await peer.answer(await peer.receive("initialize"), initialized())
        await peer.receive("notifications/initialized")

    async with open_in_memory(scripted(script)) as client:
        assert client.revision is R2025_06_18


async def test_probe_late_response_negotiates_modern(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        request = await peer.receive("server/discover")
        await peer.receive("initialize")
        result: JsonObject = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
        await peer.answer(request, result)

    async with open_in_memory(scripted(script)) as client:
        assert client.revision is R2026_07_28


@pytest.mark.spec("stdio.probe-recommended-modern-only")
async def test_modern_only_client_waits_for_slow_server(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await trio.sleep(20)
        await peer.discover()

    async with open_in_memory(scripted(script), revisions=[*MODERN]) as client:
        assert client.revision is R2026_07_28


@pytest.mark.parametrize("revision", LEGACY)
async def test_pinned_revision_proposed(revision: object, autojump_clock: trio.testing.MockClock) -> None:
    async with open_in_memory(
        scripted(lambda peer: peer.initialize(str(revision))),
        revisions=[each for each in LEGACY if each is revision],
    ) as client:
        assert client.revision is revision


async def reject_version(peer: ScriptedPeer) -> None:
    await peer.refuse(await peer.receive("server/discover"), -32601)
    request = await peer.receive("initialize")
    await peer.refuse(request, -32602, "Unsupported protocol version", {"supported": ["2024-11-05"]})
    await peer.answer(await peer.receive("initialize"), initialized("2024-11-05"))
    await peer.receive("notifications/initialized")


async def test_version_rejected_supported_version_used(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_in_memory(scripted(reject_version)) as client:
        assert client.revision is R2024_11_05


Script = Callable[[ScriptedPeer], Awaitable[None]]


async def return_unknown_version(peer: ScriptedPeer) -> None:
    await peer.refuse(await peer.receive("server/discover"), -32601)
    await peer.answer(await peer.receive("initialize"), initialized("1999-01-01"))


async def return_invalid_initialize(peer: ScriptedPeer) -> None:
    await peer.refuse(await peer.receive("server/discover"), -32601)
    await peer.answer(await peer.receive("initialize"), {"protocolVersion": 3})


async def reject_initialize(peer: ScriptedPeer) -> None:
    await peer.refuse(await peer.receive("server/discover"), -32601)
    await peer.refuse(await peer.receive("initialize"), -32603, "the license has expired")


async def support_unknown_version(peer: ScriptedPeer) -> None:
    await peer.discover("2030-01-01")


async def close_connection(peer: ScriptedPeer) -> None:
    await peer.receive()
    await peer.aclose()


async def send_junk(peer: ScriptedPeer) -> None:
    await peer.send_bytes(b"not a server\n" * 200)


@pytest.mark.parametrize(
    ("script", "error_type", "message"),
    [
        (return_unknown_version, NegotiationFailed, "1999-01-01"),
        (return_invalid_initialize, RemoteProtocolError, "protocolVersion"),
        (reject_initialize, RequestFailed, "the license has expired"),
        (support_unknown_version, NegotiationFailed, "2030-01-01"),
        (close_connection, ConnectionEnded, "closed by the server"),
        (send_junk, ConnectionEnded, r"Limits\.junk_lines"),
        (silence, RequestTimeout, "connect deadline of 30 s"),
    ],
)
async def test_negotiation_failure_reported(
    script: Script, error_type: type[McpError], message: str, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(error_type, match=message) as caught:
        async with open_in_memory(scripted(script)):
            raise AssertionError("the connection was opened")
    assert type(caught.value) is error_type or issubclass(type(caught.value), error_type)
    assert caught.value.context.peer == "the server in memory"
    assert caught.value.context.phase in {Phase.CONNECT, Phase.NEGOTIATE}


@pytest.mark.spec("lifecycle.handle-initialize-timeout")
async def test_connect_deadline_names_pending_handshake(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(RequestTimeout) as caught:
        async with open_in_memory(scripted(silence)):
            raise AssertionError("the connection was opened")
    assert (caught.value.context.method, caught.value.context.request_id) == ("initialize", 2)
    assert trio.current_time() == 30


async def test_client_without_revisions_rejected(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(LocalProtocolError, match="no revision"):
        async with open_in_memory(replayed(Transcript()), revisions=[]):
            raise AssertionError("the connection was opened")


async def test_junk_lines_reported_and_tolerated(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.send_bytes(b"Loading \xff model...\r\n\r\n")
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        for _ in range(5):
            await peer.send_bytes(b"{]\n" * 100)
            await peer.send(
                {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
            )
        await peer.send_bytes(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % request["id"])  # type: ignore[str-format]  # an int
        await peer.aclose()

    junk: list[str] = []

    def record_junk(line: str) -> None:
        junk.append(line)
        raise ValueError

    async with open_in_memory(scripted(script), on_junk=record_junk) as client:
        # The last message has no line end.
        assert (await client.call_tool("a")).content == ()
    assert junk[0] == "Loading \N{REPLACEMENT CHARACTER} model..."
    assert len(junk) == 501
    assert any("invalid line" in record.getMessage() for record in caplog.records)


async def test_junk_lines_over_limit_end_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.receive("tools/call")
        await peer.send_bytes(b"junk\n" * 101)

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(ConnectionEnded, match=r"101 is over the limit of 100; .* Limits\.junk_lines") as caught:
            await client.call_tool("a")
    assert isinstance(caught.value.__cause__, LimitExceeded)


# --- exactly one outcome ---------------------------------------------------------------------------------------------


async def conversation(peer: ScriptedPeer) -> None:
    await peer.initialize(tools={}, prompts={}, logging={})
    requests = [await peer.receive() for _ in range(3)]
    log: JsonObject = {"level": "info", "data": "half way"}
    await peer.send({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
    results: list[JsonValue] = [{"tools": []}, {"prompts": []}, {"content": []}]
    for request, result in reversed(list(zip(requests, results, strict=True))):
        await peer.answer(request, result)


async def request_three_times(client: Client, outcomes: list[object]) -> None:
    async def request(call: Callable[[], Awaitable[object]]) -> None:
        try:
            outcomes.append(await call())
        except McpError as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        for call in (client.list_tools, client.list_prompts, lambda: client.call_tool("a")):
            nursery.start_soon(request, call)
            await trio.testing.wait_all_tasks_blocked()


async def record_conversation() -> Transcript:
    transcript = Transcript()
    async with open_in_memory(scripted(conversation), transcript=transcript, revisions=[*LEGACY]) as client:
        outcomes: list[object] = []
        await request_three_times(client, outcomes)
    assert len(outcomes) == 3
    assert not any(isinstance(outcome, Exception) for outcome in outcomes)
    return transcript


@pytest.mark.property
@pytest.mark.parametrize("direction", ["<", ">"])
async def test_stream_cut_anywhere_every_request_ends(direction: str, autojump_clock: trio.testing.MockClock) -> None:
    transcript = await record_conversation()
    size = sum(len(line) + 1 for line_direction, line in transcript.lines if line_direction == direction)
    opened = 0
    # The line end after the last message may be missing.
    for offset in range(size - 1):
        cut = Faults(cut_after=offset)
        faults = {"to_client": cut} if direction == "<" else {"to_server": cut}
        outcomes: list[object] = []
        start = trio.current_time()
        try:
            async with open_in_memory(
                replayed(transcript),
                revisions=[*LEGACY],
                to_client=faults.get("to_client", Faults()),
                to_server=faults.get("to_server", Faults()),
            ) as client:
                opened += 1
                await request_three_times(client, outcomes)
        except ConnectionEnded:
            assert not outcomes
        else:
            assert len(outcomes) == 3
            assert any(isinstance(outcome, ConnectionEnded) for outcome in outcomes)
            assert all(isinstance(outcome, ConnectionEnded) for outcome in outcomes if isinstance(outcome, Exception))
        assert trio.current_time() - start < 10
    assert 0 < opened < size


@pytest.mark.property
@pytest.mark.parametrize("direction", ["<", ">"])
async def test_stream_byte_corrupted_every_request_ends(direction: str, autojump_clock: trio.testing.MockClock) -> None:
    transcript = await record_conversation()
    size = sum(len(line) + 1 for line_direction, line in transcript.lines if line_direction == direction)
    for offset in range(0, size, 3):
        bad, good = Faults(corrupt=offset, split=50), Faults()
        outcomes: list[object] = []
        try:
            async with open_in_memory(
                replayed(transcript),
                revisions=[*LEGACY],
                to_client=bad if direction == "<" else good,
                to_server=good if direction == "<" else bad,
            ) as client:
                await request_three_times(client, outcomes)
        except McpError:
            continue
        assert len(outcomes) == 3
