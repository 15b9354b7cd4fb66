"""One exchange over HTTP: a request goes out, and what comes back is handed over. All decisions are the core's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_client._http_errors import HttpConnectionEnded
from mcp_client._http_policy import Use
from mcp_client._http_url import parse_url
from mcp_core.errors import HttpFailure, LimitExceeded
from mcp_core.http.client import FAILURE_BYTES, Expect, Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client._call import Call
    from mcp_client._http_headers import HeaderSource
    from mcp_client._http_pool import HttpPool, HttpResponse
    from mcp_client._transport import Deliver
    from mcp_core.http.client import ClientExchange, Resume
    from mcp_core.limits import Limits

__all__ = ["Wire", "excerpt"]

_log: Final = logging.getLogger("mcp_client")

_LINGER: Final = 0.1
"""Seconds that the end of a stream is waited for behind its answer. Servers end it at once, and the connection can be
used again; for those that do not, a new connection is the lesser evil."""

_EXCERPT_SECONDS: Final = 1.0
"""Seconds that reading the beginning of an error page may take."""


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

    async def request(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | None,
        *,
        use: Use,
        extra: Sequence[tuple[str, str]] = (),
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """A plain request, with the headers of the application."""
        every = [*headers, *await self._headers.current(extra)]
        return self._pool.request(method, url, every, body, use=use)

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
        block = await self.request(exchange.method, self.url, exchange.headers(), body, use=use, extra=extra)
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
                    raise exchange.failure(await excerpt(response))
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
