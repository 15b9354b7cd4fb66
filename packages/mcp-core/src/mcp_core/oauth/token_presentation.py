"""How a token is shown to the MCP server, and to no other.

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
"""The token type of a token that needs no proof."""


def authorization_headers(
    tokens: TokenRecord, *, method: str, url: str, now: float, proof: Proof | None = None
) -> Pairs:
    """The headers for one request to the MCP server.

    Args:
        tokens: What it is to be made with.
        method: Of the request.
        url: Of the request.
        now: Seconds since the epoch.
        proof: The key that the token is bound to, if it is.

    Raises:
        LocalProtocolError: The request goes to another server than the token is for, or the token needs a key.
    """
    if url != tokens.server_url:
        server, target = parse_url(tokens.server_url, what="server URL"), parse_url(url, what="URL of a request")
        if not same_origin(target, server):
            raise LocalProtocolError(f"a token for {server.origin} is not sent to {target.origin}")
    authorization = (("Authorization", f"{tokens.token_type} {tokens.access_token}"),)
    if tokens.token_type == BEARER:
        return authorization
    if proof is None or proof.token_type != tokens.token_type:
        raise LocalProtocolError(f"a token of type {tokens.token_type} needs a proof, and there is no key for it")
    return (*authorization, *proof.headers(method, url, now=now, access_token=tokens.access_token))
