"""Requests to URLs from untrusted peers: a login requests URLs that the server and its authorization server name.

To prevent server-side request forgery, this module resolves each host name itself, once. Every address must be in an
allowed class, and the connection goes to one of exactly these addresses. TLS still checks the host name. Further
limits: 5 seconds and 256 KiB for each response, one redirect within the origin and only for documents, no cookies, no
tokens, and no client certificate except for the server's own origin.

A proxy resolves host names itself, and its rules decide what it can reach. Then this module checks only addresses that
are part of a URL.

Spec: basic/security_best_practices#server-side-request-forgery
"""

from __future__ import annotations

import ipaddress
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urljoin

import attrs
import orjson
import trio

from mcp_core.errors import LimitExceeded, LocalProtocolError, RequestTimeout, TransportError, UnsafeUrl
from mcp_core.oauth.addresses import classify, reachable
from mcp_core.oauth.steps import FetchedResponse, FetchJson, PostForm, Unreachable
from mcp_core.oauth.urls import check_redirect, networks_of, parse_url, same_origin
from mcp_core.trio.http_client.pool import HttpPool
from mcp_core.trio.http_client.pool_policy import Use
from mcp_core.trio.http_client.proxy import Proxies
from mcp_core.trio.http_client.tls import Tls
from mcp_core.trio.http_client.url import parse_url as parse_http_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from mcp_client.transports.http.authorizer import ConnectionTarget
    from mcp_core.oauth.addresses import Address, AddressClass
    from mcp_core.oauth.steps import Pairs, Request
    from mcp_core.trio.http_client.pool import PooledResponse

__all__ = ["FetchContext", "GuardedFetch", "surroundings"]

_SECONDS: Final = 5.0
"""Time for one response, from name resolution to the end of the body, in seconds."""

_BYTES: Final = 256 * 1024
"""Maximum length of a response, in bytes. Real documents have a few KiB."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_AGENT: Final = ("User-Agent", "mcp-client")
"""Some gateways reject requests without a User-Agent."""


@attrs.frozen(kw_only=True)
class FetchContext:
    """The network of the MCP server, and the networks that URLs from it may therefore refer to."""

    networks: frozenset[AddressClass]
    """The classes of addresses that may be reached."""
    addresses: tuple[Address, ...] = ()
    """The addresses of the server; empty if they were not resolved."""


async def surroundings(target: ConnectionTarget) -> FetchContext:
    """Look up the addresses of the MCP server, and decide which networks URLs from peers may refer to.

    A server in a private network may name other servers there. The decision considers all addresses: those that the
    name resolves to now, and those that connections have reached. A public server cannot gain access to this machine by
    a change of its DNS records (DNS rebinding), because the classes then differ. If a proxy resolves the name, or the
    resolution fails, the decision uses only the URL.

    Raises:
        UnsafeUrl: The URL of the server is not valid for tokens.
    """
    server = parse_url(target.url, what="server URL")
    by_url = FetchContext(networks=networks_of(server))
    through_proxy = Proxies(target.proxies, os.environ).of(parse_http_url(target.url)) is not None
    if through_proxy or server.address is not None:
        return by_url
    try:
        with trio.fail_after(_SECONDS):
            addresses = await _resolve(server.host, server.port)
    except (OSError, trio.TooSlowError):
        return by_url
    return FetchContext(networks=reachable((*addresses, *target.addresses())), addresses=addresses)


async def _resolve(host: str, port: int) -> tuple[Address, ...]:
    """Return all addresses of a name, in the order in which the system prefers them. Raises `OSError`."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ipaddress.ip_address(str(where[0]).partition("%")[0]) for *_, where in found))


