"""The command line: `mcp-client probe https://example.com/mcp`, `mcp-client probe -- my-server`, and so on."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import threading
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from mcp_client.cli.arguments import UsageError, closest, command_first, headers_of, is_url, pairs, server_among
from mcp_client.cli.commands import COMMANDS, Invocation
from mcp_client.cli.forms import Forms
from mcp_client.cli.output import Screen, one_line
from mcp_client.cli.parser import USAGE, CommandParser, one_of, unknown_option
from mcp_client.config import ServerConfig
from mcp_client.connectors.http import open_http
from mcp_client.connectors.options import DEFAULT_INFO, ClientOptions
from mcp_client.connectors.stdio import open_stdio
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
from mcp_core.trio.signals import end_interrupted, stop_signal
from mcp_core.types import LOGGING_LEVELS, Root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from mcp_client.cli.shell.terminal import Terminal
    from mcp_client.connection.message_observer import OnMessage
    from mcp_client.connectors.stdio import Connector
    from mcp_client.transports.http.authorizer import Authorization
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingMessageNotificationParams

__all__ = ["main"]

OK: Final = 0
FAILED: Final = 1
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""128 plus the number of SIGPIPE, which ends other programs in this case."""

_ABOUT: Final = """\
exit codes:
  0    done
  1    the tool failed, or the server responded with an error
  2    the command line is invalid
  3    no connection: the server did not start, supports other revisions only, or required a login that failed
  130  interrupted
  141  the reader of stdout has ended, for example `head`

The server is a URL, a command after `--`, or an entry in a file with `mcpServers` (or `servers`):
  mcp-client call forecast city=Ghent days=3 https://example.com/mcp
  mcp-client call forecast city=Ghent days=3 -- python weather.py
  mcp-client call forecast city=Ghent days=3 --config mcp.json --server weather

Options can be anywhere before `--`; each command describes its own with --help. Output that is not for a terminal has no
borders, and is neither shortened nor wrapped.

A server with a URL may require a login. On a terminal, mcp-client opens a browser and stores the tokens in the keyring
of the system. `mcp-client logout URL` deletes them. `mcp-client diagnose-auth URL` explains why a login fails; it exits
with 0 if a login would work or is not required, and with 1 if it would fail.

Elicitation requests of the server are shown on the terminal; without one, the client does not offer elicitation. There is
no model, and without --root there are no roots: the client rejects `sampling/createMessage` and `roots/list`.
"""

_MORE: Final = "`mcp-client --help` describes the exit codes, and the ways to name the server."

_HINTS: Final[dict[type[McpError], str]] = {
    ProcessFailed: "Check the command after `--`; it is searched on PATH, and not passed to a shell.",
    NegotiationFailed: "Omit --revision to allow every revision.",
    RequestTimeout: "Allow more time with --timeout SECONDS; --stderr show prints the server's stderr.",
    ConnectionEnded: ("Run the server manually, or add --stderr show. If you know its revision, set --revision."),
    LocalProtocolError: "`mcp-client probe` shows what the server offers.",
}

_HTTP_HINTS: Final[dict[type[McpError], str]] = {
    AccessDenied: (
        "Log in with --login auto or --login paste, or send other credentials: --header 'Authorization: Bearer TOKEN'."
    ),
    AuthorizationError: "`mcp-client diagnose-auth URL` shows each step of a login.",
    HttpFailure: "Check the URL, including its path: servers often listen at /mcp or /sse.",
    NegotiationFailed: "Omit --revision to allow every revision.",
    RequestTimeout: "Allow more time with --timeout SECONDS.",
    ConnectionEnded: "Check that the server runs, and that no proxy in between ends connections.",
    LocalProtocolError: "`mcp-client probe` shows what the server offers.",
}


_CAPABILITY_HINTS: Final = {
    "elicitation": "The client offers elicitation on a terminal only: do not redirect stdin or stderr.",
    "roots": "Offer a folder with --root DIRECTORY.",
    "sampling": "mcp-client has no model: the client does not offer sampling.",
}
"""Hints on a capability that the server requires and the client did not declare."""


