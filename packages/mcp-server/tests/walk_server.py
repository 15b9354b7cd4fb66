"""The server of the walk over the method table. It offers every feature, and records the messages that it receives.

As a program it serves stdio: `python walk_server.py full` declares its features, `bare` declares none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import attrs
import trio

from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.engine.connection import Extensions
from mcp_core.engine.events import Outgoing, ReceiveResult
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
    AnyNotificationMethod,
    AnyRequestMethod,
    RequestMethod,
    Side,
)
from mcp_core.revisions import Revision, preferred
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types.skills import GetSkillRequestParams, ListSkillsRequestParams, ReadResourceDirectoryRequestParams
from mcp_server import Context, Server, serve_stdio
from mcp_server.features import request_as_task
from mcp_server.skills import Skills

__all__ = [
    "DEFINITIONS",
    "DO",
    "EXTENSIONS",
    "FORM",
    "SAMPLES",
    "SAMPLING",
    "URL_MODE",
    "WalkServer",
    "make_server",
    "sample",
    "wire_sample",
]

AnyDefinition: TypeAlias = AnyRequestMethod | AnyNotificationMethod

DEFINITIONS: Final[tuple[AnyDefinition, ...]] = (*METHODS, *NOTIFICATIONS)

DO: Final = RequestMethod(name="walk/do", sender=Side.CLIENT, params=t.CallToolRequestParams, result=t.CallToolResult)
"""A method that needs no capability: calls a function of the server and returns its JSON as text."""

EXTENSIONS: Final = Extensions(methods={DO.name: DO})

_NOW: Final = "2026-11-22T00:00:00Z"
_CLIENT: Final = t.Implementation(name="walk", version="0")

FORM: Final = t.ElicitRequestFormParams(
    message="quick", requested_schema=t.RequestedSchema(properties={"name": t.StringSchema()})
)
URL_MODE: Final = t.ElicitRequestURLParams(message="see", url="https://example.com/", elicitation_id="page")
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
"""Params for each definition, by the name of their class."""


def sample(definition: AnyDefinition) -> t.WireObject:
    """Return params of a definition; of the union of `elicitation/create` those of the form."""
    return SAMPLES[getattr(definition.params, "__name__", "ElicitRequestFormParams")]


def wire_sample(definition: AnyDefinition) -> JsonObject:
    """Return the params as JSON of the newest revision that has the definition."""
    having = definition.revisions | (definition.input_request if isinstance(definition, RequestMethod) else frozenset())
    revision = preferred(having)
    assert revision is not None
    return converter(revision).unstructure(sample(definition))


class RecordingConnection(ServerConnection):
    """An engine that records the inbound messages, and the events that it returns."""

    received: list[str]

    def receive(self, message: Message) -> ReceiveResult:
        reaction = super().receive(message)
        subject = message.method if isinstance(message, Request | Notification) else "answer"
        self.received.append(f"{subject} {type(reaction.event).__name__}")
        return reaction


@attrs.define(eq=False)
class ServerRecord:
    """The record of the server."""

    received: list[str] = attrs.field(factory=list)
    released: anyio.Semaphore = attrs.field(factory=lambda: anyio.Semaphore(0))
    cancelled: anyio.Semaphore = attrs.field(factory=lambda: anyio.Semaphore(0))


class WalkServer(Server):
    """The server. With `declares` it declares its features."""

    def __init__(self, *, declares: bool) -> None:
        super().__init__("walk", version="0", instructions="Walk.")
        self.declares: Final = declares
        self.record: Final = ServerRecord()

    @property
    def capabilities(self) -> t.ServerCapabilities:
        return super().capabilities if self.declares else t.ServerCapabilities()

    def _connection(
        self, revisions: tuple[Revision, ...], *, authenticated: bool = True, notify_changes: bool = True
    ) -> ServerConnection:
        value = super()._connection(revisions, authenticated=authenticated, notify_changes=notify_changes)
        value.__class__ = RecordingConnection
        assert isinstance(value, RecordingConnection)
        value.received = self.record.received
        return value


# --- functions that a client can call --------------------------------------------------------------------------------


async def attempt(context: Context, index: int, raw: bool) -> JsonValue:
    """Send the client a sample of a definition, without checks if `raw`. Return the outcome."""
    target = DEFINITIONS[index]
    try:
        if isinstance(target, RequestMethod):
            return type(
                await (_request_unchecked(context, target) if raw else context.request(target, sample(target)))
            ).__name__
        await (_notify_unchecked(context, target) if raw else _notify(context, target))
    except McpError as refused:
        code = refused.code if isinstance(refused, RequestFailed) else None
        return {"refused": type(refused).__name__, "code": code, "message": refused.message}
    return "sent"


@allow_asyncio
async def _request_unchecked(context: Context, definition: AnyRequestMethod) -> object:
    call, revision = context._call, context.peer.revision
    connection, wire = call.channel.connection, wire_sample(definition)
    if not revision.server_requests:
        await call.channel.send(Outgoing(Request("raw", definition.name, wire), call.request.id))
        return None

    def unchecked(definition: AnyRequestMethod, params: object, *, for_request: JsonValue) -> Outgoing:
        outbound = connection._outbound.begin(definition, revision, t.Result, progress=False, augmented=False)
        return Outgoing(Request(outbound.id, definition.name, wire), call.request.id)

    connection.__dict__["request"] = unchecked
    try:
        return await call.channel.request_client(definition, None, call)
    finally:
        del connection.__dict__["request"]


@allow_asyncio
async def _notify(context: Context, definition: AnyNotificationMethod) -> None:
    call = context._call
    connection = call.channel.connection
    if definition is NOTIFICATIONS_MESSAGE:
        await call.channel.send(connection.log("error", "broken", for_request=call.request.id))
    elif definition.filter_member is not None:
        for outgoing in connection.publish(definition, sample(definition)):
            await call.channel.send(outgoing)
    else:
        await context.notify(definition, sample(definition))


@allow_asyncio
async def _notify_unchecked(context: Context, definition: AnyNotificationMethod) -> None:
    call = context._call
    await call.channel.send(Outgoing(Notification(definition.name, wire_sample(definition)), call.request.id))


async def ask(context: Context, target: str) -> JsonValue:
    """Send a client request that has several forms."""
    if target == "page":
        return (await context.request(ELICITATION_CREATE, URL_MODE)).action
    if target == "tools":
        tool = t.Tool(name="dice", input_schema={"type": "object"})
        result = await context.sample("hello", max_tokens=5, tools=[tool], tool_choice=t.ToolChoice(mode="auto"))
        return result.model
    if target == "task":
        return (await request_as_task(context, ELICITATION_CREATE, FORM)).action
    raise AssertionError(target)


async def client_task(context: Context, index: int) -> JsonValue:
    """Send a task-augmented request, and a request about the client's task."""
    target = DEFINITIONS[index]
    message = "slow" if target is TASKS_CANCEL else "quick"
    form = attrs.evolve(FORM, message=message, task=t.TaskMetadata())
    created: object = await context.request(ELICITATION_CREATE, form)
    assert isinstance(created, t.CreateTaskResult)
    id = created.task.task_id
    if target is TASKS_GET:
        return (await context.request(TASKS_GET, t.GetTaskRequestParams(task_id=id))).task_id == id
    if target is TASKS_RESULT:
        return (await context.request(TASKS_RESULT, t.GetTaskPayloadRequestParams(task_id=id))).extra[
            "action"
        ] == "accept"
    if target is TASKS_LIST:
        listed = await context.request(TASKS_LIST, t.ListTasksRequestParams())
        return id in {task.task_id for task in listed.tasks}
    assert target is TASKS_CANCEL
    return (await context.request(TASKS_CANCEL, t.CancelTaskRequestParams(task_id=id))).status == "cancelled"


