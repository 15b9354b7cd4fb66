"""Definitions of the requests. Import them from `mcp_core.methods`."""

from __future__ import annotations

from typing import Final, cast

from mcp_core import types as t
from mcp_core.methods.definition import RequestMethod, Side
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, between
from mcp_core.types.meta import TASKS_EXTENSION

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
