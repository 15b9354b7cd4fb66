"""The command `mcp-server dev`: a server that reloads when its files change, and an inspector page for it."""
