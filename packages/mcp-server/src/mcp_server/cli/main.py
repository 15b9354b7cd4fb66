"""The command `mcp-server`: runs, develops, lists, installs or packs a server in a module or a file."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

import mcp_server
from mcp_core.conversion.converter import converter
from mcp_core.revisions import LATEST
from mcp_core.trio.signals import end_interrupted, stop_signal
from mcp_server.cli import auth_server, http, install, observability, options
from mcp_server.cli.dev import command as dev
from mcp_server.cli.pack import options as pack_options
from mcp_server.cli.pack.errors import PackError
from mcp_server.cli.parser import CommandParser
from mcp_server.cli.target import DEFAULT, TargetError, load, split
from mcp_server.errors import OutputBroken
from mcp_server.runners.stdio import serve_stdio
from mcp_server.tracebacks import format_user_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.server import Server

__all__ = ["main"]

_TARGET: Final = "the location of the server, see below"
"""The help on the argument TARGET."""

_OUTPUT_BROKEN: Final = 74
"""The exit status if stdout cannot be written: `EX_IOERR` of sysexits.h."""

_BROKEN_PIPE: Final = 141
"""The exit status if the reader of a list or a help text has ended: 128 plus the number of SIGPIPE."""

_EPILOG: Final = """\
TARGET is the location of the server:
  package.module:name      a name in a module, which is also searched in the current directory
  path/to/file.py:name     a name in a file
The default name is `server`. The name refers to a Server, or to a function without arguments that
returns one.

A configuration file has the names of options as keys, and `target`. The command line takes precedence:
  target = "weather.py"
  http = "127.0.0.1:8000"
  allowed-host = ["mcp.example"]
  healthz = true

exit status: 0 the client closed the connection, or SIGTERM stopped the HTTP server; 1 the server failed, or a worker had
to be killed; 2 the target or an option cannot be used; 74 stdout cannot be written, for example because the client
closed it before the end of its requests; 130 interrupted by Ctrl+C (SIGINT); 141 the reader of a list or a help text has
ended. With --workers: the status of a worker that ended before all workers were ready; 143 after a second SIGTERM.

