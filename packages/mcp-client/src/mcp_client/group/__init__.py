"""Groups of clients: connections to several servers at once, for example those of a configuration file."""

from __future__ import annotations

from mcp_client.config import AuthConfig, ConfigError, ConfigInput, ServerConfig, read_config
from mcp_client.group.client_group import ClientGroup, GroupListing, ServerItem, configured, open_group
from mcp_client.group.member import Member, Restart
from mcp_client.group.names import NameCollision, Naming

__all__ = [
    "AuthConfig",
    "ClientGroup",
    "ConfigError",
    "ConfigInput",
    "GroupListing",
    "Member",
    "NameCollision",
    "Naming",
    "Restart",
    "ServerConfig",
    "ServerItem",
    "configured",
    "open_group",
    "read_config",
]
