"""Requests to URLs that another party chose: a client's metadata document, the keys of an authorization server.

Such a URL may lead to a service of the local network, and its host name may resolve to another address each time. For
that reason this module resolves the name once, and checks that every address of the name belongs to an allowed class.
It then connects to one of these addresses, not to the name. Time and size are bounded. One redirect within the origin
is followed.

Proxies from environment variables are not used, because a proxy would resolve the name again.

Spec: basic/security_best_practices#server-side-request-forgery
"""

from __future__ import annotations

import ipaddress
import ssl
from contextlib import aclosing
from functools import cache, partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import httpcore2
import orjson
import trio

from mcp_core.errors import McpError, UnsafeUrl
from mcp_core.oauth.addresses import AddressClass, classify, reachable
from mcp_core.oauth.steps import FetchedResponse
from mcp_core.oauth.urls import check_peer_url, check_redirect, parse_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.addresses import Address
    from mcp_core.oauth.steps import Pairs
    from mcp_core.oauth.urls import Url

__all__ = ["OWN_NETWORKS", "FetchRefused", "fetch", "fetch_json", "networks_named_by"]

OWN_NETWORKS: Final = frozenset(
    {AddressClass.PUBLIC, AddressClass.LOOPBACK, AddressClass.PRIVATE, AddressClass.SHARED, AddressClass.LINK_LOCAL}
)
"""The networks where an authorization server may be that the author of this server configured."""

_BYTES: Final = 256 * 1024
_SECONDS: Final = 5.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ADDRESSES: Final = 8
"""How many addresses of one name are tried. Only the largest services have more, and any address will do."""


class FetchRefused(McpError):
    """A fetch failed: the URL is not allowed, the host does not respond, or the response is too slow or too large."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot fetch {url[:200]!a}: {reason}")
        self.url: str = url
        """The URL."""
        self.reason: str = reason

    """The cause. It may contain addresses of the local network, so write it only to the log."""


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Pairs = (),
    body: bytes | None = None,
    networks: frozenset[AddressClass],
    limit: int = _BYTES,
    seconds: float = _SECONDS,
    redirects: bool = True,
) -> FetchedResponse:
    """Send one request, and follow at most one redirect.

    Args:
        url: The URL: https, or http on this machine.
        method: The HTTP method. Only a GET follows a redirect.
        headers: Header fields in addition to `Host` and `Content-Length`.
        body: The request body.
        networks: The allowed classes of addresses, see `mcp_core.oauth.addresses.reachable`.
        limit: The maximum size of the response body, in bytes.
        seconds: The time limit for the whole fetch, in seconds.
        redirects: Whether a GET follows a redirect. If not, a redirect is returned like any other response.

    Returns:
        The response, whatever its status.

    Raises:
        FetchRefused: There is no response.
    """
    try:
        with trio.fail_after(seconds):
            request = partial(_request, method=method, headers=headers, body=body, networks=networks, limit=limit)
            answer = await request(check_peer_url(url, what="URL", networks=networks))
            location = answer.header("location") if answer.status in _REDIRECTS else None
            if redirects and method == "GET" and location is not None:
                target = check_redirect(url, urljoin(url, location), followed=0, networks=networks)
                answer = await request(target)
                if answer.status in _REDIRECTS and answer.header("location") is not None:
                    raise FetchRefused(url, "more than one redirect")
            return answer
    except UnsafeUrl as unsafe:
        raise FetchRefused(url, unsafe.reason) from None
    except ValueError:
        raise FetchRefused(url, "the redirect leads to an invalid URL") from None
    except trio.TooSlowError:
        raise FetchRefused(url, f"no complete response within {seconds:g} seconds") from None


async def fetch_json(
    url: str,
    *,
    method: str = "GET",
    headers: Pairs = (),
    body: bytes | None = None,
    networks: frozenset[AddressClass],
) -> JsonObject:
    """Send one request for a JSON object. The arguments are those of `fetch`.

    Raises:
        FetchRefused: There is no response, its status is not 200, or its body is not a JSON object.
    """
    answer = await fetch(
        url, method=method, headers=(("accept", "application/json"), *headers), body=body, networks=networks
    )
    if answer.status != 200:
        raise FetchRefused(url, f"the response has status {answer.status}")
    try:
        document: JsonValue = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        raise FetchRefused(url, "the response is not JSON") from None
    if not isinstance(document, dict):
        raise FetchRefused(url, "the response is JSON, but not an object")
    return document


async def networks_named_by(named: Url, url: str) -> frozenset[AddressClass]:
    """Return the classes of networks that a URL from the metadata of an authorization server may lead to.

    The author of this server configured the authorization server. It is trusted to issue tokens, but not with the local
    network. A URL of another origin in its metadata must lead to a public address, or to a network of the same class as
    the authorization server.

    Args:
        named: The issuer.
        url: The URL from its metadata, for example `jwks_uri`.

    Raises:
        FetchRefused: The host of the issuer cannot be resolved.
        UnsafeUrl: `url` is not a valid URL.
    """
    if same_origin(named, parse_url(url, what="URL")):
        return OWN_NETWORKS
    try:
        with trio.fail_after(_SECONDS):
            return reachable(address for _, address in await _resolve(named.host, named.port))
    except (OSError, trio.TooSlowError) as error:
        raise FetchRefused(named.text, f"its host cannot be resolved: {error}") from None


async def _resolve(host: str, port: int) -> list[tuple[str, Address]]:
    """Return all addresses of a host: as text to connect to, and as objects to check. Raises `OSError`."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    texts = dict.fromkeys(str(entry[4][0]) for entry in found)
    return [(text, ipaddress.ip_address(text.partition("%")[0])) for text in texts]