def _common() -> CommandParser:
    """Return a parser with the options of every command that connects."""
    common = CommandParser(add_help=False)
    output = common.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print results as JSON, one document per line")
    output.add_argument(
        "--stderr",
        type=one_of(("show", "hide")),
        default="hide",
        metavar="{show,hide}",
        help=("show or hide the server's stderr; hidden by default, except for its end in errors"),
    )
    output.add_argument(
        "--log-level",
        type=one_of(LOGGING_LEVELS),
        metavar="LEVEL",
        help=f"show log messages of the server from this level: {', '.join(LOGGING_LEVELS)}",
    )
    connection = common.add_argument_group("connection")
    connection.add_argument("--config", metavar="FILE", help="a configuration file that lists servers: mcp.json")
    connection.add_argument("--server", metavar="NAME", help="the server in that file; optional if it lists only one")
    connection.add_argument(
        "--revision",
        action="append",
        type=one_of(REVISIONS),
        metavar="REVISION",
        help=f"use only this revision (repeat the option to allow several): {', '.join(REVISIONS)}",
    )
    connection.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="time to wait for the connection, and for each response"
    )
    connection.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIRECTORY",
        help="offer a folder to the server as a root (repeat the option for several)",
    )
    command = common.add_argument_group("servers that are commands")
    command.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable for the server (repeat the option for several)",
    )
    command.add_argument(
        "--inherit-env",
        action="store_true",
        help="pass all environment variables to the server, instead of PATH, HOME, the language and a few more",
    )
    command.add_argument("--cwd", metavar="DIRECTORY", help="the working directory of the server")
    url = common.add_argument_group("servers with a URL")
    url.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="an HTTP header for every request (repeat the option for several)",
    )
    url.add_argument(
        "--login",
        type=one_of(("auto", "paste", "never")),
        metavar="{auto,paste,never}",
        help="if the server requires a login: open a browser (auto, the default on a terminal), show the URL and "
        "prompt for the redirect URL (paste), or fail (never)",
    )
    return common


_SERVER: Final = "[OPTIONS] {URL | -- COMMAND | --config FILE}"
"""The end of the usage of a command that connects."""

_KINDS: Final = ("tools", "resources", "templates", "prompts")

_RECORDING: Final = {
    "record": "run a server, and record its conversation with a client",
    "replay": "act as the server of a recording, over stdio",
}
"""The commands whose options `run_recording` parses."""


