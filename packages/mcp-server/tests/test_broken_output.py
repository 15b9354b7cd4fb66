"""A client that reads no more: the server stops at the first write that fails, over every pipe-like transport."""

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
from mcp_server import Context, OutputBroken, Server, serve_stream
from mcp_server.connection.stream_channel import Link
from mcp_server.transports.stream import ByteStream
from mcp_server.transports.stream import serve_stream as serve_link

PATIENCE: Final = 60
"""Seconds after which a process that does not end fails the test."""

SOURCE: Final = """
import atexit, json
from pathlib import Path

import trio
from mcp_server import Server, serve_stdio
from mcp_server.connection.writer import JoiningWriter

report = Path(__file__).with_name("seen.json")
begun, failures, ended = [], [], []
break_writer = JoiningWriter._break

def noted(self, failure):
    break_writer(self, failure)
    failures.append(len(begun))

JoiningWriter._break = noted
server = Server("child", version="1")

@server.tool
async def echo(text: str) -> str:
    begun.append(text)
    return text

@server.tool
def plain(text: str) -> str:
    begun.append(text)
    return text

@server.tool
async def hang() -> str:
    begun.append("hang")
    try:
        await trio.sleep_forever()
    finally:
        ended.append("hang")

@atexit.register
def tell():
    seen = {"begun": len(begun), "failures": failures, "ended": ended}
    report.write_text(json.dumps(seen))

if __name__ == "__main__":
    trio.run(serve_stdio, server)
"""

INITIALIZE: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


def call(id: int, tool: str, **arguments: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def lines(*messages: JsonValue) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.fixture
def child(tmp_path: Path) -> Path:
    path = tmp_path / "child.py"
    path.write_text(SOURCE)
    return path


def break_output(command: list[str], tool: str) -> tuple[int, str]:
    """Closes the reading end while requests stream in; stdin stays open. Returns the status and stderr."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(lines(INITIALIZE, call(1, "hang"), call(2, tool, text="first")))
        process.stdin.flush()
        while json.loads(process.stdout.readline())["id"] != 2:
            pass
        process.stdout.close()
        try:
            # More than the pipe holds, so that they come while it answers.
            for number in range(3, 3_000):
                process.stdin.write(lines(call(number, tool, text="x" * 100)))
            process.stdin.flush()
        except BrokenPipeError:
            pass
        # It ends without the end of input.
        status = process.wait(PATIENCE)
        stderr = process.stderr.read().decode()
        with suppress(BrokenPipeError):
            process.stdin.close()
    return status, stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe there is not noticed to be closed in the same way")
@pytest.mark.parametrize("tool", ["echo", "plain"])
def test_command_whose_output_breaks_while_requests_come_ends_and_begins_no_handler(child: Path, tool: str) -> None:
    status, stderr = break_output([sys.executable, "-m", "mcp_server", "run", str(child)], tool)
    seen = json.loads(child.with_name("seen.json").read_text())
    assert 2 <= seen["begun"] < 2_000
    assert seen["failures"] == [seen["begun"]], "a handler began after the write that failed"
    assert seen["ended"] == ["hang"]
    assert status == 74
    (line,) = stderr.splitlines()
    assert line.startswith("mcp-server: ")
    assert "stdout" in line


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe there is not noticed to be closed in the same way")
def test_program_whose_output_breaks_fails_with_a_typed_error(child: Path) -> None:
    status, stderr = break_output([sys.executable, str(child)], "echo")
    assert status == 1
    assert stderr.splitlines()[-1].startswith("mcp_server.errors.OutputBroken: stdout was closed")
    assert issubclass(OutputBroken, ConnectionEnded)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that cannot be written")
def test_command_whose_output_is_full_names_the_reason(child: Path) -> None:
    command = [sys.executable, "-m", "mcp_server", "run", str(child)]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            command, input=lines(INITIALIZE), stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert ended.returncode == 74
    assert os.strerror(28) in ended.stderr.decode()


class Counting:
    """A server whose handlers are counted, and a stream that breaks on command."""

    def __init__(self) -> None:
        self.server = Server("counting", version="0")
        self.begun: list[str] = []
        self.outcomes: list[str] = []

        @self.server.tool
        async def echo(text: str) -> str:
            self.begun.append(text)
            return text

        @self.server.tool
        async def ask(context: Context) -> str:
            self.begun.append("ask")
            try:
                with trio.CancelScope(shield=True):
                    await context.list_roots()
            except ConnectionEnded as error:
                self.outcomes.append(error.message)
                raise
            self.outcomes.append("answered")
            return "answered"


class Breaking:
    """The server's end of a pair in memory: it can be read on when writing fails."""

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
async def test_stream_that_breaks_ends_the_serving_and_the_next_request_is_not_begun(revision: Revision) -> None:
    counting = Counting()
    ours, theirs = trio.testing.memory_stream_pair()
    stream = Breaking(theirs)
    client = RawClient(ours, revision)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_stream(counting.server, stream)
                await theirs.aclose()

            nursery.start_soon(serve)
            nursery.start_soon(client.read)
            await client.open()
            assert await client.text("echo", text="a") == "a"
            stream.broken = True
            await client.start("tools/call", {"name": "echo", "arguments": {"text": "b"}})
            # It has ended, although its input has not.
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await client.start("tools/call", {"name": "echo", "arguments": {"text": "c"}})
    assert counting.begun == ["a", "b"]


async def test_pending_client_requests_when_output_breaks_fail_once() -> None:
    counting = Counting()
    ours, theirs = trio.testing.memory_stream_pair()
    stream = Breaking(theirs)
    client = RawClient(ours, R2025_06_18)
    connection = counting.server.connection()
    links: list[Link] = []
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_link(counting.server._service, connection, stream, on_link=links.append)
                await theirs.aclose()

            nursery.start_soon(serve)
            nursery.start_soon(client.read)
            await client.open()
            for _ in range(3):
                await client.start("tools/call", {"name": "ask", "arguments": {}})
            await client.wait_for(lambda: len(client.asked) == 3)
            stream.broken = True
            await client.start("ping")
    assert len(counting.outcomes) == 3
    assert all("disconnected" in outcome for outcome in counting.outcomes)
    assert connection.asked == {}
    assert len(links[0]._questions) == 0


def refuse(data: bytes) -> int:
    raise BrokenPipeError


@pytest.mark.parametrize("write_now", [None, refuse], ids=["by a task", "at once"])
async def test_requests_read_together_with_the_one_whose_answer_fails_are_not_begun(
    write_now: Callable[[bytes], int] | None,
) -> None:
    server = Server("counting", version="0")
    begun: list[str] = []
    at_failure: list[int] = []

    @server.tool
    async def echo(text: str) -> str:
        begun.append(text)
        await trio.lowlevel.checkpoint()
        return text

    class Failing(Breaking):
        async def send_all(self, data: bytes | memoryview) -> None:
            at_failure.append(len(begun))
            raise trio.BrokenResourceError

    def fail_now(data: bytes) -> int:
        at_failure.append(len(begun))
        return refuse(data)

    ours, theirs = trio.testing.memory_stream_pair()
    client = RawClient(ours, R2026_07_28)
    with trio.fail_after(PATIENCE):
        calls = [client.request("tools/call", {"name": "echo", "arguments": {"text": str(n)}}) for n in range(500)]
        await ours.send_all(lines(*calls))
        failure = await serve_link(
            server._service,
            server.connection(),
            Failing(theirs),
            write_now=None if write_now is None else fail_now,
        )
    assert failure is not None
    assert at_failure == [len(begun)]
    assert len(begun) < 500
