"""The command line: `mcp-client probe https://example.com/mcp`, `mcp-client probe -- my-server`, and the like."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from mcp_client.cli.arguments import UsageError, command_first, headers_of, is_url, pairs, server_among
from mcp_client.cli.commands import COMMANDS, Invocation
from mcp_client.cli.forms import Forms
from mcp_client.cli.output import Screen, one_line
from mcp_client.config import ServerConfig
from mcp_client.connectors.http import open_http
from mcp_client.connectors.stdio import DEFAULT_INFO, open_stdio
from mcp_client.deadlines import Deadlines
from mcp_client.handlers import Handlers
from mcp_core.errors import (
    AccessDenied,
    AuthorizationError,
    ConnectionEnded,
    HttpFailure,
    LocalProtocolError,
    McpError,
    NegotiationFailed,
    ProcessFailed,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.revisions import REVISIONS
from mcp_core.types import LOGGING_LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_client.connectors.stdio import Opening
    from mcp_client.transports.http.authorizer import Authorization
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingMessageNotificationParams

__all__ = ["main"]

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130

_CODES: Final = """\
exit codes:
  0    done
  1    the tool failed, or the server answered with an error
  2    the command line makes no sense
  3    no connection: the server did not start, speaks another revision, or wants a login that failed
  130  interrupted

The server is a URL, or a command behind `--`, or one that is written down in a file with `mcpServers` (or `servers`):
  mcp-client call forecast city=Ghent days=3 https://example.com/mcp
  mcp-client call forecast city=Ghent days=3 -- python my_server.py
  mcp-client call forecast city=Ghent days=3 --config mcp.json --server weather

Options may stand before the command or behind it; each command tells its own with --help.

A server with a URL may want a login: a browser is opened where somebody is at a terminal, and the tokens are kept in the
keyring of the system. `mcp-client logout URL` deletes them, `mcp-client diagnose-auth URL` tells why a login fails; it exits
with 0 when one would work, or none is needed, and with 1 when it would fail.

