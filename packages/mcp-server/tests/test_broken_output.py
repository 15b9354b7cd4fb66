"""A client that closes its reading end: the server stops at the first failed write, over each stream transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing
from raw_client import RawClient

from mcp_core.errors import ConnectionEnded
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_06_18, R2026_07_28, Revision
from mcp_server import Context, Server, serve_stream
from mcp_server.connection.stream_channel import StreamChannel
from mcp_server.errors import OutputBroken
from mcp_server.runners.stdio import ByteStream, serve_connection

TIMEOUT_SECONDS: Final = 60
"""The time in seconds after which a process that does not end fails the test."""

WORKER_THREADS: Final = 40
"""The most plain functions of a server that run at the same time."""

SOURCE: Final = """
import atexit, json
from pathlib import Path

import trio
from mcp_server import Server, serve_stdio
from mcp_core.trio.writer import CoalescingWriter

file = Path(__file__).with_name("report.json")
started, failures, ended = [], [], []
break_writer = CoalescingWriter._break

def record_failure(self, failure):
    break_writer(self, failure)
    failures.append(len(started))

CoalescingWriter._break = record_failure
server = Server("child", version="1")

@server.tool
async def echo(text: str) -> str:
    started.append(text)
    return text

@server.tool
def plain(text: str) -> str:
    started.append(text)
    return text

@server.tool
async def hang() -> str:
    started.append("hang")
    try:
        await trio.sleep_forever()
    finally:
        ended.append("hang")

@atexit.register
def write_report():
    report = {"started": len(started), "failures": failures, "ended": ended}
    file.write_text(json.dumps(report))

if __name__ == "__main__":
    trio.run(serve_stdio, server)
"""

INITIALIZE: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


def make_call(id: int, tool: str, **arguments: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def encode_lines(*messages: JsonValue) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.fixture
def child(tmp_path: Path) -> Path:
    path = tmp_path / "child.py"
    path.write_text(SOURCE)
    return path


def break_output(command: list[str], tool: str) -> tuple[int, str]:
    """Close the reading end while requests are sent; stdin stays open. Return the exit status and stderr."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(encode_lines(INITIALIZE, make_call(1, "hang"), make_call(2, tool, text="first")))
        process.stdin.flush()
        while json.loads(process.stdout.readline())["id"] != 2:
            pass
        process.stdout.close()
        try:
            # More than the pipe holds, so that requests arrive while the server responds.
            for number in range(3, 3_000):
                process.stdin.write(encode_lines(make_call(number, tool, text="x" * 100)))
            process.stdin.flush()
        except BrokenPipeError:
            pass
        # The process ends before the end of its input.
        status = process.wait(TIMEOUT_SECONDS)
        stderr = process.stderr.read().decode()
        with suppress(BrokenPipeError):
            process.stdin.close()
    return status, stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows detects a closed pipe in another way")
@pytest.mark.parametrize("tool", ["echo", "plain"])
def test_command_with_broken_output_ends_and_starts_no_handler(child: Path, tool: str) -> None:
    status, stderr = break_output([sys.executable, "-m", "mcp_server", "run", str(child)], tool)
    report = json.loads(child.with_name("report.json").read_text())
    assert 2 <= report["started"] < 2_000
    (before,) = report["failures"]
    # A plain function whose thread is already starting at the failed write cannot be stopped.
    most = before + (WORKER_THREADS if tool == "plain" else 0)
    assert before <= report["started"] <= most, "a handler started after the failed write"
    assert report["ended"] == ["hang"]
    assert status == 74
    (line,) = stderr.splitlines()
    assert line.startswith("mcp-server: ")
    assert "stdout" in line


@pytest.mark.skipif(sys.platform == "win32", reason="Windows detects a closed pipe in another way")
def test_serve_stdio_with_broken_output_raises_output_broken(child: Path) -> None:
    status, stderr = break_output([sys.executable, str(child)], "echo")
    assert status == 1
    assert stderr.splitlines()[-1].startswith("mcp_server.errors.OutputBroken: stdout was closed")
    assert issubclass(OutputBroken, ConnectionEnded)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that cannot be written")
