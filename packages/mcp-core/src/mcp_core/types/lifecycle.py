"""Initialization and discovery: `initialize`, `server/discover`, and the capabilities.

Spec: basic/lifecycle (until 2025-11-25), server/discover and basic/versioning (2026-07-28)
"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28
from mcp_core.types.base import CacheableResult, Implementation, NotificationParams, Open, RequestParams, Result
from mcp_core.types.wire_object import field, wire

__all__ = [
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "DiscoverRequestParams",
    "DiscoverResult",
    "ElicitationCapability",
    "ElicitationTaskRequests",
    "InitializeRequestParams",
    "InitializeResult",
    "InitializedNotificationParams",
    "PingRequestParams",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "SamplingTaskRequests",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "ToolTaskRequests",
    "ToolsCapability",
]


@wire()
class RootsCapability(Open):
    """The capability of a client that lists its roots. Spec: client/roots#capabilities"""

    list_changed: bool = field(default=False, until=R2025_11_25)
    """Whether the peer is notified when the list changes."""


@wire()
class SamplingCapability(Open):
    """The capability of a client with a model. Spec: client/sampling#capabilities"""

    tools: JsonObject | None = field(default=None, since=R2025_11_25)
    """Support for tool calls of the model; `{}` if supported."""
    context: JsonObject | None = field(default=None, since=R2025_11_25)
    """Support for values of `includeContext` other than `none`; `{}` if supported."""


@wire(since=R2025_06_18)
class ElicitationCapability(Open):
    """The capability of a client that elicits input. Without members: by form. Spec: client/elicitation#capabilities"""

    form: JsonObject | None = field(default=None, since=R2025_11_25)
    """Support for forms; `{}` if supported."""
    url: JsonObject | None = field(default=None, since=R2025_11_25)
    """Support for web pages; `{}` if supported."""


@wire(since=R2025_11_25, until=R2025_11_25)
class SamplingTaskRequests(Open):
    """Sampling as a task. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    create_message: JsonObject | None = None
    """Support for `sampling/createMessage`; `{}` if supported."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ElicitationTaskRequests(Open):
    """Elicitation as a task. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    create: JsonObject | None = None
    """Support for `elicitation/create`; `{}` if supported."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ClientTaskRequests(Open):
    """The requests that the client can run as tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    sampling: SamplingTaskRequests | None = None
    """Sampling."""
    elicitation: ElicitationTaskRequests | None = None
    """Elicitation."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ClientTasksCapability(Open):
    """The capability of a client with tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    list: JsonObject | None = None
    """Support for `tasks/list`; `{}` if supported."""
    cancel: JsonObject | None = None
    """Support for `tasks/cancel`; `{}` if supported."""
    requests: ClientTaskRequests | None = None
    """The requests that can run as tasks."""


@wire()
class ClientCapabilities(Open):
    """The capabilities of a client. Spec: basic/lifecycle#capability-negotiation"""

    roots: RootsCapability | None = None
    """Roots."""
    sampling: SamplingCapability | None = None
    """Sampling."""
    elicitation: ElicitationCapability | None = field(default=None, since=R2025_06_18)
    """Elicitation."""
    tasks: ClientTasksCapability | None = field(default=None, since=R2025_11_25, until=R2025_11_25)
    """Tasks."""
    experimental: Mapping[str, JsonObject] | None = None
    """Capabilities outside of the specification, by name."""
    extensions: Mapping[str, JsonObject] | None = field(default=None, since=R2026_07_28)
    """Extensions, by identifier, with their settings."""


@wire()
class PromptsCapability(Open):
    """The capability of a server with prompts. Spec: server/prompts#capabilities"""

    list_changed: bool = False
    """Whether the peer is notified when the list changes."""


@wire()
class ResourcesCapability(Open):
    """The capability of a server with resources. Spec: server/resources#capabilities"""

    subscribe: bool = False
    """Whether the server notifies subscribers of changes of a resource."""
    list_changed: bool = False
    """Whether the peer is notified when the list changes."""


@wire()
class ToolsCapability(Open):
    """The capability of a server with tools. Spec: server/tools#capabilities"""

    list_changed: bool = False
    """Whether the peer is notified when the list changes."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ToolTaskRequests(Open):
    """Tool calls as tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    call: JsonObject | None = None
    """Support for `tools/call`; `{}` if supported."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ServerTaskRequests(Open):
    """The requests that the server can run as tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    tools: ToolTaskRequests | None = None
    """Tool calls."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ServerTasksCapability(Open):
    """The capability of a server with tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    list: JsonObject | None = None
    """Support for `tasks/list`; `{}` if supported."""
    cancel: JsonObject | None = None
    """Support for `tasks/cancel`; `{}` if supported."""
    requests: ServerTaskRequests | None = None
    """The requests that can run as tasks."""


@wire()
class ServerCapabilities(Open):
    """The capabilities of a server. Spec: basic/lifecycle#capability-negotiation"""

    prompts: PromptsCapability | None = None
    """Prompts."""
    resources: ResourcesCapability | None = None
    """Resources."""
    tools: ToolsCapability | None = None
    """Tools."""
    completions: JsonObject | None = field(default=None, since=R2025_03_26)
    """Completion of arguments; `{}` if supported."""
    logging: JsonObject | None = None
    """Log messages; `{}` if supported."""
    tasks: ServerTasksCapability | None = field(default=None, since=R2025_11_25, until=R2025_11_25)
    """Tasks."""
    experimental: Mapping[str, JsonObject] | None = None
    """Capabilities outside of the specification, by name."""
    extensions: Mapping[str, JsonObject] | None = field(default=None, since=R2026_07_28)
    """Extensions, by identifier, with their settings."""


@wire(until=R2025_11_25)
class InitializeRequestParams(RequestParams):
    """The parameters of `initialize`. Spec: basic/lifecycle#initialization"""

    protocol_version: str
    """The revision that the client requests: its newest."""
    capabilities: ClientCapabilities
    """The capabilities of the client."""
    client_info: Implementation
    """Name and version of the client."""


@wire(until=R2025_11_25)
class InitializeResult(Result):
    """The result of `initialize`. Spec: basic/lifecycle#initialization"""

    protocol_version: str
    """The negotiated revision: the requested one, or another that the server supports."""
    capabilities: ServerCapabilities
    """The capabilities of the server."""
    server_info: Implementation
    """Name and version of the server."""
    instructions: str | None = None
    """Instructions for use of the server, for the model. Untrusted text of the server."""


@wire(until=R2025_11_25)
class InitializedNotificationParams(NotificationParams):
    """The parameters of `notifications/initialized`. Spec: basic/lifecycle#initialization"""


@wire(until=R2025_11_25)
class PingRequestParams(RequestParams):
    """The parameters of `ping`. Spec: basic/utilities/ping"""


@wire(since=R2026_07_28)
class DiscoverRequestParams(RequestParams):
    """The parameters of `server/discover`. Spec: server/discover (2026-07-28)"""


@wire(since=R2026_07_28)
class DiscoverResult(CacheableResult):
    """The result of `server/discover`. Spec: server/discover (2026-07-28)"""

    supported_versions: tuple[str, ...]
    """The revisions that the server supports."""
    capabilities: ServerCapabilities
    """The capabilities of the server."""
    instructions: str | None = None
    """Instructions for use of the server, for the model. Untrusted text of the server."""
