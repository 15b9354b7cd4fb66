"""Two engines back to back, and a sample of everything that they can say to each other.

Every message goes through the codec on its way. Each direction is a queue that the test empties when it likes, so that
messages cross.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, get_args

import attrs
import orjson

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.client import ClientConnection
from mcp_core.engine.connection import Connection, Extensions
from mcp_core.engine.events import ErrorReceived, Event, Outgoing, ReceiveResult, RequestReceived, ResultReceived
from mcp_core.engine.server import ServerConnection
from mcp_core.jsonrpc.codec import decode, encode
from mcp_core.jsonrpc.messages import Batch, ErrorResponse, JsonObject, JsonValue, Message, RequestId
from mcp_core.limits import Limits
from mcp_core.methods import NotificationMethod, RequestMethod, Side
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.types import skills
from mcp_core.types.meta import TASKS_EXTENSION

E = TypeVar("E")

ALL: Final = tuple(REVISIONS.values())

CLIENT_INFO: Final = t.Implementation(name="client", version="1")
SERVER_INFO: Final = t.Implementation(name="server", version="2")

EVERYTHING_OFFERED: Final = t.ServerCapabilities(
    prompts=t.PromptsCapability(list_changed=True),
    resources=t.ResourcesCapability(subscribe=True, list_changed=True),
    tools=t.ToolsCapability(list_changed=True),
    completions={},
    logging={},
    tasks=t.ServerTasksCapability(list={}, cancel={}, requests=t.ServerTaskRequests(tools=t.ToolTaskRequests(call={}))),
    extensions={TASKS_EXTENSION: {}, skills.SKILLS_EXTENSION: {"directoryRead": True}},
)
NOTHING_OFFERED: Final = t.ServerCapabilities()

EVERYTHING_DECLARED: Final = t.ClientCapabilities(
    roots=t.RootsCapability(list_changed=True),
    sampling=t.SamplingCapability(tools={}, context={}),
    elicitation=t.ElicitationCapability(form={}, url={}),
    tasks=t.ClientTasksCapability(
        list={},
        cancel={},
        requests=t.ClientTaskRequests(
            sampling=t.SamplingTaskRequests(create_message={}), elicitation=t.ElicitationTaskRequests(create={})
        ),
    ),
    extensions={TASKS_EXTENSION: {}},
)
NOTHING_DECLARED: Final = t.ClientCapabilities()

TEXT: Final = t.TextContent(text="hello")
FORM: Final = t.ElicitRequestFormParams(
    message="Your name?", requested_schema=t.RequestedSchema(properties={"name": t.StringSchema()})
)
SAMPLE: Final = t.CreateMessageRequestParams(messages=(t.SamplingMessage(role="user", content=TEXT),), max_tokens=10)
URI: Final = "file:///a"
WHEN: Final = "2026-01-01T00:00:00Z"
FILTER: Final = t.SubscriptionFilter(
    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True, resource_subscriptions=(URI,)
)
SKILL: Final = skills.Skill(
    uri="skill://tidy/SKILL.md", frontmatter={"name": "tidy", "description": "Tidies."}, resources="dynamic"
)
TASK: Final = t.Task(task_id="t", status="working", created_at=WHEN, last_updated_at=WHEN, ttl=None)

PARAMS: Final[Mapping[RequestMethod[object, object], t.WireObject]] = {
    m.INITIALIZE: t.InitializeRequestParams(
        protocol_version="2025-11-25", capabilities=NOTHING_DECLARED, client_info=CLIENT_INFO
    ),
    m.PING: t.PingRequestParams(),
    m.SERVER_DISCOVER: t.DiscoverRequestParams(),
    m.TOOLS_LIST: t.ListToolsRequestParams(),
    m.TOOLS_CALL: t.CallToolRequestParams(name="echo", arguments={"text": "hello"}),
    m.RESOURCES_LIST: t.ListResourcesRequestParams(),
    m.RESOURCES_TEMPLATES_LIST: t.ListResourceTemplatesRequestParams(),
    m.RESOURCES_READ: t.ReadResourceRequestParams(uri=URI),
    m.RESOURCES_SUBSCRIBE: t.SubscribeRequestParams(uri=URI),
    m.RESOURCES_UNSUBSCRIBE: t.UnsubscribeRequestParams(uri=URI),
    m.PROMPTS_LIST: t.ListPromptsRequestParams(),
    m.PROMPTS_GET: t.GetPromptRequestParams(name="greet"),
    m.COMPLETION_COMPLETE: t.CompleteRequestParams(
        ref=t.PromptReference(name="greet"), argument=t.CompletionArgument(name="who", value="w")
    ),
    m.LOGGING_SET_LEVEL: t.SetLevelRequestParams(level="warning"),
    m.SUBSCRIPTIONS_LISTEN: t.SubscriptionsListenRequestParams(notifications=FILTER),
    m.ROOTS_LIST: t.ListRootsRequestParams(),
    m.SAMPLING_CREATE_MESSAGE: SAMPLE,
    m.ELICITATION_CREATE: FORM,
    m.TASKS_GET: t.GetTaskRequestParams(task_id="t"),
    m.TASKS_RESULT: t.GetTaskPayloadRequestParams(task_id="t"),
    m.TASKS_LIST: t.ListTasksRequestParams(),
    m.TASKS_CANCEL: t.CancelTaskRequestParams(task_id="t"),
    m.EXTENSION_TASKS_GET: t.GetTaskRequestParams(task_id="t"),
    m.EXTENSION_TASKS_UPDATE: t.UpdateTaskRequestParams(task_id="t", input_responses={}),
    m.EXTENSION_TASKS_CANCEL: t.CancelTaskRequestParams(task_id="t"),
    m.SKILLS_LIST: skills.ListSkillsRequestParams(),
    m.SKILLS_GET: skills.GetSkillRequestParams(uri=SKILL.uri),
    m.RESOURCES_DIRECTORY_READ: skills.ReadResourceDirectoryRequestParams(uri="skill://tidy"),
}
"""Parameters for each request."""

RESULTS: Final[Mapping[RequestMethod[object, object], t.WireObject]] = {
    m.INITIALIZE: t.InitializeResult(
        protocol_version="2025-11-25", capabilities=NOTHING_OFFERED, server_info=SERVER_INFO
    ),
    m.PING: t.EmptyResult(),
    m.SERVER_DISCOVER: t.DiscoverResult(supported_versions=("2026-07-28",), capabilities=NOTHING_OFFERED),
    m.TOOLS_LIST: t.ListToolsResult(tools=()),
    m.TOOLS_CALL: t.CallToolResult(content=(TEXT,)),
    m.RESOURCES_LIST: t.ListResourcesResult(resources=()),
    m.RESOURCES_TEMPLATES_LIST: t.ListResourceTemplatesResult(resource_templates=()),
    m.RESOURCES_READ: t.ReadResourceResult(contents=()),
    m.RESOURCES_SUBSCRIBE: t.EmptyResult(),
    m.RESOURCES_UNSUBSCRIBE: t.EmptyResult(),
    m.PROMPTS_LIST: t.ListPromptsResult(prompts=()),
    m.PROMPTS_GET: t.GetPromptResult(messages=()),
    m.COMPLETION_COMPLETE: t.CompleteResult(completion=t.Completion(values=("world",))),
    m.LOGGING_SET_LEVEL: t.EmptyResult(),
    m.SUBSCRIPTIONS_LISTEN: t.SubscriptionsListenResult(),
    m.ROOTS_LIST: t.ListRootsResult(roots=()),
    m.SAMPLING_CREATE_MESSAGE: t.CreateMessageResult(role="assistant", content=TEXT, model="m"),
    m.ELICITATION_CREATE: t.ElicitResult(action="decline"),
    m.TASKS_GET: t.GetTaskResult(task_id="t", status="working", created_at=WHEN, last_updated_at=WHEN, ttl=None),
    m.TASKS_RESULT: t.CallToolResult(content=(TEXT,)),
    m.TASKS_LIST: t.ListTasksResult(tasks=()),
    m.TASKS_CANCEL: t.CancelTaskResult(
        task_id="t", status="cancelled", created_at=WHEN, last_updated_at=WHEN, ttl=None
    ),
    m.EXTENSION_TASKS_GET: t.GetExtensionTaskResult(
        task_id="t", status="working", created_at=WHEN, last_updated_at=WHEN, ttl_ms=None
    ),
    m.EXTENSION_TASKS_UPDATE: t.UpdateTaskResult(),
    m.EXTENSION_TASKS_CANCEL: t.CancelExtensionTaskResult(),
    m.SKILLS_LIST: skills.ListSkillsResult(skills=(SKILL,)),
    m.SKILLS_GET: skills.GetSkillResult(skill=SKILL),
    m.RESOURCES_DIRECTORY_READ: skills.ReadResourceDirectoryResult(resources=()),
}
"""A result for each request."""

NOTICES: Final[Mapping[NotificationMethod[object], t.WireObject]] = {
    m.NOTIFICATIONS_INITIALIZED: t.InitializedNotificationParams(),
    m.NOTIFICATIONS_CANCELLED: t.CancelledNotificationParams(request_id=1),
    m.NOTIFICATIONS_PROGRESS: t.ProgressNotificationParams(progress_token=1, progress=1),
    m.NOTIFICATIONS_MESSAGE: t.LoggingMessageNotificationParams(level="error", data="oh"),
    m.NOTIFICATIONS_TOOLS_LIST_CHANGED: t.ToolListChangedNotificationParams(),
    m.NOTIFICATIONS_PROMPTS_LIST_CHANGED: t.PromptListChangedNotificationParams(),
    m.NOTIFICATIONS_RESOURCES_LIST_CHANGED: t.ResourceListChangedNotificationParams(),
    m.NOTIFICATIONS_RESOURCES_UPDATED: t.ResourceUpdatedNotificationParams(uri=URI),
    m.NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED: t.SubscriptionsAcknowledgedNotificationParams(notifications=FILTER),
    m.NOTIFICATIONS_ROOTS_LIST_CHANGED: t.RootsListChangedNotificationParams(),
    m.NOTIFICATIONS_ELICITATION_COMPLETE: t.ElicitationCompleteNotificationParams(elicitation_id="e"),
    m.NOTIFICATIONS_TASKS_STATUS: t.TaskStatusNotificationParams(
        task_id="t", status="working", created_at=WHEN, last_updated_at=WHEN, ttl=None
    ),
    m.NOTIFICATIONS_TASKS: t.ExtensionTaskNotificationParams(
        task_id="t", status="working", created_at=WHEN, last_updated_at=WHEN, ttl_ms=None
    ),
}
"""Parameters for each notification."""


def make_client(
    *revisions: Revision,
    capabilities: t.ClientCapabilities = EVERYTHING_DECLARED,
    log_level: t.LoggingLevel | None = None,
    extensions: Extensions | None = None,
) -> ClientConnection:
    """A client that speaks these revisions; all when none is given."""
    return ClientConnection(
        CLIENT_INFO, capabilities, revisions=revisions or ALL, log_level=log_level, extensions=extensions
    )


def make_server(
    *revisions: Revision,
    capabilities: t.ServerCapabilities = EVERYTHING_OFFERED,
    limits: Limits | None = None,
    extensions: Extensions | None = None,
    instructions: str | None = None,
) -> ServerConnection:
    """A server that speaks these revisions; all when none is given."""
    return ServerConnection(
        SERVER_INFO,
        capabilities,
        revisions=revisions or ALL,
        limits=limits,
        extensions=extensions,
        instructions=instructions,
    )


@attrs.frozen
class Sent:
    """One message on the wire."""

    sender: Side
    message: JsonObject


@attrs.define(eq=False)
class ConnectionPair:
    """A client and a server, and what is between them."""

    client: ClientConnection
    server: ServerConnection
    to_server: deque[bytes] = attrs.field(factory=deque)
    to_client: deque[bytes] = attrs.field(factory=deque)
    wire: list[Sent] = attrs.field(factory=list)
    """Everything that was sent, in order."""
    client_events: list[Event] = attrs.field(factory=list)
    server_events: list[Event] = attrs.field(factory=list)

    def end_of(self, role: Side) -> Connection:
        return self.client if role is Side.CLIENT else self.server

    def send(self, sender: Side, *outgoing: Outgoing | None) -> None:
        """Puts what a command returned on the wire."""
        for each in outgoing:
            if each is not None:
                self._put(sender, encode(each.message, null_id=False))

    def _put(self, sender: Side, data: bytes) -> None:
        read = _as_json(data)
        self.wire.append(Sent(sender, read))
        (self.to_server if sender is Side.CLIENT else self.to_client).append(data)

    def waiting(self, receiver: Side) -> int:
        """How many messages are on the way to it."""
        return len(self.to_client if receiver is Side.CLIENT else self.to_server)

    def deliver(self, receiver: Side) -> ReceiveResult:
        """The next message arrives; what has to be sent at once is sent."""
        queue = self.to_client if receiver is Side.CLIENT else self.to_server
        message = decode(queue.popleft())
        assert not isinstance(message, Batch)
        reaction = self.end_of(receiver).receive(message)
        (self.client_events if receiver is Side.CLIENT else self.server_events).append(reaction.event)
        self.send(receiver, reaction.reply)
        return reaction

    def run(self) -> None:
        """Delivers until nothing is on the way."""
        while self.to_server or self.to_client:
            if self.to_server:
                self.deliver(Side.SERVER)
            if self.to_client:
                self.deliver(Side.CLIENT)

    def open(self) -> ConnectionPair:
        """Finds a common revision."""
        self.send(Side.CLIENT, self.client.open())
        self.run()
        return self

    def call(
        self, row: RequestMethod[object, object], params: t.WireObject | None = None, *, progress: bool = False
    ) -> RequestReceived:
        """The client asks; the request as the server sees it."""
        self.send(Side.CLIENT, self.client.request(row, params or PARAMS[row], progress=progress))
        self.run()
        return last(self.server_events, RequestReceived)

    def ask(self, row: RequestMethod[object, object], params: t.WireObject | None = None) -> RequestReceived:
        """The server asks; the request as the client sees it."""
        self.send(Side.SERVER, self.server.request(row, params or PARAMS[row], for_request=None))
        self.run()
        return last(self.client_events, RequestReceived)

    def respond(self, request: RequestId, result: object) -> ResultReceived | ErrorReceived:
        """The server answers; the outcome as the client sees it."""
        self.send(Side.SERVER, self.server.respond(request, result))
        self.run()
        found = self.client_events[-1]
        assert isinstance(found, (ResultReceived, ErrorReceived)), found
        return found


def pair(
    client: ClientConnection | Revision | Iterable[Revision], server: ServerConnection | Revision | Iterable[Revision]
) -> ConnectionPair:
    """A pair that is not opened yet; for revisions alone, both ends can do everything."""
    if not isinstance(client, ClientConnection):
        client = make_client(*((client,) if isinstance(client, Revision) else client))
    if not isinstance(server, ServerConnection):
        server = make_server(*((server,) if isinstance(server, Revision) else server))
    return ConnectionPair(client, server)


def opened(revision: Revision) -> ConnectionPair:
    """An open pair that speaks `revision` and can do everything."""
    return pair(revision, revision).open()


def last(events: list[Event], kind: type[E]) -> E:
    """The newest event of a kind."""
    for event in reversed(events):
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} among {events}")


def error_of(reaction: ReceiveResult) -> tuple[int, str, JsonValue]:
    """Code, message and data of the error that a reaction replies with."""
    assert reaction.reply is not None, reaction.event
    message = reaction.reply.message
    assert isinstance(message, ErrorResponse), message
    return message.error.code, message.error.message, message.error.data


def wire_of(outgoing: Outgoing | None) -> JsonObject:
    """An outgoing message as it stands on the wire."""
    assert outgoing is not None
    return _as_json(encode(outgoing.message, null_id=False))


def received(data: JsonObject | Message) -> Message:
    """A message as it comes from the wire."""
    if not isinstance(data, dict):
        return data
    message = decode(orjson.dumps({"jsonrpc": "2.0", **data}))
    assert not isinstance(message, Batch)
    return message


def classes(kind: object) -> tuple[type, ...]:
    """The classes of a union, or the one class."""
    found: tuple[type, ...] = get_args(kind) or (kind,)
    return found


def _as_json(data: bytes) -> JsonObject:
    read = orjson.loads(data)
    assert isinstance(read, dict)
    return read
