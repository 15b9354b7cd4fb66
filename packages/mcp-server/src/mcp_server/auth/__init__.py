"""Who may call a server over HTTP: the resource server. It needs the extra `mcp-server[auth]`.

The authorization server for development, tests and small deployments is `mcp_server.auth.authorization_server`.
"""

from __future__ import annotations

from mcp_core.oauth.access_token import AccessToken, InvalidToken
from mcp_core.oauth.principal import Principal
from mcp_server.auth._introspection import Introspection
from mcp_server.auth._jwt import JwtTokens
from mcp_server.auth._scopes import Scopes
from mcp_server.auth._tokens import TokensUnavailable, TokenVerifier
from mcp_server.auth.resource_server import ResourceServer

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
