"""What the semantic conventions of OpenTelemetry for this protocol say of a message: names and attributes.

Nothing of OpenTelemetry is imported; `mcp_client.telemetry` and `mcp_server.telemetry` do the rest. Arguments and results
are never part of it. The conventions are still in development (`Development`), so names may change with them.

Spec: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.types import (
    CallToolRequestParams,
    GetPromptRequestParams,
    ReadResourceRequestParams,
    RequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
    evolve,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.middleware import Passing

__all__ = ["BUCKETS", "CLIENT_DURATION", "SERVER_DURATION", "Outcome", "Told", "carried", "carrying", "outcome", "told"]

CLIENT_DURATION: Final = "mcp.client.operation.duration"
"""The histogram of the side that asks, in seconds."""
SERVER_DURATION: Final = "mcp.server.operation.duration"
"""The histogram of the side that answers, in seconds."""
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The boundaries of both, in seconds."""

_LONGEST: Final = 1_024
"""Characters of a value that are told. Names and URIs come from a peer, which may write as much as it likes."""

_SERVER_FAULTS: Final = range(-32_099, -31_999)
"""The codes of JSON-RPC for errors that are those of the server."""


@attrs.frozen
class Told:
    """What is told of a request before there is an answer."""

    span_name: str
    """The name of the span."""
    attributes: Mapping[str, str]
    """Attributes of the span."""
    common: Mapping[str, str]
    """Those that the histogram has too: there are only few different values of them."""
    names: Mapping[str, str]
    """The name of a tool or a prompt. The histogram has it only where there is such a thing, see `Outcome.known`."""


@attrs.frozen
class Outcome:
    """What is told of the end of a request."""

    attributes: Mapping[str, str]
    """Attributes of the span and of the histogram."""
    failed: bool = False
    """The span has the status of an error."""
    description: str | None = None
    """What the error says."""
    known: bool = True
    """Whoever answers knows what was named. Else a client that invents names could make any number of time series."""


def told(message: Passing) -> Told:
    """What is told of a request."""
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
    return Told(" ".join([message.method, *names.values()]), attributes, common, names)


def outcome(message: Passing, result: object) -> Outcome:
    """What is told of the end of a request.

    Args:
        message: The request.
        result: Its result, as an instance or in wire form; or the exception that it ended with.
    """
    if isinstance(result, RequestFailed):
        code = str(result.code)
        # Whoever answers is to blame for some errors only; whoever asked did not get what it wanted with any.
        failed = not message.incoming or result.code == ErrorCode.INTERNAL_ERROR or result.code in _SERVER_FAULTS
        attributes = {"rpc.response.status_code": code}
        if failed:
            attributes["error.type"] = code
        return Outcome(attributes, failed, result.message if failed else None, known=False)
    if isinstance(result, Exception):
        return Outcome({"error.type": f"{type(result).__module__}.{type(result).__qualname__}"}, failed=True)
    if isinstance(result, BaseException):
        # Cancelled: whoever asked has changed its mind, or a handler waits for an answer in another round.
        return Outcome({})
    is_error = result.get("isError") if isinstance(result, dict) else getattr(result, "is_error", False)
    if is_error is True:
        return Outcome({"error.type": "tool_error"}, failed=True)
    return Outcome({})


def carried(message: Passing) -> dict[str, str]:
    """What the `_meta` of an incoming message carries: all its texts, of which a propagator takes what it knows."""
    meta = message.raw.get("_meta")
    return {key: value for key, value in meta.items() if isinstance(value, str)} if isinstance(meta, dict) else {}


def carrying(message: Passing, carrier: Mapping[str, str]) -> Passing:
    """The message with what a propagator wants to carry in its `_meta`. What is there already stays."""
    params = message.params
    if not carrier or not isinstance(params, RequestParams):
        return message
    meta: JsonObject = {**carrier, **(params.meta or {})}
    return attrs.evolve(message, params=evolve(params, meta=meta))
