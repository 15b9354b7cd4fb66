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
    """The URI, for `resources/read`."""
    name: str
    """The identifier."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""
    description: str | None = None
    """The description, for the model. Untrusted text of the server."""
    mime_type: str | None = None
    """The media type."""
    size: int | None = None
    """The size in bytes, before base64."""
    annotations: Annotations | None = None
    """Hints for clients."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """The icons."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class ResourceTemplate(Open):
    """A family of resources, described by a URI template. Spec: server/resources#resource-templates"""

    uri_template: str
    """The URI template (RFC 6570)."""
    name: str
    """The identifier."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""
    description: str | None = None
    """The description of the resources, for the model. Untrusted text of the server."""
    mime_type: str | None = None
    """The media type, if all resources of the template have the same."""
    annotations: Annotations | None = None
    """Hints for clients."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """The icons of the resources."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire()
class ListResourcesRequestParams(PaginatedRequestParams):
    """The parameters of `resources/list`. Spec: server/resources#listing-resources"""


@wire()
class ListResourcesResult(CacheableResult):
    """The result of `resources/list`. Spec: server/resources#listing-resources"""

    resources: tuple[Resource, ...]
    """The resources of this page."""
    next_cursor: str | None = None
    """The cursor of the next page; `None` on the last page."""


@wire()
class ListResourceTemplatesRequestParams(PaginatedRequestParams):
    """The parameters of `resources/templates/list`. Spec: server/resources#resource-templates"""


@wire()
class ListResourceTemplatesResult(CacheableResult):
    """The result of `resources/templates/list`. Spec: server/resources#resource-templates"""

    resource_templates: tuple[ResourceTemplate, ...]
    """The templates of this page."""
    next_cursor: str | None = None
    """The cursor of the next page; `None` on the last page."""


@wire()
class ReadResourceRequestParams(InputResponseRequestParams):
    """The parameters of `resources/read`. Spec: server/resources#reading-resources"""

    uri: str
    """The URI of the resource."""


@wire()
class ReadResourceResult(CacheableResult):
    """The result of `resources/read`. Spec: server/resources#reading-resources"""

    contents: tuple[ResourceContents, ...]
    """The contents of the resource, or of its parts."""


@wire(until=R2025_11_25)
class SubscribeRequestParams(RequestParams):
    """The parameters of `resources/subscribe`. Spec: server/resources#subscriptions"""

    uri: str
    """The URI of the resource."""


@wire(until=R2025_11_25)
class UnsubscribeRequestParams(RequestParams):
    """The parameters of `resources/unsubscribe`. Spec: server/resources#subscriptions"""

    uri: str
    """The URI of the resource."""


@wire()
class ResourceUpdatedNotificationParams(NotificationParams):
    """The parameters of `notifications/resources/updated`. Spec: server/resources#subscriptions"""

    uri: str
    """The URI of the resource, or of a part of the subscribed resource."""


@wire()
class ResourceListChangedNotificationParams(NotificationParams):
    """The parameters of `notifications/resources/list_changed`. Spec: server/resources#list-changed-notification"""
