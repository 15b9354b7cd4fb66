"""The next request of an HTTP client after a failed opening request, and the cache of what servers support.

A client that supports all revisions sends at most three requests: `server/discover`, `initialize`, and a GET for the
stream of HTTP+SSE. The engine decides about everything that a server sends as a JSON-RPC message
(`mcp_core.engine.negotiation`). This module decides about the rest of HTTP:

                                       for server/discover    for initialize
    401, 403                           give up                give up: credentials are required, not another protocol
    the connection failed              give up                give up: the failure is not about the protocol
    a response that is not allowed     initialize             give up: the URL is not an MCP endpoint
      (a page, an empty body, 3xx, 5xx)
    400, 404, 405, and most of 4xx     initialize             GET, expecting `endpoint`
    the stream of HTTP+SSE             initialize             GET, expecting `endpoint`
    timeout                            initialize             give up

A guess is not cached: a server that was slow to start, or whose proxy failed for a moment, may be modern
(`shows_era`).

Spec: basic/versioning#backward-compatibility, basic/transports/streamable-http#backward-compatibility (2026-07-28);
basic/transports#backwards-compatibility (legacy).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import (
    AccessDenied,
    ConnectionEnded,
    HttpFailure,
    LimitExceeded,
    RemoteProtocolError,
    RequestTimeout,
)
from mcp_core.field_methods import FieldValue
from mcp_core.jsonrpc.messages import Request
from mcp_core.methods import INITIALIZE, SERVER_DISCOVER

if TYPE_CHECKING:
    from mcp_core.errors import McpError
    from mcp_core.http.client import ClientExchange
    from mcp_core.revisions import Revision

__all__ = ["EraCache", "NegotiatedEndpoint", "Next", "neither", "next_after", "shows_era"]

_NOT_ABOUT_THE_ENDPOINT: Final = frozenset({407, 408, 421, 425, 429, 431, 451})
"""Statuses 4xx without information about the protocol: they concern a proxy, the moment, the name or the size."""


class Next(enum.Enum):
    """The next step after an opening request (`server/discover`, `initialize`) failed."""

    REFUSED = "treat the server as legacy"
    """Pass the failure to `ClientConnection.opening_refused`, and send the result: `initialize`."""
    OPEN_SSE = "try HTTP+SSE"
    """GET the same URL, and read the response with `mcp_core.http.sse_2024.SseStream`. If the server names an endpoint,
    post the same `initialize` there. Otherwise raise `neither`."""
    GIVE_UP = "give up"
    """Raise the failure."""


def next_after(exchange: ClientExchange, failure: McpError) -> Next:
    """Return the next step after an opening request failed.

    Args:
        exchange: The exchange that posted `server/discover` or `initialize`.
        failure: The failure: from `ClientExchange.failure`, `receive_body`, `receive_data` or `end`, from the
            connection, or a timeout. Errors that the server sent as a JSON-RPC message are not passed here.
    """
    message = exchange.message
    method = message.method if isinstance(message, Request) else None
    if method == SERVER_DISCOVER.name:
        return Next.REFUSED if _says_something(exchange, failure) else Next.GIVE_UP
    if method == INITIALIZE.name and isinstance(failure, HttpFailure) and not isinstance(failure, AccessDenied):
        refuses_post = 400 <= failure.status < 500 and failure.status not in _NOT_ABOUT_THE_ENDPOINT
        return Next.OPEN_SSE if refuses_post or exchange.offers_endpoint else Next.GIVE_UP
    return Next.GIVE_UP


def _says_something(exchange: ClientExchange, failure: McpError) -> bool:
    """Return whether a failed probe shows that the server is not modern."""
    if isinstance(failure, AccessDenied | LimitExceeded):
        return False
    if isinstance(failure, ConnectionEnded):
        # A complete HTTP response without a JSON-RPC response is intentional.
        return exchange.status is not None and not exchange.broken
    return isinstance(failure, HttpFailure | RemoteProtocolError | RequestTimeout)


def shows_era(failure: McpError) -> bool:
    """Return whether the failure of a probe reveals the era of the server, so that the era can be cached.

    A timeout does not: the server may be slow. Statuses 5xx and statuses that concern only the moment do not either,
    because a proxy in front of the server sends them too.

    Args:
        failure: The failure of `server/discover`, other than a JSON-RPC message.
    """
    if isinstance(failure, HttpFailure):
        return failure.status < 500 and failure.status not in _NOT_ABOUT_THE_ENDPOINT
    return isinstance(failure, RemoteProtocolError)


def neither(streamable: McpError, sse: McpError) -> McpError:
    """Return the error for a server that supports neither Streamable HTTP nor HTTP+SSE.

    Args:
        streamable: The failure of the POST of `initialize`.
        sse: The failure of the GET.

    Returns:
        An error that reports both failures: an `HttpFailure` with the status and the body of the first, if the first is
        an `HttpFailure`. If the GET shows that credentials are required, its `AccessDenied`: a retry with credentials
        may succeed.
    """
    if isinstance(sse, AccessDenied) or not isinstance(streamable, HttpFailure):
        return sse if isinstance(sse, AccessDenied) else streamable
    message = f"the server supports neither Streamable HTTP nor HTTP+SSE: {streamable.message}; {sse.message}"
    failure = HttpFailure(message, status=streamable.status, body=streamable.body)
    failure.__cause__ = sse
    return failure


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NegotiatedEndpoint(FieldValue):
    """The revision and the transport that a server supports."""

    revision: Revision
    """The negotiated revision. Only its era is relevant."""
    http_sse: bool = False
    """Whether the transport is HTTP+SSE, that of 2024-11-05."""


class EraCache:
    """A cache of the era of each server, so that a client probes a server once.

    The key is the endpoint without the query, because one origin may be a gateway to many servers. An entry is a hint
    and can be outdated. `ClientConnection.open(era=...)` probes automatically if a server rejects `initialize`. A
    caller that fails with an entry must `forget` the entry and open the connection again without it.

    Args:
        most: The maximum number of servers. When the cache is full, the least recently used entry is evicted.

    Spec: basic/versioning (2026-07-28), which requires a cache of the era for each origin.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most: Final = most
        self._known: Final[OrderedDict[str, NegotiatedEndpoint]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, url: str) -> NegotiatedEndpoint | None:
        """Return the entry of the server at `url`; `None` without an entry."""
        key = _endpoint(url)
        negotiated = self._known.get(key)
        if negotiated is not None:
            self._known.move_to_end(key)
        return negotiated

    def learn(self, url: str, negotiated: NegotiatedEndpoint) -> None:
        """Record the era of the server at `url` for the lifetime of the cache. The era must be certain, not a guess."""
        key = _endpoint(url)
        self._known[key] = negotiated
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, url: str) -> None:
        """Remove the entry of the server at `url`, which proved wrong."""
        self._known.pop(_endpoint(url), None)


def _endpoint(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]
