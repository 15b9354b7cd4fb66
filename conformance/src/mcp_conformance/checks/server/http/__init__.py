"""The checks of servers about Streamable HTTP and HTTP+SSE."""
