"""Asking the client by hand: a handler returns its questions, and is called again with the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

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
    from mcp_core.methods import Method

__all__ = ["Answer", "InputRequired", "Question", "row_of", "rows_by_name"]

Question: TypeAlias = (
    ElicitRequestFormParams | ElicitRequestURLParams | CreateMessageRequestParams | ListRootsRequestParams
)
"""What the client can be asked: the parameters of the method."""

Answer: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
"""What the client says to that."""

_ROWS: Final[dict[type, Method[object, object]]] = {
    ElicitRequestFormParams: ELICITATION_CREATE,
    ElicitRequestURLParams: ELICITATION_CREATE,
    CreateMessageRequestParams: SAMPLING_CREATE_MESSAGE,
    ListRootsRequestParams: ROOTS_LIST,
}

rows_by_name: Final[dict[str, Method[object, object]]] = {row.name: row for row in _ROWS.values()}
"""The methods by which a client is asked."""


def row_of(question: object) -> Method[object, object]:
    """The method of a question. Raises `InvalidResult` when it is none."""
    row = _ROWS.get(type(question))
    if row is None:
        raise InvalidResult(f"{question!r:.80} in an InputRequired is no question to a client")
    return row


@attrs.frozen
class InputRequired:
    """Returned by the function of a tool, prompt or resource: it needs answers of the client before it can go on.

        @server.tool
        async def book(city: str, context: Context) -> str | InputRequired:
            answer = context.answers.get("when")
            if answer is None:
                return InputRequired({"when": ElicitRequestFormParams(message="When?", requested_schema=...)})
            return f"{city}, {answer}"

    The function is called again, once, with the answers in `Context.answers`, and with `state` in `Context.round_state`. In
    2026-07-28 that is another request of the client, which may reach another process; with a legacy client the questions
    are requests. Either way the function is the same. To wait in the middle of a function instead, see `Context.elicit`.

    Spec: basic/patterns/mrtr (2026-07-28)
    """

    questions: Mapping[str, Question]
    """What to ask, by keys of the function's own choice."""
    state: JsonValue = None
    """What it wants to know when it is called again. The client carries it, sealed, and can neither read nor change it."""
