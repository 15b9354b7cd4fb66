"""A world of OAuth to try a client in: a protected MCP server, authorization servers, and whoever lies in wait."""
