"""The commands of the shell, and how those that the command line has too are passed to it."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

import attrs

from mcp_client.cli.arguments import UsageError, closest
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["SHELL_COMMANDS", "ShellCommand", "command_named"]

_ANY: Final = 1000
"""Maximum number of words of a command with any number of words. Lines are typed, so the number is only a bound."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ShellCommand(FieldValue):
    """A command of the shell."""

    usage: str = ""
    """Its arguments."""
    summary: str
    """What it does."""
    least: int = 0
    """Minimum number of arguments."""
    most: int = 0
    """Maximum number of arguments."""
    same_as: str | None = None
    """The command of the command line that does it; `None` for a command of the shell itself."""
    options: Callable[[Sequence[str]], Namespace] | None = None
    """Returns the options of `same_as`, from the arguments. Raises `UsageError`."""

    def check(self, name: str, arguments: Sequence[str]) -> None:
        """Check the number of arguments. Raises `UsageError`."""
        if not self.least <= len(arguments) <= self.most:
            raise UsageError(f"usage: {name} {self.usage}".rstrip())


def command_named(name: str) -> ShellCommand:
    """Return a command. Raises `UsageError`."""
    command = SHELL_COMMANDS.get(name)
    if command is None:
        raise UsageError(f"unknown command {name!r}{closest(name, SHELL_COMMANDS)}")
    return command


def _no_options(_: Sequence[str]) -> Namespace:
    return Namespace()


def _kind(kind: str) -> Callable[[Sequence[str]], Namespace]:
    return lambda _: Namespace(kind=kind)


def _call_options(arguments: Sequence[str]) -> Namespace:
    name, *rest = arguments
    if len(rest) == 1 and rest[0].startswith("{"):
        return Namespace(name=name, pairs=[], args=rest[0])
    return Namespace(name=name, pairs=rest, args=None)


def _read_options(arguments: Sequence[str]) -> Namespace:
    uri, *rest = arguments
    if rest and (len(rest) == 1 or rest[0] != "--output"):
        raise UsageError(f"usage: read {SHELL_COMMANDS['read'].usage}")
    return Namespace(uri=uri, output=rest[1] if rest else None)


def _prompt_options(arguments: Sequence[str]) -> Namespace:
    return Namespace(name=arguments[0], pairs=arguments[1:])


def _complete_options(arguments: Sequence[str]) -> Namespace:
    return Namespace(ref=arguments[0], pairs=arguments[1:])


SHELL_COMMANDS: Final[Mapping[str, ShellCommand]] = {
    "info": ShellCommand(
        summary="describe the server",
        same_as="probe",
        options=_no_options,
    ),
    **{
        kind: ShellCommand(summary=f"list the {what}", same_as="list", options=_kind(kind))
        for kind, what in {
            "tools": "tools",
            "resources": "resources",
            "templates": "resource templates",
            "prompts": "prompts",
        }.items()
    },
    "call": ShellCommand(
        usage="TOOL [NAME=VALUE ... | JSON]",
        summary="call a tool",
        least=1,
        most=_ANY,
        same_as="call",
        options=_call_options,
    ),
    "read": ShellCommand(
        usage="URI [--output FILE]",
        summary="read a resource",
        least=1,
        most=3,
        same_as="read",
        options=_read_options,
    ),
    "prompt": ShellCommand(
        usage="PROMPT [NAME=VALUE ...]",
        summary="get a prompt",
        least=1,
        most=_ANY,
        same_as="prompt",
        options=_prompt_options,
    ),
    "complete": ShellCommand(
        usage="REF [NAME=VALUE ...] NAME=VALUE",
        summary="show values for the last argument",
        least=2,
        most=_ANY,
        same_as="complete",
        options=_complete_options,
    ),
    "subscribe": ShellCommand(usage="[URI]", summary="show changes of a resource, or list these", most=1),
    "unsubscribe": ShellCommand(usage="URI", summary="end a subscription", least=1, most=1),
    "log": ShellCommand(usage="LEVEL", summary="request log messages", least=1, most=1),
    "raw": ShellCommand(usage="on|off", summary="show all messages, and those of the handshake", least=1, most=1),
    "ping": ShellCommand(summary="measure the time of a response"),
    "reconnect": ShellCommand(summary="connect again"),
    "help": ShellCommand(usage="[COMMAND]", summary="describe the commands", most=1),
    "exit": ShellCommand(summary="leave the shell"),
}
"""The commands by name."""
