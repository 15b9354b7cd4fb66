"""The entry point of `python -m mcp_client`: the command line."""

from __future__ import annotations

import sys

from mcp_client.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
