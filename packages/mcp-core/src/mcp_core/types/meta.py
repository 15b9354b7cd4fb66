"""The keys of `_meta`, and typed views of it. Spec: basic#meta

In params and results `_meta` is plain JSON. A converter reads its defined members:
`converter(revision).structure(params.meta, RequestMetaObject)`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mcp_core.jsonrpc.messages import RequestId
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_core.types.base import Implementation, Open
from mcp_core.types.lifecycle import ClientCapabilities
from mcp_core.types.logging import LoggingLevel
from mcp_core.types.wire_object import field, wire

__all__ = [
    "BAGGAGE",
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "LOG_LEVEL",
    "MODEL_IMMEDIATE_RESPONSE",
    "PROGRESS_TOKEN",
    "PROTOCOL_VERSION",
    "RELATED_TASK",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "TASKS_EXTENSION",
    "TRACEPARENT",
    "TRACESTATE",
    "NotificationMetaObject",
    "ProgressToken",
    "RelatedTaskMetadata",
    "RequestMetaObject",
    "ResultMetaObject",
    "SubscriptionsListenResultMetaObject",
]

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""The revision of a request (2026-07-28)."""
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
"""The capabilities of the client for this request (2026-07-28)."""
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
"""Name and version of the client (2026-07-28)."""
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
"""The minimum level of log messages for this request (2026-07-28)."""
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
"""Name and version of the server (2026-07-28)."""
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
"""The subscription of a notification (2026-07-28)."""
PROGRESS_TOKEN: Final = "progressToken"
"""The token for progress notifications of a request."""
TRACEPARENT: Final = "traceparent"
"""W3C trace context."""
TRACESTATE: Final = "tracestate"
"""W3C trace context."""
BAGGAGE: Final = "baggage"
"""W3C baggage."""
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The task of a message (2025-11-25)."""
MODEL_IMMEDIATE_RESPONSE: Final = "io.modelcontextprotocol/model-immediate-response"
"""The immediate response for the model while a task runs (2025-11-25)."""
TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The identifier of the tasks extension, a key of `extensions` (2026-07-28)."""

ProgressToken: TypeAlias = int | str
"""The token that connects progress notifications with their request."""


@wire()
class RequestMetaObject(Open):
    """`_meta` of a request. Spec: basic#meta"""

    progress_token: ProgressToken | None = None
    """The token for progress notifications; `None` disables them."""
    protocol_version: str | None = field(
        default=None, name=PROTOCOL_VERSION, since=R2026_07_28, required_since=R2026_07_28
    )
    """The revision of the request; required since 2026-07-28."""
    client_capabilities: ClientCapabilities | None = field(
        default=None, name=CLIENT_CAPABILITIES, since=R2026_07_28, required_since=R2026_07_28
    )
    """The capabilities of the client for this request; required since 2026-07-28."""
    client_info: Implementation | None = field(default=None, name=CLIENT_INFO, since=R2026_07_28)
    """Name and version of the client."""
    log_level: LoggingLevel | None = field(default=None, name=LOG_LEVEL, since=R2026_07_28)
    """The minimum level of log messages; `None` disables them."""


@wire(since=R2026_07_28)
class ResultMetaObject(Open):
    """`_meta` of a result. Spec: basic#meta (2026-07-28)"""

    server_info: Implementation | None = field(default=None, name=SERVER_INFO)
    """Name and version of the server."""


@wire(since=R2026_07_28)
class NotificationMetaObject(Open):
    """`_meta` of a notification. Spec: basic/utilities/subscriptions (2026-07-28)"""

    subscription_id: RequestId | None = field(default=None, name=SUBSCRIPTION_ID)
    """The id of the `subscriptions/listen` request."""


@wire(since=R2026_07_28)
class SubscriptionsListenResultMetaObject(Open):
    """`_meta` of the result that ends a subscription. Spec: basic/utilities/subscriptions (2026-07-28)"""

    subscription_id: RequestId = field(name=SUBSCRIPTION_ID)
    """The id of the `subscriptions/listen` request."""
    server_info: Implementation | None = field(default=None, name=SERVER_INFO)
    """Name and version of the server."""


@wire(since=R2025_11_25, until=R2025_11_25)
class RelatedTaskMetadata(Open):
    """The task of a message: the value of `RELATED_TASK`. Spec: basic/utilities/tasks (2025-11-25)"""

    task_id: str
    """The id of the task."""
