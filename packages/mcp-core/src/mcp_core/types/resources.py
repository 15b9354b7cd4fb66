"""Resources. Spec: server/resources"""

from __future__ import annotations

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_06_18, R2025_11_25
from mcp_core.types.base import (
    META_SINCE,
    Annotations,
    CacheableResult,
    Icon,
    NotificationParams,
    Open,
    PaginatedRequestParams,
    RequestParams,
)
from mcp_core.types.content import ResourceContents
from mcp_core.types.input_required import InputResponseRequestParams
from mcp_core.types.wire_object import field, wire

__all__ = [
    "ListResourceTemplatesRequestParams",
    "ListResourceTemplatesResult",
    "ListResourcesRequestParams",
    "ListResourcesResult",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "Resource",
    "ResourceListChangedNotificationParams",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "UnsubscribeRequestParams",
]


@wire()
class Resource(Open):
    """A resource. Spec: server/resources#resource"""

    uri: str
    """What it is read by."""
    name: str
    """The name for programs."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The name for people."""
    description: str | None = None
    """What it is, for the model. Written by the server: untrusted text."""
    mime_type: str | None = None
    """Its media type."""
    size: int | None = None
    """Its size in bytes, before base64."""
    annotations: Annotations | None = None
    """Hints."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """Its pictures."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class ResourceTemplate(Open):
    """Many resources at once, by a pattern of their URIs. Spec: server/resources#resource-templates"""

    uri_template: str
    """The pattern, by RFC 6570."""
    name: str
    """The name for programs."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The name for people."""
    description: str | None = None
    """What they are, for the model. Written by the server: untrusted text."""
    mime_type: str | None = None
    """Their media type, when they all have the same."""
    annotations: Annotations | None = None
    """Hints."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """Their pictures."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class ListResourcesRequestParams(PaginatedRequestParams):
    """The parameters of `resources/list`. Spec: server/resources#listing-resources"""


@wire()
class ListResourcesResult(CacheableResult):
    """The answer to `resources/list`. Spec: server/resources#listing-resources"""

    resources: tuple[Resource, ...]
    """The resources of this page."""
    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""


@wire()
class ListResourceTemplatesRequestParams(PaginatedRequestParams):
    """The parameters of `resources/templates/list`. Spec: server/resources#resource-templates"""


@wire()
class ListResourceTemplatesResult(CacheableResult):
    """The answer to `resources/templates/list`. Spec: server/resources#resource-templates"""

    resource_templates: tuple[ResourceTemplate, ...]
    """The templates of this page."""
    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""


@wire()
class ReadResourceRequestParams(InputResponseRequestParams):
    """The parameters of `resources/read`. Spec: server/resources#reading-resources"""

    uri: str
    """The resource."""


@wire()
class ReadResourceResult(CacheableResult):
    """The answer to `resources/read`. Spec: server/resources#reading-resources"""

    contents: tuple[ResourceContents, ...]
    """What is in the resource, or in those that it is made of."""


@wire(until=R2025_11_25)
class SubscribeRequestParams(RequestParams):
    """The parameters of `resources/subscribe`. Spec: server/resources#subscriptions"""

    uri: str
    """The resource."""


@wire(until=R2025_11_25)
class UnsubscribeRequestParams(RequestParams):
    """The parameters of `resources/unsubscribe`. Spec: server/resources#subscriptions"""

    uri: str
    """The resource."""


@wire()
class ResourceUpdatedNotificationParams(NotificationParams):
    """The parameters of `notifications/resources/updated`. Spec: server/resources#subscriptions"""

    uri: str
    """The resource, or a part of the one that was subscribed to."""


@wire()
class ResourceListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/resources/list_changed`. Spec: server/resources#list-changed-notification"""
