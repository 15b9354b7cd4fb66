"""Commands that are legacy servers and end on `server/discover`, so that each is found out once.

Servers made with rmcp before version 3 end when the first message is not `initialize`: the process exits, with an error
status or without, or closes its stdout. Such a command is started again, and sent `initialize` first. This process
remembers the command for as long as it lives, so that a connection which is restarted costs one start.

Spec: basic/transports/stdio#backward-compatibility (2026-07-28)
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mcp_core.errors import ConnectionEnded, LimitExceeded
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_client.transports.stdio.command import StdioParameters
    from mcp_core.errors import McpError
    from mcp_core.revisions import Revision

__all__ = ["LegacyCommands", "describe_attempt", "may_be_legacy"]

_STDERR_LINES: Final = 5
"""How many lines of the stderr of an earlier process an error quotes."""

_STDERR_CHARACTERS: Final = 1_000
"""And how many characters of them."""


class LegacyCommands:
    """The commands that ended on `server/discover`, and then answered `initialize`.

    An entry is a hint, which may have become wrong: the engine probes when a server refuses `initialize`, and a caller
    that fails with the help of an entry forgets it. The environment of a command is not a part of its key, since it
    holds secrets.

    Args:
        most: How many commands are remembered. With more, the one that was not used for the longest time is forgotten.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most: Final = most
        self._known: Final[OrderedDict[tuple[str, ...], None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def era(self, parameters: StdioParameters) -> Era | None:
        """Return the era that the command is known to speak, or `None`."""
        key = _key(parameters)
        if key not in self._known:
            return None
        self._known.move_to_end(key)
        return Era.LEGACY

    def learn(self, parameters: StdioParameters) -> None:
        """Remember that the command ended on `server/discover` and answered `initialize`."""
        key = _key(parameters)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, parameters: StdioParameters) -> None:
        """Forget the command: it may be another program now."""
        self._known.pop(_key(parameters), None)


def _key(parameters: StdioParameters) -> tuple[str, ...]:
    return ("" if parameters.cwd is None else os.fspath(parameters.cwd), *parameters.command)


def may_be_legacy(error: McpError, revisions: Sequence[Revision]) -> bool:
    """Return whether a server that was sent `server/discover` and ended may answer `initialize` in a new process.

    Args:
        error: Why there is no connection.
        revisions: The revisions that the client speaks.
    """
    eras = {revision.era for revision in revisions}
    # A process that floods stdout with other lines ended because this side gave it up.
    flooded = isinstance(error.__cause__, LimitExceeded)
    return isinstance(error, ConnectionEnded) and not flooded and eras == {Era.LEGACY, Era.MODERN}


def describe_attempt(methods: Sequence[str], error: McpError, *, stderr: bool) -> str:
    """Return a sentence on an attempt to connect: what was sent, how it ended, and the last lines of stderr.

    Args:
        methods: What was sent.
        error: How it ended.
        stderr: Whether to quote the stderr; that of the last attempt is in its error already.
    """
    sentence = f"sent {' and '.join(methods) or 'nothing'}: {error.message}"
    tail = (error.circumstances.stderr_tail or "").strip()
    if not stderr or not tail:
        return sentence
    lines = tail[-_STDERR_CHARACTERS:].splitlines()[-_STDERR_LINES:]
    return "\n".join([f"{sentence}; its stderr ended with:", *(f"     {line}" for line in lines)])
