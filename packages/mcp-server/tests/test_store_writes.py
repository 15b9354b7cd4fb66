"""How much a session store writes to its file: what a change costs must not depend on what is kept already."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
from asgi_host import session
from http_gate import Gate

from mcp_core.revisions import R2025_11_25
from mcp_server import SessionRecord, SqliteStore, StoredEvent

_RECORD = SessionRecord(id="a", principal=None, revision="2025-11-25", client={}, used_at=1.0)


def open_counted(folder: Path) -> SqliteStore:
    """Open a store whose write-ahead log only grows."""
    store = SqliteStore(folder / "sessions.sqlite")
    store.thread.connection.execute("PRAGMA wal_autocheckpoint = 0")
    return store


def written(folder: Path) -> int:
    """Return how many bytes were written since the store was opened."""
    return (folder / "sessions.sqlite-wal").stat().st_size


async def test_subscribing_over_http_writes_each_uri_only_once(tmp_path: Path) -> None:
    store = open_counted(tmp_path)
    uris = [f"memo://{number}-{'x' * 8_000}" for number in range(200)]
    async with session(Gate().server.asgi(store=store), R2025_11_25) as client:
        before = written(tmp_path)
        for uri in uris:
            assert "result" in await client.ask("resources/subscribe", {"uri": uri})
        # Once in the table and once in its index, with the pages of the trees: all in one row would be a hundred times.
        assert written(tmp_path) - before < 10 * sum(map(len, uris))
        before = written(tmp_path)
        for uri in uris:
            assert "result" in await client.ask("resources/unsubscribe", {"uri": uri})
        assert written(tmp_path) - before < 10 * sum(map(len, uris))
    await store.aclose()


async def test_saving_a_session_again_does_not_write_its_client_again(tmp_path: Path) -> None:
    store = open_counted(tmp_path)
    record = attrs.evolve(_RECORD, client={"clientInfo": {"name": "x" * 100_000}})
    await store.save(record)
    before = written(tmp_path)
    for number in range(20):
        await store.save(attrs.evolve(record, used_at=float(number), log_level="debug" if number % 2 else "error"))
    assert written(tmp_path) - before < 20 * 20_000
    changed = attrs.evolve(record, client={"clientInfo": {"name": "y"}})
    await store.save(changed)
    assert await store.load("a") == changed
    await store.aclose()


async def test_answering_a_batch_does_not_write_what_is_still_owed_again(tmp_path: Path) -> None:
    store = open_counted(tmp_path)
    await store.save(_RECORD)
    ids = [f"{number:0250}" for number in range(400)]
    await store.begin("a", 1, ids)
    before = written(tmp_path)
    for number, id in enumerate(ids, 1):
        await store.append("a", [StoredEvent(1, number, b"{}", id)])
    # Some pages of 4 KiB for each, instead of all ids that are left.
    assert written(tmp_path) - before < len(ids) * 40_000 < len(ids) * len(json.dumps(ids)) / 2
    await store.aclose()
