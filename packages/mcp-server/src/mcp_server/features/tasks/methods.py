"""Tasks: tool calls that are answered later. Which calls become one, and the methods that ask for it afterwards.

Two forms, one implementation. In 2025-11-25 the client says of a call that it shall be a task, and fetches its result
by `tasks/result`, which waits. In the extension of 2026-07-28 the server decides, and everything comes by `tasks/get`.
What differs stands in the handlers here; a task itself (`mcp_server.features.tasks.execution`) is the same.

Whose a task is: that of the principal who began it. Where nobody is told apart, its id is the key to it: 192 random
bits, that only who began it was told. Somebody else's task is as unknown as one that never was.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, cast

import attrs
import trio

from mcp_core.engine.capabilities import as_object
from mcp_core.engine.mrtr import State, binding
from mcp_core.engine.results import understands_tasks
from mcp_core.errors import ErrorCode, LimitExceeded, MissingRequiredClientCapability, RequestFailed
from mcp_core.features.tasks import as_extension_task, as_task
from mcp_core.limits.memory_budget import parsed_size
from mcp_core.methods import (
    EXTENSION_TASKS_CANCEL,
    EXTENSION_TASKS_GET,
    EXTENSION_TASKS_UPDATE,
    TASKS_LIST,
    TASKS_RESULT,
    TOOLS_CALL,
)
from mcp_core.revisions import REVISIONS
from mcp_core.types import (
    CallToolRequestParams,
    CancelExtensionTaskResult,
    CancelTaskResult,
    CreateExtensionTaskResult,
    CreateTaskResult,
    GetExtensionTaskResult,
    GetTaskResult,
    ListTasksRequestParams,
    ListTasksResult,
    Task,
    UpdateTaskResult,
)
from mcp_core.types.meta import RELATED_TASK, TASKS_EXTENSION
from mcp_server.features.tasks.execution import TaskRun
from mcp_server.features.tasks.records import new_record, recalled
from mcp_server.stores.clock import StampClock
from mcp_server.stores.memory.tasks import MemoryTaskStore, task_memory_owner
from mcp_server.stores.tasks import TaskPlace, TaskRecord, write_record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.server import ServerConnection
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_core.methods import NotificationRow
    from mcp_core.types import WireObject
    from mcp_server.connection.channel import Audience, Call
    from mcp_server.connection.sealer import KeyRing
    from mcp_server.features.tasks.policy import TaskPolicy
    from mcp_server.lifespan import Life
    from mcp_server.options import TaskSupport
    from mcp_server.service import Handler
    from mcp_server.stores.tasks import TaskStore

__all__ = ["Tasks"]

_log: Final = logging.getLogger("mcp_server")

_INTERRUPTED: Final = "the server was stopped while the task ran, and it is not one that can be resumed"


class Tools(Protocol):
    """The tools that run as tasks."""

    def resumed(self, name: str) -> Callable[[Call], Awaitable[object]] | None:
        """What runs the tool again, for the call that it is given; `None`: it may not be run again."""


class Host(Protocol):
    """What tasks need of the server."""

    limits: Limits
    keys: KeyRing

    @property
    def budget(self) -> MemoryBudget:
        """The memory that its clients occupy."""

    @property
    def life(self) -> Life:
        """Its life, in whose nursery tasks run."""

    @property
    def extensions(self) -> dict[str, JsonObject]:
        """The extensions that it declares."""

    def spare_connection(self) -> ServerConnection:
        """An engine that is on no connection."""

    def tell(self, audience: Audience | None, row: NotificationRow[object], params: WireObject, key: str) -> None:
        """Tells one audience of a change; `None`: all of them."""


class Tasks:
    """The tasks of a server.

    Args:
        host: The server.
        policy: How they are kept.
        tools: What they run.
    """

    def __init__(self, host: Host, policy: TaskPolicy, tools: Tools) -> None:
        self._host: Final = host
        self._policy: Final = policy
        self._tools: Final = tools
        self._store: Final[TaskStore] = (
            MemoryTaskStore(limits=host.limits, budget=host.budget) if policy.store is None else policy.store
        )
        self._running: Final[dict[str, TaskRun]] = {}
        self._cleaning = False
        self._clock: Final = StampClock()
        life = host.life
        life.needed = True
        life.jobs.append(self._recover)
        host.extensions.setdefault(TASKS_EXTENSION, {})
        self.handlers: Final[Mapping[str, Handler]] = {
            EXTENSION_TASKS_GET.name: self._get,
            EXTENSION_TASKS_UPDATE.name: self._update,
            EXTENSION_TASKS_CANCEL.name: self._cancel,
            TASKS_RESULT.name: self._result,
            TASKS_LIST.name: self._list,
        }
        """The methods that are answered here."""

    # --- which calls -----------------------------------------------------------------------------------------------

    def wanted(self, call: Call, support: TaskSupport) -> bool:
        """Whether a call of a tool becomes a task.

        Args:
            call: The call.
            support: What the tool was registered with.

        Raises:
            RequestFailed: It must, and cannot; or shall, and must not.
        """
        request = call.request
        peer, params = cast("ClientPeer", request.peer), cast("CallToolRequestParams", request.params)
        revision = peer.revision
        if revision.core_tasks:
            asked = params.task is not None
            if asked == (support != "forbidden") or support == "optional":
                return asked
            must = "cannot" if asked else "has to"
            why = f"the tool {params.name!r} {must} be called as a task"
            raise RequestFailed(why, code=ErrorCode.METHOD_NOT_FOUND)
        if support != "forbidden" and revision in TOOLS_CALL.task_results and understands_tasks(peer.capabilities):
            return True
        if support != "required":
            return False
        if revision in TOOLS_CALL.task_results:
            needed = as_object(("extensions", TASKS_EXTENSION))
            raise MissingRequiredClientCapability.of(needed, f"the tool {params.name!r}, which runs as a task,")
        why = f"the tool {params.name!r} runs as a task only, and revision {revision} has no tasks"
        raise RequestFailed(why, code=ErrorCode.INVALID_REQUEST)

    async def begin(self, call: Call, work: Callable[[Call], Awaitable[object]]) -> WireObject:
        """Makes a call a task, and begins it. Returns what the call is answered with. Raises `RequestFailed`."""
        run = await self.create(call, State())
        return self.start(run, work)

    def start(self, run: TaskRun, work: Callable[[Call], Awaitable[object]]) -> WireObject:
        """Begins a task. Returns what its call is answered with."""
        state = run.record.state
        self._host.life.nursery.start_soon(self._run, run, work)
        if run.peer.revision.core_tasks:
            return CreateTaskResult(task=as_task(state, Task))
        return as_extension_task(state, CreateExtensionTaskResult)

    async def create(self, call: Call, done: State) -> TaskRun:
        """Makes a task, which is in the store when this returns.

        Args:
            call: The call that it stands for.
            done: What the call has asked and done so far.

        Raises:
            RequestFailed: There are too many.
            NotRunning: The life of the server has not begun.
        """
        request, owner = call.request, call.link.principal
        peer = cast("ClientPeer", request.peer)  # of a server
        _ = self._host.life.nursery
        allowed = self._host.limits.running_tasks
        running = Counter(each.record.owner for each in self._running.values() if not each.record.state.terminal)
        if running[owner] >= allowed:
            excess = LimitExceeded(
                "tasks that run", observed=allowed + 1, allowed=allowed, setting="Limits.running_tasks"
            )
            raise RequestFailed(excess.message, code=ErrorCode.INVALID_REQUEST)
        record = new_record(request, owner, done, self._policy)
        try:
            # What runs is in memory, wherever it is stored.
            charge = self._host.budget.charge(task_memory_owner(owner), parsed_size(write_record(record).encode()))
        except LimitExceeded as excess:
            raise RequestFailed(excess.message, code=ErrorCode.INTERNAL_ERROR) from excess
        audience = call.link.session_audience if peer.revision.core_tasks else None
        run = TaskRun(
            record, self._store, request, self._host.tell, audience=audience, http=call.http, identity=call.identity
        )
        run.charge = charge
        self._running[run.id] = run
        try:
            await self._store.create(record)
        except BaseException as error:
            charge.release()
            if isinstance(error, LimitExceeded):
                del self._running[run.id]
                raise RequestFailed(error.message, code=ErrorCode.INVALID_REQUEST) from error
            # It may be there all the same, and nobody would ever hear of it.
            with trio.move_on_after(1, shield=True), suppress(Exception):
                await self.drop(run)
            raise
        self._remember(call, run.id)
        if not self._cleaning:
            self._cleaning = True
            self._host.life.nursery.start_soon(self._clean)
        _log.info("task %s… of %s was begun, for the tool %s", run.id[:8], owner or "nobody in particular", record.tool)
        return run

    async def drop(self, run: TaskRun) -> None:
        """Forgets a task that was made and is not begun."""
        del self._running[run.id]
        run.release_memory()
        await self._store.delete(run.id)

    # --- their life ------------------------------------------------------------------------------------------------

    async def _run(self, run: TaskRun, work: Callable[[Call], Awaitable[object]]) -> None:
        try:
            await run.run(work, self._host.spare_connection())
        finally:
            run.release_memory()
            # What could not be kept is remembered here as long as the server lives.
            if run.kept or not run.record.state.terminal:
                self._running.pop(run.id, None)

    async def _recover(self) -> None:
        """Takes up what an earlier life of the server left: it is run again from its top, or has failed."""
        try:
            for record in await self._store.unfinished():
                if record.state.id not in self._running:
                    await self._take_up(record)
        except Exception:  # noqa: BLE001  # of the store, which others may be able to use
            _log.exception("the tasks of an earlier run cannot be taken up")

    async def _take_up(self, record: TaskRecord) -> None:
        revision = REVISIONS.get(record.revision)
        work = None if revision is None else self._tools.resumed(record.tool)
        now = time.time()
        if work is None or revision is None:
            error: JsonObject = {"code": int(ErrorCode.INTERNAL_ERROR), "message": _INTERRUPTED}
            state = record.state.moved("failed", now, message=_INTERRUPTED, error=error)
            await self._store.save(attrs.evolve(record, state=state))
            return
        if record.state.status != "working":
            record = attrs.evolve(record, state=record.state.moved("working", now))
        run = self._running[record.state.id] = TaskRun(record, self._store, recalled(record, revision), self._host.tell)
        _log.info("task %s… of the tool %s runs again", run.id[:8], record.tool)
        self._host.life.nursery.start_soon(self._run, run, work)

    async def _clean(self) -> None:
        """Forgets tasks when their time has passed, as long as there are any."""
        try:
            due = await self._store.purge(self._clock.earliest(), time.time())
            while due is not None:
                # A second later, so that what ends soon after goes with it.
                await trio.sleep(max(due - self._clock.earliest(), 0) + 1)
                due = await self._store.purge(self._clock.earliest(), time.time())
        except Exception:  # noqa: BLE001  # of the store
            _log.exception("tasks whose time has passed cannot be forgotten")
        finally:
            self._cleaning = False

    # --- the methods -----------------------------------------------------------------------------------------------

    async def _find(self, call: Call) -> tuple[TaskRecord, TaskRun | None]:
        """The task that a request names, and its run where it goes on. Raises `RequestFailed`."""
        id = cast("str", getattr(call.request.params, "task_id"))  # noqa: B009  # all of these params have one
        run = self._running.get(id)
        # Ours are of ASCII characters; others need no place to look for them, which may not even be able to say them.
        record = run.record if run is not None else await self._store.load(id) if id.isascii() else None
        if record is None or record.owner != call.link.principal:
            raise _unknown(call)
        ttl = record.state.ttl
        if ttl is not None and self._clock.age(record.state.created_at) * 1000 >= ttl:
            raise _unknown(call)
        self._remember(call, id)
        return record, run

    async def _get(self, call: Call) -> WireObject:
        record, run = await self._find(call)
        state = record.state
        if call.request.row is not EXTENSION_TASKS_GET:
            return as_task(state, GetTaskResult)
        if run is None and not state.terminal:
            # An earlier process asked something; its function will ask it again.
            state = attrs.evolve(state, status="working")
        return as_extension_task(state, GetExtensionTaskResult, None if run is None else run.questions)

    async def _update(self, call: Call) -> WireObject:
        _, run = await self._find(call)
        given = call.request.raw.get("inputResponses")
        if run is not None and isinstance(given, dict):
            await run.answer({key: answer for key, answer in given.items() if isinstance(answer, dict)})
        return UpdateTaskResult()

    async def _cancel(self, call: Call) -> WireObject:
        record, run = await self._find(call)
        legacy = call.request.row is not EXTENSION_TASKS_CANCEL
        if record.state.terminal:
            if legacy:
                why = f"the task is {as_task(record.state, Task).status}, and cannot be cancelled any more"
                raise RequestFailed(why, code=ErrorCode.INVALID_PARAMS)
            return CancelExtensionTaskResult()
        if run is not None:
            await run.cancel()
            record = run.record
        else:
            # Of an earlier process, and not taken up yet.
            record = attrs.evolve(record, state=record.state.moved("cancelled", time.time()))
            await self._store.save(record)
        return as_task(record.state, CancelTaskResult) if legacy else CancelExtensionTaskResult()

    async def _result(self, call: Call) -> JsonObject:
        record, run = await self._find(call)
        if run is not None:
            await run.attend(call)
            record = run.record
        state = record.state
        if state.error is not None:
            error = state.error
            raise RequestFailed(str(error["message"]), code=cast("int", error["code"]), data=error.get("data"))
        if state.result is None:
            raise RequestFailed(f"the task is {state.status}, and has no result", code=ErrorCode.INVALID_REQUEST)
        meta = state.result.get("_meta")
        related: JsonObject = {**(meta if isinstance(meta, dict) else {}), RELATED_TASK: {"taskId": state.id}}
        return {**state.result, "_meta": related}

    async def watchable(self, call: Call, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these tasks the client may be told of."""
        records = [await self._store.load(id) for id in dict.fromkeys(ids) if id.isascii()]
        return tuple([each.state.id for each in records if each is not None and each.owner == call.link.principal])

    # --- tasks/list (2025-11-25) -----------------------------------------------------------------------------------

    def _remember(self, call: Call, id: str) -> None:
        """Whoever is nobody in particular can list the tasks that were spoken of on this connection."""
        if call.link.principal is None and call.request.peer.revision.core_tasks:
            known = call.link.tasks
            if known is None:
                known = call.link.tasks = {}
            known[id] = None
            if len(known) > self._host.limits.tasks:
                del known[next(iter(known))]

    async def _list(self, call: Call) -> ListTasksResult:
        principal = call.link.principal
        bound_to = binding(principal, TASKS_LIST.name, {})
        after = self._place(cast("ListTasksRequestParams", call.request.params).cursor, bound_to)
        count = self._host.limits.page_items
        if principal is None:
            found = [await self._store.load(id) for id in tuple(call.link.tasks or ())]
            kept = [
                record for record in found if record is not None and (after is None or TaskPlace.of(record) > after)
            ]
            records = tuple(sorted(kept, key=TaskPlace.of)[: count + 1])
        else:
            records = await self._store.listed(principal, after, count + 1)
        cursor = None
        if len(records) > count:
            records = records[:count]
            last = TaskPlace.of(records[-1])
            cursor = self._host.keys.seal(json.dumps([last.created_at, last.id]).encode(), bound_to)
        now = time.time()
        states = [
            self._running[each.state.id].record.state if each.state.id in self._running else each.state
            for each in records
        ]
        alive = [state for state in states if state.expires_at is None or state.expires_at > now]
        return ListTasksResult(tasks=tuple([as_task(state, Task) for state in alive]), next_cursor=cursor)

    def _place(self, cursor: str | None, bound_to: bytes) -> TaskPlace | None:
        if cursor is None:
            return None
        plain = self._host.keys.unseal(cursor, bound_to)
        if plain is None:
            raise RequestFailed("the cursor is none that was given for this list", code=ErrorCode.INVALID_PARAMS)
        created_at, id = json.loads(plain)
        return TaskPlace(created_at, id)


def _unknown(call: Call) -> RequestFailed:
    why = f"{call.request.method}: there is no such task, or not any more"
    return RequestFailed(why, code=ErrorCode.INVALID_PARAMS)
