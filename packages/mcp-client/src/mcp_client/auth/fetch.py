"""Requests to URLs that strangers named: a login makes us ask whatever a server and its authorization server say.

So that nobody sends us to a service of the local network, the name in a URL is resolved here, once; every address has to be
one that may be reached, and the connection goes to one of just these. TLS checks the name all the same. Beyond
that: 5 seconds and 256 KiB for each answer, one redirect within the origin and only for documents, no cookies, no tokens,
no client certificate but for the server's own origin.

Where a proxy is set, it resolves the name, and its rules decide what can be reached: only addresses that stand in a URL
themselves are judged here then.

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

from mcp_client.http_client.pool import HttpPool
from mcp_client.http_client.pool_policy import Use
from mcp_client.http_client.proxy import Proxies
from mcp_client.http_client.tls import Tls
from mcp_client.http_client.url import parse_url as parse_http_url
from mcp_core.errors import LimitExceeded, LocalProtocolError, RequestTimeout, TransportError, UnsafeUrl
from mcp_core.oauth.addresses import classify, reachable
from mcp_core.oauth.steps import FetchJson, HttpAnswer, PostForm, Unreachable
from mcp_core.oauth.urls import check_redirect, networks_of, parse_url, same_origin

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from mcp_client.http_client.pool import HttpResponse
    from mcp_client.transports.http.authorizer import Site
    from mcp_core.oauth.addresses import Address, AddressClass
    from mcp_core.oauth.steps import Pairs, Request

__all__ = ["GuardedFetch", "Surroundings", "surroundings"]

_SECONDS: Final = 5.0
"""How long one answer may take, from the name to the end of the body."""

_BYTES: Final = 256 * 1024
"""How large one may be. Real documents have a few KiB."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_AGENT: Final = ("User-Agent", "mcp-client")
"""Some gateways turn away requests that do not say who makes them."""


@attrs.frozen(kw_only=True)
class Surroundings:
    """Where the MCP server is, and where its word may therefore lead."""

    networks: frozenset[AddressClass]
    """The classes of addresses that may be reached."""
    addresses: tuple[Address, ...] = ()
    """The addresses of the server; empty where they were not looked up."""


async def surroundings(site: Site) -> Surroundings:
    """Look up the addresses of the MCP server, and decide where URLs from peers may lead.

    A server on an inner network may name others there. So the decision counts all addresses: those that the name has now, and
    those that connections were made to. A public server cannot open this machine by having its name changed (DNS
    rebinding), as the classes then differ. Where a proxy resolves the name, or there is no answer, the URL decides alone.
    """
    server = parse_url(site.url, what="server URL")
    by_url = Surroundings(networks=networks_of(server))
    through_proxy = Proxies(site.proxies, os.environ).of(parse_http_url(site.url)) is not None
    if through_proxy or server.address is not None:
        return by_url
    try:
        with trio.fail_after(_SECONDS):
            addresses = await _resolve(server.host, server.port)
    except (OSError, trio.TooSlowError):
        return by_url
    return Surroundings(networks=reachable((*addresses, *site.addresses())), addresses=addresses)


