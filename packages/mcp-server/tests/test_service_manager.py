"""Socket activation and notifications: what systemd does with a server, with real sockets and processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from worker_testbed import COMMAND, TIMEOUT, RawConnection, call_pid, write_server

from mcp_server.host.service_manager import ServiceManager, take_sockets
from mcp_server.runners.workers import launcher

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a Unix system")


class Manager:
    """A service manager: a listening socket, and a socket for notifications."""

    def __init__(self, folder: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.path = str(folder / "notify")
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.inbox.bind(self.path)
        self.inbox.settimeout(TIMEOUT)

    def state(self) -> dict[str, str]:
        """Return the next notification."""
        return dict(line.partition("=")[::2] for line in self.inbox.recv(4096).decode().splitlines())

    @contextmanager
    def running(self, folder: Path, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """Run the command with the socket, as systemd does."""
        options = ("sample_server.py", "--http", "127.0.0.1:1", "--state-key", "key", *words)
        start = (sys.executable, launcher.__file__, str(os.getpid()), str(self.listener.fileno()))
        with subprocess.Popen(
            (*start, *COMMAND, *options),
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NOTIFY_SOCKET": self.path, **variables},
            pass_fds=[self.listener.fileno()],
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def close(self) -> None:
        self.listener.close()
        self.inbox.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    write_server(tmp_path)
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef\n")
    manager = Manager(tmp_path)
    yield manager
    manager.close()


def test_server_uses_passed_socket_and_notifies(manager: Manager, tmp_path: Path) -> None:
    with manager.running(tmp_path) as process:
        assert manager.state() == {"READY": "1", "STATUS": f"sample is served at http://{manager.address}/mcp"}
        assert call_pid(manager.address)[1] == process.pid
        process.send_signal(signal.SIGTERM)
        assert manager.state() == {"STOPPING": "1"}
        # The socket of the manager continues to listen: the request is served by the next process.
        waiting = RawConnection(manager.address)
        waiting.http.connect()
        assert process.wait(TIMEOUT) == 0
    with manager.running(tmp_path) as process:
        assert waiting.call("pid") == f"1 {process.pid}"
        waiting.close()


def test_workers_share_passed_socket_and_report_reload(manager: Manager, tmp_path: Path) -> None:
    with manager.running(tmp_path, "--workers", "2") as process:
        assert manager.state()["READY"] == "1"
        before = call_pid(manager.address)
        process.send_signal(signal.SIGHUP)
        reloading = manager.state()
        assert reloading["RELOADING"] == "1"
        assert re.fullmatch(r"\d+", reloading["MONOTONIC_USEC"])
        assert manager.state()["READY"] == "1"
        assert call_pid(manager.address) != before
        process.send_signal(signal.SIGTERM)
        assert manager.state()["STOPPING"] == "1"
        assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_watchdog_gets_signs_of_life(manager: Manager, tmp_path: Path, workers: tuple[str, ...]) -> None:
    with manager.running(tmp_path, *workers, WATCHDOG_USEC="200000"):
        for _ in range(2):
            while manager.state() != {"WATCHDOG": "1"}:
                pass


def test_unix_socket_is_refused(manager: Manager, tmp_path: Path) -> None:
    manager.listener.close()
    manager.listener = socket.socket(socket.AF_UNIX)
    manager.listener.bind(str(tmp_path / "listen"))
    manager.listener.listen()
    with manager.running(tmp_path) as process:
        assert process.stderr is not None
        assert "set ListenStream= to an address with a port" in process.stderr.read()
        assert process.wait(TIMEOUT) == 2


@pytest.mark.parametrize("pid", ["", "1", "x"])
def test_sockets_for_another_process_are_not_taken(pid: str) -> None:
    environment = {"LISTEN_PID": pid, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x"}
    assert take_sockets(environment) == []
    assert environment == {}


def test_variables_are_taken_once() -> None:
    environment = {"NOTIFY_SOCKET": "@name", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "X": "y"}
    assert ServiceManager.take(environment) == ServiceManager("@name", 3.0)
    assert environment == {"X": "y"}
    assert ServiceManager.take(environment) == ServiceManager()
    other = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}
    assert ServiceManager.take(other) == ServiceManager("/x", None)


@pytest.mark.skipif(sys.platform != "linux", reason="abstract addresses exist only on Linux")
def test_notification_to_abstract_address_arrives() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        name = f"mcp-test-{os.getpid()}"
        inbox.bind("\0" + name)
        ServiceManager(f"@{name}").notify(READY=1, STATUS="fine")
        assert inbox.recv(100) == b"READY=1\nSTATUS=fine"


async def test_absent_manager_is_not_notified() -> None:
    ServiceManager().notify(READY=1)
    ServiceManager("/nowhere/at/all").notify(READY=1)
    await ServiceManager().keep_alive()


async def test_signs_of_life_twice_in_each_period(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    inbox = trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    await inbox.bind(str(tmp_path / "notify"))
    with inbox:
        with trio.move_on_after(10.5):
            await ServiceManager(str(tmp_path / "notify"), 4.0).keep_alive()
        for _ in range(6):
            assert await inbox.recv(100) == b"WATCHDOG=1"
