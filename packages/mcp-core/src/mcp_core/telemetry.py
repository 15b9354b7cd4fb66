"""Telemetry of messages: names and attributes from the OpenTelemetry semantic conventions for MCP.

This module does not import OpenTelemetry; `mcp_core.trio.telemetry` does. Arguments and results
are never recorded. The conventions have the status `Development`, so names may change with them.

Spec: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.field_methods import FieldValue
from mcp_core.types import (
    CallToolRequestParams,
    GetPromptRequestParams,
    ReadResourceRequestParams,
    RequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.middleware import MiddlewareMessage

__all__ = [
    "BUCKETS",
    "CLIENT_DURATION",
    "SERVER_DURATION",
    "Outcome",
    "SpanDescription",
    "describe_message",
    "outcome",
    "trace_context_of",
    "with_trace_context",
]

CLIENT_DURATION: Final = "mcp.client.operation.duration"
"""The name of the histogram of the side that sends a request, in seconds."""
SERVER_DURATION: Final = "mcp.server.operation.duration"
"""The name of the histogram of the side that responds, in seconds."""
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bucket boundaries of both histograms, in seconds."""

_LONGEST: Final = 1_024
"""The maximum number of characters of a value. Names and URIs come from a peer and may have any length."""

_SERVER_FAULTS: Final = range(-32_099, -31_999)
"""The range of JSON-RPC error codes for server errors."""


@attrs.frozen(eq=False, repr=False)
class SpanDescription(FieldValue):
    """The telemetry of a request before its response."""

    span_name: str
    """The name of the span."""
    attributes: Mapping[str, str]
    """The attributes of the span."""
    common: Mapping[str, str]
    """The attributes that the histogram has too. They have few different values."""
    names: Mapping[str, str]
    """The name of a tool or a prompt. The histogram has it only if it exists, see `Outcome.known`."""


@attrs.frozen(eq=False, repr=False)
class Outcome(FieldValue):
    """The telemetry of the end of a request."""

    attributes: Mapping[str, str]
    """The attributes of the span and of the histogram."""
    failed: bool = False
    """Whether the span has the error status."""
    description: str | None = None
    """The message of the error."""
    known: bool = True
    """Whether the responding side knows the named tool or prompt. Otherwise, a client that invents names could create
    any number of time series."""


def describe_message(message: MiddlewareMessage) -> SpanDescription:
    """Return the telemetry of a request before its response."""
    params = message.params
    common = {"mcp.method.name": message.method}
    if message.revision is not None:
        common["mcp.protocol.version"] = message.revision.name
    names: dict[str, str] = {}
    if isinstance(params, CallToolRequestParams):
        common["gen_ai.operation.name"] = "execute_tool"
        names["gen_ai.tool.name"] = params.name[:_LONGEST]
    elif isinstance(params, GetPromptRequestParams):
        names["gen_ai.prompt.name"] = params.name[:_LONGEST]
    attributes = {**common, **names}
    if isinstance(params, ReadResourceRequestParams | SubscribeRequestParams | UnsubscribeRequestParams):
        attributes["mcp.resource.uri"] = params.uri[:_LONGEST]
    if message.id is not None:
        attributes["jsonrpc.request.id"] = str(message.id)
    return SpanDescription(" ".join([message.method, *names.values()]), attributes, common, names)


def outcome(message: MiddlewareMessage, result: object) -> Outcome:
    """Return the telemetry of the end of a request.

    Args:
        message: The request.
        result: The result, as an instance or in wire form; or the exception that ended the request.
    """
    if isinstance(result, RequestFailed):
        code = str(result.code)
        # Only some errors are failures of the responding side; on the requesting side every error is a failure.
        failed = not message.incoming or result.code == ErrorCode.INTERNAL_ERROR or result.code in _SERVER_FAULTS
        attributes = {"rpc.response.status_code": code}
        if failed:
            attributes["error.type"] = code
        return Outcome(attributes, failed, result.message if failed else None, known=False)
    if isinstance(result, Exception):
        return Outcome({"error.type": f"{type(result).__module__}.{type(result).__qualname__}"}, failed=True)
    if isinstance(result, BaseException):
        # Cancelled: the caller cancelled the request, or the handler requires input in another round trip.
        return Outcome({})
    is_error = result.get("isError") if isinstance(result, dict) else getattr(result, "is_error", False)
    if is_error is True:
        return Outcome({"error.type": "tool_error"}, failed=True)
    return Outcome({})


def trace_context_of(message: MiddlewareMessage) -> dict[str, str]:
    """Return the trace context of an inbound message: all texts in `_meta`. A propagator selects its own keys."""
    meta = message.raw.get("_meta")
    return {key: value for key, value in meta.items() if isinstance(value, str)} if isinstance(meta, dict) else {}


def with_trace_context(message: MiddlewareMessage, carrier: Mapping[str, str]) -> MiddlewareMessage:
    """Return the message with the carrier of a propagator in its `_meta`. Existing members are not replaced."""
    params = message.params
    if not carrier or not isinstance(params, RequestParams):
        return message
    meta: JsonObject = {**carrier, **(params.meta or {})}
    return attrs.evolve(message, params=attrs.evolve(params, meta=meta))
