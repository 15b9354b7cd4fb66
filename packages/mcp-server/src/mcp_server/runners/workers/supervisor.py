"""The supervisor of worker processes. It owns the listening sockets, and the workers inherit them.

`mcp_server.runners.workers.policy` decides what happens. This module carries it out: it starts processes, sends
signals, and turns signals, notifications of workers and the ends of processes into events.

The supervisor is the service manager of its workers, by the protocol of systemd: `LISTEN_FDS` passes the sockets, and
`NOTIFY_SOCKET` receives the notifications. So a worker is any program that runs `serve_http`, and needs no other code.
One shared socket, not one socket per worker (`SO_REUSEPORT`): connections that wait to be accepted belong to all
workers, and none is lost when a worker ends. Only new workers run new code, since each is a new interpreter.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.host import connection_counts
from mcp_server.host.connection_counts import ConnectionCounts
from mcp_server.host.listeners import listen
from mcp_server.host.service_manager import HTTP, WORKER, ServiceManager, take_sockets
from mcp_server.prometheus import METRICS_FOLDER
from mcp_server.runners.workers import launcher
from mcp_server.runners.workers.policy import (
    Action,
    EndRun,
    ReportState,
    SendSignal,
    StartWorker,
    WorkerPolicy,
    WriteLog,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["run_workers"]

_log: Final = logging.getLogger("mcp_server")

_MARGIN: Final = 10.0
"""Time for a worker to end after its grace period, in seconds. `serve_http` needs at most half of it."""

_PLACES: Final = 1024
"""Largest number of workers, including those that are replaced."""

_DATAGRAM: Final = 4096
"""Largest notification of a worker, in bytes."""


def run_workers(
    command: Sequence[str],
    bind: str = "127.0.0.1:8000",
    *,
    workers: int,
    grace: float = 10.0,
    environment: Mapping[str, str] | None = None,
    announce: Callable[[str], None] | None = None,
) -> int:
    """Run worker processes that serve clients at one address, until a signal. Call it in the main thread.

    Each worker is a process of `command`, and calls `serve_http`, which uses the sockets of the supervisor and ignores
    its own `bind`. SIGHUP replaces the workers one by one, so that they run the present code. SIGTERM and SIGINT stop
    all workers, a second signal kills them. Workers that end are started again. On Linux they stop if this process
    is killed. Not available on Windows.

    Args:
        command: Program and arguments of a worker.
        bind: The address, as `HOST:PORT`. For port 0 the system chooses a port. Sockets that a service manager passed
            to this process are used instead.
        workers: Number of workers.
        grace: The `grace` of `serve_http` in the workers, in seconds. A worker that has not ended 10 seconds after it is
            killed.
        environment: Variables for the workers, in addition to those of this process.
        announce: Function that receives the state of the first worker once all workers accept connections, for example
            `weather is served at http://127.0.0.1:8000/mcp`.

    Returns:
        The exit status for this process: after a graceful stop 0, or 130 if the signal was SIGINT; that of a worker that
        ended before all were ready; 1 if a worker had to be killed after SIGTERM; 128 and the number of the signal after
        a second signal.

    Raises:
        ValueError: An argument is invalid.
        OSError: An address cannot be used.
    """
    if sys.platform == "win32":
        raise ValueError("several workers need a Unix system: run one process")
    if not 1 <= workers <= _PLACES // 2:
        raise ValueError(f"workers must be from 1 to {_PLACES // 2}, not {workers}")
    variables = {**os.environ, **(environment or {})}
    manager = ServiceManager.take(variables)
    ServiceManager.take()

    async def run() -> int:
        passed = take_sockets()
        try:
            if not passed:
                passed.extend((HTTP, _detached(listener)) for listener in await listen(bind))
            with tempfile.TemporaryDirectory(prefix="mcp-server-") as folder:
                policy = WorkerPolicy(workers, grace + _MARGIN)
                supervisor = _Supervisor(
                    command,
                    policy,
                    passed,
                    variables=variables,
                    folder=Path(folder),
                    manager=manager,
                    announce=announce,
                )
                return await supervisor.run()
        finally:
            for _, sock in passed:
                sock.close()

    return trio.run(run)


def _detached(listener: trio.SocketListener) -> socket.socket:
    return socket.socket(fileno=listener.socket.detach())


class _Supervisor:
    """The processes of the workers, their notification sockets, and the tasks that turn these into events."""

    def __init__(
        self,
        command: Sequence[str],
        policy: WorkerPolicy,
        sockets: Sequence[tuple[str, socket.socket]],
        *,
        variables: Mapping[str, str],
        folder: Path,
        manager: ServiceManager,
        announce: Callable[[str], None] | None,
    ) -> None:
        self._command: Final = command
        self._policy: Final = policy
        self._sockets: Final = sockets
        self._variables: Final = variables
        self._folder: Final = folder
        self._manager: Final = manager
        self._announce = announce
        self._processes: Final[dict[int, subprocess.Popen[bytes]]] = {}
        self._receivers: Final[dict[int, trio.CancelScope]] = {}
        self._counts_file: Final = folder / "connections"
        self._counts: Final = ConnectionCounts.create(self._counts_file, _PLACES)
        self._places: Final[dict[int, int]] = {}
        self._served = ""
        self._status: int | None = None
        self._timer = trio.CancelScope()

    async def run(self) -> int:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._manager.keep_alive)
            await self._nursery.start(self._receive_signals)
            try:
                self._carry_out(self._policy.start())
                while self._status is None:
                    # Every event cancels the wait, because it can change the next time.
                    with trio.CancelScope() as self._timer:
                        await trio.sleep_until(self._policy.next_time)
                    self._carry_out(self._policy.elapsed(trio.current_time()))
            finally:
                for process in self._processes.values():
                    process.kill()  # only if this function failed
            self._nursery.cancel_scope.cancel()
        return self._status

    # --- events ----------------------------------------------------------------------------------------------------

    async def _receive_signals(self, task_status: trio.TaskStatus[None]) -> None:
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        with trio.open_signal_receiver(*wanted) as received:
            task_status.started()
            async for number in received:
                if number == signal.SIGCHLD:
                    self._reap()
                elif number == signal.SIGHUP:
                    self._carry_out(self._policy.reload())
                elif self._policy.is_stopping:
                    self._carry_out(self._policy.kill(128 + number))
                else:
                    # New connections are refused from now on, and clients can try another machine.
                    for _, sock in self._sockets:
                        sock.close()
                    status = 128 + number if number == signal.SIGINT else 0
                    self._carry_out(self._policy.stop(trio.current_time(), status))

    def _reap(self) -> None:
        """Collect the processes that ended. Signals merge, so one can stand for several processes."""
        for id, process in tuple(self._processes.items()):
            status = process.poll()
            if status is None:
                continue
            del self._processes[id]
            self._receivers.pop(id).cancel()
            (self._folder / str(id)).unlink()
            place = self._places.pop(id)
            self._counts.clear(place)
            if METRICS_FOLDER in self._variables:
                # The requests in progress of a killed worker. The totals are continued by the next worker at this place.
                (Path(self._variables[METRICS_FOLDER]) / f"gauge_livesum_{place}.db").unlink(missing_ok=True)
            self._carry_out(self._policy.ended(id, status, trio.current_time()))

    async def _receive_notifications(self, id: int, sock: trio.socket.SocketType, scope: trio.CancelScope) -> None:
        with sock, scope:
            while True:
                datagram = await sock.recv(_DATAGRAM)
                state = dict(line.partition("=")[::2] for line in datagram.decode(errors="replace").splitlines())
                self._served = self._served or state.get("STATUS", "")
                if state.get("READY") == "1":
                    self._carry_out(self._policy.ready(id, trio.current_time()))
                if state.get("STOPPING") == "1":
                    self._carry_out(self._policy.leaving(id, trio.current_time()))

    # --- actions ---------------------------------------------------------------------------------------------------

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case StartWorker(id):
                    self._start(id)
                case SendSignal(id, number):
                    # Until `poll` has collected a process, its id belongs to no other process.
                    self._processes[id].send_signal(number)
                case ReportState(state):
                    self._report(state)
                case WriteLog(text):
                    _log.warning("%s", text)
                case EndRun(status):
                    self._status = status
        self._timer.cancel()

    def _start(self, id: int) -> None:
        address = str(self._folder / str(id))
        inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        inbox.bind(address)
        inbox.setblocking(False)  # noqa: FBT003  # the only parameter
        place = self._places[id] = self._counts.free_place(set(self._places.values()))
        names = ":".join(name for name, _ in self._sockets)
        descriptors = [each.fileno() for _, each in self._sockets]
        numbers = ",".join(map(str, descriptors))
        # A worker is in a process group of its own: ^C in a terminal is a signal to the supervisor alone.
        self._processes[id] = subprocess.Popen(  # noqa: S603  # the command of the operator
            [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), numbers, *self._command],
            stdin=subprocess.DEVNULL,
            env={
                **self._variables,
                "NOTIFY_SOCKET": address,
                "LISTEN_FDNAMES": names,
                WORKER: str(place),
                connection_counts.VARIABLE: f"{place}:{self._counts_file}",
            },
            pass_fds=descriptors,
            process_group=0,
        )
        self._receivers[id] = scope = trio.CancelScope()
        self._nursery.start_soon(self._receive_notifications, id, trio.socket.from_stdlib_socket(inbox), scope)

    def _report(self, state: str) -> None:
        if state == "RELOADING":
            # Spec: sd_notify(3): required for `Type=notify-reload`.
            self._manager.notify(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
            return
        self._manager.notify(**{state: 1}, STATUS=self._served)
        if state == "READY" and self._announce is not None:
            self._announce(self._served)
            self._announce = None
