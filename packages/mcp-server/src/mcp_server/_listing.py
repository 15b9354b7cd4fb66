"""The answers to `tools/list` and its like: encoded once for each revision, and again when something changes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import orjson

from mcp_core.convert import converter
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.jsonrpc.text import write
from mcp_core.types import PaginatedRequestParams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision
    from mcp_core.types import CacheableResult, WireObject
    from mcp_server._answering import Call

__all__ = ["Listing", "unknown"]


class Listing:
    """All things of one kind that a server has.

    Args:
        empty: The result without any of them.
        values: All of them, in the order in which they are listed.
    """

    def __init__(self, empty: CacheableResult, values: Callable[[], Iterable[WireObject]]) -> None:
        self._empty: Final = empty
        self._values: Final = values
        self._encoded: Final[dict[Revision, JsonObject]] = {}

    def changed(self) -> None:
        """What was encoded is no longer true."""
        self._encoded.clear()

    async def answer(self, call: Call) -> JsonObject:
        """The result of a list request, in its wire form.

        Raises:
            RequestFailed: It comes with a cursor; none was ever given out.
        """
        request = call.request
        if isinstance(request.params, PaginatedRequestParams) and request.params.cursor is not None:
            raise RequestFailed("invalid params: cursor is none of this server's", code=ErrorCode.INVALID_PARAMS)
        revision = request.peer.revision
        result = self._encoded.get(revision)
        if result is None:
            result = self._encoded[revision] = self._encode(revision)
        return result

    def _encode(self, revision: Revision) -> JsonObject:
        convert = converter(revision)
        result = convert.unstructure(self._empty)
        encoded = write([convert.unstructure(value) for value in self._values()])
        member = next(name for name, value in result.items() if value == [])
        result[member] = orjson.Fragment(encoded)  # type: ignore[assignment]  # stands for the JSON in it
        return result


_LOOKED_THROUGH: Final = 1_000
"""How many names are searched for one that may have been meant, and how long the given one may be for it."""


def unknown(what: str, name: str, known: Collection[str]) -> RequestFailed:
    """The error for a name that does not exist, with the closest one that does."""
    near: list[str] = []
    if len(known) <= _LOOKED_THROUGH and len(name) <= _LOOKED_THROUGH:
        near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return RequestFailed(f"unknown {what}: {name[:_LOOKED_THROUGH]!r}{hint}", code=ErrorCode.INVALID_PARAMS)