Questions of the server to the user are asked here. There is no model and no folder to be shared: the server is told so,
and `sampling/createMessage` and `roots/list` are refused.
"""

_HINTS: Final[dict[type[McpError], str]] = {
    ProcessFailed: "Check the command behind `--`; it is looked up on PATH, and no shell is involved.",
    NegotiationFailed: "Leave --revision out to allow every revision.",
    RequestTimeout: "Give it more time with --timeout SECONDS; --stderr show tells what it does meanwhile.",
    ConnectionEnded: (
        "Run the server by hand to see what happens, or add --stderr show. --revision says what the server speaks."
    ),
    LocalProtocolError: "`mcp-client probe` shows what the server offers.",
}

_HTTP_HINTS: Final[dict[type[McpError], str]] = {
    AccessDenied: (
        "Log in by --login auto or --login paste, or send other credentials: --header 'Authorization: Bearer TOKEN'."
    ),
    AuthorizationError: "`mcp-client diagnose-auth URL` tells step by step what a login would do.",
    HttpFailure: "Check the URL, its path included: servers often listen at /mcp or /sse.",
    NegotiationFailed: "Leave --revision out to allow every revision.",
    RequestTimeout: "Give it more time with --timeout SECONDS.",
    ConnectionEnded: "Check that the server runs, and that nothing between here and there ends connections.",
    LocalProtocolError: "`mcp-client probe` shows what the server offers.",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does; `--help` has the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {message}; `{self.prog} --help` tells more\n")


def _common() -> _Parser:
    """The options that every command has."""
    common = _Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="results as JSON, one document a line")
    common.add_argument(
        "--revision",
        action="append",
        choices=[*REVISIONS],
        metavar="REVISION",
        help=f"speak only this revision (several: any of them): {', '.join(REVISIONS)}",
    )
    common.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="how long to wait for the server, and for each answer"
    )
    common.add_argument("--config", metavar="FILE", help="a file in which an application wrote down its servers")
    common.add_argument("--server", metavar="NAME", help="the server of that file; not needed where there is only one")
    common.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the server")
    common.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="an HTTP header for every request"
    )
    common.add_argument(
        "--login",
        choices=["auto", "paste", "never"],
        help="when the server wants a login: open a browser (auto, where somebody is at a terminal), show the URL and let "
        "its answer be pasted, or fail",
    )
    common.add_argument("--cwd", metavar="DIRECTORY", help="the working directory of the server")
    common.add_argument("--stderr", choices=["show", "hide"], default="hide", help="what the server writes to stderr")
    common.add_argument(
        "--log-level",
        choices=[*LOGGING_LEVELS],
        metavar="LEVEL",
        help=f"show log messages of the server from this level: {', '.join(LOGGING_LEVELS)}",
    )
    return common


def _parser() -> _Parser:
    parser = _Parser(
        prog="mcp-client",
        description="Talks to a server of the Model Context Protocol.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-client {DEFAULT_INFO.version}")
    common = _common()
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            description=summary,
            parents=[common],
            epilog=_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    command("probe", "show who the server is, what it speaks and offers")
    listing = command("list", "list what the server offers")
    listing.add_argument("kind", nargs="?", choices=["tools", "resources", "templates", "prompts"])
    call = command("call", "call a tool")
    call.add_argument("name")
    call.add_argument(
        "pairs", nargs="*", default=[], metavar="KEY=VALUE", help="arguments, typed by the tool's input schema"
    )
    call.add_argument("--args", metavar="JSON", help="all arguments as a JSON object")
    read = command("read", "read a resource")
    read.add_argument("uri")
    read.add_argument("--output", metavar="FILE", help="write the contents to a file")
    prompt = command("prompt", "get a prompt")
    prompt.add_argument("name")
    prompt.add_argument("pairs", nargs="*", default=[], metavar="KEY=VALUE", help="arguments of the prompt")
    complete = command("complete", "complete an argument of a prompt or a resource template")
    complete.add_argument("ref", help="the name of a prompt, or a URI template (it has `{` or `://`)")
    complete.add_argument("argument", help="the argument to complete")
    complete.add_argument("value", nargs="?", default="", help="what was typed so far")
    complete.add_argument("--known", action="append", default=[], metavar="NAME=VALUE", help="another argument's value")
    listen = command("listen", "show changes as they happen; of all lists unless told otherwise")
    command("diagnose-auth", "tell what a login at the server would do, without a token and without a login")
    command("logout", "delete what is kept of a login at the server, and have it revoked")
    for what in ("tools", "prompts", "resources"):
        listen.add_argument(f"--{what}", action="store_true", help=f"of the list of {what}")
    listen.add_argument("--uri", action="append", default=[], help="of a resource (several times for several)")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
        Deadlines(connect=seconds)
    except ValueError:
        raise argparse.ArgumentTypeError(f"it has to be a number of seconds above 0, not {text!r}") from None
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words behind the program's name; those of this process when `None`.

    Returns:
        The exit code, as `--help` explains it.
    """
    words, server = server_among(list(sys.argv[1:] if arguments is None else arguments))
    parser = _parser()
    options = parser.parse_args(command_first(words))
    if options.config is not None and server:
        parser.error("--config and a URL or command both say which server: give one of them")
    if options.config is None and options.server is not None:
        parser.error("--server is for the servers of a file: --config FILE")
    if options.config is None and not server:
        parser.error("say which server: its URL, or behind `--` its command: mcp-client probe -- python my_server.py")
    screen = Screen(json=options.json)
    remarks = _Remarks(screen)
    logging.getLogger("mcp_client").addHandler(remarks)
    try:
        entry = ServerConfig(name="", command=tuple(server))
        if options.config is not None:
            from mcp_client.cli.config_file import configured_server  # lazy: only here

            entry = configured_server(options.config, options.server, screen)
        elif is_url(server[0]):
            if len(server) > 1:
                raise UsageError(f"a URL is all that there is to say of a server; {server[1]!r} is too much")
            entry = ServerConfig(name="", url=server[0])
        return trio.run(_run, options, entry, screen)
    except UsageError as error:
        if screen.json:
            screen.data({"error": {"type": "UsageError", "message": str(error)}})
        screen.note(f"{parser.prog}: error: {error}")
        return USAGE
    except KeyboardInterrupt:
        screen.clear()
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our results has seen enough. Nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    finally:
        logging.getLogger("mcp_client").removeHandler(remarks)


