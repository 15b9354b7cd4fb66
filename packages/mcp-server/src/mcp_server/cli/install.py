"""The command `mcp-server install`: writes the command of a server into the settings file of a host application."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.cli.settings_text import SettingsTextError, remove_member, set_member

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "EPILOG",
    "HOSTS",
    "HostApplication",
    "InstallError",
    "add_options",
    "entry",
    "install",
    "parse_variables",
    "settings_file",
]

EPILOG: Final = """\
example:
  mcp-server install weather.py --to claude-desktop --env API_KEY=...
  mcp-server install weather.py --to claude-desktop --undo

TARGET is path/to/file.py, or path/to/file.py:name. The command shows the change as a unified diff and asks before it
writes. The previous content is kept beside the file, with the suffix .bak.

exit status: 0 the file was changed, or has the entry already; 1 the answer was no; 2 the target, an option or the file
cannot be used, or there is no terminal to ask at and no --yes.
"""

_MAX_FILE: Final = 16 * 1024 * 1024
"""The largest settings file in bytes. The file of Claude Code, which also has a history, reaches a few MiB."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that all host applications accept: some use the name as a prefix of the names of tools."""


class InstallError(Exception):
    """The entry cannot be written. The message names the problem and the remedy. No file was changed."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HostApplication(FieldValue):
    """A host application: where its settings are, and the form of an entry."""

    title: str
    section: str
    """The member of the root that holds the servers."""
    files: Mapping[str, str]
    """The file for each `sys.platform`. `{home}`, `{config}` and `{appdata}` are folders of the user."""
    extra: JsonObject = attrs.field(factory=dict)
    """Members that an entry has in addition to the command."""


HOSTS: Final[Mapping[str, HostApplication]] = {
    "claude-desktop": HostApplication(
        title="Claude Desktop",
        section="mcpServers",
        files={
            "linux": "{config}/Claude/claude_desktop_config.json",
            "darwin": "{home}/Library/Application Support/Claude/claude_desktop_config.json",
            "win32": "{appdata}/Claude/claude_desktop_config.json",
        },
    ),
    "claude-code": HostApplication(
        title="Claude Code",
        section="mcpServers",
        files=dict.fromkeys(("linux", "darwin", "win32"), "{home}/.claude.json"),
        extra={"type": "stdio"},
    ),
    "cursor": HostApplication(
        title="Cursor",
        section="mcpServers",
        files=dict.fromkeys(("linux", "darwin", "win32"), "{home}/.cursor/mcp.json"),
    ),
    "vscode": HostApplication(
        title="VS Code",
        section="servers",
        files={
            "linux": "{config}/Code/User/mcp.json",
            "darwin": "{home}/Library/Application Support/Code/User/mcp.json",
            "win32": "{appdata}/Code/User/mcp.json",
        },
        extra={"type": "stdio"},
    ),
    "zed": HostApplication(
        title="Zed",
        section="context_servers",
        files={
            "linux": "{config}/zed/settings.json",
            "darwin": "{home}/.config/zed/settings.json",
            "win32": "{appdata}/Zed/settings.json",
        },
        extra={"source": "custom"},
    ),
    "gemini": HostApplication(
        title="Gemini CLI",
        section="mcpServers",
        files=dict.fromkeys(("linux", "darwin", "win32"), "{home}/.gemini/settings.json"),
    ),
}
"""The host applications by the name that `--to` takes."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `mcp-server install`."""
    command.add_argument("target", metavar="TARGET", help="the file of the server, see below")
    command.add_argument("--to", required=True, choices=list(HOSTS), help="the host application")
    command.add_argument("--name", help="the name of the entry (default: the name of the file without .py)")
    command.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable of the environment of the server; may be given several times",
    )
    command.add_argument("--file", metavar="PATH", help="the settings file, if it is not in the usual place")
    command.add_argument("--yes", action="store_true", help="write without asking")
    command.add_argument("--undo", action="store_true", help="remove the entry")


def settings_file(host: HostApplication, platform: str, home: Path, variables: Mapping[str, str]) -> Path:
    """Return the settings file of a host application.

    Args:
        host: The application.
        platform: The system, as in `sys.platform`.
        home: The home directory of the user.
        variables: The environment, of which `XDG_CONFIG_HOME` and `APPDATA` are used.

    Raises:
        InstallError: The location is unknown on this system.
    """
    if platform not in host.files:
        raise InstallError(f"the settings file of {host.title} on {platform} is unknown; give --file PATH")
    path = host.files[platform].format(
        home=home,
        config=variables.get("XDG_CONFIG_HOME") or home / ".config",
        appdata=variables.get("APPDATA") or home / "AppData" / "Roaming",
    )
    return Path(path)


