"""Clients with the tasks extension of 2026-07-28: capabilities, input responses, and reserved names.

Spec: the extension `io.modelcontextprotocol/tasks`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import member, params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.param_headers import header_value
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.extension_tasks import UNFIT_TASKS
from mcp_conformance.scenarios.task_script import ENDED, PLAIN, tasks_of
from mcp_core.types.meta import CLIENT_CAPABILITIES, TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_TASKS: Final = "conformance_tasks"
_UNFIT: Final = "conformance_tasks_unfit"
_SCENARIOS: Final = (_TASKS, "conformance_tasks_cancel", _UNFIT)
_NEEDS: Final = (f"scenario:{_TASKS}",)
_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
_KINDS: Final = {"elicitation/create": "ElicitResult", "sampling/createMessage": "CreateMessageResult"}
_TOOL: Final = "task_asks"


def _declares(message: JsonObject) -> bool:
    meta = params_of(message).get("_meta")
    declared = meta.get(CLIENT_CAPABILITIES) if isinstance(meta, dict) else None
    extensions = declared.get("extensions") if isinstance(declared, dict) else None
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


def _task_ids(message: JsonObject) -> JsonValue:
    """Return the task ids in the filter of a subscription; `None` without task ids."""
    expected = params_of(message).get("notifications")
    return expected.get("taskIds") if isinstance(expected, dict) else None


def _about_tasks(client: ClientUnderTest) -> list[JsonObject]:
    """Return every request that needs the extension. Raise `NotApplicable` without any."""
    found = [
        each
        for scenario in _SCENARIOS
        for each in client.run(scenario).requests
        if each["method"] in _METHODS or (each["method"] == "subscriptions/listen" and _task_ids(each) is not None)
    ]
    if not found:
        raise NotApplicable("the client sends no requests about tasks")
    return found


def _task_with_input(client: ClientUnderTest) -> tuple[str, list[JsonObject]]:
    """Return the id and the log of the task that requires input.

    Raises:
        NotApplicable: The client starts no task, or declares no capability for input requests.
        NotTestable: The client did not call the tool, or did not poll the task.
    """
    jobs = tasks_of(client.run(_TASKS))
    found = [(id, log) for id, (tool, log) in jobs.items() if tool == _TOOL]
    if not found:
        raise NotTestable(f"the client starts no task of {_TOOL}: {client.run(_TASKS).ending}")
    id, log = found[0]
    if not any(each.get("status") == "input_required" for each in log):
        if any(each.get("status") in ENDED for each in log):
            raise NotApplicable("the client declares no capability for input requests")
        raise NotTestable("the client did not poll the task until it required input")
    return id, log


def _keys(entry: JsonObject) -> list[str]:
    keys = entry.get("keys")
    return [str(each) for each in keys] if isinstance(keys, list) else []


# --- requests about tasks
# -----------------------------------------------------------------------------------------------


@check(
    "tasks.client-declares",
    proves=("tasks.client-declares-per-request",),
    needs=tuple(f"scenario:{each}" for each in _SCENARIOS),
)
async def declares(client: ClientUnderTest) -> None:
    """Each request that needs the extension declares it."""
    for message in _about_tasks(client):
        if not _declares(message):
            raise Deviation(f"extensions with {TASKS_EXTENSION} in {CLIENT_CAPABILITIES}", brief(message))


@check("tasks.client-mcp-name", proves=("tasks.mcp-name-header",), needs=_NEEDS)
async def mcp_name(client: ClientUnderTest) -> None:
    """A request about a task repeats its method in `Mcp-Method`, and its taskId in `Mcp-Name`."""
    found = [each for each in client.run(_TASKS).exchanges if each.message.get("method") in _METHODS]
    for exchange in found:
        name = header_value(params_of(exchange.message).get("taskId"))
        for header, expected in (("mcp-name", name), ("mcp-method", exchange.message["method"])):
            if exchange.all(header) != [expected]:
                raise Deviation(f"{header} {expected!r}", f"{exchange} with {exchange.all(header)}")
    if not found:
        raise NotApplicable("the client sends no requests about tasks")


@check("tasks.client-reserved", proves=("tasks.reserved-names",))
async def reserved(client: ClientUnderTest) -> None:
    """The client sends no other methods with the prefix of the extension than those it defines."""
    for evidence in client.all(instructed=True):
        for message in evidence.messages:
            method = str(message.get("method", "")) if isinstance(message, dict) else ""
            if method.startswith(("tasks/", "notifications/tasks")) and method not in _METHODS:
                raise Deviation(f"no tasks methods other than {', '.join(_METHODS)}", brief(message))


@check("tasks.client-listen", proves=("tasks.listen-filter",), needs=_NEEDS)
async def listen(client: ClientUnderTest) -> None:
    """A client that subscribes to tasks names them in `notifications.taskIds`."""
    evidence = client.run(_TASKS)
    known = tasks_of(evidence)
    subscriptions = evidence.sent("subscriptions/listen")
    for message in subscriptions:
        if "taskIds" in params_of(message) and _task_ids(message) is None:
            raise Deviation("taskIds in params.notifications", brief(message))
    found = [each for each in subscriptions if _task_ids(each) is not None]
    for message in found:
        ids = _task_ids(message)
        if not isinstance(ids, list) or not all(isinstance(each, str) and each in known for each in ids):
            raise Deviation("taskIds that is an array of task ids", brief(message))
    if not found:
        raise NotApplicable("the client does not subscribe to tasks")


# --- task results
# -------------------------------------------------------------------------------------------------------


@check("tasks.client-both-results", proves=("tasks.client-handles-both", "tasks.server-decides"), needs=_NEEDS)
async def both_results(client: ClientUnderTest) -> None:
    """A client that declares the extension accepts a plain result, and a task, which it polls."""
    evidence = client.run(_TASKS)
    jobs = tasks_of(evidence)
    called = [params_of(each).get("name") for each in evidence.sent("tools/call")]
    if PLAIN.name in called and called[-1] == PLAIN.name and evidence.status != 0:
        raise Deviation(f"the client to continue after the result of {PLAIN.name}", evidence.ending)
    for tool, log in jobs.values():
        if tool == "task_soon" and not any(each["what"] in ("tasks/get", "tasks/cancel") for each in log):
            raise Deviation(f"the client to poll the task of {tool}", evidence.ending)


@check(
    "tasks.client-unfit",
    proves=("tasks.client-unsupported-request-invalid",),
    needs=(f"scenario:{_UNFIT}", *_NEEDS),
)
async def unfit(client: ClientUnderTest) -> None:
    """A task as the result of a request other than tools/call is invalid: it is not polled."""
    tasks_of(client.run(_TASKS))
    evidence = client.run(_UNFIT)
    if not evidence.notes.get("unfit"):
        raise NotTestable(f"the client got no prompt and read no resource: {evidence.ending}")
    for method in _METHODS:
        for message in evidence.sent(method):
            if params_of(message).get("taskId") in UNFIT_TASKS.values():
                raise Deviation("no request about an invalid task", brief(message))


# --- input requests of a task
# -------------------------------------------------------------------------------------------


@check("tasks.client-inputs", proves=("tasks.client-inspects-inputs", "tasks.client-fulfils-inputs"), needs=_NEEDS)
async def inputs(client: ClientUnderTest) -> None:
    """All input requests of a task are answered by `tasks/update`, or the task is cancelled."""
    _, log = _task_with_input(client)
    expected = {key for each in log if each["what"] == "tasks/get" for key in _keys(each)}
    given = {key for each in log if each["what"] == "tasks/update" for key in _keys(each)}
    if not expected <= given and not any(each["what"] == "tasks/cancel" for each in log):
        raise Deviation(f"tasks/update with {', '.join(sorted(expected))}", brief([*sorted(given)]))


@check("tasks.client-update", proves=("tasks.update-request",), needs=_NEEDS)
async def update(client: ClientUnderTest) -> None:
    """`tasks/update` has a taskId, and in `inputResponses` by key the result of each request, without a wrapper."""
    _task_with_input(client)
    found = client.run(_TASKS).sent("tasks/update")
    kinds = _requested_kinds(client.run(_TASKS))
    for message in found:
        params = params_of(message)
        responses = params.get("inputResponses")
        if not isinstance(params.get("taskId"), str) or not isinstance(responses, dict):
            raise Deviation("a taskId, and inputResponses that is an object", brief(message))
        for key, response in responses.items():
            # Another check covers unknown keys.
            kind = kinds.get(key)
            if kind is not None and flaw(response, kind, client.revision) is not None:
                raise Deviation(f"a {kind} without a wrapper for {key}", brief(response))
    if not found:
        raise NotTestable("the client sends no input responses")


def _requested_kinds(evidence: Evidence) -> dict[str, str]:
    """Return the type of the result of each input request of a task, by key."""
    found: dict[str, str] = {}
    for message in evidence.transcript.messages(sent=True):
        requests = member(message, "result", "inputRequests")
        for key, request in requests.items() if isinstance(requests, dict) else ():
            found[key] = _KINDS[str(member(request, "method"))]
    return found


@check("tasks.client-update-keys", proves=("tasks.update-keys-outstanding",), needs=_NEEDS)
async def update_keys(client: ClientUnderTest) -> None:
    """Each key of `tasks/update` is that of an input request in the latest tasks/get, and is not answered since then."""
    _, log = _task_with_input(client)
    shown: set[str] = set()
    updates = 0
    for each in log:
        if each["what"] == "tasks/get":
            shown = set(_keys(each))
        elif each["what"] == "tasks/update":
            updates += 1
            if not set(_keys(each)) <= shown:
                raise Deviation(f"only the keys {', '.join(sorted(shown)) or '(none)'}", brief([*_keys(each)]))
            # The server has accepted the responses. It may repeat the input requests, but only in another tasks/get.
            shown -= set(_keys(each))
    if not updates:
        raise NotTestable("the client sends no input responses")


@check("tasks.client-answers-once", proves=("tasks.client-no-double-answer",), needs=_NEEDS)
async def answers_once(client: ClientUnderTest) -> None:
    """An input request of a task gets one response, even if it is still listed later."""
    _, log = _task_with_input(client)
    given = [key for each in log if each["what"] == "tasks/update" for key in _keys(each)]
    if len(set(given)) != len(given):
        raise Deviation("one response for each key", brief([*given]))
    if not given:
        raise NotTestable("the client sends no input responses")


@check("tasks.client-observes-on", proves=("tasks.client-continues-observing",), needs=_NEEDS)
async def observes_on(client: ClientUnderTest) -> None:
    """After its input responses the client continues to poll the task until it has ended."""
    _, log = _task_with_input(client)
    updates = [index for index, each in enumerate(log) if each["what"] == "tasks/update"]
    if not updates:
        raise NotTestable("the client sends no input responses")
    after = log[updates[-1] :]
    if not any(each["what"] == "tasks/cancel" or each.get("status") in ENDED for each in after):
        raise Deviation("tasks/get until the task has ended", brief([str(each["what"]) for each in after]))
