"""SQLite stores under faults: a killed process, a full disk, a read-only file."""

from __future__ import annotations

import json
import logging
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from asgi_host import Client, hosted

from mcp_core.features.tasks import TaskState
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25
from mcp_server import Context, Server
from mcp_server.stores import (
    SessionRecord,
    SqliteStore,
    SqliteTaskStore,
    StoredEvent,
    StoreError,
    TaskOrder,
    TaskRecord,
)
from mcp_server.stores.failures import StoreFailures

# --- a process that is killed while it writes tasks ------------------------------------------------------------------

_TASKS = """
import sys, trio
from mcp_core.limits import Limits
from mcp_core.features.tasks import TaskState
from mcp_server.stores import SessionRecord, SqliteStore, SqliteTaskStore, StoredEvent, TaskRecord
import attrs

async def main():
    shared = SqliteStore(sys.argv[1]) if sys.argv[3] == "shared" else None
    store = SqliteTaskStore(shared or sys.argv[1], limits=Limits(tasks=100_000, running_tasks=100_000, task_bytes=10**9))
    async with trio.open_nursery() as nursery:
        for worker in range(4):
            nursery.start_soon(write, store, f"{sys.argv[2]}-{worker}")
        if shared is not None:
            nursery.start_soon(write_events, shared)

async def write(store, worker):
    number = 0
    while True:
        number += 1
        state = TaskState(id=f"{worker}-{number}", created_at=float(number), updated_at=0.0, ttl=None, poll_interval=None)
        record = TaskRecord(state=state, owner="Ann", tool="t", params={"fill": "x" * 700}, revision="2026-07-28", capabilities={})
        await store.create(record)
        say("created", state.id)
        record = attrs.evolve(record, once={str(n): "y" * 300 for n in range(number % 20)})
        await store.save(record)
        say("saved", state.id, number % 20)
        if number % 3 == 0:
            await store.delete(state.id)
            say("deleted", state.id)
        elif number % 3 == 1:
            await store.save(attrs.evolve(record, state=state.moved("completed", 1.0, result={"text": "z" * 900})))
            say("completed", state.id)

async def write_events(store):
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0))
    if not await store.streams("a"):
        await store.begin("a", (), worker="w")
    number = (await store.streams("a"))[0].last
    while True:
        number += 1
        await store.append("a", [StoredEvent(2, number, b"x" * 500)])

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

trio.run(main)
"""

_TASK_EVENTS = ("created", "saved", "completed", "deleted")
"""The steps of a task, in this order; only one of the last two happens."""


def run_and_kill(path: Path, attempt: int, kind: str, count: int) -> list[list[str]]:
    """Kill a process while it writes tasks, and return its output."""
    command = [sys.executable, "-c", _TASKS, str(path), str(attempt), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(count)]
        child.send_signal(signal.SIGKILL)
        # The last line may be incomplete.
        lines += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        return [line.split() for line in lines]


