"""A server in all five revisions, in plain Python: right as it stands, and wrong by one fault at a time.

    python -m mutants.raw_server                     over its pipes
    python -m mutants.raw_server --port 8000         over HTTP
    python -m mutants.raw_server --fault no-jsonrpc  broken

What is broken is said in `mutants.server_faults`, in one place each; the server that it is done to is `mutants.server`.
"""

from __future__ import annotations

import argparse

from mutants.server.http import serve_http
from mutants.server.server import RawServer
from mutants.server.stdio import serve
from mutants.server_faults.table import FAULTS

__all__ = ["main"]


def main() -> None:
    """Serves until the input ends, or for ever."""
    parser = argparse.ArgumentParser(
        prog="raw_server", description="A server in plain Python, for the tests of the suite."
    )
    parser.add_argument("--port", type=int, help="serve HTTP there; without it, standard input and output")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="what is wrong with it")
    parser.add_argument("--key", help="a bearer token without which nothing is to be had over HTTP")
    parser.add_argument("--modern-only", action="store_true", help="speak no older revision over HTTP")
    given = parser.parse_args()
    server = RawServer(FAULTS[given.fault].make() if given.fault else None)
    if given.port is None:
        serve(server)
    else:
        serve_http(server, given.port, given.key, modern_only=given.modern_only)


if __name__ == "__main__":
    main()
