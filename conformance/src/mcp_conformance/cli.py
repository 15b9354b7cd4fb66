"""The command `mcp-conformance`."""

from __future__ import annotations

import argparse
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

import mcp_conformance
from mcp_conformance.coverage import coverage_lines
from mcp_conformance.fixtures import Manifest, read_manifest
from mcp_conformance.report.text import progress_line, summary_lines
from mcp_conformance.runner import run_server
from mcp_conformance.settings import Settings
from mcp_conformance.targets import CommandTarget, NotStarted, UrlTarget, started
from mcp_conformance.verdicts import Outcome, Verdict
from mcp_core.errors import McpError
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.runner import Run
    from mcp_conformance.targets import ServerTarget

__all__ = ["main"]

_STATUSES: Final = """\
exit status:
  0  every check that ran passed
  1  a check failed, or could not be tested for want of a fixture
  2  the command line was not understood
  3  the server could not be reached, or the suite itself went wrong
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
    if given.command == "coverage":
        print(*coverage_lines(), sep="\n")
        return 0
    if given.command == "server":
        return _server(given)
    parser.print_help(sys.stderr)
    return 2


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
    where = server.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--command", dest="command_line", metavar='"WORDS"', help="start it so, and speak over its pipes"
    )
    where.add_argument("--url", help="it runs already, at this URL")
    where.add_argument("--start", metavar='"WORDS {port}"', help="start it so; it listens at --at")
    server.add_argument(
        "--at",
        default="http://127.0.0.1:{port}/mcp",
        metavar="URL",
        help="where it listens then (default: %(default)s)",
    )
    server.add_argument(
        "--revision", action="append", choices=list(REVISIONS), help="only this revision; may be repeated"
    )
    server.add_argument("--area", action="append", metavar="NAME", help="only the checks of this area; may be repeated")
    server.add_argument("--check", action="append", metavar="ID", help="only this check; may be repeated")
    server.add_argument("--fixtures", type=Path, metavar="FILE", help="what the server has for the fixtures (TOML)")
    server.add_argument("--patience", type=float, default=10.0, metavar="SECONDS", help="how long an answer may take")
    server.add_argument("--jobs", type=int, default=2, metavar="N", help="how many revisions are tried at a time")
    commands.add_parser("coverage", help="show which requirements the checks prove")
    return parser


def _server(given: argparse.Namespace) -> int:
    try:
        manifest = Manifest() if given.fixtures is None else read_manifest(given.fixtures)
    except (McpError, OSError) as error:
        print(f"mcp-conformance: {given.fixtures}: {error}", file=sys.stderr)
        return 2
    try:
        run = trio.run(_run_server, given, manifest)
    except NotStarted as error:
        print(f"mcp-conformance: {error}", file=sys.stderr)
        return 3
    print(*summary_lines(run), sep="\n")
    return status_of(run)


def status_of(run: Run) -> int:
    """The exit status for a run."""
    outcomes = {verdict.outcome for verdict in run.verdicts}
    if Outcome.BROKEN in outcomes or not run.verdicts:
        return 3
    return 1 if outcomes & {Outcome.FAILED, Outcome.NOT_TESTABLE} else 0


async def _run_server(given: argparse.Namespace, manifest: Manifest) -> Run:
    from mcp_conformance.server import SERVER_CHECKS

    settings = Settings(patience=given.patience, jobs=given.jobs)
    chosen = {
        check.id
        for check in SERVER_CHECKS
        if (not given.area or check.area in given.area) and (not given.check or check.id in given.check)
    }
    revisions = [REVISIONS[name] for name in given.revision or REVISIONS]

    def show(verdict: Verdict) -> None:
        if verdict.outcome in (Outcome.FAILED, Outcome.BROKEN):
            print(progress_line(verdict), file=sys.stderr)

    async with AsyncExitStack() as stack:
        target: ServerTarget
        if given.command_line is not None:
            target = CommandTarget(given.command_line, settings)
        elif given.url is not None:
            target = UrlTarget(given.url, settings)
        else:
            target = await stack.enter_async_context(started(given.start, given.at, settings))
        return await run_server(target, settings, manifest, revisions=revisions, chosen=chosen, show=show)
    raise AssertionError("the block returns")
