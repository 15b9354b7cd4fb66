"""Scenarios of task-augmented client requests: elicitation and sampling (2025-11-25).

The evidence contains each client request under the name of the tool and a label, for example `ask_task_form: result`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.scenarios.client_request_table import by_name
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_core.types.meta import PROGRESS_TOKEN, RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest, Session
    from mcp_conformance.scenarios.client_request_tools import ClientRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

    Drive = Callable[[ScriptedRequest, ClientRequest], Awaitable[None]]

__all__ = [
    "CANCELS",
    "DECLINED_FORM",
    "ENORMOUS",
    "KINDS",
    "MANY",
    "PLAIN_PING",
    "PONDERED",
    "RELATED",
    "TOKEN",
    "UNANSWERED",
    "UNANSWERED_SAMPLE",
    "UNKNOWN",
    "request_tasks",
    "request_tasks_declined",
    "request_tasks_unanswered",
    "request_tasks_undeclared",
    "task_id",
]

KINDS: Final = {"ask_task_form": "ElicitResult", "ask_task_sample": "CreateMessageResult"}
"""The tools that request one complete task, and the type of its result."""
MANY: Final = "ask_many_tasks"
"""The tool that requests four tasks at once."""
CANCELS: Final = "ask_task_cancelled"
"""The tool that requests a task and cancels it."""
UNANSWERED: Final = "ask_task_unanswered"
"""The tool that requests a task to which the user does not respond."""
UNANSWERED_SAMPLE: Final = "ask_task_unanswered_sample"
"""The same for sampling, also if the client declares forms."""
DECLINED_FORM: Final = "ask_declined_form"
"""The tool that requests a form which the user declines, without and with a task."""
UNKNOWN: Final = "ask_unknown_task"
"""The tool that requests tasks that do not exist."""
PLAIN_PING: Final = "ask_ping_as_task"
"""The tool that requests a ping as a task, which is invalid."""
PONDERED: Final = 1.0
"""Seconds that the user takes to respond."""
ENORMOUS: Final = 10**13
"""Milliseconds: three hundred years."""
TOKEN: Final = "conformance: how far is it?"
"""The progress token of task-augmented client requests."""
RELATED: Final = "conformance: a task of the server"
"""The related task of a task-augmented client request."""
_NEEDS: Final = {
    "elicitation/create": "tasks.requests.elicitation.create",
    "sampling/createMessage": "tasks.requests.sampling.createMessage",
}
_PAGES: Final = 100
_WAITERS: Final = 2
"""The number of concurrent requests for the result of one task."""
_SETTLED: Final = 1.5
"""The wait for late messages about a response, as a multiple of the time that the user takes."""


def task_id(response: JsonObject | None) -> str | None:
    """Return the id of the task in a response; `None` if absent."""
    result = None if response is None else response.get("result")
    task = result.get("task") if isinstance(result, dict) else None
    id = task.get("taskId") if isinstance(task, dict) else None
    return id if isinstance(id, str) else None


def _able(session: Session, client_request: ClientRequest) -> bool:
    return declares(session, client_request.needs) and session.has(_NEEDS[client_request.method])


def _client_requests() -> list[ClientRequest]:
    return by_name("ask_form", "ask_sample")


async def _create(
    request: ScriptedRequest, client_request: ClientRequest, name: str, task: JsonObject, *, token: str | None = None
) -> str | None:
    """Send a task-augmented client request, and return the task id."""
    params: JsonObject = {**(client_request.params or {}), "task": task}
    if token is not None:
        params["_meta"] = {PROGRESS_TOKEN: token}
    able = _able(request.session, client_request)
    response = await request.send_client_request(
        client_request.method, params, name=name, deviant="" if able else "tasks are not declared"
    )
    return task_id(response)


async def _list(request: ScriptedRequest, name: str) -> None:
    """Request all pages of the list of tasks."""
    params: JsonObject = {}
    for _ in range(_PAGES):
        response = await request.send_client_request("tasks/list", params, name=f"{name}: list")
        result = None if response is None else response.get("result")
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if not isinstance(cursor, str):
            return
        params = {"cursor": cursor}


async def _whole(request: ScriptedRequest, client_request: ClientRequest, name: str) -> None:
    """Follow a task from its creation until after its end."""
    id = await _create(request, client_request, f"{name}: create", {"ttl": 60_000}, token=f"{TOKEN} {name}")
    if id is None:
        return
    about: JsonObject = {"taskId": id}
    await request.send_client_request("tasks/get", about, name=f"{name}: get")
    # Each request for the result waits for it.
    async with trio.open_nursery() as nursery:
        for _ in range(_WAITERS):
            waiter = partial(request.send_client_request, "tasks/result", about, name=f"{name}: result")
            nursery.start_soon(waiter)
    await request.send_client_request("tasks/get", about, name=f"{name}: ended")
    await request.send_client_request("tasks/result", about, name=f"{name}: again")
    if request.session.has("tasks.list"):
        await _list(request, name)
    if request.session.has("tasks.cancel"):
        await request.send_client_request("tasks/cancel", about, name=f"{name}: cancel")
    await request.send_client_request("tasks/get", about, name=f"{name}: still")


async def _many(request: ScriptedRequest, client_request: ClientRequest, name: str) -> None:
    """Create four tasks with different times to live, and one by a request that is related to a task of the server."""
    wishes: tuple[JsonObject, ...] = ({}, {"ttl": ENORMOUS}, {"ttl": 60_000}, {})
    ids = [await _create(request, client_request, f"{name}: create", wish) for wish in wishes]
    # The related task is one of the server: the client makes another id for its own.
    related: JsonObject = {"task": {"ttl": 60_000}, "_meta": {RELATED_TASK: {"taskId": RELATED}}}
    params: JsonObject = {**(client_request.params or {}), **related}
    deviant = "a task of the server that does not exist"
    response = await request.send_client_request(
        client_request.method, params, name=f"{name}: related", deviant=deviant
    )
    own = task_id(response)
    known: list[str] = [id for id in ids if id is not None]
    if len(known) == len(wishes):
        meta: JsonObject = {RELATED_TASK: {"taskId": known[1]}}
        params = {"taskId": known[0], "_meta": meta}
        await request.send_client_request(
            "tasks/get", params, name=f"{name}: other", deviant="tasks/get with a related task"
        )
        for id in known:
            await request.send_client_request("tasks/get", {"taskId": id}, name=f"{name}: get")
        if request.session.has("tasks.list"):
            await _list(request, name)
    for id in [*known, *([] if own is None else [own])]:
        if request.session.has("tasks.cancel"):
            await request.send_client_request("tasks/cancel", {"taskId": id}, name=f"{name}: cancel")
        else:
            await request.send_client_request("tasks/result", {"taskId": id}, name=f"{name}: result")


async def _cancelled(request: ScriptedRequest, client_request: ClientRequest, name: str) -> None:
    """Cancel a task before the user responds, and list and read it afterward."""
    if not request.session.has("tasks.cancel"):
        return
    id = await _create(request, client_request, f"{name}: create", {"ttl": 60_000}, token=f"{TOKEN} {name}")
    if id is None:
        return
    await request.send_client_request("tasks/cancel", {"taskId": id}, name=f"{name}: cancel")
    await request.send_client_request("tasks/get", {"taskId": id}, name=f"{name}: get")
    if request.session.has("tasks.list"):
        await _list(request, name)
    await trio.sleep(PONDERED * _SETTLED)
    await request.send_client_request("tasks/get", {"taskId": id}, name=f"{name}: still")


async def _unanswered(request: ScriptedRequest, client_request: ClientRequest, name: str) -> None:
    """Cancel a task to which the user does not respond."""
    id = await _create(request, client_request, f"{name}: create", {"ttl": 60_000})
    if id is not None and request.session.has("tasks.cancel"):
        await request.send_client_request("tasks/cancel", {"taskId": id}, name=f"{name}: cancel")
        await request.send_client_request("tasks/get", {"taskId": id}, name=f"{name}: get")


def _tool(name: str, client_requests: list[ClientRequest], drive: Drive, setup: ScenarioSetup) -> None:
    async def call(request: ScriptedRequest) -> JsonObject:
        able = [each for each in client_requests if _able(request.session, each)]
        if not able:
            return text_result("not sent: the client does not declare tasks for this method")
        await drive(request, able[0])
        return text_result("asked")

    setup.server.offers.add_tool(name, "Sends a task-augmented client request", call)


async def _unknown(request: ScriptedRequest) -> JsonObject:
    """Request unknown tasks, also by methods that the client may not have declared."""
    declared = request.session.has("tasks")
    about: JsonObject = {"taskId": "conformance-no-such-task"}
    odd: JsonObject = {"cursor": "conformance-no-such-cursor"}
    client_requests: tuple[tuple[str, JsonObject, bool], ...] = (
        ("tasks/get", about, declared),
        ("tasks/result", about, declared),
        ("tasks/cancel", about, request.session.has("tasks.cancel")),
        ("tasks/list", odd, request.session.has("tasks.list")),
    )
    for method, params, right in client_requests:
        wrong = "" if right else f"{method} was not declared"
        await request.send_client_request(method, params, name=f"{UNKNOWN}: {method}", deviant=wrong)
    return text_result("asked")


async def _ping(request: ScriptedRequest) -> JsonObject:
    """Request a ping as a task."""
    params: JsonObject = {"task": {"ttl": 1000}}
    await request.send_client_request("ping", params, name=PLAIN_PING, deviant="a task-augmented ping")
    return text_result("asked")


def request_tasks(setup: ScenarioSetup) -> None:
    """Request tasks of clients that declare them."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    form, sample = _client_requests()
    for name, client_request in (("ask_task_form", form), ("ask_task_sample", sample)):
        _tool(name, [client_request], _named(name, _whole), setup)
    _tool(MANY, [form, sample], _named(MANY, _many), setup)
    _tool(CANCELS, [form, sample], _named(CANCELS, _cancelled), setup)
    offers.add_tool(UNKNOWN, "Requests tasks that do not exist", _unknown)
    offers.add_tool(PLAIN_PING, "Requests a ping as a task", _ping)


