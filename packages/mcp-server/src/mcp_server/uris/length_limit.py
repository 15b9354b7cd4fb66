"""A limit on the length of the URIs in requests.

A URI is matched with all templates, so a longer URI is rejected before any further processing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import ErrorCode, LimitExceeded, RequestFailed
from mcp_core.types import (
    CompleteRequestParams,
    ReadResourceRequestParams,
    ResourceTemplateReference,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from mcp_core.types.skills import GetSkillRequestParams, ReadResourceDirectoryRequestParams
from mcp_server.uris.matcher import check_length

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WITH_URIS", "check_uris"]

_ONE_URI: Final = (
    ReadResourceRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
    GetSkillRequestParams,
    ReadResourceDirectoryRequestParams,
)

WITH_URIS: Final = frozenset({*_ONE_URI, CompleteRequestParams, SubscriptionsListenRequestParams})
"""The classes of parameters in which a client names URIs."""


def check_uris(params: object) -> None:
    """Reject a request with a URI that exceeds the limit on length.

    Args:
        params: The parameters of a request, of one of the classes `WITH_URIS`.

    Raises:
        RequestFailed: A URI is too long. The error (-32602) states the limit.
    """
    for uri in _uris(params):
        try:
            check_length(uri)
        except LimitExceeded as limit:
            raise RequestFailed(f"invalid params: {limit.message}", code=ErrorCode.INVALID_PARAMS) from limit


def _uris(params: object) -> Sequence[str]:
    match params:
        case SubscriptionsListenRequestParams():
            return params.notifications.resource_subscriptions or ()
        case CompleteRequestParams(ref=ResourceTemplateReference() as ref):
            return (ref.uri,)
        case _ if isinstance(params, _ONE_URI):
            return (params.uri,)
        case _:
            return ()
