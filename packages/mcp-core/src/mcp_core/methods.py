"""Definitions of the requests and notifications of the protocol: one for each method, with all its properties.

A definition has the sender, the revisions, the params, the result and the required capabilities. No other module
compares method names. Extensions use definitions of the same classes.

    methods(revision)["tools/call"] is TOOLS_CALL
"""

from __future__ import annotations

import enum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, cast, get_args

import attrs

from mcp_core import types as t
from mcp_core.field_methods import FieldValue
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Revision, between
from mcp_core.types import skills as s
from mcp_core.types.meta import TASKS_EXTENSION
from mcp_core.types.skills import SKILLS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "ALIASES",
    "COMPLETION_COMPLETE",
    "ELICITATION_CREATE",
    "EXTENSION_TASKS_CANCEL",
    "EXTENSION_TASKS_GET",
    "EXTENSION_TASKS_UPDATE",
    "INITIALIZE",
    "LOGGING_SET_LEVEL",
    "METHODS",
    "NOTIFICATIONS",
    "NOTIFICATIONS_CANCELLED",
    "NOTIFICATIONS_ELICITATION_COMPLETE",
    "NOTIFICATIONS_INITIALIZED",
    "NOTIFICATIONS_MESSAGE",
    "NOTIFICATIONS_PROGRESS",
    "NOTIFICATIONS_PROMPTS_LIST_CHANGED",
    "NOTIFICATIONS_RESOURCES_LIST_CHANGED",
    "NOTIFICATIONS_RESOURCES_UPDATED",
    "NOTIFICATIONS_ROOTS_LIST_CHANGED",
    "NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED",
    "NOTIFICATIONS_TASKS",
    "NOTIFICATIONS_TASKS_STATUS",
    "NOTIFICATIONS_TOOLS_LIST_CHANGED",
    "PING",
    "PROMPTS_GET",
    "PROMPTS_LIST",
    "RESOURCES_DIRECTORY_READ",
    "RESOURCES_LIST",
    "RESOURCES_READ",
    "RESOURCES_SUBSCRIBE",
    "RESOURCES_TEMPLATES_LIST",
    "RESOURCES_UNSUBSCRIBE",
    "ROOTS_LIST",
    "SAMPLING_CREATE_MESSAGE",
    "SERVER_DISCOVER",
    "SKILLS_GET",
    "SKILLS_LIST",
    "SUBSCRIPTIONS_LISTEN",
    "TASKS_CANCEL",
    "TASKS_GET",
    "TASKS_LIST",
    "TASKS_RESULT",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "Alias",
    "AnyNotificationMethod",
    "AnyRequestMethod",
    "CapabilityPath",
    "NotificationMethod",
    "RequestMethod",
    "Side",
    "input_requests",
    "method_for",
    "methods",
    "notification_for",
    "notifications",
]

P = TypeVar("P", covariant=True)
R = TypeVar("R", covariant=True)

CapabilityPath: TypeAlias = tuple[str, ...]
"""The path of a capability in the declared capabilities, by wire names: `("resources", "subscribe")`."""


class Side(enum.Enum):
    """The side that sends a message."""

    CLIENT = "client"
    """The client."""
    SERVER = "server"
    """The server."""
    BOTH = "both"
    """Client and server."""

    def __contains__(self, other: Side) -> bool:
        return self is Side.BOTH or self is other


_ALL: Final = between()