def _commands() -> dict[str, CommandParser]:
    """Return the parsers of the commands that connect, by name."""
    common = _common()
    commands: dict[str, CommandParser] = {}

    def command(name: str, usage: str, summary: str, *examples: str) -> CommandParser:
        commands[name] = CommandParser(
            f"mcp-client {name}", usage=usage, summary=summary, examples=examples, epilog=_MORE, parents=[common]
        )
        return commands[name]

    command(
        "probe",
        _SERVER,
        "show the server's name, revision and capabilities",
        "mcp-client probe -- python weather.py",
        "mcp-client probe --revision 2025-06-18 --json --config mcp.json --server weather",
    )
    listing = command(
        "list",
        f"[KIND] {_SERVER}",
        "list what the server offers",
        "mcp-client list -- python weather.py",
        "mcp-client list tools --json -- python weather.py",
    )
    listing.add_argument(
        "kind", nargs="?", metavar="KIND", type=one_of(_KINDS), help=f"only one of: {', '.join(_KINDS)}"
    )
    call = command(
        "call",
        f"TOOL [NAME=VALUE ...] {_SERVER}",
        "call a tool",
        "mcp-client call forecast city=Ghent days=2 -- python weather.py",
        'mcp-client call forecast --args \'{"city": "Ghent"}\' -- python weather.py',
    )
    call.add_argument("name", metavar="TOOL", help="the name of the tool")
    call.add_argument(
        "pairs", nargs="*", default=[], metavar="NAME=VALUE", help="arguments, typed by the tool's input schema"
    )
    call.add_argument("--args", metavar="JSON", help="all arguments as a JSON object")
    read = command(
        "read",
        f"URI {_SERVER}",
        "read a resource",
        "mcp-client read weather://units -- python weather.py",
        "mcp-client read weather://units --output units.json -- python weather.py",
    )
    read.add_argument("uri", metavar="URI", help="the URI of the resource")
    read.add_argument("--output", metavar="FILE", help="write the contents to a file")
    prompt = command(
        "prompt",
        f"PROMPT [NAME=VALUE ...] {_SERVER}",
        "get a prompt",
        "mcp-client prompt plan city=Ghent season=winter -- python weather.py",
    )
    prompt.add_argument("name", metavar="PROMPT", help="the name of the prompt")
    prompt.add_argument("pairs", nargs="*", default=[], metavar="NAME=VALUE", help="arguments of the prompt")
    complete = command(
        "complete",
        f"PROMPT|TEMPLATE [NAME=VALUE ...] NAME=VALUE {_SERVER}",
        "show completions of an argument of a prompt or a variable of a resource template",
        "mcp-client complete plan season=w -- python weather.py",
        "mcp-client complete plan city=Ghent season= -- python weather.py",
        "mcp-client complete 'weather://city/{city}' city=G -- python weather.py",
    )
    complete.add_argument(
        "ref", metavar="PROMPT|TEMPLATE", help="the name of a prompt, or a URI template (which contains `{` or `://`)"
    )
    complete.add_argument(
        "pairs",
        nargs="+",
        metavar="NAME=VALUE",
        help="the argument to complete, with the start of its value; before it, arguments whose values are known",
    )
    listen = command(
        "listen",
        _SERVER,
        "show changes as they happen, until Ctrl-C; by default of all lists",
        "mcp-client listen -- python weather.py",
        "mcp-client listen --uri weather://units -- python weather.py",
    )
    command(
        "shell",
        _SERVER,
        "explore the server in an interactive shell",
        "mcp-client shell -- python weather.py",
        "mcp-client shell --config mcp.json --server weather",
    )
    for what in ("tools", "prompts", "resources"):
        listen.add_argument(f"--{what}", action="store_true", help=f"of the list of {what}")
    listen.add_argument("--uri", action="append", default=[], help="of a resource (repeat the option for several)")
    command(
        "diagnose-auth",
        "[OPTIONS] {URL | --config FILE}",
        "report what a login at the server would do, without performing it",
        "mcp-client diagnose-auth https://example.com/mcp",
    )
    command(
        "logout",
        "[OPTIONS] {URL | --config FILE}",
        "delete the stored credentials for the server, and revoke its tokens",
        "mcp-client logout https://example.com/mcp",
    )
    return commands


def _program(commands: Mapping[str, CommandParser]) -> CommandParser:
    """Return the parser of a command line without a valid command: its help, its version and its errors."""
    summaries = {name: parser.description for name, parser in commands.items()} | _RECORDING
    listed = "".join(f"\n  {name:<14} {summary}" for name, summary in summaries.items())
    program = CommandParser(
        "mcp-client",
        usage="COMMAND [ARGUMENTS] [OPTIONS] {URL | -- COMMAND | --config FILE}",
        summary="Connects to a server of the Model Context Protocol.",
        epilog=f"commands:{listed}\n\n{_ABOUT}",
    )
    program.add_argument("--version", action="version", version=f"mcp-client {DEFAULT_INFO.version}")
    program.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    return program


