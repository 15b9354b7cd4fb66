"""The child process of the stdio transport, from its start to its last file descriptor.

One task owns a child, from before the start until all of the child's processes and descriptors are released. The task
runs in a nursery of the caller. Therefore a cancellation cannot lose a child at any moment. Any task may use or close
the handle; closing only notifies the owner.

The owner waits for one of three events:

    the child exits                terminate the rest of its process group; stdout can be read to its end
    `aclose` is called             stop
    the nursery is cancelled       stop, shielded

Stop: close stdin, wait for the exit of the *process* (not for the end of its stdout, which a grandchild may hold open),
send SIGTERM to the group, then SIGKILL to the group. `Grace` bounds each step. Meanwhile stdout and stderr are read and
discarded, because a child that is blocked on a write could not exit.

A separate task reads stderr all the time, even if the application does not use it.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.transports.stdio.command import child_environment, describe_command, spawn
from mcp_client.transports.stdio.missing_variables import missing_variables
from mcp_client.transports.stdio.process_group import ProcessGroup, guard_against_our_death
from mcp_client.transports.stdio.stderr import StderrRecord
from mcp_core.errors import ConnectionEnded, ErrorContext

if TYPE_CHECKING:
    from mcp_client.transports.stdio.command import StdioParameters

__all__ = ["ChildProcess"]

_log = logging.getLogger("mcp_client")

_RECEIVE_BYTES: Final = 64 * 1024
"""The capacity of a pipe on Linux, in bytes."""
_LINGER: Final = 0.5
"""Time to wait after the child's exit for its remaining output and its exit code, in seconds.