@allow_asyncio
async def request_with_progress(context: Context) -> JsonValue:
    """Send a client request that requests progress (legacy)."""
    connection, id = context._call.channel.connection, context._call.request.id

    def with_progress(definition: AnyRequestMethod, params: object, *, for_request: JsonValue) -> Outgoing:
        return Outgoing(connection._begin_request(definition, params, context.peer.revision, progress=True), id)

    connection.__dict__["request"] = with_progress
    try:
        return type(
            await context._call.channel.request_client(ROOTS_LIST, t.ListRootsRequestParams(), context._call)
        ).__name__
    finally:
        del connection.__dict__["request"]


def _functions(server: WalkServer) -> dict[str, Callable[..., Awaitable[JsonValue]]]:  # type: ignore[explicit-any]  # by name, with arguments from JSON
    record = server.record

    async def received(context: Context) -> JsonValue:
        """Return the messages received since the last call, without the calls themselves."""
        lines = [line for line in record.received if not line.startswith(DO.name)]
        record.received.clear()
        return list(lines)

    async def echo(context: Context, text: str = "") -> JsonValue:
        return text

    async def release_work(context: Context) -> JsonValue:
        record.released.release()
        return None

    async def until_cancelled(context: Context) -> JsonValue:
        await record.cancelled.acquire()
        return True

    async def change(context: Context, target: str) -> JsonValue:
        """Change a list, or report a resource as updated."""
        if target == "tools":
            server.tool(name="new")(_text)
            server.remove_tool("new")
        elif target == "prompts":
            server.prompt(name="new")(_text)
            server.remove_prompt("new")
        elif target == "resources":
            server.add_resource(_text, "walk://new")
            server.remove_resource("walk://new")
        else:
            server.resource_updated(target)
        return None

    async def end_subscriptions(context: Context) -> JsonValue:
        """End the subscriptions of the client."""
        calls = context._call.channel._calls  # type: ignore[attr-defined]  # of a pipe
        for id in context._call.channel.connection.subscriptions:
            calls[id].scope.cancel()
        return None

    basic = (received, echo, release_work, until_cancelled, change, end_subscriptions)
    with_client_requests = (attempt, ask, client_task, request_with_progress)
    return {function.__name__: function for function in (*basic, *with_client_requests)}