@attrs.frozen(kw_only=True, eq=False)
class RequestMethod(Generic[P, R]):
    """The definition of a request. Definitions are compared by identity."""

    name: str
    """The method name on the wire."""
    sender: Side
    """The side that may send the request."""
    params: type[P]
    """The class of the params; for `elicitation/create` a union of two classes."""
    result: type[R]
    """The class of the result, if `resultType` is `complete`."""
    revisions: frozenset[Revision] = _ALL
    """The revisions in which it is a JSON-RPC request."""
    server_capability: CapabilityPath | None = None
    """The capability that the server must declare, or `None`."""
    client_capability: CapabilityPath | None = None
    """The capability that the client must declare, or `None`."""
    capability_revisions: frozenset[Revision] = _ALL
    """The revisions that have the server capability; in the others no declaration is required."""
    input_request: frozenset[Revision] = frozenset()
    """The revisions in which it is an input request of an `InputRequiredResult`."""
    may_need_input: frozenset[Revision] = frozenset()
    """The revisions in which an `InputRequiredResult` is an allowed result."""
    cacheable: frozenset[Revision] = frozenset()
    """The revisions in which the result has cache hints."""
    task_results: Mapping[Revision, type[t.WireObject]] = MappingProxyType({})
    """The revisions in which the request may run as a task, and the class of its first result then."""
    task_capability: CapabilityPath | None = None
    """The capability that the receiver must declare for task-augmented requests, in 2025-11-25."""
    name_param: str | None = None
    """The wire name of the param that HTTP repeats in the header `Mcp-Name`."""
    extension: str | None = None
    """The extension that defines the request, or `None`."""

    def __repr__(self) -> str:
        return f"<Method {self.name}>"

    def results(self, revision: Revision) -> Mapping[str, type[t.WireObject]]:
        """Return the class of the result for each `resultType` in `revision`; an absent one counts as `complete`."""
        # `result` is a wire class in each definition; P and R have no bound because of unions.
        found: dict[str, type[t.WireObject]] = {"complete": self.result}  # type: ignore[dict-item]
        if revision in self.may_need_input:
            found["input_required"] = t.InputRequiredResult
        if revision.result_type and revision in self.task_results:
            found["task"] = self.task_results[revision]
        return found


@attrs.frozen(kw_only=True, eq=False)
class NotificationMethod(Generic[P]):
    """The definition of a notification. Definitions are compared by identity."""

    name: str
    """The method name on the wire."""
    sender: Side
    """The side that may send the notification."""
    params: type[P]
    """The class of the params."""
    revisions: frozenset[Revision] = _ALL
    """The revisions that have the notification."""
    server_capability: CapabilityPath | None = None
    """The capability that the server must declare, or `None`."""
    client_capability: CapabilityPath | None = None
    """The capability that the client must declare, or `None`."""
    server_only: frozenset[Revision] = frozenset()
    """The revisions in which only the server sends it."""
    request_scoped: bool = False
    """Whether it belongs to one request, and is sent on the stream of that request before the response."""
    filter_member: str | None = None
    """The attribute of `SubscriptionFilter` that subscribes to it, on the stream of the subscription (2026-07-28)."""
    extension: str | None = None
    """The extension that defines the notification, or `None`."""

    def __repr__(self) -> str:
        return f"<Notification {self.name}>"

    def sender_in(self, revision: Revision) -> Side:
        """Return the side that may send it in `revision`."""
        return Side.SERVER if revision in self.server_only else self.sender


def _unchanged(params: JsonObject) -> JsonObject:
    return params


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Alias(FieldValue):
    """A name of a notification from before the specification."""

    definition: NotificationMethod[object]
    """The notification that has another name now."""
    params: Callable[[JsonObject], JsonObject] = _unchanged
    """A function from the params of the first draft to those of the specification."""


AnyRequestMethod: TypeAlias = RequestMethod[object, object]
"""A definition of a request whose params and result are not statically known."""

AnyNotificationMethod: TypeAlias = NotificationMethod[object]
"""A definition of a notification whose params are not statically known."""

_LEGACY: Final = between(None, R2025_11_25)
_MODERN: Final = between(R2026_07_28)
_CORE_TASKS: Final = between(R2025_11_25, R2025_11_25)
_TASKS_CAPABILITY: Final = ("extensions", TASKS_EXTENSION)

