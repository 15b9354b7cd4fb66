"""The tasks extension of 2026-07-28: capabilities, input requests and subscriptions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import key_of
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, items, member
from mcp_conformance.checks.probes.schema_check import look
from mcp_conformance.checks.probes.task_calls import DECLARED, ENDED, ask, begin, extended, id_of, require_status, until
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection
from mcp_conformance.drivers.settings import ALL_CAPABILITIES
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import R2025_11_25
from mcp_core.types.meta import CLIENT_CAPABILITIES, LOG_LEVEL, SUBSCRIPTION_ID, TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_SOON: Final[JsonObject] = {"seconds": 0.2, "label": "soon"}
_SHORT: Final[JsonObject] = {"seconds": 0.01, "label": "short"}
_LONG: Final[JsonObject] = {"seconds": 60, "label": "long"}
_UNKNOWN: Final[JsonObject] = {"taskId": "conformance-no-such-task"}
_UPDATE: Final[JsonObject] = {**_UNKNOWN, "inputResponses": {}}
_METHODS: Final = (("tasks/get", _UNKNOWN), ("tasks/cancel", _UNKNOWN), ("tasks/update", _UPDATE))


@check("tasks.methods-unsupported", proves=("tasks.methods-unsupported-32601",))
async def methods_unsupported(server: ServerUnderTest) -> None:
    """A server without the extension rejects its methods with -32601."""
    if member(server.inventory.capabilities, "extensions", TASKS_EXTENSION) is not None:
        raise NotApplicable("the server declares the extension")
    for method, params in _METHODS:
        (await ask(server, method, params)).error(-32601, what=f"{method} of a server without the extension")


@check("tasks.methods-undeclared", proves=("tasks.methods-undeclared-32021",))
async def methods_undeclared(server: ServerUnderTest) -> None:
    """The methods of the extension are rejected with -32021 and the extension if the client does not declare it."""
    extended(server)
    for method, params in _METHODS:
        _require_named(await server.peer.request(method, params), f"{method} of a client without the extension")


def _require_named(answer: JsonRpcResponse, what: str) -> None:
    """Require the error -32021 with the extension among the required capabilities."""
    error = answer.error(-32021, what=what)
    if not isinstance(member(error, "data", "requiredCapabilities", "extensions", TASKS_EXTENSION), dict):
        raise Deviation(f"data.requiredCapabilities.extensions with {TASKS_EXTENSION} for {what}", str(answer))


@check("tasks.removed", proves=("tasks.tasks-result-removed", "tasks.tasks-list-removed"))
async def removed(server: ServerUnderTest) -> None:
    """`tasks/result` and `tasks/list` do not exist: -32601."""
    for method, params in (("tasks/result", _UNKNOWN), ("tasks/list", {})):
        answer = await ask(server, method, params, deviant="a method that the revision does not have")
        answer.error(-32601, what=method)


@check("tasks.required", proves=("tasks.required-error-32021", "tasks.required-error-data"))
async def required(server: ServerUnderTest) -> None:
    """A call that requires a task is rejected with -32021 and the extension, if the client does not declare it."""
    extended(server)
    name, arguments = server.tool("failing_job")
    answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments})
    _require_named(answer, "a tool that requires a task")
    with suppress(NotTestable):
        await begin(server, "slow_compute", _SOON)
        answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments})
        _require_named(answer, "a tool that requires a task, while a task is in progress")


@check(
    "tasks.fallback",
    proves=("capability.extension-fallback-or-reject", "capability.extension-not-active-by-default"),
)
async def fallback(server: ServerUnderTest) -> None:
    """A client without the extension, also with others, gets the result itself, or an error that names the extension."""
    extended(server)
    name, arguments = server.tool("slow_compute", _SOON)
    answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments})
    if answer.is_error:
        answer.error(-32021, what="a tool that requires a task")
    elif answer.result().get("resultType") != "complete":
        raise Deviation("the result of the tool, or the error -32021", str(answer))
    others: tuple[JsonObject, ...] = ({}, {"com.example/conformance": {}})
    for extensions in others:
        name, arguments = server.tool("slow_compute", _SHORT)
        meta: JsonObject = {CLIENT_CAPABILITIES: {**ALL_CAPABILITIES, "extensions": extensions}}
        answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
        if not answer.is_error and answer.result().get("resultType") != "complete":
            raise Deviation(f"no task for a client with the extensions {brief(extensions)}", str(answer))


@check("tasks.legacy-declaration", proves=("tasks.legacy-capability-non-declaring",))
async def legacy_declaration(server: ServerUnderTest) -> None:
    """A client that declares only the tasks of 2025-11-25 is treated as one without the extension."""
    extended(server)
    legacy: JsonObject = {CLIENT_CAPABILITIES: {**ALL_CAPABILITIES, "tasks": {"list": {}, "cancel": {}}}}
    answer = await server.peer.request("tasks/get", {**_UNKNOWN, "_meta": legacy})
    answer.error(-32021, what="a client that declares only the tasks of 2025-11-25")


@check("tasks.param-ignored", proves=("tasks.task-param-ignored",))
async def param_ignored(server: ServerUnderTest) -> None:
    """A member `task` of a call is ignored: the call gets its result, also of a tool that can run as a task."""
    calls = [server.tool("test_simple_text")]
    with suppress(NotTestable):
        calls.append(server.tool("slow_compute", _SHORT))
    for name, arguments in calls:
        params: JsonObject = {"name": name, "arguments": arguments, "task": {"ttl": 1000}}
        answer = await server.peer.request("tools/call", params, deviant="a member of another revision")
        if answer.is_error and answer.error().get("code") == -32021:
            continue  # a tool that requires a task
        if answer.member("resultType", str) != "complete" or "content" not in answer.result():
            raise Deviation("the result of the tool", str(answer))


# --- recorded messages
# --------------------------------------------------------------------------------------------------


@check(
    "tasks.only-of-calls",
    proves=(
        "tasks.supported-methods",
        "tasks.result-type-only-create",
        "tasks.get-result-type",
        "tasks.update-result-type",
        "tasks.reserved-names",
    ),
    subject=CheckScope.EVIDENCE,
)
async def only_of_calls(server: ServerUnderTest) -> None:
    """Only `tools/call` creates tasks; every other result has the resultType complete, also those about tasks."""
    for each in RecordedMessages(server.evidence).exchanges:
        kind = member(each.result, "resultType")
        if kind == "task" and each.method != "tools/call":
            raise Deviation(f"no task for {each.method}", brief(each.response))
        about = each.method in ("tasks/get", "tasks/update", "tasks/cancel")
        if about and "result" in each.response and kind != "complete":
            raise Deviation(f"resultType complete of {each.method}", brief(each.response))


@check("tasks.advertised", proves=("tasks.server-advertises",), subject=CheckScope.EVIDENCE)
async def advertised(server: ServerUnderTest) -> None:
    """A server that creates tasks declares the extension."""
    made = [each for each in RecordedMessages(server.evidence).exchanges if member(each.result, "resultType") == "task"]
    if made and member(server.inventory.capabilities, "extensions", TASKS_EXTENSION) is None:
        raise Deviation(f"{TASKS_EXTENSION} among the extensions", brief(made[0].response))


look(
    "tasks.no-request-state",
    "A task has no requestState.",
    "tasks.no-request-state",
    at=lambda recorded: (
        each.result
        for each in recorded.exchanges
        if each.method == "tasks/get" or member(each.result, "resultType") == "task"
    ),
    by=lambda value, _: "it has a requestState" if isinstance(value, dict) and "requestState" in value else None,
    what="task",
)
look(
    "tasks.no-related-task",
    "The result in a task does not name the task in `_meta`.",
    "tasks.inlined-result-no-related-task",
    at=lambda recorded: recorded.having(recorded.results("tasks/get"), "result"),
    by=lambda value, _: (
        "it has a related task" if member(value, "_meta", "io.modelcontextprotocol/related-task") is not None else None
    ),
    what="result in a task",
)

# --- input -----------------------------------------------------------------------------------------------------------


_ACCEPTED: Final[JsonObject] = {"action": "accept", "content": {"confirm": True}}


def _requests(shown: JsonObject) -> JsonObject:
    found = shown.get("inputRequests")
    if not isinstance(found, dict) or not found:
        raise Deviation("inputRequests of a task with the status input_required", brief(shown))
    return found


@check(
    "tasks.input-required",
    proves=(
        "tasks.get-input-required",
        "tasks.update-resumes",
        "tasks.update-ack",
        "tasks.update-result-type",
        "tasks.status-transitions",
    ),
    subject=CheckScope.RECOVERING,
)
async def input_required(server: ServerUnderTest) -> None:
    """A task with the status input_required has inputRequests, continues after the responses, and ends only once."""
    task = id_of(server, await begin(server, "confirm_delete", {"filename": "none.txt"}))
    input_requests = _requests(await until(server, task, "input_required"))
    responses: JsonObject = dict.fromkeys(input_requests, _ACCEPTED)
    answer = await ask(server, "tasks/update", {"taskId": task, "inputResponses": responses})
    result = answer.result()
    if any(name in result for name in ("taskId", "status", "result", "error", "inputRequests")):
        raise Deviation("an acknowledgment without members of the task", str(answer))
    await until(server, task, "completed")
    # Whatever the response, the task does not continue again.
    await ask(server, "tasks/update", {"taskId": task, "inputResponses": responses})
    await require_status(server, task, "completed")


@check("tasks.unknown-keys", proves=("tasks.update-unknown-keys-ignored",), subject=CheckScope.RECOVERING)
async def unknown_keys(server: ServerUnderTest) -> None:
    """An input response with an unknown key, or with one that has a response, is acknowledged and ignored."""
    task = id_of(server, await begin(server, "confirm_delete", {"filename": "none.txt"}))
    input_requests = _requests(await until(server, task, "input_required"))
    stray: JsonObject = {"conformance-unknown": _ACCEPTED}
    (await ask(server, "tasks/update", {"taskId": task, "inputResponses": stray})).result()
    again = _requests(await until(server, task, "input_required"))
    if set(again) != set(input_requests):
        raise Deviation(f"the same inputRequests as before: {sorted(input_requests)}", str(sorted(again)))
    # Later the task has ended.
    params: JsonObject = {"taskId": task, "inputResponses": dict.fromkeys(input_requests, _ACCEPTED)}
    (await ask(server, "tasks/update", params)).result()
    (await ask(server, "tasks/update", params)).result()
    await until(server, task, *ENDED)
    (await ask(server, "tasks/update", params)).result()


@check(
    "tasks.inputs",
    proves=("tasks.get-input-requests-complete", "tasks.key-unique-lifetime", "tasks.key-no-reuse"),
    subject=CheckScope.RECOVERING,
)
async def inputs(server: ServerUnderTest) -> None:
    """Each tasks/get returns all open input requests and none that has a response, and no key is used twice."""
    task = id_of(server, await begin(server, "multi_input"))
    shown = await until(server, task, "input_required")
    pending = _requests(shown)
    answered: JsonObject = {}
    while len(answered) < _MOST_KEYS:
        # An open request is in each response. The server may open another one at any time.
        again = _requests(await until(server, task, "input_required"))
        _check_keys(again, pending, answered)
        key = min(again)
        await ask(server, "tasks/update", {"taskId": task, "inputResponses": {key: {"action": "decline"}}})
        answered[key] = again[key]
        pending = {name: each for name, each in again.items() if name != key}
        shown = await _without(server, task, key, pending, answered)
        if shown.get("status") != "input_required":
            break
        pending = _requests(shown)
    if shown.get("status") == "input_required":
        await ask(server, "tasks/cancel", {"taskId": task})
    elif shown.get("status") != "completed" or pending:
        raise Deviation("a completed task after a response to each input request", brief(shown))


_MOST_KEYS: Final = 10
"""Input requests that get a response. A server may repeat a declined request without end, with a new key each time."""


async def _without(
    server: ServerUnderTest, task: str, key: str, pending: JsonObject, answered: JsonObject
) -> JsonObject:
    """Return a task when it has ended, or has no longer an open input request with a key."""
    async with server.peer.within(f"a task without the open input request {key}"):
        while True:
            shown = await until(server, task, "input_required", *ENDED)
            requests = shown.get("inputRequests")
            if shown.get("status") != "input_required":
                break
            if isinstance(requests, dict) and requests:
                # The status may still be that before the response.
                stale = requests.get(key) == answered[key]
                _check_keys(
                    requests, pending, {name: each for name, each in answered.items() if name != key or not stale}
                )
                if key not in requests:
                    break
    return shown


def _check_keys(requests: JsonObject, pending: JsonObject, answered: JsonObject) -> None:
    """Require that open input requests are still there, and that none has the key of an answered one."""
    if not set(pending) <= set(requests):
        raise Deviation(f"the open input requests {sorted(pending)}", str(sorted(requests)))
    for key in requests:
        if key in answered:
            raise Deviation(f"a new key instead of {key}, which had a response", brief(requests))
        if key in pending and requests[key] != pending[key]:
            raise Deviation(f"a new key instead of {key} for another input request", brief(requests))


@check("tasks.input-first", proves=("tasks.mrtr-before-create",), subject=CheckScope.RECOVERING)
async def input_first(server: ServerUnderTest) -> None:
    """An InputRequiredResult of a call precedes its task."""
    created = await begin(server, "test_tool_with_task")
    input_requests = created.result()
    if input_requests.get("resultType") != "input_required" or "taskId" in input_requests:
        raise Deviation("an InputRequiredResult without a task", str(created))
    name, arguments = server.tool("test_tool_with_task")
    params: JsonObject = {"name": name, "arguments": arguments}
    params["inputResponses"] = {
        key: {"action": "accept", "content": {"name": "Alice"}} for key in _requests(input_requests)
    }
    if "requestState" in input_requests:
        params["requestState"] = input_requests["requestState"]
    task = id_of(server, await ask(server, "tools/call", params))
    await until(server, task, "completed")


# --- HTTP ------------------------------------------------------------------------------------------------------------


@check("tasks.mcp-name", proves=("tasks.mcp-name-accepted", "tasks.mcp-name-mismatch"), subject=CheckScope.RECOVERING)
async def mcp_name(server: ServerUnderTest) -> None:
    """The Mcp-Name of each request about a task is its taskId; another one is rejected with 400 and -32020."""
    peer = server.peer
    if not isinstance(peer, HttpConnection):
        raise TypeError("the requirement is about HTTP")
    task = id_of(server, await begin(server, "slow_compute", _LONG))
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        more: JsonObject = {"inputResponses": {}} if method == "tasks/update" else {}
        message = peer.message(method, {"taskId": task, **more, "_meta": DECLARED})
        headers = [(name, value) for name, value in peer.headers(message) if name.lower() != "mcp-name"]
        answer = await peer.exchange(message, headers=[*headers, ("Mcp-Name", "another")], deviant="another Mcp-Name")
        answer.error(-32020, what=f"an Mcp-Name of {method} that is not the taskId")
        answer.refused({400})
        # A rejected request has no effect.
        await until(server, task, "working")
        message = {**message, "id": peer.next_id()}
        (await peer.exchange(message, headers=[*headers, ("Mcp-Name", task)])).result()


# --- notifications
# ------------------------------------------------------------------------------------------------------


@check("tasks.listen-undeclared", proves=("tasks.listen-undeclared-32021",), subject=CheckScope.RECOVERING)
async def listen_undeclared(server: ServerUnderTest) -> None:
    """A subscription to tasks is rejected with -32021 and the extension if the client does not declare it."""
    extended(server)
    task = id_of(server, await begin(server, "slow_compute", _SOON))
    params: JsonObject = {"notifications": {"taskIds": [task]}}
    answer = await server.peer.request("subscriptions/listen", params)
    _require_named(answer, "a subscription to tasks without the extension")


@check(
    "tasks.listen",
    proves=(
        "tasks.listen-ack",
        "tasks.listen-only-requested",
        "tasks.notification-full-state",
        "tasks.no-progress-or-log",
    ),
    subject=CheckScope.RECOVERING,
)
async def listen(server: ServerUnderTest) -> None:
    """A subscription to tasks gets only notifications of these tasks, complete ones, and no progress or log.

    A task has no progress on another stream either.
    """
    peer = server.peer
    slow = [id_of(server, await begin(server, "slow_compute", {"seconds": 0.5, "label": "heard"})) for _ in range(2)]
    tasks = [*slow]
    with suppress(NotTestable):  # a server without this tool has the other one
        tasks.append(await _begin_reporting(server))
    since = len(peer.inbox)
    params: JsonObject = {"notifications": {"taskIds": [*tasks]}, "_meta": DECLARED}
    message = peer.message("subscriptions/listen", params)
    async with open_nursery() as nursery:
        nursery.start_soon(peer.exchange, message)
        ack = await peer.expect("notifications/subscriptions/acknowledged", "the acknowledgment of the subscription")
        acknowledged = items(member(ack, "params", "notifications", "taskIds"))
        # The task of the other tool may have ended already.
        if any(task not in acknowledged for task in slow) or any(each not in tasks for each in acknowledged):
            raise Deviation(f"taskIds with {brief([*slow])}", brief(ack))
        await begin(server, "slow_compute", _SOON)
        for task in tasks:
            await until(server, task, "completed")
        received = peer.inbox[since:]
        nursery.cancel_scope.cancel()
    for each in received:
        if each.get("method") in ("notifications/progress", "notifications/message"):
            raise Deviation("no progress and no log message of a task", brief(each))
        tag = member(each, "params", "_meta", SUBSCRIPTION_ID)
        if tag is None and each.get("method") != "notifications/tasks":
            continue
        if each.get("method") != "notifications/tasks":
            raise Deviation("only notifications/tasks for a task", brief(each))
        if key_of(tag) != key_of(message["id"]):
            raise Deviation(f"the id of the subscription, {brief(message['id'])}", brief(each))
        if member(each, "params", "taskId") not in tasks:
            raise Deviation(f"only notifications of {brief([*tasks])}", brief(each))
        wrong = flaw(each.get("params"), "ExtensionTaskNotificationParams", server.revision)
        if wrong is not None:
            raise Deviation("a complete task", f"{wrong}, in {brief(each)}")


async def _begin_reporting(server: ServerUnderTest) -> str:
    """Start a task whose tool reports progress, by a call that requests progress and log messages, and return its id."""
    name, arguments = server.tool("conformance_task_progress")
    meta: JsonObject = {**DECLARED, "progressToken": "conformance-task-of-the-extension", LOG_LEVEL: "debug"}
    created = await ask(server, "tools/call", {"name": name, "arguments": arguments, "_meta": meta})
    return id_of(server, created)


# --- together with the tasks of 2025-11-25
# ------------------------------------------------------------------------------


@check(
    "tasks.beside-legacy",
    proves=("tasks.not-under-2025-11-25", "tasks.legacy-tasks-still-served"),
    subject=CheckScope.PROCESS,
)
async def beside_legacy(server: ServerUnderTest) -> None:
    """With 2025-11-25 the extension creates no tasks, and the tasks of that revision are served."""
    extended(server)
    name, arguments = server.tool("slow_compute", _SOON)
    declared: JsonObject = {**ALL_CAPABILITIES, "extensions": {TASKS_EXTENSION: {}}}
    async with server.open(handshake=False, revision=R2025_11_25, capabilities=declared) as peer:
        try:
            await peer.shake_hands()
        except Deviation as deviation:
            raise NotApplicable("the server does not support 2025-11-25") from deviation
        call: JsonObject = {"name": name, "arguments": arguments}
        answer = await peer.request("tools/call", call)
        if "taskId" in answer.result() or "task" in answer.result():
            raise Deviation("the result of the tool", str(answer))
        capabilities = peer.handshake.result().get("capabilities") if peer.handshake else None
        if member(capabilities, "tasks", "requests", "tools", "call") is None:
            return
        created = await peer.request("tools/call", {**call, "task": {}})
        task = member(created.result(), "task", "taskId")
        (await peer.request("tasks/get", {"taskId": str(task)})).member("status", str)