def _reject(words: Sequence[str], commands: Mapping[str, CommandParser]) -> NoReturn:
    """Exit for a command line without a valid command, which may request the help or the version."""
    program = _program(commands)
    known = {*program.options, *(option for parser in commands.values() for option in parser.options)}
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in known:
            program.error(unknown_option(word, known))
    name = program.parse_known_args(words)[0].command
    names = (*commands, *_RECORDING)
    program.error("no command" if name is None else f"unknown command {name!r}{closest(name, names)}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
        Deadlines(connect=seconds)
    except ValueError:
        raise ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}") from None
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after the name of the program; `None` for those of this process.

    Returns:
        The exit code, as described in `--help`.
    """
    try:
        try:
            return _main(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            # A host application may have closed stdout.
            if sys.stdout is not None:
                # At exit, the interpreter would report that the reader has ended.
                sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has ended. Writing must stop, also at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _main(given: Sequence[str]) -> int:
    words, server = server_among(given)
    words = command_first(words)
    name = words[0] if words else ""
    if name in _RECORDING:
        from mcp_client.cli.recording import run_recording  # lazy: only these commands need it

        return run_recording(words, server, _RECORDING[name])
    commands = _commands()
    if name not in commands:
        _reject(words, commands)
    parser = commands[name]
    if not server and not any(word.partition("=")[0] in {"--config", "--server", "-h", "--help"} for word in words):
        # Before other errors: the words of the server's command would be taken for arguments.
        parser.error("no server: pass its URL, or its command after `--`: mcp-client probe -- python weather.py")
    options = parser.parse(words[1:])
    options.command = name
    if options.config is not None and server:
        parser.error("both --config and a URL or command name a server: pass only one of them")
    if options.config is None and options.server is not None:
        parser.error("--server requires --config FILE")
    terminal = _open_terminal(options, parser) if options.command == "shell" else None
    screen = terminal or Screen(json=options.json)
    remarks = _Remarks(screen)
    logging.getLogger("mcp_client").addHandler(remarks)
    try:
        entry = ServerConfig(name="", command=tuple(server))
        if options.config is not None:
            from mcp_client.cli.config_file import configured_server  # lazy: only here

            entry = configured_server(options.config, options.server, screen)
        elif is_url(server[0]):
            if len(server) > 1:
                raise UsageError(f"unexpected word {server[1]!r} after `--`: a URL must be the only one")
            entry = ServerConfig(name="", url=server[0])
        return (
            trio.run(_until_interrupted, options, entry, screen)
            if terminal is None
            else _run_shell(options, entry, terminal)
        )
    except UsageError as error:
        if screen.json:
            screen.data({"error": {"type": "UsageError", "message": str(error)}})
        screen.note(f"mcp-client: error: {error}")
        return USAGE
    except KeyboardInterrupt:
        screen.clear()
        return INTERRUPTED
    finally:
        logging.getLogger("mcp_client").removeHandler(remarks)


class _Remarks(logging.Handler):
    """A log handler that shows the warnings of the library on the screen."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen: Final = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(record.getMessage())


