"""HTTP exchanges: send a request, and deliver the messages of its response. The core makes all decisions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.connection.pausable_deadlines import PausableDeadlines
from mcp_client.transports.http.authorized_request import AuthorizedRequest, check_no_credentials, excerpt, operation_of
from mcp_core.errors import AccessDenied
from mcp_core.http.client import Expect, Lost
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.pool_policy import Use
from mcp_core.trio.http_client.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from mcp_client.connection.channel import Deliver
    from mcp_client.connection.message_observer import MessageObserver
    from mcp_client.connection.pending_request import PendingRequest
    from mcp_client.connection.request_headers import HeaderSource
    from mcp_client.transports.http.authorizer import Authorizer
    from mcp_core.errors import TransportError
    from mcp_core.http.client import ClientExchange, Resume
    from mcp_core.limits import Limits
    from mcp_core.trio.http_client.pool import HttpPool, PooledResponse

__all__ = ["Wire"]

_log: Final = logging.getLogger("mcp_client")

_LINGER: Final = 0.1
"""Time to wait for the end of a stream after its response, in seconds. Servers end the stream at once, so the
connection can be reused. For the other servers a new connection costs less than a longer wait."""


class Wire:
    """A runner of HTTP exchanges with one server.

    Args:
        url: The endpoint of the server.
        pool: The connections.
        limits: The limits.
        headers: The headers of the application.
        observer: Observes the messages; `None` for no observation.
    """

    def __init__(
        self,
        url: str,
        pool: HttpPool,
        limits: Limits,
        headers: HeaderSource,
        observer: MessageObserver | None = None,
    ) -> None:
        self.url: Final = url
        self.shown: Final = parse_url(url).shown
        self.limits: Final = limits
        self._pool: Final = pool
        self._headers: Final = headers
        self.observer: Final = observer
        self.authorizer: Authorizer | None = None
        """The source of credentials; `None` if only the headers of the application contain credentials."""
        self.pausable_deadlines: PausableDeadlines = PausableDeadlines(lambda: None)
        """The deadlines of the connection that uses this object."""

    def waiting(self) -> AbstractContextManager[None]:
        """Return a block that waits for the user: the deadlines of the connection pause."""
        return self.pausable_deadlines.pause()

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
    ) -> AbstractAsyncContextManager[PooledResponse]:
        """Return a request with the headers of the application and its credentials. The request is sent in its block.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers of the protocol.
            body: The body.
            use: The purpose of the connection.
            extra: Headers of the application for this request only.
            operation: The operation, if the body is a message; `None` for the HTTP method.
            awaited: Whether a caller waits for the response.

        Raises:
            LocalProtocolError: The application sets a header that the authorizer sets too.
        """
        headers_given = self._headers
        given = headers_given.fixed if headers_given.is_fixed and not extra else await headers_given.current(extra)
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
        call: PendingRequest | None = None,
        extra: Sequence[tuple[str, str]] = (),
        use: Use = Use.CALL,
        on_stream: Callable[[], None] | None = None,
    ) -> Resume | None:
        """Run an exchange to its end.

        Args:
            exchange: The request, and the parser of its response.
            deliver: Receives each message of the response.
            call: The pending request; it shows its progress, and reports when it needs no more messages.
            extra: Headers for this request only.
            use: The purpose of the connection.
            on_stream: Called when the response is a stream.

        Returns:
            How to resume the stream, if the stream broke and can be resumed; `None` if no response is outstanding.

        Raises:
            TransportError, LimitExceeded, RemoteProtocolError: The exchange failed.
        """
        body = exchange.body()
        if self.observer is not None:
            deliver = self.observer.observing(deliver, body)
        operation = None if self.authorizer is None else operation_of(exchange.message)
        block = await self.request(
            exchange.method,
            self.url,
            exchange.headers(),
            body,
            use=use,
            extra=extra,
            operation=operation,
            # No caller waits for the standalone stream.
            awaited=call is not None or exchange.message is not None,
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
                # Before the head of the response, the connection's own error is the most precise one.
                raise
            ended = error
        finally:
            for note in exchange.notes:
                _log.debug("tolerated deviation: server=%s deviation=%s", self.shown, note)
        if call is not None and call.ended:
            return None
        ending = exchange.end(ended is not None)
        if isinstance(ending, Lost):
            raise ending.error from ended
        return ending

    def advised(self, failure: TransportError) -> TransportError:
        """Return the failure of an exchange. For a 401 without an authorizer, add advice on `auth=` to the message."""
        if isinstance(failure, AccessDenied) and failure.status == 401 and self.authorizer is None:
            failure.message += "; to log in, pass auth=OAuth(...) of mcp_client.auth to open_http"
        return failure

    async def _follow(
        self, response: PooledResponse, exchange: ClientExchange, deliver: Deliver, call: PendingRequest | None
    ) -> None:
        """Read a stream until its end, or for a short time after the response."""
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
