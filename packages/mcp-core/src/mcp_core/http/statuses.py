"""HTTP status of the response to a message.

In 2026-07-28 the status repeats the error code. With it a client distinguishes an unknown method from an unknown
endpoint, and intermediaries recognize failures. For the errors of handlers the specification does not define the
status. They have 200, like results, because a client that reads the status first would treat an unknown resource as a
broken server.

In earlier revisions an error is a response like any other, and has 200. Clients of those revisions do not read the body
of a 4xx response, so the caller would wait until its timeout. Only an error without the id of a request has 400.

A message that never became a request is rejected earlier; see `mcp_core.http.server.Rejection`.

Spec: basic/transports/streamable-http (2026-07-28), basic/transports#sending-messages-to-the-server (legacy)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import ErrorCode
from mcp_core.jsonrpc.messages import ErrorResponse
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.codec import Batch
    from mcp_core.jsonrpc.messages import Message

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
"""The status of each error code in 2026-07-28; 200 for all other codes."""

_MODERN_REFUSED: Final[Mapping[int, int]] = {**_MODERN, ErrorCode.INVALID_PARAMS: _BAD_REQUEST}
"""The same for errors of the engine. A missing member of `_meta` has the same code as an unknown tool, but must have
status 400. The origin of the error distinguishes the two."""


def status_of(message: Message | Batch, era: Era, *, refused: bool = False) -> int:
    """Return the status of the response with `message` as its body.

    Args:
        message: The response to a request, or the joined responses to a batch.
        era: The era of the request: `Post.era`.
        refused: Whether the engine rejected the request before a handler received it.

    Returns:
        200, 400 or 404.
    """
    if type(message) is not ErrorResponse:
        return _OK
    if era is Era.LEGACY:
        return _BAD_REQUEST if message.id is None else _OK
    return (_MODERN_REFUSED if refused else _MODERN).get(message.error.code, _OK)