async def _until_interrupted(options: argparse.Namespace, server: ServerConfig, screen: Screen) -> int:
    """Run the command until its end or SIGINT, and return the exit code.

    A `KeyboardInterrupt` could be raised in any task, and look like the failure of a connection.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread handles signals.
        return await _run(options, server, screen)
    code = INTERRUPTED
    with stop_signal([signal.SIGINT], interrupted_again=end_interrupted):
        code = await _run(options, server, screen)
    if code == INTERRUPTED:
        screen.clear()
    return code


async def _run(options: argparse.Namespace, server: ServerConfig, screen: Screen) -> int:
    if options.command in _OF_LOGINS:
        return await _about_login(server, options, _headers(server, options), screen)
    connector = _connector(options, server, screen, _handlers(server, options, screen))
    start = trio.current_time()
    connected = False
    try:
        async with connector as client:
            connected = True
            seconds = trio.current_time() - start
            secrets = _secrets(server, options)
            run = Invocation(client=client, options=options, screen=screen, seconds=seconds, secrets=secrets)
            return await COMMANDS[options.command](run)
    except McpError as error:
        _report(error, screen, server.url)
        return FAILED if connected else UNREACHABLE
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        screen.note(f"error: {error}")
        return FAILED


def _env(server: ServerConfig, options: argparse.Namespace) -> dict[str, str]:
    return {**server.env, **pairs(options.env, "--env")}


def _headers(server: ServerConfig, options: argparse.Namespace) -> dict[str, str]:
    given = headers_of(options.header)
    replaced = {name.lower() for name in given}
    return {name: value for name, value in server.headers.items() if name.lower() not in replaced} | given


def _secrets(server: ServerConfig, options: argparse.Namespace) -> dict[str, Sequence[str]]:
    """Return the names of the variables and headers that the server receives, by kind."""
    return {"env": tuple(_env(server, options)), "header": tuple(_headers(server, options))}


def _handlers(server: ServerConfig, options: argparse.Namespace, screen: Screen) -> Handlers:
    """Return the handlers of client requests. Elicitation requires a terminal: a server can then do without it."""

    def log(params: LoggingMessageNotificationParams) -> None:
        if options.log_level is not None:
            screen.note(f"{params.level}: {params.data if isinstance(params.data, str) else repr(params.data)}")

    forms = Forms(screen, _called(server)) if screen.interactive else None
    return Handlers(
        elicit=None if forms is None else forms.elicit,
        elicit_url=None if forms is None else forms.elicit_url,
        roots=[_root(path) for path in options.root] or None,
        log=log,
    )


def _root(path: str) -> Root:
    """Return a folder as a root. Raises `UsageError` if there is no such folder."""
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise UsageError(f"--root {path!r} is not an existing directory")
    return Root(uri=folder.as_uri(), name=folder.name or str(folder))


def _connector(
    options: argparse.Namespace,
    server: ServerConfig,
    screen: Screen,
    handlers: Handlers,
    on_message: OnMessage | None = None,
) -> Connector:
    """Return the connection to open. Raises `UsageError`."""
    env, headers, url = _env(server, options), _headers(server, options), server.url
    try:
        if url is None:
            return _open_command(server, options, handlers, env, screen, on_message=on_message)
        from mcp_client.cli.login import authorization  # lazy: stdio servers do not need it

        auth = authorization(url, options.login, headers, screen, known=server.auth)
        return _open_url(url, server, options, handlers, headers, on_message=on_message, auth=auth)
    except (ValueError, LocalProtocolError) as error:
        raise UsageError(str(error)) from error


def _open_terminal(options: argparse.Namespace, parser: CommandParser) -> Terminal:
    """Return the terminal of the shell, or exit with an error."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        parser.error(
            "the shell requires a terminal; without one, run a command for each step:"
            " probe, list, call, read, prompt, complete or listen"
        )
    try:
        import prompt_toolkit  # noqa: F401  # lazy: an optional dependency
    except ImportError:
        parser.error("the shell requires prompt_toolkit: pip install 'trio-mcp-client[cli]'")
    from mcp_client.cli.shell.terminal import PromptStream, Terminal  # lazy: only the shell needs it

    return Terminal(PromptStream(sys.stdout), json=options.json)


def _run_shell(options: argparse.Namespace, server: ServerConfig, terminal: Terminal) -> int:
    from mcp_client.cli.shell.session import run_shell  # lazy: only the shell needs it

    def connect(adapt: Callable[[Handlers], Handlers], on_message: OnMessage) -> Connector:
        handlers = adapt(_handlers(server, options, terminal))
        return _connector(options, server, terminal, handlers, on_message)

    def report(error: McpError) -> None:
        _report(error, terminal, server.url)

    return run_shell(connect, terminal, report, _secrets(server, options))


_OF_LOGINS: Final = frozenset({"diagnose-auth", "logout"})
"""Commands for the login, which do not use a connection of their own."""


async def _about_login(
    server: ServerConfig, options: argparse.Namespace, headers: Mapping[str, str], screen: Screen
) -> int:
    url = server.url
    if url is None:
        raise UsageError(
            f"{options.command} requires a server with a URL; the credentials of a command are in its environment"
        )
    from mcp_client.cli.auth_diagnosis import Diagnosis  # lazy: no other command needs it
    from mcp_client.cli.auth_diagnosis_report import diagnose  # lazy: likewise
    from mcp_client.cli.login import Keeping, log_out  # lazy: likewise

    diagnosis = Diagnosis(Keeping(screen))
    try:
        connector = _open_url(url, server, options, Handlers(), headers, auth=diagnosis)
    except (ValueError, LocalProtocolError) as error:
        raise UsageError(str(error)) from error
    if options.command == "logout":
        return OK if await log_out(url, screen) else FAILED
    fine = await diagnose(connector, diagnosis, screen, url=url, secrets=headers.values())
    return OK if fine else FAILED


