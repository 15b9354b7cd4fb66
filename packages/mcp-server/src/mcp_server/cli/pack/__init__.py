"""The command `mcp-server pack`: builds a bundle of a server, and its entry for a registry."""
