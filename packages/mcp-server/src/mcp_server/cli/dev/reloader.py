"""A server in a child process that is replaced when a file of its author changes.

Nothing of the old code survives a new process: no module, no task, no handler. The process is stopped before the next
one starts, because both use the same port, which clients keep.

A failure is a state like any other: the reloader waits for the next change, whether the server could not be loaded or
its process has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import attrs
import trio

from mcp_core.field_methods import FieldValue
from mcp_core.trio.extras import extra
from mcp_core.trio.nursery import open_private_nursery
from mcp_server.cli.dev.load_failure import LoadFailure
from mcp_server.cli.dev.reports import REPORT_BYTES, ServerReady, read_report
from mcp_server.cli.target import split

with extra("trio-mcp-server", "dev"):
    import watchfiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_server.cli.dev.reports import Report

__all__ = ["Reloader", "ServerState"]

_CHILD: Final = "mcp_server.cli.dev.child"

_STOP: Final = 4.0
"""Time for a child process to stop before it is killed, in seconds. It gives running calls one second."""

_WAKE: Final = 200
"""Time after which a wait for changes is reported as empty, in milliseconds. The first one shows that the files are watched."""

_SHOWN: Final = 3
"""Most changed files that a line names."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerState(FieldValue):
    """The state of the server."""

    status: Literal["loading", "serving", "failed"]
    """The status: the process starts, the server accepts requests, or the server has failed and waits for a change."""
    serial: int
    """The number of the state. Later states have larger numbers."""
    loads: int
    """How many times the server was loaded."""
    name: str = ""
    """The name of the server, while it is served."""
    version: str = ""
    """The version of the server, while it is served."""
    failure: LoadFailure | None = None
    """The error of a server that has failed."""


class Reloader:
    """The server of `mcp-server dev`.

    Args:
        target: The location of the server.
        bind: The address of the endpoint, as `HOST:PORT`. The port is not 0.
        origin: The origin of the page that may use the endpoint.
        log_level: The level of the log of the child process.
        announce: Receives each state.
    """

    def __init__(
        self, target: str, bind: str, *, origin: str, log_level: str, announce: Callable[[ServerState], None]
    ) -> None:
        self._watch: Final = partial(
            watchfiles.awatch,
            watch_filter=watchfiles.PythonFilter(),
            rust_timeout=_WAKE,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        place, _ = split(target)
        self.folder: Final = Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
        """The folder whose Python files are watched, with its folders."""
        self.state: ServerState = ServerState(status="loading", serial=0, loads=0)
        """The current state."""
        self._command: Final = [sys.executable, "-P", "-B", "-m", _CHILD, target, bind, origin, log_level]
        self._announce: Final = announce
        self._changed = trio.Event()
        self._process = trio.CancelScope()

    async def next_state(self, serial: int) -> ServerState:
        """Wait until there is a later state than `serial`, and return the current one."""
        while self.state.serial <= serial:
            await self._changed.wait()
        return self.state

    async def run(self) -> None:
        """Serve and reload until this task is cancelled.

        Raises:
            OSError: The folder cannot be watched.
        """
        async with open_private_nursery() as nursery:
            try:
                await nursery.start(self._reload_on_change)
            except (OSError, RuntimeError) as error:
                raise OSError(f"cannot watch the files in {self.folder}: {error}") from error
            self._enter("loading", loads=1)
            while True:
                with trio.CancelScope() as self._process:
                    await self._serve()

    async def _reload_on_change(self, task_status: trio.TaskStatus[None]) -> None:
        watched = False
        async for changes in self._watch(self.folder):
            if not watched:
                watched = True
                task_status.started()
            if changes:
                paths = sorted({Path(path).name for _, path in changes})
                more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
                sys.stderr.write(f"{', '.join(paths[:_SHOWN])}{more} changed: reloading\n")
                # First, so that the page ends its requests before the process refuses them.
                self._enter("loading", loads=self.state.loads + 1)
                self._process.cancel()

    async def _serve(self) -> None:
        """Run a child process. After its end, wait for the cancellation that starts the next one."""
        process = await trio.lowlevel.open_process(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # ^C in the terminal is for this process, which stops the child.
            start_new_session=os.name == "posix",
        )
        failure: LoadFailure | None = None
        try:
            async for report in _reports(process):
                if isinstance(report, ServerReady):
                    self._enter("serving", name=report.name, version=report.version)
                else:
                    failure = report
            status = await process.wait()
            ended = LoadFailure(message=f"the process of the server has ended with status {status}")
            self._enter("failed", failure=failure or ended)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await _stop(process)

    def _enter(
        self,
        status: Literal["loading", "serving", "failed"],
        *,
        loads: int | None = None,
        name: str = "",
        version: str = "",
        failure: LoadFailure | None = None,
    ) -> None:
        before = self.state
        self.state = ServerState(
            status=status,
            serial=before.serial + 1,
            loads=before.loads if loads is None else loads,
            name=name,
            version=version,
            failure=failure,
        )
        self._announce(self.state)
        self._changed.set()
        self._changed = trio.Event()


async def _reports(process: trio.Process) -> AsyncIterator[Report]:
    """Yield the reports of a child process until its end. This package writes them, so that their number is small."""
    pending, stream = b"", process.stdout
    while stream is not None and len(pending) <= REPORT_BYTES:
        data = await stream.receive_some()
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            yield read_report(line)


async def _stop(process: trio.Process) -> None:
    """Stop a child process, kill it if it does not stop, and close its pipes."""
    if process.returncode is None:
        process.terminate()
        with trio.move_on_after(_STOP):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()
