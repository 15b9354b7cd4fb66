from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_client import Client
from mcp_client.connectors.stdio import open_stdio
from mcp_client.recording import InvalidRecording, Recorder, Recording, Replay, read_recording, record_stream
from mcp_client.recording.format import MESSAGE_BYTES, dump, redact
from mcp_client.recording.stream import ServedStream
from mcp_client.testing import ScriptedUser, open_in_memory
from mcp_core.errors import McpError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2024_11_05, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import LoggingMessageNotificationParams, SamplingMessage, TextContent
from mcp_server import Context, Server, ToolError, serve_stream

Serve = Callable[[ServedStream], Awaitable[None]]


def make_server() -> Server:
    """Return a server whose results depend on its history, so that a replay cannot be another run of it."""
    server = Server("counter", version="1.0")
    total = 0

    @server.tool
    async def add(number: int) -> int:
        """Return the sum so far."""
        nonlocal total
        total += number
        return total

    @server.tool
    async def count(to: int, *, context: Context) -> str:
        """Report progress and log messages."""
        for number in range(to):
            await context.progress(number, to)
            await context.info(f"number {number}")
        return f"counted to {to}"

    @server.tool
    async def fail(text: str) -> None:
        """Fail."""
        raise ToolError(text)

    @server.tool
    async def model(prompt: str, *, context: Context) -> str:
        """Return the response of a model."""
        message = SamplingMessage(role="user", content=TextContent(text=prompt))
        answer = await context.sample([message], max_tokens=10)
        assert isinstance(answer.content, TextContent)
        return answer.content.text

    return server


def served(server: Server) -> Serve:
    return lambda stream: serve_stream(server, stream)


def recording_of(data: bytes) -> Recording:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(data)
        return read_recording(path)


Operation = tuple[str, JsonObject]

OPERATIONS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.fixed_dictionaries({"number": st.integers(-3, 3)})),
        st.tuples(st.just("count"), st.fixed_dictionaries({"to": st.integers(0, 3)})),
        st.tuples(st.just("fail"), st.fixed_dictionaries({"text": st.text(max_size=5)})),
        st.tuples(st.just("model"), st.fixed_dictionaries({"prompt": st.sampled_from(["a", "b"])})),
        st.tuples(st.just("list"), st.just({})),
        st.tuples(st.just("unknown"), st.just({})),
        st.tuples(st.just("together"), st.fixed_dictionaries({"number": st.integers(2, 4)})),
    ),
    max_size=8,
)


async def results_of(serve: Serve, revision: Revision, operations: list[Operation]) -> list[str]:
    """Return all that a client observes. The log comes last: progress is reported when the task of the caller runs."""
    observed: list[str] = []
    logged: list[str] = []
    user = ScriptedUser()
    for name, arguments in operations:
        if name == "model":
            user.expect_sampling(str(arguments["prompt"]), f"answer {len(observed)}")

    def log(params: LoggingMessageNotificationParams) -> None:
        logged.append(f"log {params.data}")

    handlers = attrs.evolve(user.handlers, log=log)
    async with open_in_memory(serve, revisions=[revision], handlers=handlers, log_level="info") as client:
        observed.append(repr((client.revision, client.capabilities, client.server_info)))
        for name, arguments in operations:
            try:
                observed.append(repr(await result_of(client, name, arguments, observed)))
            except McpError as error:
                observed.append(f"{type(error).__name__}: {error.message}")
    return observed + logged


async def result_of(client: Client, name: str, arguments: JsonObject, observed: list[str]) -> object:
    if name == "list":
        return await client.fresh().list_tools()
    if name == "together":
        sums: list[str] = []

        async def add(number: int) -> None:
            sums.append((await client.call_tool("add", {"number": number})).text)

        async with trio.open_nursery() as nursery:
            for number in range(int(str(arguments["number"]))):
                nursery.start_soon(add, number)
        # The order of the tasks varies, and with it the sums on the way.
        return len(sums)
    result = await client.call_tool(
        name,
        arguments,
        raise_on_error=False,
        on_progress=lambda progress, total, message: observed.append(f"progress {progress} {total} {message}"),
    )
    return result.is_error, result.text, result.structured_content


