"""The JSON-RPC 2.0 messages, as values.

Spec: basic#messages of each revision; JSON-RPC 2.0 sections 4 to 6. The members are those of the wire; what
`params` and `result` mean is not known here (see `mcp_core.methods`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union

import attrs

if TYPE_CHECKING:
    from mcp_core.errors import MalformedMessage

__all__ = [
    "Batch",
    "ErrorObject",
    "ErrorResponse",
    "JsonObject",
    "JsonValue",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Response",
    "ResultResponse",
]

JsonValue: TypeAlias = Union[bool, int, float, str, list["JsonValue"], dict[str, "JsonValue"], None]  # noqa: UP007 -- `|` does not take names in quotes
"""Anything that JSON can say."""

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object."""

RequestId: TypeAlias = int | str
"""The id of a request; echoed exactly, in type and value."""


@attrs.frozen
class Request:
    """Asks for an answer. Spec: basic#requests"""

    id: RequestId
    """Chosen by the sender, unique among its requests."""
    method: str
    """What is asked for."""
    params: JsonObject | None = None
    """The parameters; `None` when the member is absent."""


@attrs.frozen
class Notification:
    """Tells something; there is no answer. Spec: basic#notifications"""

    method: str
    """What is told."""
    params: JsonObject | None = None
    """The parameters; `None` when the member is absent."""


@attrs.frozen
class ResultResponse:
    """The answer of a request that succeeded. Spec: basic#result-responses"""

    id: RequestId
    """The id of the request."""
    result: JsonObject
    """What came out."""


@attrs.frozen
class ErrorObject:
    """What went wrong. Spec: basic#error-responses"""

    code: int
    """See `mcp_core.errors.ErrorCode`."""
    message: str
    """One sentence."""
    data: JsonValue = None
    """More about it; `None` when the member is absent."""


@attrs.frozen
class ErrorResponse:
    """The answer of a request that failed. Spec: basic#error-responses"""

    id: RequestId | None
    """The id of the request; `None` when it could not be read."""
    error: ErrorObject
    """What went wrong."""


Response: TypeAlias = ResultResponse | ErrorResponse
"""Either answer."""

Message: TypeAlias = Request | Notification | ResultResponse | ErrorResponse
"""One JSON-RPC message."""


@attrs.frozen
class Batch:
    """Several messages in one JSON array. Spec: basic#batching (2025-03-26 only)

    A received batch may hold members that are no valid message; each stands as the error that says why.
    """

    members: tuple[Message | MalformedMessage, ...]
    """In the order of the wire. Never empty on the way out."""
