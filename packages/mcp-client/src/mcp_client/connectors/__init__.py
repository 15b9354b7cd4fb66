"""How a connection is made: `open_stdio`, `open_stream`, `open_http`."""
