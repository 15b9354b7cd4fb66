"""`mcp-conformance server`."""

from __future__ import annotations

import shlex
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.cli.options import CommandLineError, add_choices, choice, choice_words, require_words
from mcp_conformance.cli.reports import add_reports, finish, progress, require_writable
from mcp_conformance.cli.signals import run_until_stopped
from mcp_conformance.drivers.server.protected_target import started_protected
from mcp_conformance.drivers.server.targets import CommandTarget, NotStarted, UrlTarget, started
from mcp_conformance.model.check import Role
from mcp_conformance.model.fixtures_manifest import Manifest, read_manifest
from mcp_conformance.reports.explanation import list_lines
from mcp_conformance.runners.server import run_server
from mcp_core.errors import McpError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from mcp_conformance.cli.options import Choice
    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.reports.text import Progress

__all__ = ["add_server", "server_command"]

_AT: Final = "http://127.0.0.1:{port}/mcp"
_JOBS: Final = 4
"""The number of legs that run at a time: most of the time of a leg is a wait, so that two leave two cores idle for a third of the run."""


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    target = parser.add_argument_group("the server: one of the first three")
    where = target.add_mutually_exclusive_group()
    where.add_argument(
        "--command",
        dest="command_line",
        metavar='"WORDS"',
        help="command that starts the server, which is tested over stdio",
    )
    where.add_argument("--url", help="URL of a running server")
    where.add_argument(
        "--start",
        metavar='"WORDS {port}"',
        help="command that starts the server, which listens at --at; it is started again if it exits during the run",
    )
    target.add_argument(
        "--at", default=_AT, metavar="URL", help="URL at which the started server listens (default: %(default)s)"
    )
    target.add_argument(
        "--sse-url",
        metavar="URL",
        help="URL of its HTTP+SSE stream (2024-11-05), if any; with --start {port} is replaced here too",
    )
    target.add_argument(
        "--header",
        action="append",
        default=[],
        metavar='"NAME: VALUE"',
        help="an HTTP header for every request, for instance an API key; may be repeated",
    )
    target.add_argument(
        "--other-header",
        action="append",
        default=[],
        metavar='"NAME: VALUE"',
        help="an HTTP header of another user, who must not have access to the first user's data; may be repeated",
    )
    target.add_argument(
        "--auth",
        action="store_true",
        help=(
            "test a protected server: needs --start, in which {issuer} is replaced by the URL of an authorization "
            "server of the suite, whose tokens the server must accept, and {resource} by the server's URL"
        ),
    )
    target.add_argument(
        "--fixtures", type=Path, metavar="FILE", help="mapping of the fixtures to features of the server (TOML)"
    )
    add_choices(parser, Role.SERVER, jobs=_JOBS)
    add_reports(parser)


def server_command(given: argparse.Namespace) -> int:
    """Test a server and return the exit status.

    Raises:
        CommandLineError: The options are invalid.
        NotStarted: The server did not start.
    """
    chosen = choice(
        given, Role.SERVER, _headers("--header", given.header), _headers("--other-header", given.other_header)
    )
    if given.list:
        print(*list_lines(chosen.checks, [each.name for each in chosen.revisions]), sep="\n")
        return 0
    if given.command_line is None and given.url is None and given.start is None:
        raise CommandLineError("server needs --command, --url or --start: there is nothing to test")
    if given.auth and given.start is None:
        raise CommandLineError("--auth needs --start: the server must use an authorization server of the suite")
    require_writable(given)
    require_words(given.command_line, given.start)
    try:
        manifest = Manifest() if given.fixtures is None else read_manifest(given.fixtures)
    except (McpError, OSError) as error:
        raise CommandLineError(f"{given.fixtures}: {error}") from error
    show = progress(chosen, Role.SERVER)
    try:
        run = run_until_stopped(partial(_run, given, chosen, manifest, show))
    except OSError as error:
        raise NotStarted(f"the server cannot be started: {error}") from error
    finally:
        show.close()
    return finish(given, chosen, attrs.evolve(run, invocation=shlex.join(_invocation(given))))


def _headers(option: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise CommandLineError(f'{option} is not "NAME: VALUE"')
        yield name.strip(), value.strip()


def _invocation(given: argparse.Namespace) -> Iterator[str]:
    """Yield the command line without the choice of checks and reports."""
    yield from ("mcp-conformance", "server")
    for option, value in (("--command", given.command_line), ("--url", given.url), ("--start", given.start)):
        if value is not None:
            yield from (option, value)
    if given.sse_url is not None:
        yield from ("--sse-url", given.sse_url)
    if given.at != _AT:
        yield from ("--at", given.at)
    for option, lines in (("--header", given.header), ("--other-header", given.other_header)):
        for name, _ in _headers(option, lines):
            # The value is secret, and reports are published.
            yield from (option, f"{name}: <secret>")
    if given.auth:
        yield "--auth"
    if given.fixtures is not None:
        yield from ("--fixtures", str(given.fixtures))
    yield from choice_words(given)


async def _run(given: argparse.Namespace, chosen: Choice, manifest: Manifest, show: Progress) -> Run:
    async with AsyncExitStack() as stack:
        target: ServerTarget
        if given.command_line is not None:
            target = CommandTarget(given.command_line, chosen.settings)
        elif given.url is not None:
            target = UrlTarget(given.url, chosen.settings, sse_url=given.sse_url)
        elif given.auth:
            target, settings = await stack.enter_async_context(
                started_protected(given.start, given.at, chosen.settings, sse_url=given.sse_url)
            )
            chosen = attrs.evolve(chosen, settings=settings)
        else:
            target = await stack.enter_async_context(
                started(given.start, given.at, chosen.settings, sse_url=given.sse_url)
            )
        return await run_server(
            target, chosen.settings, manifest, revisions=chosen.revisions, chosen=chosen.ids, show=show
        )
    raise AssertionError("the block returns")
