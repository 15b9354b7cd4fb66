"""Options of a command: one table for the command line and for a configuration file in TOML."""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["CommandOption", "ConfigError", "add_options", "read_config"]


class ConfigError(Exception):
    """A configuration file cannot be used. The message names the file, the problem and the remedy."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CommandOption(FieldValue):
    """An option of a command."""

    name: str
    """The name: `--name` on the command line, `name` in a configuration file."""
    help: str
    """The help text."""
    metavar: str | None = None
    """The name of the value in the help text; `None`: the option has no value, it enables something."""
    kind: type[str | int | bool] = str
    """The type of the value."""
    repeated: bool = False
    """Whether the option can be given several times. It is an array in a configuration file."""
    choices: tuple[str, ...] | None = None
    """The possible values; `None`: any."""
    group: str | None = None
    """The heading in the help text."""
    needs: str | None = None
    """The option without which this one is an error."""

    @property
    def attribute(self) -> str:
        """The name of the option in the parsed arguments."""
        return self.name.replace("-", "_")

    def _form(self) -> str:
        """Return the form of the value in TOML."""
        if self.repeated:
            return f'an array of strings: {self.name} = ["{self.metavar}"]'
        if self.kind is bool:
            return f"true or false: {self.name} = true"
        if self.kind is int:
            return f"an integer: {self.name} = 1"
        return f'a string: {self.name} = "{self.metavar or (self.choices or ("",))[0]}"'

    def problem(self, value: object) -> str | None:
        """Return the problem with a value in a configuration file, or `None`."""
        if self.repeated:
            fine = isinstance(value, list) and all(isinstance(each, str) for each in value)
        else:
            fine = type(value) is self.kind
        if not fine:
            return f"{self.name} must be {self._form()}"
        if self.choices is not None and value not in self.choices:
            return f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}"
        return None


def add_options(command: argparse.ArgumentParser, table: Sequence[CommandOption]) -> None:
    """Add options to the parser of a command. An option that is not given is `None`.

    Args:
        command: The parser.
        table: The options.
    """
    groups: dict[str, argparse._ArgumentGroup] = {}
    for option in table:
        place: argparse._ActionsContainer = command
        if option.group is not None:
            place = groups.get(option.group) or groups.setdefault(
                option.group, command.add_argument_group(option.group)
            )
        flag = f"--{option.name}"
        if option.kind is bool:
            place.add_argument(flag, action="store_true", default=None, help=option.help)
        else:
            place.add_argument(
                flag,
                metavar=option.metavar,
                type=option.kind,
                choices=option.choices,
                action="append" if option.repeated else "store",
                help=option.help,
            )


def read_config(path: Path, table: Sequence[CommandOption]) -> dict[str, object]:
    """Read a configuration file.

    Args:
        path: The file, in TOML. Its keys are the names of options.
        table: The options.

    Returns:
        The values, by the names of the parsed arguments.

    Raises:
        ConfigError: The file cannot be read, or has an unknown key or a value of another type.
    """
    known: Final = {option.name: option for option in table}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    values: dict[str, object] = {}
    for name, value in content.items():
        option = known.get(name)
        if option is None:
            similar = difflib.get_close_matches(name.replace("_", "-"), known, n=1)
            hint = f"did you mean {similar[0]!r}?" if similar else f"the keys are {', '.join(sorted(known))}"
            raise ConfigError(f"{path}: unknown key {name!r}; {hint}")
        problem = option.problem(value)
        if problem is not None:
            raise ConfigError(f"{path}: {problem}")
        values[option.attribute] = value
    return values
