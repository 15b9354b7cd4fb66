"""What the tools and prompts of several servers are called when they stand in one list.

A name that a model is given has to be one of its kind, and most models take only letters, digits, `_` and `-`, 64 of
them at most. Which server a name belongs to is kept in a table, never read out of the name.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

__all__ = ["LONGEST_NAME", "NameCollision", "Naming", "exposed_names"]

LONGEST_NAME: Final = 64
"""Characters of a name, as the makers of models bound them."""

_SEPARATOR: Final = "__"
_DIGEST: Final = 8

_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")

Naming: TypeAlias = Literal["prefixed", "plain", "strict"]
"""`prefixed`: each name has that of its server before it, whoever else is there. `plain`: only names that several servers
use have it. `strict`: nothing is changed, and two of the same name are an error."""


class NameCollision(McpError):
    """Two servers offer something of the same name, and `naming="strict"` lets neither have another one."""

    def __init__(self, name: str, servers: Sequence[str]) -> None:
        super().__init__(
            f"{' and '.join(servers)} both offer {name!r}; open the group with naming='prefixed' or 'plain', or leave one out"
        )
        self.name = name
        """The name."""
        self.servers = tuple(servers)
        """Who offers it."""


def exposed_names(offered: Mapping[str, Iterable[str]], naming: Naming) -> dict[str, tuple[str, str]]:
    """The names under which everything is listed.

    They do not depend on the order of the servers, and with `prefixed` not on what other servers offer, but for names
    that differ only in characters which no model takes.

    Args:
        offered: What each server offers, by its name.
        naming: How names are made.

    Returns:
        From the name in the list to the server and the name that it knows.

    Raises:
        NameCollision: Only with `strict`.
    """
    owners: dict[str, list[str]] = {}
    for server in sorted(offered):
        for name in dict.fromkeys(offered[server]):
            owners.setdefault(name, []).append(server)
    if naming == "strict":
        for name, servers in owners.items():
            if len(servers) > 1:
                raise NameCollision(name, servers)
        return {name: (servers[0], name) for name, servers in owners.items()}
    wanted: dict[str, list[tuple[str, str]]] = {}
    for name, servers in owners.items():
        for server in servers:
            prefixed = naming == "prefixed" or len(servers) > 1
            shown = _usable(f"{server}{_SEPARATOR}{name}" if prefixed else name)
            wanted.setdefault(shown, []).append((server, name))
    found = {shown: meant[0] for shown, meant in wanted.items() if len(meant) == 1}
    for shown, meant in wanted.items():
        if len(meant) > 1:
            # They differ in what had to be replaced only.
            for each in meant:
                found[_free(shown, each, found)] = each
    return found


def _free(shown: str, meant: tuple[str, str], taken: Container[str]) -> str:
    """A marked name that is not taken. Servers choose their names, and may have chosen one that is made here."""
    return next(
        name
        for name in (_marked(shown, *meant, *["again"] * times) for times in itertools.count())
        if name not in taken
    )


def _usable(name: str) -> str:
    shown = _STRANGE.sub("_", name)
    return shown if len(shown) <= LONGEST_NAME else _marked(shown, name)


def _marked(shown: str, *meant: str) -> str:
    """A name that nothing else has, as far as a digest can say."""
    digest = hashlib.sha256("\0".join(meant).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{shown[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
