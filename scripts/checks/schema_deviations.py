"""The differences between the types and the official schemas in name or shape, each with its reason.

Everything else must be equal on both sides, and each entry must be a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from checks.official_schemas import EXTENSION_TASKS
from mcp_core.errors import ErrorCode
from mcp_core.methods import Side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject


class Deviation(NamedTuple):
    """A member whose type differs from the official file on purpose."""

    definition: str
    member: str
    official: JsonObject
    ours: JsonObject
    reason: str


_INTEGER: Final[JsonObject] = {"is": "integer"}
_NUMBER: Final[JsonObject] = {"is": "number"}
_STRING: Final[JsonObject] = {"is": "string"}

DEVIATIONS: Final = (
    Deviation("ElicitResult", "content", _INTEGER, _NUMBER, "schema.ts says number; the generator makes it integer"),
    Deviation(
        "InputRequiredResult",
        "resultType",
        _STRING,
        {"is": "enum", "values": ["input_required"]},
        "the page fixes the value, which distinguishes the result from others",
    ),
)

RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "2024-11-05": {"ResourceReference": "ResourceTemplateReference"},
    "2025-03-26": {"ResourceReference": "ResourceTemplateReference"},
    "2025-06-18": {"EnumSchema": "LegacyTitledEnumSchema"},
    EXTENSION_TASKS: {
        "Task": "ExtensionTask",
        "CreateTaskResult": "CreateExtensionTaskResult",
        "CancelTaskResult": "CancelExtensionTaskResult",
        "GetTaskResult": "GetExtensionTaskResult",
        "TaskStatusNotificationParams": "ExtensionTaskNotificationParams",
        "Error": "TaskError",
    },
}
"""Definitions with another name in a later revision, or with two meanings in the tasks of two revisions."""

TASK_VARIANTS: Final[Mapping[str, str | None]] = {
    "WorkingTask": None,
    "InputRequiredTask": "inputRequests",
    "CompletedTask": "result",
    "FailedTask": "error",
    "CancelledTask": None,
}
"""The definitions of the class `DetailedTask`: its required members depend on the status."""

ANY_VARIANT: Final = {"DetailedTask", "GetTaskResult", "TaskStatusNotification", "TaskStatusNotificationParams"}
"""The definitions of the extension that contain one of the variants; each variant is compared on its own."""

NO_CLASS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        [
            "JSONRPCBatchRequest",
            "JSONRPCBatchResponse",
            "JSONRPCError",
            "JSONRPCErrorResponse",
            "JSONRPCMessage",
            "JSONRPCNotification",
            "JSONRPCRequest",
            "JSONRPCResponse",
            "JSONRPCResultResponse",
            "Request",
            "Notification",
            "PaginatedRequest",
            "Error",
        ],
        "an envelope: mcp_core.codec",
    ),
    **dict.fromkeys(
        [
            "ContentBlock",
            "Cursor",
            "ElicitRequestParams",
            "EnumSchema",
            "InputRequest",
            "InputRequests",
            "InputResponse",
            "InputResponses",
            "JSONArray",
            "JSONObject",
            "JSONValue",
            "LoggingLevel",
            "MetaObject",
            "MultiSelectEnumSchema",
            "PrimitiveSchemaDefinition",
            "ProgressToken",
            "RequestId",
            "ResultType",
            "Role",
            "SamplingMessageContentBlock",
            "SingleSelectEnumSchema",
            "TaskStatus",
        ],
        "an alias, compared wherever it is used",
    ),
    **dict.fromkeys(
        [
            "Annotated",
            "BaseMetadata",
            "Icons",
            "ResourceContents",
            "ResourceRequestParams",
            "TaskAugmentedRequestParams",
        ],
        "the base of definitions that repeat its members",
    ),
    **dict.fromkeys(["ClientResult", "ServerResult"], "the results of the methods, which name theirs"),
    **dict.fromkeys(
        ["TaskSubscriptionAcknowledgedNotifications", "TaskSubscriptionNotifications"],
        "a member that the extension adds to SubscriptionFilter",
    ),
}

INLINE: Final = frozenset(
    {
        "ClientTaskRequests",
        "ClientTasksCapability",
        "Completion",
        "CompletionArgument",
        "CompletionContext",
        "ElicitationCapability",
        "ElicitationTaskRequests",
        "EnumItems",
        "EnumOption",
        "PromptsCapability",
        "RequestedSchema",
        "ResourcesCapability",
        "RootsCapability",
        "SamplingCapability",
        "SamplingTaskRequests",
        "ServerTaskRequests",
        "ServerTasksCapability",
        "TitledEnumItems",
        "ToolTaskRequests",
        "ToolsCapability",
    }
)
"""Classes for objects without a name in the official schemas, compared where a member has them."""

OWN: Final[Mapping[str, str]] = {
    "UnknownContent": "content of future types",
    "UntitledSingleSelectEnumSchema": "in 2025-06-18: an EnumSchema without names",
    "RequestMetaObject": "in legacy revisions the definitions have the progress token inline",
    "InputResponseRequestParams": "the base of params that have its members in 2026-07-28 only",
    "CacheableResult": "the base of results that have its members in 2026-07-28 only",
    "RequestParams": "named since 2025-11-25",
    "NotificationParams": "named since 2025-11-25",
    "PaginatedRequestParams": "named since 2025-11-25",
    "Annotations": "named since 2025-03-26",
    "ListRootsRequestParams": "in 2026-07-28 inline, in ListRootsRequest",
}
"""Classes without a definition of their own in a revision in which they exist, with the reason."""

EXTENSION_MEMBERS: Final = {"SubscriptionFilter": "taskIds"}
ERROR_CODES: Final = {
    "ParseError": ErrorCode.PARSE_ERROR,
    "InvalidRequestError": ErrorCode.INVALID_REQUEST,
    "MethodNotFoundError": ErrorCode.METHOD_NOT_FOUND,
    "InvalidParamsError": ErrorCode.INVALID_PARAMS,
    "InternalError": ErrorCode.INTERNAL_ERROR,
    "HeaderMismatchError": ErrorCode.HEADER_MISMATCH,
    "MissingRequiredClientCapabilityError": ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
    "UnsupportedProtocolVersionError": ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
    "URLElicitationRequiredError": ErrorCode.URL_ELICITATION_REQUIRED,
}
MESSAGE_UNIONS: Final = {
    "ClientRequest": Side.CLIENT,
    "ServerRequest": Side.SERVER,
    "ClientNotification": Side.CLIENT,
    "ServerNotification": Side.SERVER,
}
