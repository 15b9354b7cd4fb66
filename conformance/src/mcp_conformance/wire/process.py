"""A process under test: its standard input, output and error, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.wire.excerpt import last_lines
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.timeouts import AdaptiveTimeouts, WaitKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

__all__ = ["HANGING_GRACE", "LineProcess", "run_process"]

_KEPT: Final = 64 * 1024
"""Bytes of standard error that are kept."""
_PORTION: Final = 64 * 1024
_MOST: Final = 64 * 1024 * 1024
"""The limit of a line, in bytes. No valid message is that long."""
_GRACE: Final = 5.0
"""The grace of a process in seconds."""
HANGING_GRACE: Final = 0.2
"""The grace of a process that hangs, in seconds: it would only delay what follows."""
_LINGER: Final = 1.0
"""Seconds to read the rest of the output after the end of a process. A program that left its group may hold a pipe open."""


class LineProcess:
    """A process that reads and writes lines. Created by `run_process`."""

    def __init__(self, process: trio.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("the process was not started with pipes")
        self._process: Final = process
        self._stdin: Final = process.stdin
        self._stdout: Final = process.stdout
        self._stderr: Final = process.stderr
        self._lines: Final[deque[bytes]] = deque()
        self._partial = bytearray()
        self._output_arrived = trio.Event()
        self._errors = bytearray()
        self._sending: Final = trio.Lock()
        self.stderr_bytes: int = 0
        """The number of bytes written to standard error."""
        self.grace: float = _GRACE
        """Seconds that the process has to exit after the end of its input, before it is killed."""
        self._errors_ended: Final = trio.Event()
        self.output_ended: bool = False
        """Whether standard output is closed."""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; `None` while the process runs."""
        return self._process.poll()

    @property
    def log(self) -> str:
        """The last part of standard error."""
        return bytes(self._errors).decode("utf-8", "backslashreplace")

    def last_lines(self) -> str:
        """Return the last 20 lines of standard error, with control characters made visible."""
        return last_lines(self.log)

    @property
    def unfinished(self) -> bytes:
        """The output after the last line feed."""
        return bytes(self._partial)

    async def send(self, data: bytes) -> bool:
        """Write to standard input, unchanged. Return whether it was written; it is not if the process has exited."""
        try:
            async with self._sending:
                await self._stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def receive(self) -> bytes | None:
        """Return the next line of output without its line feed; `None` at the end."""
        while not self._lines:
            if self.output_ended:
                await trio.lowlevel.checkpoint()
                return None
            self._output_arrived = trio.Event()
            await self._output_arrived.wait()
        return self._lines.popleft()

    async def close_input(self) -> None:
        """Close standard input, which asks the process to stop."""
        await self._stdin.aclose()

    async def wait(self) -> int:
        """Wait until the process has exited, and return its exit status."""
        return await self._process.wait()

    async def wait_for_log(self) -> None:
        """Wait until standard error is read to its end. It may last longer than the process: wait with a timeout."""
        await self._errors_ended.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and all that it started."""
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
                self._output_arrived.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.output_ended = True
        self._output_arrived.set()

    async def _read_errors(self) -> None:
        # Standard error must always be read: a process blocks when the pipe is full.
        try:
            while data := await self._stderr.receive_some(_PORTION):
                self.stderr_bytes += len(data)
                self._errors += data
                del self._errors[:-_KEPT]
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._errors_ended.set()

    async def _ended(self) -> None:
        """Wait until all output is read."""
        await self._errors_ended.wait()
        while not self.output_ended:
            self._output_arrived = trio.Event()
            await self._output_arrived.wait()


@asynccontextmanager
async def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    by_input: bool = True,
    timeouts: AdaptiveTimeouts | None = None,
) -> AsyncIterator[LineProcess]:
    """Run a command while the block runs. Then the process is asked to stop, and killed if it does not.

    Args:
        command: The program and its arguments. No shell is used.
        environment: Variables to add to the environment of the suite.
        folder: The working directory; `None`: that of the suite.
        by_input: Whether the end of input asks the process to stop. Otherwise SIGTERM does.
        timeouts: The time limits of the waits for the same implementation; `None`: this wait is the only one.

    Raises:
        OSError: The process cannot be started.
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
        nursery.start_soon(lines._read_output)  # noqa: SLF001  the process is not usable without these private methods
        nursery.start_soon(lines._read_errors)  # noqa: SLF001  likewise
        try:
            yield lines
        finally:
            with trio.CancelScope(shield=True):
                await lines.close_input()
                if not by_input:
                    lines.signal(signal.SIGTERM)
                if process.poll() is None:
                    with (timeouts or AdaptiveTimeouts()).wait(lines.grace, ("exit",), WaitKind.EXIT):
                        await process.wait()
                lines.kill()
                await process.wait()
                with trio.move_on_after(_LINGER):
                    await lines._ended()  # noqa: SLF001  likewise
            nursery.cancel_scope.cancel()
