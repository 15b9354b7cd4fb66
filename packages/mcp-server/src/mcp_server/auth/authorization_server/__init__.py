"""An authorization server for development, tests and small deployments.

It needs the extra `trio-mcp-server[authorization-server]`.

Spec: basic/authorization; OAuth 2.1, RFC 7009, RFC 7591, RFC 7636, RFC 7662, RFC 8414, RFC 8707, RFC 9068, RFC 9207, RFC 9449
"""

from __future__ import annotations

from mcp_core.trio.extras import extra

with extra("trio-mcp-server", "authorization-server"):
    from mcp_server.auth.authorization_server.clients.registration import DynamicRegistration, RegistrationPolicy
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.settings import Lifetimes
    from mcp_server.auth.authorization_server.model.store import MemoryStore, SqliteStore
    from mcp_server.auth.authorization_server.pages.delegation import Delegation
    from mcp_server.auth.authorization_server.pages.users import PasswordUsers, StoredUsers, Users, hash_password
    from mcp_server.auth.authorization_server.server import AuthorizationServer

__all__ = [
    "AuthorizationServer",
    "Client",
    "Delegation",
    "DynamicRegistration",
    "Lifetimes",
    "MemoryStore",
    "PasswordUsers",
    "RegistrationPolicy",
    "SqliteStore",
    "StoredUsers",
    "Users",
    "hash_password",
]
