"""Which HTTP status an answer has.

On 2026-07-28 the status repeats what the error says: by it a client tells a method that does not exist from an endpoint
that does not, and middlemen see failures. For the errors of handlers the specification leaves the status open, and they
have 200 as results do: a client that looks at the status first would otherwise take an unknown resource for a broken
server.

Before, an error is an answer like any other, and has 200. Clients of those revisions do not read the body of a 4xx
answer: whoever asked would wait until a deadline passes. Only an error that answers no request in particular has 400.

What never became a request is refused before it comes to an answer; see `mcp_core.http.server.Refusal`.

Spec: basic/transports/streamable-http (2026-07-28), basic/transports#sending-messages-to-the-server (legacy)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import ErrorCode
from mcp_core.jsonrpc.messages import ErrorResponse
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import Batch, Message

__all__ = ["status_of"]

_OK: Final = 200
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404

_MODERN: Final[Mapping[int, int]] = {
    ErrorCode.PARSE_ERROR: _BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: _BAD_REQUEST,
    ErrorCode.METHOD_NOT_FOUND: _NOT_FOUND,
    ErrorCode.HEADER_MISMATCH: _BAD_REQUEST,
    ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY: _BAD_REQUEST,
    ErrorCode.UNSUPPORTED_PROTOCOL_VERSION: _BAD_REQUEST,
}
"""The status of each error code on 2026-07-28; 200 for all others."""

_MODERN_REFUSED: Final[Mapping[int, int]] = {**_MODERN, ErrorCode.INVALID_PARAMS: _BAD_REQUEST}
"""The same for what the engine refuses. A missing member of `_meta` has the code that an unknown tool has too, but must
have status 400: who found the fault tells them apart."""


def status_of(message: Message | Batch, era: Era, *, refused: bool = False) -> int:
    """The status of the response that has `message` as its body.

    Args:
        message: The answer to a request, or the joined answers to a batch.
        era: The era of what is answered: `Post.era`.
        refused: Whether the engine refused the request before a handler saw it.

    Returns:
        200, 400 or 404.
    """
    if type(message) is not ErrorResponse:
        return _OK
    if era is Era.LEGACY:
        return _BAD_REQUEST if message.id is None else _OK
    return (_MODERN_REFUSED if refused else _MODERN).get(message.error.code, _OK)
