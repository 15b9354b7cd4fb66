"""`mcp-conformance authorization-server`."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from mcp_conformance.checks import Role
from mcp_conformance.cli_choice import NotUnderstood, add_choices, choice, choice_words
from mcp_conformance.cli_reports import add_reports, finish, progress, require_writable
from mcp_conformance.issuer_runner import run_authorization_server
from mcp_conformance.report.explain import list_lines
from mcp_conformance.server.authorization_server import NEED

if TYPE_CHECKING:
    import argparse

__all__ = ["add_issuer", "issuer_command"]


def add_issuer(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("--issuer", metavar="URL", help="what the authorization server calls itself; it runs already")
    add_choices(parser)
    add_reports(parser)


def issuer_command(given: argparse.Namespace) -> int:
    """Puts an authorization server to the test. The exit status.

    Raises:
        NotUnderstood: The options make no sense.
    """
    chosen = choice(given, Role.SERVER)
    chosen = attrs.evolve(chosen, checks=tuple(each for each in chosen.checks if NEED in each.needs))
    if given.list:
        print(*list_lines(chosen.checks, [each.name for each in chosen.revisions]), sep="\n")
        return 0
    if given.issuer is None:
        raise NotUnderstood("authorization-server needs --issuer: what is put to the test?")
    if not given.issuer.startswith(("https://", "http://")):
        raise NotUnderstood(f"--issuer {given.issuer!a} is no URL")
    require_writable(given)
    show = progress(chosen, Role.SERVER)
    run_it = partial(
        run_authorization_server,
        given.issuer,
        chosen.settings,
        revisions=chosen.revisions,
        chosen=chosen.ids,
        show=show,
    )
    try:
        run = trio.run(run_it)
    finally:
        show.close()
    words = ["mcp-conformance", "authorization-server", "--issuer", given.issuer, *choice_words(given)]
    return finish(given, chosen, attrs.evolve(run, invocation=shlex.join(words)))
