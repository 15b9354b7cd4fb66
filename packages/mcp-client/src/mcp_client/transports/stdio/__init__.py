"""MCP over a byte stream, one message a line: a child process, or any stream."""
