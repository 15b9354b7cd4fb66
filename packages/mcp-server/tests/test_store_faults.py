"""Stores in files when something goes wrong below or around them: a kill, a disk that is full, a file that is read-only."""

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
from mcp_server import (
    Context,
    Server,
    SessionRecord,
    SqliteStore,
    SqliteTaskStore,
    StoredEvent,
    StoreError,
    TaskPlace,
    TaskRecord,
)
from mcp_server.stores.failures import StoreFailures

# --- a process that is killed while it writes tasks ------------------------------------------------------------------

_TASKS = """
import sys, trio
from mcp_core.limits import Limits
from mcp_core.features.tasks import TaskState
from mcp_server import SessionRecord, SqliteStore, SqliteTaskStore, StoredEvent, TaskRecord
import attrs

async def main():
    shared = SqliteStore(sys.argv[1]) if sys.argv[3] == "shared" else None
    store = SqliteTaskStore(shared or sys.argv[1], limits=Limits(tasks=100_000, task_bytes=10**9))
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
        await store.begin("a", 2, ())
    number = (await store.streams("a"))[0].last
    while True:
        number += 1
        await store.append("a", [StoredEvent(2, number, b"x" * 500)])

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

trio.run(main)
"""

_STEPS = ("created", "saved", "completed", "deleted")
"""What happens to a task, in this order; only one of the last two does."""


def run_until_killed(path: Path, round_: int, kind: str, lines: int) -> list[list[str]]:
    """Return what a process said that was killed while it wrote tasks."""
    command = [sys.executable, "-c", _TASKS, str(path), str(round_), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        # The last line may be half of one.
        said += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        return [line.split() for line in said]


@pytest.mark.parametrize("kind", ["own", "shared"])
async def test_task_that_was_acknowledged_survives_a_kill_and_none_is_torn(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "tasks.sqlite"
    acknowledged: dict[str, list[str]] = {}
    for round_ in range(3):
        for step, id, *_ in run_until_killed(path, round_, kind, 150 * (round_ + 1)):
            acknowledged.setdefault(id, []).append(step)
        store = SqliteTaskStore(path, limits=Limits(tasks=100_000, task_bytes=10**9))
        kept = {record.state.id: record for record in await store.listed("Ann", None, 100_000)}
        for id, steps in acknowledged.items():
            check(steps, kept.pop(id, None), int(id.rpartition("-")[2]))
        # What was on its way when the process was killed: one task of each worker at most.
        assert len(kept) <= 4 * (round_ + 1)
        # All of it can be used, counted and written again.
        ids = {record.state.id for record in await store.unfinished()}
        assert all(steps[-1] != "completed" for id, steps in acknowledged.items() if id in ids)
        assert await store.listed("Ann", TaskPlace(10**9, ""), 1) == ()
        await store.aclose()
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            sizes = connection.execute("SELECT count(*) FROM tasks WHERE size != length(record)").fetchone()
            assert sizes == (0,)
        connection.close()


def check(steps: list[str], record: TaskRecord | None, number: int) -> None:
    """Compare a task with what was acknowledged of it; one step more may have been done."""
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


# --- a disk that is full ---------------------------------------------------------------------------------------------


def server() -> Server:
    made = Server("faults", version="0")

    @made.tool
    async def report(size: int, context: Context) -> str:
        await context.progress(1, message="x" * size)
        return "done"

    @made.resource("memo://{name}")
    async def memo(name: str) -> str:
        return name

    return made


async def reported(client: Client) -> list[str | None]:
    """Call a tool that is answered by a stream. Return the ids of its events."""
    events = await client.post(client.call("report", size=20_000, token=1)).rest()
    assert "done" in str(json.loads(events[-1].data)["result"])
    return [event.id for event in events]


async def test_requests_go_on_while_the_disk_is_full_and_are_kept_again_when_there_is_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mcp_server")
    store = SqliteStore(tmp_path / "sessions.sqlite")
    connection = store.thread.connection
    app = server().asgi(store=store)
    async with hosted(app, R2025_11_25) as old, hosted(app, R2025_11_25) as new:
        await old.open()
        assert all(await reported(old))
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        new.capabilities["experimental"] = {"large": {"is": "x" * 12_000}}
        await new.open()
        for client in (old, new):
            for number in range(3):
                assert "result" in await client.ask("resources/subscribe", {"uri": f"memo://{number}-{'x' * 8_000}"})
                assert not any((await reported(client))[1:])
        # One message, that says which store it is and what to do.
        (record,) = caplog.records
        text = record.getMessage()
        assert f"the store {tmp_path / 'sessions.sqlite'} failed: database or disk is full" in text
        assert "free space on its disk" in text
        assert "requests continue and unsaved data cannot be resumed" in text

        connection.execute("PRAGMA max_page_count = 1000000")
        for client in (old, new):
            assert all(await reported(client))
        assert len(caplog.records) == 1
        sessions = [str(client.session) for client in (old, new)]
    await store.aclose()
    store = SqliteStore(tmp_path / "sessions.sqlite")
    for session in sessions:
        assert await store.load(session) is not None
        assert len(await store.subscriptions(session)) == 3
    await store.aclose()


async def test_store_that_goes_on_failing_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.WARNING, "mcp_server")
    failures = StoreFailures()
    failures.worked()
    for _ in range(60):
        failures.failed("it is not kept", StoreError("the store x failed"))
        # Something that is small still fits.
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
from mcp_server import SessionRecord, SqliteStore, StoredEvent, StoreError

async def main():
    path = Path(sys.argv[1])
    store = SqliteStore(path)
    record = SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0)
    await store.save(record)
    await store.begin("a", 1, (1,))
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


