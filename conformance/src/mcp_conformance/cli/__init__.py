"""The command `mcp-conformance`."""
