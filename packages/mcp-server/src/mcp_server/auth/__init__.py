"""Authorization of requests to a server over HTTP: the resource server. Needs the extra `trio-mcp-server[auth]`.

The authorization server for development, tests and small deployments is `mcp_server.auth.authorization_server`.
"""

from __future__ import annotations

from mcp_core.oauth.access_token import AccessToken, InvalidToken
from mcp_core.oauth.principal import Principal
from mcp_server.auth.introspection import Introspection
from mcp_server.auth.jwt import JwtTokens
from mcp_server.auth.resource_server import ResourceServer
from mcp_server.auth.scopes import Scopes
from mcp_server.auth.tokens import TokensUnavailable, TokenVerifier

__all__ = [
    "AccessToken",
    "Introspection",
    "InvalidToken",
    "JwtTokens",
    "Principal",
    "ResourceServer",
    "Scopes",
    "TokenVerifier",
    "TokensUnavailable",
]
