"""Session stores: the contract for each of them, and the properties of the SQLite store."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.jsonrpc.messages import RequestId
from mcp_core.limits import Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_server.cluster import LocalCluster
from mcp_server.stores import (
    MemoryStore,
    PendingNotification,
    SessionRecord,
    SessionStore,
    SqliteStore,
    StoredEvent,
    StoredStream,
    StoreError,
)
from mcp_server.stores.contract import DURABLE_STORE_CHECKS, STORE_CHECKS, StoreCheck
from mcp_server.stores.failures import StoreFailures
from mcp_server.transports.http.replay import Log

_RECORD = SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0)


def _check_name(check: StoreCheck) -> str:
    return getattr(check, "__name__", "?")


@pytest.mark.spec("resume.no-cross-stream", "resume.event-id-unique")
@pytest.mark.parametrize("check", STORE_CHECKS, ids=_check_name)
async def test_memory_session_store_fulfills_contract(check: StoreCheck) -> None:
    async def open_store(limits: Limits) -> SessionStore:
        return MemoryStore(limits=limits)

    await check(open_store)


@pytest.mark.spec("resume.no-cross-stream", "resume.event-id-unique")
@pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=_check_name)
async def test_sqlite_session_store_fulfills_contract(check: StoreCheck, tmp_path: Path) -> None:
    async def open_store(limits: Limits) -> SessionStore:
        return SqliteStore(tmp_path / "sessions.sqlite", limits=limits)

    await check(open_store)


class _DroppingStore(MemoryStore):
    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        await super().append(session, events[:1])


class _NeverDeletingStore(MemoryStore):
    async def delete(self, id: str) -> None:
        pass


class _LimitIgnoringStore(MemoryStore):
    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        with suppress(LimitExceeded):
            return await super().begin(session, pending, worker=worker)
        return 0


class _IdConvertingStore(MemoryStore):
    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        return await super().begin(session, [str(id) for id in pending], worker=worker)


class _NumberRepeatingStore(MemoryStore):
    async def begin(self, session: str, pending: Sequence[RequestId], *, worker: str) -> int:
        await super().begin(session, pending, worker=worker)
        return 1


class _RestoringStore(MemoryStore):
    async def touch(self, id: str, used_at: float) -> bool:
        await self.save(attrs.evolve(_RECORD, id=id, used_at=used_at))
        return True


class _UnboundedStore(MemoryStore):
    def __init__(self, *, limits: Limits) -> None:
        super().__init__(limits=attrs.evolve(limits, replay_events=1_000_000))


class _UnclosableStore(MemoryStore):
    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    "kind",
    [
        _DroppingStore,
        _NeverDeletingStore,
        _LimitIgnoringStore,
        _IdConvertingStore,
        _NumberRepeatingStore,
        _RestoringStore,
        _UnboundedStore,
        _UnclosableStore,
    ],
)
async def test_contract_detects_broken_store(kind: type[MemoryStore]) -> None:
    async def open_store(limits: Limits) -> SessionStore:
        return kind(limits=limits)

    broken = []
    for check in STORE_CHECKS:
        try:
            await check(open_store)
        except (AssertionError, LocalProtocolError):
            broken.append(check)
    assert broken
    assert len(broken) < len(STORE_CHECKS)


# --- equivalence of the stores ---------------------------------------------------------------------------------------

_IDS = st.sampled_from((1, "1", 2, "b"))
_OPERATIONS = st.one_of(
    st.tuples(st.just("begin"), st.lists(_IDS, max_size=3, unique_by=lambda id: (type(id), id))),
    st.tuples(st.just("append"), st.integers(1, 8), st.integers(0, 3), st.none() | _IDS),
    st.tuples(st.just("delivered"), st.integers(1, 8)),
    st.tuples(st.just("events"), st.integers(1, 8), st.integers(0, 4)),
    st.tuples(st.just("streams")),
    st.tuples(st.just("delete")),
)


async def _run_operation(store: SessionStore, operation: tuple[object, ...]) -> object:
    match operation:
        case "begin", list(pending):
            return await store.begin("a", pending, worker="w")
        case "append", int(stream), int(ahead), id:
            last = next((each.last for each in await store.streams("a") if each.stream == stream), 0)
            answers = id if isinstance(id, int | str) else None
            await store.append("a", [StoredEvent(stream, last + ahead, b"%d" % ahead, answers)])
        case "delivered", int(stream):
            await store.delivered("a", stream)
        case "events", int(stream), int(after):
            return await store.events("a", stream, after)
        case ("delete",):
            await store.delete("a")
            await store.save(_RECORD)
    return [each for each in await store.streams("a") if each.last or each.pending]


async def _run_operations(store: SessionStore, operations: Sequence[tuple[object, ...]]) -> list[object]:
    outcomes: list[object] = []
    await store.save(_RECORD)
    for operation in operations:
        try:
            outcomes.append(await _run_operation(store, operation))
        except (LocalProtocolError, LimitExceeded) as error:
            outcomes.append(type(error))
    await store.aclose()
    return outcomes


@pytest.mark.property
@given(st.lists(_OPERATIONS, max_size=30))
def test_sqlite_store_behaves_as_memory_store(operations: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        in_memory = trio.run(_run_operations, MemoryStore(), operations)
        in_file = trio.run(_run_operations, SqliteStore(Path(folder) / "sessions.sqlite"), operations)
    assert in_file == in_memory


# --- the SQLite file -------------------------------------------------------------------------------------------------

_WRITER = """
import sys, trio
from mcp_server.stores.sqlite.sessions import SqliteStore
from mcp_server.stores.sessions import SessionRecord, StoredEvent

