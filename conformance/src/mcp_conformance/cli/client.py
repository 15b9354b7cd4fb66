"""`mcp-conformance client`."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.cli.options import CommandLineError, add_choices, choice, choice_words, require_words
from mcp_conformance.cli.reports import add_reports, finish, progress, require_writable
from mcp_conformance.cli.signals import run_until_stopped
from mcp_conformance.drivers.server.targets import NotStarted
from mcp_conformance.model.check import Role
from mcp_conformance.reports.explanation import list_lines
from mcp_conformance.runners.client import ClientCommand, run_client

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["add_client", "client_command"]


def add_client(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    target = parser.add_argument_group("the client: one of these, or both")
    target.add_argument(
        "--command",
        dest="command_line",
        metavar='"WORDS {url}"',
        help="command that starts the client, which connects to the URL; without {url} the URL is appended",
    )
    target.add_argument(
        "--stdio-command",
        metavar='"WORDS {command}"',
        help=(
            "command that starts the client, which starts the server with the words of {command}; without "
            "{command} they are appended"
        ),
    )
    target.add_argument(
        "--client-document",
        metavar="FILE",
        help=(
            "the Client ID Metadata Document that the author of the client hosts, at the URL that the client uses as "
            "its id"
        ),
    )
    add_choices(parser, Role.CLIENT)
    add_reports(parser)


def client_command(given: argparse.Namespace) -> int:
    """Test a client and return the exit status.

    Raises:
        CommandLineError: The options are invalid.
        NotStarted: The client did not start.
    """
    chosen = choice(given, Role.CLIENT)
    if given.list:
        print(*list_lines(chosen.checks, [each.name for each in chosen.revisions]), sep="\n")
        return 0
    if given.command_line is None and given.stdio_command is None:
        raise CommandLineError("client needs --command, --stdio-command or both: there is nothing to test")
    require_writable(given)
    require_words(given.command_line, given.stdio_command)
    settings = attrs.evolve(chosen.settings, client_document=_document(given.client_document))
    show = progress(chosen, Role.CLIENT)
    command = ClientCommand(http=given.command_line, stdio=given.stdio_command)
    run_it = partial(
        run_client,
        command,
        settings,
        revisions=chosen.revisions,
        chosen=chosen.ids,
        show=show,
        played=show.played,
    )
    try:
        run = run_until_stopped(run_it)
    except OSError as error:
        raise NotStarted(f"the client cannot be started: {error}") from error
    finally:
        show.close()
    return finish(given, chosen, attrs.evolve(run, invocation=shlex.join(_invocation(given))))


def _document(name: str | None) -> bytes | None:
    """Return the content of the document; `None` without one.

    Raises:
        CommandLineError: It cannot be read.
    """
    try:
        return None if name is None else Path(name).read_bytes()
    except OSError as error:
        raise CommandLineError(f"--client-document cannot be read: {error}") from error


def _invocation(given: argparse.Namespace) -> Iterator[str]:
    """Yield the command line without the choice of checks and reports."""
    yield from ("mcp-conformance", "client")
    for option, value in (
        ("--command", given.command_line),
        ("--stdio-command", given.stdio_command),
        ("--client-document", given.client_document),
    ):
        if value is not None:
            yield from (option, value)
    yield from choice_words(given)
