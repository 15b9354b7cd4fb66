"""Task stores: the contract for each of them, and the recovery of tasks after a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from raw_client import as_object, text_of
from task_server import (
    ToolControl,
    accept,
    get_task,
    make_server,
    open_client,
    settled_status,
    start_task,
    task_id,
    wait_for_status,
)

from mcp_core.errors import LimitExceeded
from mcp_core.features.tasks import TaskState
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_server import Context, Server, TaskPolicy
from mcp_server.stores import (
    MemoryTaskStore,
    SqliteStore,
    SqliteTaskStore,
    StoreError,
    TaskOrder,
    TaskRecord,
    TaskStore,
)
from mcp_server.stores.contract import DURABLE_TASK_STORE_CHECKS, TASK_STORE_CHECKS, TaskStoreCheck
from mcp_server.stores.tasks import read_record, write_record


def _check_name(check: TaskStoreCheck) -> str:
    return getattr(check, "__name__", "?")


ALL_CHECKS = pytest.mark.parametrize("check", TASK_STORE_CHECKS, ids=_check_name)
DURABLE_CHECKS = pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=_check_name)


@pytest.mark.spec("tasks.consistency-wait")
@ALL_CHECKS
async def test_memory_task_store_fulfills_contract(check: TaskStoreCheck) -> None:
    async def open_store(limits: Limits) -> TaskStore:
        return MemoryTaskStore(limits=limits)

    await check(open_store)


@pytest.mark.spec("tasks.consistency-wait")
@DURABLE_CHECKS
async def test_sqlite_task_store_fulfills_contract(check: TaskStoreCheck, tmp_path: Path) -> None:
    async def open_store(limits: Limits) -> TaskStore:
        return SqliteTaskStore(tmp_path / "tasks.sqlite", limits=limits)

    await check(open_store)


@DURABLE_CHECKS
async def test_sqlite_task_store_in_session_file_fulfills_contract(check: TaskStoreCheck, tmp_path: Path) -> None:
    sessions: list[SqliteStore] = []

    async def open_store(limits: Limits) -> TaskStore:
        for store in sessions:
            await store.aclose()
        sessions.append(SqliteStore(tmp_path / "both.sqlite"))
        return SqliteTaskStore(sessions[-1], limits=limits)

    await check(open_store)
    assert await sessions[-1].load("x") is None
    await sessions[-1].aclose()


class _DroppingStore(MemoryTaskStore):
    async def save(self, record: TaskRecord) -> None:
        pass


class _NeverDeletingStore(MemoryTaskStore):
    async def delete(self, id: str) -> None:
        pass


class _MisorderedStore(MemoryTaskStore):
    async def listed(self, owner: str, after: TaskOrder | None, count: int) -> tuple[TaskRecord, ...]:
        return tuple(reversed(await super().listed(owner, after, count)))


class _NoUnfinishedStore(MemoryTaskStore):
    async def unfinished(self) -> tuple[TaskRecord, ...]:
        return ()


@pytest.mark.parametrize("broken", [_DroppingStore, _NeverDeletingStore, _MisorderedStore, _NoUnfinishedStore])
async def test_contract_detects_broken_task_store(broken: type[MemoryTaskStore]) -> None:
    async def open_store(limits: Limits) -> TaskStore:
        return broken(limits=limits)

    found = 0
    for check in TASK_STORE_CHECKS:
        try:
            await check(open_store)
        except (AssertionError, LimitExceeded):
            found += 1
    assert found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=3)


@pytest.mark.property
@given(
    params=OBJECT,
    once=OBJECT,
    answers=st.dictionaries(st.text(), OBJECT, max_size=2),
    owner=st.none() | st.text(),
    message=st.none() | st.text(),
    at=st.floats(0, 1e10),
    result=st.none() | OBJECT,
)
def test_task_record_round_trips(
    params: JsonObject,
    once: JsonObject,
    answers: dict[str, JsonObject],
    owner: str | None,
    message: str | None,
    at: float,
    result: JsonObject | None,
) -> None:
    state = TaskState(
        id="t",
        created_at=at,
        updated_at=at,
        ttl=None,
        poll_interval=1,
        message=message,
        status="completed",
        result=result,
    )
    record = TaskRecord(
        state=state, owner=owner, tool="x", params=params, revision="r", capabilities={}, answers=answers, once=once
    )
    assert read_record(write_record(record)) == record


def test_session_file_without_tasks_table_is_upgraded(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "old.sqlite"
    trio.run(SqliteStore(path).aclose)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE tasks")
    connection.close()
    store = SqliteTaskStore(path)
    assert repr(store) == f"<SqliteTaskStore {path}>"

    async def use() -> None:
        assert await store.unfinished() == ()
        await store.aclose()

    trio.run(use)


async def test_task_store_of_other_file_raises(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("these are my notes" * 100)
    with pytest.raises(StoreError, match="notes"):
        SqliteTaskStore(tmp_path / "notes")


# --- store errors ----------------------------------------------------------------------------------------------------


class _FailingStore(MemoryTaskStore):
    """A store whose methods in `failing` raise."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: Sequence[str] = ()

    async def _fail(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        if name in self.failing:
            raise StoreError("the disk is full of secrets")

    async def create(self, record: TaskRecord) -> None:
        await super().create(record)
        await self._fail("create")

    async def save(self, record: TaskRecord) -> None:
        await self._fail("save")
        await super().save(record)

    async def load(self, id: str) -> TaskRecord | None:
        await self._fail("load")
        return await super().load(id)

    async def unfinished(self) -> tuple[TaskRecord, ...]:
        await self._fail("unfinished")
        return await super().unfinished()

    async def purge(self, expired_by: float, now: float) -> float | None:
        await self._fail("purge")
        return await super().purge(expired_by, now)


@pytest.mark.spec("tasks.internal-error", "tasks.internal-32603")
async def test_task_store_error_is_reported_without_details() -> None:
    store = _FailingStore()
    async with open_client(make_server(ToolControl(), tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        task = await start_task(client, "must")
        await wait_for_status(client, task, "completed")
        store.failing = ("load",)
        error = await client.fail("tasks/get", {"taskId": task["taskId"]})
        unavailable = {"code": -32603, "message": "a store of the server cannot be reached: try again later"}
        assert error == unavailable
        store.failing = ("create",)
        error = await client.fail("tools/call", {"name": "must"})
        assert error == unavailable
        assert repr(store) == "<MemoryTaskStore of 1 tasks>"


async def test_task_result_not_stored_fails_task(caplog: pytest.LogCaptureFixture) -> None:
    store, control = _FailingStore(), ToolControl()
    async with open_client(make_server(control, tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        task = await start_task(client, "work")
        store.failing = ("save",)
        control.go.set()
        now = await wait_for_status(client, task, "failed")
        assert now["error"] == {"code": -32603, "message": "Internal error"}
    assert "cannot be stored" in caplog.text


async def test_input_response_not_stored_returns_internal_error() -> None:
    store = _FailingStore()
    server = make_server(ToolControl(), tasks=TaskPolicy(store=store))
    async with open_client(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await start_task(client, "elicits")
        await wait_for_status(client, task, "input_required")
        store.failing = ("save",)
        error = await client.fail("tasks/result", {"taskId": task["taskId"]})
        assert error["message"] == "Internal error"


async def test_server_continues_when_tasks_cannot_be_recovered(caplog: pytest.LogCaptureFixture) -> None:
    store = _FailingStore()
    store.failing = ("unfinished", "purge")
    async with open_client(make_server(ToolControl(), tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        await wait_for_status(client, await start_task(client, "must"), "completed")
    assert "cannot be recovered" in caplog.text
    assert "cannot be deleted" in caplog.text


class _BlockingStore(MemoryTaskStore):
    """A store that blocks when it creates a task."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = trio.Event()

    async def create(self, record: TaskRecord) -> None:
        await super().create(record)
        self.reached.set()
        await trio.sleep_forever()


@pytest.mark.spec("tasks.durable-before-create", "tasks.consistency-wait")
async def test_call_cancelled_during_task_creation_leaves_no_task() -> None:
    store = _BlockingStore()
    async with open_client(make_server(ToolControl(), tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        id = await client.start("tools/call", {"name": "must"})
        await store.reached.wait()
        await trio.testing.wait_all_tasks_blocked()
        # There is no response before the store has finished.
        assert not any(isinstance(line, dict) and line.get("id") == id for line in client.lines)
        await client.notify("notifications/cancelled", {"requestId": id})
        await trio.testing.wait_all_tasks_blocked()
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"


# --- restarts --------------------------------------------------------------------------------------------------------


def _resumable(ran: list[str], go: trio.Event, store: TaskStore) -> Server:
    server = Server("resumes", version="0", tasks=TaskPolicy(store=store))

    @attrs.frozen
    class Name:
        name: str

    @server.tool(task="required", resumable=True)
    async def books(context: Context, seats: int) -> str:
        async def pay() -> str:
            ran.append("paid")
            return "receipt"

        receipt = await context.once("pay", pay)
        answer = await context.elicit(Name, "Who?")
        ran.append(f"{context.task} of {context.principal} for {seats}")
        await go.wait()
        return f"{receipt}: {answer}"

    @server.tool(task="required")
    async def stays() -> str:
        await trio.sleep_forever()

    return server


async def test_resumable_task_continues_after_server_restart(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    ran: list[str] = []
    go = trio.Event()
    async with open_client(_resumable(ran, go, store), R2026_07_28) as client:
        task = await start_task(client, "books", seats=2)
        now = await wait_for_status(client, task, "input_required")
        not_resumable = await start_task(client, "stays")
        await get_task(client, not_resumable)
    await store.aclose()
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    async with open_client(_resumable(ran, go, store), R2026_07_28) as client:
        # The resumed function elicits under the same key, and does not pay again.
        resumed = await wait_for_status(client, task, "input_required")
        assert resumed["inputRequests"] == now["inputRequests"]
        (record,) = as_object(resumed["inputRequests"])
        answers: JsonObject = {record: {"action": "accept", "content": {"name": "Ann"}}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": answers})
        failed = await wait_for_status(client, not_resumable, "failed")
        assert failed["statusMessage"] == "the server stopped while the task ran, and the tool is not resumable"
    await store.aclose()
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    async with open_client(_resumable(ran, go, store), R2026_07_28) as client:
        # An answered elicitation is not repeated.
        assert await settled_status(client, task) in ("working", "completed")
        go.set()
        done = await wait_for_status(client, task, "completed")
        assert text_of(as_object(done["result"])).startswith("receipt: ElicitationAccepted(")
        assert ran[0] == "paid"
        assert ran.count("paid") == 1
        assert ran[-1] == f"{task['taskId']} of None for 2"
    await store.aclose()


async def test_task_of_removed_tool_fails_after_restart(tmp_path: Path) -> None:
    store = MemoryTaskStore()
    async with open_client(_resumable([], trio.Event(), store), R2026_07_28) as client:
        task = await start_task(client, "books", seats=2)
        await wait_for_status(client, task, "input_required")
    server = make_server(ToolControl(), tasks=TaskPolicy(store=store))
    async with open_client(server, R2026_07_28) as client:
        await wait_for_status(client, task, "failed")


async def test_unrecovered_task_can_be_read_and_cancelled() -> None:
    class Late(MemoryTaskStore):
        late = False

        async def unfinished(self) -> tuple[TaskRecord, ...]:
            if self.late:
                await trio.sleep_forever()
            return await super().unfinished()

    store = Late()
    async with open_client(_resumable([], trio.Event(), store), R2026_07_28) as client:
        task = await start_task(client, "books", seats=2)
        await wait_for_status(client, task, "input_required")
        record = await store.load(task_id(task))
        assert record is not None
        await store.save(attrs.evolve(record, state=record.state.moved("input_required", 1.0)))
    store.late = True
    async with open_client(_resumable([], trio.Event(), store), R2026_07_28) as client:
        assert (await get_task(client, task))["status"] == "working"
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": {}})
        await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert (await get_task(client, task))["status"] == "cancelled"


async def test_pending_elicitation_sent_again_after_restart() -> None:
    store = MemoryTaskStore()
    ran: list[str] = []
    async with open_client(_resumable(ran, trio.Event(), store), R2025_11_25) as client:
        task = await start_task(client, "books", seats=1)
        await wait_for_status(client, task, "input_required")
    record = await store.load(task_id(task))
    assert record is not None
    await store.save(attrs.evolve(record, state=attrs.evolve(record.state, status="input_required")))
    go = trio.Event()
    go.set()
    async with open_client(_resumable(ran, go, store), R2025_11_25, elicitation=accept("Ann")) as client:
        assert "Ann" in text_of(await client.call("tasks/result", {"taskId": task["taskId"]}))
        assert ran.count("paid") == 1


_PROGRAM = """
import sys, trio
from mcp_server import Context, Server, TaskPolicy, serve_stdio
from mcp_server.stores import SqliteTaskStore

server = Server("killed", version="0", tasks=TaskPolicy(store=SqliteTaskStore(sys.argv[1])))

@server.tool(task="required", resumable=True)
async def count(context: Context, to: int) -> str:
    begun = await context.once("begun", lambda: 1)
    if sys.argv[2] == "hang":
        print("hangs", file=sys.stderr, flush=True)
        await trio.sleep_forever()
    return f"counted from {begun} to {to}"

@server.tool(task="required")
async def plain() -> str:
    await trio.sleep_forever()

trio.run(serve_stdio, server)
"""


def _request(process: subprocess.Popen[bytes], id: int, method: str, params: JsonObject) -> JsonObject:
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "0"},
    }
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer["id"] == id
    return as_object(answer["result"])


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_resumable_task_continues_after_server_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "tasks.sqlite")]
    with _start([*command, "hang"]) as first:
        task = _request(first, 1, "tools/call", {"name": "count", "arguments": {"to": 3}})
        not_resumable = _request(first, 2, "tools/call", {"name": "plain"})
        assert first.stderr is not None
        assert first.stderr.readline() == b"hangs\n"
        os.kill(first.pid, signal.SIGKILL)
    with _start([*command, "go"]) as second:
        statuses: list[object] = []
        for number in range(10_000):
            now = _request(second, number, "tasks/get", {"taskId": task["taskId"]})
            failed = _request(second, -1 - number, "tasks/get", {"taskId": not_resumable["taskId"]})
            statuses = [now["status"], failed["status"]]
            if statuses == ["completed", "failed"]:
                assert text_of(as_object(now["result"])) == "counted from 1 to 3"
                break
        assert statuses == ["completed", "failed"]
        second.kill()
