"""The command line: `mcp-server`."""
