"""Settings of the OAuth flows of a client for one MCP server. See `FlowSettings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.client_metadata import ClientSettings
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.grants import Grant
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord

__all__ = ["FlowSettings"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FlowSettings(FieldValue):
    """The settings that all flows for one MCP server share."""

    server_url: str
    """The URL of the MCP server."""
    grant: Grant
    """The grant that obtains tokens."""
    client: ClientSettings
    """The client."""
    credentials: tuple[ClientRecord, ...] = ()
    """Clients that were registered manually, each with its issuer."""
    authorization_server: str | None = None
    """The issuer to use instead of those that the server names, for a server that names none or spells it
    differently."""
    scopes: tuple[str, ...] | None = None
    """The scopes to request if the challenge names none; `None` for all that the server lists."""
    protocol_version: str | None = None
    """The revision to send with metadata requests, as required by 2025-03-26."""
    legacy: bool = True
    """Whether to try the rules of 2025-03-26, for a client that supports that revision."""
    networks: frozenset[AddressClass] | None = None
    """The classes of addresses that are allowed for URLs from peers, see `mcp_core.oauth.addresses.reachable`. `None`
    derives them from the server's URL."""
    signer: Signer | None = None
    """The client's key for `private_key_jwt`."""
    proof: Proof | None = None
    """The key to which tokens are bound, if the authorization server supports it."""