def _named(name: str, drive: Callable[[ScriptedRequest, ClientRequest, str], Awaitable[None]]) -> Drive:
    async def named(request: ScriptedRequest, client_request: ClientRequest) -> None:
        await drive(request, client_request, name)

    return named


def request_tasks_unanswered(setup: ScenarioSetup) -> None:
    """Request tasks that end only by cancellation."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    form, sample = _client_requests()
    _tool(UNANSWERED, [form, sample], _named(UNANSWERED, _unanswered), setup)
    _tool(UNANSWERED_SAMPLE, [sample], _named(UNANSWERED_SAMPLE, _unanswered), setup)


def request_tasks_undeclared(setup: ScenarioSetup) -> None:
    """Request elicitation and sampling as tasks of clients that declare both, but no tasks."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    for name, client_request in zip(KINDS, _client_requests(), strict=True):

        async def ask(
            request: ScriptedRequest, name: str = name, client_request: ClientRequest = client_request
        ) -> JsonObject:
            if not declares(request.session, client_request.needs) or request.session.has(
                _NEEDS[client_request.method]
            ):
                return text_result("not sent: the client does not declare the capability, or declares tasks for it")
            await request.send_client_request(client_request.method, client_request.params, name=f"{name}: plain")
            await _create(request, client_request, f"{name}: create", {"ttl": 60_000})
            return text_result("asked")

        offers.add_tool(name, "Sends a task-augmented client request", ask)


def request_tasks_declined(setup: ScenarioSetup) -> None:
    """Request sampling and a form, each without and with a task. The user declines all."""
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    form, sample = _client_requests()

    async def decline(request: ScriptedRequest, client_request: ClientRequest, name: str) -> None:
        await request.send_client_request(client_request.method, client_request.params, name=f"{name}: plain")
        id = await _create(request, client_request, f"{name}: create", {"ttl": 60_000})
        if id is None:
            return
        await request.send_client_request("tasks/result", {"taskId": id}, name=f"{name}: result")
        await request.send_client_request("tasks/get", {"taskId": id}, name=f"{name}: get")

    for name, client_request in (("ask_declined", sample), (DECLINED_FORM, form)):
        _tool(name, [client_request], _named(name, decline), setup)
