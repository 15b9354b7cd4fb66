"""The command line: `mcp-client`."""
