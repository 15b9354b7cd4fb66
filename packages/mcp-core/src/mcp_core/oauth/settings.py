"""What a client is set to for one MCP server: how it gets tokens, and who it is. See `FlowSettings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.client_metadata import ClientSettings
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.grants import Grant
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord

__all__ = ["FlowSettings"]


@attrs.frozen(kw_only=True)
class FlowSettings:
    """What stays the same from flow to flow, for one MCP server."""

    server_url: str
    """The URL of the MCP server."""
    grant: Grant
    """How a token is got."""
    client: ClientSettings
    """The client."""
    credentials: tuple[ClientRecord, ...] = ()
    """Clients that were registered by hand, each with its issuer."""
    authorization_server: str | None = None
    """The issuer to use in place of what the server names, for a server that names none or spells it differently."""
    scopes: tuple[str, ...] | None = None
    """What to ask for where the challenge does not say; `None`: all that the server lists."""
    protocol_version: str | None = None
    """Sent with requests for metadata, as 2025-03-26 wants it."""
    legacy: bool = True
    """Whether to try what 2025-03-26 had, for a client that speaks it."""
    networks: frozenset[AddressClass] | None = None
    """Where URLs from peers may lead, see `mcp_core.oauth.addresses.reachable`; `None`: by the server's URL alone."""
    signer: Signer | None = None
    """The client's key for `private_key_jwt`."""
    proof: Proof | None = None
    """The key that tokens are bound to, where the authorization server can do that."""
