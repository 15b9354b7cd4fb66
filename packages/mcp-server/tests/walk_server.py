"""The server of the walk over the table of methods: it offers everything, does as it is told, and remembers what it heard.

In a process of its own it serves stdio: `python walk_server.py full` declares what it offers, `bare` declares nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import trio

from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.engine.connection import Extensions
from mcp_core.engine.events import Outgoing, Reaction
from mcp_core.engine.server import ServerConnection
from mcp_core.errors import McpError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Message, Notification, Request
from mcp_core.methods import (
    ELICITATION_CREATE,
    METHODS,
    NOTIFICATIONS,
    NOTIFICATIONS_MESSAGE,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
    TASKS_CANCEL,
    TASKS_GET,
    TASKS_LIST,
    TASKS_RESULT,
    AnyMethod,
    AnyNotification,
    Method,
    Role,
)
from mcp_core.revisions import Revision, preferred
from mcp_core.types.skills import GetSkillRequestParams, ListSkillsRequestParams, ReadResourceDirectoryRequestParams
from mcp_server import Context, Server, ask_as_task, serve_stdio
from mcp_server.skills import Skills

__all__ = [
    "DO",
    "EXTENSIONS",
    "FORM",
    "PAGE",
    "ROWS",
    "SAMPLES",
    "SAMPLING",
    "WalkServer",
    "make_server",
    "sample",
    "wire_sample",
]

AnyRow: TypeAlias = AnyMethod | AnyNotification

ROWS: Final[tuple[AnyRow, ...]] = (*METHODS, *NOTIFICATIONS)

DO: Final = Method(name="walk/do", sender=Role.CLIENT, params=t.CallToolRequestParams, result=t.CallToolResult)
"""What needs no capability: the server does what its params say, and answers with JSON in a text."""

EXTENSIONS: Final = Extensions(methods={DO.name: DO})

_NOW: Final = "2026-11-22T00:00:00Z"
_CLIENT: Final = t.Implementation(name="walk", version="0")

FORM: Final = t.ElicitRequestFormParams(
    message="quick", requested_schema=t.RequestedSchema(properties={"name": t.StringSchema()})
)
PAGE: Final = t.ElicitRequestURLParams(message="see", url="https://example.com/", elicitation_id="page")
SAMPLING: Final = t.CreateMessageRequestParams(
    messages=(t.SamplingMessage(role="user", content=t.TextContent(text="hello")),), max_tokens=5
)

SAMPLES: Final[dict[str, t.WireObject]] = {
    "InitializeRequestParams": t.InitializeRequestParams(
        protocol_version="2025-11-25", capabilities=t.ClientCapabilities(), client_info=_CLIENT
    ),
    "PingRequestParams": t.PingRequestParams(),
    "DiscoverRequestParams": t.DiscoverRequestParams(),
    "ListToolsRequestParams": t.ListToolsRequestParams(),
    "CallToolRequestParams": t.CallToolRequestParams(name="echo", arguments={"text": "hello"}),
    "ListResourcesRequestParams": t.ListResourcesRequestParams(),
    "ListResourceTemplatesRequestParams": t.ListResourceTemplatesRequestParams(),
    "ReadResourceRequestParams": t.ReadResourceRequestParams(uri="walk://text"),
    "SubscribeRequestParams": t.SubscribeRequestParams(uri="walk://text"),
    "UnsubscribeRequestParams": t.UnsubscribeRequestParams(uri="walk://text"),
    "ListPromptsRequestParams": t.ListPromptsRequestParams(),
    "GetPromptRequestParams": t.GetPromptRequestParams(name="poem", arguments={"of": "rain"}),
    "CompleteRequestParams": t.CompleteRequestParams(
        ref=t.PromptReference(name="poem"), argument=t.CompletionArgument(name="of", value="ra")
    ),
    "SetLevelRequestParams": t.SetLevelRequestParams(level="debug"),
    "SubscriptionsListenRequestParams": t.SubscriptionsListenRequestParams(
        notifications=t.SubscriptionFilter(tools_list_changed=True)
    ),
    "ListRootsRequestParams": t.ListRootsRequestParams(),
    "CreateMessageRequestParams": SAMPLING,
    "ElicitRequestFormParams": FORM,
    "GetTaskRequestParams": t.GetTaskRequestParams(task_id="none"),
    "GetTaskPayloadRequestParams": t.GetTaskPayloadRequestParams(task_id="none"),
    "ListTasksRequestParams": t.ListTasksRequestParams(),
    "CancelTaskRequestParams": t.CancelTaskRequestParams(task_id="none"),
    "UpdateTaskRequestParams": t.UpdateTaskRequestParams(task_id="none", input_responses={}),
    "ListSkillsRequestParams": ListSkillsRequestParams(),
    "GetSkillRequestParams": GetSkillRequestParams(uri="skill://tidy/SKILL.md"),
    "ReadResourceDirectoryRequestParams": ReadResourceDirectoryRequestParams(uri="skill://tidy"),
    "InitializedNotificationParams": t.InitializedNotificationParams(),
    "CancelledNotificationParams": t.CancelledNotificationParams(request_id="none"),
    "ProgressNotificationParams": t.ProgressNotificationParams(progress_token="none", progress=1),
    "LoggingMessageNotificationParams": t.LoggingMessageNotificationParams(level="error", data="broken"),
    "ToolListChangedNotificationParams": t.ToolListChangedNotificationParams(),
    "PromptListChangedNotificationParams": t.PromptListChangedNotificationParams(),
    "ResourceListChangedNotificationParams": t.ResourceListChangedNotificationParams(),
    "ResourceUpdatedNotificationParams": t.ResourceUpdatedNotificationParams(uri="walk://text"),
    "SubscriptionsAcknowledgedNotificationParams": t.SubscriptionsAcknowledgedNotificationParams(
        notifications=t.SubscriptionFilter()
    ),
    "RootsListChangedNotificationParams": t.RootsListChangedNotificationParams(),
    "ElicitationCompleteNotificationParams": t.ElicitationCompleteNotificationParams(elicitation_id="page"),
    "TaskStatusNotificationParams": t.TaskStatusNotificationParams(
        task_id="none", status="working", created_at=_NOW, last_updated_at=_NOW, ttl=None
    ),
    "ExtensionTaskNotificationParams": t.ExtensionTaskNotificationParams(
        task_id="none", status="working", created_at=_NOW, last_updated_at=_NOW, ttl_ms=None
    ),
}
"""Parameters for each row, by the name of their class."""


def sample(row: AnyRow) -> t.WireObject:
    """Parameters of a row; of the union of `elicitation/create` those of the form."""
    return SAMPLES[getattr(row.params, "__name__", "ElicitRequestFormParams")]


def wire_sample(row: AnyRow) -> JsonObject:
    """The same as JSON, as the newest revision has it that has the row."""
    having = row.revisions | (row.input_request if isinstance(row, Method) else frozenset())
    revision = preferred(having)
    assert revision is not None
    return converter(revision).unstructure(sample(row))


class Watched(ServerConnection):
    """An engine that takes down what comes, and what it made of it."""

    heard: list[str]

    def receive(self, message: Message) -> Reaction:
        reaction = super().receive(message)
        said = message.method if isinstance(message, Request | Notification) else "answer"
        self.heard.append(f"{said} {type(reaction.event).__name__}")
        return reaction


@attrs.define(eq=False)
class Memory:
    """What the server remembers."""

    heard: list[str] = attrs.field(factory=list)
    gate: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(0))
    cancelled: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(0))


class WalkServer(Server):
    """The server; `declares`: it says what it offers."""

    def __init__(self, *, declares: bool) -> None:
        super().__init__("walk", version="0", instructions="Walk.")
        self.declares: Final = declares
        self.memory: Final = Memory()

    @property
    def capabilities(self) -> t.ServerCapabilities:
        return super().capabilities if self.declares else t.ServerCapabilities()

    def _connection(self, revisions: tuple[Revision, ...], *, tells_apart: bool = True) -> ServerConnection:
        made = super()._connection(revisions, tells_apart=tells_apart)
        made.__class__ = Watched
        assert isinstance(made, Watched)
        made.heard = self.memory.heard
        return made


# --- what a client can have it do ------------------------------------------------------------------------------------


async def attempt(context: Context, row: int, raw: bool) -> JsonValue:
    """Sends the client a sample of a row, past all checks if `raw`. Says how that went."""
    what = ROWS[row]
    try:
        if isinstance(what, Method):
            return type(await (_ask_raw(context, what) if raw else context.ask(what, sample(what)))).__name__
        await (_tell_raw(context, what) if raw else _tell(context, what))
    except McpError as refused:
        code = refused.code if isinstance(refused, RequestFailed) else None
        return {"refused": type(refused).__name__, "code": code, "message": refused.message}
    return "told"


async def _ask_raw(context: Context, row: AnyMethod) -> object:
    call, revision = context._call, context.peer.revision
    connection, wire = call.link.connection, wire_sample(row)
    if not revision.server_requests:
        await call.link.send(Outgoing(Request("raw", row.name, wire), call.request.id))
        return None

    def unchecked(row: AnyMethod, params: object, *, for_request: JsonValue) -> Outgoing:
        asked = connection._outbound.ask(row, revision, t.Result, progress=False, augmented=False)
        return Outgoing(Request(asked.id, row.name, wire), call.request.id)

    connection.__dict__["ask"] = unchecked
    try:
        return await call.link.ask(row, None, call)
    finally:
        del connection.__dict__["ask"]


async def _tell(context: Context, row: AnyNotification) -> None:
    call = context._call
    connection = call.link.connection
    if row is NOTIFICATIONS_MESSAGE:
        await call.link.send(connection.log("error", "broken", for_request=call.request.id))
    elif row.filter_member is not None:
        for outgoing in connection.publish(row, sample(row)):
            await call.link.send(outgoing)
    else:
        await context.notify(row, sample(row))


async def _tell_raw(context: Context, row: AnyNotification) -> None:
    call = context._call
    await call.link.send(Outgoing(Notification(row.name, wire_sample(row)), call.request.id))


async def ask(context: Context, what: str) -> JsonValue:
    """Asks the client a question that has more than one form."""
    if what == "page":
        return (await context.ask(ELICITATION_CREATE, PAGE)).action
    if what == "tools":
        tool = t.Tool(name="dice", input_schema={"type": "object"})
        answer = await context.sample("hello", max_tokens=5, tools=[tool], tool_choice=t.ToolChoice(mode="auto"))
        return answer.model
    if what == "task":
        return (await ask_as_task(context, ELICITATION_CREATE, FORM)).action
    raise AssertionError(what)


async def client_task(context: Context, row: int) -> JsonValue:
    """Has the client answer by a task, and asks it about that."""
    what = ROWS[row]
    message = "slow" if what is TASKS_CANCEL else "quick"
    wish = t.evolve(FORM, message=message, task=t.TaskMetadata())
    created: object = await context.ask(ELICITATION_CREATE, wish)
    assert isinstance(created, t.CreateTaskResult)
    id = created.task.task_id
    if what is TASKS_GET:
        return (await context.ask(TASKS_GET, t.GetTaskRequestParams(task_id=id))).task_id == id
    if what is TASKS_RESULT:
        return (await context.ask(TASKS_RESULT, t.GetTaskPayloadRequestParams(task_id=id))).extra["action"] == "accept"
    if what is TASKS_LIST:
        listed = await context.ask(TASKS_LIST, t.ListTasksRequestParams())
        return id in {task.task_id for task in listed.tasks}
    assert what is TASKS_CANCEL
    return (await context.ask(TASKS_CANCEL, t.CancelTaskRequestParams(task_id=id))).status == "cancelled"


async def question_with_progress(context: Context) -> JsonValue:
    """Asks the client, and wants to know how far it is (legacy)."""
    connection, id = context._call.link.connection, context._call.request.id

    def with_progress(row: AnyMethod, params: object, *, for_request: JsonValue) -> Outgoing:
        return Outgoing(connection._ask(row, params, context.peer.revision, progress=True), id)

    connection.__dict__["ask"] = with_progress
    try:
        return type(await context._call.link.ask(ROOTS_LIST, t.ListRootsRequestParams(), context._call)).__name__
    finally:
        del connection.__dict__["ask"]


def _doings(server: WalkServer) -> dict[str, Callable[..., Awaitable[JsonValue]]]:  # type: ignore[explicit-any]  # by name, with arguments from JSON
    memory = server.memory

    async def heard(context: Context) -> JsonValue:
        """What came since it was asked last, without its own requests."""
        come = [line for line in memory.heard if not line.startswith(DO.name)]
        memory.heard.clear()
        return list(come)

    async def echo(context: Context, text: str = "") -> JsonValue:
        return text

    async def open_gate(context: Context) -> JsonValue:
        memory.gate.release()
        return None

    async def until_cancelled(context: Context) -> JsonValue:
        await memory.cancelled.acquire()
        return True

    async def change(context: Context, what: str) -> JsonValue:
        """Changes a list, or tells that a resource is another one."""
        if what == "tools":
            server.tool(name="new")(_text)
            server.remove_tool("new")
        elif what == "prompts":
            server.prompt(name="new")(_text)
            server.remove_prompt("new")
        elif what == "resources":
            server.add_resource(_text, "walk://new")
            server.remove_resource("walk://new")
        else:
            server.resource_updated(what)
        return None

    async def end_subscriptions(context: Context) -> JsonValue:
        """Ends what the client listens to, from this side."""
        calls = context._call.link._calls  # type: ignore[attr-defined]  # of a pipe
        for id in context._call.link.connection.subscriptions:
            calls[id].scope.cancel()
        return None

    every = (heard, echo, open_gate, until_cancelled, change, end_subscriptions)
    more = (attempt, ask, client_task, question_with_progress)
    return {function.__name__: function for function in (*every, *more)}


def make_server(*, declares: bool) -> WalkServer:
    """The server."""
    server = WalkServer(declares=declares)
    doings = _doings(server)

    @server.method(DO)
    async def do(params: t.CallToolRequestParams, context: Context) -> JsonObject:
        made = await doings[params.name](context, **(params.arguments or {}))
        return {"content": [{"type": "text", "text": json.dumps(made)}]}

    _add_tools(server, doings)
    server.add_resource(_text, "walk://text")

    @server.resource("walk://page/{number}")
    async def page(number: str) -> str:
        return number

    @server.prompt
    async def poem(of: str) -> str:
        return f"About {of}."

    @server.completion(prompt="poem", argument="of")
    async def complete(value: str) -> list[str]:
        return [word for word in ("rain", "snow") if word.startswith(value)]

    Skills(server).add(Path(__file__).parent / "walk_skills")
    return server


def _add_tools(server: WalkServer, doings: dict[str, Callable[..., Awaitable[JsonValue]]]) -> None:  # type: ignore[explicit-any]  # likewise
    memory = server.memory

    @server.tool
    async def do(context: Context, name: str, arguments: JsonObject) -> str:
        """Does what needs rounds on 2026-07-28."""
        return json.dumps(await doings[name](context, **arguments))

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def tells(context: Context) -> str:
        """Tells how far it is, and logs."""
        await context.progress(1, 2)
        await context.error("broken")
        return "told"

    @server.tool
    async def hang(context: Context) -> str:
        try:
            # The client cancels as soon as it hears of this, which may be before the call returns.
            await context.progress(1)
            await trio.sleep_forever()
        except trio.Cancelled:
            memory.cancelled.release()
            raise

    @server.tool
    async def cancels(context: Context) -> str:
        """Asks, and gives up when the client has begun to answer (legacy)."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.ask, SAMPLING_CREATE_MESSAGE, t.evolve(SAMPLING, system_prompt="slow"))
            await memory.gate.acquire()
            nursery.cancel_scope.cancel()
        return "gave up"

    @server.tool(task="optional")
    async def work() -> str:
        await memory.gate.acquire()
        return "worked"

    @server.tool(task="optional")
    async def asks(context: Context) -> str:
        """Asks, as a task."""
        return (await context.ask(ELICITATION_CREATE, FORM)).action


async def _text() -> str:
    return "text"


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(declares=sys.argv[1] == "full"))
