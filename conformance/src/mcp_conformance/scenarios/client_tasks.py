"""Clients that answer later: forms and samples that are asked for as tasks (2025-11-25).

What a tool asks is kept with the evidence under the name of the tool and what it is: `ask_task_form: result`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.scenarios.client_request_table import by_name
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_core.types.meta import PROGRESS_TOKEN, RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import Session, Turn
    from mcp_conformance.scenarios.client_request_tools import Question
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject

    Drive = Callable[[Turn, Question], Awaitable[None]]

__all__ = [
    "CANCELS",
    "ENORMOUS",
    "KINDS",
    "MANY",
    "PLAIN_PING",
    "PONDERED",
    "TOKEN",
    "UNANSWERED",
    "UNKNOWN",
    "asks_tasks",
    "asks_tasks_declined",
    "asks_tasks_unanswered",
    "asks_tasks_undeclared",
    "task_id",
]

KINDS: Final = {"ask_task_form": "ElicitResult", "ask_task_sample": "CreateMessageResult"}
"""The tools that ask for something as a task from its beginning to its end, and what comes of it."""
MANY: Final = "ask_many_tasks"
"""The tool that asks for four tasks at once."""
CANCELS: Final = "ask_task_cancelled"
"""The tool that asks for a task and cancels it."""
UNANSWERED: Final = "ask_task_unanswered"
"""The tool that asks for a task that the user does not answer."""
UNKNOWN: Final = "ask_unknown_task"
"""The tool that asks for tasks that do not exist."""
PLAIN_PING: Final = "ask_ping_as_task"
"""The tool that asks for a ping as a task, which it cannot be."""
PONDERED: Final = 1.0
"""Seconds that the user takes to answer."""
ENORMOUS: Final = 10**13
"""Milliseconds: three hundred years."""
TOKEN: Final = "conformance: how far is it?"
"""The progress token of what is asked for as a task."""
_NEEDS: Final = {
    "elicitation/create": "tasks.requests.elicitation.create",
    "sampling/createMessage": "tasks.requests.sampling.createMessage",
}
_PAGES: Final = 100
_SETTLED: Final = 1.5
"""How many times as long as the user takes is waited until nothing more is to come of an answer."""


def task_id(response: JsonObject | None) -> str | None:
    """The id of the task that a response tells of; `None` when it is none."""
    result = None if response is None else response.get("result")
    task = result.get("task") if isinstance(result, dict) else None
    id = task.get("taskId") if isinstance(task, dict) else None
    return id if isinstance(id, str) else None


def _able(session: Session, question: Question) -> bool:
    return declares(session, question.needs) and session.has(_NEEDS[question.method])


def _questions() -> list[Question]:
    return by_name("ask_form", "ask_sample")


async def _create(
    turn: Turn, question: Question, name: str, task: JsonObject, *, token: str | None = None
) -> str | None:
    """Ask for something as a task; its id."""
    params: JsonObject = {**(question.params or {}), "task": task}
    if token is not None:
        params["_meta"] = {PROGRESS_TOKEN: token}
    able = _able(turn.session, question)
    response = await turn.ask(question.method, params, name=name, deviant="" if able else "tasks are not declared")
    return task_id(response)


async def _list(turn: Turn, name: str) -> None:
    """Ask for all pages of the tasks."""
    params: JsonObject = {}
    for _ in range(_PAGES):
        response = await turn.ask("tasks/list", params, name=f"{name}: list")
        result = None if response is None else response.get("result")
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if not isinstance(cursor, str):
            return
        params = {"cursor": cursor}


async def _whole(turn: Turn, question: Question, name: str) -> None:
    """One task, from its beginning to behind its end."""
    id = await _create(turn, question, f"{name}: create", {"ttl": 60_000}, token=f"{TOKEN} {name}")
    if id is None:
        return
    about: JsonObject = {"taskId": id}
    await turn.ask("tasks/get", about, name=f"{name}: get")
    await turn.ask("tasks/result", about, name=f"{name}: result")
    await turn.ask("tasks/get", about, name=f"{name}: ended")
    await turn.ask("tasks/result", about, name=f"{name}: again")
    if turn.session.has("tasks.list"):
        await _list(turn, name)
    if turn.session.has("tasks.cancel"):
        await turn.ask("tasks/cancel", about, name=f"{name}: cancel")
    await turn.ask("tasks/get", about, name=f"{name}: still")


async def _many(turn: Turn, question: Question, name: str) -> None:
    """Four tasks, whose time to live is wished in different ways."""
    wishes: tuple[JsonObject, ...] = ({}, {"ttl": ENORMOUS}, {"ttl": 60_000}, {})
    ids = [await _create(turn, question, f"{name}: create", wish) for wish in wishes]
    known: list[str] = [id for id in ids if id is not None]
    if len(known) == len(wishes):
        meta: JsonObject = {RELATED_TASK: {"taskId": known[1]}}
        params: JsonObject = {"taskId": known[0], "_meta": meta}
        await turn.ask("tasks/get", params, name=f"{name}: other", deviant="a related task in tasks/get")
        for id in known:
            await turn.ask("tasks/get", {"taskId": id}, name=f"{name}: get")
        if turn.session.has("tasks.list"):
            await _list(turn, name)
    for id in known:
        if turn.session.has("tasks.cancel"):
            await turn.ask("tasks/cancel", {"taskId": id}, name=f"{name}: cancel")
        else:
            await turn.ask("tasks/result", {"taskId": id}, name=f"{name}: result")


async def _cancelled(turn: Turn, question: Question, name: str) -> None:
    """A task that is cancelled before the user answers, and looked at behind that."""
    if not turn.session.has("tasks.cancel"):
        return
    id = await _create(turn, question, f"{name}: create", {"ttl": 60_000}, token=f"{TOKEN} {name}")
    if id is None:
        return
    await turn.ask("tasks/cancel", {"taskId": id}, name=f"{name}: cancel")
    await turn.ask("tasks/get", {"taskId": id}, name=f"{name}: get")
    await trio.sleep(PONDERED * _SETTLED)
    await turn.ask("tasks/get", {"taskId": id}, name=f"{name}: still")


async def _unanswered(turn: Turn, question: Question, name: str) -> None:
    """A task that nobody answers, and that is cancelled."""
    id = await _create(turn, question, f"{name}: create", {"ttl": 60_000})
    if id is not None and turn.session.has("tasks.cancel"):
        await turn.ask("tasks/cancel", {"taskId": id}, name=f"{name}: cancel")
        await turn.ask("tasks/get", {"taskId": id}, name=f"{name}: get")


def _tool(name: str, questions: list[Question], drive: Drive, stage: Stage) -> None:
    async def call(turn: Turn) -> JsonObject:
        able = [each for each in questions if _able(turn.session, each)]
        if not able:
            return text_result("not asked: the client declares no tasks for that")
        await drive(turn, able[0])
        return text_result("asked")

    stage.server.offers.add_tool(name, "Asks the client for something as a task", call)


async def _unknown(turn: Turn) -> JsonObject:
    """Ask for what does not exist, and for what may not have been declared."""
    declared = turn.session.has("tasks")
    about: JsonObject = {"taskId": "conformance-no-such-task"}
    odd: JsonObject = {"cursor": "conformance-no-such-cursor"}
    asked: tuple[tuple[str, JsonObject, bool], ...] = (
        ("tasks/get", about, declared),
        ("tasks/result", about, declared),
        ("tasks/cancel", about, turn.session.has("tasks.cancel")),
        ("tasks/list", odd, turn.session.has("tasks.list")),
    )
    for method, params, right in asked:
        wrong = "" if right else f"{method} was not declared"
        await turn.ask(method, params, name=f"{UNKNOWN}: {method}", deviant=wrong)
    return text_result("asked")


async def _ping(turn: Turn) -> JsonObject:
    """Ask for a ping, and that it be a task."""
    params: JsonObject = {"task": {"ttl": 1000}}
    await turn.ask("ping", params, name=PLAIN_PING, deviant="a task of what cannot be one")
    return text_result("asked")


def asks_tasks(stage: Stage) -> None:
    """Ask for tasks of clients that declare them."""
    offers = stage.server.offers
    offers.tools.clear()
    offers.calls.clear()
    form, sample = _questions()
    for name, question in (("ask_task_form", form), ("ask_task_sample", sample)):
        _tool(name, [question], _named(name, _whole), stage)
    _tool(MANY, [form, sample], _named(MANY, _many), stage)
    _tool(CANCELS, [form, sample], _named(CANCELS, _cancelled), stage)
    offers.add_tool(UNKNOWN, "Asks for tasks that do not exist", _unknown)
    offers.add_tool(PLAIN_PING, "Asks for a ping as a task", _ping)


def _named(name: str, drive: Callable[[Turn, Question, str], Awaitable[None]]) -> Drive:
    async def named(turn: Turn, question: Question) -> None:
        await drive(turn, question, name)

    return named


def asks_tasks_unanswered(stage: Stage) -> None:
    """Ask for a task that has no end but its cancellation."""
    offers = stage.server.offers
    offers.tools.clear()
    offers.calls.clear()
    _tool(UNANSWERED, _questions(), _named(UNANSWERED, _unanswered), stage)


def asks_tasks_undeclared(stage: Stage) -> None:
    """Ask for a form and a sample as tasks of clients that declare both, and no tasks."""
    offers = stage.server.offers
    offers.tools.clear()
    offers.calls.clear()
    for name, question in zip(KINDS, _questions(), strict=True):

        async def ask(turn: Turn, name: str = name, question: Question = question) -> JsonObject:
            if not declares(turn.session, question.needs) or turn.session.has(_NEEDS[question.method]):
                return text_result("not asked: the client does not declare that, or declares tasks of it")
            await turn.ask(question.method, question.params, name=f"{name}: plain")
            await _create(turn, question, f"{name}: create", {"ttl": 60_000})
            return text_result("asked")

        offers.add_tool(name, "Asks the client for something as a task", ask)


def asks_tasks_declined(stage: Stage) -> None:
    """Ask for a sample twice, first as ever and then as a task; the user wants neither."""
    offers = stage.server.offers
    offers.tools.clear()
    offers.calls.clear()
    sample = _questions()[1]

    async def decline(turn: Turn, question: Question) -> None:
        await turn.ask(question.method, question.params, name="ask_declined: plain")
        id = await _create(turn, question, "ask_declined: create", {"ttl": 60_000})
        if id is None:
            return
        await turn.ask("tasks/result", {"taskId": id}, name="ask_declined: result")
        await turn.ask("tasks/get", {"taskId": id}, name="ask_declined: get")

    _tool("ask_declined", [sample], decline, stage)
