"""Requests of a login: the URLs that the server and its authorization server name.

`mcp_core.trio.guarded_fetch` sends the requests. This module decides which networks they may reach.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
import trio

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.addresses import reachable
from mcp_core.oauth.urls import networks_of, parse_url
from mcp_core.trio.guarded_fetch import FETCH_SECONDS, GuardedFetch, resolve_addresses
from mcp_core.trio.http_client.proxy import Proxies
from mcp_core.trio.http_client.url import parse_url as parse_http_url

if TYPE_CHECKING:
    from mcp_client.transports.http.authorizer import ConnectionTarget
    from mcp_core.oauth.addresses import Address, AddressClass

__all__ = ["FetchContext", "open_fetch", "surroundings"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FetchContext(FieldValue):
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
        with trio.fail_after(FETCH_SECONDS):
            addresses = await resolve_addresses(server.host, server.port)
    except (OSError, trio.TooSlowError):
        return by_url
    return FetchContext(networks=reachable((*addresses, *target.addresses())), addresses=addresses)


def open_fetch(target: ConnectionTarget, context: FetchContext) -> GuardedFetch:
    """Return a sender for the requests of one login. Close it after the login.

    Args:
        target: The connection that needs the tokens. Its proxies and TLS settings apply.
        context: The networks that may be reached.
    """
    return GuardedFetch(
        context.networks,
        server=parse_url(target.url, what="server URL"),
        addresses=context.addresses,
        tls=target.tls,
        proxies=target.proxies,
        limits=target.limits,
        agent="mcp-client",
    )