INITIALIZE: Final = RequestMethod(
    name="initialize",
    sender=Side.CLIENT,
    params=t.InitializeRequestParams,
    result=t.InitializeResult,
    revisions=_LEGACY,
)
PING: Final = RequestMethod(
    name="ping", sender=Side.BOTH, params=t.PingRequestParams, result=t.EmptyResult, revisions=_LEGACY
)
SERVER_DISCOVER: Final = RequestMethod(
    name="server/discover",
    sender=Side.CLIENT,
    params=t.DiscoverRequestParams,
    result=t.DiscoverResult,
    revisions=_MODERN,
    cacheable=_MODERN,
)
TOOLS_LIST: Final = RequestMethod(
    name="tools/list",
    sender=Side.CLIENT,
    params=t.ListToolsRequestParams,
    result=t.ListToolsResult,
    server_capability=("tools",),
    cacheable=_MODERN,
)
TOOLS_CALL: Final = RequestMethod(
    name="tools/call",
    sender=Side.CLIENT,
    params=t.CallToolRequestParams,
    result=t.CallToolResult,
    server_capability=("tools",),
    may_need_input=_MODERN,
    task_results={R2025_11_25: t.CreateTaskResult, R2026_07_28: t.CreateExtensionTaskResult},
    task_capability=("tasks", "requests", "tools", "call"),
    name_param="name",
)
RESOURCES_LIST: Final = RequestMethod(
    name="resources/list",
    sender=Side.CLIENT,
    params=t.ListResourcesRequestParams,
    result=t.ListResourcesResult,
    server_capability=("resources",),
    cacheable=_MODERN,
)
RESOURCES_TEMPLATES_LIST: Final = RequestMethod(
    name="resources/templates/list",
    sender=Side.CLIENT,
    params=t.ListResourceTemplatesRequestParams,
    result=t.ListResourceTemplatesResult,
    server_capability=("resources",),
    cacheable=_MODERN,
)
RESOURCES_READ: Final = RequestMethod(
    name="resources/read",
    sender=Side.CLIENT,
    params=t.ReadResourceRequestParams,
    result=t.ReadResourceResult,
    server_capability=("resources",),
    may_need_input=_MODERN,
    cacheable=_MODERN,
    name_param="uri",
)
RESOURCES_SUBSCRIBE: Final = RequestMethod(
    name="resources/subscribe",
    sender=Side.CLIENT,
    params=t.SubscribeRequestParams,
    result=t.EmptyResult,
    revisions=_LEGACY,
    server_capability=("resources", "subscribe"),
)
RESOURCES_UNSUBSCRIBE: Final = RequestMethod(
    name="resources/unsubscribe",
    sender=Side.CLIENT,
    params=t.UnsubscribeRequestParams,
    result=t.EmptyResult,
    revisions=_LEGACY,
    server_capability=("resources", "subscribe"),
)
PROMPTS_LIST: Final = RequestMethod(
    name="prompts/list",
    sender=Side.CLIENT,
    params=t.ListPromptsRequestParams,
    result=t.ListPromptsResult,
    server_capability=("prompts",),
    cacheable=_MODERN,
)
PROMPTS_GET: Final = RequestMethod(
    name="prompts/get",
    sender=Side.CLIENT,
    params=t.GetPromptRequestParams,
    result=t.GetPromptResult,
    server_capability=("prompts",),
    may_need_input=_MODERN,
    name_param="name",
)
COMPLETION_COMPLETE: Final = RequestMethod(
    name="completion/complete",
    sender=Side.CLIENT,
    params=t.CompleteRequestParams,
    result=t.CompleteResult,
    server_capability=("completions",),
    capability_revisions=between(R2025_03_26),
)
LOGGING_SET_LEVEL: Final = RequestMethod(
    name="logging/setLevel",
    sender=Side.CLIENT,
    params=t.SetLevelRequestParams,
    result=t.EmptyResult,
    revisions=_LEGACY,
    server_capability=("logging",),
)
SUBSCRIPTIONS_LISTEN: Final = RequestMethod(
    name="subscriptions/listen",
    sender=Side.CLIENT,
    params=t.SubscriptionsListenRequestParams,
    result=t.SubscriptionsListenResult,
    revisions=_MODERN,
)
ROOTS_LIST: Final = RequestMethod(
    name="roots/list",
    sender=Side.SERVER,
    params=t.ListRootsRequestParams,
    result=t.ListRootsResult,
    revisions=_LEGACY,
    client_capability=("roots",),
    input_request=_MODERN,
)
SAMPLING_CREATE_MESSAGE: Final = RequestMethod(
    name="sampling/createMessage",
    sender=Side.SERVER,
    params=t.CreateMessageRequestParams,
    result=t.CreateMessageResult,
    revisions=_LEGACY,
    client_capability=("sampling",),
    input_request=_MODERN,
    task_results={R2025_11_25: t.CreateTaskResult},
    task_capability=("tasks", "requests", "sampling", "createMessage"),
)
ELICITATION_CREATE: Final = RequestMethod(
    name="elicitation/create",
    sender=Side.SERVER,
    # A union is not a `type[...]`, but converters accept it.
    params=cast("type[t.ElicitRequestParams]", t.ElicitRequestParams),
    result=t.ElicitResult,
    revisions=between(R2025_06_18, R2025_11_25),
    client_capability=("elicitation",),
    input_request=_MODERN,
    task_results={R2025_11_25: t.CreateTaskResult},
    task_capability=("tasks", "requests", "elicitation", "create"),
)
TASKS_GET: Final = RequestMethod(
    name="tasks/get",
    sender=Side.BOTH,
    params=t.GetTaskRequestParams,
    result=t.GetTaskResult,
    revisions=_CORE_TASKS,
    server_capability=("tasks",),
    client_capability=("tasks",),
)
TASKS_RESULT: Final = RequestMethod(
    name="tasks/result",
    sender=Side.BOTH,
    params=t.GetTaskPayloadRequestParams,
    result=t.GetTaskPayloadResult,
    revisions=_CORE_TASKS,
    server_capability=("tasks",),
    client_capability=("tasks",),
)
TASKS_LIST: Final = RequestMethod(
    name="tasks/list",
    sender=Side.BOTH,
    params=t.ListTasksRequestParams,
    result=t.ListTasksResult,
    revisions=_CORE_TASKS,
    server_capability=("tasks", "list"),
    client_capability=("tasks", "list"),
)
TASKS_CANCEL: Final = RequestMethod(
    name="tasks/cancel",
    sender=Side.BOTH,
    params=t.CancelTaskRequestParams,
    result=t.CancelTaskResult,
    revisions=_CORE_TASKS,
    server_capability=("tasks", "cancel"),
    client_capability=("tasks", "cancel"),
)
EXTENSION_TASKS_GET: Final = RequestMethod(
    name="tasks/get",
    sender=Side.CLIENT,
    params=t.GetTaskRequestParams,
    result=t.GetExtensionTaskResult,
    revisions=_MODERN,
    server_capability=_TASKS_CAPABILITY,
    client_capability=_TASKS_CAPABILITY,
    name_param="taskId",
    extension=TASKS_EXTENSION,
)
EXTENSION_TASKS_UPDATE: Final = RequestMethod(
    name="tasks/update",
    sender=Side.CLIENT,
    params=t.UpdateTaskRequestParams,
    result=t.UpdateTaskResult,
    revisions=_MODERN,
    server_capability=_TASKS_CAPABILITY,
    client_capability=_TASKS_CAPABILITY,
    name_param="taskId",
    extension=TASKS_EXTENSION,
)
EXTENSION_TASKS_CANCEL: Final = RequestMethod(
    name="tasks/cancel",
    sender=Side.CLIENT,
    params=t.CancelTaskRequestParams,
    result=t.CancelExtensionTaskResult,
    revisions=_MODERN,
    server_capability=_TASKS_CAPABILITY,
    client_capability=_TASKS_CAPABILITY,
    name_param="taskId",
    extension=TASKS_EXTENSION,
)
SKILLS_LIST: Final = RequestMethod(
    name="skills/list",
    sender=Side.CLIENT,
    params=s.ListSkillsRequestParams,
    result=s.ListSkillsResult,
    revisions=_MODERN,
    server_capability=("extensions", SKILLS_EXTENSION),
    cacheable=_MODERN,
    extension=SKILLS_EXTENSION,
)
SKILLS_GET: Final = RequestMethod(
    name="skills/get",
    sender=Side.CLIENT,
    params=s.GetSkillRequestParams,
    result=s.GetSkillResult,
    revisions=_MODERN,
    server_capability=("extensions", SKILLS_EXTENSION),
    cacheable=_MODERN,
    extension=SKILLS_EXTENSION,
)
RESOURCES_DIRECTORY_READ: Final = RequestMethod(
    name="resources/directory/read",
    sender=Side.CLIENT,
    params=s.ReadResourceDirectoryRequestParams,
    result=s.ReadResourceDirectoryResult,
    revisions=_MODERN,
    server_capability=("extensions", SKILLS_EXTENSION, "directoryRead"),
    extension=SKILLS_EXTENSION,
)
NOTIFICATIONS_INITIALIZED: Final = NotificationMethod(
    name="notifications/initialized",
    sender=Side.CLIENT,
    params=t.InitializedNotificationParams,
    revisions=_LEGACY,
)
NOTIFICATIONS_CANCELLED: Final = NotificationMethod(
    name="notifications/cancelled",
    sender=Side.BOTH,
    params=t.CancelledNotificationParams,
)
NOTIFICATIONS_PROGRESS: Final = NotificationMethod(
    name="notifications/progress",
    sender=Side.BOTH,
    params=t.ProgressNotificationParams,
    server_only=_MODERN,
    request_scoped=True,
)
NOTIFICATIONS_MESSAGE: Final = NotificationMethod(
    name="notifications/message",
    sender=Side.SERVER,
    params=t.LoggingMessageNotificationParams,
    server_capability=("logging",),
    request_scoped=True,
)
NOTIFICATIONS_TOOLS_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/tools/list_changed",
    sender=Side.SERVER,
    params=t.ToolListChangedNotificationParams,
    server_capability=("tools", "listChanged"),
    filter_member="tools_list_changed",
)
NOTIFICATIONS_PROMPTS_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/prompts/list_changed",
    sender=Side.SERVER,
    params=t.PromptListChangedNotificationParams,
    server_capability=("prompts", "listChanged"),
    filter_member="prompts_list_changed",
)
NOTIFICATIONS_RESOURCES_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/resources/list_changed",
    sender=Side.SERVER,
    params=t.ResourceListChangedNotificationParams,
    server_capability=("resources", "listChanged"),
    filter_member="resources_list_changed",
)
NOTIFICATIONS_RESOURCES_UPDATED: Final = NotificationMethod(
    name="notifications/resources/updated",
    sender=Side.SERVER,
    params=t.ResourceUpdatedNotificationParams,
    server_capability=("resources", "subscribe"),
    filter_member="resource_subscriptions",
)
NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED: Final = NotificationMethod(
    name="notifications/subscriptions/acknowledged",
    sender=Side.SERVER,
    params=t.SubscriptionsAcknowledgedNotificationParams,
    revisions=_MODERN,
)
NOTIFICATIONS_ROOTS_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/roots/list_changed",
    sender=Side.CLIENT,
    params=t.RootsListChangedNotificationParams,
    revisions=_LEGACY,
    client_capability=("roots", "listChanged"),
)
NOTIFICATIONS_ELICITATION_COMPLETE: Final = NotificationMethod(
    name="notifications/elicitation/complete",
    sender=Side.SERVER,
    params=t.ElicitationCompleteNotificationParams,
    revisions=between(R2025_11_25, R2025_11_25),
    client_capability=("elicitation", "url"),
)
NOTIFICATIONS_TASKS_STATUS: Final = NotificationMethod(
    name="notifications/tasks/status",
    sender=Side.BOTH,
    params=t.TaskStatusNotificationParams,
    revisions=_CORE_TASKS,
)
NOTIFICATIONS_TASKS: Final = NotificationMethod(
    name="notifications/tasks",
    sender=Side.SERVER,
    params=t.ExtensionTaskNotificationParams,
    revisions=_MODERN,
    server_capability=("extensions", TASKS_EXTENSION),
    client_capability=("extensions", TASKS_EXTENSION),
    filter_member="task_ids",
    extension=TASKS_EXTENSION,
)