@pytest.mark.parametrize("kind", ["own", "shared"])
async def test_acknowledged_tasks_are_intact_after_kill(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "tasks.sqlite"
    acknowledged: dict[str, list[str]] = {}
    for attempt in range(3):
        for step, id, *_ in run_and_kill(path, attempt, kind, 150 * (attempt + 1)):
            acknowledged.setdefault(id, []).append(step)
        store = SqliteTaskStore(path, limits=Limits(tasks=100_000, running_tasks=100_000, task_bytes=10**9))
        stored = {record.state.id: record for record in await store.listed("Ann", None, 100_000)}
        for id, steps in acknowledged.items():
            check(steps, stored.pop(id, None), int(id.rpartition("-")[2]))
        # Unacknowledged writes at the time of the kill: at most one task of each worker.
        assert len(stored) <= 4 * (attempt + 1)
        # The store is consistent: it can be listed, counted and written.
        ids = {record.state.id for record in await store.unfinished()}
        assert all(steps[-1] != "completed" for id, steps in acknowledged.items() if id in ids)
        assert await store.listed("Ann", TaskOrder(10**9, ""), 1) == ()
        await store.aclose()
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            sizes = connection.execute("SELECT count(*) FROM tasks WHERE size != length(record)").fetchone()
            assert sizes == (0,)
        connection.close()


def check(steps: list[str], record: TaskRecord | None, number: int) -> None:
    """Compare a task with its acknowledged steps; one more step may have happened."""
    last = steps[-1]
    if last == "deleted":
        assert record is None
    elif record is None:
        assert last == "saved"
        assert number % 3 == 0
    else:
        assert record.params == {"fill": "x" * 700}
        saved = {str(n): "y" * 300 for n in range(number % 20)}
        assert record.once == saved or (last == "created" and record.once == {})
        assert record.state.terminal or last != "completed"
        assert record.state.result == ({"text": "z" * 900} if record.state.terminal else None)


# --- a full disk -----------------------------------------------------------------------------------------------------


def make_server() -> Server:
    server = Server("faults", version="0")

    @server.tool
    async def report(size: int, context: Context) -> str:
        await context.progress(1, message="x" * size)
        return "done"

    @server.resource("memo://{name}")
    async def memo(name: str) -> str:
        return name

    return server


async def report_event_ids(client: Client) -> list[str | None]:
    """Call a tool that responds with a stream, and return the ids of its events."""
    events = await client.post(client.call("report", size=20_000, token=1)).rest()
    assert "done" in str(json.loads(events[-1].data)["result"])
    return [event.id for event in events]


async def test_requests_continue_on_full_disk_and_are_stored_after_recovery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mcp_server")
    store = SqliteStore(tmp_path / "sessions.sqlite")
    connection = store.thread.connection
    app = make_server().asgi(store=store)
    async with hosted(app, R2025_11_25) as old, hosted(app, R2025_11_25) as new:
        await old.open()
        assert all(await report_event_ids(old))
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        new.capabilities["experimental"] = {"large": {"is": "x" * 12_000}}
        await new.open()
        for client in (old, new):
            for number in range(3):
                assert "result" in await client.ask("resources/subscribe", {"uri": f"memo://{number}-{'x' * 8_000}"})
                assert not any((await report_event_ids(client))[1:])
        # One log message, with the store and the remedy.
        (record,) = caplog.records
        text = record.getMessage()
        assert f"the store {tmp_path / 'sessions.sqlite'} failed: database or disk is full" in text
        assert "free space on its disk" in text
        assert "requests continue and unsaved data cannot be resumed" in text

        connection.execute("PRAGMA max_page_count = 1000000")
        for client in (old, new):
            assert all(await report_event_ids(client))
        assert len(caplog.records) == 1
        sessions = [str(client.session) for client in (old, new)]
    await store.aclose()
    store = SqliteStore(tmp_path / "sessions.sqlite")
    for session in sessions:
        assert await store.load(session) is not None
        assert len(await store.subscriptions(session)) == 3
    await store.aclose()


async def test_repeated_store_failure_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.WARNING, "mcp_server")
    failures = StoreFailures()
    failures.worked()
    for _ in range(60):
        failures.failed("it is not kept", StoreError("the store x failed"))
        # Small writes still succeed.
        failures.worked()
        await trio.sleep(2.5)
    counts = [re.findall(r"failures=(\d+)", record.getMessage()) for record in caplog.records]
    assert counts == [["1"], ["25"], ["49"]]
    await trio.sleep(60)
    for _ in range(3):
        failures.worked()
    assert [record.getMessage() for record in caplog.records[3:]] == ["session store recovered: failures=60"]
    failures.failed("it is not kept", StoreError("the store x failed"))
    assert len(caplog.records) == 5


