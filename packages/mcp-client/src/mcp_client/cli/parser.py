"""The parser of a command: options at any place, and errors in one line, with the nearest valid name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, NoReturn

from mcp_client.cli.arguments import closest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

__all__ = ["USAGE", "CommandParser", "one_of", "unknown_option"]

USAGE: Final = 2
"""The exit code for an invalid command line."""


class CommandParser(argparse.ArgumentParser):
    """A parser that reports an error in one line. `--help` shows the usage.

    Args:
        prog: The name of the command.
        usage: The arguments after the name, in the usage; `None`: as argparse writes them.
        summary: What the command does.
        epilog: The text after the options.
        examples: Command lines for the help.
        parents: The parsers of shared options.
        add_help: Whether the command has the option `--help`.
    """

    def __init__(
        self,
        prog: str | None = None,
        *,
        usage: str | None = None,
        summary: str | None = None,
        epilog: str = "",
        examples: Sequence[str] = (),
        parents: Sequence[argparse.ArgumentParser] = (),
        add_help: bool = True,
    ) -> None:
        shown = "".join(f"\n  {example}" for example in examples)
        heading = "example:" if len(examples) == 1 else "examples:"
        super().__init__(
            prog=prog,
            usage=None if usage is None else f"%(prog)s {usage}",
            description=summary,
            epilog="\n\n".join(filter(None, (heading + shown if examples else "", epilog))) or None,
            parents=[*parents],
            add_help=add_help,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            # An abbreviation would stop working with the next option that begins with it.
            allow_abbrev=False,
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the name of the command. Options can be before, between and after the arguments.

        Raises:
            SystemExit: The words are invalid, or requested the help.
        """
        options, rest = self.parse_known_intermixed_args(words)
        for word in rest:
            if word.startswith("-"):
                self.error(unknown_option(word, self.options))
        if rest:
            self.error(f"unexpected word {rest[0]!r}; the command of a server follows `--`")
        return options

    @property
    def options(self) -> list[str]:
        """The long names of all options."""
        return [name for name in self._option_string_actions if name.startswith("--")]

    def error(self, message: str) -> NoReturn:
        """Exit with a message of one line."""
        self.exit(USAGE, f"{self.prog}: error: {message}; see `{self.prog} --help`\n")


def unknown_option(word: str, known: Iterable[str]) -> str:
    """Return the error for a word that is an option and is not known."""
    name = word.partition("=")[0]
    return f"unknown option {name}{closest(name, known)}"


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """Return a converter of an argument that must be one of several names. Its errors suggest the nearest name."""

    def convert(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"unknown value {text!r}{closest(text, names)}")
        return text

    return convert