async def _request(
    url: Url, *, method: str, headers: Pairs, body: bytes | None, networks: frozenset[AddressClass], limit: int
) -> FetchedResponse:
    backend = _GuardedBackend(url.text, networks)
    try:
        async with (
            httpcore2.AsyncConnectionPool(ssl_context=_tls(), max_connections=1, network_backend=backend) as pool,
            pool.stream(method, url.text, headers=list(headers), content=body) as response,
            # No content coding is requested, so nothing is decoded.
            aclosing(response.aiter_stream()) as parts,
        ):
            received = bytearray()
            async for part in parts:
                received += part
                if len(received) > limit:
                    raise FetchRefused(url.text, f"the response exceeds {limit} bytes")
            pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)
            return FetchedResponse(status=response.status, headers=pairs, body=bytes(received))
    except (
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.TimeoutException,
        OSError,
        trio.BrokenResourceError,
        ValueError,
    ) as error:
        raise FetchRefused(url.text, _why(error)) from error


def _why(error: BaseException) -> str:
    """Return the original cause of an error: the errors that wrap it often have no text."""
    cause = error.__cause__ or error.__context__
    return (_why(cause) if cause is not None else "") or str(error) or type(error).__name__


@cache
def _tls() -> ssl.SSLContext:
    """Return a TLS context with the system's trust store; `SSL_CERT_FILE` names another one."""
    return ssl.create_default_context()


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """A network backend that connects to a host only if all of its addresses are allowed."""

    def __init__(self, url: str, networks: frozenset[AddressClass]) -> None:
        self._url: Final = url
        self._networks: Final = networks
        self._plain: Final = httpcore2.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the name in httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host. Raises `FetchRefused` if an address of the host is not allowed."""
        addresses = await self._resolved(host.strip("[]"), port)
        failure: httpcore2.NetworkError | None = None
        for address in addresses[:_ADDRESSES]:
            try:
                return await self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.NetworkError as error:
                failure = error
        raise failure or FetchRefused(self._url, "its host has no address")

    async def _resolved(self, host: str, port: int) -> list[str]:
        try:
            found = await _resolve(host, port)
        except OSError as error:
            raise FetchRefused(self._url, f"its host cannot be resolved: {error.strerror or error}") from None
        for text, address in found:
            # One forbidden address rejects all: a name with public and private addresses is a sign of an attack.
            its_class = classify(address)
            if its_class not in self._networks:
                raise FetchRefused(
                    self._url, f"its host resolves to {text}, a {its_class.value} address, which is not allowed"
                )
        return [text for text, _ in found]
