"""`mcp-conformance compare`."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.cli.options import CommandLineError, add_checks, add_limits, require_words, selection
from mcp_conformance.cli.signals import run_until_stopped
from mcp_conformance.drivers.server.targets import CommandTarget, NotStarted, UrlTarget, started
from mcp_conformance.model.check import Role
from mcp_conformance.model.fixtures_manifest import Manifest, read_manifest
from mcp_conformance.reports.comparison import comparison_document, comparison_lines
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.runners.comparison import compare
from mcp_conformance.runners.server import run_server
from mcp_core.errors import McpError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence

    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.runners.check_run import Observe
    from mcp_conformance.runners.comparison import Comparison, Conversation
    from mcp_core.revisions import Revision

__all__ = ["COMPARE_STATUSES", "add_compare", "compare_command"]

_AT: Final = "http://127.0.0.1:{port}/mcp"
_PORT: Final = "{port}"
_TWO: Final = 2

COMPARE_STATUSES: Final = """\
Each server is a URL, a command that starts it over stdio, or a command with {port}, which serves
http://127.0.0.1:{port}/mcp. Both must use the same transport. A client is a command, as for `mcp-conformance client`.

Both take part in the same conversations, those of the checks. What implementations may choose is not compared: ids,
session ids, cursors, names, versions, texts, numbers, times, and the order of members. A difference counts if it is
found again when the checks that differ are repeated. Differences are shown by check:
  OUTCOME   the check has another outcome
  MESSAGES  the check has the same outcome, and messages differ: status, error code, members, types, order
Each is followed by the requirement that decides it, or by "not specified".

examples:
  mcp-conformance compare --server "node old.js" --server "node new.js"
  mcp-conformance compare --server http://localhost:3000/mcp --server http://localhost:3001/mcp --revision 2025-11-25

exit status:
  0  no difference
  1  there are differences
  2  the command line is invalid, or a file that it names
  3  there was nothing to compare: one could not be started or reached, or both support no revision in common
  141  the reader of stdout has ended, for example `head`
  128 plus the number of the signal, when SIGINT or SIGTERM stopped the run; its processes have ended
"""


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    target = parser.add_argument_group("the implementations: two servers or two clients")
    for role, metavar, placeholder in (
        ("server", '"WORDS" or URL', "a URL, a command over stdio, or a command with {port} over HTTP"),
        ("client", '"WORDS {url}"', "a command that connects to {url}; without {url} the URL is appended"),
    ):
        target.add_argument(
            f"--{role}", action="append", default=[], metavar=metavar, help=f"a {role}: {placeholder}; needed twice"
        )
    target.add_argument(
        "--fixtures", type=Path, metavar="FILE", help="mapping of the fixtures to features of both servers (TOML)"
    )
    add_checks(parser)
    add_limits(parser.add_argument_group("time limits"))
    parser.add_argument_group("reports").add_argument(
        "--json", type=Path, metavar="FILE", help="all differences, for programs"
    )


def compare_command(given: argparse.Namespace) -> int:
    """Compare two implementations and return the exit status.

    Raises:
        CommandLineError: The options are invalid.
        NotStarted: An implementation did not start, or both have nothing in common.
    """
    role = Role.CLIENT if given.client else Role.SERVER
    pair: list[str] = given.client or given.server
    if (given.client and given.server) or len(pair) != _TWO:
        raise CommandLineError("compare needs --server twice, or --client twice")
    require_words(*pair)
    if role is Role.SERVER and len({_is_http(each) for each in pair}) > 1:
        raise CommandLineError(
            "one server uses stdio and the other HTTP: compare two commands, or two servers over HTTP (a URL, or a "
            "command with {port})"
        )
    if given.json is not None and not given.json.parent.is_dir():
        raise CommandLineError(f"--json: {given.json} cannot be written: its folder must exist")
    try:
        manifest = Manifest() if given.fixtures is None else read_manifest(given.fixtures)
    except (McpError, OSError) as error:
        raise CommandLineError(f"{given.fixtures}: {error}") from error
    revisions, checks, settings = selection(given, role)
    chosen = frozenset(check.id for check in checks)
    try:
        found = run_until_stopped(
            partial(_run, role, pair, settings=settings, manifest=manifest, revisions=revisions, chosen=chosen)
        )
    except OSError as error:
        raise NotStarted(f"an implementation cannot be started: {error}") from error
    if not found.compared:
        reasons = "; ".join(dict.fromkeys(leg.refusal for run in (found.a, found.b) for leg in run.legs if leg.refusal))
        raise NotStarted(f"there is no check that both take part in{f': {reasons}' if reasons else ''}")
    if given.json is not None:
        given.json.write_text(f"{json.dumps(comparison_document(found), indent=1)}\n", encoding="utf-8")
    encoding = sys.stdout.encoding or "utf-8"
    for line in comparison_lines(found):
        print(line.encode(encoding, "backslashreplace").decode(encoding))
    return 1 if found.differs else 0


def _is_url(server: str) -> bool:
    return server.startswith(("http://", "https://"))


def _is_http(server: str) -> bool:
    return _is_url(server) or _PORT in server


async def _run(
    role: Role,
    pair: Sequence[str],
    *,
    settings: Settings,
    manifest: Manifest,
    revisions: Sequence[Revision],
    chosen: Collection[str],
) -> Comparison:
    async with AsyncExitStack() as stack:
        a, b = [
            _client(each, settings) if role is Role.CLIENT else await _server(each, settings, manifest, stack)
            for each in pair
        ]
        found = await compare(a, b, role, revisions=revisions, chosen=chosen)
        # A URL with a port that the suite chose says less than the command.
        return attrs.evolve(found, a=attrs.evolve(found.a, target=pair[0]), b=attrs.evolve(found.b, target=pair[1]))
    raise AssertionError("the block returns")


async def _server(server: str, settings: Settings, manifest: Manifest, stack: AsyncExitStack) -> Conversation:
    target: ServerTarget
    if _is_url(server):
        target = UrlTarget(server, settings)
    elif _PORT in server:
        target = await stack.enter_async_context(started(server, _AT, settings))
    else:
        target = CommandTarget(server, settings)

    async def converse(*, revisions: Sequence[Revision], chosen: Collection[str], observe: Observe) -> Run:
        return await run_server(target, settings, manifest, revisions=revisions, chosen=chosen, observe=observe)

    return converse


def _client(client: str, settings: Settings) -> Conversation:
    command = ClientCommand(http=client)

    async def converse(*, revisions: Sequence[Revision], chosen: Collection[str], observe: Observe) -> Run:
        return await run_client(command, settings, revisions=revisions, chosen=chosen, observe=observe)

    return converse
