"""Tasks of 2025-11-25, which are part of the core protocol."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.interactive_calls import REPLIES
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, member
from mcp_conformance.checks.probes.schema_check import conforms, look
from mcp_conformance.checks.probes.task_calls import (
    ENDED,
    ask,
    begin,
    cancellable,
    declares_tasks,
    extended,
    id_of,
    unlisted,
    until,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject

_SOON: Final[JsonObject] = {"seconds": 0.2, "label": "soon"}
_LATER: Final[JsonObject] = {"seconds": 0.6, "label": "later"}
"""Arguments of a task that still runs when the response to the next request has arrived, also on a busy machine."""
_LONG: Final[JsonObject] = {"seconds": 60, "label": "long"}
_INVALID_CURSORS: Final = ("conformance-no-such-cursor", "-1")
"""The last one is an offset that no page has, and which some languages count from the end."""
_SHORT: Final[JsonObject] = {"seconds": 0.01, "label": "short"}
_MANY: Final = 25
"""Tasks of a connection, more than usual pages have: 10 or 20."""
_ENORMOUS: Final = 10**13
"""Milliseconds, about three hundred years."""


@check("tasks.declared", proves=("tasks.declare-capability",))
async def declared(server: ServerUnderTest) -> None:
    """A server whose tools support tasks declares tasks.requests.tools.call."""
    tools = server.inventory.lists.get("tools", ())
    able = [each for each in tools if member(each, "execution", "taskSupport") in ("optional", "required")]
    if not able:
        raise NotApplicable("no tool supports tasks")
    if not server.inventory.has("tasks.requests.tools.call"):
        raise Deviation("tasks.requests.tools.call among the capabilities", brief(server.inventory.capabilities))


@check(
    "tasks.not-augmentable",
    proves=("tasks.ignore-undeclared", "tasks.requests-exhaustive"),
    subject=CheckScope.RECOVERING,
)
async def not_augmentable(server: ServerUnderTest) -> None:
    """A params.task is ignored in a request whose type is not declared for tasks."""
    requests = list(_plain_requests(server))
    if not requests:
        raise NotApplicable("the server has no tools, resources and prompts")
    for method, params, name in requests:
        if (await server.peer.request(method, params)).is_error:
            continue  # other checks judge the request itself
        answer = await server.peer.request(
            method, {**params, "task": {"ttl": 1000}}, deviant="a task-augmented request of an undeclared type"
        )
        if not isinstance(answer.result().get(name), list):
            raise Deviation(f"the result of {method}", str(answer))


def _plain_requests(server: ServerUnderTest) -> Iterator[tuple[str, JsonObject, str]]:
    """Yield requests of types that are not declared for tasks: the method, the params, and an array in the result."""
    if server.inventory.has("tools"):
        yield "tools/list", {}, "tools"
    with suppress(NotTestable):  # a server without the fixtures has other requests
        if not declares_tasks(server):
            name, arguments = server.tool("test_simple_text")
            yield "tools/call", {"name": name, "arguments": arguments}, "content"
    with suppress(NotTestable):
        yield "resources/read", {"uri": server.require("resources", "test://static-text")}, "contents"
    with suppress(NotTestable):
        yield "prompts/get", {"name": server.require("prompts", "test_simple_prompt")}, "messages"


@check("tasks.forbidden-tool", proves=("tasks.forbidden-tool-error",), subject=CheckScope.RECOVERING)
async def forbidden_tool(server: ServerUnderTest) -> None:
    """A task-augmented call of a tool without taskSupport is rejected with -32601."""
    answer = await begin(server, "test_simple_text")
    answer.error(-32601, what="a task-augmented call of a tool without taskSupport")


@check("tasks.required-tool", proves=("tasks.required-tool-error",), subject=CheckScope.RECOVERING)
async def required_tool(server: ServerUnderTest) -> None:
    """A call of a tool that requires a task is rejected with -32601 if it is not task-augmented."""
    extended(server)
    name, arguments = server.tool("failing_job")
    if member(server.inventory.find("tools", name), "execution", "taskSupport") != "required":
        raise NotTestable("the tool for 'failing_job' does not require a task")
    answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments})
    answer.error(-32601, what="a call without a task of a tool that requires one")


@check("tasks.result-waits", proves=("tasks.result-blocks",), subject=CheckScope.RECOVERING)
async def result_waits(server: ServerUnderTest) -> None:
    """`tasks/result` is answered when the task has ended or is cancelled, and not before, also if two requests wait for it."""
    task = id_of(server, await begin(server, "slow_compute", _LATER))

    async def wait() -> None:
        answer = await ask(server, "tasks/result", {"taskId": task})
        shown = (await ask(server, "tasks/get", {"taskId": task})).result()
        if shown.get("status") not in ENDED:
            raise Deviation("a task that has ended when tasks/result is answered", f"{answer}, then {brief(shown)}")
        answer.result()

    async with open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
    if cancellable(server):
        await _result_of_cancelled(server)


async def _result_of_cancelled(server: ServerUnderTest) -> None:
    """Require a response of any kind to a request that waits for a task when the task is cancelled."""
    task = id_of(server, await begin(server, "slow_compute", _LONG))
    params: JsonObject = {"taskId": task}
    async with open_nursery() as nursery:
        nursery.start_soon(ask, server, "tasks/result", params)
        # Its response shows that the other request was sent.
        await ask(server, "tasks/get", params)
        await ask(server, "tasks/cancel", params)


@check("tasks.id-param-wins", proves=("tasks.task-id-param-wins",), subject=CheckScope.RECOVERING)
async def id_param_wins(server: ServerUnderTest) -> None:
    """`tasks/get`, `tasks/cancel` and `tasks/result` use params.taskId, not a related task in `_meta`."""
    long = id_of(server, await begin(server, "slow_compute", _LONG))
    soon = id_of(server, await begin(server, "slow_compute", _SOON))

    async def ask_with_related(method: str, task: str, related: str) -> JsonRpcResponse:
        params: JsonObject = {"taskId": task, "_meta": {RELATED_TASK: {"taskId": related}}}
        return await ask(server, method, params, deviant=f"a related task in {method}")

    for method in ("tasks/get", *(("tasks/cancel",) if cancellable(server) else ())):
        answer = await ask_with_related(method, long, soon)
        if answer.member("taskId", str) != long:
            raise Deviation(f"the task {long}", str(answer))
    answer = await ask_with_related("tasks/result", soon, long)
    if member(answer.result(), "_meta", RELATED_TASK, "taskId") == long:
        raise Deviation(f"the result of the task {soon}", str(answer))


@check("tasks.ttl-limit", proves=("tasks.limit-ttl",), subject=CheckScope.RECOVERING)
async def ttl_limit(server: ServerUnderTest) -> None:
    """The ttl of a task is limited when the client requests three hundred years."""
    extended(server)
    name, arguments = server.tool("slow_compute", _SOON)
    call: JsonObject = {"name": name, "arguments": arguments, "task": {"ttl": _ENORMOUS}}
    created = await server.peer.request("tools/call", call)
    ttl = member(created.result(), "task", "ttl")
    if not isinstance(ttl, int) or ttl >= _ENORMOUS:
        raise Deviation("a ttl below the requested one", str(created))


@check("tasks.no-stream", proves=("tasks.no-sse-for-get",), subject=CheckScope.RECOVERING)
async def no_stream(server: ServerUnderTest) -> None:
    """`tasks/get` is answered with JSON, not with a stream."""
    task = id_of(server, await begin(server, "slow_compute", _SOON))
    answer = await ask(server, "tasks/get", {"taskId": task})
    if any(name == "content-type" and value.startswith("text/event-stream") for name, value in answer.headers):
        raise Deviation("application/json", "text/event-stream")


# --- lists -----------------------------------------------------------------------------------------------------------


@check("tasks.list", proves=("tasks.list-complete", "tasks.list-next-cursor"), subject=CheckScope.RECOVERING)
async def listed(server: ServerUnderTest) -> None:
    """Each task that `tasks/get` returns is on one of the pages of `tasks/list`, whatever its age and status."""
    _require_list(server)
    await ask(server, "tasks/cancel", {"taskId": id_of(server, await begin(server, "slow_compute", _LONG))})
    tasks = _created(server)
    while len(tasks) < _MANY:
        created = await begin(server, "slow_compute", _SHORT)
        if created.is_error:
            break  # A server may limit the tasks of a client.
        tasks.append(id_of(server, created))
    missing = await unlisted(server, tasks)
    if missing:
        shown = await ask(server, "tasks/get", {"taskId": missing[0]})
        raise Deviation(f"the task {missing[0]} in tasks/list", f"it is absent, but tasks/get returns it: {shown}")


def _created(server: ServerUnderTest) -> list[str]:
    """Return all tasks of the connection: those of earlier checks have different statuses."""
    found = (
        member(each.result, "task", "taskId")
        for each in RecordedMessages([server.peer.transcript]).exchanges
        if each.method == "tools/call" and isinstance(member(each.request, "params", "task"), dict)
    )
    return [each for each in found if isinstance(each, str)]


def _require_list(server: ServerUnderTest) -> None:
    extended(server)
    if not server.inventory.has("tasks.list"):
        raise NotApplicable("the server does not declare tasks.list")


@check("tasks.list-cursor", proves=("tasks.invalid-cursor-error",))
async def list_cursor(server: ServerUnderTest) -> None:
    """An invalid cursor of `tasks/list` is answered with -32602."""
    _require_list(server)
    for cursor in _INVALID_CURSORS:
        answer = await ask(server, "tasks/list", {"cursor": cursor})
        answer.error(-32602, what=f"the invalid cursor {brief(cursor)}")


@check("tasks.gated", proves=("tasks.list-gated", "tasks.cancel-gated"))
async def gated(server: ServerUnderTest) -> None:
    """`tasks/list` and `tasks/cancel` are served if they are declared, and are unknown methods otherwise."""
    extended(server)
    probes: tuple[tuple[str, str, JsonObject], ...] = (
        ("tasks.list", "tasks/list", {}),
        ("tasks.cancel", "tasks/cancel", {"taskId": "conformance-no-such-task"}),
    )
    for capability, method, params in probes:
        answer = await ask(server, method, params)
        unknown = answer.is_error and answer.error().get("code") == -32601
        if unknown is server.inventory.has(capability):
            state = "declared" if server.inventory.has(capability) else "not declared"
            raise Deviation(
                f"{method} to be served if and only if {capability} is declared", f"it is {state}: {answer}"
            )


# --- related messages
# ---------------------------------------------------------------------------------------------------


@check(
    "tasks.related",
    proves=("tasks.related-meta-in-result", "tasks.related-task-meta", "schema.related-task"),
    subject=CheckScope.EVIDENCE,
)
async def related(server: ServerUnderTest) -> None:
    """Each result of `tasks/result` names the task in `_meta`, also that of a tool that fails."""
    has_results = False
    for each in RecordedMessages(server.evidence).exchanges:
        # `tasks.id-param-wins` covers requests that name two tasks.
        has_other = member(each.request, "params", "_meta", RELATED_TASK) is not None
        if each.method != "tasks/result" or has_other or not isinstance(each.result, dict):
            continue
        has_results = True
        task = member(each.request, "params", "taskId")
        if member(each.result, "_meta", RELATED_TASK, "taskId") != task:
            raise Deviation(f"_meta.{RELATED_TASK} with the task {brief(task)}", brief(each.response))
    if not has_results:
        raise NotApplicable("the server had no task with a result")


@check(
    "tasks.input",
    proves=("tasks.input-request-related", "tasks.related-task-meta", "tasks.input-received-leaves"),
    subject=CheckScope.RECOVERING,
)
async def requires_input(server: ServerUnderTest) -> None:
    """Each client request of a task names it in `_meta`, also beside another one, and the task continues after the response."""
    server.peer.replies["elicitation/create"] = REPLIES["elicitation/create"]
    tasks = [id_of(server, await begin(server, "confirm_delete", {"filename": "none.txt"}))]
    with suppress(NotTestable):  # a server without this tool has the other one
        tasks.append(id_of(server, await begin(server, "multi_input")))
    async with open_nursery() as nursery:
        for task in tasks:
            params: JsonObject = {"taskId": task}
            nursery.start_soon(ask, server, "tasks/result", params)
    requests = [each for each in server.peer.inbox if each.get("method") == "elicitation/create"]
    related_to = [member(each, "params", "_meta", RELATED_TASK, "taskId") for each in requests]
    for each, named in zip(requests, related_to, strict=True):
        if named not in tasks:
            raise Deviation(f"_meta.{RELATED_TASK} with the task {' or '.join(tasks)}", brief(each))
    for task in tasks:
        if task not in related_to:
            raise Deviation(f"elicitation/create for the task {task}", f"requests only for {brief([*related_to])}")
        await until(server, task, "completed")


look(
    "tasks.no-related",
    "Results and notifications about a task itself have no related task in `_meta`.",
    "tasks.no-related-meta-in-answers",
    "tasks.status-notification-no-related-meta",
    at=lambda recorded: (
        *recorded.results("tasks/get", "tasks/list", "tasks/cancel"),
        *recorded.notified("notifications/tasks/status"),
    ),
    by=lambda value, _: "it has a related task" if member(value, "_meta", RELATED_TASK) is not None else None,
    what="result or notification about a task",
)
look(
    "schema.related-task",
    "A related task is an object with a taskId.",
    "schema.related-task",
    at=lambda recorded: (
        found
        for value in (
            *recorded.results("tasks/result"),
            *recorded.client_requests("elicitation/create"),
            *recorded.notified("notifications/progress"),
        )
        if (found := member(value, "_meta", RELATED_TASK)) is not None
    ),
    by=conforms("RelatedTaskMetadata"),
    what="related task",
)


@check(
    "tasks.undeclared-client",
    proves=("tasks.augment-only-declared", "tasks.no-tasks-without-capability"),
    subject=CheckScope.EVIDENCE,
)
async def undeclared_client(server: ServerUnderTest) -> None:
    """The server sends no task-augmented request to a client that does not declare tasks."""
    undeclared = [each for each in server.evidence if not _declares_tasks(each)]
    for message in RecordedMessages(undeclared).spoken:
        if member(message, "params", "task") is not None:
            raise Deviation("no task in a request to the client", brief(message))


def _declares_tasks(transcript: Transcript) -> bool:
    """Return whether the suite declared tasks as a client on a connection."""
    return any(member(each, "params", "capabilities", "tasks") is not None for each in transcript.messages(sent=True))
