"""The child process of the stdio transport: its life from the start to the last descriptor.

One task owns a child, from before it is started until nothing of it is left; it lives in a nursery of the caller. So
there is no moment at which a cancellation could lose a child, and any task may use or close the handle, which only
tells the owner to stop.

The owner waits for one of three things, and each leads to the same end:

    the child exits by itself    what is left of its process group is ended; stdout can be read to its end
    `aclose` is called           stop
    the nursery is cancelled     stop, shielded

Stop: close stdin, wait for the exit of the *process* (not for the end of its stdout, which a grandchild may hold),
SIGTERM to the group, SIGKILL to the group. Each step is bounded by `Grace`. Meanwhile stdout and stderr are read and
discarded, since a child that is blocked on its last words could not exit.

stderr is read all the time by a task of its own, whether anybody wants it or not.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.transports.stdio.command import describe_command, spawn
from mcp_client.transports.stdio.process_group import ProcessGroup, guard_against_our_death
from mcp_client.transports.stdio.stderr import StderrRecord
from mcp_core.errors import Circumstances, ConnectionEnded

if TYPE_CHECKING:
    from mcp_client.transports.stdio.command import StdioParameters

__all__ = ["ChildProcess"]

_log = logging.getLogger("mcp_client")

_RECEIVE_BYTES: Final = 64 * 1024
"""As much as a pipe of Linux holds."""
_LINGER: Final = 0.5
"""Seconds that we wait, once the child is gone, for what can only come later: the rest of its output, its exit code.

Everything that the child itself wrote is in the pipe when it is gone, and is read at once. Only when a process that
left the child's group holds the pipe open does this time pass.
"""


class ChildProcess:
    """A running child: bytes to its stdin, bytes from its stdout. Made by `ChildProcess.open`.

    At most one task may send and one may receive at a time; everything else can be called from any task.
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
        self._record = StderrRecord(tail_bytes=parameters.stderr_tail_bytes, on_line=parameters.on_stderr_line)
        self._exit_code: int | None = None
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
            parameters: What to run.
            nursery: Owns the child. Cancelling it stops the child; it does not end before the child is closed.

        Returns:
            The handle. The child runs, and may already have ended again.

        Raises:
            ProcessFailed: It could not be started. The message says why.
        """
        child: ChildProcess = await nursery.start(cls._own, parameters)
        return child

    @property
    def pid(self) -> int:
        """The process id, which is the id of its process group as well."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal as in `subprocess`; `None` while the child runs."""
        return self._exit_code

    @property
    def stderr_tail(self) -> str:
        """The last lines that the child has written to stderr so far, 20 at most."""
        return self._record.tail

    def describe(self) -> str:
        """The command line, clipped, and the process id."""
        return f"{describe_command(self._parameters.command)} (pid {self.pid})"

    async def receive_some(self) -> bytes:
        """The next bytes of the child's stdout, as they come.

        Returns:
            The bytes; none at the end, which is when stdout was closed, the child has exited and its output is read,
            or this handle is being closed.

        Raises:
            trio.BusyResourceError: Another task is receiving.
        """
        if self._receiving is not None:
            raise trio.BusyResourceError("another task is receiving from this child process")
        if self._stopping:
            await trio.lowlevel.checkpoint()
            return b""
        scope = trio.CancelScope(deadline=trio.current_time() + _LINGER if self._exited.is_set() else math.inf)
        self._receiving = scope
        try:
            with scope:
                return bytes(await self._stdout.receive_some(_RECEIVE_BYTES))
            return b""
        finally:
            self._receiving = None

    def write_now(self, data: bytes) -> int:
        """Write what the child takes at once to its stdin.

        Returns:
            How many bytes that was.

        Raises:
            OSError: None, or the child is gone; `send_all` says which.
        """
        if sys.platform == "win32" or self._stopping or not isinstance(self._stdin, trio.lowlevel.FdStream):
            raise BlockingIOError
        return os.write(self._stdin.fileno(), data)

    async def send_all(self, data: bytes) -> None:
        """Write all of `data` to the child's stdin, waiting while the child does not read.

        A cancellation may leave a part written.

        Raises:
            ConnectionEnded: The child has exited or closed its stdin, or this handle was closed.
            trio.BusyResourceError: Another task is sending.
        """
        try:
            await self._stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise await self.why_ended() from error

    async def why_ended(self) -> ConnectionEnded:
        """The error for all that still waited for the child, to be raised after the end of its output.

        Waits, for a moment at most, until the exit code and the end of stderr are known.
        """
        if not self._stopping:
            with self._lingering():
                await self._exited.wait()
                await self._stderr_ended.wait()
        error = ConnectionEnded(self._what_happened())
        # What a child wrote before it was stopped explains nothing.
        stderr = None if self._stopped_by_us else self.stderr_tail or None
        error.circumstances = Circumstances(peer=self.describe(), stderr_tail=stderr)
        return error

    async def aclose(self) -> None:
        """Stop the child, and return when nothing of it is left.

        *Closing*: not interrupted by a cancellation, bounded by `StdioParameters.grace`. May be called several times,
        by any tasks at once; all return when the child is closed.
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
            return "the server process closed its end of the connection, but still runs"
        if self._exit_code >= 0:
            return f"the server process exited with status {self._exit_code}"
        number = -self._exit_code
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"the server process was ended by {name}"

    @classmethod
    async def _own(
        cls, parameters: StdioParameters, *, task_status: trio.TaskStatus[ChildProcess] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The owner task."""
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
        """Wait until the child itself has exited, and note it. The group must be signalled in the same step.

        Nobody else may reap the child (not even by asking the process for its return code), since the group's id is
        ours only until then, or while members are left: see `ProcessGroup`.
        """
        self._exit_code = await self._process.wait()
        if self._exited.is_set():
            return
        self._exited.set()
        self._silence_at = trio.current_time() + _LINGER
        if self._receiving is not None:
            self._receiving.deadline = self._silence_at

    async def _end_group(self) -> None:
        """End every process of the group, politely first. Does nothing when that was done before."""
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
            _log.error("%s could not be ended: a process of its group survives SIGKILL", self.describe())
        self._group_ended = True
        self._while_group_lives.cancel()
        self._silence_at = trio.current_time() + _LINGER
        # Whoever still sends has no reader any more, even if a process that left the group holds the pipe.
        await self._stdin.aclose()

    def _lingering(self) -> trio.CancelScope:
        return trio.CancelScope(deadline=min(self._silence_at, trio.current_time() + _LINGER))

    async def _discard_stdout(self) -> None:
        """Wake the receiving task, and read on in its place."""
        while self._receiving is not None:
            self._receiving.cancel()
            await trio.lowlevel.checkpoint()
        while await self._stdout.receive_some(_RECEIVE_BYTES):
            pass