def make_server(*, declares: bool) -> WalkServer:
    """Return the server."""
    server = WalkServer(declares=declares)
    functions = _functions(server)

    @server.method(DO)
    async def do(params: t.CallToolRequestParams, context: Context) -> JsonObject:
        value = await functions[params.name](context, **(params.arguments or {}))
        return {"content": [{"type": "text", "text": json.dumps(value)}]}

    _add_tools(server, functions)
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


def _add_tools(server: WalkServer, functions: dict[str, Callable[..., Awaitable[JsonValue]]]) -> None:  # type: ignore[explicit-any]  # likewise
    record = server.record

    @server.tool
    async def do(context: Context, name: str, arguments: JsonObject) -> str:
        """Call a function of the server that sends client requests, by MRTR on 2026-07-28."""
        return json.dumps(await functions[name](context, **arguments))

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def reports(context: Context) -> str:
        """Report progress, and log."""
        await context.progress(1, 2)
        await context.error("broken")
        return "sent"

    @server.tool
    async def hang(context: Context) -> str:
        try:
            # The client cancels as soon as this notification arrives, which may be before the call returns.
            await context.progress(1)
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            record.cancelled.release()
            raise
        return "not reached"

    @server.tool
    async def cancels(context: Context) -> str:
        """Send a client request, and cancel it when the client has begun to handle it (legacy)."""
        while record.released.value:
            # Of an earlier exercise that did not wait.
            record.released.acquire_nowait()
        async with anyio.create_task_group() as group:
            group.start_soon(context.request, SAMPLING_CREATE_MESSAGE, attrs.evolve(SAMPLING, system_prompt="slow"))
            await record.released.acquire()
            group.cancel_scope.cancel()
        return "gave up"

    @server.tool(task="optional")
    async def work() -> str:
        await record.released.acquire()
        return "worked"

    @server.tool(task="optional")
    async def elicits(context: Context) -> str:
        """Elicit, as a task."""

        return (await context.request(ELICITATION_CREATE, FORM)).action


async def _text() -> str:
    return "text"


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(declares=sys.argv[1] == "full"))
