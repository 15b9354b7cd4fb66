"""`mcp-conformance authorization-server`."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED
from mcp_conformance.cli.options import CommandLineError, add_choices, choice, choice_words, require_words
from mcp_conformance.cli.reports import add_reports, finish, progress, require_writable
from mcp_conformance.cli.signals import run_until_stopped
from mcp_conformance.model.check import Role
from mcp_conformance.oauth_testbed.trusted_party import PartyOptions
from mcp_conformance.oauth_testbed.user_login import Login, command_browser
from mcp_conformance.reports.explanation import list_lines
from mcp_conformance.runners.authorization_server import run_authorization_server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["add_issuer", "issuer_command"]


def add_issuer(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    target = parser.add_argument_group("the authorization server and the user login")
    target.add_argument("--issuer", metavar="URL", help="issuer URL of the authorization server, which must be running")
    target.add_argument(
        "--browser",
        metavar='"WORDS {url}"',
        help=(
            "a command that opens an authorization URL, logs in, consents, and follows the redirects back to the "
            "suite; it is run about ten times. Without it, checks that need a login do not run"
        ),
    )
    target.add_argument(
        "--client-id",
        metavar="ID",
        help=(
            "a registered public client with the redirect URI http://127.0.0.1:PORT/callback, for any port (RFC "
            "8252); without it, the suite registers one"
        ),
    )
    target.add_argument(
        "--resource",
        metavar="URL",
        help=(
            "the MCP server for which tokens are requested; by default the first of protected_resources in the "
            "metadata, if any"
        ),
    )
    party = parser.add_argument_group(
        "a party that the authorization server trusts",
        "The suite serves it at https://localhost:PORT: the issuer of a workload's and an employee's JWTs, and the host "
        "of Client ID Metadata Documents. The authorization server must trust its certificate.",
    )
    party.add_argument("--https-cert", metavar="FILE", help="certificate for localhost (PEM)")
    party.add_argument("--https-key", metavar="FILE", help="its private key (PEM)")
    party.add_argument("--https-port", type=int, metavar="PORT", help="the port")
    party.add_argument(
        "--workload",
        metavar="SUBJECT",
        help=(
            "subject of a workload that may have tokens, with JWTs of the issuers https://localhost:PORT and "
            "https://localhost:PORT/plain; any other subject may have none"
        ),
    )
    party.add_argument(
        "--enterprise-client",
        metavar="ID",
        help=(
            "a client whose employees have ID-JAGs of the identity provider https://localhost:PORT; it authenticates "
            "by private_key_jwt, with the keys at https://localhost:PORT/jwks, and may use client credentials"
        ),
    )
    add_choices(parser, Role.SERVER)
    add_reports(parser)


def issuer_command(given: argparse.Namespace) -> int:
    """Test an authorization server and return the exit status.

    Raises:
        CommandLineError: The options are invalid.
    """
    chosen = choice(given, Role.SERVER)
    chosen = attrs.evolve(chosen, checks=tuple(each for each in chosen.checks if NEED in each.needs))
    if given.list:
        print(*list_lines(chosen.checks, [each.name for each in chosen.revisions]), sep="\n")
        return 0
    if given.issuer is None:
        raise CommandLineError("authorization-server needs --issuer: there is nothing to test")
    if not given.issuer.startswith(("https://", "http://")):
        raise CommandLineError(f"--issuer {given.issuer!a} is not a URL")
    require_words(given.browser)
    if given.browser is not None and "{url}" not in given.browser:
        raise CommandLineError(f"--browser {given.browser!a} has no {{url}} for the authorization URL")
    party = _party(given)
    if given.browser is None and given.client_id is not None:
        raise CommandLineError("--client-id is for a login: it needs --browser")
    if given.browser is None and party is None and given.resource is not None:
        raise CommandLineError("--resource is for token requests: it needs --browser or --https-cert")
    require_writable(given)
    show = progress(chosen, Role.SERVER)
    run_it = partial(
        run_authorization_server,
        given.issuer,
        chosen.settings,
        revisions=chosen.revisions,
        chosen=chosen.ids,
        show=show,
        login=_login(given),
        party=party,
    )
    try:
        run = run_until_stopped(run_it)
    except OSError as error:
        raise CommandLineError(f"--https-cert, --https-key and --https-port: {error}") from error
    finally:
        show.close()
    return finish(given, chosen, attrs.evolve(run, invocation=shlex.join(_invocation(given))))


def _login(given: argparse.Namespace) -> Login | None:
    if given.browser is None:
        return None
    return Login(command_browser(shlex.split(given.browser)), client_id=given.client_id, resource=given.resource)


def _party(given: argparse.Namespace) -> PartyOptions | None:
    """Return the options of the party over https; `None` without them.

    Raises:
        CommandLineError: Some of them are missing.
    """
    address = (given.https_cert, given.https_key, given.https_port)
    if all(each is None for each in address):
        if given.workload is not None or given.enterprise_client is not None:
            raise CommandLineError("--workload and --enterprise-client need --https-cert")
        return None
    if any(each is None for each in address):
        raise CommandLineError("--https-cert, --https-key and --https-port belong together")
    return PartyOptions(
        certificate=given.https_cert,
        key=given.https_key,
        port=given.https_port,
        workload=given.workload,
        client=given.enterprise_client,
        resource=given.resource,
    )


def _invocation(given: argparse.Namespace) -> Iterator[str]:
    """Yield the command line without the choice of checks and reports."""
    yield from ("mcp-conformance", "authorization-server", "--issuer", given.issuer)
    if given.browser is not None:
        # The command may contain a password, and reports are published.
        yield from ("--browser", "<command> {url}")
    for option, value in (
        ("--client-id", given.client_id),
        ("--resource", given.resource),
        ("--https-cert", given.https_cert),
        ("--https-key", given.https_key),
        ("--https-port", given.https_port),
        ("--workload", given.workload),
        ("--enterprise-client", given.enterprise_client),
    ):
        if value is not None:
            yield from (option, str(value))
    yield from choice_words(given)
