"""How the two sides get to know each other: `initialize`, `server/discover`, and the capabilities.

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
    """The client can list its roots. Spec: client/roots#capabilities"""

    list_changed: bool = field(default=False, until=R2025_11_25)
    """It says so when the list changes."""


@wire()
class SamplingCapability(Open):
    """The client can ask a model. Spec: client/sampling#capabilities"""

    tools: JsonObject | None = field(default=None, since=R2025_11_25)
    """The model may call tools; `{}` says so."""
    context: JsonObject | None = field(default=None, since=R2025_11_25)
    """`includeContext` may be something else than `none`; `{}` says so."""


@wire(since=R2025_06_18)
class ElicitationCapability(Open):
    """The client can ask the user. Without members: by form. Spec: client/elicitation#capabilities"""

    form: JsonObject | None = field(default=None, since=R2025_11_25)
    """By form; `{}` says so."""
    url: JsonObject | None = field(default=None, since=R2025_11_25)
    """By a page that the user visits; `{}` says so."""


@wire(since=R2025_11_25, until=R2025_11_25)
class SamplingTaskRequests(Open):
    """Sampling as a task. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    create_message: JsonObject | None = None
    """`sampling/createMessage`; `{}` says so."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ElicitationTaskRequests(Open):
    """Elicitation as a task. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    create: JsonObject | None = None
    """`elicitation/create`; `{}` says so."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ClientTaskRequests(Open):
    """What the client runs as a task. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    sampling: SamplingTaskRequests | None = None
    """Sampling."""
    elicitation: ElicitationTaskRequests | None = None
    """Elicitation."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ClientTasksCapability(Open):
    """The client can run tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    list: JsonObject | None = None
    """`tasks/list`; `{}` says so."""
    cancel: JsonObject | None = None
    """`tasks/cancel`; `{}` says so."""
    requests: ClientTaskRequests | None = None
    """The requests that may be tasks."""


@wire()
class ClientCapabilities(Open):
    """What the client can do for the server. Spec: basic/lifecycle#capability-negotiation"""

    roots: RootsCapability | None = None
    """List its roots."""
    sampling: SamplingCapability | None = None
    """Ask a model."""
    elicitation: ElicitationCapability | None = field(default=None, since=R2025_06_18)
    """Ask the user."""
    tasks: ClientTasksCapability | None = field(default=None, since=R2025_11_25, until=R2025_11_25)
    """Run tasks."""
    experimental: Mapping[str, JsonObject] | None = None
    """Things outside of the specification, by name."""
    extensions: Mapping[str, JsonObject] | None = field(default=None, since=R2026_07_28)
    """Extensions, by identifier, with their settings."""


@wire()
class PromptsCapability(Open):
    """The server has prompts. Spec: server/prompts#capabilities"""

    list_changed: bool = False
    """It says so when the list changes."""


@wire()
class ResourcesCapability(Open):
    """The server has resources. Spec: server/resources#capabilities"""

    subscribe: bool = False
    """It says so when a resource changes, to those who subscribed to it."""
    list_changed: bool = False
    """It says so when the list changes."""


@wire()
class ToolsCapability(Open):
    """The server has tools. Spec: server/tools#capabilities"""

    list_changed: bool = False
    """It says so when the list changes."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ToolTaskRequests(Open):
    """Tool calls as tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    call: JsonObject | None = None
    """`tools/call`; `{}` says so."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ServerTaskRequests(Open):
    """What the server runs as a task. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    tools: ToolTaskRequests | None = None
    """Tool calls."""


@wire(since=R2025_11_25, until=R2025_11_25)
class ServerTasksCapability(Open):
    """The server can run tasks. Spec: basic/utilities/tasks#capabilities (2025-11-25)"""

    list: JsonObject | None = None
    """`tasks/list`; `{}` says so."""
    cancel: JsonObject | None = None
    """`tasks/cancel`; `{}` says so."""
    requests: ServerTaskRequests | None = None
    """The requests that may be tasks."""


@wire()
class ServerCapabilities(Open):
    """What the server offers. Spec: basic/lifecycle#capability-negotiation"""

    prompts: PromptsCapability | None = None
    """Prompts."""
    resources: ResourcesCapability | None = None
    """Resources."""
    tools: ToolsCapability | None = None
    """Tools."""
    completions: JsonObject | None = field(default=None, since=R2025_03_26)
    """Completion of arguments; `{}` says so."""
    logging: JsonObject | None = None
    """Log messages; `{}` says so."""
    tasks: ServerTasksCapability | None = field(default=None, since=R2025_11_25, until=R2025_11_25)
    """Tasks."""
    experimental: Mapping[str, JsonObject] | None = None
    """Things outside of the specification, by name."""
    extensions: Mapping[str, JsonObject] | None = field(default=None, since=R2026_07_28)
    """Extensions, by identifier, with their settings."""


@wire(until=R2025_11_25)
class InitializeRequestParams(RequestParams):
    """The parameters of `initialize`. Spec: basic/lifecycle#initialization"""

    protocol_version: str
    """The revision that the client wants: its newest."""
    capabilities: ClientCapabilities
    """What the client can do."""
    client_info: Implementation
    """Who the client is."""


@wire(until=R2025_11_25)
class InitializeResult(Result):
    """The answer to `initialize`. Spec: basic/lifecycle#initialization"""

    protocol_version: str
    """The revision that shall be spoken: the wanted one, or another one that the server knows."""
    capabilities: ServerCapabilities
    """What the server offers."""
    server_info: Implementation
    """Who the server is."""
    instructions: str | None = None
    """How to use the server, for the model. Written by the server: untrusted text."""


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
    """The answer to `server/discover`. Spec: server/discover (2026-07-28)"""

    supported_versions: tuple[str, ...]
    """The revisions that the server implements."""
    capabilities: ServerCapabilities
    """What the server offers."""
    instructions: str | None = None
    """How to use the server, for the model. Written by the server: untrusted text."""
