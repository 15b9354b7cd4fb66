"""The server with every feature, for `mcp-server run` in several workers: its folder has to be in PYTHONPATH."""

from __future__ import annotations

from everything import make_server

server = make_server()
