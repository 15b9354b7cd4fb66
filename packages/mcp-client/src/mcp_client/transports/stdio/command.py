"""The command of a stdio connection: its arguments, its environment, and the explanation of a failed start."""

from __future__ import annotations

import errno
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from mcp_core.errors import ErrorContext, Phase, ProcessFailed
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Grace", "StdioParameters", "batch_command_line", "child_environment", "describe_command", "spawn"]

# Enough to find programs, the home directory, temporary files and the language; no variable that usually holds a
# secret.
_INHERITED_POSIX = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_INHERITED_POSIX_PREFIX = "LC_"
# On Windows, sockets need SYSTEMROOT, and batch files need PATHEXT and COMSPEC.
_INHERITED_WINDOWS = frozenset(
    {
        "ALLUSERSPROFILE",
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "NUMBER_OF_PROCESSORS",
        "OS",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PROGRAMFILES(X86)",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    }
)
_DESCRIPTION_CHARACTERS = 200
_BATCH_SUFFIXES = (".bat", ".cmd")


def _finite(_instance: Grace, attribute: attrs.Attribute[float], value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"Grace.{attribute.name} must be a finite, non-negative number of seconds, not {value!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Grace(FieldValue):
    """Time limits for the steps of stopping a child process, in seconds.

    Spec: basic/lifecycle#stdio (2025-11-25), basic/transports/stdio#shutdown (2026-07-28)

    Raises:
        ValueError: A limit is negative or not finite.
    """

    close_stdin: float = attrs.field(default=2.0, validator=_finite)
    """Time from closing stdin to SIGTERM, in seconds."""
    terminate: float = attrs.field(default=2.0, validator=_finite)
    """Time from SIGTERM to SIGKILL, in seconds."""
    kill: float = attrs.field(default=2.0, validator=_finite)
    """Time from SIGKILL until this side logs an error and stops waiting, in seconds. Only a process that is stuck in
    the kernel needs it."""


def _words(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(command, str | bytes):
        raise TypeError(
            f"StdioParameters.command must be a list of a program and its arguments, for example "
            f"['server', '--verbose'], not the string {command!r}: no shell splits it"
        )
    words = tuple(os.fspath(word) for word in command)
    if not words or not words[0]:
        raise ValueError("StdioParameters.command is empty; it must at least name a program")
    for word in words:
        if "\0" in word:
            raise ValueError(f"StdioParameters.command contains a NUL character in {word!r}")
    return words


def _variables(env: Mapping[str, str] | None) -> dict[str, str]:
    variables = dict(env or {})
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"StdioParameters.env contains {name!r}, which is not a valid name of a variable")
        if "\0" in value:
            raise ValueError(f"StdioParameters.env contains a NUL character in the value of {name}")
    return variables


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StdioParameters(FieldValue):
    """The command of a child process and its settings."""

    command: Sequence[str] = attrs.field(converter=_words)
    """The program and its arguments. They are not passed to a shell."""
    env: Mapping[str, str] = attrs.field(factory=dict, converter=_variables, repr=False)
    """Environment variables of the child. They override inherited variables of the same name."""
    inherit_env: bool = False
    """Whether the child inherits the whole environment of this process, instead of a short list of harmless
    variables."""
    cwd: str | os.PathLike[str] | None = None
    """The working directory of the child; `None` for that of this process."""
    grace: Grace = attrs.field(factory=Grace)
    """The time limits for stopping the child."""
    on_stderr_line: Callable[[str], object] | None = None
    """Called with each line that the child writes to stderr, without its line end. The function must not block."""
    stderr_tail_bytes: int = attrs.field(default=16 * 1024, validator=attrs.validators.ge(0))
    """Number of bytes at the end of stderr that are retained for error messages."""


def describe_command(command: Sequence[str]) -> str:
    """Return the command line as a user would type it, shortened."""
    line = shlex.join(command)
    return line if len(line) <= _DESCRIPTION_CHARACTERS else f"{line[: _DESCRIPTION_CHARACTERS - 3]}..."


def child_environment(
    parameters: StdioParameters, *, ours: Mapping[str, str] = os.environ, windows: bool = os.name == "nt"
) -> dict[str, str]:
    """Return the whole environment of the child.

    Args:
        parameters: The parameters; `env` and `inherit_env` apply.
        ours: The environment to inherit from.
        windows: Whether to apply the rules of Windows, where names are not case-sensitive.

    Returns:
        The variables.
    """

    def is_inherited(name: str, value: str) -> bool:
        if parameters.inherit_env:
            return True
        # An exported shell function: code that a shell started by the child would execute.
        if value.startswith("()"):
            return False
        if windows:
            return name.upper() in _INHERITED_WINDOWS
        return name in _INHERITED_POSIX or name.startswith(_INHERITED_POSIX_PREFIX)

    environment = {name: value for name, value in ours.items() if is_inherited(name, value)}
    if windows:
        environment = {name.upper(): value for name, value in environment.items()}
        return environment | {name.upper(): value for name, value in parameters.env.items()}
    return environment | dict(parameters.env)


def batch_command_line(command: Sequence[str]) -> str:
    """Return the command line that runs a batch file on Windows with exactly these arguments.

    Windows passes a batch file to its command interpreter, which parses the line by its own rules. Outside double
    quotes, `&`, `|` and other characters start further commands, and quoting does not prevent the expansion of
    `%NAME%`.

    Args:
        command: The batch file and its arguments.

    Returns:
        The line, with each word in double quotes.

    Raises:
        ValueError: A word contains a character that cannot be quoted.
    """
    for word in command:
        unquotable = sorted({character for character in word if character in '"%!\r\n'})
        if unquotable:
            raise ValueError(f"{word!r} contains {unquotable}, which cannot be passed safely to a batch file")
    # The program that the batch file runs reads a backslash before a double quote as an escape.
    return " ".join(f'"{word}{_trailing_backslashes(word)}"' for word in command)


def _trailing_backslashes(word: str) -> str:
    return "\\" * (len(word) - len(word.rstrip("\\")))


def _resolved(command: Sequence[str], search: str | None) -> str | Sequence[str]:
    """Return the command for Windows, which does not find `.cmd` files and searches the PATH of this process."""
    program = shutil.which(command[0], path=search)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    resolved = (program, *command[1:])
    return batch_command_line(resolved) if program.lower().endswith(_BATCH_SUFFIXES) else resolved


async def spawn(parameters: StdioParameters) -> trio.Process:
    """Start the child with pipes for its three streams, as the leader of its own session and process group.

    A cancellation takes effect either before the child starts or after this function has returned it. Therefore no
    child is lost.

    Raises:
        ProcessFailed: The child could not be started. The message states the reason and what to do.
    """
    environment = child_environment(parameters)
    try:
        if sys.platform == "win32":
            process = await trio.lowlevel.open_process(
                _resolved(parameters.command, environment.get("PATH")),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=parameters.cwd,
                creationflags=subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP,
            )
        else:
            process = await trio.lowlevel.open_process(
                parameters.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=parameters.cwd,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        failure = ProcessFailed(
            f"cannot start {describe_command(parameters.command)}: {_reason(parameters, environment, error)}"
        )
        failure.context = ErrorContext(phase=Phase.CONNECT)
        raise failure from error
    return process


def _reason(parameters: StdioParameters, environment: Mapping[str, str], error: OSError | ValueError) -> str:
    """Return why the operating system rejected the command, as text with advice."""
    program = parameters.command[0]
    if not isinstance(error, OSError):
        return str(error)
    if parameters.cwd is not None and not Path(parameters.cwd).is_dir():
        return f"the working directory {os.fspath(parameters.cwd)!r} (StdioParameters.cwd) is not an existing directory"
    search = environment.get("PATH", os.defpath)
    has_directory = os.path.dirname(program) != ""
    found = os.path.join(parameters.cwd or "", program) if has_directory else shutil.which(program, path=search)
    if isinstance(error, FileNotFoundError):
        if found is not None and Path(found).exists():
            return f"{found!r} exists, but the interpreter in its first line (#!) does not, or is for another platform"
        if has_directory:
            return f"the file {found!r} does not exist; relative paths are resolved in the child's working directory"
        return f"{program!r} is not in the child's PATH, {search!r}; use the full path, or set PATH in `env`"
    if isinstance(error, PermissionError):
        return f"{found or program!r} is not executable by this user; set its executable bit, or run its interpreter"
    if error.errno == errno.ENOEXEC:
        return f"{found or program!r} is not an executable format; if it is a script, add a first line with #!"
    return f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'no error code')})"