def test_command_with_full_output_reports_reason(child: Path) -> None:
    command = [sys.executable, "-m", "mcp_server", "run", str(child)]
    with open("/dev/full", "wb") as full:
        completed = subprocess.run(
            command,
            input=encode_lines(INITIALIZE),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    assert completed.returncode == 74
    assert os.strerror(28) in completed.stderr.decode()


class CountingServer:
    """A server that counts its handlers."""

    def __init__(self) -> None:
        self.server = Server("counting", version="0")
        self.started: list[str] = []
        self.outcomes: list[str] = []

        @self.server.tool
        async def echo(text: str) -> str:
            self.started.append(text)
            return text

        @self.server.tool
        async def ask(context: Context) -> str:
            self.started.append("ask")
            try:
                with trio.CancelScope(shield=True):
                    await context.list_roots()
            except ConnectionEnded as error:
                self.outcomes.append(error.message)
                raise
            self.outcomes.append("answered")
            return "answered"


class BreakableStream:
    """A server's end of a memory stream whose writes can be made to fail, and whose reads continue."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.broken = False

    async def receive_some(self) -> bytes | bytearray:
        return await self._stream.receive_some()

    async def send_all(self, data: bytes | memoryview) -> None:
        if self.broken:
            raise trio.BrokenResourceError
        await self._stream.send_all(data)


@pytest.mark.parametrize("revision", [R2025_06_18, R2026_07_28], ids=str)
async def test_broken_stream_ends_serving_and_starts_no_handler(revision: Revision) -> None:
    counter = CountingServer()
    client_end, server_end = trio.testing.memory_stream_pair()
    stream = BreakableStream(server_end)
    client = RawClient(client_end, revision)
    with trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_stream(counter.server, stream)
                await server_end.aclose()

            nursery.start_soon(serve)
            nursery.start_soon(client.read)
            await client.open()
            assert await client.text("echo", text="a") == "a"
            stream.broken = True
            await client.start("tools/call", {"name": "echo", "arguments": {"text": "b"}})
            # The server has ended, although its input has not.
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await client.start("tools/call", {"name": "echo", "arguments": {"text": "c"}})
    assert counter.started == ["a", "b"]


async def test_broken_output_fails_pending_client_requests_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = CountingServer()
    client_end, server_end = trio.testing.memory_stream_pair()
    stream = BreakableStream(server_end)
    client = RawClient(client_end, R2025_06_18)
    connection = counter.server.connection()
    channels: list[StreamChannel] = []
    monkeypatch.setattr(counter.server._service, "connected", channels.append)
    with trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_connection(counter.server._service, connection, stream)
                await server_end.aclose()

            nursery.start_soon(serve)
            nursery.start_soon(client.read)
            await client.open()
            for _ in range(3):
                await client.start("tools/call", {"name": "ask", "arguments": {}})
            await client.wait_for(lambda: len(client.client_requests) == 3)
            stream.broken = True
            await client.start("ping")
    assert len(counter.outcomes) == 3
    assert all("disconnected" in outcome for outcome in counter.outcomes)
    assert connection.outbound_requests == {}
    assert len(channels[0]._client_requests) == 0


def fail_to_write(data: bytes) -> int:
    raise BrokenPipeError


@pytest.mark.parametrize("write_now", [None, fail_to_write], ids=["by a task", "immediately"])
async def test_requests_of_same_read_not_started_after_failed_write(
    write_now: Callable[[bytes], int] | None,
) -> None:
    server = Server("counting", version="0")
    started: list[str] = []
    started_at_failure: list[int] = []

    @server.tool
    async def echo(text: str) -> str:
        started.append(text)
        await trio.lowlevel.checkpoint()
        return text

    class FailingStream(BreakableStream):
        async def send_all(self, data: bytes | memoryview) -> None:
            started_at_failure.append(len(started))
            raise trio.BrokenResourceError

    def fail_now(data: bytes) -> int:
        started_at_failure.append(len(started))
        return fail_to_write(data)

    client_end, server_end = trio.testing.memory_stream_pair()
    client = RawClient(client_end, R2026_07_28)
    with trio.fail_after(TIMEOUT_SECONDS):
        calls = [client.request("tools/call", {"name": "echo", "arguments": {"text": str(n)}}) for n in range(500)]
        await client_end.send_all(encode_lines(*calls))
        failure = await serve_connection(
            server._service,
            server.connection(),
            FailingStream(server_end),
            write_now=None if write_now is None else fail_now,
        )
    assert failure is not None
    assert started_at_failure == [len(started)]
    assert len(started) < 500
