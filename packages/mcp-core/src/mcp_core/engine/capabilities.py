"""Capability checks: whether this side may use a method or notification with the peer.

The definition of a method or notification names the capability that it requires (`mcp_core.methods`). Requirements that
depend on the parameters are in `CLIENT_REQUIREMENTS`. The same definitions bind both directions. This side never uses an
undeclared capability. A peer's use of an undeclared capability is rejected, or recorded as a deviation.

Spec: basic/lifecycle#capability-negotiation; basic/versioning (2026-07-28).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.types import (
    CreateMessageRequestParams,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import CapabilityPath, NotificationMethod
    from mcp_core.types import ClientCapabilities, ServerCapabilities

__all__ = [
    "CLIENT_REQUIREMENTS",
    "CapabilityRequirement",
    "as_object",
    "declared",
    "missing_client_capability",
    "undeclared",
]


@attrs.frozen(eq=False, repr=False)
class CapabilityRequirement(FieldValue):
    """A rule that parameters of the class `params` require the client capability `path` if `when` returns true."""

    params: type
    path: CapabilityPath
    when: Callable[[object], bool] = lambda _: True


def _has_tools(params: object) -> bool:
    return isinstance(params, CreateMessageRequestParams) and (
        params.tools is not None or params.tool_choice is not None
    )


CLIENT_REQUIREMENTS: Final = (
    CapabilityRequirement(ElicitRequestFormParams, ("elicitation", "form")),
    CapabilityRequirement(ElicitRequestURLParams, ("elicitation", "url")),
    CapabilityRequirement(CreateMessageRequestParams, ("sampling", "tools"), _has_tools),
)
"""The client capabilities that requests require in addition to those in the method's definition."""


def declared(capabilities: ClientCapabilities | ServerCapabilities, path: CapabilityPath) -> bool:
    """Return whether `path` is declared in `capabilities`.

    An `elicitation` capability that names no mode means form mode (2025-11-25, 2026-07-28). Form mode is also the only
    mode of earlier revisions.
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
    """Return the first capability that the client lacks for a request with these `params`.

    Args:
        capabilities: The capabilities that the client declared.
        needed: The client capability in the method's definition; `None` if there is no such requirement.
        params: The parameters of the request.

    Returns:
        The path of the undeclared capability, or `None` if all are declared.
    """
    if needed is not None and not declared(capabilities, needed):
        return needed
    for need in CLIENT_REQUIREMENTS:
        if isinstance(params, need.params) and need.when(params) and not declared(capabilities, need.path):
            return need.path
    return None


def undeclared(
    definition: NotificationMethod[object], server: ServerCapabilities, client: ClientCapabilities | None
) -> CapabilityPath | None:
    """Return the first capability that a notification requires and that is not declared.

    Args:
        definition: The definition of the notification.
        server: The capabilities that the server declared.
        client: The capabilities that the client declared; `None` to skip the check of the client.

    Returns:
        The path of the undeclared capability, or `None` if the notification may be used.
    """
    if definition.server_capability is not None and not declared(server, definition.server_capability):
        return definition.server_capability
    if (
        client is not None
        and definition.client_capability is not None
        and not declared(client, definition.client_capability)
    ):
        return definition.client_capability
    return None


@cache
def _attribute(name: str) -> str:
    """Return the attribute name of a wire member: `list_changed` for `listChanged`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def as_object(path: CapabilityPath) -> JsonObject:
    """Return the wire form of one capability: `("elicitation", "url")` becomes `{"elicitation": {"url": {}}}`."""
    result: JsonObject = {}
    for name in reversed(path):
        result = {name: result}
    return result
