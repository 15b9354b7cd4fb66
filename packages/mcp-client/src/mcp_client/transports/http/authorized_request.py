"""A request with credentials, which is repeated when the server rejects it and new credentials are available."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_client.transports.http.authorizer import ObservedResponse
from mcp_core.errors import HttpFailure, LimitExceeded, LocalProtocolError
from mcp_core.http.client import FAILURE_BYTES
from mcp_core.http.routing_headers import NAME_PARAMS
from mcp_core.jsonrpc.messages import Notification, Request
from mcp_core.trio.http_client.errors import HttpConnectionEnded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from mcp_client.transports.http.authorizer import Authorizer
    from mcp_core.codec import Batch
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.trio.http_client.pool import HttpPool, PooledRequest, PooledResponse
    from mcp_core.trio.http_client.pool_policy import Use

__all__ = ["AuthorizedRequest", "check_no_credentials", "excerpt", "operation_of"]

_REPEATS: Final = 6
"""Maximum number of repetitions of a request. A first token, two tokens with more scopes and a nonce for each need
five."""

_EXCERPT_SECONDS: Final = 1.0
"""Time to read the start of an error page, in seconds."""

_CREDENTIALS: Final = frozenset({"authorization", "dpop"})
"""Headers that an authorizer sets."""


class AuthorizedRequest:
    """A request that is sent when its block is entered, like the result of `HttpPool.request`.

    Args:
        pool: The connections.
        authorizer: The source of the credentials.
        method: The HTTP method.
        url: The URL.
        headers: All headers except the credentials.
        body: The body.
        use: The purpose of the connection.
        operation: The operation, for example `tools/call forecast`.
        awaited: Whether a caller waits for the response.
    """

    __slots__ = (
        "_authorizer",
        "_awaited",
        "_block",
        "_body",
        "_headers",
        "_method",
        "_operation",
        "_pool",
        "_url",
        "_use",
    )

    def __init__(
        self,
        pool: HttpPool,
        authorizer: Authorizer,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        *,
        body: bytes | None,
        use: Use,
        operation: str,
        awaited: bool,
    ) -> None:
        self._pool = pool
        self._authorizer = authorizer
        self._method = method
        self._url = url
        self._headers = headers
        self._body = body
        self._use = use
        self._operation = operation
        self._awaited = awaited
        self._block: PooledRequest | None = None

    async def __aenter__(self) -> PooledResponse:
        authorizer, repeats = self._authorizer, 0
        while True:
            # Requested for each attempt, because a DPoP proof may be sent only once.
            own = await authorizer.headers(self._method, self._url)
            block = self._pool.request(self._method, self._url, [*self._headers, *own], self._body, use=self._use)
            response = await block.__aenter__()
            self._block = block
            try:
                answer = ObservedResponse(
                    method=self._method,
                    url=self._url,
                    sent=own,
                    status=response.head.status,
                    headers=tuple(response.head.headers),
                    operation=self._operation,
                    awaited=self._awaited,
                    repeats=repeats,
                )
                if not authorizer.answered(answer) or repeats == _REPEATS:
                    return response
                # A connection can be reused only after its response was read.
                await excerpt(response)
            except BaseException:
                response.leave()
                raise
            # Release the connection before a renewal that may wait for the user.
            response.leave()
            await authorizer.renew(answer)
            repeats += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._block is not None:
            await self._block.__aexit__(kind, value, traceback)


def check_no_credentials(headers: Iterable[tuple[str, str]]) -> None:
    """Check that the headers of the application do not contain a header that an authorizer sets.

    Raises:
        LocalProtocolError: They contain one.
    """
    for name, _ in headers:
        if name in _CREDENTIALS:
            raise LocalProtocolError(
                f"the application sets the header {name!r} in headers= or with_headers, and auth= sets it too: "
                "remove one of them"
            )


def operation_of(message: Message | Batch | None) -> str | None:
    """Return the operation of a message, for example `tools/call forecast`; `None` if the message has no method."""
    if isinstance(message, Notification):
        return message.method
    if not isinstance(message, Request):
        return None
    name = None if message.params is None else message.params.get(NAME_PARAMS.get(message.method, ""))
    return f"{message.method} {name}" if isinstance(name, str) else message.method


async def excerpt(response: PooledResponse) -> bytes:
    """Return the start of a body that is not a protocol message, as far as it arrives within a short time."""
    data = b""
    with trio.move_on_after(_EXCERPT_SECONDS):
        try:
            while len(data) < FAILURE_BYTES and (more := await response.receive_some()):
                data += more
        except (HttpConnectionEnded, HttpFailure, LimitExceeded):
            # Truncated, compressed or too long: the excerpt is optional.
            pass
    return data[:FAILURE_BYTES]
