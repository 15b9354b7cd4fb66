"""Entry point of `python -m mcp_server`: the command `mcp-server`."""

from __future__ import annotations

import sys

from mcp_server.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