_LIMITED = """
import resource, signal, sys, trio
from pathlib import Path
from mcp_core.limits import Limits
from mcp_server.stores import SessionRecord, SqliteStore, StoredEvent, StoreError

async def main():
    path = Path(sys.argv[1])
    store = SqliteStore(path)
    record = SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0)
    await store.save(record)
    await store.begin("a", (1,), worker="w")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for round_ in range(3):
        size = Path(f"{path}-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, hard))
        kept = (await store.streams("a"))[0].last
        try:
            while True:
                await store.append("a", [StoredEvent(1, kept + 1, b"x" * 7_000)])
                kept += 1
        except StoreError as error:
            print("failed", error, flush=True)
        assert (await store.streams("a"))[0].last == kept
        assert await store.load("a") == record
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await store.append("a", [StoredEvent(1, kept + 1, b"again")])
        print("kept", kept + 1, flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


async def test_failed_write_is_store_error_and_keeps_file_consistent(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    with subprocess.Popen([sys.executable, "-c", _LIMITED, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(6)]
        child.kill()
    assert [line.split()[0] for line in lines] == ["failed", "kept"] * 3
    assert all(f"the store {path} failed: " in line and "its disk" in line for line in lines[::2])
    last = int(lines[-1].split()[1])
    store = SqliteStore(path)
    assert [each.last for each in await store.streams("a")] == [last]
    assert [event.number for event in await store.events("a", 1, 0)] == list(range(1, last + 1))
    assert store.thread.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    await store.aclose()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system of 1 MiB."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount_point)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)


def remount(mount_point: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(mount_point)], check=True)


async def test_write_on_full_disk_raises_until_space_is_free(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "sessions.sqlite")
    tasks = SqliteTaskStore(store)
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0))
    await store.begin("a", (1,), worker="w")
    stored = 0
    with pytest.raises(StoreError, match="is full; free space on its disk"):  # noqa: PT012  # one of the writes fails
        while True:
            await store.append("a", [StoredEvent(1, stored + 1, b"x" * 7_000)])
            stored += 1
    state = TaskState(id="t", created_at=1.0, updated_at=1.0, ttl=None, poll_interval=None)
    record = TaskRecord(
        state=state, owner="Ann", tool="t", params={"x": "x" * 300_000}, revision="2026-07-28", capabilities={}
    )
    with pytest.raises(StoreError, match="is full; free space on its disk"):
        await tasks.create(record)
    assert [each.last for each in await store.streams("a")] == [stored]
    assert await tasks.load("t") is None
    remount(small_disk, "size=4m")
    await store.append("a", [StoredEvent(1, stored + 1, b"again")])
    await tasks.create(record)
    await tasks.aclose()
    await store.aclose()
    store = SqliteStore(small_disk / "sessions.sqlite")
    assert [each.last for each in await store.streams("a")] == [stored + 1]
    await store.aclose()


def test_store_creation_on_full_disk_raises(small_disk: Path) -> None:
    with (small_disk / "other").open("wb") as file, pytest.raises(OSError, match="No space left"):
        file.write(b"x" * 2_000_000)
    with pytest.raises(
        StoreError, match=r"the store .*sessions\.sqlite cannot be opened: .*full; free space on its disk"
    ):
        SqliteStore(small_disk / "sessions.sqlite")


# --- read-only files and directories ---------------------------------------------------------------------------------


async def test_store_on_read_only_disk_raises_with_remedy(small_disk: Path) -> None:
    path = small_disk / "sessions.sqlite"
    store = SqliteStore(path)
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0))
    await store.aclose()
    remount(small_disk, "ro")
    try:
        for mount_point, read_only in ((path, path), (small_disk / "new.sqlite", small_disk)):
            message = f"the store {mount_point} cannot be opened: {read_only} is read-only for this user: make the file and its dir"
            with pytest.raises(StoreError, match=message):
                SqliteStore(mount_point)
            with pytest.raises(StoreError, match=message):
                SqliteTaskStore(mount_point)
    finally:
        remount(small_disk, "rw")
    store = SqliteStore(path)
    assert await store.load("a") is not None
    await store.aclose()


_UNPRIVILEGED = """
import os, sys
from mcp_server.stores import SqliteStore, StoreError

if os.getuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
try:
    SqliteStore(sys.argv[1])
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("file", "folder", "read_only"),
    [(0o444, 0o777, "sessions.sqlite"), (0o666, 0o555, ""), (None, 0o555, "")],
    ids=["file", "folder", "no file"],
)
def test_store_in_read_only_path_raises_with_path(file: int | None, folder: int, read_only: str) -> None:
    # Outside of the test's own folder, which only its user can access.
    with tempfile.TemporaryDirectory() as directory:
        mount_point, path = Path(directory), Path(directory, "sessions.sqlite")
        if file is not None:
            SqliteStore(path).thread.connection.close()
            path.chmod(file)
        before = None if file is None else path.read_bytes()
        mount_point.chmod(folder)
        command = [sys.executable, "-c", _UNPRIVILEGED, str(path)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        mount_point.chmod(0o700)
        read_only_path = mount_point / read_only if read_only else mount_point
        assert (
            f"the store {path} cannot be opened: {read_only_path} is read-only for this user: make the file" in output
        )
        assert (path.read_bytes() if path.exists() else None) == before
