"""What one view of a connection adds to its requests: see `Client.with_headers`, `with_meta` and `fresh`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from mcp_core.types import RequestParams, evolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["NOTHING", "Extras"]

P = TypeVar("P")


@attrs.frozen(kw_only=True)
class Extras:
    """Nothing at all, at first."""

    headers: Sequence[tuple[str, str]] = ()
    """HTTP headers; names in lower case."""
    meta: JsonObject = attrs.field(factory=dict)
    """Members of `_meta`."""
    fresh: bool = False
    """Nothing is answered from the cache."""

    def put(self, params: P) -> P:
        """The parameters with the members of `_meta`. What they have themselves stays."""
        if not self.meta or not isinstance(params, RequestParams):
            return params
        return evolve(params, meta={**self.meta, **(params.meta or {})})


NOTHING = Extras()
"""What a client adds of itself."""
