"""The MCP endpoint over HTTP: Streamable HTTP in both eras, and HTTP+SSE."""
