"""The SQLite store of an authorization server: sharing between processes, and removal of expired rows."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest
import trio
from authorization_testbed import START, WEB, open_testbed

from mcp_server.auth.authorization_server import Lifetimes, MemoryStore, RegistrationPolicy, SqliteStore
from mcp_server.auth.authorization_server.model.records import add_grant, find_code, find_refresh
from mcp_server.auth.authorization_server.model.tables import sweep
from mcp_server.stores.sessions import StoreError

TABLES = ("clients", "pending", "grants", "codes", "refresh_tokens", "access_tokens", "seen")


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


async def test_expired_rows_removed_by_later_requests() -> None:
    async with open_testbed(lifetimes=Lifetimes(pending=10, refresh=700, unused_client=100, client=900)) as testbed:
        store = testbed.server.store
        await testbed.register({"redirect_uris": [WEB]})
        await testbed.pending()
        await testbed.refresh((await testbed.tokens()).text("refresh_token"))
        before = await store.run(counts)
        assert before == {
            "clients": 1,
            "pending": 1,
            "grants": 1,
            "codes": 1,
            "refresh_tokens": 2,
            "access_tokens": 2,
            "seen": 0,
        }
        testbed.clock.now += 601
        await testbed.redeem("x")
        assert (await store.run(counts)) == {**dict.fromkeys(TABLES, 0), "grants": 1, "codes": 1, "refresh_tokens": 2}
        testbed.clock.now += 100
        await testbed.redeem("x")
        assert await store.run(counts) == dict.fromkeys(TABLES, 0)


async def test_expired_rows_removed_in_small_portions() -> None:
    store = MemoryStore()

    def fill(connection: sqlite3.Connection) -> None:
        rows = [(str(n), float(n)) for n in range(120)]
        connection.executemany("INSERT INTO seen VALUES (?, ?)", rows)

    await store.run(fill)
    left = []
    for _ in range(4):
        await store.run(partial(sweep, now=START))
        left.append((await store.run(counts))["seen"])
    assert left == [70, 20, 0, 0]
    await store.aclose()


async def test_unknown_code_or_refresh_token_returns_none() -> None:
    store = MemoryStore()
    assert await store.run(lambda connection: find_code(connection, "x")) is None
    assert await store.run(lambda connection: find_refresh(connection, "x")) is None
    await store.aclose()


async def test_failed_transaction_rolled_back() -> None:
    store = MemoryStore()

    def fail_halfway(connection: sqlite3.Connection) -> None:
        add_grant(connection, client_id="a", subject="b", scope="", resource="", auth_time=None, expires_at=START)
        raise LookupError("the second half fails")

    with pytest.raises(LookupError):
        await store.run(fail_halfway)
    assert (await store.run(counts))["grants"] == 0
    await store.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await store.run(counts)
    assert repr(store) == "<MemoryStore :memory:>"


async def test_code_used_once_across_processes_sharing_file(tmp_path: Path) -> None:
    path = tmp_path / "as.sqlite"
    async with open_testbed(store=SqliteStore(path)) as one:
        code, first = await one.code(), await one.tokens()
        async with open_testbed(store=SqliteStore(path)) as other:
            assert (await other.get("/jwks")).json == (await one.get("/jwks")).json
            replies = []

            async def redeem() -> None:
                replies.append((await one.redeem(code)).status)

            async def redeem_too() -> None:
                replies.append((await other.redeem(code)).status)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(redeem)
                nursery.start_soon(redeem_too)
            assert sorted(replies) == [200, 400]
            assert (await other.refresh(first.text("refresh_token"))).status == 200
            assert (await one.refresh(first.text("refresh_token"))).error == "invalid_grant"


async def test_transaction_locks_other_writers_from_start(tmp_path: Path) -> None:
    path = tmp_path / "as.sqlite"
    store = SqliteStore(path)

    def read(connection: sqlite3.Connection) -> str:
        connection.execute("SELECT count(*) FROM codes").fetchone()
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return str(error)
        finally:
            other.close()
        return "not locked"

    assert await store.run(read) == "database is locked"
    await store.aclose()


async def test_registration_limit_counts_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "as.sqlite"
    policy = RegistrationPolicy(clients=1)
    async with (
        open_testbed(store=SqliteStore(path), policy=policy) as one,
        open_testbed(store=SqliteStore(path), policy=policy) as other,
    ):
        assert (await one.register({"redirect_uris": [WEB]})).status == 201
        assert (await other.register({"redirect_uris": [WEB]})).status == 503


def test_foreign_file_raises_and_is_not_changed(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(StoreError, match="database of another application"):
        SqliteStore(foreign)
    assert foreign.read_bytes() == before
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to look like one" * 20)
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(text)
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path / "nowhere" / "x")


async def test_file_of_other_format_version_raises(tmp_path: Path) -> None:
    path = tmp_path / "as.sqlite"
    await SqliteStore(path).aclose()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="has format 99, but this version of mcp_server supports format 2"):
        SqliteStore(path)
