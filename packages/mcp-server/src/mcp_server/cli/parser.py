"""The parser of the command line, whose errors suggest the nearest valid name."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CommandParser"]


class CommandParser(argparse.ArgumentParser):
    """A parser of a command, or of the options of a command."""

    def reject(self, words: Sequence[str]) -> NoReturn:
        """Exit for words that are not arguments of the command."""
        word = words[0].partition("=")[0]
        options = [name for name in self._option_string_actions if name.startswith("--")]
        self.error(f"unknown option {word}{near(word, options)}" if word[:1] == "-" else f"unexpected word {word!r}")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            listed = near(str(value), known) or f"; known: {', '.join(known)}"
            raise argparse.ArgumentError(action, f"unknown value {value!r}{listed}")


def near(name: str, known: Iterable[str]) -> str:
    """Return the nearest name as the end of a message; empty when no name is similar."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
