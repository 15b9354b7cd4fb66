"""One exchange over HTTP: a request goes out, and what comes back is handed over. All decisions are the core's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.connection.pausable_deadlines import Patience
from mcp_client.http_client.errors import HttpConnectionEnded
from mcp_client.http_client.pool_policy import Use
from mcp_client.http_client.url import parse_url
from mcp_client.transports.http.authorized_request import AuthorizedRequest, check_no_credentials, excerpt, operation_of
from mcp_core.errors import AccessDenied
from mcp_core.http.client import Expect, Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from mcp_client.connection.pending_request import Call
    from mcp_client.connection.request_headers import HeaderSource
    from mcp_client.connection.transport import Deliver
    from mcp_client.http_client.pool import HttpPool, HttpResponse
    from mcp_client.transports.http.authorizer import Authorizer
    from mcp_core.errors import TransportError
    from mcp_core.http.client import ClientExchange, Resume
    from mcp_core.limits import Limits

__all__ = ["Wire"]

_log: Final = logging.getLogger("mcp_client")

_LINGER: Final = 0.1
"""Seconds that the end of a stream is waited for behind its answer. Servers end it at once, and the connection can be
used again; for those that do not, a new connection is the lesser evil."""


class Wire:
    """Exchanges with one server.

    Args:
        url: Its endpoint.
        pool: The connections.
        limits: The bounds that hold here.
        headers: What the application adds.
    """

    def __init__(self, url: str, pool: HttpPool, limits: Limits, headers: HeaderSource) -> None:
        self.url: Final = url
        self.shown: Final = parse_url(url).shown
        self.limits: Final = limits
        self._pool: Final = pool
        self._headers: Final = headers
        self.authorizer: Authorizer | None = None
        """What gives requests their credentials, if not the headers of the application do."""
        self.patience = Patience(lambda _: None)
        """The time of the connection that this is used by."""

    def waiting(self) -> AbstractContextManager[None]:
        """In the block somebody waits for a person: the deadlines of the connection stand still."""
        return self.patience.waiting()

    async def request(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | None,
        *,
        use: Use,
        extra: Sequence[tuple[str, str]] = (),
        operation: str | None = None,
        awaited: bool = True,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """A plain request, with the headers of the application and its credentials.

        Args:
            method: Its method.
            url: Where it goes.
            headers: Those of the protocol.
            body: Its body.
            use: What the connection is held for.
            extra: Headers of the application for this request alone.
            operation: What it is for, where that is a message; `None`: the method says it.
            awaited: Whether somebody waits for it.
        """
        given = await self._headers.current(extra)
        every = [*headers, *given]
        if self.authorizer is None:
            return self._pool.request(method, url, every, body, use=use)
        check_no_credentials(given)
        return AuthorizedRequest(
            self._pool,
            self.authorizer,
            method,
            url,
            every,
            body=body,
            use=use,
            operation=operation or method,
            awaited=awaited,
        )

    async def exchange(
        self,
        exchange: ClientExchange,
        deliver: Deliver,
        *,
        call: Call | None = None,
        extra: Sequence[tuple[str, str]] = (),
        use: Use = Use.CALL,
        on_stream: Callable[[], None] | None = None,
    ) -> Resume | None:
        """Does a whole exchange.

        Args:
            exchange: What is sent, and what is made of what comes.
            deliver: Takes what comes.
            call: Whom it is for: it shows its progress, and says when nothing more is needed.
            extra: Headers for this request alone.
            use: What the connection is held for.
            on_stream: Is called when the answer turns out to be a stream.

        Returns:
            How to fetch the rest, when the stream broke and that is possible. `None`: nothing is outstanding.

        Raises:
            TransportError, LimitExceeded, RemoteProtocolError: The answer cannot be had.
        """
        body = exchange.body()
        operation = None if self.authorizer is None else operation_of(exchange.message)
        block = await self.request(
            exchange.method,
            self.url,
            exchange.headers(),
            body,
            use=use,
            extra=extra,
            operation=operation,
            # The standing stream is nobody's.
            awaited=exchange.message is not None or call is not None,
        )
        ended: HttpConnectionEnded | None = None
        try:
            async with block as response:
                expect = exchange.receive_head(response.head)
                if expect is Expect.STREAM:
                    if on_stream is not None:
                        on_stream()
                    await self._follow(response, exchange, deliver, call)
                elif expect is Expect.MESSAGE:
                    for message in exchange.receive_body(await response.read(self.limits.message_bytes)):
                        deliver(message)
                elif expect is Expect.TEXT:
                    raise self.advised(exchange.failure(await excerpt(response)))
        except HttpConnectionEnded as error:
            if exchange.status is None:
                # Whoever could not connect knows best why.
                raise
            ended = error
        finally:
            for note in exchange.notes:
                _log.debug("survived, from %s: %s", self.shown, note)
        if call is not None and call.ended:
            return None
        ending = exchange.end(ended is not None)
        if isinstance(ending, Lost):
            raise ending.error from ended
        return ending

    def advised(self, failure: TransportError) -> TransportError:
        """The failure of an exchange; a refusal says what can be done where nothing was set."""
        if isinstance(failure, AccessDenied) and failure.status == 401 and self.authorizer is None:
            failure.message += "; open_http(..., auth=OAuth(...)) of mcp_client.auth gets a token where one can be had"
        return failure

    async def _follow(
        self, response: HttpResponse, exchange: ClientExchange, deliver: Deliver, call: Call | None
    ) -> None:
        """Reads a stream until its end, or a little beyond the answer."""
        while data := await response.receive_some():
            for message in exchange.receive_data(data):
                deliver(message)
            if call is not None:
                await call.show()
            if exchange.answered if call is None else call.ended:
                break
        else:
            for message in exchange.receive_data(b""):
                deliver(message)
            return
        with trio.move_on_after(_LINGER):
            while data := await response.receive_some():
                for message in exchange.receive_data(data):
                    deliver(message)
