"""Connectors, which open connections to servers: `open_stdio`, `open_stream`, `open_http`."""
