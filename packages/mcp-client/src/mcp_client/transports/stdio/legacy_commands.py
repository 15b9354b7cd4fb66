"""Commands of legacy servers that exit on `server/discover`. Each command is detected once.

Servers based on rmcp before version 3 end when the first message is not `initialize`: the process exits, with or
without an error status, or closes its stdout. The client starts such a command again and sends `initialize` first. This
process remembers the command as long as it runs, so a further connection needs only one start.

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
"""Maximum number of stderr lines of an earlier process that an error quotes."""

_STDERR_CHARACTERS: Final = 1_000
"""Maximum number of characters in these lines."""


class LegacyCommands:
    """The commands that exited on `server/discover` and then responded to `initialize`.

    An entry is a hint and may be outdated: the engine probes when a server rejects `initialize`, and a caller that
    fails with an entry removes it. The key does not contain the environment of the command, because the environment
    holds secrets.

    Args:
        most: Maximum number of commands. When it is exceeded, the least recently used command is removed.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most: Final = most
        self._known: Final[OrderedDict[tuple[str, ...], None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def era(self, parameters: StdioParameters) -> Era | None:
        """Return the known era of the command, or `None`."""
        key = _key(parameters)
        if key not in self._known:
            return None
        self._known.move_to_end(key)
        return Era.LEGACY

    def learn(self, parameters: StdioParameters) -> None:
        """Record that the command exited on `server/discover` and responded to `initialize`."""
        key = _key(parameters)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, parameters: StdioParameters) -> None:
        """Remove the command, because it may now be another program."""
        self._known.pop(_key(parameters), None)


def _key(parameters: StdioParameters) -> tuple[str, ...]:
    return ("" if parameters.cwd is None else os.fspath(parameters.cwd), *parameters.command)


def may_be_legacy(error: McpError, revisions: Sequence[Revision]) -> bool:
    """Return whether a server that ended after `server/discover` may respond to `initialize` in a new process.

    Args:
        error: Why the connection failed.
        revisions: The revisions that the client supports.
    """
    eras = {revision.era for revision in revisions}
    # If the process flooded stdout with invalid lines, this side ended the connection.
    flooded = isinstance(error.__cause__, LimitExceeded)
    return isinstance(error, ConnectionEnded) and not flooded and eras == {Era.LEGACY, Era.MODERN}


def describe_attempt(methods: Sequence[str], error: McpError, *, stderr: bool) -> str:
    """Return a sentence on a connection attempt: the methods sent, how the attempt ended, and the last lines of stderr.

    Args:
        methods: The methods of the requests sent.
        error: How the attempt ended.
        stderr: Whether to quote stderr. The error of the last attempt already contains its stderr.
    """
    sentence = f"sent {' and '.join(methods) or 'nothing'}: {error.message}"
    tail = (error.context.stderr_tail or "").strip()
    if not stderr or not tail:
        return sentence
    lines = tail[-_STDERR_CHARACTERS:].splitlines()[-_STDERR_LINES:]
    return "\n".join([f"{sentence}; its stderr ended with:", *(f"     {line}" for line in lines)])
