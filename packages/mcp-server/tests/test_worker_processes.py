"""Several worker processes: `mcp-server run --workers`, with real processes, signals and connections."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
from worker_testbed import (
    COMMAND,
    SOURCE,
    TIMEOUT,
    Load,
    RawConnection,
    call_pid,
    supervised,
    write_server,
)

from mcp_client import open_http
from mcp_core.revisions import R2026_07_28
from mcp_server.host.connection_counts import ConnectionCounts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers need a Unix system")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_server(tmp_path)
    return tmp_path


def is_alive(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run_to_end(folder: Path, *words: str) -> tuple[int, list[str]]:
    """Return the exit status and the output of a run that ends on its own."""
    done = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, done.stderr.splitlines()


def test_workers_have_equally_many_connections(folder: Path) -> None:
    with supervised(folder) as supervisor:
        held = [RawConnection(supervisor.address) for _ in range(16)]
        pids = [each.call("pid") for each in held]
        for each in held:
            each.close()
        assert len(set(pids)) == 2
        assert supervisor.stop() == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_stops_all_workers_after_running_call(folder: Path, number: signal.Signals, status: int) -> None:
    with supervised(folder) as supervisor, Load(supervisor.address) as load:
        pids = load.wait_for(2)
        load.__exit__()
        connection = RawConnection(supervisor.address)
        outcome: list[str] = []
        calling = threading.Thread(target=lambda: outcome.append(connection.call("hold", seconds=0.5)))
        calling.start()
        supervisor.until("holding")
        assert supervisor.stop(number) == status
        calling.join(TIMEOUT)
        connection.close()
        assert outcome == ["done"]
        assert not any(map(is_alive, pids))


def test_second_signal_kills_workers(folder: Path) -> None:
    with supervised(folder) as supervisor:
        connection = RawConnection(supervisor.address)

        def call() -> None:
            with pytest.raises(ConnectionError):
                connection.call("hold", seconds=1_000)

        calling = threading.Thread(target=call)
        calling.start()
        supervisor.until("holding")
        supervisor.process.send_signal(signal.SIGTERM)
        # The supervisor has handled the signal when connections are refused, once its workers have closed the socket.
        while True:
            try:
                probe = RawConnection(supervisor.address)
                probe.http.connect()
                probe.close()
            except ConnectionError:
                break
        assert supervisor.stop() == 143
        calling.join(TIMEOUT)
        connection.close()


def test_program_that_cannot_be_imported_ends_run_with_one_error(folder: Path) -> None:
    (folder / "sample_server.py").write_text("import missing_module")
    status, lines = run_to_end(folder, "sample_server.py", "--http", "127.0.0.1:0", "--workers", "3")
    assert status == 2
    assert (lines[0], lines[-1]) == (
        "mcp-server: sample_server.py cannot be loaded:",
        "ModuleNotFoundError: No module named 'missing_module'",
    )
    assert sum("cannot be loaded" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (("", ""), "", "shared state for request states and cursors (give all processes the same keys, --state-key"),
        ((", revisions=MODERN", ""), "--state-key key", "shared state for sessions of legacy clients (serve only"),
        (("@server.tool\nasync def pid", '@server.tool(task="optional")\nasync def pid'), "--state-key key", "tasks ("),
        (("", ""), "--state-key short", "short must have one key per line, each at least 32 random characters"),
        (("", ""), "--state-key missing", "cannot read the keys from missing: No such file or directory"),
        (("", ""), "--state-key key --store x.db", "--store is for one process"),
    ],
)
def test_server_that_needs_shared_state_is_refused(
    folder: Path, change: tuple[str, str], words: str, message: str
) -> None:
    write_server(folder, source=SOURCE.replace(*change))
    (folder / "key").write_text("0123456789abcdef0123456789abcdef\n")
    (folder / "short").write_text("0123\n")
    status, lines = run_to_end(folder, "sample_server.py", "--http", "127.0.0.1:0", "--workers", "2", *words.split())
    assert (status, len(lines)) == (2, 1)
    assert message in lines[0]


def test_single_worker_needs_no_shared_state(folder: Path) -> None:
    write_server(folder, source=SOURCE.replace(", revisions=MODERN", ""))
    command = (*COMMAND, "sample_server.py", "--http", "127.0.0.1:0", "--workers", "1")
    with supervised(folder, command=command) as supervisor:
        assert call_pid(supervisor.address)[0] == 1


def test_killed_worker_is_replaced(folder: Path) -> None:
    with supervised(folder) as supervisor:
        with Load(supervisor.address) as load:
            first = load.wait_for(2)
            victim = min(first)
            os.kill(victim, signal.SIGKILL)
            # Requests of the killed worker fail: its clients can notice this. All later ones succeed.
            supervisor.until("signal=SIGKILL")
        with Load(supervisor.address) as load:
            assert victim not in load.wait_for(2)
        assert load.failures == []


def test_reload_replaces_workers_without_failed_request(folder: Path) -> None:
    with supervised(folder) as supervisor, Load(supervisor.address) as load:
        first = load.wait_for(2)
        write_server(folder, 2)
        supervisor.process.send_signal(signal.SIGHUP)
        second = load.wait_for(2, without=first)
        assert call_pid(supervisor.address)[0] == 2
        supervisor.process.send_signal(signal.SIGHUP)
        load.wait_for(2, without=first | second)
        load.__exit__()
        assert load.failures == []
        assert supervisor.stop() == 0


async def test_reload_loses_no_call_of_client(folder: Path) -> None:
    with supervised(folder) as supervisor, trio.fail_after(TIMEOUT):
        pids: set[str] = set()
        enough = trio.Event()

        async def call_until_enough() -> None:
            while not enough.is_set():
                async with open_http(f"http://{supervisor.address}/mcp", revisions=[R2026_07_28]) as client:
                    for _ in range(20):
                        pids.add((await client.call_tool("pid")).text)
                if len(pids) >= 4:
                    enough.set()

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(call_until_enough)
            supervisor.process.send_signal(signal.SIGHUP)


def test_failed_reload_keeps_workers(folder: Path) -> None:
    with supervised(folder) as supervisor, Load(supervisor.address) as load:
        first = load.wait_for(2)
        (folder / "sample_server.py").write_text("import missing_module")
        supervisor.process.send_signal(signal.SIGHUP)
        supervisor.until("reload abandoned")
        assert call_pid(supervisor.address)[1] in first
        load.__exit__()
        assert set(load.calls) == first
        assert load.failures == []


def test_signal_to_worker_replaces_it_without_failed_request(folder: Path) -> None:
    with supervised(folder) as supervisor, Load(supervisor.address) as load:
        first = load.wait_for(2)
        os.kill(min(first), signal.SIGTERM)
        load.wait_for(1, without=first)
        load.__exit__()
        assert load.failures == []


def test_stream_ends_with_its_result_at_reload(folder: Path) -> None:
    with supervised(folder) as supervisor:
        connection = RawConnection(supervisor.address)
        response = connection.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        line = b""
        while not line.startswith(b"data: {"):
            line = response.readline()
        acknowledged = json.loads(line[6:])
        # Workers that share no state do not offer notifications of changes.
        assert acknowledged["params"]["notifications"] == {}
        supervisor.process.send_signal(signal.SIGHUP)
        rest = response.read()
        connection.close()
        last = [each for each in rest.splitlines() if each.startswith(b"data: {")][-1]
        assert json.loads(last[6:])["result"]["resultType"] == "complete"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the end of a parent process")
def test_workers_end_when_supervisor_is_killed(folder: Path) -> None:
    with supervised(folder) as supervisor, Load(supervisor.address) as load:
        pids = load.wait_for(2)
        load.__exit__()
        handles = [os.pidfd_open(pid) for pid in pids]
        supervisor.process.kill()
        for handle in handles:
            # It is readable when the process has ended.
            assert select.select([handle], [], [], TIMEOUT)[0]
            os.close(handle)


def test_worker_that_does_not_end_is_killed(folder: Path) -> None:
    program = (
        "import sys\n"
        "from mcp_server.runners.workers import run_workers, supervisor\n"
        "supervisor._MARGIN = 0.1\n"
        "command = [sys.executable, '-m', 'mcp_server', *sys.argv[1:]]\n"
        "say = lambda state: print(state, file=sys.stderr, flush=True)\n"
        "sys.exit(run_workers(command, '127.0.0.1:0', workers=1, grace=0.1, announce=say))"
    )
    command = (sys.executable, "-c", program, "run", "sample_server.py", "--http", "127.0.0.1:1")
    with supervised(folder, command=command) as supervisor:
        connection = RawConnection(supervisor.address)

        def call() -> None:
            with pytest.raises(ConnectionError):
                connection.call("block")

        calling = threading.Thread(target=call)
        calling.start()
        supervisor.until("blocking")
        assert supervisor.stop() == 1
        calling.join(TIMEOUT)
        connection.close()


def test_counts_ignore_workers_that_do_not_accept(tmp_path: Path) -> None:
    first = ConnectionCounts.create(tmp_path / "counts", 3)
    second = ConnectionCounts(tmp_path / "counts", 1)

    def state() -> tuple[bool, bool]:
        return first.others_have_fewer, second.others_have_fewer

    first.record(5)
    second.record(4)
    assert state() == (True, False)
    second.record(6)
    assert state() == (False, True)
    first.clear()
    assert state()[1] is False
    first.record(5)
    second.record(4)
    first.clear(1)
    assert state()[0] is False
    assert first.free_place({0, 1}) == 2