All output of the child is in the pipe when the child exits, and is read at once. The whole time passes only if a
process that left the child's group holds the pipe open.
"""


class ChildProcess:
    """A running child process: bytes to its stdin, bytes from its stdout. Created by `ChildProcess.open`.

    Only one task may send and only one may receive at a time. Any task may call the other members.
    """

    def __init__(self, parameters: StdioParameters, process: trio.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise TypeError("a ChildProcess needs a process with three pipes; use ChildProcess.open")
        self._parameters = parameters
        self._process = process
        self._group = ProcessGroup(process.pid)
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr = process.stderr
        # On Windows, the stream waits in its own way.
        self._pipe = (
            None if sys.platform == "win32" or not isinstance(self._stdout, trio.lowlevel.FdStream) else self._stdout
        )
        self._record = StderrRecord(tail_bytes=parameters.stderr_tail_bytes, on_line=parameters.on_stderr_line)
        self._exit_code: int | None = None
        self._is_receiving = False
        self._receiving: trio.CancelScope | None = None
        self._silence_at = math.inf
        self._stopping = False
        self._ended_by_itself = False
        self._group_ended = False
        self._until_stop = trio.CancelScope()
        self._while_stderr_matters = trio.CancelScope(shield=True)
        self._while_group_lives = trio.CancelScope(shield=True)
        self._exited = trio.Event()
        self._stderr_ended = trio.Event()
        self._closed = trio.Event()

    @classmethod
    async def open(cls, parameters: StdioParameters, nursery: trio.Nursery) -> ChildProcess:
        """Start a child.

        Args:
            parameters: The command and its settings.
            nursery: The owner of the child. Cancelling the nursery stops the child. The nursery does not end before the
                child is closed.

        Returns:
            The handle. The child has started, and may have ended already.

        Raises:
            ProcessFailed: The child could not be started. The message states the reason.
        """
        child: ChildProcess = await nursery.start(cls._own, parameters)
        return child

    @property
    def pid(self) -> int:
        """The process id, which is also the id of the child's process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal as in `subprocess`; `None` while the child runs."""
        return self._exit_code

    @property
    def stderr_tail(self) -> str:
        """The last lines that the child has written to stderr so far, at most 20."""
        return self._record.tail

    def describe(self) -> str:
        """Return the shortened command line and the process id."""
        return f"{describe_command(self._parameters.command)} (pid {self.pid})"

    async def receive_some(self) -> bytes:
        """Return the next bytes of the child's stdout as soon as they arrive.

        Returns:
            The bytes; empty at the end, when stdout is closed, when the child has exited and its output is read, or
            when this handle is being closed.

        Raises:
            trio.BusyResourceError: Another task is receiving.
        """
        if self._is_receiving:
            raise trio.BusyResourceError("another task is receiving from this child process")
        self._is_receiving = True
        try:
            if self._pipe is not None and not self._exited.is_set() and not self._stopping:
                with suppress(trio.ClosedResourceError):  # interrupted: the child has exited, or is stopped
                    return await _read(self._pipe)
            if self._stopping:
                await trio.lowlevel.checkpoint()
                return b""
            # A scope for each read of a child that runs would cost a twentieth of a call.
            self._receiving = trio.CancelScope(
                deadline=trio.current_time() + _LINGER if self._exited.is_set() else math.inf
            )
            with self._receiving:
                return bytes(await self._stdout.receive_some(_RECEIVE_BYTES))
            return b""
        finally:
            self._is_receiving = False
            self._receiving = None

    def write_now(self, data: bytes) -> int:
        """Write as many bytes to the child's stdin as fit without blocking.

        Returns:
            The number of bytes written.

        Raises:
            OSError: No byte fits, or the child has ended; `send_all` determines which.
        """
        if sys.platform == "win32" or self._stopping or not isinstance(self._stdin, trio.lowlevel.FdStream):
            raise BlockingIOError
        return os.write(self._stdin.fileno(), data)

    async def send_all(self, data: bytes) -> None:
        """Write all of `data` to the child's stdin, and wait while the child does not read.

        A cancelled call may have written a part of the data.

        Raises:
            ConnectionEnded: The child has exited or closed its stdin, or this handle was closed.
            trio.BusyResourceError: Another task is sending.
        """
        try:
            await self._stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise await self.why_ended() from error

    async def why_ended(self) -> ConnectionEnded:
        """Return the error for all pending requests, to raise after the end of the child's output.

        Waits at most `_LINGER` until the exit code and the end of stderr are known.
        """
        if not self._stopping:
            with self._lingering():
                await self._exited.wait()
                await self._stderr_ended.wait()
        error = ConnectionEnded(self._what_happened())
        # Output from before a requested stop does not explain anything.
        stderr = None if self._stopped_by_us else self.stderr_tail or None
        missing = missing_variables(stderr or "", ours=os.environ, passed=child_environment(self._parameters))
        error.context = ErrorContext(peer=self.describe(), stderr_tail=stderr, missing_env=missing)
        return error

    async def aclose(self) -> None:
        """Stop the child, and return when all of its processes and descriptors are released.

        A cancellation does not interrupt this function, and `StdioParameters.grace` bounds it. Any number of tasks may
        call it, also concurrently. Each call returns when the child is closed.
        """
        self._stopping = True
        self._until_stop.cancel()
        with trio.CancelScope(shield=True):
            await self._closed.wait()

    @property
    def _stopped_by_us(self) -> bool:
        return self._stopping and not self._ended_by_itself

    def _what_happened(self) -> str:
        if self._stopped_by_us:
            return "the connection to the server process was closed by this side"
        if self._exit_code is None:
            return "the server process closed its end of the connection, but is still running"
        if self._exit_code >= 0:
            return f"the server process exited with status {self._exit_code}"
        number = -self._exit_code
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"the server process was terminated by {name}"

    @classmethod
    async def _own(
        cls, parameters: StdioParameters, *, task_status: trio.TaskStatus[ChildProcess] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the owner task: start, supervise and stop the child."""
        process = await spawn(parameters)
        # No checkpoint from here to the `finally` of `_supervise`: a child without its owner would be lost.
        child = cls(parameters, process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child._read_stderr)
                nursery.start_soon(child._guard)
                task_status.started(child)
                await child._supervise()
        finally:
            child._closed.set()

    async def _guard(self) -> None:
        with self._while_group_lives:
            await guard_against_our_death(self.pid, self._parameters.grace)

    async def _read_stderr(self) -> None:
        with self._while_stderr_matters:
            async with self._stderr:
                while data := await self._stderr.receive_some(_RECEIVE_BYTES):
                    self._record.feed(data)
        self._record.end()
        self._stderr_ended.set()

    async def _supervise(self) -> None:
        try:
            with self._until_stop:
                await self._wait_for_exit()
                self._ended_by_itself = True
                with trio.CancelScope(shield=True):
                    await self._end_group()
                await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await self._stop()

    async def _stop(self) -> None:
        self._stopping = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._discard_stdout)
            await self._stdin.aclose()
            with trio.move_on_after(self._parameters.grace.close_stdin):
                await self._wait_for_exit()
            await self._end_group()
            with self._lingering():
                await self._stderr_ended.wait()
            nursery.cancel_scope.cancel()
        self._while_stderr_matters.cancel()
        await self._stdout.aclose()
        self._group.close()

    async def _wait_for_exit(self) -> None:
        """Wait until the child itself has exited, and record it. The group must be signaled in the same step.

        No other code may reap the child (not even by reading the return code of the process). The id of the group is
        valid only until then, or while members remain: see `ProcessGroup`.
        """
        self._exit_code = await self._process.wait()
        if self._exited.is_set():
            return
        self._exited.set()
        self._silence_at = trio.current_time() + _LINGER
        if self._receiving is not None:
            self._receiving.deadline = self._silence_at
        elif self._is_receiving and self._pipe is not None:
            trio.lowlevel.notify_closing(self._pipe)

    async def _end_group(self) -> None:
        """Terminate every process of the group, first with SIGTERM. Does nothing the second time."""
        if self._group_ended:
            return
        grace = self._parameters.grace
        for send, seconds in ((self._group.terminate, grace.terminate), (self._group.kill, grace.kill)):
            if not send() and self._exited.is_set():
                break
            with trio.move_on_after(seconds):
                await self._wait_for_exit()
                await self._group.gone()
                break
        else:
            _log.error("process group survives SIGKILL: process=%s", self.describe())
        self._group_ended = True
        self._while_group_lives.cancel()
        self._silence_at = trio.current_time() + _LINGER
        # A task that still sends has no reader now, even if a process that left the group holds the pipe open.
        await self._stdin.aclose()

    def _lingering(self) -> trio.CancelScope:
        return trio.CancelScope(deadline=min(self._silence_at, trio.current_time() + _LINGER))

    async def _discard_stdout(self) -> None:
        """Wake the receiving task, and read the rest of stdout in its place."""
        while self._is_receiving:
            if self._receiving is not None:
                self._receiving.cancel()
            elif self._pipe is not None:
                trio.lowlevel.notify_closing(self._pipe)
            await trio.lowlevel.checkpoint()
        while await self._stdout.receive_some(_RECEIVE_BYTES):
            pass


async def _read(pipe: trio.lowlevel.FdStream) -> bytes:
    """Return the next bytes of a pipe; empty at its end.

    Raises:
        trio.ClosedResourceError: `notify_closing` was called with the pipe.
    """
    while True:
        # The stream itself would try to read first, and schedule other tasks before that. When a response has been
        # read, the next one has rarely arrived.
        await trio.lowlevel.wait_readable(pipe)
        try:
            return os.read(pipe.fileno(), _RECEIVE_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            raise trio.BrokenResourceError("stdout of the child cannot be read") from error
