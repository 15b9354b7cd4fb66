"""Environment variables that a server process lacks, by what it wrote to stderr.

A child process inherits few variables. A server that needs another one often exits at its start, and its stderr names
the variable. There is no standard for that, so the names are guesses, which are only used as advice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["missing_variables"]

_MOST: Final = 5
"""Maximum number of variables in an error."""

_NAME: Final = r"[A-Z][A-Z0-9_]{2,63}"
_WORD: Final = re.compile(rf"(?<![A-Za-z0-9_]){_NAME}(?![A-Za-z0-9_])")
_QUOTE: Final = r"[\"'`]?"
_REQUIRED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # Python: `os.environ["NAME"]`
        rf"KeyError: '({_NAME})'",
        rf"\b({_NAME}){_QUOTE} (?:environment variable )?(?:is|was|must be|has to be|needs to be) "
        r"(?:not (?:set|defined|provided|found)|missing|required|undefined|unset|set|defined|provided)\b",
        rf"\b(?i:environment variables?|env vars?|missing|required|set|export):? {_QUOTE}\$?({_NAME})\b",
    )
)
"""Sentences about variables that a program requires. Each bounds the length of what it matches, for linear time."""

_NO_ADVICE: Final = frozenset(
    # Levels of log messages, and variables of the shell itself.
    {"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "OLDPWD", "PWD", "SHLVL", "TRACE", "WARN", "WARNING"}
)


def missing_variables(stderr: str, *, ours: Collection[str], passed: Collection[str]) -> tuple[str, ...]:
    """Return the names of variables that a server seems to require, and was started without; at most five.

    Args:
        stderr: The last lines of the server's stderr.
        ours: The names of the variables of this process. A name that stderr mentions in any sentence is returned.
        passed: The names of the variables of the server.
    """
    required = {name for pattern in _REQUIRED for name in pattern.findall(stderr)}
    # In the order of stderr.
    mentioned = dict.fromkeys(_WORD.findall(stderr))
    found = [
        name
        for name in mentioned
        if (name in required or name in ours) and name not in passed and name not in _NO_ADVICE
    ]
    return tuple(found[:_MOST])