class GuardedFetch:
    """A sender for the requests of one login. Close it after the login.

    Args:
        site: The connection that needs the tokens. Its proxies and trusted authorities apply.
        networks: The classes of addresses that may be reached.
        addresses: The addresses of the server if `networks` was derived from them. Its name is not resolved again.
    """

    def __init__(
        self, target: ConnectionTarget, networks: frozenset[AddressClass], *, addresses: Sequence[Address] = ()
    ) -> None:
        self._target: Final = target
        self._server: Final = parse_url(target.url, what="server URL")
        self.networks: Final = networks
        """The classes of addresses that may be reached."""
        self._addresses: Final = tuple(addresses)
        self._proxies: Final = Proxies(target.proxies, os.environ)
        self._pools: Final[dict[tuple[bool, bool], HttpPool]] = {}

    async def perform(self, step: Request) -> FetchedResponse | Unreachable:
        """Send the request of a step. Every failure is returned as `Unreachable`; the function does not raise."""
        try:
            with trio.move_on_after(_SECONDS):
                return await self._perform(step)
        except (TransportError, RequestTimeout, LimitExceeded, LocalProtocolError, UnsafeUrl) as error:
            return Unreachable(reason=error.message)
        return Unreachable(reason=f"no response within {_SECONDS:g} seconds")

    async def aclose(self) -> None:
        """Close the connections."""
        for pool in self._pools.values():
            await pool.aclose()

    async def _perform(self, step: Request) -> FetchedResponse:
        if isinstance(step, FetchJson):
            return await self._fetch(step)
        if isinstance(step, PostForm):
            body = urlencode(step.form).encode()
            return await self._request("POST", step.url, step.headers, body, configured=step.configured)
        return await self._request("POST", step.url, step.headers, orjson.dumps(step.document))

    async def _fetch(self, step: FetchJson) -> FetchedResponse:
        url, followed = step.url, 0
        while True:
            answer = await self._request("GET", url, step.headers, None)
            location = answer.header("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            target = urljoin(url, location)
            check_redirect(url, target, followed=followed, networks=self.networks)
            url, followed = target, followed + 1

    async def _request(
        self, method: str, url: str, headers: Pairs, body: bytes | None, *, configured: bool = False
    ) -> FetchedResponse:
        proxy = self._proxies.of(parse_http_url(url))
        guarded = not configured and proxy is None
        pool = self._pool(own=same_origin(parse_url(url, what="URL"), self._server), guarded=guarded)
        sent = headers if any(name.lower() == "user-agent" for name, _ in headers) else (_AGENT, *headers)
        async with pool.request(method, url, sent, body, use=Use.CALL, follow=False) as response:
            data = await _read(response)
            return FetchedResponse(status=response.head.status, headers=tuple(response.head.headers), body=data)

    def _pool(self, *, own: bool, guarded: bool) -> HttpPool:
        pool = self._pools.get((own, guarded))
        if pool is None:
            tls = self._target.tls if own else _anonymous(self._target.tls)
            pool = self._pools[own, guarded] = HttpPool(
                tls=tls,
                proxies=self._target.proxies,
                limits=self._target.limits,
                connect_seconds=_SECONDS,
                connect=partial(self._connect, own=own) if guarded else None,
            )
        return pool

    async def _connect(self, host: str, port: int, *, own: bool) -> trio.SocketStream:
        """Connect to a host name if all of its addresses are allowed. Raises `OSError`."""
        addresses = (self._addresses if own else ()) or await _resolve(host, port)
        for address in addresses:
            found = classify(address)
            if found not in self.networks:
                raise OSError(f"{host} resolves to a {found.value} address ({address}), unlike the server")
        return await _connect_to(addresses, port)


def _anonymous(tls: ssl.SSLContext | Tls | None) -> ssl.SSLContext | Tls | None:
    """Return the TLS settings without the client certificate, which untrusted servers must not receive."""
    if isinstance(tls, Tls):
        return attrs.evolve(tls, certificate=None, key=None, key_password=None)
    return tls


async def _connect_to(addresses: Sequence[Address], port: int) -> trio.SocketStream:
    """Connect to the first of these addresses that accepts. Raises `OSError`."""
    failed: OSError | None = None
    for number, address in enumerate(addresses):
        # The last address may use all of the remaining time.
        rest = len(addresses) - number
        try:
            with trio.move_on_after(_SECONDS / 2 / rest if rest > 1 else _SECONDS):
                return await trio.open_tcp_stream(str(address), port)
            failed = TimeoutError(f"no connection to {address} in time")
        except OSError as error:
            failed = error
    raise failed or OSError("the name has no address")


async def _read(response: PooledResponse) -> bytes:
    """Return the body. If it exceeds the limit, return a part that also exceeds the limit."""
    data = b""
    while len(data) <= _BYTES and (more := await response.receive_some()):
        data += more
    return data
