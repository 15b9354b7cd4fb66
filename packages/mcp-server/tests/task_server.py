"""A server with tools that run as tasks, and functions for its clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio
import trio.testing
from raw_client import ALL_CAPABILITIES, Answer, RawClient, as_object, connected

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, ElicitationAccepted, RequestFailed, Server, TaskPolicy, ToolError

__all__ = [
    "BOTH",
    "EXTENSION",
    "WITH_TASKS",
    "ToolControl",
    "accept",
    "get_task",
    "make_server",
    "open_client",
    "settled_status",
    "start_task",
    "task_id",
    "wait_for_status",
]

BOTH: Final = (R2025_11_25, R2026_07_28)
EXTENSION: Final = "io.modelcontextprotocol/tasks"
WITH_TASKS: Final[JsonObject] = {**ALL_CAPABILITIES, "extensions": {EXTENSION: {}}}


@attrs.frozen
class Name:
    """An elicitation form."""

    name: str


@attrs.define
class ToolControl:
    """The event that the tools wait for, and a record of their runs."""

    go: trio.Event = attrs.field(factory=trio.Event)
    ran: list[str] = attrs.field(factory=list)
    tasks: list[str | None] = attrs.field(factory=list)


def make_server(control: ToolControl, *, tasks: TaskPolicy | None = None, limits: Limits | None = None) -> Server:
    """Return the server."""
    server = Server("tasks", version="0", tasks=tasks, limits=limits or Limits())

    @server.tool
    def plain() -> str:
        return "plain"

    @server.tool(task="optional")
    async def work(context: Context, text: str = "done") -> str:
        control.ran.append(text)
        control.tasks.append(context.task)
        try:
            await control.go.wait()
        except trio.Cancelled:
            control.ran.append("cancelled")
            raise
        return text

    @server.tool(task="required")
    async def must() -> str:
        return "had to"

    @server.tool(task="optional")
    async def reports(context: Context) -> str:
        await context.progress(1, 4)
        await context.progress(2, message="two")
        await context.info("this goes nowhere")
        await control.go.wait()
        return "reported"

    @server.tool(task="optional")
    async def elicits(context: Context) -> str:
        match await context.elicit(Name, "Who?"):
            case ElicitationAccepted(value):
                return f"hello {value.name}"
            case other:
                return type(other).__name__

    @server.tool(task="optional")
    async def elicits_later(context: Context) -> str:
        await control.go.wait()
        return type(await context.elicit(Name, "Who?")).__name__

    @server.tool(task="optional")
    async def elicits_twice(context: Context) -> str:
        names: list[str] = []

        async def ask(key: str) -> None:
            answer = await context.elicit(Name, f"Who is {key}?", key=key)
            names.append(answer.value.name if isinstance(answer, ElicitationAccepted) else "nobody")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
        return " ".join(sorted(names))

    @server.tool(task="optional")
    async def fails(how: str) -> str:
        if how == "tool":
            raise ToolError("it cannot be done")
        if how == "protocol":
            raise RequestFailed("no", code=-32000, data={"why": "so"})
        raise RuntimeError("secret")

    @server.tool(task="optional", start_as_task=False)
    async def later(context: Context, short: bool = False) -> str:
        await context.once("paid", lambda: control.ran.append("paid"))
        answer = await context.elicit(Name, "Who?")
        if short:
            return "at once"
        await context.begin_task()
        control.tasks.append(context.task)
        await control.go.wait()
        return f"hello {answer.value.name}" if isinstance(answer, ElicitationAccepted) else "nobody"

    return server


@asynccontextmanager
async def open_client(
    server: Server, revision: Revision, *, capabilities: JsonObject = WITH_TASKS, **answers: Answer
) -> AsyncIterator[RawClient]:
    """Connect a client that supports tasks. `elicitation`: answers elicitations."""
    handlers = {f"{name}/create": answer for name, answer in answers.items()}
    async with connected(server, revision, capabilities=capabilities, answers=handlers) as client:
        yield client


def accept(name: str) -> Callable[[JsonObject], JsonObject]:
    """Return a function that accepts an elicitation with a name."""
    return lambda _: {"action": "accept", "content": {"name": name}}


async def start_task(client: RawClient, name: str, /, *, ttl: int | None = None, **arguments: JsonValue) -> JsonObject:
    """Call a tool as a task and return the task."""
    params: JsonObject = {"name": name, "arguments": arguments}
    if not client.modern:
        params["task"] = {} if ttl is None else {"ttl": ttl}
    result = await client.call("tools/call", params)
    if client.modern:
        assert result["resultType"] == "task", result
        return result
    assert list(result) == ["task"]
    return as_object(result["task"])


def task_id(task: JsonObject) -> str:
    """Return the id of a task."""
    id = task["taskId"]
    assert isinstance(id, str)
    return id


async def get_task(client: RawClient, task: JsonObject) -> JsonObject:
    """Return the result of `tasks/get`."""
    return await client.call("tasks/get", {"taskId": task["taskId"]})


async def wait_for_status(client: RawClient, task: JsonObject, *statuses: str) -> JsonObject:
    """Poll a task until it has one of the statuses, and return it."""
    while (now := await get_task(client, task))["status"] not in statuses:
        await trio.testing.wait_all_tasks_blocked()
    return now


async def settled_status(client: RawClient, task: JsonObject) -> JsonValue:
    """Return the status of a task after all tasks are blocked."""
    await trio.testing.wait_all_tasks_blocked()
    return (await get_task(client, task))["status"]