def entry(host: HostApplication, target: str, variables: Mapping[str, str]) -> JsonObject:
    """Return the entry of a server: the interpreter of this process runs the target.

    Args:
        host: The application.
        target: The absolute path of the file, and the name in it.
        variables: The environment of the server.

    Raises:
        InstallError: The path of the interpreter is unknown.
    """
    if not sys.executable:
        raise InstallError("the path of the Python interpreter is unknown; start mcp-server with its absolute path")
    command: JsonObject = {"command": sys.executable, "args": ["-m", "mcp_server", "run", target]}
    return {**host.extra, **command, **({"env": dict(variables)} if variables else {})}


def install(given: argparse.Namespace, place: str, server: str) -> int:
    """Write or remove the entry of a server, after asking.

    Args:
        given: The parsed options.
        place: The file of the server.
        server: The name of the server in the file, or an empty string for the default.

    Returns:
        The exit status: 0, or 1 if the user does not confirm the change.

    Raises:
        InstallError: An option or the file cannot be used, or there is no terminal.
    """
    host = HOSTS[given.to]
    if not place.endswith(".py"):
        raise InstallError(
            f"{place} is not a Python file: install takes path/to/file.py or path/to/file.py:name, because a host"
            " application starts the server in another directory"
        )
    name = Path(place).stem if given.name is None else given.name
    if not _NAME.fullmatch(name):
        raise InstallError(
            f"{name!r} cannot be the name of an entry: use 1 to 64 letters, digits, - and _, with --name NAME"
        )
    path = settings_file(host, sys.platform, Path.home(), os.environ) if given.file is None else Path(given.file)
    # A link, as users of a dotfiles repository have, stays a link.
    path = Path(os.path.realpath(path))
    before = _read(path)
    try:
        old = (before or b"").decode()
        if given.undo:
            new = remove_member(old, host.section, name)
        else:
            target = os.path.abspath(place) + (f":{server}" if server else "")
            new = set_member(old, host.section, name, entry(host, target, parse_variables(given.env)))
        after = new.encode()
    except UnicodeDecodeError as error:
        raise InstallError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except UnicodeEncodeError as error:
        raise InstallError("the target, the interpreter or a variable is not UTF-8; JSON cannot hold it") from error
    except SettingsTextError as error:
        raise InstallError(f"{path} is not JSON with comments that can be edited: {error}") from error
    if after == (before or b""):
        print(f"{path} has no entry {name!r}" if given.undo else f"{path} has this entry already")
        return 0
    sys.stdout.write(_diff(path, old, new))
    sys.stdout.flush()
    if not given.yes and not _confirmed(path):
        print("nothing was changed")
        return 1
    if _read(path) != before:
        raise InstallError(f"{path} was changed by another program in the meantime; run the command again")
    _write(path, before, after)
    return 0


def parse_variables(given: list[str]) -> dict[str, str]:
    """Return the variables of `--env`.

    Args:
        given: The values of the option: `NAME=VALUE`.

    Raises:
        InstallError: A value has no name or no `=`.
    """
    variables = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            # The text may be a secret.
            raise InstallError("--env needs the form NAME=VALUE")
        variables[name] = value
    return variables


def _confirmed(path: Path) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise InstallError(f"no terminal to ask at, nothing was changed; give --yes to write {path}")
    try:
        return input(f"write {path}? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _diff(path: Path, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), str(path), lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _read(path: Path) -> bytes | None:
    """Return the content of a file, or `None` if the file does not exist."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > _MAX_FILE:
        raise InstallError(f"{path} has more than {_MAX_FILE} bytes: is it a settings file?")
    return content


def _write(path: Path, before: bytes | None, after: bytes) -> None:
    """Store the previous content as a backup, and replace the file."""
    backup = path.with_name(f"{path.name}.bak")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Settings can have passwords: a new file is readable by its owner only.
        mode = 0o600 if before is None else stat.S_IMODE(path.stat().st_mode)
        if before is not None:
            _replace(backup, before, mode)
        _replace(path, after, mode)
    except OSError as error:
        raise InstallError(f"cannot write {error.filename or path}: {error.strerror}") from error
    print(f"wrote {path}" if before is None else f"wrote {path}; the previous content is in {backup}")


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Replace a file in one step, so that no other program reads a part of the content."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
