"""MCP over a byte stream, one message per line: a child process, or any stream."""
