"""Authorization checks of protected MCP servers."""