@pytest.mark.property
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@given(operations=OPERATIONS)
@settings(deadline=None)
def test_replay_gives_client_recorded_results(revision: Revision, operations: list[Operation]) -> None:
    warnings: list[str] = []
    file = io.BytesIO()
    recorded = record_stream(served(make_server()), Recorder(file, warnings.append))
    expected = trio.run(results_of, recorded, revision, operations)
    replay = Replay(recording_of(file.getvalue()), warnings.append)
    assert trio.run(results_of, replay.serve, revision, operations) == expected
    assert warnings == []


# --- raw messages ----------------------------------------------------------------------------------------------------


async def exchange(serve: Serve, batches: list[list[JsonObject]]) -> list[JsonValue]:
    """Send batches of 2025-03-26, each after the response to the one before. Return what the server sent."""
    ours, theirs = trio.testing.memory_stream_pair()
    received: list[JsonValue] = []
    buffer = bytearray()

    async def line() -> JsonValue:
        while b"\n" not in buffer:
            buffer.extend(await ours.receive_some())
        text, _, rest = bytes(buffer).partition(b"\n")
        buffer[:] = rest
        value: JsonValue = json.loads(text)
        received.append(value)
        return value

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, theirs)
        await ours.send_all(dump(initialize("2025-03-26")) + b"\n")
        await line()
        await ours.send_all(dump({"jsonrpc": "2.0", "method": "notifications/initialized"}) + b"\n")
        for batch in batches:
            await ours.send_all(dump(list(batch)) + b"\n")
            await line()
        nursery.cancel_scope.cancel()
    return received


def initialize(version: str, id: JsonValue = "start") -> JsonObject:
    info: JsonObject = {"name": "c", "version": "1"}
    params: JsonObject = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def add_request(id: int, number: int) -> JsonObject:
    params: JsonObject = {"name": "add", "arguments": {"number": number}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def in_order(message: JsonValue) -> JsonValue:
    return sorted(message, key=str) if isinstance(message, list) else message


@pytest.mark.property
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
@settings(deadline=None)
def test_replay_of_batches_sends_recorded_batches(sizes: list[int]) -> None:
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    batches = [
        [add_request(start + number, start + number) for number in range(size)]
        for start, size in zip(starts, sizes, strict=True)
    ]
    file = io.BytesIO()
    warnings: list[str] = []
    recorded = record_stream(served(make_server()), Recorder(file, warnings.append))
    expected = trio.run(exchange, recorded, batches)
    assert [isinstance(message, list) for message in expected[1:]] == [True] * len(batches)
    replay = Replay(recording_of(file.getvalue()), warnings.append)
    # Other ids, in another order.
    moved = [[{**message, "id": cast("int", message["id"]) + 100} for message in reversed(batch)] for batch in batches]
    actual = trio.run(exchange, replay.serve, moved)
    back = [
        [{**part, "id": cast("int", part["id"]) - 100} for part in cast("list[JsonObject]", message)]
        for message in actual[1:]
    ]
    assert [in_order(cast("JsonValue", message)) for message in back] == [in_order(each) for each in expected[1:]]
    assert warnings == []


def lines(*entries: tuple[str, JsonValue]) -> bytes:
    header: list[JsonValue] = [{"mcpRecording": 1}]
    return b"".join(dump(each) + b"\n" for each in [*header, *({"from": f, "message": m} for f, m in entries)])


async def replay_raw(recording: bytes, *messages: JsonValue) -> tuple[list[JsonValue], list[str]]:
    """Send messages to a replay, one after the other. Return what it sent, and its warnings."""
    ours, theirs = trio.testing.memory_stream_pair()
    warnings: list[str] = []
    sent = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Replay(recording_of(recording), warnings.append).serve, theirs)
        for message in messages:
            await ours.send_all(dump(message) + b"\n")
            await trio.testing.wait_all_tasks_blocked()
        await ours.send_stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await theirs.aclose()
        async for data in ours:
            sent += data
    return [json.loads(line) for line in sent.splitlines()], warnings