def _called(server: ServerConfig) -> str:
    """Return the user's name for a server: its name in the file, its URL without the query, or its command."""
    return one_line(server.name or (server.url or "").partition("?")[0] or shlex.join(server.command))


def _revisions(server: ServerConfig, options: argparse.Namespace) -> Sequence[Revision]:
    if options.revision:
        return [REVISIONS[name] for name in options.revision]
    return server.revisions or tuple(REVISIONS.values())


def _open_command(
    server: ServerConfig,
    options: argparse.Namespace,
    handlers: Handlers,
    env: Mapping[str, str],
    screen: Screen,
    *,
    on_message: OnMessage | None,
) -> Connector:
    if options.login:
        raise UsageError("--login requires a server with a URL; pass the credentials of a command with --env")
    if options.header:
        raise UsageError("--header requires a server with a URL; a command does not have headers")

    def stderr(line: str) -> None:
        screen.note(f"stderr: {line}")

    return open_stdio(
        server.command,
        env=env,
        inherit_env=options.inherit_env,
        cwd=options.cwd or server.cwd,
        on_stderr=stderr if options.stderr == "show" else None,
        handlers=handlers,
        revisions=_revisions(server, options),
        deadlines=_deadlines(options),
        log_level=options.log_level,
        options=ClientOptions(on_message=on_message),
    )


def _open_url(
    url: str,
    server: ServerConfig,
    options: argparse.Namespace,
    handlers: Handlers,
    headers: Mapping[str, str],
    *,
    on_message: OnMessage | None = None,
    auth: Authorization | None,
) -> Connector:
    for name in ("env", "inherit-env", "cwd"):
        if getattr(options, name.replace("-", "_")):
            raise UsageError(f"--{name} requires a command; {url} is a URL")
    return open_http(
        url,
        headers=headers,
        auth=auth,
        handlers=handlers,
        revisions=_revisions(server, options),
        deadlines=_deadlines(options),
        log_level=options.log_level,
        options=ClientOptions(on_message=on_message),
    )


def _deadlines(options: argparse.Namespace) -> Deadlines:
    return Deadlines() if options.timeout is None else Deadlines(connect=options.timeout, idle=options.timeout)


def _report(error: McpError, screen: Screen, url: str | None) -> None:
    """Show an error, without the query of the server's URL, and a hint."""
    hints = _HINTS if url is None else _HTTP_HINTS
    secret = (url or "").partition("?")[2]

    def shown(text: str) -> str:
        return text.replace(secret, "***") if secret else text

    if screen.json:
        details: JsonObject = {"type": type(error).__name__, "message": shown(error.message)}
        if isinstance(error, RequestFailed):
            details |= {"code": error.code, "data": error.data}
        if isinstance(error, HttpFailure):
            details |= {"status": error.status}
        if error.context.missing_env:
            details |= {"missingEnv": [*error.context.missing_env]}
        if error.context.attempts:
            details |= {"attempts": [shown(attempt) for attempt in error.context.attempts]}
        screen.data({"error": details})
    screen.note(shown(f"error: {error}"))
    hint = _specific_hint(error) or next((hint for kind, hint in hints.items() if isinstance(error, kind)), None)
    for line in (*getattr(error, "__notes__", ()), hint):
        if line is not None:
            screen.note(shown(line))


def _specific_hint(error: McpError) -> str | None:
    """Return the hint on variables or capabilities that the server requires, or `None`."""
    if error.context.missing_env:
        return "In a command: pass variables with --env NAME=VALUE, or all of them with --inherit-env."
    data = error.data if isinstance(error, RequestFailed) else None
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    names = required if isinstance(required, dict) else {}
    return next((hint for name, hint in _CAPABILITY_HINTS.items() if name in names), None)
