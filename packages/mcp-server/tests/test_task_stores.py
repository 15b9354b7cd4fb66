"""Stores of tasks: the contract for each of them, and what a server makes of them after it was killed."""

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
from task_server import Gates, accept, begin, client_of, get, make_server, stands, task_id, until

from mcp_core.errors import LimitExceeded
from mcp_core.features.tasks import TaskState
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_server import (
    Context,
    MemoryTaskStore,
    Server,
    SqliteStore,
    SqliteTaskStore,
    StoreError,
    TaskPlace,
    TaskPolicy,
    TaskRecord,
    TaskStore,
)
from mcp_server.stores.contract import DURABLE_TASK_STORE_CHECKS, TASK_STORE_CHECKS, TaskStoreCheck
from mcp_server.stores.tasks import read_record, write_record


def _name(check: TaskStoreCheck) -> str:
    return getattr(check, "__name__", "?")


EVERY = pytest.mark.parametrize("check", TASK_STORE_CHECKS, ids=_name)
DURABLE = pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=_name)


@pytest.mark.spec("tasks.consistency-wait")
@EVERY
async def test_tasks_in_memory_keep_the_contract(check: TaskStoreCheck) -> None:
    async def open_store(limits: Limits) -> TaskStore:
        return MemoryTaskStore(limits=limits)

    await check(open_store)


@pytest.mark.spec("tasks.consistency-wait")
@DURABLE
async def test_tasks_in_a_file_keep_the_contract(check: TaskStoreCheck, tmp_path: Path) -> None:
    async def open_store(limits: Limits) -> TaskStore:
        return SqliteTaskStore(tmp_path / "tasks.sqlite", limits=limits)

    await check(open_store)


@DURABLE
async def test_tasks_in_the_file_of_sessions_keep_the_contract(check: TaskStoreCheck, tmp_path: Path) -> None:
    sessions: list[SqliteStore] = []

    async def open_store(limits: Limits) -> TaskStore:
        for store in sessions:
            await store.aclose()
        sessions.append(SqliteStore(tmp_path / "both.sqlite"))
        return SqliteTaskStore(sessions[-1], limits=limits)

    await check(open_store)
    assert await sessions[-1].load("x") is None
    await sessions[-1].aclose()


class _Forgetful(MemoryTaskStore):
    async def save(self, record: TaskRecord) -> None:
        pass


class _Hoarder(MemoryTaskStore):
    async def delete(self, id: str) -> None:
        pass


class _Mixed(MemoryTaskStore):
    async def listed(self, owner: str, after: TaskPlace | None, count: int) -> tuple[TaskRecord, ...]:
        return tuple(reversed(await super().listed(owner, after, count)))


class _Idle(MemoryTaskStore):
    async def unfinished(self) -> tuple[TaskRecord, ...]:
        return ()


