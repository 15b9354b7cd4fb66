"""What an HTTP client tries next when a server could not be opened, and what it remembers of those that could.

A client that speaks everything asks three times at most: `server/discover`, `initialize`, and a GET for the stream of
HTTP+SSE. Whatever a server answers as a JSON-RPC message is decided by the engine
(`mcp_core.engine.negotiation`); here is decided what the rest of HTTP means:

                                       to server/discover     to initialize
    401, 403                           give up                give up: credentials are wanted, not another protocol
    the connection failed              give up                give up: nothing was said about the protocol
    something else than is allowed     initialize             give up: it is no MCP endpoint
      (a page, an empty body, 3xx, 5xx)
    400, 404, 405, and most of 4xx     initialize             GET, expecting `endpoint`
    the stream of HTTP+SSE             initialize             GET, expecting `endpoint`
    silence                            initialize             give up

What was only guessed is not remembered: a server that was slow to start, or hidden behind a proxy without an answer for
a moment, may be a modern one (`tells_the_era`).

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
from mcp_core.jsonrpc.messages import Request
from mcp_core.methods import INITIALIZE, SERVER_DISCOVER

if TYPE_CHECKING:
    from mcp_core.errors import McpError
    from mcp_core.http.client import ClientExchange
    from mcp_core.revisions import Revision

__all__ = ["EraCache", "Next", "Spoken", "neither", "next_after", "tells_the_era"]

_NOT_ABOUT_THE_ENDPOINT: Final = frozenset({407, 408, 421, 425, 429, 431, 451})
"""Statuses of 4xx that say nothing of the protocol: about a proxy, the moment, the name or the size."""


class Next(enum.Enum):
    """What to do when an opening request (`server/discover`, `initialize`) failed."""

    REFUSED = "take the server for a legacy one"
    """Give the failure to `ClientConnection.opening_refused`, and send what it returns: `initialize`."""
    OPEN_SSE = "try HTTP+SSE"
    """GET the same URL, and read it with `mcp_core.http.sse_2024.SseStream`. When it names an endpoint, post the same
    `initialize` there. When it does not, raise `neither`."""
    GIVE_UP = "give up"
    """Raise the failure."""


def next_after(exchange: ClientExchange, failure: McpError) -> Next:
    """What to do when an opening request failed.

    Args:
        exchange: The exchange in which `server/discover` or `initialize` was posted.
        failure: What came of it: from `ClientExchange.failure`, `receive_body`, `receive_data` or `end`, from the
            connection, or a deadline. What the server said as a JSON-RPC message does not come here.
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
    """Whether a failed probe tells that the server is not a modern one."""
    if isinstance(failure, AccessDenied | LimitExceeded):
        return False
    if isinstance(failure, ConnectionEnded):
        # A response that came whole, and has no answer in it, was meant.
        return exchange.status is not None and not exchange.broken
    return isinstance(failure, HttpFailure | RemoteProtocolError | RequestTimeout)


def tells_the_era(failure: McpError) -> bool:
    """Whether the failure of a probe shows what the server speaks, so that it may be remembered.

    Silence does not: the server was slow, perhaps. Nor do the statuses of 5xx, and those about the moment, which come
    from whatever stands before the server as well.

    Args:
        failure: What came of `server/discover`, where it was no message.
    """
    if isinstance(failure, HttpFailure):
        return failure.status < 500 and failure.status not in _NOT_ABOUT_THE_ENDPOINT
    return isinstance(failure, RemoteProtocolError)


def neither(streamable: McpError, sse: McpError) -> McpError:
    """The error for a server that speaks neither Streamable HTTP nor HTTP+SSE.

    Args:
        streamable: What the POST of `initialize` came to.
        sse: What the GET came to.

    Returns:
        One that tells both; `HttpFailure` with the status and the body of the first, if it was one. When the GET shows
        that credentials are wanted, that is the error: with them there may be an answer.
    """
    if isinstance(sse, AccessDenied) or not isinstance(streamable, HttpFailure):
        return sse if isinstance(sse, AccessDenied) else streamable
    message = f"neither Streamable HTTP nor HTTP+SSE is spoken here: {streamable.message}; {sse.message}"
    failure = HttpFailure(message, status=streamable.status, body=streamable.body)
    failure.__cause__ = sse
    return failure


@attrs.frozen(kw_only=True)
class Spoken:
    """How a server is spoken to."""

    revision: Revision
    """The revision that was agreed on. Its era is what matters."""
    http_sse: bool = False
    """Whether over HTTP+SSE, the transport of 2024-11-05."""


class EraCache:
    """What servers speak, so that each is probed once.

    A server is known by its endpoint, without the query: behind one origin may be a gateway to many. An entry is a
    hint, and may have become wrong: `ClientConnection.open(era=...)` probes by itself when a server refuses
    `initialize`; whoever fails with the help of an entry should `forget` it, and open once more without.

    Args:
        most: How many servers are remembered. With more, the one that was not used for longest is forgotten.

    Spec: basic/versioning (2026-07-28), which wants the era cached for each origin.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most: Final = most
        self._known: Final[OrderedDict[str, Spoken]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, url: str) -> Spoken | None:
        """What is known of the server at `url`."""
        key = _endpoint(url)
        spoken = self._known.get(key)
        if spoken is not None:
            self._known.move_to_end(key)
        return spoken

    def learn(self, url: str, spoken: Spoken) -> None:
        """Takes down what the server at `url` speaks, for as long as this cache lives: it has to be certain."""
        key = _endpoint(url)
        self._known[key] = spoken
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, url: str) -> None:
        """What was known of the server at `url` turned out to be wrong."""
        self._known.pop(_endpoint(url), None)


def _endpoint(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]
