"""Requests of this server to URLs that others named: a client's metadata document, the keys of an authorization server.

Such a URL may lead to a service of the local network, and its name may resolve to something else with each look. So
the name is resolved here, once; every address that it has must be of a class that may be reached; and the connection is
made to one of these addresses, not to the name. Time and size are bounded, and one redirect is followed, within the origin.

No proxy of the environment is used: it would resolve the name by itself.

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
from mcp_core.oauth.steps import HttpAnswer
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
"""Where an authorization server may be that the author of this server named."""

_BYTES: Final = 256 * 1024
_SECONDS: Final = 5.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ADDRESSES: Final = 8
"""Addresses of one name that are tried. More have only the largest, and any will do."""


class FetchRefused(McpError):
    """There is no answer: the URL must not be requested, nobody is there, or it takes too long or is too large."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url[:200]!a} was not fetched: {reason}")
        self.url: str = url
        """The URL."""
        self.reason: str = reason
        """Why. It may name addresses of the network here, so it is for the log."""


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
) -> HttpAnswer:
    """Makes one request.

    Args:
        url: Where: https, or http on this machine.
        method: `GET`, `POST`, ... Only a GET follows a redirect.
        headers: Besides `Host` and the length.
        body: What to send.
        networks: The classes of addresses that it may lead to, see `mcp_core.oauth.addresses.reachable`.
        limit: Bytes of the answer.
        seconds: For all of it.
        redirects: Whether a GET follows one; without, it is an answer as any other.

    Returns:
        The answer, whatever its status.

    Raises:
        FetchRefused: There is none.
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
                    raise FetchRefused(url, "it leads to a second redirect")
            return answer
    except UnsafeUrl as unsafe:
        raise FetchRefused(url, unsafe.reason) from None
    except ValueError:
        raise FetchRefused(url, "it leads to something that is no URL") from None
    except trio.TooSlowError:
        raise FetchRefused(url, f"there was no whole answer within {seconds:g} seconds") from None


async def fetch_json(
    url: str,
    *,
    method: str = "GET",
    headers: Pairs = (),
    body: bytes | None = None,
    networks: frozenset[AddressClass],
) -> JsonObject:
    """Makes one request for a JSON object. The arguments are those of `fetch`.

    Raises:
        FetchRefused: There is no answer, or one of another status than 200, or something else in it.
    """
    answer = await fetch(
        url, method=method, headers=(("accept", "application/json"), *headers), body=body, networks=networks
    )
    if answer.status != 200:
        raise FetchRefused(url, f"the answer has status {answer.status}")
    try:
        document: JsonValue = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        raise FetchRefused(url, "the answer is no JSON") from None
    if not isinstance(document, dict):
        raise FetchRefused(url, "the answer is JSON, but no object")
    return document


async def networks_named_by(named: Url, url: str) -> frozenset[AddressClass]:
    """Return where a URL may lead that is in the metadata of an authorization server.

    The author of this server named the authorization server, and trusts it to issue tokens, but not with the network here.
    What it names at another origin has to be public, or on a network of the same class as itself.

    Args:
        named: The issuer.
        url: What its metadata name, as `jwks_uri`.

    Raises:
        FetchRefused: The host of the issuer cannot be resolved.
        UnsafeUrl: `url` is no URL.
    """
    if same_origin(named, parse_url(url, what="URL")):
        return OWN_NETWORKS
    try:
        with trio.fail_after(_SECONDS):
            return reachable(address for _, address in await _resolve(named.host, named.port))
    except (OSError, trio.TooSlowError) as error:
        raise FetchRefused(named.text, f"its host cannot be resolved: {error}") from None


async def _resolve(host: str, port: int) -> list[tuple[str, Address]]:
    """All addresses of a name: as they are connected to, and as they are judged. Raises `OSError`."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    texts = dict.fromkeys(str(entry[4][0]) for entry in found)
    return [(text, ipaddress.ip_address(text.partition("%")[0])) for text in texts]


async def _request(
    url: Url, *, method: str, headers: Pairs, body: bytes | None, networks: frozenset[AddressClass], limit: int
) -> HttpAnswer:
    backend = _Guarded(url.text, networks)
    try:
        async with (
            httpcore2.AsyncConnectionPool(ssl_context=_tls(), max_connections=1, network_backend=backend) as pool,
            pool.stream(method, url.text, headers=list(headers), content=body) as response,
            # Nothing is asked for in a coding, and nothing is decoded.
            aclosing(response.aiter_stream()) as parts,
        ):
            received = bytearray()
            async for part in parts:
                received += part
                if len(received) > limit:
                    raise FetchRefused(url.text, f"the answer has more than {limit} bytes")
            pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)
            return HttpAnswer(status=response.status, headers=pairs, body=bytes(received))
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
    """What went wrong in the first place: who passes it on often says nothing."""
    cause = error.__cause__ or error.__context__
    return (_why(cause) if cause is not None else "") or str(error) or type(error).__name__


@cache
def _tls() -> ssl.SSLContext:
    """The system's trust store; `SSL_CERT_FILE` names another one."""
    return ssl.create_default_context()


class _Guarded(httpcore2.AsyncNetworkBackend):
    """Connects to names, of which it looks at each address first."""

    def __init__(self, url: str, networks: frozenset[AddressClass]) -> None:
        self._url: Final = url
        self._networks: Final = networks
        self._plain: Final = httpcore2.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore2 calls it so
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connects. Raises `FetchRefused` when an address of the host may not be reached."""
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
            # One address that is not allowed condemns all: a name that is public and private is the sign of an attack.
            its_class = classify(address)
            if its_class not in self._networks:
                raise FetchRefused(
                    self._url, f"its host is at {text}, a {its_class.value} address, which it may not be"
                )
        return [text for text, _ in found]
