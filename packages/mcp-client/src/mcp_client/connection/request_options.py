"""Options of the requests of one client view: see `Client.with_headers`, `with_meta` and `fresh`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.types import RequestParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["NOTHING", "RequestOptions"]

P = TypeVar("P")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestOptions(FieldValue):
    """The options of the requests of one client view; the defaults add nothing."""

    headers: Sequence[tuple[str, str]] = ()
    """HTTP headers, with names in lower case."""
    meta: JsonObject = attrs.field(factory=dict)
    """Members of `_meta`."""
    fresh: bool = False
    """Whether to bypass the response cache."""

    def put(self, params: P) -> P:
        """Return the parameters with the members of `meta` added. Members that they already have take precedence."""
        if not self.meta or not isinstance(params, RequestParams):
            return params
        return attrs.evolve(params, meta={**self.meta, **(params.meta or {})})


NOTHING = RequestOptions()
"""The default options, which add nothing."""
