"""Output of servers that is no message: failure messages and transcripts show it."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
import trio

from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.drivers.server.targets import CommandTarget, UrlTarget
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.wire.transcript import Kind, Transcript
from mcp_conformance.wire.unframed import unframed
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_LEGACY: Final = REVISIONS["2025-11-25"]
_SETTINGS: Final = Settings(timeout=5.0)
_MESSAGE: Final = b'{"jsonrpc":"2.0","id":1,"result":{}}'

_WRITES: Final = """
import os, sys
sys.stdin.buffer.readline()
os.write(1, {output!r})
os.close(2)
{then}
"""
_EVENTS: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _target(output: bytes, *, exits: bool = True) -> CommandTarget:
    """Return a server that writes this after the first line."""
    then = "os._exit(0)" if exits else "sys.stdin.buffer.read()"
    return CommandTarget([sys.executable, "-c", _WRITES.format(output=output, then=then)], _SETTINGS)


@pytest.mark.parametrize(
    ("output", "seen", "looks"),
    [
        (_MESSAGE, r'"{\"jsonrpc\":\"2.0\"', "JSON without the line feed that ends a message"),
        (b"Server ready\n", '"Server ready"', ""),
        (
            b"Content-Length: %d\r\n\r\n%b" % (len(_MESSAGE), _MESSAGE),
            r'"Content-Length: 36\r\n\r\n{',
            "headers as in the Language Server Protocol",
        ),
        (f"{_MESSAGE.decode()}\n".encode("utf-16-le"), r'"{\x00"\x00j', "UTF-16"),
        (b"\x1b[32mINFO\x1b[0m listening\n", r'"\x1b[32mINFO\x1b[0m listening"', ""),
        (b"\xef\xbb\xbfServer ready\n", "Server ready", "a byte order mark"),
        (b"x" * 100_000 + b"\n", f'"{"x" * 200}"... (', ""),
    ],
    ids=["no-line-feed", "log", "content-length", "utf-16", "color", "byte-order-mark", "long"],
)
async def test_stdio_output_without_message_is_shown(output: bytes, seen: str, looks: str) -> None:
    transcript = Transcript()
    with pytest.raises(Deviation) as raised:
        async with _target(output).open(_LEGACY, Transport.STDIO, transcript=transcript):
            raise AssertionError
    observed = raised.value.observed
    assert observed.startswith("the end of the process, with status 0, after bytes that form no message: ")
    assert seen.replace('\\"', '"') in observed
    assert looks in observed
    assert len(observed) < 600
    assert any(seen.replace('\\"', '"')[1:9] in line for line in transcript.lines())


async def test_message_after_byte_order_mark_is_read() -> None:
    transcript = Transcript()
    output = b"\xef\xbb\xbf" + _MESSAGE + b"\n"
    async with _target(output, exits=False).open(
        _LEGACY, Transport.STDIO, handshake=False, transcript=transcript
    ) as peer:
        assert (await peer.request("ping", id=1)).result() == {}
    # A check reports the bytes.
    assert [entry.kind for entry in transcript if not entry.sent and entry.raw] == [Kind.BYTES]


async def test_stdio_output_without_line_feed_is_shown_after_timeout(mock_clock: trio.testing.MockClock) -> None:
    async with _target(b'{"jsonrpc":', exits=False).open(_LEGACY, Transport.STDIO, handshake=False) as peer:
        assert isinstance(peer, StdioConnection)

        async def jump() -> None:
            # The process closes standard error after it has written to standard output.
            await peer.process.wait_for_log()
            while not peer.unread:
                await trio.lowlevel.checkpoint()
            mock_clock.jump(_SETTINGS.starting)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(jump)
            with pytest.raises(Deviation) as raised:
                await peer.request("ping")
        assert raised.value.observed == (
            'only bytes that form no message within 30 seconds: "{"jsonrpc":" '
            "(it looks like JSON without the line feed that ends a message)"
        )
        assert any(line.startswith('  -- no message: "{"jsonrpc":"') for line in peer.transcript.lines())


@asynccontextmanager
async def _serving(output: bytes, *, ends: bool = True) -> AsyncIterator[str]:
    """Serve these bytes to each connection. Yields the URL."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(64 * 1024)
        await stream.send_all(output)
        if not ends:
            await trio.sleep_forever()
        await stream.send_eof()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
        nursery.cancel_scope.cancel()


def _response(media_type: str, body: bytes, *, missing: int = 0) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {len(body) + missing}\r\n\r\n"
    return head.encode() + body


