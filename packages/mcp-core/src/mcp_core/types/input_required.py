"""Multi round-trip requests: a result with input requests, and a retry with input responses.

Spec: basic/patterns/mrtr (2026-07-28)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2026_07_28
from mcp_core.types.base import Open, RequestParams
from mcp_core.types.elicitation import ElicitRequestParams, ElicitResult
from mcp_core.types.roots import ListRootsRequestParams, ListRootsResult
from mcp_core.types.sampling import CreateMessageRequestParams, CreateMessageResult
from mcp_core.types.wire_object import field, wire

__all__ = [
    "CreateMessageRequest",
    "ElicitRequest",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponseRequestParams",
    "InputResponses",
    "ListRootsRequest",
]


@wire(since=R2026_07_28, tag="method")
class ElicitRequest(Open):
    """An input request for the user. Spec: client/elicitation (2026-07-28)"""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    """The method of the request."""
    params: ElicitRequestParams
    """The parameters of the request."""


@wire(since=R2026_07_28, tag="method")
class CreateMessageRequest(Open):
    """An input request for the client's model. Spec: client/sampling (2026-07-28)"""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    """The method of the request."""
    params: CreateMessageRequestParams
    """The parameters of the request."""


@wire(since=R2026_07_28, tag="method")
class ListRootsRequest(Open):
    """An input request for the roots. Spec: client/roots (2026-07-28)"""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    """The method of the request."""
    params: ListRootsRequestParams | None = None
    """The parameters, which contain at most metadata."""


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""One input request of a server."""

InputRequests: TypeAlias = Mapping[str, InputRequest]
"""The input requests of a server, by keys that the server chooses."""

InputResponse: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
"""The response to one input request."""

InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The input responses, by the keys of the input requests."""


@wire(since=R2026_07_28, tag="result_type", any_of=("input_requests", "request_state"))
class InputRequiredResult(Open):
    """A request for input: the client repeats its request with the responses. Spec: basic/patterns/mrtr (2026-07-28)

    At least one of `input_requests` and `request_state` is required.
    """

    result_type: ClassVar[Literal["input_required"]] = "input_required"
    """The type of result."""
    input_requests: InputRequests | None = None
    """The input requests."""
    request_state: str | None = None
    """The state that the client returns unchanged."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire()
class InputResponseRequestParams(RequestParams):
    """The parameters of a request that may contain input responses. Spec: basic/patterns/mrtr (2026-07-28)"""

    input_responses: InputResponses | None = field(default=None, since=R2026_07_28, refuse=True)
    """The responses to the input requests of the previous result."""
    request_state: str | None = field(default=None, since=R2026_07_28, refuse=True)
    """The state of the previous result, unchanged."""