def request(id: JsonValue, method: str, **params: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def result(id: JsonValue, **members: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def notification(method: str, **params: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_progress_tokens_mapped() -> None:
    recording = lines(
        ("client", request(1, "tools/call", name="a", _meta={"progressToken": 1})),
        ("server", notification("notifications/progress", progressToken=1, progress=1)),
        ("server", result(1)),
        ("client", request(2, "tools/call", name="b", _meta={"progressToken": 2})),
        ("server", notification("notifications/progress", progressToken=2, progress=1)),
        ("server", result(2)),
    )
    sent, warnings = await replay_raw(
        recording,
        request("x", "tools/call", name="b", _meta={"progressToken": "t"}),
        request("y", "tools/call", name="a"),
    )
    # The second request has no token, so it gets no progress notification.
    assert sent == [notification("notifications/progress", progressToken="t", progress=1), result("x"), result("y")]
    assert warnings == []


async def test_subscription_id_mapped() -> None:
    key = "io.modelcontextprotocol/subscriptionId"
    recording = lines(
        ("client", request(1, "subscriptions/listen", notifications={})),
        ("server", notification("notifications/subscriptions/acknowledged", _meta={key: 1})),
        ("client", request(2, "tools/call", name="a")),
        ("server", result(2)),
        ("server", notification("notifications/tools/list_changed", _meta={key: 1})),
    )
    call = request("b", "tools/call", name="a")
    sent, warnings = await replay_raw(recording, request("a", "subscriptions/listen", notifications={}), call)
    assert sent == [
        notification("notifications/subscriptions/acknowledged", _meta={key: "a"}),
        result("b"),
        notification("notifications/tools/list_changed", _meta={key: "a"}),
    ]
    assert (await replay_raw(recording, call))[0] == [result("b")]
    assert warnings == []


async def test_unrecorded_request_fails_and_is_reported() -> None:
    recording = lines(("client", request(1, "tools/call", name="a")), ("server", result(1)))
    call = request(5, "tools/call", name="a")
    sent, warnings = await replay_raw(recording, call, call, request(6, "tools/call", name="b", password="x"))
    assert sent[0] == result(5)
    messages = [cast("JsonObject", cast("JsonObject", each)["error"])["message"] for each in sent[1:]]
    assert messages == warnings
    assert warnings[0].endswith('session.jsonl: tools/call is not recorded as often with {"name": "a"}')
    assert warnings[1].endswith('session.jsonl: tools/call is not recorded with {"name": "b", "password": "***"}')
    assert cast("JsonObject", cast("JsonObject", sent[1])["error"])["code"] == -32603


async def test_changed_response_of_client_fails_request() -> None:
    recording = lines(
        ("client", request(1, "tools/call", name="a")),
        ("server", request("s", "elicitation/create", message="?")),
        ("client", result("s", action="accept")),
        ("server", result(1)),
    )
    call = request(1, "tools/call", name="a")
    elicitation = request("s", "elicitation/create", message="?")
    assert await replay_raw(recording, call, result("s", action="accept")) == ([elicitation, result(1)], [])
    sent, warnings = await replay_raw(recording, call, result("s", action="decline"))
    assert sent[0] == elicitation
    assert warnings[0].endswith("the response of the client to elicitation/create differs from the recorded one")


async def test_request_without_recorded_response_fails_unless_cancelled() -> None:
    call = request(1, "tools/call", name="a")
    cancelled = notification("notifications/cancelled", requestId=1)
    sent, warnings = await replay_raw(lines(("client", call)), call)
    assert len(sent) == 1
    assert warnings[0].endswith("line 2: the recording ended before the response to tools/call")
    assert await replay_raw(lines(("client", call), ("client", cancelled)), call, cancelled) == ([], [])


async def test_line_that_is_no_message_rejected() -> None:
    sent, _ = await replay_raw(lines(), "text", ["x"])
    assert [cast("JsonObject", cast("JsonObject", each)["error"])["code"] for each in sent] == [-32700, -32700]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: not JSON"),
        (b"[]", "line 1: not a JSON object"),
        (b"{}", "line 1: not a recording"),
        (b'{"mcpRecording": 2}', "line 1: unknown version 2"),
        (b'{"mcpRecording": 1}\n\n{"from": "us"}', 'line 3: "from" must be'),
        (b'{"mcpRecording": 1}\n{"from": "client", "message": 1}', 'line 2: "message" is not'),
        (b'{"mcpRecording": 1}\n{"from": "client", "message": []}', 'line 2: "message" is not'),
        (b'{"mcpRecording": 1}\n{"from": "client", "message": {"method": 1}}', 'line 2: "message" is not'),
        (b'{"mcpRecording": 1}\n{"from": "client", "mess', "line 2: not JSON"),
        (b'{"mcpRecording": 1}\n' + b"[" * 100_000, "line 2: not JSON"),
        (b'{"mcpRecording": 1}\n\xff', "line 2: not JSON"),
    ],
)
def test_broken_file_named_with_line(data: bytes, message: str) -> None:
    with pytest.raises(InvalidRecording, match=rf"session\.jsonl, {message}"):
        recording_of(data)


@pytest.mark.property
@given(data=st.binary(max_size=200))
@settings(deadline=None)
def test_file_with_random_bytes_read_or_rejected(data: bytes) -> None:
    for text in (data, b'{"mcpRecording": 1}\n' + data, b'{"mcpRecording": 1}\n{"from":"client","message":' + data):
        with suppress(InvalidRecording):
            recording_of(text)


def test_large_file_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_client.recording.format.FILE_BYTES", 40)
    with pytest.raises(InvalidRecording, match="is larger than 40 bytes"):
        recording_of(b'{"mcpRecording": 1}' + b"\n" * 40)
    warnings: list[str] = []
    file = io.BytesIO()
    recorder = Recorder(file, warnings.append)
    recorder.record("client", dump(request(1, "ping")) + b"\n" + dump(request(2, "ping")) + b"\n")
    assert warnings == ["the recording ends here: it would be larger than 40 bytes"]
    assert len(file.getvalue()) <= 40


def test_lines_without_messages_not_recorded() -> None:
    warnings: list[str] = []
    file = io.BytesIO()
    recorder = Recorder(file, warnings.append)
    recorder.record("server", b"Listening...\n1\n[]\n" + b"[" * 100_000 + b"\n")
    recorder.record("server", b" " * (MESSAGE_BYTES + 1) + b"x\n")
    assert file.getvalue() == b'{"mcpRecording":1}\n'
    assert len(warnings) == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"password": "x", "Api-Key": "x", "client_secret": ["x"]},
            {"password": "***", "Api-Key": "***", "client_secret": ["***"]},
        ),
        ({"headers": {"Authorization": "Bearer x"}}, {"headers": {"Authorization": "***"}}),
        ({"text": "Bearer abc", "other": "a bearer of news"}, {"text": "***", "other": "a bearer of news"}),
        (
            {"progressToken": "x", "nextCursor": "x", "requestState": "x"},
            {"progressToken": "x", "nextCursor": "x", "requestState": "x"},
        ),
        ({"properties": {"password": {"type": "string"}}}, {"properties": {"password": {"type": "string"}}}),
    ],
)
def test_secrets_redacted(value: JsonValue, expected: JsonValue) -> None:
    assert redact(value) == expected


