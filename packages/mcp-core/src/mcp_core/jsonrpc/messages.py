"""JSON-RPC 2.0 messages, as values.

Spec: basic#messages of each revision; JSON-RPC 2.0 sections 4 to 6. The attributes have the names of the wire members.
The types of `params` and `result` are defined in `mcp_core.methods`.
"""

from __future__ import annotations

from typing import TypeAlias, Union

import attrs

from mcp_core.field_methods import FieldValue

__all__ = [
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
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object."""

RequestId: TypeAlias = int | str
"""The id of a request. The response repeats it exactly, in type and value."""


@attrs.frozen(eq=False, repr=False)
class Request(FieldValue):
    """A message that expects a response. Spec: basic#requests"""

    id: RequestId
    """The id that the sender chose, unique among its requests."""
    method: str
    """The name of the method."""
    params: JsonObject | None = None
    """The parameters; `None` if the member is absent."""


@attrs.frozen(eq=False, repr=False)
class Notification(FieldValue):
    """A message that has no response. Spec: basic#notifications"""

    method: str
    """The name of the method."""
    params: JsonObject | None = None
    """The parameters; `None` if the member is absent."""


@attrs.frozen(eq=False, repr=False)
class ResultResponse(FieldValue):
    """The response to a request that succeeded. Spec: basic#result-responses"""

    id: RequestId
    """The id of the request."""
    result: JsonObject
    """The result."""


@attrs.frozen(eq=False, repr=False)
class ErrorObject(FieldValue):
    """The error of a response. Spec: basic#error-responses"""

    code: int
    """The error code, see `mcp_core.errors.ErrorCode`."""
    message: str
    """The description, one sentence."""
    data: JsonValue = None
    """Additional data; `None` if the member is absent."""


@attrs.frozen(eq=False, repr=False)
class ErrorResponse(FieldValue):
    """The response to a request that failed. Spec: basic#error-responses"""

    id: RequestId | None
    """The id of the request; `None` if the id could not be read."""
    error: ErrorObject
    """The error."""


Response: TypeAlias = ResultResponse | ErrorResponse
"""A response: a result or an error."""

Message: TypeAlias = Request | Notification | ResultResponse | ErrorResponse
"""One JSON-RPC message."""
