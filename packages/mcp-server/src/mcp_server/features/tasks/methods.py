"""Tasks: tool calls that run in the background. The choice of these calls, and the methods of tasks.

One implementation supports two forms. In 2025-11-25 the client requests that a call runs as a task, and retrieves the
result with `tasks/result`, which waits. In the extension of 2026-07-28 the server decides, and `tasks/get` returns the
status and the result. The handlers of this module contain the differences; the execution of a task
(`mcp_server.features.tasks.execution`) is the same.

A task belongs to the principal that started it. Without authentication, the id of a task is its only protection: 192
random bits, which only the client that started the task receives. A request for the task of another principal fails
with the same error as a request for an unknown task.

Spec: basic/utilities/tasks (2025-11-25); the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import json
import logging
import random
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.engine.capabilities import as_object
from mcp_core.engine.mrtr import RequestState, binding
from mcp_core.engine.results import understands_tasks
from mcp_core.errors import ErrorCode, LimitExceeded, McpError, MissingRequiredClientCapability, RequestFailed
from mcp_core.features.tasks import as_extension_task, as_task
from mcp_core.limits.memory_budget import parsed_size
from mcp_core.methods import (
    EXTENSION_TASKS_CANCEL,
    EXTENSION_TASKS_GET,
    EXTENSION_TASKS_UPDATE,
    NOTIFICATIONS_TASKS,
    NOTIFICATIONS_TASKS_STATUS,
    TASKS_LIST,
    TASKS_RESULT,
    TOOLS_CALL,
)
from mcp_core.revisions import REVISIONS
from mcp_core.trio.host_loop import host_of_trio
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types import (
    CallToolRequestParams,
    CancelExtensionTaskResult,
    CancelTaskResult,
    CreateExtensionTaskResult,
    CreateTaskResult,
    ExtensionTaskNotificationParams,
    GetExtensionTaskResult,
    GetTaskResult,
    ListTasksRequestParams,
    ListTasksResult,
    Task,
    TaskStatusNotificationParams,
    UpdateTaskResult,
)
from mcp_core.types.meta import RELATED_TASK, TASKS_EXTENSION
from mcp_server.cluster.messages import TaskCancelRequested, TaskInputFailed, TaskInputReceived, TaskUpdated
from mcp_server.features.tasks.execution import TaskRun
from mcp_server.features.tasks.records import new_record, recalled
from mcp_server.features.tasks.remote import RemoteTasks, check_input_responses, input_requests_of
from mcp_server.stores.clock import StampClock
from mcp_server.stores.memory.tasks import task_memory_owner
from mcp_server.stores.sessions import StoreError
from mcp_server.stores.tasks import TaskOrder, TaskRecord, write_record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.server import ServerConnection
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import NotificationMethod
    from mcp_core.types import WireObject
    from mcp_server.cluster import Cluster
    from mcp_server.cluster.barrier import ClusterBarrier
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.connection.channel import Handler, NotificationTarget, RequestContext
    from mcp_server.connection.client_requests import RetryClientRequests
    from mcp_server.features.tasks.policy import TaskPolicy
    from mcp_server.handlers.environment import HandlerEnvironment
    from mcp_server.options import TaskSupport
    from mcp_server.stores.tasks import TaskStore

__all__ = ["Tasks"]

_log: Final = logging.getLogger("mcp_server")

_INTERRUPTED: Final = "the server stopped while the task ran, and the tool is not resumable"

_MOVING: Final = (
    "the task has ended or moves to another worker: get its status, and send the request again if necessary"
)

_RECOVERY_SECONDS: Final = 30.0
"""Time between two searches for tasks of lost workers, in seconds, in case that a loss was not reported."""

_LOOK_SECONDS: Final = 0.5
"""Time after which a request that waits for a task reads its record again while no worker runs it, in seconds."""


class Tasks:
    """The tasks of a server.

    Args:
        environment: The environment of the handlers of the server.
        policy: The storage and time limits.
        resumed: Returns the function that runs an interrupted task of a tool again; `None` if the tool is not resumable.
        notify: Notifies one target of a change; without a target, all subscribers.
        spare_connection: Returns an engine without a connection.
        targets: The targets of change notifications of this worker.
        flush: Waits until the changes that functions published are not lost if this worker ends.
        cluster: Connects the server to the workers that share its tasks.
        barrier: Waits until they have received the messages of this one.
    """

    def __init__(
        self,
        environment: HandlerEnvironment,
        policy: TaskPolicy,
        *,
        resumed: Callable[[str], Callable[[RequestContext], Awaitable[object]] | None],
        notify: Callable[[NotificationTarget | None, NotificationMethod[object], WireObject, str], None],
        spare_connection: Callable[[], ServerConnection],
        targets: Collection[NotificationTarget],
        flush: Callable[[], Awaitable[None]],
        cluster: Cluster,
        barrier: ClusterBarrier,
    ) -> None:
        self._environment: Final = environment
        self._policy: Final = policy
        self._resumed: Final = resumed
        self._notify: Final = notify
        self._spare_connection: Final = spare_connection
        self._targets: Final = targets
        self._flush: Final = flush
        self._barrier = barrier
        self.session_target: Callable[[str], NotificationTarget | None] = _no_session
        """Returns the legacy session with an id if this worker serves it."""
        self._running: Final[dict[str, TaskRun]] = {}
        self._cleaning = False
        self._clock: Final = StampClock()
        self.remote: RemoteTasks = RemoteTasks(cluster, cluster.tasks if policy.store is None else policy.store)
        """The tasks that other workers run."""
        life = environment.life
        life.needed = True
        life.jobs.append(self._recover)
        self.handlers: Final[Mapping[str, Handler]] = {
            EXTENSION_TASKS_GET.name: self._get,
            EXTENSION_TASKS_UPDATE.name: self._update,
            EXTENSION_TASKS_CANCEL.name: self._cancel,
            TASKS_RESULT.name: self._result,
            TASKS_LIST.name: self._list,
        }
        """Handlers of the methods of this feature, by method."""

    @property
    def store(self) -> TaskStore:
        """The store of task records."""
        return self.remote.store

    # --- task creation ---------------------------------------------------------------------------------------------

    def wanted(self, call: RequestContext, support: TaskSupport) -> bool:
        """Return whether a tool call becomes a task.

        Args:
            call: The call.
            support: The `task` option of the tool.

        Raises:
            RequestFailed: The tool must run as a task and the client or revision does not support it, or the client
                requested a task and the tool does not support it.
            MissingRequiredClientCapability: The tool must run as a task, and the client did not declare the extension.
        """
        request = call.request
        peer, params = cast("ClientPeer", request.peer), cast("CallToolRequestParams", request.params)
        revision = peer.revision
        if revision.core_tasks:
            augmented = params.task is not None
            if augmented == (support != "forbidden") or support == "optional":
                return augmented
            must = "cannot" if augmented else "must"
            why = f"the tool {params.name!r} {must} be called as a task"
            raise RequestFailed(why, code=ErrorCode.METHOD_NOT_FOUND)
        if support != "forbidden" and revision in TOOLS_CALL.task_results and understands_tasks(peer.capabilities):
            return True
        if support != "required":
            return False
        if revision in TOOLS_CALL.task_results:
            needed = as_object(("extensions", TASKS_EXTENSION))
            raise MissingRequiredClientCapability.of(needed, f"the tool {params.name!r}, which runs as a task,")
        why = f"the tool {params.name!r} runs only as a task, and revision {revision} has no tasks"
        raise RequestFailed(why, code=ErrorCode.INVALID_REQUEST)

    async def begin(self, call: RequestContext, work: Callable[[RequestContext], Awaitable[object]]) -> WireObject:
        """Create a task for a call and start it. Return the result of the call. Raises `RequestFailed`."""
        run = await self.create(call, RequestState())
        return self.start(run, work)

    def start(self, run: TaskRun, work: Callable[[RequestContext], Awaitable[object]]) -> WireObject:
        """Start a task. Return the result of its call."""
        state = run.record.state
        self._environment.life.nursery.start_soon(self._run, run, work)
        if run.peer.revision.core_tasks:
            return CreateTaskResult(task=as_task(state, Task))
        return as_extension_task(state, CreateExtensionTaskResult)

    async def promote(self, work: Callable[[RequestContext], Awaitable[object]], call: RequestContext) -> None:
        """End the handler of a call, and create the task that runs its function again from the top. Does not return.

        Args:
            work: Runs the function.
            call: The tool call that becomes the task.

        Raises:
            RequestFailed: A limit of tasks or of memory is reached.
            RuntimeError: The caller is shielded from cancellation.
        """
        with trio.CancelScope(shield=True):
            client_requests = cast(
                "RetryClientRequests", call.client_requests
            )  # only modern calls are promoted, and this one has a context
            run = await self.create(call, await client_requests.hand_over())
        call.start_task = partial(self.start, run, work)
        call.scope.cancel()
        await trio.lowlevel.checkpoint()
        host = host_of_trio()
        if host is not None:
            await host.wait_for_cancellation()
        # The cancellation had no effect. The client does not know the task yet.
        call.start_task = None
        await self.drop(run)
        raise RuntimeError(
            "Context.begin_task ends the handler, which runs again as a task, but its caller is shielded from"
            " cancellation: call it outside of the shielded scope"
        )

    async def create(self, call: RequestContext, done: RequestState) -> TaskRun:
        """Create a task and save it in the store.

        Args:
            call: The tool call that becomes the task.
            done: The input responses and side effects of the call so far.

        Raises:
            RequestFailed: A limit of tasks or of memory is reached.
            NotRunning: The lifespan of the server has not started.
        """
        request, owner = call.request, call.channel.principal
        peer = cast("ClientPeer", request.peer)  # the peer of a server is a client
        _ = self._environment.life.nursery
        cluster = self.remote.cluster
        session = call.channel.session_id if peer.revision.core_tasks and cluster.is_shared else None
        record = attrs.evolve(
            new_record(request, owner, done, self._policy), session=session, worker=cluster.worker, token=1
        )
        try:
            # A running task is in memory, even if its store is not.
            charge = self._environment.budget.charge(
                task_memory_owner(owner), parsed_size(write_record(record).encode())
            )
        except LimitExceeded as excess:
            raise RequestFailed(excess.message, code=ErrorCode.INTERNAL_ERROR) from excess
        target = call.channel.session_target if peer.revision.core_tasks else None
        run = TaskRun(
            record,
            self.store,
            request,
            self._notify,
            announce=self._announcing(record),
            settle=self._settling,
            flush=self._flush,
            target=target,
            http=call.http,
            identity=call.identity,
        )
        run.charge = charge
        self._running[run.id] = run
        try:
            await self.store.create(record)
        except BaseException as error:
            charge.release()
            if isinstance(error, LimitExceeded):
                del self._running[run.id]
                raise RequestFailed(error.message, code=ErrorCode.INVALID_REQUEST) from error
            # The store can have saved the record all the same. No client would ever request or delete it.
            with trio.move_on_after(1, shield=True), suppress(Exception):
                await self.drop(run)
            raise
        self._remember(call, run.id)
        if not self._cleaning:
            self._cleaning = True
            self._environment.life.nursery.start_soon(self._clean)
        _log.info("task started: task=%s… owner=%s tool=%s", run.id[:8], owner or "anonymous", record.tool)
        return run

    @property
    def _settling(self) -> Callable[[], Awaitable[None]] | None:
        """The function that waits until the other workers have received the messages of this one, if there are others."""
        return self._barrier.wait_for_inboxes if self.remote.cluster.is_shared else None

    def _announcing(self, record: TaskRecord) -> Callable[[], None] | None:
        """Return the function that informs the other workers of a change of a task; `None` in a cluster of one."""
        cluster = self.remote.cluster
        return partial(cluster.broadcast, TaskUpdated(record.state.id)) if cluster.is_shared else None

    async def drop(self, run: TaskRun) -> None:
        """Delete a task that was created but not started."""
        del self._running[run.id]
        run.release_memory()
        await self.store.delete(run.id)

    # --- execution and expiry --------------------------------------------------------------------------------------

    async def _run(self, run: TaskRun, work: Callable[[RequestContext], Awaitable[object]]) -> None:
        try:
            await run.run(work, self._spare_connection())
        finally:
            run.release_memory()
            # A task whose outcome could not be stored stays in memory as long as the server runs.
            if run.kept or run.is_claimed or not run.record.state.terminal:
                self._running.pop(run.id, None)

    async def _recover(self) -> None:
        """Recover the tasks of an earlier process. In a cluster, `serve_others` recovers the tasks of all workers."""
        if not self.remote.cluster.is_shared:
            await self._take_up_all()

    async def serve_others(self) -> None:
        """Recover the tasks of lost workers, and report those of others, while this worker takes part in a cluster."""
        async with open_private_nursery() as nursery:
            nursery.start_soon(self._report)
            while True:
                await self._take_up_all()
                await trio.sleep(_RECOVERY_SECONDS)

    async def _take_up_all(self) -> None:
        """Recover the unfinished tasks of earlier processes and lost workers: run them from the top, or fail them."""
        try:
            records = list(await self.store.unfinished())
            # Several workers take up different tasks first.
            random.shuffle(records)
            for record in records:
                if record.state.id not in self._running and not self.remote.has(record):
                    await self._take_up(record)
        except StoreError as error:
            _log.warning("the unfinished tasks of lost workers or earlier processes cannot be recovered: %s", error)
        except Exception:  # noqa: BLE001  # of the store; this server can continue without these tasks
            _log.exception("the unfinished tasks of an earlier process cannot be recovered")

    async def _take_up(self, record: TaskRecord) -> None:
        claimed = await self.store.claim(record, self.remote.cluster.worker)
        if claimed is None:
            return
        record = claimed
        revision = REVISIONS.get(record.revision)
        work = None if revision is None else self._resumed(record.tool)
        now = time.time()
        announce = self._announcing(record)
        if work is None or revision is None:
            error: JsonObject = {"code": int(ErrorCode.INTERNAL_ERROR), "message": _INTERRUPTED}
            state = record.state.moved("failed", now, message=_INTERRUPTED, error=error)
            await self.store.save(attrs.evolve(record, state=state, input_requests={}))
            _log.info("task failed: task=%s… tool=%s reason=its worker was lost", record.state.id[:8], record.tool)
            if announce is not None:
                # The broadcast does not reach this worker.
                self.remote.update(record.state.id)
                announce()
            return
        if record.state.status != "working":
            record = attrs.evolve(record, state=record.state.moved("working", now))
        run = self._running[record.state.id] = TaskRun(
            record,
            self.store,
            recalled(record, revision),
            self._notify,
            announce=announce,
            settle=self._settling,
            flush=self._flush,
            target=None if record.session is None else self.session_target(record.session),
        )
        _log.info("task resumed: task=%s… tool=%s", run.id[:8], record.tool)
        self._environment.life.nursery.start_soon(self._run, run, work)

    async def _clean(self) -> None:
        """Delete expired tasks from the store until it is empty."""
        try:
            due = await self.store.purge(self._clock.earliest(), time.time())
            while due is not None:
                # One second later, so that tasks that expire soon after are deleted in the same run.
                await trio.sleep(max(due - self._clock.earliest(), 0) + 1)
                due = await self.store.purge(self._clock.earliest(), time.time())
        except Exception:  # noqa: BLE001  # of the store
            _log.exception("expired tasks cannot be deleted")
        finally:
            self._cleaning = False

    # --- other workers ---------------------------------------------------------------------------------------------

    def join(self, cluster: Cluster, barrier: ClusterBarrier) -> None:
        """Share the tasks with the workers of a cluster. Call this method before the lifespan of the server starts."""
        self._barrier = barrier
        self.remote = RemoteTasks(cluster, cluster.tasks if self._policy.store is None else self._policy.store)

    def receive(self, message: ClusterMessage) -> None:
        """Receive a message of another worker. Does not block."""
        if isinstance(message, TaskUpdated):
            self.remote.update(message.task)
        elif isinstance(message, TaskCancelRequested | TaskInputReceived | TaskInputFailed):
            run = self._running.get(message.task)
            if run is not None:
                self._environment.life.nursery.start_soon(self._obey, run, message)

    def lost(self) -> None:
        """Learn that another worker has ended: its tasks are taken up. Does not block."""
        self._environment.life.nursery.start_soon(self._take_up_all)

    async def _obey(self, run: TaskRun, message: TaskCancelRequested | TaskInputReceived | TaskInputFailed) -> None:
        """Do what a client requested at another worker."""
        try:
            if isinstance(message, TaskInputReceived):
                responses = message.responses.items()
                await run.answer({key: each for key, each in responses if isinstance(each, dict)})
            elif isinstance(message, TaskInputFailed):
                text, code = str(message.error.get("message")), message.error.get("code")
                if not isinstance(code, int):
                    code = int(ErrorCode.INTERNAL_ERROR)
                run.fail_input(message.key, RequestFailed(text, code=code, data=message.error.get("data")))
            elif not run.record.state.terminal:
                await run.cancel()
        except McpError as error:
            # The other worker waits for the effect, and reports to its client that nothing happened.
            _log.warning("request at another worker failed: task=%s… error=%s", run.id[:8], error)

    async def _report(self) -> None:
        """Notify the clients of this worker of the tasks that other workers run."""
        while True:
            id = await self.remote.next_update()
            if not self._targets:
                continue
            try:
                record = await self.store.load(id)
            except StoreError as error:
                _log.warning("clients are not notified of a task: task=%s… error=%s", id[:8], error)
                continue
            revision = None if record is None else REVISIONS.get(record.revision)
            if record is None or revision is None or id in self._running:
                continue
            requests = input_requests_of(record, revision)
            params = as_extension_task(record.state, ExtensionTaskNotificationParams, requests)
            self._notify(None, NOTIFICATIONS_TASKS, params, id)
            target = None if record.session is None else self.session_target(record.session)
            if target is not None:
                status = as_task(record.state, TaskStatusNotificationParams)
                self._notify(target, NOTIFICATIONS_TASKS_STATUS, status, f"{id} {record.state.status}")

    # --- methods ---------------------------------------------------------------------------------------------------

    async def _find(self, call: RequestContext) -> tuple[TaskRecord, TaskRun | None]:
        """Return the task of a request, and its run if it is running. Raises `RequestFailed` if the task is unknown."""
        id = cast("str", getattr(call.request.params, "task_id"))  # noqa: B009  # all these params have it
        run = self._running.get(id)
        # Ids of this server are ASCII. Other ids are not looked up: a store may not support their characters.
        record = run.record if run is not None else await self.store.load(id) if id.isascii() else None
        if record is None or record.owner != call.channel.principal:
            raise _unknown(call)
        ttl = record.state.ttl
        if ttl is not None and self._clock.age(record.state.created_at) * 1000 >= ttl:
            raise _unknown(call)
        self._remember(call, id)
        return record, run

    async def _get(self, call: RequestContext) -> WireObject:
        record, run = await self._find(call)
        state = record.state
        if call.request.definition is not EXTENSION_TASKS_GET:
            return as_task(state, GetTaskResult)
        requests = None if run is None else run.input_requests
        if run is None and not state.terminal:
            if self.remote.has(record):
                requests = input_requests_of(record, REVISIONS[record.revision])
            else:
                # A lost worker sent an input request; the resumed function sends it again.
                state = attrs.evolve(state, status="working")
        return as_extension_task(state, GetExtensionTaskResult, requests)

    async def _update(self, call: RequestContext) -> WireObject:
        record, run = await self._find(call)
        given = call.request.raw.get("inputResponses")
        responses = given.items() if isinstance(given, dict) else ()
        answers = {key: each for key, each in responses if isinstance(each, dict)}
        if run is not None:
            await run.answer(answers)
        elif self.remote.has(record) and (wanted := check_input_responses(record, answers)):
            message = TaskInputReceived(record.state.id, dict(wanted))
            await self.remote.request(record, message, lambda found: wanted.keys() <= found.answers.keys())
        return UpdateTaskResult()

    async def _cancel(self, call: RequestContext) -> WireObject:
        legacy = call.request.definition is not EXTENSION_TASKS_CANCEL
        record, run = await self._find(call)
        if record.state.terminal:
            if legacy:
                why = f"the task is {as_task(record.state, Task).status} and can no longer be cancelled"
                raise RequestFailed(why, code=ErrorCode.INVALID_PARAMS)
            return CancelExtensionTaskResult()
        if run is not None:
            await run.cancel()
            record = run.record
        elif self.remote.has(record):
            message = TaskCancelRequested(record.state.id)
            record = await self.remote.request(record, message, lambda found: found.state.terminal) or record
        else:
            # Its worker was lost, and the task is not recovered yet.
            claimed = await self.store.claim(record, self.remote.cluster.worker)
            if claimed is None:
                raise RequestFailed(_MOVING, code=ErrorCode.INTERNAL_ERROR)
            record = attrs.evolve(claimed, state=claimed.state.moved("cancelled", time.time()), input_requests={})
            await self.store.save(record)
        if record.state.status != "cancelled":
            # The task ended first, or another worker claimed it meanwhile.
            raise RequestFailed(_MOVING, code=ErrorCode.INTERNAL_ERROR)
        return as_task(record.state, CancelTaskResult) if legacy else CancelExtensionTaskResult()

    async def _result(self, call: RequestContext) -> JsonObject:
        record, run = await self._find(call)
        while not record.state.terminal:
            if run is not None:
                await run.attend(call)
            elif self.remote.has(record):
                await self.remote.attend(record, call)
            elif self.remote.cluster.is_shared:
                # Its worker was lost. Some worker takes up the task soon.
                await trio.sleep(_LOOK_SECONDS)
            else:
                break
            record, run = await self._find(call)
        state = record.state
        if state.error is not None:
            error = state.error
            raise RequestFailed(str(error["message"]), code=cast("int", error["code"]), data=error.get("data"))
        if state.result is None:
            raise RequestFailed(f"the task is {state.status}, and has no result", code=ErrorCode.INVALID_REQUEST)
        meta = state.result.get("_meta")
        related: JsonObject = {**(meta if isinstance(meta, dict) else {}), RELATED_TASK: {"taskId": state.id}}
        return {**state.result, "_meta": related}

    async def watchable(self, call: RequestContext, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of those tasks that the client can subscribe to."""
        records = [await self.store.load(id) for id in dict.fromkeys(ids) if id.isascii()]
        return tuple([each.state.id for each in records if each is not None and each.owner == call.channel.principal])

    # --- tasks/list (2025-11-25) -----------------------------------------------------------------------------------

    def _remember(self, call: RequestContext, id: str) -> None:
        """Record a task id on its connection. An anonymous client can list the tasks recorded on its connection."""
        if call.channel.principal is None and call.request.peer.revision.core_tasks:
            known = call.channel.tasks
            if known is None:
                known = call.channel.tasks = {}
            known[id] = None
            if len(known) > self._environment.limits.tasks:
                del known[next(iter(known))]

    async def _list(self, call: RequestContext) -> ListTasksResult:
        principal = call.channel.principal
        bound_to = binding(principal, TASKS_LIST.name, {})
        after = self._place(cast("ListTasksRequestParams", call.request.params).cursor, bound_to)
        count = self._environment.limits.page_items
        if principal is None:
            found = [await self.store.load(id) for id in tuple(call.channel.tasks or ())]
            kept = [
                record for record in found if record is not None and (after is None or TaskOrder.of(record) > after)
            ]
            records = tuple(sorted(kept, key=TaskOrder.of)[: count + 1])
        else:
            records = await self.store.listed(principal, after, count + 1)
        cursor = None
        if len(records) > count:
            records = records[:count]
            last = TaskOrder.of(records[-1])
            cursor = self._environment.keys.seal(json.dumps([last.created_at, last.id]).encode(), bound_to)
        now = time.time()
        states = [
            self._running[each.state.id].record.state if each.state.id in self._running else each.state
            for each in records
        ]
        alive = [state for state in states if state.expires_at is None or state.expires_at > now]
        return ListTasksResult(tasks=tuple([as_task(state, Task) for state in alive]), next_cursor=cursor)

    def _place(self, cursor: str | None, bound_to: bytes) -> TaskOrder | None:
        if cursor is None:
            return None
        plain = self._environment.keys.unseal(cursor, bound_to)
        if plain is None:
            raise RequestFailed("the cursor is invalid for this list", code=ErrorCode.INVALID_PARAMS)
        created_at, id = json.loads(plain)
        return TaskOrder(created_at, id)


def _no_session(_: str) -> None:
    """Return no session: this worker serves none."""


def _unknown(call: RequestContext) -> RequestFailed:
    why = f"{call.request.method}: there is no such task, or it has expired"
    return RequestFailed(why, code=ErrorCode.INVALID_PARAMS)
