"""Multi round-trip requests: a handler returns its input requests, and is called again with the input responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.methods import ELICITATION_CREATE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsRequestParams,
    ListRootsResult,
)
from mcp_server.errors import InvalidResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.methods import RequestMethod

__all__ = ["Answer", "ClientRequestParams", "InputRequired", "definition_of", "definitions_by_name"]

ClientRequestParams: TypeAlias = (
    ElicitRequestFormParams | ElicitRequestURLParams | CreateMessageRequestParams | ListRootsRequestParams
)
"""An input request: the parameters of the method."""

Answer: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
"""An input response: the result of the method."""

_DEFINITIONS: Final[dict[type, RequestMethod[object, object]]] = {
    ElicitRequestFormParams: ELICITATION_CREATE,
    ElicitRequestURLParams: ELICITATION_CREATE,
    CreateMessageRequestParams: SAMPLING_CREATE_MESSAGE,
    ListRootsRequestParams: ROOTS_LIST,
}

definitions_by_name: Final[dict[str, RequestMethod[object, object]]] = {
    definition.name: definition for definition in _DEFINITIONS.values()
}
"""The methods of input requests, by name."""


def definition_of(request: object) -> RequestMethod[object, object]:
    """Return the method of an input request. Raises `InvalidResult` if the class is not that of an input request."""
    definition = _DEFINITIONS.get(type(request))
    if definition is None:
        raise InvalidResult(f"{request!r:.80} in an InputRequired is not an input request")
    return definition


@attrs.frozen(eq=False, repr=False)
class InputRequired(FieldValue):
    """The result of a tool, prompt or resource function that needs input responses of the client to continue.

        @server.tool
        async def book(city: str, context: Context) -> str | InputRequired:
            answer = context.answers.get("when")
            if answer is None:
                return InputRequired({"when": ElicitRequestFormParams(message="When?", requested_schema=...)})
            return f"{city}, {answer}"

    The function is called again, with the input responses in `Context.answers` and with `state` in
    `Context.retry_state`. On 2026-07-28 the client sends the request again, possibly to another process. To a legacy
    client the server sends the input requests as ordinary requests. The function is the same in both cases. To wait in
    the middle of a function instead, see `Context.elicit`.

    Spec: basic/patterns/mrtr (2026-07-28)
    """

    input_requests: Mapping[str, ClientRequestParams]
    """The input requests, by keys that the function chooses."""
    state: JsonValue = None
    """State for the next call of the function. The client carries it sealed, and can neither read nor change it."""
