"""What a stdio connection runs: the command, its environment, and why it did not start."""

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

from mcp_core.errors import Circumstances, Phase, ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Grace", "StdioParameters", "batch_command_line", "child_environment", "describe_command", "spawn"]

# Enough to find programs, homes, temporary files and the language, and nothing where secrets are usually kept.
_INHERITED_POSIX = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_INHERITED_POSIX_PREFIX = "LC_"
# Without SYSTEMROOT no socket works there; without PATHEXT and COMSPEC no batch file runs.
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
        raise ValueError(f"Grace.{attribute.name} must be a finite number of seconds and not negative, not {value!r}")


@attrs.frozen(kw_only=True)
class Grace:
    """How long each step of stopping a child may take, in seconds.

    Spec: basic/lifecycle#stdio (2025-11-25), basic/transports/stdio#shutdown (2026-07-28)

    Raises:
        ValueError: One of them is negative or not finite.
    """

    close_stdin: float = attrs.field(default=2.0, validator=_finite)
    """From the end of its stdin to SIGTERM."""
    terminate: float = attrs.field(default=2.0, validator=_finite)
    """From SIGTERM to SIGKILL."""
    kill: float = attrs.field(default=2.0, validator=_finite)
    """From SIGKILL until the child is given up and reported in the log; only a process stuck in the kernel needs it."""


def _words(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(command, str | bytes):
        raise TypeError(
            f"StdioParameters.command must be a list of a program and its arguments, as ['server', '--verbose'], "
            f"not the string {command!r}: no shell takes it apart"
        )
    words = tuple(os.fspath(word) for word in command)
    if not words or not words[0]:
        raise ValueError("StdioParameters.command must at least name a program")
    for word in words:
        if "\0" in word:
            raise ValueError(f"StdioParameters.command has a NUL character in {word!r}")
    return words


def _variables(env: Mapping[str, str] | None) -> dict[str, str]:
    variables = dict(env or {})
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"StdioParameters.env has the name {name!r}, which no environment variable can have")
        if "\0" in value:
            raise ValueError(f"StdioParameters.env has a NUL character in the value of {name}")
    return variables


@attrs.frozen(kw_only=True)
class StdioParameters:
    """What to run, and how."""

    command: Sequence[str] = attrs.field(converter=_words)
    """The program and its arguments. No shell is involved."""
    env: Mapping[str, str] = attrs.field(factory=dict, converter=_variables, repr=False)
    """Environment variables of the child, added to and winning over the inherited ones."""
    inherit_env: bool = False
    """Whether the child gets our whole environment, instead of a short list of harmless variables."""
    cwd: str | os.PathLike[str] | None = None
    """The child's working directory; ours when `None`."""
    grace: Grace = attrs.field(factory=Grace)
    """How long each step of stopping may take."""
    on_stderr_line: Callable[[str], object] | None = None
    """Called with each line that the child writes to stderr, without its end; it must not block."""
    stderr_tail_bytes: int = attrs.field(default=16 * 1024, validator=attrs.validators.ge(0))
    """How many bytes of the end of stderr are kept for error messages."""


def describe_command(command: Sequence[str]) -> str:
    """The command line as one would type it, clipped."""
    line = shlex.join(command)
    return line if len(line) <= _DESCRIPTION_CHARACTERS else f"{line[: _DESCRIPTION_CHARACTERS - 3]}..."


def child_environment(
    parameters: StdioParameters, *, ours: Mapping[str, str] = os.environ, windows: bool = os.name == "nt"
) -> dict[str, str]:
    """The whole environment that the child gets.

    Args:
        parameters: Whose `env` and `inherit_env` decide.
        ours: The environment to inherit from.
        windows: Whether names are those of Windows, and without regard to case.

    Returns:
        The variables.
    """

    def is_inherited(name: str, value: str) -> bool:
        if parameters.inherit_env:
            return True
        # A shell function that was exported: code, which some shell down the line would execute.
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
    """The command line that runs a batch file on Windows with exactly these arguments.

    Windows hands a batch file to its command interpreter, which reads the line by its own rules: outside double
    quotes `&`, `|` and others start further commands, and no quoting keeps it from expanding `%NAME%`.

    Args:
        command: The batch file and its arguments.

    Returns:
        The line, with each word in double quotes.

    Raises:
        ValueError: A word has a character that cannot be quoted.
    """
    for word in command:
        unquotable = sorted({character for character in word if character in '"%!\r\n'})
        if unquotable:
            raise ValueError(f"{word!r} has {unquotable}, which cannot be passed safely to a batch file")
    # The program behind the batch file takes a backslash before a double quote for an escape.
    return " ".join(f'"{word}{_trailing_backslashes(word)}"' for word in command)


def _trailing_backslashes(word: str) -> str:
    return "\\" * (len(word) - len(word.rstrip("\\")))


def _resolved(command: Sequence[str], search: str | None) -> str | Sequence[str]:
    """The command as Windows has to be told it: it finds no `.cmd` by itself, and searches our PATH, not the child's."""
    program = shutil.which(command[0], path=search)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    resolved = (program, *command[1:])
    return batch_command_line(resolved) if program.lower().endswith(_BATCH_SUFFIXES) else resolved


async def spawn(parameters: StdioParameters) -> trio.Process:
    """Start the child with pipes for its three streams, as the leader of its own session and process group.

    A cancellation takes effect before the child is started or after this function has returned it, so that none is
    ever lost.

    Raises:
        ProcessFailed: It could not be started. The message says why, what was searched and what to do.
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
        failure.circumstances = Circumstances(phase=Phase.CONNECT)
        raise failure from error
    return process


def _reason(parameters: StdioParameters, environment: Mapping[str, str], error: OSError | ValueError) -> str:
    """Why the system refused, in words that tell the user what to do."""
    program = parameters.command[0]
    if not isinstance(error, OSError):
        return str(error)
    if parameters.cwd is not None and not Path(parameters.cwd).is_dir():
        return f"the working directory {os.fspath(parameters.cwd)!r} (StdioParameters.cwd) is no existing directory"
    search = environment.get("PATH", os.defpath)
    has_directory = os.path.dirname(program) != ""
    found = os.path.join(parameters.cwd or "", program) if has_directory else shutil.which(program, path=search)
    if isinstance(error, FileNotFoundError):
        if found is not None and Path(found).exists():
            return f"{found!r} exists, but the interpreter in its first line (#!) does not, or is for another system"
        if has_directory:
            return f"there is no file {found!r}; a relative path starts at the child's working directory"
        return f"no {program!r} in the child's PATH, which is {search!r}; give the full path, or a PATH in `env`"
    if isinstance(error, PermissionError):
        return f"{found or program!r} is not executable by this user; set its executable bit, or name its interpreter"
    if error.errno == errno.ENOEXEC:
        return f"{found or program!r} is no program that the system can run; does it lack a first line with #!?"
    return f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'no error code')})"
