"""Authorization of a client: `open_http(url, auth=OAuth("Notebook reader"))`.

`OAuth` gets tokens and keeps them, a `UserAgent` reaches the person, a `CredentialStore` keeps what has to outlive the program.
What is asked of whom is decided in `mcp_core.oauth`.
"""

from __future__ import annotations

from mcp_client.auth.configured import configured_auth
from mcp_client.auth.oauth import OAuth
from mcp_client.auth.stores.memory import MemoryStore
from mcp_client.auth.stores.protocol import CredentialStore
from mcp_client.auth.user_agents import Paste, Receiver, SystemBrowser, UserAgent
from mcp_client.transports.http.authorizer import Answered, Authorization, Authorizer, Site

__all__ = [
    "Answered",
    "Authorization",
    "Authorizer",
    "CredentialStore",
    "MemoryStore",
    "OAuth",
    "Paste",
    "Receiver",
    "Site",
    "SystemBrowser",
    "UserAgent",
    "configured_auth",
]
