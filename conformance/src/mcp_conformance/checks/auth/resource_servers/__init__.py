"""The authorization checks of protected MCP servers."""
