"""The stores on Redis: their contract, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis_proxy import Faults, open_proxy
from redis_server import RedisServer, open_redis
from redis_testbed import open_workers

from mcp_core.limits import Limits
from mcp_server.stores import SessionStore, TaskStore
from mcp_server.stores.contract import (
    DURABLE_STORE_CHECKS,
    DURABLE_TASK_STORE_CHECKS,
    STORE_CHECKS,
    TASK_STORE_CHECKS,
    StoreCheck,
    TaskStoreCheck,
)


def _name(check: object) -> str:
    return getattr(check, "__name__", "?")


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with open_redis(tmp_path / "redis") as server:
        yield server


@pytest.mark.spec("resume.no-cross-stream", "resume.event-id-unique")
@pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=_name)
async def test_redis_session_store_fulfills_contract(check: StoreCheck, redis: RedisServer) -> None:
    async with open_workers(redis.url) as workers:

        async def open_store(limits: Limits) -> SessionStore:
            return (await workers.open(limits)).sessions

        await check(open_store)


@pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=_name)
async def test_redis_task_store_fulfills_contract(check: TaskStoreCheck, redis: RedisServer) -> None:
    async with open_workers(redis.url) as workers:

        async def open_store(limits: Limits) -> TaskStore:
            return (await workers.open(limits)).tasks

        await check(open_store)


_FAULTS = {
    "lost replies": Faults(lost_replies=9),
    "slow replies in pieces": Faults(delay=0.005, piece=997),
}


@pytest.mark.parametrize("faults", _FAULTS.values(), ids=_FAULTS)
@pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=_name)
async def test_redis_session_store_fulfills_contract_with_faults(
    check: StoreCheck, faults: Faults, redis: RedisServer
) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        proxy.faults = faults

        async def open_store(limits: Limits) -> SessionStore:
            return (await workers.open(limits)).sessions

        await check(open_store)


@pytest.mark.parametrize("faults", _FAULTS.values(), ids=_FAULTS)
@pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=_name)
async def test_redis_task_store_fulfills_contract_with_faults(
    check: TaskStoreCheck, faults: Faults, redis: RedisServer
) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        proxy.faults = faults

        async def open_store(limits: Limits) -> TaskStore:
            return (await workers.open(limits)).tasks

        await check(open_store)
