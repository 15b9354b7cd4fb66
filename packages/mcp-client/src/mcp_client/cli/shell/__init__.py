"""The interactive shell: `mcp-client shell`."""
