"""Revocation of tokens at their authorization server. Spec: RFC 7009"""

from __future__ import annotations

import secrets
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import trio

from mcp_client.auth.fetch import FetchContext, open_fetch, surroundings
from mcp_client.transports.http.authorizer import ConnectionTarget
from mcp_core.errors import DiscoveryFailed, TokenRefused
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.oauth.discovery import Discovery
from mcp_core.oauth.steps import FetchJson, PostForm, Unreachable
from mcp_core.oauth.tokens import authenticate, choose_auth_method
from mcp_core.oauth.urls import check_peer_url
from mcp_core.revisions import REVISIONS
from mcp_core.trio.nursery import open_private_nursery

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from typing import Literal

    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.discovery import DiscoveryResult
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import TokenRecord
    from mcp_core.oauth.steps import Pairs
    from mcp_core.trio.guarded_fetch import GuardedFetch
    from mcp_core.trio.http_client.tls import Tls

__all__ = ["revoke"]


async def revoke(
    tokens: TokenRecord,
    *,
    networks: frozenset[AddressClass] | None = None,
    signer: Signer | None = None,
    tls: ssl.SSLContext | Tls | None = None,
    proxies: Mapping[str, str] | Literal[False] | None = None,
) -> None:
    """Revoke the refresh token with all tokens derived from it; without a refresh token, revoke the access token.

    Args:
        tokens: The tokens.
        networks: As in `OAuth`.
        signer: The client's key, for `private_key_jwt`.
        tls: As in `open_http`.
        proxies: As in `open_http`.

    Raises:
        AuthorizationError: The authorization server does not support revocation, or it failed.
    """
    async with open_private_nursery() as nursery:
        target = ConnectionTarget(
            url=tokens.server_url,
            nursery=nursery,
            waiting=nullcontext,
            revisions=tuple(REVISIONS.values()),
            tls=tls,
            proxies=proxies,
            limits=CLIENT_LIMITS,
        )
        around = await surroundings(target) if networks is None else FetchContext(networks=networks)
        fetch = open_fetch(target, around)
        try:
            found = await _found(
                Discovery(
                    tokens.server_url, networks=around.networks, authorization_server=tokens.issuer, legacy=False
                ),
                fetch,
            )
            await _ask(fetch, found, tokens, around.networks, signer)
        finally:
            with trio.CancelScope(shield=True):
                await fetch.aclose()


async def _found(discovery: Discovery, fetch: GuardedFetch) -> DiscoveryResult:
    running = discovery.run()
    step = next(running)
    while True:
        assert isinstance(step, FetchJson)  # noqa: S101  # authorization server discovery has no other steps
        try:
            step = running.send(await fetch.perform(step))
        except StopIteration as end:
            found: DiscoveryResult = end.value
            return found


async def _ask(
    fetch: GuardedFetch,
    found: DiscoveryResult,
    tokens: TokenRecord,
    networks: frozenset[AddressClass],
    signer: Signer | None,
) -> None:
    server = found.server
    if server.revocation_endpoint is None:
        raise DiscoveryFailed(f"{server.issuer} does not support revocation: it has no revocation_endpoint")
    url = check_peer_url(server.revocation_endpoint, what="revocation_endpoint", networks=networks).text
    form: Pairs = (("token", tokens.access_token), ("token_type_hint", "access_token"))
    if tokens.refresh_token is not None:
        form = (("token", tokens.refresh_token), ("token_type_hint", "refresh_token"))
    headers: Pairs = ()
    if tokens.client is not None:
        headers, form = authenticate(
            form,
            tokens.client,
            choose_auth_method(tokens.client, server, has_key=signer is not None),
            audience=server.issuer,
            signer=signer,
            now=time.time(),
            random_bytes=secrets.token_bytes,
        )
    sent = (("Content-Type", "application/x-www-form-urlencoded"), *headers)
    answer = await fetch.perform(PostForm(url=url, why="revocation", headers=sent, form=form))
    if isinstance(answer, Unreachable):
        raise TokenRefused(f"no response from {url}: {answer.reason}")
    if answer.status != 200:
        raise TokenRefused(f"{url} responded to the revocation with status {answer.status}", status=answer.status)