def test_half_of_surrogate_pair_and_large_integers_recorded() -> None:
    file = io.BytesIO()
    Recorder(file, pytest.fail).record("client", b'{"method":"a","id":1,"params":{"a":"\\ud800","b":%d}}\n' % 10**30)
    assert recording_of(file.getvalue()).messages[0].messages[0]["params"] == {"a": "\ud800", "b": 10**30}


# --- the command line ------------------------------------------------------------------------------------------------

PROGRAM: Final = """
import os, sys, trio
from mcp_server import Server, serve_stdio
server = Server("greeter", version="1.0")
print("stderr of the server", file=sys.stderr)

@server.tool
def greet(name: str) -> str:
    '''Return a greeting.'''
    return f"Hello, {name} {os.environ.get('GREETING_SECRET')}"

trio.run(serve_stdio, server)
sys.exit(7)
"""


@pytest.mark.parametrize("revision", [R2024_11_05, R2025_11_25, R2026_07_28], ids=str)
async def test_recorded_command_replays(tmp_path: Path, revision: Revision) -> None:
    (tmp_path / "greeter.py").write_text(PROGRAM)
    cli = [sys.executable, "-m", "mcp_client"]
    command = [*cli, "record", "--output", "session.jsonl", "--", sys.executable, "greeter.py"]
    stderr: list[str] = []
    env = {"GREETING_SECRET": "s3cret"}
    async with open_stdio(command, cwd=tmp_path, env=env, revisions=[revision], on_stderr=stderr.append) as client:
        greeting = (await client.call_tool("greet", {"name": "Ada"})).text
    assert greeting == "Hello, Ada s3cret"
    assert "stderr of the server" in stderr
    # Only a result that contains the variable shows it.
    assert (tmp_path / "session.jsonl").read_text().count("s3cret") == (tmp_path / "session.jsonl").read_text().count(
        "Ada s3cret"
    )
    assert (tmp_path / "session.jsonl").stat().st_mode & 0o077 == 0
    (tmp_path / "greeter.py").unlink()
    replay = [*cli, "replay", "session.jsonl"]
    stderr.clear()
    async with open_stdio(replay, cwd=tmp_path, revisions=[revision], on_stderr=stderr.append) as client:
        assert (await client.call_tool("greet", {"name": "Ada"})).text == greeting
        with pytest.raises(RequestFailed, match="tools/call is not recorded with"):
            await client.call_tool("greet", {"name": "Bob"})
    assert any("tools/call is not recorded with" in line for line in stderr)


