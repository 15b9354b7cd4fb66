"""The file format of the session store, and the conversion of earlier formats."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mcp_core.limits import Limits
from mcp_server.stores import SessionRecord, SqliteStore, SqliteTaskStore, StoredEvent, StoreError
from mcp_server.stores.sessions import StoredStream

_VERSION_1 = """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, principal TEXT, revision TEXT NOT NULL, client TEXT NOT NULL,
        log_level TEXT, subscriptions TEXT NOT NULL, used_at REAL NOT NULL
    );
    CREATE INDEX sessions_by_use ON sessions (used_at);
    CREATE TABLE streams (
        session INTEGER NOT NULL, stream INTEGER NOT NULL, last INTEGER NOT NULL, "owed" TEXT NOT NULL,
        standalone INTEGER NOT NULL, over INTEGER NOT NULL, PRIMARY KEY (session, stream)
    ) WITHOUT ROWID;
    CREATE TABLE events (
        place INTEGER PRIMARY KEY, session INTEGER NOT NULL, stream INTEGER NOT NULL, number INTEGER NOT NULL,
        data BLOB NOT NULL, answers TEXT
    );
    CREATE UNIQUE INDEX events_by_number ON events (session, stream, number);

    INSERT INTO sessions VALUES (1, 'a', 'Ann Ü', '2025-11-25', '{"clientInfo": {"name": "x"}}', 'debug',
        '["test://a", "test://a", "half \\ud800", ""]', 1.5);
    INSERT INTO sessions VALUES (7, 'b', NULL, '2025-03-26', '{}', NULL, '[]', 2.5);
    INSERT INTO streams VALUES (1, 1, 2, '[1, "1", 1180591620717411303424]', 0, 0);
    INSERT INTO streams VALUES (1, 2, 1, '[]', 1, 0);
    INSERT INTO streams VALUES (1, 3, 1, '[]', 0, 1);
    INSERT INTO events VALUES (1, 1, 1, 1, X'7B7D', NULL);
    INSERT INTO events VALUES (2, 1, 1, 2, X'7B7D', '"b"');
    INSERT INTO events VALUES (3, 1, 2, 1, X'', NULL);
    INSERT INTO events VALUES (4, 1, 3, 1, X'7B7D', '9');

    PRAGMA application_id = 1296257139;
    PRAGMA user_version = 1;
"""


def make_version_1(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(f"PRAGMA journal_mode = WAL; BEGIN; {_VERSION_1} COMMIT;")
    connection.close()


async def test_version_1_file_converted_completely(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    make_version_1(path)
    # The first iteration converts the file, the second one only opens it.
    for _ in range(2):
        store = SqliteStore(path)
        assert await store.load("a") == SessionRecord(
            id="a",
            principal="Ann Ü",
            revision="2025-11-25",
            client={"clientInfo": {"name": "x"}},
            log_level="debug",
            used_at=1.5,
        )
        assert await store.subscriptions("a") == {"test://a", "half \ud800", ""}
        assert await store.subscriptions("b") == frozenset()
        assert await store.streams("a") == (
            StoredStream(1, 2, (1, "1", 2**70)),
            StoredStream(2, 1),
            StoredStream(3, 1),
        )
        assert await store.events("a", 1, 0) == (StoredEvent(1, 1, b"{}"), StoredEvent(1, 2, b"{}", "b"))
        assert await store.events("a", 3, 0) == (StoredEvent(3, 1, b"{}", 9),)
        record = await store.load("b")
        assert record is not None
        assert (record.principal, record.used_at) == (None, 2.5)
        await store.aclose()


async def test_sessions_of_converted_file_continue(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    make_version_1(path)
    store = SqliteStore(path, limits=Limits(sessions=2))
    await store.append("a", [StoredEvent(1, 3, b"{}", 1), StoredEvent(1, 4, b"{}", 2**70)])
    await store.subscribe("b", "test://b")
    await store.begin("a", (), worker="w")
    assert [each.pending for each in await store.streams("a")] == [("1",), (), (), ()]
    await store.save(SessionRecord(id="c", principal=None, revision="2025-11-25", client={}, used_at=3.0))
    assert await store.load("a") is None
    assert await store.load("b") is not None
    tasks = SqliteTaskStore(store)
    assert await tasks.unfinished() == ()
    await tasks.aclose()
    await store.aclose()


async def test_version_2_file_keeps_pending_requests(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    store = SqliteStore(path)
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=3.0))
    await store.begin("a", (5, "5"), worker="w")
    await store.aclose()
    with sqlite3.connect(path) as connection:
        connection.executescript(
            'ALTER TABLE pending RENAME TO "owed"; ALTER TABLE streams DROP COLUMN worker; PRAGMA user_version = 2'
        )
    connection.close()
    store = SqliteStore(path)
    assert await store.streams("a") == (StoredStream(1, 0, (5, "5")),)
    await store.append("a", [StoredEvent(1, 1, b"{}", 5)])
    assert [each.pending for each in await store.streams("a")] == [("5",)]
    await store.aclose()


async def test_version_3_file_has_streams_of_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    store = SqliteStore(path)
    await store.save(SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=3.0))
    await store.begin("a", (5,), worker="w")
    await store.aclose()
    with sqlite3.connect(path) as connection:
        connection.executescript("ALTER TABLE streams DROP COLUMN worker; PRAGMA user_version = 3")
    connection.close()
    store = SqliteStore(path)
    assert await store.begin("a", (6,), worker="w") == 3
    assert await store.streams("a") == (StoredStream(1, 0, (5,), ""), StoredStream(3, 0, (6,), "w"))
    await store.aclose()


def test_failed_conversion_leaves_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    make_version_1(path)
    with sqlite3.connect(path) as connection:
        # The last table to convert is invalid, so that much was written before the failure.
        connection.execute("INSERT INTO streams VALUES (7, 1, 0, 'no JSON', 0, 0)")
    connection.close()
    with pytest.raises(
        StoreError, match=r"the store .*sessions\.sqlite of format 1 cannot be converted: Expecting value"
    ):
        SqliteStore(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (2,)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert tables == {"sessions", "streams", "events"}
        connection.execute("DELETE FROM streams WHERE session = 7")
    connection.close()
    SqliteStore(path).thread.connection.close()


@pytest.mark.parametrize("version", [0, 5, 4_000])
async def test_file_of_unknown_version_raises(tmp_path: Path, version: int) -> None:
    path = tmp_path / "sessions.sqlite"
    await SqliteStore(path).aclose()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    message = f"has format {version}, but this version of mcp_server supports formats up to 4: use the version"
    with pytest.raises(StoreError, match=message):
        SqliteStore(path)