def _stream(body: bytes, *, ends: bool = True) -> bytes:
    return _EVENTS + b"%x\r\n%b\r\n" % (len(body), body) + (b"0\r\n\r\n" if ends else b"")


@pytest.mark.parametrize(
    ("output", "ends", "seen"),
    [
        (b"220 mail.example ESMTP\r\n", True, ("not valid HTTP", '"220 mail.example ESMTP\\r\\n"')),
        (
            _response("text/html", b"<!DOCTYPE html><p>Sign in"),
            True,
            ("HTTP 200, text/html", "<!DOCTYPE html>", "an HTML page"),
        ),
        (_response("text/plain", b"ok"), True, ("HTTP 200, text/plain", '"ok"')),
        (
            _response("application/json", b"data: " + _MESSAGE + b"\n\n"),
            True,
            ("application/json", '"data: {"jsonrpc"'),
        ),
        (_response("text/event-stream", b"data: " + _MESSAGE + b"\n"), True, ("blank line", '"data: {"jsonrpc"')),
        (_stream(b"id: 1\n\n: hi\n\ndata: " + _MESSAGE), True, ("blank line", '"data: {"jsonrpc"')),
        (b"HTTP/1.1 200 OK\r\nContent-", False, ("within 5 seconds", '"HTTP/1.1 200 OK\\r\\nContent-"')),
        (_response("application/json", b'{"jsonrpc"', missing=9), False, ("within 5 seconds", '"{"jsonrpc""')),
        (_stream(b": hi\n\ndata: {", ends=False), False, ("within 5 seconds", '"data: {"', "blank line")),
    ],
    ids=["mail", "html", "plain", "json", "event", "chunked-event", "stalled-head", "stalled-body", "stalled-event"],
)
async def test_http_output_without_message_is_shown(
    autojump_clock: trio.testing.MockClock,
    output: bytes,
    seen: tuple[str, ...],
    *,
    ends: bool,
) -> None:
    transcript = Transcript()
    async with _serving(output, ends=ends) as url:
        with pytest.raises(Deviation) as raised:
            async with UrlTarget(url, _SETTINGS).open(_LEGACY, Transport.HTTP, transcript=transcript):
                raise AssertionError
    for each in seen:
        assert each in raised.value.observed
    assert len(raised.value.observed) < 600
    assert any(seen[1].strip('"') in line for line in transcript.lines() if not line.startswith("-->"))


async def test_output_of_any_size_is_kept_in_part(autojump_clock: trio.testing.MockClock) -> None:
    transcript = Transcript()
    body = b"y" * 1_000_000
    async with _serving(_response("application/json", body, missing=1), ends=False) as url:
        with pytest.raises(Deviation, match="only bytes that form no message"):
            async with UrlTarget(url, _SETTINGS).open(_LEGACY, Transport.HTTP, transcript=transcript):
                raise AssertionError
    assert sum(len(entry.raw) for entry in transcript if not entry.sent) == 1024


@pytest.mark.parametrize(
    ("data", "looks"),
    [(b"\x16\x03\x01", "https"), (b"HTTP/1.1 400", "an HTTP response"), (b"\0{\0}", "UTF-16"), (b"", '""')],
)
def test_unframed_bytes_are_recognized(data: bytes, looks: str) -> None:
    assert looks in unframed(data)


# --- clients ---------------------------------------------------------------------------------------------------------

_CLIENT: Final = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write({output!r})
server.stdin.flush()
server.stdin.close()
server.wait()
sys.exit("no answer")
"""


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        (
            b"Content-Length: 2\r\n\r\n{",
            "headers as in the Language Server Protocol",
        ),
        (b'{"jsonrpc":', '"{"jsonrpc":"'),
    ],
    ids=["content-length", "no-line-feed"],
)
async def test_client_output_without_message_is_shown_in_refusal(tmp_path: Path, output: bytes, seen: str) -> None:
    program = tmp_path / "client.py"
    program.write_text(_CLIENT.format(output=output))
    command = ClientCommand(stdio=f"{sys.executable} {program}")

    run = await run_client(command, _SETTINGS, revisions=[_LEGACY], chosen=["lifecycle.client-initialize-first"])

    (leg,) = run.legs
    assert leg.refusal is not None
    assert leg.refusal.startswith("the client sent no message, but ")
    assert seen in leg.refusal
    assert leg.refusal.endswith(": it ended with status 1: no answer")
