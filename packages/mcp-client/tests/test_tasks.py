"""Tool calls as tasks, with the server of this project: in both forms, over memory, pipes and HTTP."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from mcp_client import Client, Deadlines, Handlers, TaskCancelled, ToolFailed, ToolResult, open_http, open_stdio
from mcp_client.testing import open_in_memory
from mcp_core.errors import LocalProtocolError, McpError, RequestFailed, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import (
    ELICITATION_CREATE,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    SAMPLING_CREATE_MESSAGE,
    SUBSCRIPTIONS_LISTEN,
    TASKS_CANCEL,
    TASKS_GET,
    TASKS_LIST,
    TASKS_RESULT,
)
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, Revision
from mcp_core.types import (
    CancelTaskRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    ListTasksRequestParams,
    RequestedSchema,
    SamplingMessage,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    TaskMetadata,
    TextContent,
)
from mcp_server import Context, ElicitationAccepted, Server, TaskPolicy, ToolError, serve_http, serve_stream
from mcp_server.features import request_as_task

BOTH = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
QUICK = TaskPolicy(poll_interval=0.05)


@attrs.frozen
class Name:
    name: str


def make_server(policy: TaskPolicy = QUICK, middleware: Sequence[Middleware] = ()) -> Server:
    server = Server("tasks", version="0", tasks=policy, middleware=middleware)
    stopped: list[str] = []

    @server.tool
    async def plain() -> str:
        return "plain"

    @server.tool
    async def how_many_stopped() -> int:
        return len(stopped)

    @server.tool(task="required")
    async def must(context: Context, seconds: float = 0.1) -> str:
        await context.progress(1, 2, "half of it")
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            stopped.append("must")
            raise
        return "done" if context.task else "not a task"

    @server.tool(task="optional")
    async def may(context: Context) -> str:
        return "as a task" if context.task else "at once"

    @server.tool(task="required")
    async def elicit_twice(context: Context) -> str:
        answer = await context.elicit(Name, "Who?")
        second = await context.elicit(Name, "And who else?")
        names = [each.value.name if isinstance(each, ElicitationAccepted) else "-" for each in (answer, second)]
        return " and ".join(names)

    @server.tool(task="required")
    async def fails(how: str) -> dict[str, int]:
        if how == "tool":
            raise ToolError("it cannot be done")
        raise RequestFailed("no", code=-32000, data=[1])

    return server


class ElicitationHandler:
    """A handler that answers elicitations with names."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.messages: list[str] = []

    async def __call__(self, params: ElicitRequestFormParams) -> ElicitResult:
        self.messages.append(params.message)
        return ElicitResult(action="accept", content={"name": self.names.pop(0)})


@asynccontextmanager
async def connected(
    revision: Revision,
    server: Server | None = None,
    handlers: Handlers | None = None,
    deadlines: Deadlines | None = None,
) -> AsyncIterator[Client]:
    served = server or make_server()
    with trio.fail_after(300):
        async with open_in_memory(
            lambda stream: serve_stream(served, stream),
            revisions=(revision,),
            handlers=handlers or Handlers(),
            deadlines=deadlines or Deadlines(),
        ) as client:
            yield client


def text_of(result: ToolResult[object]) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


