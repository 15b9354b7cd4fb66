"""Authorization of a client: `open_http(url, auth=OAuth("Notebook reader"))`.

`OAuth` obtains and stores tokens, a `UserAgent` interacts with the user, and a `CredentialStore` stores the data that
must outlive the program. `mcp_core.oauth` makes the decisions of the protocol.
"""

from __future__ import annotations

from mcp_client.auth.configured import configured_auth
from mcp_client.auth.oauth import OAuth
from mcp_client.auth.stores.memory import MemoryStore
from mcp_client.auth.stores.protocol import CredentialStore
from mcp_client.auth.user_agents import Paste, Receiver, SystemBrowser, UserAgent
from mcp_client.transports.http.authorizer import Authorization, Authorizer, ConnectionTarget, ObservedResponse

__all__ = [
    "Authorization",
    "Authorizer",
    "ConnectionTarget",
    "CredentialStore",
    "MemoryStore",
    "OAuth",
    "ObservedResponse",
    "Paste",
    "Receiver",
    "SystemBrowser",
    "UserAgent",
    "configured_auth",
]