async def main():
    store = SqliteStore(sys.argv[1])
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0))
    for _ in range(4):
        await store.begin("a", (1,), worker="w")
    async with trio.open_nursery() as nursery:
        for stream in range(1, 8, 2):
            nursery.start_soon(write, store, stream)

async def write(store, stream):
    number = 0
    while True:
        number += 1
        await store.append("a", [StoredEvent(stream, number, b"x" * 500)])
        sys.stdout.write(f"{stream} {number}\\n")
        sys.stdout.flush()

trio.run(main)
"""


async def test_sqlite_store_keeps_acknowledged_writes_after_kill(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    acknowledged = dict.fromkeys(range(1, 8, 2), 0)
    for attempt in range(3):
        with subprocess.Popen([sys.executable, "-c", _WRITER, path], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(150 * (attempt + 1)):
                stream, number = map(int, child.stdout.readline().split())
                acknowledged[stream] = number
            child.send_signal(signal.SIGKILL)
            # Output from before the kill counts as well; the last line may be incomplete.
            for line in child.stdout.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    stream, number = map(int, line.split())
                    acknowledged[stream] = number
        store = SqliteStore(path, limits=Limits(replay_events=100_000))
        for stream, number in acknowledged.items():
            numbers = [event.number for event in await store.events("a", stream, 0)]
            assert numbers == sorted(set(numbers))
            assert numbers[-1] in (number, number + 1)
        await store.delete("a")
        await store.aclose()


@pytest.mark.spec("elicitation.state-protected")
async def test_sqlite_file_readable_only_by_owner(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    path.touch(0o644)
    store = SqliteStore(path)
    await store.save(_RECORD)
    modes = {stat.S_IMODE(os.stat(each).st_mode) for each in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) > 1
    assert modes == {0o600}
    await store.aclose()
    assert list(tmp_path.iterdir()) == [path]


async def test_sqlite_file_opened_twice_raises(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"sessions\.sqlite is in use by another server: configure a separate"):
        SqliteStore(path)
    code = f"from mcp_server.stores.sqlite.sessions import SqliteStore; SqliteStore({str(path)!r})"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is in use by another server" in other.stderr
    await store.save(_RECORD)
    await store.aclose()
    reopened = SqliteStore(path)
    assert await reopened.load("a") == _RECORD
    await reopened.aclose()


def test_sqlite_store_leaves_database_of_other_application_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE important (x)")
    connection.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a database of another application and was not changed: use another file"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", [b"this is no database, but a text of some length " * 40, b"SQLite format 3\0broken"]
)
def test_sqlite_store_leaves_other_file_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"the store .*notes\.txt cannot be opened: file is not a database"):
        SqliteStore(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("relative_path", "reason"),
    [("missing/sessions.sqlite", "No such file or directory"), (".", "unable to open database file")],
)
def test_sqlite_store_at_invalid_path_raises(tmp_path: Path, relative_path: str, reason: str) -> None:
    with pytest.raises(StoreError, match=f"the store {tmp_path / relative_path} cannot be opened: .*{reason}"):
        SqliteStore(tmp_path / relative_path)


async def test_sqlite_write_error_raises_and_store_continues(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    await store.save(_RECORD)
    store.thread.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match=r"the store .*sessions\.sqlite failed: attempt to write a readonly database"):
        await store.begin("a", (1,), worker="w")
    assert await store.load("a") == _RECORD
    store.thread.connection.execute("PRAGMA query_only = OFF")
    await store.begin("a", (1,), worker="w")
    assert [each.stream for each in await store.streams("a")] == [1]
    await store.aclose()


async def test_sqlite_rollback_releases_event_limit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite", limits=Limits(replay_events=2))
    await store.save(_RECORD)
    await store.begin("a", (1, 2, 3), worker="w")
    # The write fails after the first two events.
    last = StoredEvent(1, 3, None)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(StoreError, match="constraint failed"):
        await store.append("a", [StoredEvent(1, 1, b"", 1), StoredEvent(1, 2, b"", 2), last])
    assert await store.events("a", 1, 0) == ()
    await store.begin("a", (1,), worker="w")
    await store.aclose()


async def test_sqlite_unencodable_value_fails_only_its_caller(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    failures = []

    async def save_surrogate() -> None:
        try:
            await store.save(attrs.evolve(_RECORD, id="b", principal="\ud800"))
        except UnicodeEncodeError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(store.save, _RECORD)
            nursery.start_soon(save_surrogate)
    assert len(failures) == 5
    assert await store.load("a") == _RECORD
    assert await store.load("b") is None
    await store.aclose()


async def test_sqlite_close_completes_pending_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    await store.save(_RECORD)
    await store.begin("a", (1,), worker="w")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.append, "a", [StoredEvent(1, 1, b"{}")])
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    assert store.thread._thread is not None
    store.thread._thread.join()
    reopened = SqliteStore(tmp_path / "sessions.sqlite")
    assert [event.data for event in await reopened.events("a", 1, 0)] in ([], [b"{}"])
    assert await reopened.load("a") == _RECORD
    await reopened.aclose()


def test_process_ends_with_unclosed_sqlite_store(tmp_path: Path) -> None:
    code = (
        "import trio\n"
        "from mcp_server.stores.sqlite.sessions import SqliteStore\n"
        f"store = SqliteStore({str(tmp_path / 'sessions.sqlite')!r})\n"
        "async def main():\n"
        "    with trio.move_on_after(0):\n"
        "        await store.purge(1.0, 1.0)\n"
        "trio.run(main)\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=30, check=True)


def test_sqlite_path_resolved_at_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sessions.sqlite")
    assert repr(store) == f"<SqliteStore {tmp_path / 'sessions.sqlite'}>"
    trio.run(store.aclose)


async def test_memory_store_repr_has_session_count() -> None:
    store = MemoryStore()
    await store.save(_RECORD)
    assert repr(store) == "<MemoryStore of 1 sessions>"


async def _add_session_with_events(store: MemoryStore, id: str, *sizes: int, pending: tuple[int, ...] = ()) -> None:
    """Save a session with a stream of events; the last event responds to the pending request."""
    await store.save(attrs.evolve(_RECORD, id=id))
    await store.begin(id, pending or (0,), worker="w")
    for number, size in enumerate(sizes, 1):
        answers = pending[0] if pending and number == len(sizes) else None
        await store.append(id, [StoredEvent(1, number, b"x" * size, answers)])


async def _event_numbers(store: MemoryStore, id: str) -> list[int]:
    return [event.number for event in await store.events(id, 1, 0)]


async def test_memory_store_over_byte_limit_evicts_oldest_events() -> None:
    store = MemoryStore(limits=Limits(stored_bytes=1_000))
    await _add_session_with_events(store, "a", 300, 300)
    await _add_session_with_events(store, "b", 300, 50)
    assert await store.events("a", 1, 0)
    await _add_session_with_events(store, "c", 200)
    # Only the newest event of the first session remains.
    assert [event.number for event in await store.events("a", 1, 1)] == [2]
    assert store._bytes == 850
    assert await _event_numbers(store, "b") == [1, 2]
    assert await _event_numbers(store, "c") == [1]


async def test_memory_store_evicts_events_of_largest_session_first() -> None:
    store = MemoryStore(limits=Limits(stored_bytes=1_000))
    await _add_session_with_events(store, "small", 50, 50)
    await _add_session_with_events(store, "large", 300, 300, 200)
    await _add_session_with_events(store, "new", 200)
    assert await _event_numbers(store, "small") == [1, 2]
    assert await _event_numbers(store, "large") == [3]
    assert await _event_numbers(store, "new") == [1]


async def test_memory_store_with_only_responses_evicts_streams() -> None:
    store = MemoryStore(limits=Limits(stored_bytes=1_000))
    for id in ("a", "b", "c"):
        await _add_session_with_events(store, id, 400, pending=(1,))
    assert await _event_numbers(store, "a") == []
    assert await store.streams("a") == (StoredStream(1, 0),)
    # The stream still runs, and a later stream has another number.
    await store.append("a", [StoredEvent(1, 2, b"x")])
    assert await store.begin("a", (1,), worker="w") == 3
    assert await _event_numbers(store, "b") == [1]
    assert await _event_numbers(store, "c") == [1]
    assert store._bytes == 800


async def test_memory_store_byte_count_matches_contents() -> None:
    store = MemoryStore(limits=Limits(stored_bytes=10_000, sessions=2))
    await _add_session_with_events(store, "a", 100, 100)
    await _add_session_with_events(store, "b", 100, pending=(1,))
    await store.delivered("b", 1)
    await _add_session_with_events(store, "c", 50)
    assert store._bytes == 150
    await store.delete("b")
    assert store._bytes == 50
    assert await store.purge(_RECORD.used_at + 1, 9.0) == 1
    assert store._bytes == 0


# --- change notifications --------------------------------------------------------------------------------------------

_TOOLS = PendingNotification("notifications/tools/list_changed")


async def test_frequent_notifications_are_coalesced_in_write_queue(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    await store.save(_RECORD)
    await store.subscribe("a", "test://x")
    released = threading.Event()
    store.thread.order(released.wait, lambda _: None)  # type: ignore[arg-type]  # the return value is not used
    count = store.thread.requested
    updates = [PendingNotification("notifications/resources/updated", f"test://x/{number}") for number in range(3)]
    for _ in range(10_000):
        for each in (*updates, _TOOLS):
            store.record_notification(each)
    assert store.thread.requested == count + 1
    released.set()
    assert await store.pending_notifications("a") == (*updates, _TOOLS)
    store.record_notification(_TOOLS)
    assert store.thread.requested == count + 3
    await store.aclose()


async def test_notification_after_event_is_recorded_after_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    await store.save(_RECORD)
    await store.begin("a", (), worker="w")
    released = threading.Event()
    store.thread.order(released.wait, lambda _: None)  # type: ignore[arg-type]  # the return value is not used
    store.record_notification(_TOOLS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.append, "a", [StoredEvent(2, 1, b"{}", notification=_TOOLS)])
        await trio.testing.wait_all_tasks_blocked()
        store.record_notification(_TOOLS)
        released.set()
    assert await store.pending_notifications("a") == (_TOOLS,)
    await store.aclose()


async def test_notification_write_error_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    await store.save(_RECORD)
    for expected in (1, 2):
        store.thread.connection.execute("PRAGMA query_only = ON")
        for _ in range(3):
            store.record_notification(_TOOLS)
            await store.load("a")
        assert len(caplog.records) == expected
        store.thread.connection.execute("PRAGMA query_only = OFF")
        store.record_notification(_TOOLS)
        assert await store.pending_notifications("a") == (_TOOLS,)
    assert "changes cannot be recorded" in caplog.records[0].getMessage()
    assert "sessions.sqlite failed: attempt to write a readonly database" in caplog.records[0].getMessage()
    await store.aclose()


class _NotificationIgnoringStore(SqliteStore):
    def record_notification(self, notification: PendingNotification) -> None:
        pass


class _RepeatingStore(SqliteStore):
    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        await super().append(session, [attrs.evolve(each, notification=None) for each in events])


class _NonAtomicStore(SqliteStore):
    async def append(self, session: str, events: Sequence[StoredEvent]) -> None:
        await self.remove_notifications(session, [each.notification for each in events if each.notification])
        await super().append(session, events)


@pytest.mark.parametrize("kind", [_NotificationIgnoringStore, _RepeatingStore, _NonAtomicStore])
async def test_contract_detects_lost_or_repeated_notifications(kind: type[SqliteStore], tmp_path: Path) -> None:
    broken = []
    for number, check in enumerate(DURABLE_STORE_CHECKS):
        folder = tmp_path / str(number)
        folder.mkdir()

        async def open_store(limits: Limits, folder: Path = folder) -> SessionStore:
            return kind(folder / "sessions.sqlite", limits=limits)

        try:
            await check(open_store)
        except AssertionError:
            broken.append(check)
    assert broken
    assert len(broken) < len(DURABLE_STORE_CHECKS)


async def test_memory_store_charges_streams_without_events() -> None:
    budget = MemoryBudget(1024 * 1024)
    store = MemoryStore(budget=budget)
    await store.save(_RECORD)
    begun = 0
    with suppress(LimitExceeded):
        while begun < 10_000:
            await store.begin(_RECORD.id, [begun], worker="w")
            begun += 1
    assert 1_000 < begun < 10_000
    for stream in range(1, 2 * begun, 2):
        await store.delivered(_RECORD.id, stream)
    assert (budget.used, budget.owners) == (0, 0)


async def test_stream_whose_events_are_refused_is_not_kept() -> None:
    budget = MemoryBudget(1024 * 1024)
    store = MemoryStore(budget=budget)
    await store.save(_RECORD)
    log: Log[object] = Log(store, StoreFailures(), _RECORD.id, cluster=LocalCluster(), priming=True)
    stream = await log.begin([1])
    assert not await log.append(stream, 0, [(bytes(1024 * 1024), 1, None)])
    assert [each.pending for each in await store.streams(_RECORD.id)] == [()]
    assert budget.used == 0
