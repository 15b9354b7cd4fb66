"""The transports: stdio, Streamable HTTP, HTTP+SSE."""