METHODS: Final[tuple[AnyRequestMethod, ...]] = (
    INITIALIZE,
    PING,
    SERVER_DISCOVER,
    TOOLS_LIST,
    TOOLS_CALL,
    RESOURCES_LIST,
    RESOURCES_TEMPLATES_LIST,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    PROMPTS_LIST,
    PROMPTS_GET,
    COMPLETION_COMPLETE,
    LOGGING_SET_LEVEL,
    SUBSCRIPTIONS_LISTEN,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
    ELICITATION_CREATE,
    TASKS_GET,
    TASKS_RESULT,
    TASKS_LIST,
    TASKS_CANCEL,
    EXTENSION_TASKS_GET,
    EXTENSION_TASKS_UPDATE,
    EXTENSION_TASKS_CANCEL,
    SKILLS_LIST,
    SKILLS_GET,
    RESOURCES_DIRECTORY_READ,
)
"""All requests."""

NOTIFICATIONS: Final[tuple[AnyNotificationMethod, ...]] = (
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    NOTIFICATIONS_ELICITATION_COMPLETE,
    NOTIFICATIONS_TASKS_STATUS,
    NOTIFICATIONS_TASKS,
)
"""All notifications."""


def _trace_as_log_message(params: JsonObject) -> JsonObject:
    """Return the params of `notifications/message` for those of `$/logTrace`, `{"message": ..., "verbose": false}`."""
    if "message" not in params:
        return params
    kept = {name: value for name, value in params.items() if name not in ("message", "verbose")}
    return {**kept, "level": "debug" if params.get("verbose") is True else "info", "data": params["message"]}