class _Remarks(logging.Handler):
    """What the library has to remark stands among our other remarks."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen: Final = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(record.getMessage())


async def _run(options: argparse.Namespace, server: ServerConfig, screen: Screen) -> int:
    env = {**server.env, **pairs(options.env, "--env")}
    forms = Forms(screen, _called(server))

    def log(params: LoggingMessageNotificationParams) -> None:
        if options.log_level is not None:
            screen.note(f"{params.level}: {params.data if isinstance(params.data, str) else repr(params.data)}")

    handlers = Handlers(elicit=forms.elicit, elicit_url=forms.elicit_url, log=log)
    url = server.url
    given = headers_of(options.header)
    replaced = {name.lower() for name in given}
    headers = {name: value for name, value in server.headers.items() if name.lower() not in replaced} | given
    if options.command in _OF_LOGINS:
        return await _about_login(server, options, headers, screen)
    try:
        if url is not None:
            from mcp_client.cli.login import authorization  # lazy: a server that is started here needs none of it

            auth = authorization(url, options.login, headers, screen, known=server.auth)
            opening = _open_url(url, server, options, handlers, headers, auth=auth)
        else:
            opening = _open_command(server, options, handlers, env, screen)
    except (ValueError, LocalProtocolError) as error:
        raise UsageError(str(error)) from error
    start = trio.current_time()
    connected = False
    try:
        async with opening as client:
            connected = True
            seconds = trio.current_time() - start
            secrets = {"env": tuple(env), "header": tuple(headers)}
            run = Invocation(client=client, options=options, screen=screen, seconds=seconds, secrets=secrets)
            return await COMMANDS[options.command](run)
    except McpError as error:
        _report(error, screen, _HINTS if url is None else _HTTP_HINTS, secret=(url or "").partition("?")[2])
        return FAILED if connected else UNREACHABLE
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        screen.note(f"error: {error}")
        return FAILED


_OF_LOGINS: Final = frozenset({"diagnose-auth", "logout"})
"""Commands that are about the way to a server, and not about what it offers."""


async def _about_login(
    server: ServerConfig, options: argparse.Namespace, headers: Mapping[str, str], screen: Screen
) -> int:
    url = server.url
    if url is None:
        raise UsageError(
            f"{options.command} is for a server with a URL: credentials of a command are in its environment"
        )
    from mcp_client.cli.auth_diagnosis import Diagnosis  # lazy: no other command needs it
    from mcp_client.cli.auth_diagnosis_report import diagnose  # lazy: likewise
    from mcp_client.cli.login import Keeping, log_out  # lazy: likewise

    diagnosis = Diagnosis(Keeping(screen))
    try:
        opening = _open_url(url, server, options, Handlers(), headers, auth=diagnosis)
    except (ValueError, LocalProtocolError) as error:
        raise UsageError(str(error)) from error
    if options.command == "logout":
        return OK if await log_out(url, screen) else FAILED
    fine = await diagnose(opening, diagnosis, screen, url=url, secrets=headers.values())
    return OK if fine else FAILED


def _called(server: ServerConfig) -> str:
    """What the user calls a server: its name, its URL without the query, or the command."""
    return one_line(server.name or (server.url or "").partition("?")[0] or shlex.join(server.command))


def _revisions(server: ServerConfig, options: argparse.Namespace) -> Sequence[Revision]:
    if options.revision:
        return [REVISIONS[name] for name in options.revision]
    return server.revisions or tuple(REVISIONS.values())


def _open_command(
    server: ServerConfig, options: argparse.Namespace, handlers: Handlers, env: Mapping[str, str], screen: Screen
) -> Opening:
    if options.login:
        raise UsageError("--login is for a server with a URL; credentials of a command are in its environment: --env")
    if options.header:
        raise UsageError("--header is for a server with a URL; a command has no headers")

    def stderr(line: str) -> None:
        screen.note(f"stderr: {line}")

    return open_stdio(
        server.command,
        env=env,
        cwd=options.cwd or server.cwd,
        on_stderr=stderr if options.stderr == "show" else None,
        handlers=handlers,
        revisions=_revisions(server, options),
        deadlines=_deadlines(options),
        log_level=options.log_level,
    )


def _open_url(
    url: str,
    server: ServerConfig,
    options: argparse.Namespace,
    handlers: Handlers,
    headers: Mapping[str, str],
    *,
    auth: Authorization | None,
) -> Opening:
    for name in ("env", "cwd"):
        if getattr(options, name):
            raise UsageError(f"--{name} is for a server that is started here; {url} is not")
    return open_http(
        url,
        headers=headers,
        auth=auth,
        handlers=handlers,
        revisions=_revisions(server, options),
        deadlines=_deadlines(options),
        log_level=options.log_level,
    )


def _deadlines(options: argparse.Namespace) -> Deadlines:
    return Deadlines() if options.timeout is None else Deadlines(connect=options.timeout, idle=options.timeout)


def _report(error: McpError, screen: Screen, hints: Mapping[type[McpError], str], *, secret: str) -> None:
    def shown(text: str) -> str:
        return text.replace(secret, "***") if secret else text

    if screen.json:
        told: JsonObject = {"type": type(error).__name__, "message": shown(error.message)}
        if isinstance(error, RequestFailed):
            told |= {"code": error.code, "data": error.data}
        if isinstance(error, HttpFailure):
            told |= {"status": error.status}
        if error.circumstances.attempts:
            told |= {"attempts": [shown(attempt) for attempt in error.circumstances.attempts]}
        screen.data({"error": told})
    screen.note(shown(f"error: {error}"))
    hint = next((hint for kind, hint in hints.items() if isinstance(error, kind)), None)
    if hint is not None:
        screen.note(hint)
