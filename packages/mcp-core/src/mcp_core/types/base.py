"""What many types have in common: `_meta`, pages, cache hints, names, icons, annotations.

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
"""Who speaks, or who is meant."""

CacheScope: TypeAlias = Literal["public", "private"]
"""Who may share a cached result: anybody, or one authorization context."""


class SchemaRoot(enum.Enum):
    """Marks a JSON object that is a JSON Schema."""

    OBJECT = "object"
    """Its root is an object."""


ObjectSchema: TypeAlias = Annotated[JsonObject, SchemaRoot.OBJECT]
"""A JSON Schema with `"type": "object"` at its root, kept exactly as it came."""


@wire()
class Open(WireObject):
    """The base of all objects: each may have members beyond those that this project knows."""

    extra: Mapping[str, JsonValue] = NO_EXTRA
    """Members that the revision does not define, by wire name; kept on receipt and sent again."""


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
    """What kind of result it is; see `Method.results`."""


@wire()
class EmptyResult(Result):
    """A result that only says that the request succeeded. Spec: basic#result-responses"""


@wire()
class PaginatedRequestParams(RequestParams):
    """The parameters of a request that is answered in pages. Spec: server/utilities/pagination"""

    cursor: str | None = None
    """Where to go on, as the last page said. Opaque; the empty string is a cursor."""


@wire()
class PaginatedResult(Result):
    """One page. Spec: server/utilities/pagination"""

    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""


@wire()
class CacheableResult(Result):
    """A result with cache hints. Spec: server/utilities/caching (2026-07-28)"""

    ttl_ms: int = field(default=0, since=R2026_07_28, required_since=R2026_07_28, always=True, minimum=0)
    """How long the result stays fresh, in milliseconds; 0: not at all."""
    cache_scope: CacheScope = field(default="private", since=R2026_07_28, required_since=R2026_07_28, always=True)
    """Who may share the cached result."""


@wire(since=R2025_11_25)
class Icon(Open):
    """A picture for a user interface. Spec: basic#icons"""

    src: str
    """Its URI, `https:` or `data:`. Comes from the peer: not to be fetched without a guard."""
    mime_type: str | None = None
    """Its media type, where the server of the picture does not say."""
    sizes: tuple[str, ...] | None = None
    """Its sizes, as `48x48`, or `any`."""
    theme: Literal["light", "dark"] | None = None
    """The background that it is made for."""


@wire()
class Implementation(Open):
    """The name and version of a program. Spec: basic/lifecycle"""

    name: str
    """The name for programs."""
    version: str
    """The version, in any notation."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The name for people."""
    description: str | None = field(default=None, since=R2025_11_25)
    """What it does."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """Its pictures."""
    website_url: str | None = field(default=None, since=R2025_11_25)
    """Where it is at home."""


@wire()
class Annotations(Open):
    """Hints on content and resources. Spec: server/resources#annotations"""

    audience: tuple[Role, ...] | None = None
    """Whom it is meant for."""
    priority: float | None = field(default=None, minimum=0, maximum=1)
    """How important it is, from 0 to 1."""
    last_modified: str | None = field(default=None, since=R2025_06_18)
    """When it was changed last, in ISO 8601."""


@wire(since=R2025_11_25, until=R2025_11_25)
class TaskMetadata(Open):
    """Asks to run a request as a task. Spec: basic/utilities/tasks (2025-11-25)"""

    ttl: int | None = None
    """How long the task shall be kept, in milliseconds."""


META_SINCE: Final = R2025_06_18
"""The first revision with `_meta` on things that are no params and no results."""