ALIASES: Final[Mapping[str, Alias]] = MappingProxyType(
    {
        "$/logTrace": Alias(definition=NOTIFICATIONS_MESSAGE, params=_trace_as_log_message),
        "notifications/resources/changed": Alias(definition=NOTIFICATIONS_RESOURCES_UPDATED),
    }
)
"""Method names from before the specification, which old servers send. Clients accept them and never send them."""


@cache
def methods(revision: Revision) -> Mapping[str, AnyRequestMethod]:
    """Return the requests of `revision`, by method name."""
    return MappingProxyType({definition.name: definition for definition in METHODS if revision in definition.revisions})


@cache
def input_requests(revision: Revision) -> Mapping[str, AnyRequestMethod]:
    """Return the requests that a server can send as input requests in `revision`, by method name."""
    return MappingProxyType(
        {definition.name: definition for definition in METHODS if revision in definition.input_request}
    )


@cache
def notifications(revision: Revision) -> Mapping[str, AnyNotificationMethod]:
    """Return the notifications of `revision`, by method name."""
    return MappingProxyType(
        {definition.name: definition for definition in NOTIFICATIONS if revision in definition.revisions}
    )


@cache
def _by_params(revision: Revision) -> Mapping[object, AnyRequestMethod]:
    return {
        params: definition
        for definition in METHODS
        if revision in definition.revisions or revision in definition.input_request
        for params in get_args(definition.params) or (definition.params,)
    }


def method_for(params: object, revision: Revision) -> AnyRequestMethod | None:
    """Return the request of `revision` whose params class is that of `params`. Input requests are included."""
    return _by_params(revision).get(type(params))


@cache
def _notification_by_params(revision: Revision) -> Mapping[object, AnyNotificationMethod]:
    return {definition.params: definition for definition in notifications(revision).values()}


def notification_for(params: object, revision: Revision) -> AnyNotificationMethod | None:
    """Return the notification of `revision` whose params class is that of `params`."""
    return _notification_by_params(revision).get(type(params))