# --- calling a tool --------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.client-handles-both", "tasks.fixed-shape-clients", "tasks.poll-until-done", "tasks.poll-until-terminal"
)
@pytest.mark.spec("tasks.client-task-if-required", "tasks.client-declares-per-request", "tasks.get-request")
@BOTH
async def test_call_of_task_tool_returns_result(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    shown: list[str | None] = []

    def record_progress(_progress: float, _total: float | None, message: str | None) -> None:
        shown.append(message)

    async with connected(revision) as client:
        # In 2025-11-25 the tool list states how a tool must be called; the client reads it after an error.
        assert text_of(await client.call_tool("must", on_progress=record_progress)) == "done"
        assert "half of it" in shown
        assert text_of(await client.call_tool("must")) == "done"
        assert text_of(await client.call_tool("plain")) == "plain"


@pytest.mark.spec("tasks.client-task-if-required", "tasks.client-no-task-if-forbidden", "tasks.augment-only-declared")
async def test_listed_task_support_decides_form_of_call(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(R2025_11_25) as client:
        await client.list_tools()
        assert text_of(await client.call_tool("must")) == "done"
        assert text_of(await client.call_tool("may")) == "at once"
        with pytest.raises(RequestFailed, match="unknown tool"):
            await client.call_tool("missing")


@pytest.mark.spec("tasks.no-tasks-without-capability", "tasks.client-no-tool-tasks-without-capability")
async def test_start_task_without_capability_rejected() -> None:
    server = Server("none", version="0")
    server.add_tool(lambda: "x", name="x")
    async with connected(R2025_11_25, server) as client:
        with pytest.raises(LocalProtocolError, match="does not offer tasks"):
            await client.start_task("x")
    async with connected(R2025_06_18, server) as client:
        with pytest.raises(LocalProtocolError, match="revision 2025-06-18 does not support tasks"):
            await client.start_task("x")
        with pytest.raises(LocalProtocolError, match="does not support tasks"):
            client.task("x")


@pytest.mark.spec(
    "tasks.client-fulfils-inputs", "tasks.client-inspects-inputs", "tasks.client-trust-model", "tasks.host-trust-model"
)
@pytest.mark.spec("tasks.client-dedup", "tasks.client-no-double-answer", "tasks.client-continues-observing")
@pytest.mark.spec("tasks.input-required-call-result", "tasks.update-request")
@BOTH
async def test_task_input_requests_answered_once(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    handler = ElicitationHandler("Ann", "Bob")
    async with connected(revision, handlers=Handlers(elicit=handler)) as client:
        assert text_of(await client.call_tool("elicit_twice")) == "Ann and Bob"
    assert handler.messages == ["Who?", "And who else?"]


@pytest.mark.spec("tools.client-shows-execution-errors", "tools.client-execution-errors-to-model")
@BOTH
async def test_task_failure_returns_error_result_or_raises(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with connected(revision) as client:
        result = await client.call_tool("fails", {"how": "tool"}, raise_on_error=False)
        assert result.is_error is True
        assert text_of(result) == "it cannot be done"
        with pytest.raises(ToolFailed, match=r"^the tool 'fails' failed: it cannot be done$") as raised:
            await client.call_tool("fails", {"how": "tool"})
        assert raised.value.result.is_error
        task = await client.start_task("fails", {"how": "tool"})
        with pytest.raises(ToolFailed, match="the tool 'fails' failed: it cannot be done"):
            await task.wait()
        assert (await task.wait(raise_on_error=False)).is_error
        with pytest.raises(RequestFailed, match="no") as failed:
            await client.call_tool("fails", {"how": "protocol"})
        assert (failed.value.code, failed.value.data) == (-32000, [1])


@pytest.mark.spec("tasks.cancel-method", "cancellation.tasks-use-tasks-cancel", "tasks.cancel-client-forgets")
@BOTH
async def test_cancelled_call_cancels_task(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(revision) as client:
        await client.list_tools()
        with trio.move_on_after(1):
            await client.call_tool("must", {"seconds": 1_000})
        await trio.sleep(0.1)
        assert text_of(await client.call_tool("how_many_stopped")) == '{"result":1}'


@BOTH
async def test_total_deadline_cancels_task(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(revision) as client:
        await client.list_tools()
        with pytest.raises(RequestTimeout, match="the total deadline of 2 s passed"):
            await client.call_tool("must", {"seconds": 1_000}, deadlines=Deadlines(total=2))
        await trio.sleep(0.1)
        assert text_of(await client.call_tool("how_many_stopped")) == '{"result":1}'


@BOTH
async def test_task_outlasts_idle_deadline(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(revision, deadlines=Deadlines(idle=5)) as client:
        assert text_of(await client.call_tool("must", {"seconds": 60})) == "done"


@BOTH
async def test_task_input_handler_error_fails_call(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async def refuse(params: ElicitRequestFormParams) -> ElicitResult:
        raise RequestFailed("leave me alone", code=-32000)

    async with connected(revision, handlers=Handlers(elicit=refuse)) as client:
        with pytest.raises(RequestFailed, match="leave me alone"):
            await client.call_tool("elicit_twice")


async def test_tasks_disabled_not_declared() -> None:
    async with connected(R2026_07_28, handlers=Handlers(tasks=False)) as client:
        assert text_of(await client.call_tool("may")) == "at once"
        with pytest.raises(RequestFailed) as failed:
            await client.call_tool("must")
        assert failed.value.code == -32021


# --- handles ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.persist-ids", "tasks.requestor-track")
@BOTH
async def test_task_started_awaited_and_found_by_id(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(revision) as client:
        handle = await client.start_task("must", {"seconds": 5}, ttl=60)
        assert handle.status == "working"
        assert handle.ttl == (60 if revision is R2025_11_25 else 3_600)
        assert handle.id is not None
        assert repr(handle) == "<TaskHandle working>"
        same_task = client.task(handle.id)
        assert await same_task.refresh() == "working"
        assert same_task.message == "half of it"
        assert text_of(await handle.wait()) == "done"
        assert text_of(await handle.wait()) == "done"
        assert text_of(await same_task.wait()) == "done"
        await same_task.cancel()
        assert await same_task.refresh() == "completed"


@BOTH
async def test_cancelled_task_wait_raises(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(revision) as client:
        handle = await client.start_task("must", {"seconds": 1_000})
        await handle.cancel()
        with pytest.raises(TaskCancelled, match="cancelled by the client"):
            await handle.wait()
        with pytest.raises(TaskCancelled):
            await handle.wait()


@BOTH
async def test_cancelled_wait_keeps_task(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    async with connected(revision) as client:
        handle = await client.start_task("must", {"seconds": 10})
        with trio.move_on_after(1):
            await handle.wait()
        with pytest.raises(RequestTimeout):
            await handle.wait(deadlines=Deadlines(total=1))
        assert text_of(await handle.wait()) == "done"


@pytest.mark.spec("tasks.cancelled-deleted")
@BOTH
async def test_unknown_task_raises(revision: Revision) -> None:
    async with connected(revision, make_server()) as client:
        handle = client.task("no-such-task")
        with pytest.raises(RequestFailed, match="there is no such task"):
            await handle.wait()
        with pytest.raises(RequestFailed, match="there is no such task"):
            await handle.cancel()


async def test_immediate_result_gives_completed_handle() -> None:
    async with connected(R2026_07_28) as client:
        handle = await client.start_task("plain")
        assert handle.id is None
        assert await handle.refresh() == "completed"
        await handle.cancel()
        assert text_of(await handle.wait()) == "plain"


async def test_task_async_progress_handler_called(autojump_clock: trio.testing.MockClock) -> None:
    shown: list[float] = []

    async def record_progress(progress: float, *_: object) -> None:
        await trio.lowlevel.checkpoint()
        shown.append(progress)

    async with connected(R2026_07_28) as client:
        await client.call_tool("must", on_progress=record_progress)
    assert shown == [1, 2]


# --- polling ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.respect-poll-interval",
    "tasks.poll-interval-respected",
    "tasks.poll-interval-changes",
    "tasks.notification-client-polls",
)
@pytest.mark.spec("tasks.status-notification-not-relied-on", "tasks.keep-polling")
async def test_task_poll_interval_respected(autojump_clock: trio.testing.MockClock) -> None:
    polls: list[float] = []

    async def serve(
        stream: trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream],
    ) -> None:
        await _scripted_server(stream, polls, [10_000, 20_000, None])

    with trio.fail_after(100):
        async with open_in_memory(serve, revisions=(R2026_07_28,)) as client:
            assert text_of(await client.call_tool("x")) == "there"
    assert [round(later - earlier) for earlier, later in itertools.pairwise(polls)] == [10, 20, 1]


@pytest.mark.spec("tasks.client-dedup", "tasks.client-no-double-answer", "tasks.update-eventual")
async def test_task_input_request_repeated_after_answer_ignored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    form: JsonObject = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    input_request: JsonObject = {"method": "elicitation/create", "params": form}
    waiting: JsonObject = {"status": "input_required", "inputRequests": {"who": input_request}}
    updates: list[JsonObject] = []

    async def serve(
        stream: trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream],
    ) -> None:
        await _scripted_server(stream, [], [1_000, 1_000, 1_000], waiting, updates)

    handler = ElicitationHandler("Ann", "Bob")
    with trio.fail_after(100):
        async with open_in_memory(serve, revisions=(R2026_07_28,), handlers=Handlers(elicit=handler)) as client:
            assert text_of(await client.call_tool("x")) == "there"
    assert handler.messages == ["Who?"]
    assert updates == [{"who": {"action": "accept", "content": {"name": "Ann"}}}]


async def _scripted_server(
    stream: trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream],
    polls: list[float],
    intervals: Sequence[int | None],
    meanwhile: JsonObject | None = None,
    updates: list[JsonObject] | None = None,
) -> None:
    """Respond to a call with a task, which completes after as many polls as there are intervals."""
    import orjson

    at = "2026-01-01T00:00:00Z"
    task: JsonObject = {"taskId": "t", "status": "working", "createdAt": at, "lastUpdatedAt": at, "ttlMs": None}
    rest = b""
    while data := await stream.receive_some():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            message = orjson.loads(line)
            method, result = message["method"], {}
            if method == "server/discover":
                extensions: JsonObject = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "tools": {}}
                result = {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": extensions,
                    "ttlMs": 0,
                    "cacheScope": "private",
                }
            elif method == "tools/call":
                result = {**task, "resultType": "task"}
            elif method == "tasks/get":
                remaining = intervals[len(polls) :]
                polls.append(trio.current_time())
                result = {
                    **task,
                    **(meanwhile or {}),
                    **({"pollIntervalMs": remaining[0]} if remaining and remaining[0] else {}),
                }
                if not remaining:
                    result |= {"status": "completed", "result": {"content": [{"type": "text", "text": "there"}]}}
            elif method == "tasks/update" and updates is not None:
                updates.append(message["params"]["inputResponses"])
            else:
                error = {"code": -32601, "message": "no"}
                await stream.send_all(orjson.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}) + b"\n")
                continue
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result}}
            await stream.send_all(orjson.dumps(answer) + b"\n")


# --- over pipes and HTTP ---------------------------------------------------------------------------------------------


_PROGRAM = """
import trio
from mcp_server import Context, Server, TaskPolicy, serve_stdio

server = Server("child", version="0", tasks=TaskPolicy(poll_interval=0.01))

@server.tool(task="required")
async def must(context: Context) -> str:
    return "done" if context.task else "not a task"

trio.run(serve_stdio, server)
"""


@BOTH
async def test_task_over_stdio(revision: Revision) -> None:
    with trio.fail_after(30):
        async with open_stdio([sys.executable, "-c", _PROGRAM], revisions=(revision,), inherit_env=True) as client:
            assert text_of(await client.call_tool("must")) == "done"


def _principal(headers: Mapping[str, str] | object) -> str | None:
    """Return the value of the `Authorization` header, unchecked."""
    get = getattr(headers, "get", None)
    found = get("authorization") if get is not None else None
    return found if isinstance(found, str) else None


@asynccontextmanager
async def serve_over_http(*, identify: bool = False, server: Server | None = None) -> AsyncIterator[str]:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def serve(*, task_status: trio.TaskStatus[Sequence[str]]) -> None:
                if identify:
                    await serve_http(
                        server or make_server(), "127.0.0.1:0", authenticate=_identify, task_status=task_status
                    )
                else:
                    await serve_http(server or make_server(), "127.0.0.1:0", task_status=task_status)

            urls = await nursery.start(serve)
            yield urls[0]
            nursery.cancel_scope.cancel()


async def _identify(request: object) -> str | None:
    return _principal(getattr(request, "headers", request))


@pytest.mark.spec(
    "tasks.http-rules-hold", "tasks.messages-any-stream", "tasks.mcp-name-header", "tasks.mcp-name-accepted"
)
@BOTH
async def test_task_over_http(revision: Revision) -> None:
    handler = ElicitationHandler("Ann", "Bob")
    async with (
        serve_over_http() as url,
        open_http(url, revisions=(revision,), handlers=Handlers(elicit=handler)) as client,
    ):
        assert text_of(await client.call_tool("must")) == "done"
        assert text_of(await client.call_tool("elicit_twice")) == "Ann and Bob"
        handle = await client.start_task("must", {"seconds": 1_000})
        await handle.cancel()
        assert await handle.refresh() == "cancelled"


@pytest.mark.spec(
    "tasks.auth-checks",
    "tasks.bind-context",
    "tasks.reject-other-context",
    "tasks.list-own-context",
    "security.handle-bound-to-user",
    "security.handle-not-authentication",
)
@BOTH
async def test_task_of_other_principal_not_found(revision: Revision) -> None:
    async with serve_over_http(identify=True) as url:  # noqa: SIM117  the outer one must end last
        async with (
            open_http(url, revisions=(revision,), headers={"Authorization": "Ann"}) as ann,
            open_http(url, revisions=(revision,), headers={"Authorization": "Bob"}) as bob,
        ):
            own_task = await ann.start_task("must", {"seconds": 1_000})
            assert own_task.id is not None
            foreign = bob.task(own_task.id)
            with pytest.raises(RequestFailed, match="there is no such task") as unknown:
                await foreign.refresh()
            assert unknown.value.code == -32602
            with pytest.raises(RequestFailed, match="there is no such task"):
                await foreign.cancel()
            assert await own_task.refresh() == "working"
            if revision is R2025_11_25:
                with pytest.raises(RequestFailed, match="there is no such task"):
                    await bob.request(TASKS_RESULT, GetTaskPayloadRequestParams(task_id=own_task.id))
                assert (await bob.request(TASKS_LIST, ListTasksRequestParams())).tasks == ()
                (listed,) = (await ann.request(TASKS_LIST, ListTasksRequestParams())).tasks
                assert listed.task_id == own_task.id


@pytest.mark.spec("tasks.auth-checks", "tasks.listen-only-requested")
async def test_task_of_other_principal_not_subscribable() -> None:
    granted: dict[str, SubscriptionFilter] = {}
    both_granted = trio.Event()

    def granted_to(name: str) -> Handlers:
        def record_granted(params: SubscriptionsAcknowledgedNotificationParams) -> None:
            granted[name] = params.notifications
            if len(granted) == 2:
                both_granted.set()

        return Handlers(notifications={NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED: record_granted})

    async with serve_over_http(identify=True) as url:  # noqa: SIM117  the outer one must end last
        async with (
            open_http(url, headers={"Authorization": "Ann"}, handlers=granted_to("Ann")) as ann,
            open_http(url, headers={"Authorization": "Bob"}, handlers=granted_to("Bob")) as bob,
            trio.open_nursery() as nursery,
        ):
            own_task = await ann.start_task("must", {"seconds": 1_000})
            assert own_task.id is not None
            listen_params = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(task_ids=(own_task.id,)))
            for client in (ann, bob):
                nursery.start_soon(client.request, SUBSCRIPTIONS_LISTEN, listen_params)
            await both_granted.wait()
            nursery.cancel_scope.cancel()
    assert granted["Ann"].task_ids == (own_task.id,)
    assert not granted["Bob"].task_ids


@pytest.mark.spec("tasks.no-list-without-identity", "tasks.list-gated")
async def test_tasks_list_not_offered_without_principals() -> None:
    async with serve_over_http() as url, open_http(url, revisions=(R2025_11_25,)) as client:
        assert client.capabilities.tasks is not None
        assert client.capabilities.tasks.list is None
        with pytest.raises(LocalProtocolError, match=r"tasks\.list"):
            await client.request(TASKS_LIST, ListTasksRequestParams())


@pytest.mark.spec("tasks.no-related-meta-in-operations", "tasks.requestor-log")
async def test_task_requests_omit_related_task_and_status_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    messages: list[MiddlewareMessage] = []

    class MessageRecorder(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            messages.append(message)
            return await proceed(message)

    server = make_server(middleware=(MessageRecorder(),))
    with caplog.at_level("DEBUG", "mcp_client"):
        async with serve_over_http(server=server) as url, open_http(url, revisions=(R2025_11_25,)) as client:
            handle = await client.start_task("must")
            await handle.wait()
    methods = {each.method for each in messages}
    assert {"tools/call", "tasks/get", "tasks/result"} <= methods
    for each in messages:
        assert "io.modelcontextprotocol/related-task" not in str(each.raw)
    assert handle.id is not None
    assert f"task status: task={handle.id[:8]}… status=completed" in caplog.text
    assert handle.id not in caplog.text


@pytest.mark.spec("tasks.sse-disconnect")
async def test_task_result_wait_abandoned_and_repeated() -> None:
    async with serve_over_http() as url, open_http(url, revisions=(R2025_11_25,)) as client:
        handle = await client.start_task("must", {"seconds": 0.3})
        assert handle.id is not None
        with trio.move_on_after(0.05):
            await client.request(TASKS_RESULT, GetTaskPayloadRequestParams(task_id=handle.id))
        assert text_of(await handle.wait()) == "done"


# --- task-augmented client requests (2025-11-25) -----------------------------------------------------------------------

FORM = ElicitRequestFormParams(message="Who?", requested_schema=RequestedSchema(properties={}))
SAMPLE = CreateMessageRequestParams(
    messages=(SamplingMessage(role="user", content=TextContent(text="hello")),), max_tokens=5
)


class BlockingHandlers:
    """Handlers of which `elicit` answers after `go` is set."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.stopped = False

    async def elicit(self, params: ElicitRequestFormParams) -> ElicitResult:
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.stopped = True
            raise
        return ElicitResult(action="accept", content={"name": "Ann"})

    async def url(self, params: ElicitRequestURLParams) -> ElicitResult:
        raise RequestFailed("no pages", code=-32001, data={"a": 1})

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        raise RuntimeError("no model")

    def handlers(self) -> Handlers:
        return Handlers(elicit=self.elicit, elicit_url=self.url, sample=self.sample, accept_tasks=True)


def client_requesting_server() -> Server:
    server = Server("asks", version="0")

    @server.tool
    async def patient(context: Context) -> str:
        answer = await request_as_task(context, ELICITATION_CREATE, FORM, ttl=60)
        return f"{answer.action} {answer.content}"

    @server.tool
    async def page(context: Context) -> str:
        params = ElicitRequestURLParams(message="?", url="https://example.com", elicitation_id="1")
        try:
            await request_as_task(context, ELICITATION_CREATE, params)
        except RequestFailed as failed:
            return f"{failed.code} {failed.message} {failed.data}"
        return "not reached"

    @server.tool
    async def model(context: Context) -> str:
        try:
            await request_as_task(context, SAMPLING_CREATE_MESSAGE, SAMPLE)
        except McpError as failed:
            return f"{type(failed).__name__}: {failed.message}"
        return "not reached"

    @server.tool
    async def by_hand(context: Context) -> list[str]:
        answers: list[str] = []
        params = attrs.evolve(FORM, task=TaskMetadata(ttl=10**9))
        created: object = await context.request(ELICITATION_CREATE, params)
        task = getattr(created, "task")  # noqa: B009
        answers.append(f"{task.status} {task.ttl} {len(task.task_id)}")
        for number in range(3):
            await context.request(ELICITATION_CREATE, params)
            answers.append(str(number))
        page = await context.request(TASKS_LIST, ListTasksRequestParams())
        answers.append(f"{len(page.tasks)} {page.next_cursor}")
        answers.append((await context.request(TASKS_GET, GetTaskRequestParams(task_id=task.task_id))).status)
        answers.append((await context.request(TASKS_CANCEL, CancelTaskRequestParams(task_id=task.task_id))).status)
        for definition, other_params in (
            (TASKS_CANCEL, CancelTaskRequestParams(task_id=task.task_id)),
            (TASKS_RESULT, GetTaskPayloadRequestParams(task_id=task.task_id)),
            (TASKS_GET, GetTaskRequestParams(task_id="unknown")),
            (TASKS_LIST, ListTasksRequestParams(cursor="unknown")),
        ):
            try:
                await context.request(definition, other_params)
            except RequestFailed as failed:
                answers.append(f"{failed.code}")
        return answers

    return server


@pytest.mark.spec(
    "tasks.declare-capability", "schema.client-capability-tasks", "schema.notification-methods-client-tasks"
)
@pytest.mark.spec("tasks.result-blocks", "tasks.related-meta-in-result")
async def test_elicitation_task_outlasts_request(autojump_clock: trio.testing.MockClock) -> None:
    blocking = BlockingHandlers()
    async with (
        connected(R2025_11_25, client_requesting_server(), blocking.handlers()) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_set_after, 10.0, blocking.go)
        assert text_of(await client.call_tool("patient")) == "accept {'name': 'Ann'}"


async def _set_after(seconds: float, event: trio.Event) -> None:
    await trio.sleep(seconds)
    event.set()


@pytest.mark.spec("tasks.failed-on-error", "tasks.result-error-same")
async def test_client_task_handler_error_returned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with connected(R2025_11_25, client_requesting_server(), BlockingHandlers().handlers()) as client:
        assert text_of(await client.call_tool("page")) == "-32001 no pages {'a': 1}"
        assert text_of(await client.call_tool("model")) == "RequestFailed: Internal error"


@pytest.mark.spec(
    "tasks.cancel-stops", "tasks.unknown-task-error", "tasks.cancel-terminal-error", "tasks.invalid-cursor-error"
)
@pytest.mark.spec("tasks.limit-ttl", "tasks.id-entropy", "tasks.list-pagination")
async def test_client_task_methods_answered(autojump_clock: trio.testing.MockClock) -> None:
    blocking = BlockingHandlers()
    async with connected(R2025_11_25, client_requesting_server(), blocking.handlers()) as client:
        answers = (await client.call_tool("by_hand")).structured_content
        assert answers == {
            "result": [
                "working 3600000 32",
                "0",
                "1",
                "2",
                "4 None",
                "working",
                "cancelled",
                "-32602",
                "-32600",
                "-32602",
                "-32602",
            ]
        }
        assert blocking.stopped


async def test_client_task_of_cancelled_call_stopped(autojump_clock: trio.testing.MockClock) -> None:
    blocking = BlockingHandlers()
    async with connected(R2025_11_25, client_requesting_server(), blocking.handlers()) as client:
        with trio.move_on_after(5):
            await client.call_tool("patient")
        await trio.sleep(1)
        # The elicitation is cancelled with the call, or expires after its ttl.
        await trio.sleep(61)
        assert blocking.stopped


@pytest.mark.spec("tasks.ignore-undeclared", "tasks.augment-only-declared", "tasks.no-tasks-without-capability")
async def test_client_tasks_undeclared_not_requested() -> None:
    handlers = Handlers(elicit=BlockingHandlers().elicit, sample=BlockingHandlers().sample)
    async with connected(R2025_11_25, client_requesting_server(), handlers) as client:
        assert text_of(await client.call_tool("model")).startswith("MissingRequiredClientCapability")
    async with connected(R2026_07_28, client_requesting_server(), handlers) as client:
        assert text_of(await client.call_tool("model")).startswith(
            "LocalProtocolError: task-augmented client requests are not supported"
        )


def test_client_tasks_capability_follows_handlers() -> None:
    assert Handlers(accept_tasks=True).capabilities().tasks is None
    declared = Handlers(sample=BlockingHandlers().sample, accept_tasks=True).capabilities().tasks
    assert declared is not None
    assert declared.requests is not None
    assert declared.requests.elicitation is None
    assert declared.requests.sampling is not None
