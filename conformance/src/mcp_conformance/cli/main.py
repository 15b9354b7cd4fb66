"""The command `mcp-conformance`."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING, Final

import mcp_conformance
from mcp_conformance.cli.authorization_server import add_issuer, issuer_command
from mcp_conformance.cli.client import add_client, client_command
from mcp_conformance.cli.options import NotUnderstood, near
from mcp_conformance.cli.server import add_server, server_command
from mcp_conformance.cli.signals import Stopped
from mcp_conformance.drivers.server.targets import NotStarted
from mcp_conformance.reports.explanation import explain_lines
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.coverage import coverage_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["main"]

_STATUSES: Final = """\
exit status:
  0  every check that counts and applies passed, or is known to the baseline
  1  a check failed, or could not be tested (see --allow-untested), and the baseline does not know it; or the baseline
     knows what is not red any more
  2  the command line was not understood, or a file that it names
  3  there was nothing to test: it could not be reached, or does not speak a revision that was asked for by --revision,
     or speaks none; or the suite itself went wrong
  128 and the number of the signal, where SIGINT or SIGTERM stopped it: what it had started is ended
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: The words behind the command's name; `None` takes those of the process.

    Returns:
        The exit status, see `--help`.

    Raises:
        SystemExit: After `--help` or `--version` (status 0), or a word that is not understood (status 2).
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return _COMMANDS[given.command](given)
    except (KeyboardInterrupt, Stopped) as stopped:
        number = signal.SIGTERM if isinstance(stopped, Stopped) else signal.SIGINT
        print(f"mcp-conformance: stopped by {number.name}", file=sys.stderr)
        return 128 + number
    except NotUnderstood as error:
        print(f"mcp-conformance: {error}", file=sys.stderr)
        return 2
    except NotStarted as error:
        print(f"mcp-conformance: {error}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp-conformance",
        description="Checks whether a Model Context Protocol client or server keeps the rules of the specification.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-conformance {mcp_conformance.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    server = commands.add_parser(
        "server",
        help="put a server to the test",
        description="Puts a server to the test, over its pipes or at a URL.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server(server)
    client = commands.add_parser(
        "client",
        help="put a client to the test",
        description="Puts a client to the test: it is run once for each scenario, revision and transport.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_client(client)
    issuer = commands.add_parser(
        "authorization-server",
        help="put an authorization server to the test",
        description="Puts an authorization server to the test: what it shows to anybody, and with --browser what it gives to "
        "somebody who logs in.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_issuer(issuer)
    explain = commands.add_parser("explain", help="show what a check does, what it proves and how to run it")
    explain.add_argument("check", metavar="CHECK-ID")
    coverage = commands.add_parser("coverage", help="show which requirements the checks prove")
    coverage.add_argument(
        "--every", action="store_true", help="name each requirement that has no check, with the reason"
    )
    return parser


def _explain(given: argparse.Namespace) -> int:
    found = [check for checks in CHECKS.values() for check in checks if check.id == given.check]
    if not found:
        known = {check.id for checks in CHECKS.values() for check in checks}
        raise NotUnderstood(f"there is no check {given.check!r}{near(given.check, known)}")
    for check in found:
        print(*explain_lines(check), sep="\n")
    return 0


def _coverage(given: argparse.Namespace) -> int:
    print(*coverage_lines(every=given.every), sep="\n")
    return 0


_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "server": server_command,
    "client": client_command,
    "authorization-server": issuer_command,
    "explain": _explain,
    "coverage": _coverage,
}