Over HTTP, running requests have 10 seconds to finish after the first signal. A second one ends the server immediately.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments after the name of the command; `None`: those of the process.

    Returns:
        The exit status.

    Raises:
        SystemExit: After `--help` or `--version` (status 0), or an invalid argument (status 2).
    """
    try:
        try:
            return _main(arguments)
        finally:
            if sys.stdout is not None:
                # At exit, the interpreter would report that the reader has ended.
                sys.stdout.flush()
    except BrokenPipeError:
        # Writing must stop, also at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _main(arguments: Sequence[str] | None) -> int:
    parser, given = _parsed(arguments)
    if given.command == "run":
        try:
            _merge_config(given)
        except options.ConfigError as error:
            print(f"mcp-server: {error}", file=sys.stderr)
            return 2
        if given.target is None:
            parser.error("the following argument is required: TARGET, or target in the file of --config")
        if problem := http.problem(given):
            parser.error(problem)
    given.log_level = given.log_level or "warning"
    observability.configure_log(given.log_level, as_json=bool(getattr(given, "log_json", None)))
    if given.command in _OTHER_COMMANDS:
        return _OTHER_COMMANDS[given.command](given)
    if given.command == "run" and given.workers is not None and not http.is_worker():
        command = _same_command() if arguments is None else [sys.executable, "-m", "mcp_server", *arguments]
        return _status(lambda: http.run_workers(given, command))
    try:
        with _stdout_to_stderr():
            server = load(given.target)
    except TargetError as error:
        return _report(error)
    except KeyboardInterrupt:
        return 130
    if given.command == "inspect":
        if sys.__stdout__ is None:
            print("mcp-server: stdout is closed: inspect writes its list there", file=sys.stderr)
            return 2
        _inspect(server, as_json=given.json)
        return 0
    if given.http is None:
        return _status(lambda: trio.run(_serve_stdio, server))
    return _status(lambda: trio.run(http.serve, server, given))


def _serve_authorization(given: argparse.Namespace) -> int:
    """Run the authorization server, and return the exit status."""
    return _status(lambda: auth_server.serve(given))


def _develop(given: argparse.Namespace) -> int:
    """Serve with reloads and the inspector page, and return the exit status."""
    return _status(lambda: dev.serve(given))


def _report(error: TargetError) -> int:
    """Show why the target cannot be used, and return the exit status."""
    if error.__cause__ is None:
        print(f"mcp-server: {error}", file=sys.stderr)
        return 2
    everything = logging.getLogger("mcp_server").isEnabledFor(logging.DEBUG)
    print(f"mcp-server: {error}:", format_user_error(error.__cause__, everything=everything), sep="\n", file=sys.stderr)
    return 2


def _parsed(arguments: Sequence[str] | None) -> tuple[CommandParser, argparse.Namespace]:
    """Return the parser, and the parsed arguments. Raises `SystemExit` for invalid ones."""
    parser, commands = _parser()
    given, rest = parser.parse_known_args(arguments)
    if rest:
        commands.get(given.command, parser).reject(rest)
    return parser, given


def _install(given: argparse.Namespace) -> int:
    """Write the entry of a server that can be loaded, or remove an entry, and return the exit status."""
    place, name = split(given.target)
    try:
        if not given.undo and place.endswith(".py"):
            # As the host application does: the file may read its variables while it is loaded.
            os.environ.update(install.parse_variables(given.env))
            with _stdout_to_stderr():
                load(given.target)
        return install.install(given, place, "" if name == DEFAULT else name)
    except TargetError as error:
        return _report(error)
    except install.InstallError as error:
        print(f"mcp-server: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _pack(given: argparse.Namespace) -> int:
    """Write the bundle of a server that can be loaded, and return the exit status."""
    from mcp_server.cli.pack import command  # lazy: other commands start without its modules

    place, name = split(given.target)
    try:
        command.check_options(given)
        secrets = {variable: os.environ.get(variable, "") for variable in given.env}
        for variable in given.env:
            # The file may read its variables while it is loaded, and the author may not have the values.
            os.environ.setdefault(variable, "")
        with _stdout_to_stderr():
            server = load(given.target)
        return command.pack(given, server, place, name, secrets)
    except TargetError as error:
        return _report(error)
    except PackError as error:
        print(f"mcp-server: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


_OTHER_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "auth-server": _serve_authorization,
    "dev": _develop,
    "install": _install,
    "pack": _pack,
}
"""The commands that do more or less than loading a server to run it."""


def _parser() -> tuple[CommandParser, Mapping[str, CommandParser]]:
    """Return the parser of the command line, and the parsers of the commands by name."""
    parser = CommandParser(
        prog="mcp-server",
        description="Runs Model Context Protocol servers that are written with mcp_server.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-server {mcp_server.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, epilog: str | None) -> CommandParser:
        return commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    run = command("run", "serve the parent process over stdin and stdout, or clients over HTTP", _EPILOG)
    run.add_argument("target", metavar="TARGET", nargs="?", help=_TARGET)
    run.add_argument("--config", metavar="FILE", help="read options from this TOML file, see below")
    options.add_options(run, http.OPTIONS)
    develop = command(
        "dev", "serve over HTTP on this machine, reload on change, and show a page to try the server", dev.EPILOG
    )
    develop.add_argument("target", metavar="TARGET", help=_TARGET)
    options.add_options(develop, dev.OPTIONS)
    inspect = command("inspect", "list the tools, prompts and resources of the server, without serving it", _EPILOG)
    inspect.add_argument("target", metavar="TARGET", help=_TARGET)
    inspect.add_argument("--json", action="store_true", help="print JSON in the form of the newest revision")
    adding = command("install", "add a server to the settings of a host application, or remove it", install.EPILOG)
    install.add_options(adding)
    packing = command("pack", "pack a server into a bundle that host applications install", pack_options.EPILOG)
    pack_options.add_options(packing)
    authorizing = command("auth-server", "run an authorization server, for development and small deployments", None)
    auth_server.add_options(authorizing)
    for each in (inspect, adding, packing, authorizing):
        _add_log_level(each)
    return parser, commands.choices


def _add_log_level(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--log-level",
        choices=http.LEVELS,
        default="warning",
        help="the lowest level to log to stderr (default: warning)",
    )


def _merge_config(given: argparse.Namespace) -> None:
    """Set the options that only the configuration file has. Raises `ConfigError`."""
    if given.config is None:
        return
    target = options.CommandOption(name="target", metavar="TARGET", help="")
    for name, value in options.read_config(Path(given.config), (target, *http.OPTIONS)).items():
        if getattr(given, name) is None:
            setattr(given, name, value)


def _same_command() -> list[str]:
    """Return the command that started this process: the script, or a module, with the same options of Python."""
    return [sys.executable, *sys.orig_argv[1:]]


async def _serve_stdio(server: Server) -> int:
    """Serve until the end of input or SIGINT, and return the exit status. SIGTERM ends the process."""
    with stop_signal([signal.SIGINT], interrupted_again=end_interrupted) as stopped, observability.observe_event_loop():
        await serve_stdio(server)
    return stopped.exit_status


def _status(run: Callable[[], int | None]) -> int:
    """Run a server and return the exit status."""
    try:
        status = run()
    except (auth_server.AuthServerError, http.OptionError) as error:
        print(f"mcp-server: {error}", file=sys.stderr)
        return 2
    except OutputBroken as error:
        print(f"mcp-server: {error}", file=sys.stderr)
        return _OUTPUT_BROKEN
    except KeyboardInterrupt:
        return 130
    except BaseExceptionGroup as group:
        # It is raised in the current task, and its nurseries wrap it.
        if group.subgroup(KeyboardInterrupt) is not None:
            return 130
        logging.getLogger("mcp_server").exception("server failed")
        return 1
    except Exception:
        logging.getLogger("mcp_server").exception("server failed")
        return 1
    return status or 0


# --- streams ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect stdout to stderr, because the output of a module while it is loaded must not corrupt messages."""
    if sys.__stdout__ is None:
        # stdout was closed at startup, and another file may have its descriptor by now. Discard the output.
        yield
        return
    sys.stdout.flush()
    wire = os.dup(1)
    elsewhere = os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(2)
    os.dup2(elsewhere, 1)
    os.close(elsewhere)
    try:
        # A log handler that stores `sys.stdout` now stores a stream that leads to stderr.
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(wire, 1)
        os.close(wire)


# --- inspect ---------------------------------------------------------------------------------------------------------


def _inspect(server: Server, *, as_json: bool) -> None:
    offered = server.offered()
    if as_json:
        convert = converter(LATEST)
        listed: JsonObject = {kind: [convert.unstructure(each) for each in all_of] for kind, all_of in offered.items()}
        print(json.dumps({"server": convert.unstructure(server.info), **listed}, indent=2, ensure_ascii=False))
        return
    print(f"{server.info.name} {server.info.version}")
    for kind, all_of in offered.items():
        if all_of:
            print(f"\n{kind}")
        for each in all_of:
            summary = (getattr(each, "description", None) or "").partition("\n")[0]
            key = getattr(each, "uri", None) or getattr(each, "uri_template", None) or getattr(each, "name", "")
            print(f"  {key}  {summary}".rstrip())