async def test_write_that_the_system_refuses_is_an_error_of_the_store_and_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    with subprocess.Popen([sys.executable, "-c", _LIMITED, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(6)]
        child.kill()
    assert [line.split()[0] for line in said] == ["failed", "kept"] * 3
    assert all(f"the store {path} failed: " in line and "its disk" in line for line in said[::2])
    last = int(said[-1].split()[1])
    store = SqliteStore(path)
    assert [each.last for each in await store.streams("a")] == [last]
    assert [event.number for event in await store.events("a", 1, 0)] == list(range(1, last + 1))
    assert store.thread.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    await store.aclose()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with a MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def mount_again(place: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(place)], check=True)


async def test_full_disk_is_an_error_of_the_store_until_there_is_space(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "sessions.sqlite")
    tasks = SqliteTaskStore(store)
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0))
    await store.begin("a", 1, (1,))
    kept = 0
    with pytest.raises(StoreError, match="is full; free space on its disk"):  # noqa: PT012  # it fails at some time
        while True:
            await store.append("a", [StoredEvent(1, kept + 1, b"x" * 7_000)])
            kept += 1
    state = TaskState(id="t", created_at=1.0, updated_at=1.0, ttl=None, poll_interval=None)
    record = TaskRecord(
        state=state, owner="Ann", tool="t", params={"x": "x" * 300_000}, revision="2026-07-28", capabilities={}
    )
    with pytest.raises(StoreError, match="is full; free space on its disk"):
        await tasks.create(record)
    assert [each.last for each in await store.streams("a")] == [kept]
    assert await tasks.load("t") is None
    mount_again(small_disk, "size=4m")
    await store.append("a", [StoredEvent(1, kept + 1, b"again")])
    await tasks.create(record)
    await tasks.aclose()
    await store.aclose()
    store = SqliteStore(small_disk / "sessions.sqlite")
    assert [each.last for each in await store.streams("a")] == [kept + 1]
    await store.aclose()


def test_store_cannot_be_made_on_a_full_disk(small_disk: Path) -> None:
    with (small_disk / "other").open("wb") as file, pytest.raises(OSError, match="No space left"):
        file.write(b"x" * 2_000_000)
    with pytest.raises(
        StoreError, match=r"the store .*sessions\.sqlite cannot be opened: .*full; free space on its disk"
    ):
        SqliteStore(small_disk / "sessions.sqlite")


# --- files and directories that are read-only ------------------------------------------------------------------------


async def test_store_on_a_disk_that_is_read_only_says_what_to_do(small_disk: Path) -> None:
    path = small_disk / "sessions.sqlite"
    store = SqliteStore(path)
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0))
    await store.aclose()
    mount_again(small_disk, "ro")
    try:
        for place, named in ((path, path), (small_disk / "new.sqlite", small_disk)):
            why = f"the store {place} cannot be opened: {named} is read-only for this user: make the file and its dir"
            with pytest.raises(StoreError, match=why):
                SqliteStore(place)
            with pytest.raises(StoreError, match=why):
                SqliteTaskStore(place)
    finally:
        mount_again(small_disk, "rw")
    store = SqliteStore(path)
    assert await store.load("a") is not None
    await store.aclose()


_UNPRIVILEGED = """
import os, sys
from mcp_server import SqliteStore, StoreError

if os.getuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
try:
    SqliteStore(sys.argv[1])
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("file", "folder", "named"),
    [(0o444, 0o777, "sessions.sqlite"), (0o666, 0o555, ""), (None, 0o555, "")],
    ids=["file", "folder", "no file"],
)
def test_place_that_the_user_may_not_write_is_named(file: int | None, folder: int, named: str) -> None:
    # Not below the folder of the test, which is of its user alone.
    with tempfile.TemporaryDirectory() as made:
        place, path = Path(made), Path(made, "sessions.sqlite")
        if file is not None:
            SqliteStore(path).thread.connection.close()
            path.chmod(file)
        before = None if file is None else path.read_bytes()
        place.chmod(folder)
        command = [sys.executable, "-c", _UNPRIVILEGED, str(path)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        place.chmod(0o700)
        culprit = place / named if named else place
        assert f"the store {path} cannot be opened: {culprit} is read-only for this user: make the file" in said
        assert (path.read_bytes() if path.exists() else None) == before
