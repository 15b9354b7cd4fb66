"""Requests to URLs that another party chose: a client's metadata document, the keys of an authorization server.

`mcp_core.trio.guarded_fetch` sends the requests. Proxies from environment variables are not used, because a proxy would
resolve the name again.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Final

import orjson
import trio

from mcp_core.errors import McpError, UnsafeUrl
from mcp_core.oauth.addresses import AddressClass, reachable
from mcp_core.oauth.steps import Unreachable
from mcp_core.oauth.urls import check_peer_url, parse_url, same_origin
from mcp_core.trio.guarded_fetch import FETCH_BYTES, FETCH_SECONDS, GuardedFetch, resolve_addresses
from mcp_core.trio.http_client.tls import make_context

if TYPE_CHECKING:
    import ssl

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.steps import FetchedResponse, Pairs
    from mcp_core.oauth.urls import Url

__all__ = ["OWN_NETWORKS", "FetchRefused", "fetch", "fetch_json", "networks_named_by"]

OWN_NETWORKS: Final = frozenset(
    {AddressClass.PUBLIC, AddressClass.LOOPBACK, AddressClass.PRIVATE, AddressClass.SHARED, AddressClass.LINK_LOCAL}
)
"""The networks where an authorization server may be that the author of this server configured."""


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
    limit: int = FETCH_BYTES,
    seconds: float = FETCH_SECONDS,
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
        check_peer_url(url, what="URL", networks=networks)
    except UnsafeUrl as unsafe:
        raise FetchRefused(url, unsafe.reason) from None
    async with aclosing(GuardedFetch(networks, tls=_tls(), seconds=seconds, limit=limit)) as guarded:
        answer = await guarded.request(method, url, headers, body, redirects=redirects)
    if isinstance(answer, Unreachable):
        raise FetchRefused(url, answer.reason)
    if len(answer.body) > limit:
        raise FetchRefused(url, f"the response exceeds {limit} bytes")
    return answer


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
        with trio.fail_after(FETCH_SECONDS):
            return reachable(await resolve_addresses(named.host, named.port))
    except (OSError, trio.TooSlowError) as error:
        raise FetchRefused(named.text, f"its host cannot be resolved: {error}") from None


@cache
def _tls() -> ssl.SSLContext:
    """Return a TLS context with the system's trusted authorities; `SSL_CERT_FILE` names others."""
    return make_context(None)