async def _resolve(host: str, port: int) -> tuple[Address, ...]:
    """All addresses of a name, in the order in which the system wants them tried. Raises `OSError`."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ipaddress.ip_address(str(where[0]).partition("%")[0]) for *_, where in found))


class GuardedFetch:
    """Does the requests of one flow. To be closed at its end.

    Args:
        site: The connection that the tokens are for: its proxies hold, and whom it trusts.
        networks: Which addresses may be reached.
        addresses: Those of the server, if `networks` follows from them: its name is not resolved again.
    """

    def __init__(self, site: Site, networks: frozenset[AddressClass], *, addresses: Sequence[Address] = ()) -> None:
        self._site: Final = site
        self._server: Final = parse_url(site.url, what="server URL")
        self.networks: Final = networks
        """Which addresses may be reached."""
        self._addresses: Final = tuple(addresses)
        self._proxies: Final = Proxies(site.proxies, os.environ)
        self._pools: Final[dict[tuple[bool, bool], HttpPool]] = {}

    async def ask(self, step: Request) -> HttpAnswer | Unreachable:
        """Makes the request of a step. It does not raise: whatever goes wrong is an answer."""
        try:
            with trio.move_on_after(_SECONDS):
                return await self._ask(step)
        except (TransportError, RequestTimeout, LimitExceeded, LocalProtocolError, UnsafeUrl) as error:
            return Unreachable(reason=error.message)
        return Unreachable(reason=f"it took longer than {_SECONDS:g} seconds")

    async def aclose(self) -> None:
        """Closes its connections."""
        for pool in self._pools.values():
            await pool.aclose()

    async def _ask(self, step: Request) -> HttpAnswer:
        if isinstance(step, FetchJson):
            return await self._fetch(step)
        if isinstance(step, PostForm):
            body = urlencode(step.form).encode()
            return await self._request("POST", step.url, step.headers, body, configured=step.configured)
        return await self._request("POST", step.url, step.headers, orjson.dumps(step.document))

    async def _fetch(self, step: FetchJson) -> HttpAnswer:
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
    ) -> HttpAnswer:
        proxy = self._proxies.of(parse_http_url(url))
        guarded = not configured and proxy is None
        pool = self._pool(own=same_origin(parse_url(url, what="URL"), self._server), guarded=guarded)
        sent = headers if any(name.lower() == "user-agent" for name, _ in headers) else (_AGENT, *headers)
        async with pool.request(method, url, sent, body, use=Use.CALL, follow=False) as response:
            data = await _read(response)
            return HttpAnswer(status=response.head.status, headers=tuple(response.head.headers), body=data)

    def _pool(self, *, own: bool, guarded: bool) -> HttpPool:
        pool = self._pools.get((own, guarded))
        if pool is None:
            tls = self._site.tls if own else _anonymous(self._site.tls)
            pool = self._pools[own, guarded] = HttpPool(
                tls=tls,
                proxies=self._site.proxies,
                limits=self._site.limits,
                connect_seconds=_SECONDS,
                connect=partial(self._connect, own=own) if guarded else None,
            )
        return pool

    async def _connect(self, host: str, port: int, *, own: bool) -> trio.SocketStream:
        """Connects to a name whose addresses may all be reached. Raises `OSError`."""
        addresses = (self._addresses if own else ()) or await _resolve(host, port)
        for address in addresses:
            found = classify(address)
            if found not in self.networks:
                raise OSError(f"{host} leads to a {found.value} address ({address}), where the server is not")
        return await _connect_to(addresses, port)


def _anonymous(tls: ssl.SSLContext | Tls | None) -> ssl.SSLContext | Tls | None:
    """Whom we trust, without who we are: a stranger need not see our certificate."""
    if isinstance(tls, Tls):
        return attrs.evolve(tls, certificate=None, key=None, key_password=None)
    return tls


async def _connect_to(addresses: Sequence[Address], port: int) -> trio.SocketStream:
    """Connects to the first of these addresses that answers. Raises `OSError`."""
    failed: OSError | None = None
    for number, address in enumerate(addresses):
        # The last one may take what time is left.
        rest = len(addresses) - number
        try:
            with trio.move_on_after(_SECONDS / 2 / rest if rest > 1 else _SECONDS):
                return await trio.open_tcp_stream(str(address), port)
            failed = TimeoutError(f"{address} does not answer")
        except OSError as error:
            failed = error
    raise failed or OSError("the name has no address")


async def _read(response: HttpResponse) -> bytes:
    """The body; of a longer one as much as shows that it is too long."""
    data = b""
    while len(data) <= _BYTES and (more := await response.receive_some()):
        data += more
    return data
