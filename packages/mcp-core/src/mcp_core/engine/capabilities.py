"""May this side use this with that peer? Capabilities, read from the tables.

What a method or notification needs stands in its row (`mcp_core.methods`); what depends on the parameters stands in
`CLIENT_NEEDS`. The same rows bind both directions: we never use what was not declared, and what the peer uses without
declaration is refused or noted.

Spec: basic/lifecycle#capability-negotiation; basic/versioning (2026-07-28).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.types import (
    CreateMessageRequestParams,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import CapabilityPath, NotificationRow
    from mcp_core.types import ClientCapabilities, ServerCapabilities

__all__ = ["CLIENT_NEEDS", "Need", "as_object", "declared", "missing_client_capability", "undeclared"]


@attrs.frozen
class Need:
    """Parameters of `params` need the capability `path` of the client, where `when` holds."""

    params: type
    path: CapabilityPath
    when: Callable[[object], bool] = lambda _: True


def _has_tools(params: object) -> bool:
    return isinstance(params, CreateMessageRequestParams) and (
        params.tools is not None or params.tool_choice is not None
    )


CLIENT_NEEDS: Final = (
    Need(ElicitRequestFormParams, ("elicitation", "form")),
    Need(ElicitRequestURLParams, ("elicitation", "url")),
    Need(CreateMessageRequestParams, ("sampling", "tools"), _has_tools),
)
"""What the client has to declare besides what the method's row says."""


def declared(capabilities: ClientCapabilities | ServerCapabilities, path: CapabilityPath) -> bool:
    """Whether `path` is declared in `capabilities`.

    An `elicitation` that names no mode stands for the form mode (2025-11-25, 2026-07-28), which is also what the
    revisions before had.
    """
    value: object = capabilities
    for name in path:
        if name == "form" and isinstance(value, ElicitationCapability) and value.url is None:
            return True
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, _attribute(name), None)
        if value is None or value is False:
            return False
    return True


def missing_client_capability(
    capabilities: ClientCapabilities, needed: CapabilityPath | None, params: object
) -> CapabilityPath | None:
    """The first capability that the client lacks for a request with these `params`.

    Args:
        capabilities: What the client declared.
        needed: What the method's row asks for.
        params: The parameters of the request.

    Returns:
        The path that is not declared, or `None` when all is.
    """
    if needed is not None and not declared(capabilities, needed):
        return needed
    for need in CLIENT_NEEDS:
        if isinstance(params, need.params) and need.when(params) and not declared(capabilities, need.path):
            return need.path
    return None


def undeclared(
    row: NotificationRow[object], server: ServerCapabilities, client: ClientCapabilities | None
) -> CapabilityPath | None:
    """The first capability that a notification needs and that was not declared.

    Args:
        row: The notification.
        server: What the server declared.
        client: What the client declared; `None` when it does not matter here.

    Returns:
        The path, or `None` when the notification may be used.
    """
    if row.server_capability is not None and not declared(server, row.server_capability):
        return row.server_capability
    if client is not None and row.client_capability is not None and not declared(client, row.client_capability):
        return row.client_capability
    return None


@cache
def _attribute(name: str) -> str:
    """The attribute that has a member: `list_changed` for `listChanged`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def as_object(path: CapabilityPath) -> JsonObject:
    """The wire form of one capability: `("elicitation", "url")` becomes `{"elicitation": {"url": {}}}`."""
    result: JsonObject = {}
    for name in reversed(path):
        result = {name: result}
    return result
