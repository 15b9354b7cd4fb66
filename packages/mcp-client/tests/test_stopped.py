"""A client process that is stopped during its streams, and continued after the server has closed them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import pytest
import trio
from stopped_client import LAST, WATCHED

from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, HostTimeouts, Server, serve_http

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")

PROGRAM: Final = Path(__file__).with_name("stopped_client.py")
PIECE: Final = "x" * 4_000
STALL: Final = 2.0
"""Seconds after which the server drops a client that does not read: more than a loaded machine keeps a running client
from reading."""
PIECES: Final = 6_000
"""Together 24 MB: more than the kernel buffers for both ends of a connection."""


class DropCounter(logging.Handler):
    """Counts the connections that the server drops because their clients do not read."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0
        self.changed = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "HostTimeouts.stall" in record.getMessage():
            self.count += 1
            self.changed.set()
            self.changed = trio.Event()

    async def wait_for(self, count: int) -> None:
        while self.count < count:
            await self.changed.wait()


class ClientOutput:
    """The lines that the client wrote, and a way to wait for them."""

    def __init__(self, process: trio.Process, lines: list[tuple[str, str]]) -> None:
        self._lines = lines
        self._process: Final = process
        self._changed = trio.Event()

    async def read(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        async for data in self._process.stdout:
            *chunk, rest = (rest + data).split(b"\n")
            self._lines += [(event, detail) for event, detail in map(json.loads, chunk)]
            self._changed.set()
            self._changed = trio.Event()

    async def wait_for(self, event: str, times: int = 1) -> None:
        while Counter(name for name, _ in self._lines)[event] < times:
            await self._changed.wait()


class FloodingServer:
    """A server whose tools send more than a stopped client can buffer, and whose calls wait for `release`."""

    def __init__(self) -> None:
        self.held = 0
        self.holding = trio.Event()
        self.stopped = trio.Event()
        self.flooded = trio.Event()
        self.release = trio.Event()
        # With one less, the last change would be reported as a change of the resource above, if all others are pending.
        limits = Limits(log_messages_per_second=1_000_000, watched_resources=PIECES + 1)
        self.server = server = Server("test", version="1", limits=limits)

        @server.resource(WATCHED)
        async def watched() -> str:
            return "?"

        @server.tool
        async def flood(*, context: Context) -> str:
            await context.info("begin")
            await self.stopped.wait()
            try:
                for _ in range(PIECES):
                    await context.info(PIECE)
            finally:
                self.flooded.set()
            return "done"

        @server.tool
        async def hold() -> str:
            self.held += 1
            if self.held == 2:
                self.holding.set()
            await self.release.wait()
            return "held"

    def change_much(self) -> None:
        for number in range(PIECES):
            self.server.resource_updated(f"{WATCHED}/{number}{PIECE}")


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_stopped_client_recovers_after_server_drops_streams(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    flooding_server = FloodingServer()
    lines: list[tuple[str, str]] = []
    drops = DropCounter()
    log = logging.getLogger("mcp_server")
    caplog.set_level(logging.DEBUG, "mcp_server")
    log.addHandler(drops)
    try:
        with trio.fail_after(150):
            async with trio.open_nursery() as nursery:
                serve = partial(
                    serve_http, flooding_server.server, "127.0.0.1:0", timeouts=HostTimeouts(stall=STALL), grace=0.1
                )
                (url,) = await nursery.start(serve)
                command = [sys.executable, str(PROGRAM), url, str(revision)]
                process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
                output = ClientOutput(process, lines)
                nursery.start_soon(output.read)
                try:
                    await stop_and_continue(flooding_server, drops, output, process)
                    assert await process.wait() == 0
                finally:
                    process.kill()
                    with trio.CancelScope(shield=True):
                        await process.wait()
                nursery.cancel_scope.cancel()
    except trio.TooSlowError:
        pytest.fail(f"the client did not end; it wrote {lines}, after {drops.count} drops")
    finally:
        log.removeHandler(drops)
    outcomes = {event: detail for event, detail in lines if event.startswith("outcome of")}
    assert Counter(event for event, _ in lines if event.startswith("outcome of")) == dict.fromkeys(outcomes, 1)
    assert outcomes == {
        "outcome of hold 0": "result",
        "outcome of hold 1": "result",
        # A session is resumed. With 2026-07-28, the loss of the stream cancels the call.
        "outcome of flood": "result" if revision is R2025_11_25 else "ConnectionEnded",
    }


async def stop_and_continue(
    flooding_server: FloodingServer, drops: DropCounter, output: ClientOutput, process: trio.Process
) -> None:
    await output.wait_for("listening")
    await output.wait_for("flooding")
    await flooding_server.holding.wait()
    process.send_signal(signal.SIGSTOP)
    # The process is not reaped; only its state is read.
    await trio.to_thread.run_sync(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    flooding_server.stopped.set()
    flooding_server.change_much()
    await drops.wait_for(2)
    # Later messages of the flood could replace the last change in the log of the session, which is bounded.
    await flooding_server.flooded.wait()
    # Data in the buffers of the kernel waits there.
    flooding_server.release.set()
    process.send_signal(signal.SIGCONT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(change_last, flooding_server, output)
        await output.wait_for("closed")
        nursery.cancel_scope.cancel()


async def change_last(flooding_server: FloodingServer, output: ClientOutput) -> None:
    """Publish the last change, and again after each gap in the changes that the client received."""
    for times in count(2):
        flooding_server.server.resource_updated(LAST)
        await output.wait_for("listening", times)
