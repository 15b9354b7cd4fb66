"""The command `mcp-conformance`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import mcp_conformance

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_STATE = """\
state of this version:
  there          this command line
  not there yet  the requirements of the specification as data; scenarios that check a server;
                 scenarios that check a client; reports

It checks nothing yet, and says nothing about any client or server.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: The words behind the command's name; `None` takes those of the process.

    Returns:
        The exit status: 2, since there is nothing to run yet.

    Raises:
        SystemExit: After `--help` or `--version` (status 0), or a word that is not understood (status 2).
    """
    parser = argparse.ArgumentParser(
        prog="mcp-conformance",
        description="Checks whether a Model Context Protocol client or server keeps the rules of the specification.",
        epilog=_STATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-conformance {mcp_conformance.__version__}")
    parser.parse_args(arguments)
    parser.print_help(sys.stderr)
    return 2
