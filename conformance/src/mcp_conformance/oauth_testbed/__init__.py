"""The OAuth testbed for clients: an MCP server, authorization servers, an identity provider and an attacker."""