def test_record_without_output_writes_recording_to_stdout(tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mcp_client", "record", "--", sys.executable, "greeter.py"]
    done = subprocess.run(
        command, cwd=tmp_path, input=dump(request(1, "ping")) + b"\n", capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 7
    messages = recording_of(done.stdout).messages
    assert [each.sender for each in messages] == ["client", "server"]
    assert b"stderr of the server" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["record", "--output", "no/such/folder", "--", "x"], 2, "cannot write the recording no/such/folder"),
        (["record", "--", "/no/such/program"], 3, "cannot start /no/such/program"),
        (["record"], 2, "no server: pass its command"),
        (["replay", "missing.jsonl"], 2, "cannot read the recording missing.jsonl"),
        (["replay", "broken.jsonl"], 2, "broken.jsonl, line 1: not a recording"),
    ],
)
def test_failure_of_command_reported(tmp_path: Path, words: list[str], code: int, message: str) -> None:
    (tmp_path / "broken.jsonl").write_text("{}\n")
    command = [sys.executable, "-m", "mcp_client", *words]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stderr
    assert message in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_signal_forwarded_to_server() -> None:
    program = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); print('{}', flush=True); signal.pause()"
    command = [
        sys.executable,
        "-m",
        "mcp_client",
        "record",
        "--output",
        "/dev/null",
        "--",
        sys.executable,
        "-c",
        program,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"{}\n"
        process.terminate()
        assert process.wait(timeout=60) == 9
