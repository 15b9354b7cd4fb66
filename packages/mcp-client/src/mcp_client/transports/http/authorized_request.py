"""A request with credentials: it is made again when it was refused and there is something new to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_client.http_client.errors import HttpConnectionEnded
from mcp_client.transports.http.authorizer import Answered
from mcp_core.errors import HttpFailure, LimitExceeded, LocalProtocolError
from mcp_core.http.client import FAILURE_BYTES
from mcp_core.http.routing_headers import NAME_PARAMS
from mcp_core.jsonrpc.messages import Notification, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from mcp_client.http_client.pool import HttpExchange, HttpPool, HttpResponse
    from mcp_client.http_client.pool_policy import Use
    from mcp_client.transports.http.authorizer import Authorizer
    from mcp_core.jsonrpc.messages import Batch, Message

__all__ = ["AuthorizedRequest", "check_no_credentials", "excerpt", "operation_of"]

_REPEATS: Final = 6
"""How often one request is made again. A first token, two more with more scopes, and a nonce for each are five."""

_EXCERPT_SECONDS: Final = 1.0
"""Seconds that reading the beginning of an error page may take."""

_CREDENTIALS: Final = frozenset({"authorization", "dpop"})
"""Headers that an authorizer gives."""


class AuthorizedRequest:
    """A request that is made when its block is entered, as `HttpPool.request` makes it.

    Args:
        pool: The connections.
        authorizer: Gives the credentials.
        method: Its method.
        url: Where it goes.
        headers: All other headers.
        body: Its body.
        use: What the connection is held for.
        operation: What it is for.
        awaited: Whether somebody waits for it.
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
        self._block: HttpExchange | None = None

    async def __aenter__(self) -> HttpResponse:
        authorizer, repeats = self._authorizer, 0
        while True:
            # Asked for anew each time: a proof may be sent once only.
            own = await authorizer.headers(self._method, self._url)
            block = self._pool.request(self._method, self._url, [*self._headers, *own], self._body, use=self._use)
            response = await block.__aenter__()
            self._block = block
            try:
                answer = Answered(
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
                # With its body read, the connection can be used again.
                await excerpt(response)
            except BaseException:
                response.leave()
                raise
            # Nobody waits for a person with a connection in his hands.
            response.leave()
            await authorizer.renew(answer)
            repeats += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._block is not None:
            await self._block.__aexit__(kind, value, traceback)


def check_no_credentials(headers: Iterable[tuple[str, str]]) -> None:
    """Makes sure that the application does not give what an authorizer gives.

    Raises:
        LocalProtocolError: It does.
    """
    for name, _ in headers:
        if name in _CREDENTIALS:
            raise LocalProtocolError(
                f"the header {name!r} is given by the application, in headers= or with_headers, and by auth= as well: "
                "there can be one of them"
            )


def operation_of(message: Message | Batch | None) -> str | None:
    """What a message asks for, as `tools/call forecast`; `None` for what asks for nothing by name."""
    if isinstance(message, Notification):
        return message.method
    if not isinstance(message, Request):
        return None
    name = None if message.params is None else message.params.get(NAME_PARAMS.get(message.method, ""))
    return f"{message.method} {name}" if isinstance(name, str) else message.method


async def excerpt(response: HttpResponse) -> bytes:
    """The beginning of a body that is no answer of the protocol, as far as it comes soon."""
    data = b""
    with trio.move_on_after(_EXCERPT_SECONDS):
        try:
            while len(data) < FAILURE_BYTES and (more := await response.receive_some()):
                data += more
        except (HttpConnectionEnded, HttpFailure, LimitExceeded):
            # Cut off, compressed, or too wild: what it says is not needed.
            pass
    return data[:FAILURE_BYTES]
