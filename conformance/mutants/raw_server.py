"""A server of all five revisions in plain Python: correct, except for one fault at a time.

    python -m mutants.raw_server                     over stdio
    python -m mutants.raw_server --port 8000         over HTTP
    python -m mutants.raw_server --fault no-jsonrpc  broken

`mutants.server_faults` defines the faults; `mutants.server` is the server to which they apply.
"""

from __future__ import annotations

import argparse
import sys

from mutants.server.http import serve_http
from mutants.server.server import RawServer
from mutants.server.stdio import serve
from mutants.server_faults.table import FAULTS

__all__ = ["main"]


def main() -> int:
    """Serve until the input ends, or over HTTP until the process is ended, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="raw_server", description="A server in plain Python, for the tests of the suite."
    )
    parser.add_argument("--port", type=int, help="serve HTTP at this port; default: serve stdio")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="the fault of the server")
    parser.add_argument("--key", help="a bearer token that HTTP requests must carry")
    parser.add_argument("--modern-only", action="store_true", help="serve only the modern revisions over HTTP")
    given = parser.parse_args()
    server = RawServer(FAULTS[given.fault].make() if given.fault else None)
    if given.port is None:
        serve(server)
    else:
        serve_http(server, given.port, given.key, modern_only=given.modern_only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
