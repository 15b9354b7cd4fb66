"""Authorization headers with a token, for requests to one MCP server only.

Spec: basic/authorization#token-requirements; RFC 6750 section 2.1, RFC 9449 section 7.1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import LocalProtocolError
from mcp_core.oauth.urls import parse_url, same_origin

if TYPE_CHECKING:
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.records import TokenRecord
    from mcp_core.oauth.steps import Pairs

__all__ = ["BEARER", "authorization_headers"]

BEARER: Final = "Bearer"
"""The token type of a token that requires no proof."""


def authorization_headers(
    tokens: TokenRecord, *, method: str, url: str, now: float, proof: Proof | None = None
) -> Pairs:
    """Return the authorization headers for one request to the MCP server.

    Args:
        tokens: The tokens.
        method: The method of the request.
        url: The URL of the request.
        now: Seconds since the epoch.
        proof: The key to which the token is bound; `None` for a token without a key.

    Raises:
        LocalProtocolError: The token is for another server, or requires a key.
    """
    if url != tokens.server_url:
        server, target = parse_url(tokens.server_url, what="server URL"), parse_url(url, what="URL of a request")
        if not same_origin(target, server):
            raise LocalProtocolError(f"a token for {server.origin} must not be sent to {target.origin}")
    authorization = (("Authorization", f"{tokens.token_type} {tokens.access_token}"),)
    if tokens.token_type == BEARER:
        return authorization
    if proof is None or proof.token_type != tokens.token_type:
        raise LocalProtocolError(f"a token of type {tokens.token_type} requires a proof, but there is no key for it")
    return (*authorization, *proof.headers(method, url, now=now, access_token=tokens.access_token))
