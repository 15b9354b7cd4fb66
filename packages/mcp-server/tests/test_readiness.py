"""Health checks of an endpoint: whether the process is alive, and whether it is ready for requests."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from http_hosts import HOSTS, RawHttp, served

from mcp_server import Server, TaskPolicy
from mcp_server.stores import MemoryStore, MemoryTaskStore, SessionRecord, StoreError, TaskRecord
from mcp_server.transports.http.readiness import Readiness


class FailingStore(MemoryStore):
    """A session store that fails on demand, and counts what it loads."""

    fails = False
    loads = 0

    async def load(self, id: str) -> SessionRecord | None:
        self.loads += 1
        if self.fails:
            raise StoreError("the disk of /secret/place is full")
        return await super().load(id)


class FailingTaskStore(MemoryTaskStore):
    """A task store that fails on demand."""

    fails = False

    async def load(self, id: str) -> TaskRecord | None:
        if self.fails:
            raise StoreError("the disk of /secret/place is full")
        return await super().load(id)


@pytest.mark.parametrize("kind", HOSTS)
async def test_readiness_follows_store_on_each_host(kind: str) -> None:
    store = FailingStore()
    app = Server("s", version="1").asgi(healthz="/healthz", readyz="/readyz", store=store)
    async with served(app, kind) as url:
        client = await RawHttp.to(url)
        ready = await client.get("/readyz")
        assert (ready.status, ready.body, ready.headers["cache-control"]) == (200, b"ok\n", "no-store")
        store.fails = True
        app._readiness._checked_at = -1e9  # as if a second had passed
        refused = await client.get("/readyz")
        assert (refused.status, refused.body) == (503, b"not ready\n")
        assert (await client.get("/healthz")).status == 200
        await client.stream.aclose()


async def test_readiness_requires_task_store() -> None:
    store = FailingTaskStore()
    server = Server("s", version="1", tasks=TaskPolicy(store=store))

    @server.tool(task="optional")
    async def work() -> None: ...

    app = server.asgi(readyz="/readyz")
    async with server.running(), served(app, "embedded") as url:
        client = await RawHttp.to(url)
        assert (await client.get("/readyz")).status == 200
        store.fails = True
        app._readiness._checked_at = -1e9
        assert (await client.get("/readyz")).status == 503
        await client.stream.aclose()


@pytest.mark.parametrize("flag", ["leaving", "draining"])
async def test_stopping_endpoint_is_alive_but_not_ready(flag: str) -> None:
    app = Server("s", version="1").asgi(healthz="/healthz", readyz="/readyz")
    async with served(app, "embedded") as url:
        client = await RawHttp.to(url)
        assert (await client.get("/readyz")).status == 200
        if flag == "leaving":
            app.leaving = True
        else:
            await app.drain(0)
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/healthz")).status == 200
        await client.stream.aclose()


async def test_checks_share_request_to_store(autojump_clock: trio.testing.MockClock) -> None:
    runs = 0

    async def check() -> None:
        nonlocal runs
        runs += 1
        await trio.sleep(0.5)

    readiness = Readiness(check)
    results: list[bool] = []

    async def ask() -> None:
        results.append(await readiness.stores_respond())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
    assert (results, runs) == ([True] * 10, 1)
    await trio.sleep(0.9)
    await ask()
    assert runs == 1
    await trio.sleep(0.2)
    await ask()
    assert runs == 2


async def test_silent_store_is_not_ready(autojump_clock: trio.testing.MockClock) -> None:
    assert not await Readiness(trio.sleep_forever).stores_respond()


async def test_cancelled_check_is_run_again(autojump_clock: trio.testing.MockClock) -> None:
    waits = [trio.sleep_forever, trio.lowlevel.checkpoint]

    async def check() -> None:
        await waits.pop(0)()

    readiness = Readiness(check)
    with trio.move_on_after(0.1):
        await readiness.stores_respond()
    assert await readiness.stores_respond()