@pytest.mark.parametrize("broken", [_Forgetful, _Hoarder, _Mixed, _Idle])
async def test_the_contract_finds_what_is_wrong(broken: type[MemoryTaskStore]) -> None:
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
def test_a_record_is_read_as_it_was_written(
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


def test_a_file_of_sessions_gets_room_for_tasks_when_it_is_opened(tmp_path: Path) -> None:
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


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("these are my notes" * 100)
    with pytest.raises(StoreError, match="notes"):
        SqliteTaskStore(tmp_path / "notes")


# --- the server and its store --------------------------------------------------------------------------------------------


class _Broken(MemoryTaskStore):
    """Fails once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: Sequence[str] = ()

    async def _fail(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        if name in self.broken:
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
async def test_a_store_that_fails_is_an_internal_error_and_no_word_of_it_is_told() -> None:
    store = _Broken()
    async with client_of(make_server(Gates(), tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        task = await begin(client, "must")
        await until(client, task, "completed")
        store.broken = ("load",)
        error = await client.fail("tasks/get", {"taskId": task["taskId"]})
        assert error == {"code": -32603, "message": "Internal error"}
        store.broken = ("create",)
        error = await client.fail("tools/call", {"name": "must"})
        assert error == {"code": -32603, "message": "Internal error"}
        assert repr(store) == "<MemoryTaskStore of 1 tasks>"


async def test_an_end_that_cannot_be_kept_is_told_as_long_as_the_server_lives(caplog: pytest.LogCaptureFixture) -> None:
    store, gates = _Broken(), Gates()
    async with client_of(make_server(gates, tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        task = await begin(client, "work")
        store.broken = ("save",)
        gates.go.set()
        now = await until(client, task, "failed")
        assert now["error"] == {"code": -32603, "message": "Internal error"}
    assert "cannot be stored" in caplog.text


async def test_an_answer_that_cannot_be_kept_is_told_as_an_error() -> None:
    store = _Broken()
    server = make_server(Gates(), tasks=TaskPolicy(store=store))
    async with client_of(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await begin(client, "asks")
        await until(client, task, "input_required")
        store.broken = ("save",)
        error = await client.fail("tasks/result", {"taskId": task["taskId"]})
        assert error["message"] == "Internal error"


async def test_a_server_whose_store_cannot_be_read_or_cleaned_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    store = _Broken()
    store.broken = ("unfinished", "purge")
    async with client_of(make_server(Gates(), tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        await until(client, await begin(client, "must"), "completed")
    assert "cannot be recovered" in caplog.text
    assert "cannot be deleted" in caplog.text


class _Slow(MemoryTaskStore):
    """Takes its time to keep a new task."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = trio.Event()

    async def create(self, record: TaskRecord) -> None:
        await super().create(record)
        self.reached.set()
        await trio.sleep_forever()


@pytest.mark.spec("tasks.durable-before-create", "tasks.consistency-wait")
async def test_a_call_that_is_cancelled_while_its_task_is_made_leaves_none_behind() -> None:
    store = _Slow()
    async with client_of(make_server(Gates(), tasks=TaskPolicy(store=store)), R2026_07_28) as client:
        id = await client.start("tools/call", {"name": "must"})
        await store.reached.wait()
        await trio.testing.wait_all_tasks_blocked()
        # It is not answered as long as the store is not done.
        assert not any(isinstance(line, dict) and line.get("id") == id for line in client.lines)
        await client.notify("notifications/cancelled", {"requestId": id})
        await trio.testing.wait_all_tasks_blocked()
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"


# --- restarts ---------------------------------------------------------------------------------------------------------------


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


async def test_a_task_survives_the_life_of_its_server_where_it_may_be_resumed(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    ran: list[str] = []
    go = trio.Event()
    async with client_of(_resumable(ran, go, store), R2026_07_28) as client:
        task = await begin(client, "books", seats=2)
        now = await until(client, task, "input_required")
        lost = await begin(client, "stays")
        await get(client, lost)
    await store.aclose()
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    async with client_of(_resumable(ran, go, store), R2026_07_28) as client:
        # It asks the same again, under the same key; and has not paid again.
        again = await until(client, task, "input_required")
        assert again["inputRequests"] == now["inputRequests"]
        (key,) = as_object(again["inputRequests"])
        answers: JsonObject = {key: {"action": "accept", "content": {"name": "Ann"}}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": answers})
        gone = await until(client, lost, "failed")
        assert gone["statusMessage"] == "the server stopped while the task ran, and the tool is not resumable"
    await store.aclose()
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    async with client_of(_resumable(ran, go, store), R2026_07_28) as client:
        # What was answered is not asked again.
        assert await stands(client, task) in ("working", "completed")
        go.set()
        done = await until(client, task, "completed")
        assert text_of(as_object(done["result"])).startswith("receipt: Accepted(")
        assert ran[0] == "paid"
        assert ran.count("paid") == 1
        assert ran[-1] == f"{task['taskId']} of None for 2"
    await store.aclose()


async def test_a_task_of_a_tool_that_is_gone_has_failed(tmp_path: Path) -> None:
    store = MemoryTaskStore()
    async with client_of(_resumable([], trio.Event(), store), R2026_07_28) as client:
        task = await begin(client, "books", seats=2)
        await until(client, task, "input_required")
    server = make_server(Gates(), tasks=TaskPolicy(store=store))
    async with client_of(server, R2026_07_28) as client:
        await until(client, task, "failed")


async def test_what_is_not_taken_up_yet_can_be_asked_for_and_cancelled() -> None:
    class Late(MemoryTaskStore):
        late = False

        async def unfinished(self) -> tuple[TaskRecord, ...]:
            if self.late:
                await trio.sleep_forever()
            return await super().unfinished()

    store = Late()
    async with client_of(_resumable([], trio.Event(), store), R2026_07_28) as client:
        task = await begin(client, "books", seats=2)
        await until(client, task, "input_required")
        key = await store.load(task_id(task))
        assert key is not None
        await store.save(attrs.evolve(key, state=key.state.moved("input_required", 1.0)))
    store.late = True
    async with client_of(_resumable([], trio.Event(), store), R2026_07_28) as client:
        assert (await get(client, task))["status"] == "working"
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": {}})
        await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert (await get(client, task))["status"] == "cancelled"


async def test_a_question_that_was_kept_as_open_is_asked_again() -> None:
    store = MemoryTaskStore()
    ran: list[str] = []
    async with client_of(_resumable(ran, trio.Event(), store), R2025_11_25) as client:
        task = await begin(client, "books", seats=1)
        await until(client, task, "input_required")
    record = await store.load(task_id(task))
    assert record is not None
    await store.save(attrs.evolve(record, state=attrs.evolve(record.state, status="input_required")))
    go = trio.Event()
    go.set()
    async with client_of(_resumable(ran, go, store), R2025_11_25, elicitation=accept("Ann")) as client:
        assert "Ann" in text_of(await client.call("tasks/result", {"taskId": task["taskId"]}))
        assert ran.count("paid") == 1


_PROGRAM = """
import sys, trio
from mcp_server import Context, Server, SqliteTaskStore, TaskPolicy, serve_stdio

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


def _line(process: subprocess.Popen[bytes], id: int, method: str, params: JsonObject) -> JsonObject:
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


def test_a_task_survives_that_its_server_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "tasks.sqlite")]
    with _start([*command, "hang"]) as first:
        task = _line(first, 1, "tools/call", {"name": "count", "arguments": {"to": 3}})
        lost = _line(first, 2, "tools/call", {"name": "plain"})
        assert first.stderr is not None
        assert first.stderr.readline() == b"hangs\n"
        os.kill(first.pid, signal.SIGKILL)
    with _start([*command, "go"]) as second:
        statuses: list[object] = []
        for number in range(10_000):
            now = _line(second, number, "tasks/get", {"taskId": task["taskId"]})
            gone = _line(second, -1 - number, "tasks/get", {"taskId": lost["taskId"]})
            statuses = [now["status"], gone["status"]]
            if statuses == ["completed", "failed"]:
                assert text_of(as_object(now["result"])) == "counted from 1 to 3"
                break
        assert statuses == ["completed", "failed"]
        second.kill()
