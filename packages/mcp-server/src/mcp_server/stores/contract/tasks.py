"""Checks for stores of tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_core.features.tasks import TaskState
from mcp_core.limits import Limits
from mcp_server.stores.contract.assertions import refused, same, true
from mcp_server.stores.tasks import TaskClaimed, TaskOrder, TaskRecord, TaskStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

__all__ = ["DURABLE_TASK_STORE_CHECKS", "TASK_STORE_CHECKS", "OpenTaskStore", "TaskStoreCheck"]

OpenTaskStore: TypeAlias = Callable[[Limits], Awaitable[TaskStore]]
"""A function that opens the store with these bounds. Within one check it opens the same store, at first empty."""

TaskStoreCheck: TypeAlias = Callable[[OpenTaskStore], Awaitable[None]]
"""A check of a store of tasks. It raises `AssertionError` if the store breaks the rule."""

_ROOMY: Final = Limits()

_STATE: Final = TaskState(
    id="task-1",
    status="input_required",
    created_at=1_700_000_000.25,
    updated_at=1_700_000_001.5,
    ttl=60_000,
    poll_interval=500,
    message="half ü",
)

_RECORD: Final = TaskRecord(
    state=_STATE,
    owner="Ann Ü",
    tool="work",
    params={"name": "work", "arguments": {"large": 2**70, "list": [1.5, None, True, "ü\n\ud83d"]}},
    revision="2025-11-25",
    capabilities={"elicitation": {}},
    client_info={"name": "x", "version": "1"},
    answers={"q-1": {"action": "accept", "content": {"name": "Bob"}}},
    once={"paid": None, "booked": [1, 2]},
    input_requests={"q-2": {"method": "roots/list"}},
    session="session-1",
    worker="worker-1",
    token=1,
)


def _task(id: str, owner: str | None = "Ann", *, at: float = 0.0, ttl: int | None = 60_000) -> TaskRecord:
    state = TaskState(id=id, created_at=at, updated_at=at, ttl=ttl, poll_interval=None)
    return TaskRecord(state=state, owner=owner, tool="work", params={}, revision="2026-07-28", capabilities={})


def _ended(record: TaskRecord, text: str = "done") -> TaskRecord:
    state = record.state.moved("completed", record.state.updated_at, result={"content": [], "text": text})
    return attrs.evolve(record, state=state)


@asynccontextmanager
async def _opened(open_store: OpenTaskStore, limits: Limits = _ROOMY) -> AsyncIterator[TaskStore]:
    store = await open_store(limits)
    try:
        yield store
    finally:
        await store.aclose()


def _ids(records: Iterable[TaskRecord]) -> list[str]:
    return [record.state.id for record in records]


async def saved_task_loads_unchanged(open_store: OpenTaskStore) -> None:
    """Check that every field is returned with the same value and type."""
    failed = _task("task-2", None, ttl=None)
    failed = attrs.evolve(failed, state=failed.state.moved("failed", 1.0, error={"code": -1, "message": "no"}))
    async with _opened(open_store) as store:
        for record in (_RECORD, failed):
            await store.create(record)
            same(await store.load(record.state.id), record, f"the record of {record.state.id}")


async def unknown_task_is_not_found(open_store: OpenTaskStore) -> None:
    """Check that an unknown task has no data, and that calls about it have no effect."""
    async with _opened(open_store) as store:
        await store.save(_task("unknown"))
        await store.delete("unknown")
        same(await store.load("unknown"), None, "the record of an unknown task")
        same(await store.listed("Ann", None, 10), (), "the tasks of an owner without tasks")
        same(await store.unfinished(), (), "the unfinished tasks")
        same(await store.purge(0.0, 0.0), None, "the expiry of the next task")


async def saved_again_task_is_replaced(open_store: OpenTaskStore) -> None:
    """Check that the latest saved state is returned, and that saving does not restore a deleted task."""
    async with _opened(open_store) as store:
        record = _task("task-1")
        await store.create(record)
        await store.save(_ended(record))
        same(await store.load("task-1"), _ended(record), "the record of the completed task")
        await store.delete("task-1")
        await store.save(_ended(record))
        same(await store.load("task-1"), None, "a deleted task")


async def tasks_are_listed_by_age_for_their_owner(open_store: OpenTaskStore) -> None:
    """Check that tasks are listed by age, after a position, up to a number, and only for their owner."""
    async with _opened(open_store) as store:
        for record in (_task("c", at=2), _task("a", at=1), _task("b", at=1), _task("x", "Bob", at=1), _task("y", None)):
            await store.create(record)
        same(_ids(await store.listed("Ann", None, 10)), ["a", "b", "c"], "the tasks of Ann")
        same(_ids(await store.listed("Ann", None, 2)), ["a", "b"], "the first two tasks of Ann")
        same(_ids(await store.listed("Ann", TaskOrder(1, "a"), 10)), ["b", "c"], "the tasks after the first")
        await store.delete("b")
        same(_ids(await store.listed("Ann", TaskOrder(1, "b"), 10)), ["c"], "the tasks after a deleted task")
        same(_ids(await store.listed("Bob", None, 10)), ["x"], "the tasks of Bob")


async def unfinished_tasks_are_found(open_store: OpenTaskStore) -> None:
    """Check that the unfinished tasks of all owners are returned, the oldest first."""
    async with _opened(open_store) as store:
        for record in (_task("b", at=2), _task("a", None, at=1), _task("c", at=3)):
            await store.create(record)
        await store.save(_ended(_task("c", at=3)))
        same(_ids(await store.unfinished()), ["a", "b"], "the unfinished tasks")


async def expired_tasks_are_removed(open_store: OpenTaskStore) -> None:
    """Check that a task is purged when its time to live has passed, and never if it has no time to live."""
    async with _opened(open_store) as store:
        for record in (_task("a", ttl=1_000), _task("b", "Bob", ttl=5_000), _task("c", ttl=None)):
            await store.create(record)
        same(await store.purge(0.5, 0.5), 1.0, "the expiry of the next task")
        same(_ids(await store.unfinished()), ["a", "b", "c"], "the tasks before their time has passed")
        same(await store.purge(1.0, 1.0), 5.0, "the expiry of the next task")
        same(_ids(await store.unfinished()), ["b", "c"], "the tasks after the first has expired")
        same(await store.purge(1e12, 1e12), None, "the expiry of the next task")
        same(_ids(await store.unfinished()), ["c"], "the tasks that do not expire")


async def task_with_future_time_expires_from_now(open_store: OpenTaskStore) -> None:
    """Check that a task created in the future expires as if it was created now, because the clock was set back."""
    async with _opened(open_store) as store:
        for record in (_task("a", at=1e9, ttl=5_000), _task("b", at=99.0, ttl=5_000), _task("c", at=1e9, ttl=None)):
            await store.create(record)
        for now, due in ((100.0, 104.0), (102.0, 104.0), (104.0, 105.0)):
            same(await store.purge(now, now), due, "the expiry of the next task")
        same(sorted(_ids(await store.unfinished())), ["a", "c"], "the tasks before their time has passed")
        await store.create(_task("d", at=1e8, ttl=2_000))
        await store.save(_ended(_task("a", at=1e9, ttl=5_000)))
        same(await store.purge(104.5, 104.5), 105.0, "the expiry of the next task")
        same(await store.purge(105.0, 105.0), 106.5, "the expiry of the next task")
        same(await store.load("a"), None, "the expired task")
    async with _opened(open_store) as store:
        await store.create(_task("e", at=1e9, ttl=1_000))
        await store.purge(100.0, 100.0)
        await store.purge(106.5, 106.5)
        same(_ids([each for each in await store.unfinished() if each.state.id != "c"]), [], "the tasks that expire")


async def tasks_have_count_limit_per_owner(open_store: OpenTaskStore) -> None:
    """Check that a task above the bound is rejected for its owner only, and accepted after a deletion."""
    async with _opened(open_store, Limits(tasks=2)) as store:
        for owner in ("Ann", "Bob", None):
            for number in (1, 2):
                await store.create(_task(f"{owner}-{number}", owner))
            await refused(LimitExceeded, store.create(_task(f"{owner}-3", owner)), "a third task")
            same(await store.load(f"{owner}-3"), None, "the rejected task")
        await store.delete("Ann-1")
        await store.create(_task("Ann-3"))
        same(_ids(await store.listed("Ann", None, 10)), ["Ann-2", "Ann-3"], "the tasks of Ann")


async def running_tasks_have_count_limit_per_owner(open_store: OpenTaskStore) -> None:
    """Check that the tasks of an owner that have not ended are limited, and that ended tasks do not count."""
    async with _opened(open_store, Limits(tasks=5, running_tasks=2)) as store:
        for owner in ("Ann", None):
            for number in (1, 2):
                await store.create(_task(f"{owner}-{number}", owner))
            await refused(LimitExceeded, store.create(_task(f"{owner}-3", owner)), "a third running task")
            await store.save(_ended(_task(f"{owner}-1", owner)))
            await store.create(_task(f"{owner}-3", owner))


async def tasks_have_byte_limit_per_owner(open_store: OpenTaskStore) -> None:
    """Check that a task that is too large is rejected, when new and when it grows, and that stored tasks stay."""
    async with _opened(open_store, Limits(task_bytes=2_000)) as store:
        record = _task("a")
        await store.create(record)
        await refused(LimitExceeded, store.save(_ended(record, "x" * 2_000)), "a result that is too large")
        same(await store.load("a"), record, "the task whose result was rejected")
        await store.save(_ended(record, "x" * 500))
        large = attrs.evolve(_task("b"), params={"text": "x" * 1_000})
        await refused(LimitExceeded, store.create(large), "a task that is too large together with the other task")
        await store.save(_ended(record))
        await store.create(large)
        await store.create(attrs.evolve(large, owner="Bob", state=attrs.evolve(large.state, id="c")))


async def concurrent_writes_apply_in_order(open_store: OpenTaskStore) -> None:
    """Check that the last of several concurrent saves wins."""
    async with _opened(open_store) as store:
        record = _task("a")
        await store.create(record)
        async with trio.open_nursery() as nursery:
            for number in range(20):

                async def save(text: str = str(number)) -> None:
                    await store.save(attrs.evolve(record, once={"n": text}))

                await _begun(nursery, save)
        found = await store.load("a")
        true(found is not None and found.once == {"n": "19"}, "the last save did not take effect last")


async def _begun(nursery: trio.Nursery, function: Callable[[], Awaitable[None]]) -> None:
    """Start a function in the nursery, and return when it has started, so that later calls come after it."""

    async def run(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await function()

    await nursery.start(run)


async def claimed_task_has_one_worker(open_store: OpenTaskStore) -> None:
    """Check that one of several claims succeeds, and that records with an earlier token are rejected afterward."""
    async with _opened(open_store) as store:
        record = attrs.evolve(_task("a"), worker="first", token=3)
        await store.create(record)
        claims = list[TaskRecord]()

        async def claim(worker: str) -> None:
            if (mine := await store.claim(record, worker)) is not None:
                claims.append(mine)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(claim, f"worker-{number}")
        same(len(claims), 1, "the claims that succeeded")
        mine = claims[0]
        same(mine, attrs.evolve(record, worker=mine.worker, token=4), "the claimed record")
        same(await store.load("a"), mine, "the stored record")
        await refused(TaskClaimed, store.save(_ended(record)), "a record of the previous worker")
        same(await store.load("a"), mine, "the record after a rejected one")
        await store.save(attrs.evolve(mine, once={"paid": True}))
        again = await store.claim(mine, "last")
        same(again, attrs.evolve(mine, once={"paid": True}, worker="last", token=5), "the record, claimed again")


async def ended_or_unknown_task_is_not_claimed(open_store: OpenTaskStore) -> None:
    """Check that a task that has ended, or does not exist, cannot be claimed."""
    async with _opened(open_store) as store:
        record = _task("a")
        same(await store.claim(record, "worker"), None, "the claim of an unknown task")
        await store.create(record)
        await store.save(_ended(record))
        same(await store.claim(record, "worker"), None, "the claim of a task that has ended")
        same(await store.load("a"), _ended(record), "the task that has ended")


async def closed_store_raises(open_store: OpenTaskStore) -> None:
    """Check that calls of a closed store raise `trio.ClosedResourceError`, and that closing it again does not."""
    store = await open_store(_ROOMY)
    await store.aclose()
    await store.aclose()
    await refused(trio.ClosedResourceError, store.create(_RECORD), "create on a closed store")
    await refused(trio.ClosedResourceError, store.save(_RECORD), "save on a closed store")
    await refused(trio.ClosedResourceError, store.claim(_RECORD, "worker"), "claim on a closed store")
    await refused(trio.ClosedResourceError, store.load("task-1"), "load on a closed store")
    await refused(trio.ClosedResourceError, store.delete("task-1"), "delete on a closed store")
    await refused(trio.ClosedResourceError, store.listed("Ann", None, 1), "listed on a closed store")
    await refused(trio.ClosedResourceError, store.unfinished(), "unfinished on a closed store")
    await refused(trio.ClosedResourceError, store.purge(0.0, 0.0), "purge on a closed store")


async def reopened_store_has_all_records(open_store: OpenTaskStore) -> None:
    """Check that tasks outlive the process, and that the bounds include them."""
    limits = Limits(tasks=2)
    async with _opened(open_store, limits) as store:
        await store.create(attrs.evolve(_RECORD, owner="Ann"))
        await store.create(_task("task-2"))
        await store.save(_ended(_task("task-2")))
    async with _opened(open_store, limits) as store:
        same(await store.load("task-1"), attrs.evolve(_RECORD, owner="Ann"), "the first task")
        same(await store.load("task-2"), _ended(_task("task-2")), "the second task")
        same(_ids(await store.unfinished()), ["task-1"], "the unfinished tasks")
        await refused(LimitExceeded, store.create(_task("task-3")), "a third task")


TASK_STORE_CHECKS: Final[tuple[TaskStoreCheck, ...]] = (
    saved_task_loads_unchanged,
    unknown_task_is_not_found,
    saved_again_task_is_replaced,
    tasks_are_listed_by_age_for_their_owner,
    unfinished_tasks_are_found,
    expired_tasks_are_removed,
    task_with_future_time_expires_from_now,
    tasks_have_count_limit_per_owner,
    running_tasks_have_count_limit_per_owner,
    tasks_have_byte_limit_per_owner,
    concurrent_writes_apply_in_order,
    claimed_task_has_one_worker,
    ended_or_unknown_task_is_not_claimed,
    closed_store_raises,
)
"""The checks for every store of tasks."""

DURABLE_TASK_STORE_CHECKS: Final[tuple[TaskStoreCheck, ...]] = (reopened_store_has_all_records,)
"""The additional check for a store of tasks that outlives the process."""
