"""Common parts of many types: `_meta`, pagination, cache hints, names, icons, annotations.

Spec: basic#meta, basic#icons, server/utilities/pagination, server/utilities/caching
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28
from mcp_core.types.wire_object import NO_EXTRA, WireObject, field, wire

__all__ = [
    "Annotations",
    "CacheScope",
    "CacheableResult",
    "EmptyResult",
    "Icon",
    "Implementation",
    "NotificationParams",
    "ObjectSchema",
    "Open",
    "PaginatedRequestParams",
    "PaginatedResult",
    "RequestParams",
    "Result",
    "Role",
    "TaskMetadata",
]

Role: TypeAlias = Literal["user", "assistant"]
"""The sender of a message, or its audience."""

CacheScope: TypeAlias = Literal["public", "private"]
"""The clients that may share a cached result: all, or one authorization context."""


class SchemaRoot(enum.Enum):
    """A marker for a JSON object that is a JSON Schema."""

    OBJECT = "object"
    """A schema whose root is an object."""


ObjectSchema: TypeAlias = Annotated[JsonObject, SchemaRoot.OBJECT]
"""A JSON Schema with `"type": "object"` at its root, kept exactly as received."""


@wire()
class Open(WireObject):
    """The base of all objects that may have members beyond those that this project knows."""

    extra: Mapping[str, JsonValue] = NO_EXTRA
    """Members that the revision does not define, by wire name. They are kept on receipt and sent again."""


@wire()
class RequestParams(Open):
    """The parameters of a request. Spec: basic#requests"""

    meta: JsonObject | None = field(default=None, name="_meta", required_since=R2026_07_28, added=True)
    """Metadata. `mcp_core.types.meta` has a typed view and the names of the keys."""


@wire()
class NotificationParams(Open):
    """The parameters of a notification. Spec: basic#notifications"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire()
class Result(Open):
    """The result of a request. Spec: basic#result-responses"""

    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""
    result_type: str = field(default="complete", since=R2026_07_28, required_since=R2026_07_28, always=True)
    """The type of result; see `RequestMethod.results`."""


@wire()
class EmptyResult(Result):
    """A result without data: the request succeeded. Spec: basic#result-responses"""


@wire()
class PaginatedRequestParams(RequestParams):
    """The parameters of a request whose result has pages. Spec: server/utilities/pagination"""

    cursor: str | None = None
    """The cursor from the previous page. Opaque; the empty string is a cursor."""


@wire()
class PaginatedResult(Result):
    """One page of a result. Spec: server/utilities/pagination"""

    next_cursor: str | None = None
    """The cursor of the next page; `None` on the last page."""


@wire()
class CacheableResult(Result):
    """A result with cache hints. Spec: server/utilities/caching (2026-07-28)"""

    ttl_ms: int = field(default=0, since=R2026_07_28, required_since=R2026_07_28, always=True, minimum=0)
    """The time for which the result is fresh, in milliseconds; 0 disables caching."""
    cache_scope: CacheScope = field(default="private", since=R2026_07_28, required_since=R2026_07_28, always=True)
    """The clients that may share the cached result."""


@wire(since=R2025_11_25)
class Icon(Open):
    """An image for a user interface. Spec: basic#icons"""

    src: str
    """The URI, `https:` or `data:`. It comes from the peer: check it before you fetch it."""
    mime_type: str | None = None
    """The media type, if the server of the image does not specify it."""
    sizes: tuple[str, ...] | None = None
    """The sizes, for example `48x48`, or `any`."""
    theme: Literal["light", "dark"] | None = None
    """The background for which the image is designed."""


@wire()
class Implementation(Open):
    """The name and version of a program. Spec: basic/lifecycle"""

    name: str
    """The identifier."""
    version: str
    """The version, in any notation."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""
    description: str | None = field(default=None, since=R2025_11_25)
    """The description of the program."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """The icons."""
    website_url: str | None = field(default=None, since=R2025_11_25)
    """The URL of the program's web site."""


@wire()
class Annotations(Open):
    """Hints on content and resources. Spec: server/resources#annotations"""

    audience: tuple[Role, ...] | None = None
    """The intended audience."""
    priority: float | None = field(default=None, minimum=0, maximum=1)
    """The importance, from 0 to 1."""
    last_modified: str | None = field(default=None, since=R2025_06_18)
    """The time of the last change, in ISO 8601."""


@wire(since=R2025_11_25, until=R2025_11_25)
class TaskMetadata(Open):
    """The metadata of a request that runs as a task. Spec: basic/utilities/tasks (2025-11-25)"""

    ttl: int | None = None
    """The requested time to keep the task, in milliseconds."""


META_SINCE: Final = R2025_06_18
"""The first revision with `_meta` in objects other than params and results."""
