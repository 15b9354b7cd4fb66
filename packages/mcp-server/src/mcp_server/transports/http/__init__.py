"""The MCP endpoint over HTTP: Streamable HTTP in all revisions, and HTTP+SSE of 2024-11-05."""
