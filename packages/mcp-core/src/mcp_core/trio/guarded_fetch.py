"""Requests to URLs from untrusted peers: metadata of authorization servers, keys, documents of clients.

To prevent server-side request forgery, this module resolves each host name itself, once for each connection. Every
address must be in an allowed class, and the connection goes to one of exactly these addresses. TLS still checks the
host name. Further limits: the time and the length of each response, one redirect within the origin and only for a GET,
no cookies, no tokens, and no client certificate except for the origin of one server.

A proxy resolves host names itself, and its rules decide what it can reach. Then this module checks no addresses.

The caller checks each URL with `mcp_core.oauth.urls.check_peer_url`, which covers hosts that need no resolution.

Spec: basic/security_best_practices#server-side-request-forgery
"""

from __future__ import annotations

import ipaddress
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlencode, urljoin

import attrs
import orjson
import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError, RequestTimeout, TransportError, UnsafeUrl
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.oauth.addresses import classify
from mcp_core.oauth.steps import FetchedResponse, FetchJson, PostForm, Unreachable
from mcp_core.oauth.urls import check_redirect, parse_url, same_origin
from mcp_core.trio.http_client.pool import HttpPool
from mcp_core.trio.http_client.pool_policy import Use
from mcp_core.trio.http_client.proxy import Proxies
from mcp_core.trio.http_client.tls import Tls
from mcp_core.trio.http_client.url import parse_url as parse_http_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from mcp_core.limits import Limits
    from mcp_core.oauth.addresses import Address, AddressClass
    from mcp_core.oauth.steps import Pairs, Request
    from mcp_core.oauth.urls import Url
    from mcp_core.trio.http_client.pool import PooledResponse

__all__ = ["FETCH_BYTES", "FETCH_SECONDS", "GuardedFetch", "resolve_addresses"]

FETCH_SECONDS: Final = 5.0
"""Time for one response, from name resolution to the end of the body, in seconds."""

FETCH_BYTES: Final = 256 * 1024
"""Maximum length of a response, in bytes. Real documents have a few KiB."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_MOST_ADDRESSES: Final = 8
"""Maximum number of addresses of a name that are tried. Only the largest services have more, and any of them works."""


async def resolve_addresses(host: str, port: int) -> tuple[Address, ...]:
    """Return all addresses of a name, in the order in which the system prefers them. Raises `OSError`."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ipaddress.ip_address(str(where[0])) for *_, where in found))


