"""A process under test: its standard input, output and error, and its end."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

__all__ = ["LineProcess", "run_process"]

_KEPT: Final = 64 * 1024
"""Bytes of standard error that are kept."""
_PORTION: Final = 64 * 1024
_MOST: Final = 64 * 1024 * 1024
"""Bytes of one line: more is no message that anybody could want."""
_GRACE: Final = 5.0
"""Seconds that a process has to end by itself when its input ends, before it is made to."""


class LineProcess:
    """A process that speaks in lines. Made by `run_process`."""

    def __init__(self, process: trio.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("it was started with pipes")
        self._process: Final = process
        self._stdin: Final = process.stdin
        self._stdout: Final = process.stdout
        self._stderr: Final = process.stderr
        self._lines: Final[deque[bytes]] = deque()
        self._partial = bytearray()
        self._came = trio.Event()
        self._errors = bytearray()
        self._sending: Final = trio.Lock()
        self.stderr_bytes = 0
        """How much it wrote to standard error in all."""
        self.output_ended = False
        """Whether its standard output is closed."""

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status; `None` while it runs."""
        return self._process.poll()

    @property
    def log(self) -> str:
        """The end of what it wrote to standard error."""
        return bytes(self._errors).decode("utf-8", "backslashreplace")

    @property
    def unfinished(self) -> bytes:
        """What stands behind the last line feed of its output."""
        return bytes(self._partial)

    async def send(self, data: bytes) -> bool:
        """Write to its standard input, as it is. Whether it could be written: not when the process has gone."""
        try:
            async with self._sending:
                await self._stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def receive(self) -> bytes | None:
        """The next line of its output without its line feed; `None` at the end."""
        while not self._lines:
            if self.output_ended:
                await trio.lowlevel.checkpoint()
                return None
            self._came = trio.Event()
            await self._came.wait()
        return self._lines.popleft()

    async def close_input(self) -> None:
        """End its standard input, which asks it to stop."""
        await self._stdin.aclose()

    async def wait(self) -> int:
        """Wait until it has ended; its exit status."""
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it and all that it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _read_output(self) -> None:
        try:
            while data := await self._stdout.receive_some(_PORTION):
                *lines, rest = (bytes(self._partial) + data).split(b"\n") if b"\n" in data else (data,)
                if not lines:
                    self._partial += rest
                    if len(self._partial) > _MOST:
                        break
                    continue
                self._lines.extend(lines)
                self._partial = bytearray(rest)
                self._came.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.output_ended = True
        self._came.set()

    async def _read_errors(self) -> None:
        # Always read: a process whose standard error is full waits for ever.
        try:
            while data := await self._stderr.receive_some(_PORTION):
                self.stderr_bytes += len(data)
                self._errors += data
                del self._errors[:-_KEPT]
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    by_input: bool = True,
) -> AsyncIterator[LineProcess]:
    """Run a command for the block. Behind it, it is asked to end, and made to if it does not.

    Args:
        command: The program and its arguments; no shell.
        environment: What is added to the environment of the suite.
        folder: Where it runs; `None`: where the suite does.
        by_input: Whether the end of its input asks it to end. Otherwise it gets SIGTERM.

    Raises:
        OSError: It cannot be started.
    """
    process = await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        cwd=folder,
        start_new_session=True,
    )
    lines = LineProcess(process)
    async with open_nursery() as nursery:
        nursery.start_soon(lines._read_output)  # noqa: SLF001  its other half
        nursery.start_soon(lines._read_errors)  # noqa: SLF001  likewise
        try:
            yield lines
        finally:
            with trio.CancelScope(shield=True):
                await lines.close_input()
                if not by_input:
                    lines.signal(signal.SIGTERM)
                with trio.move_on_after(_GRACE if process.poll() is None else math.inf):
                    await process.wait()
                lines.kill()
                await process.wait()
            nursery.cancel_scope.cancel()
