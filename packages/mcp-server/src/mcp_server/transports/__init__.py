"""The HTTP transports of a server: Streamable HTTP, and HTTP+SSE."""
