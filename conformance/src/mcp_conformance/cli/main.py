"""The command `mcp-conformance`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import mcp_conformance
from mcp_conformance.cli.authorization_server import add_issuer, issuer_command
from mcp_conformance.cli.client import add_client, client_command
from mcp_conformance.cli.compare import COMPARE_STATUSES, add_compare, compare_command
from mcp_conformance.cli.options import CommandLineError, near
from mcp_conformance.cli.parser import CommandParser
from mcp_conformance.cli.server import add_server, server_command
from mcp_conformance.cli.signals import RunStopped
from mcp_conformance.drivers.server.targets import NotStarted
from mcp_conformance.reports.explanation import explain_lines
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.coverage import coverage_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["main"]

_BROKEN_PIPE: Final = 141
"""128 plus the number of SIGPIPE, which ends other programs in this case."""

_STATUSES: Final = """\
exit status:
  0  every check of the level MUST that counts and applies passed, or its failure is in the baseline; failures of
     other levels are warnings
  1  a check of the level MUST, or with --strict of any level, failed, or could not test (see --allow-untested and
     --profile), and is not in the baseline; or a check in the baseline does not fail
  2  the command line is invalid, or a file that it names
  3  there was nothing to test: the target could not be reached, does not support a revision of --revision, or
     supports none; a check of --check does not apply to it; or an error of the suite
  141  the reader of stdout has ended, for example `head`
  128 plus the number of the signal, when SIGINT or SIGTERM stopped the run; its processes have ended
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments of the command; `None`: those of the process.

    Returns:
        The exit status, see `--help`.

    Raises:
        SystemExit: After `--help` or `--version` (status 0), or for an invalid option (status 2).
    """
    try:
        try:
            return _main(arguments)
        finally:
            # At exit, the interpreter would report that the reader has ended.
            sys.stdout.flush()
    except BrokenPipeError:
        # Writing must stop, also at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _main(arguments: Sequence[str] | None) -> int:
    parser, commands = _parser()
    given, rest = parser.parse_known_args(arguments)
    if rest:
        commands.get(given.command, parser).reject(rest)
    if given.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return _COMMANDS[given.command](given)
    except (KeyboardInterrupt, RunStopped) as stopped:
        number = signal.SIGTERM if isinstance(stopped, RunStopped) else signal.SIGINT
        print(f"mcp-conformance: stopped by {number.name}", file=sys.stderr)
        return 128 + number
    except CommandLineError as error:
        print(f"mcp-conformance: {error}", file=sys.stderr)
        return 2
    except NotStarted as error:
        print(f"mcp-conformance: {error}", file=sys.stderr)
        return 3


def _parser() -> tuple[CommandParser, Mapping[str, CommandParser]]:
    """Return the parser of the command line, and the parsers of the commands by name."""
    parser = CommandParser(
        prog="mcp-conformance",
        description="Tests a Model Context Protocol client or server against the rules of the specification.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-conformance {mcp_conformance.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    server = commands.add_parser(
        "server",
        help="test a server",
        description="Tests a server over stdio or at a URL.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server(server)
    client = commands.add_parser(
        "client",
        help="test a client",
        description="Tests a client, which is run once for each scenario, revision and transport.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_client(client)
    issuer = commands.add_parser(
        "authorization-server",
        help="test an authorization server",
        description=(
            "Tests an authorization server: its public behavior, and with --browser its behavior after a user login."
        ),
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_issuer(issuer)
    compare = commands.add_parser(
        "compare",
        help="compare two servers or two clients",
        description="Reports where two servers, or two clients, behave differently, and which requirement decides it.",
        epilog=COMPARE_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_compare(compare)
    explain = commands.add_parser("explain", help="show what a check tests, what it proves and how to run it")
    explain.add_argument("check", metavar="CHECK-ID")
    coverage = commands.add_parser("coverage", help="show which requirements the checks prove")
    coverage.add_argument("--every", action="store_true", help="list each requirement without a check, with the reason")
    return parser, commands.choices


def _explain(given: argparse.Namespace) -> int:
    found = [check for checks in CHECKS.values() for check in checks if check.id == given.check]
    if not found:
        known = {check.id for checks in CHECKS.values() for check in checks}
        raise CommandLineError(f"there is no check {given.check!r}{near(given.check, known)}")
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
    "compare": compare_command,
    "explain": _explain,
    "coverage": _coverage,
}
