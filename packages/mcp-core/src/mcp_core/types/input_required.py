"""Multi round-trip requests: a result that asks, and a request that answers.

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
    """Asks the user. Spec: client/elicitation (2026-07-28)"""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    """Tells the kinds of request apart."""
    params: ElicitRequestParams
    """What is asked."""


@wire(since=R2026_07_28, tag="method")
class CreateMessageRequest(Open):
    """Asks the client's model. Spec: client/sampling (2026-07-28)"""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    """Tells the kinds of request apart."""
    params: CreateMessageRequestParams
    """What is asked."""


@wire(since=R2026_07_28, tag="method")
class ListRootsRequest(Open):
    """Asks for the roots. Spec: client/roots (2026-07-28)"""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    """Tells the kinds of request apart."""
    params: ListRootsRequestParams | None = None
    """Metadata at most."""


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""One thing that a server asks for."""

InputRequests: TypeAlias = Mapping[str, InputRequest]
"""What a server asks for, by keys of its own choice."""

InputResponse: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
"""The answer to one thing that a server asked for."""

InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The answers, by the keys of the questions."""


@wire(since=R2026_07_28, tag="result_type", any_of=("input_requests", "request_state"))
class InputRequiredResult(Open):
    """More is needed to answer: ask again with it. Spec: basic/patterns/mrtr (2026-07-28)

    At least one of the two members has to be there.
    """

    result_type: ClassVar[Literal["input_required"]] = "input_required"
    """Tells the kinds of result apart."""
    input_requests: InputRequests | None = None
    """What the server asks for."""
    request_state: str | None = None
    """What the client gives back unchanged."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire()
class InputResponseRequestParams(RequestParams):
    """The parameters of a request that may come with answers. Spec: basic/patterns/mrtr (2026-07-28)"""

    input_responses: InputResponses | None = field(default=None, since=R2026_07_28, refuse=True)
    """The answers to what the last result asked for."""
    request_state: str | None = field(default=None, since=R2026_07_28, refuse=True)
    """What the last result gave, unchanged."""
