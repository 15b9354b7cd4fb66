"""A client engine and a server engine connected to each other, and examples of all messages between them.

Each message passes through the codec. Each direction is a queue; the test decides when a message is delivered, so that
messages can cross.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, get_args

import attrs
import orjson

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.codec import Batch, decode, encode
from mcp_core.engine.client import ClientConnection
from mcp_core.engine.connection import Connection, Extensions
from mcp_core.engine.events import ErrorReceived, Event, Outgoing, ReceiveResult, RequestReceived, ResultReceived
from mcp_core.engine.server import ServerConnection
from mcp_core.jsonrpc.messages import ErrorResponse, JsonObject, JsonValue, Message, RequestId
from mcp_core.limits import Limits
from mcp_core.methods import NotificationMethod, RequestMethod, Side
from mcp_core.revisions import REVISIONS, Revision
from mcp_core.types import skills
from mcp_core.types.meta import TASKS_EXTENSION

E = TypeVar("E")

ALL: Final = tuple(REVISIONS.values())

CLIENT_INFO: Final = t.Implementation(name="client", version="1")
SERVER_INFO: Final = t.Implementation(name="server", version="2")

ALL_SERVER_CAPABILITIES: Final = t.ServerCapabilities(
    prompts=t.PromptsCapability(list_changed=True),
    resources=t.ResourcesCapability(subscribe=True, list_changed=True),
    tools=t.ToolsCapability(list_changed=True),
    completions={},
    logging={},
    tasks=t.ServerTasksCapability(list={}, cancel={}, requests=t.ServerTaskRequests(tools=t.ToolTaskRequests(call={}))),
    extensions={TASKS_EXTENSION: {}, skills.SKILLS_EXTENSION: {"directoryRead": True}},
)
NO_SERVER_CAPABILITIES: Final = t.ServerCapabilities()

ALL_CLIENT_CAPABILITIES: Final = t.ClientCapabilities(
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
NO_CLIENT_CAPABILITIES: Final = t.ClientCapabilities()

TEXT: Final = t.TextContent(text="hello")
FORM: Final = t.ElicitRequestFormParams(
    message="Your name?", requested_schema=t.RequestedSchema(properties={"name": t.StringSchema()})
)
SAMPLE: Final = t.CreateMessageRequestParams(messages=(t.SamplingMessage(role="user", content=TEXT),), max_tokens=10)
URI: Final = "file:///a"
TIME: Final = "2026-01-01T00:00:00Z"
FILTER: Final = t.SubscriptionFilter(
    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True, resource_subscriptions=(URI,)
)
SKILL: Final = skills.Skill(
    uri="skill://tidy/SKILL.md", frontmatter={"name": "tidy", "description": "Tidies."}, resources="dynamic"
)
TASK: Final = t.Task(task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl=None)

PARAMS: Final[Mapping[RequestMethod[object, object], t.WireObject]] = {
    m.INITIALIZE: t.InitializeRequestParams(
        protocol_version="2025-11-25", capabilities=NO_CLIENT_CAPABILITIES, client_info=CLIENT_INFO
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
        protocol_version="2025-11-25", capabilities=NO_SERVER_CAPABILITIES, server_info=SERVER_INFO
    ),
    m.PING: t.EmptyResult(),
    m.SERVER_DISCOVER: t.DiscoverResult(supported_versions=("2026-07-28",), capabilities=NO_SERVER_CAPABILITIES),
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
    m.TASKS_GET: t.GetTaskResult(task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl=None),
    m.TASKS_RESULT: t.CallToolResult(content=(TEXT,)),
    m.TASKS_LIST: t.ListTasksResult(tasks=()),
    m.TASKS_CANCEL: t.CancelTaskResult(
        task_id="t", status="cancelled", created_at=TIME, last_updated_at=TIME, ttl=None
    ),
    m.EXTENSION_TASKS_GET: t.GetExtensionTaskResult(
        task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl_ms=None
    ),
    m.EXTENSION_TASKS_UPDATE: t.UpdateTaskResult(),
    m.EXTENSION_TASKS_CANCEL: t.CancelExtensionTaskResult(),
    m.SKILLS_LIST: skills.ListSkillsResult(skills=(SKILL,)),
    m.SKILLS_GET: skills.GetSkillResult(skill=SKILL),
    m.RESOURCES_DIRECTORY_READ: skills.ReadResourceDirectoryResult(resources=()),
}
"""A result for each request."""

NOTIFICATION_PARAMS: Final[Mapping[NotificationMethod[object], t.WireObject]] = {
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
        task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl=None
    ),
    m.NOTIFICATIONS_TASKS: t.ExtensionTaskNotificationParams(
        task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl_ms=None
    ),
}
"""Parameters for each notification."""


def make_client(
    *revisions: Revision,
    capabilities: t.ClientCapabilities = ALL_CLIENT_CAPABILITIES,
    log_level: t.LoggingLevel | None = None,
    extensions: Extensions | None = None,
) -> ClientConnection:
    """Return a client that supports these revisions, or all revisions if none is given."""
    return ClientConnection(
        CLIENT_INFO, capabilities, revisions=revisions or ALL, log_level=log_level, extensions=extensions
    )


def make_server(
    *revisions: Revision,
    capabilities: t.ServerCapabilities = ALL_SERVER_CAPABILITIES,
    limits: Limits | None = None,
    extensions: Extensions | None = None,
    instructions: str | None = None,
) -> ServerConnection:
    """Return a server that supports these revisions, or all revisions if none is given."""
    return ServerConnection(
        SERVER_INFO,
        capabilities,
        revisions=revisions or ALL,
        limits=limits,
        extensions=extensions,
        instructions=instructions,
    )


@attrs.frozen
class SentMessage:
    """A message on the wire and its sender."""

    sender: Side
    message: JsonObject


@attrs.define(eq=False)
class ConnectionPair:
    """A client, a server, and the messages in transit between them."""

    client: ClientConnection
    server: ServerConnection
    to_server: deque[bytes] = attrs.field(factory=deque)
    to_client: deque[bytes] = attrs.field(factory=deque)
    wire: list[SentMessage] = attrs.field(factory=list)
    """All messages that were sent, in order."""
    client_events: list[Event] = attrs.field(factory=list)
    server_events: list[Event] = attrs.field(factory=list)

    def connection(self, role: Side) -> Connection:
        return self.client if role is Side.CLIENT else self.server

    def send(self, sender: Side, *outgoing: Outgoing | None) -> None:
        """Send the messages that a command returned."""
        for each in outgoing:
            if each is not None:
                self._put(sender, encode(each.message, null_id=False))

    def _put(self, sender: Side, data: bytes) -> None:
        read = _as_json(data)
        self.wire.append(SentMessage(sender, read))
        (self.to_server if sender is Side.CLIENT else self.to_client).append(data)

    def in_transit(self, receiver: Side) -> int:
        """Return the number of messages in transit to `receiver`."""
        return len(self.to_client if receiver is Side.CLIENT else self.to_server)

    def deliver(self, receiver: Side) -> ReceiveResult:
        """Deliver the next message to `receiver`, and send its reply."""
        queue = self.to_client if receiver is Side.CLIENT else self.to_server
        message = decode(queue.popleft())
        assert not isinstance(message, Batch)
        result = self.connection(receiver).receive(message)
        (self.client_events if receiver is Side.CLIENT else self.server_events).append(result.event)
        self.send(receiver, result.reply)
        return result

    def run(self) -> None:
        """Deliver messages until none is in transit."""
        while self.to_server or self.to_client:
            if self.to_server:
                self.deliver(Side.SERVER)
            if self.to_client:
                self.deliver(Side.CLIENT)

    def open(self) -> ConnectionPair:
        """Negotiate a revision."""
        self.send(Side.CLIENT, self.client.open())
        self.run()
        return self

    def call(
        self, row: RequestMethod[object, object], params: t.WireObject | None = None, *, progress: bool = False
    ) -> RequestReceived:
        """Send a request of the client, and return the request that the server received."""
        self.send(Side.CLIENT, self.client.request(row, params or PARAMS[row], progress=progress))
        self.run()
        return get_last_event(self.server_events, RequestReceived)

    def ask(self, row: RequestMethod[object, object], params: t.WireObject | None = None) -> RequestReceived:
        """Send a request of the server, and return the request that the client received."""
        self.send(Side.SERVER, self.server.request(row, params or PARAMS[row], for_request=None))
        self.run()
        return get_last_event(self.client_events, RequestReceived)

    def respond(self, request: RequestId, result: object) -> ResultReceived | ErrorReceived:
        """Send a response of the server, and return the outcome that the client received."""
        self.send(Side.SERVER, self.server.respond(request, result))
        self.run()
        outcome = self.client_events[-1]
        assert isinstance(outcome, (ResultReceived, ErrorReceived)), outcome
        return outcome


def pair(
    client: ClientConnection | Revision | Iterable[Revision], server: ServerConnection | Revision | Iterable[Revision]
) -> ConnectionPair:
    """Return a pair that is not open yet. For revisions, both sides have all capabilities."""
    if not isinstance(client, ClientConnection):
        client = make_client(*((client,) if isinstance(client, Revision) else client))
    if not isinstance(server, ServerConnection):
        server = make_server(*((server,) if isinstance(server, Revision) else server))
    return ConnectionPair(client, server)


def open_pair(revision: Revision) -> ConnectionPair:
    """Return an open pair that uses `revision`, with all capabilities."""
    return pair(revision, revision).open()


def get_last_event(events: list[Event], kind: type[E]) -> E:
    """Return the newest event of a kind."""
    for event in reversed(events):
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} among {events}")


def get_error(result: ReceiveResult) -> tuple[int, str, JsonValue]:
    """Return code, message and data of the error in a reply."""
    assert result.reply is not None, result.event
    message = result.reply.message
    assert isinstance(message, ErrorResponse), message
    return message.error.code, message.error.message, message.error.data


def to_wire(outgoing: Outgoing | None) -> JsonObject:
    """Return the JSON of an outgoing message."""
    assert outgoing is not None
    return _as_json(encode(outgoing.message, null_id=False))


def from_wire(data: JsonObject | Message) -> Message:
    """Return the message that is decoded from JSON."""
    if not isinstance(data, dict):
        return data
    message = decode(orjson.dumps({"jsonrpc": "2.0", **data}))
    assert not isinstance(message, Batch)
    return message


def classes(kind: object) -> tuple[type, ...]:
    """Return the classes of a union, or the one class."""
    members: tuple[type, ...] = get_args(kind) or (kind,)
    return members


def _as_json(data: bytes) -> JsonObject:
    read = orjson.loads(data)
    assert isinstance(read, dict)
    return read