class GuardedFetch:
    """A sender of requests to URLs from peers. Close it after use.

    Args:
        networks: The classes of addresses that may be reached.
        server: The server that the URLs belong to. Only its origin receives the client certificate of `tls`.
        addresses: The addresses of the server if `networks` was derived from them. Its name is not resolved again.
        tls: As in `HttpPool`.
        proxies: As in `HttpPool`.
        limits: As in `HttpPool`.
        agent: The value of `User-Agent` in requests that have none. Some gateways reject requests without one.
        seconds: Maximum time for one response, in seconds.
        limit: Maximum length of a response body, in bytes.
    """

    def __init__(
        self,
        networks: frozenset[AddressClass],
        *,
        server: Url | None = None,
        addresses: Sequence[Address] = (),
        tls: ssl.SSLContext | Tls | None = None,
        proxies: Mapping[str, str] | Literal[False] | None = False,
        limits: Limits = CLIENT_LIMITS,
        agent: str | None = None,
        seconds: float = FETCH_SECONDS,
        limit: int = FETCH_BYTES,
    ) -> None:
        self.networks: Final = networks
        """The classes of addresses that may be reached."""
        self._server: Final = server
        self._addresses: Final = tuple(addresses)
        self._tls: Final = tls
        self._proxy_settings: Final = proxies
        self._proxies: Final = Proxies(proxies, os.environ)
        self._limits: Final = limits
        self._agent: Final = agent
        self._seconds: Final = seconds
        self._limit: Final = limit
        self._pools: Final[dict[tuple[bool, bool], HttpPool]] = {}

    async def perform(self, step: Request) -> FetchedResponse | Unreachable:
        """Send the request of a step. The result is that of `request`."""
        if isinstance(step, FetchJson):
            return await self.request("GET", step.url, step.headers)
        if isinstance(step, PostForm):
            body = urlencode(step.form).encode()
            return await self.request("POST", step.url, step.headers, body, configured=step.configured)
        return await self.request("POST", step.url, step.headers, orjson.dumps(step.document))

    async def request(
        self,
        method: str,
        url: str,
        headers: Pairs = (),
        body: bytes | None = None,
        *,
        configured: bool = False,
        redirects: bool = True,
    ) -> FetchedResponse | Unreachable:
        """Send a request. Every failure is returned as `Unreachable`; the function does not raise.

        Args:
            method: The HTTP method. Only a GET follows a redirect.
            url: The URL.
            headers: The headers, without those of the connection.
            body: The body; `None` for a request without a body.
            configured: Whether the URL comes from the application, not from a peer. Then any address may be reached.
            redirects: Whether a GET follows a redirect. If not, a redirect is returned like any other response.

        Returns:
            The response, whatever its status. A body that exceeds the limit is truncated, and still exceeds the limit.
        """
        try:
            with trio.move_on_after(self._seconds):
                follow = redirects and method == "GET"
                return await self._follow(method, url, headers, body, configured=configured, follow=follow)
        except (TransportError, RequestTimeout, LimitExceeded, LocalProtocolError, UnsafeUrl) as error:
            return Unreachable(reason=error.message)
        return Unreachable(reason=f"no complete response within {self._seconds:g} seconds")

    async def aclose(self) -> None:
        """Close the connections."""
        for pool in self._pools.values():
            await pool.aclose()

    async def _follow(
        self, method: str, url: str, headers: Pairs, body: bytes | None, *, configured: bool, follow: bool
    ) -> FetchedResponse:
        followed = 0
        while True:
            answer = await self._exchange(method, url, headers, body, configured=configured)
            location = answer.header("location")
            if not follow or answer.status not in _REDIRECTS or location is None:
                return answer
            try:
                target = urljoin(url, location)
            except ValueError:
                raise UnsafeUrl(location, "it is not a valid URL", what="redirect") from None
            check_redirect(url, target, followed=followed, networks=self.networks)
            url, followed = target, followed + 1

    async def _exchange(
        self, method: str, url: str, headers: Pairs, body: bytes | None, *, configured: bool
    ) -> FetchedResponse:
        proxy = self._proxies.of(parse_http_url(url))
        own = self._server is not None and same_origin(parse_url(url, what="URL"), self._server)
        pool = self._pool(own=own, guarded=not configured and proxy is None)
        if self._agent is not None and not any(name.lower() == "user-agent" for name, _ in headers):
            headers = (("User-Agent", self._agent), *headers)
        async with pool.request(method, url, headers, body, use=Use.CALL, follow=False) as response:
            data = await self._read(response)
            return FetchedResponse(status=response.head.status, headers=tuple(response.head.headers), body=data)

    async def _read(self, response: PooledResponse) -> bytes:
        """Return the body. If it exceeds the limit, return a part that also exceeds the limit."""
        data = bytearray()
        while len(data) <= self._limit and (more := await response.receive_some()):
            data += more
        return bytes(data)

    def _pool(self, *, own: bool, guarded: bool) -> HttpPool:
        pool = self._pools.get((own, guarded))
        if pool is None:
            pool = self._pools[own, guarded] = HttpPool(
                tls=self._tls if own else _anonymous(self._tls),
                proxies=self._proxy_settings,
                limits=self._limits,
                connect_seconds=self._seconds,
                connect=partial(self._connect, own=own) if guarded else None,
            )
        return pool

    async def _connect(self, host: str, port: int, *, own: bool) -> trio.SocketStream:
        """Connect to a host name if all of its addresses are allowed. Raises `OSError`."""
        addresses = (self._addresses if own else ()) or await resolve_addresses(host, port)
        for address in addresses:
            # One forbidden address rejects all: a name with public and private addresses is a sign of an attack.
            found = classify(address)
            if found not in self.networks:
                raise OSError(f"{host} resolves to {address}, a {found.value} address, which is not allowed")
        return await self._connect_to(addresses[:_MOST_ADDRESSES], port)

    async def _connect_to(self, addresses: Sequence[Address], port: int) -> trio.SocketStream:
        """Connect to the first of these addresses that accepts. Raises `OSError`."""
        failed: OSError | None = None
        for number, address in enumerate(addresses):
            # The last address may use all of the remaining time.
            rest = len(addresses) - number
            try:
                with trio.move_on_after(self._seconds / 2 / rest if rest > 1 else self._seconds):
                    return await trio.open_tcp_stream(str(address), port)
                failed = TimeoutError(f"no connection to {address} in time")
            except OSError as error:
                failed = error
        raise failed or OSError("the name has no address")


def _anonymous(tls: ssl.SSLContext | Tls | None) -> ssl.SSLContext | Tls | None:
    """Return the TLS settings without the client certificate, which untrusted servers must not receive."""
    if isinstance(tls, Tls):
        return attrs.evolve(tls, certificate=None, key=None, key_password=None)
    return tls
