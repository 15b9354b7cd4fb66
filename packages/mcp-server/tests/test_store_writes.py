"""The amount of data that a session store writes: the cost of a change must not depend on the stored data."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
from asgi_host import session
from controlled_server import ControlledServer

from mcp_core.revisions import R2025_11_25
from mcp_server.stores import SessionRecord, SqliteStore, StoredEvent

_RECORD = SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0)


def open_store(folder: Path) -> SqliteStore:
    """Open a store whose write-ahead log is never truncated."""
    store = SqliteStore(folder / "sessions.sqlite")
    store.thread.connection.execute("PRAGMA wal_autocheckpoint = 0")
    return store


def bytes_written(folder: Path) -> int:
    """Return the number of bytes written since the store was opened."""
    return (folder / "sessions.sqlite-wal").stat().st_size


async def test_subscription_over_http_writes_each_uri_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    uris = [f"memo://{number}-{'x' * 8_000}" for number in range(200)]
    async with session(ControlledServer().server.asgi(store=store), R2025_11_25) as client:
        before = bytes_written(tmp_path)
        for uri in uris:
            assert "result" in await client.ask("resources/subscribe", {"uri": uri})
        # Each URI is in the table and in its index, with the pages of the trees. One row for all would be 100 times it.
        assert bytes_written(tmp_path) - before < 10 * sum(map(len, uris))
        before = bytes_written(tmp_path)
        for uri in uris:
            assert "result" in await client.ask("resources/unsubscribe", {"uri": uri})
        assert bytes_written(tmp_path) - before < 10 * sum(map(len, uris))
    await store.aclose()


async def test_saved_session_does_not_rewrite_client(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    record = attrs.evolve(_RECORD, client={"clientInfo": {"name": "x" * 100_000}})
    await store.save(record)
    before = bytes_written(tmp_path)
    for number in range(20):
        await store.save(attrs.evolve(record, used_at=float(number), log_level="debug" if number % 2 else "error"))
    assert bytes_written(tmp_path) - before < 20 * 20_000
    changed = attrs.evolve(record, client={"clientInfo": {"name": "y"}})
    await store.save(changed)
    assert await store.load("a") == changed
    await store.aclose()


async def test_batch_response_does_not_rewrite_pending_ids(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.save(_RECORD)
    ids = [f"{number:0250}" for number in range(400)]
    await store.begin("a", ids, worker="w")
    before = bytes_written(tmp_path)
    for number, id in enumerate(ids, 1):
        await store.append("a", [StoredEvent(1, number, b"{}", id)])
    # A few pages of 4 KiB for each response, instead of all remaining ids.
    assert bytes_written(tmp_path) - before < len(ids) * 40_000 < len(ids) * len(json.dumps(ids)) / 2
    await store.aclose()
