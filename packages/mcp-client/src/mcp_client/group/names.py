"""Unique names for the tools and prompts of several servers in one list.

Names for a model must be unique, and most models accept only letters, digits, `_` and `-`, at most 64 characters. A
table maps each name to its server; the name is never parsed.
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
"""Maximum length of a name in characters, the limit of common models."""

_SEPARATOR: Final = "__"
_DIGEST: Final = 8

_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")

Naming: TypeAlias = Literal["prefixed", "plain", "strict"]
"""`prefixed`: each name is prefixed with the name of its server. `plain`: only names that several servers use are
prefixed. `strict`: names are not changed, and a name that two servers use is an error."""


class NameCollision(McpError):
    """Several servers use the same name, and `naming="strict"` does not change names."""

    def __init__(self, name: str, servers: Sequence[str]) -> None:
        super().__init__(
            f"{' and '.join(servers)} both offer {name!r}; open the group with naming='prefixed' or 'plain', or leave one out"
        )
        self.name = name
        """The name."""
        self.servers: tuple[str, ...] = tuple(servers)
        """The names of the servers that use the name."""


def exposed_names(offered: Mapping[str, Iterable[str]], naming: Naming) -> dict[str, tuple[str, str]]:
    """Return the unique names of all items.

    The names do not depend on the order of the servers. With `prefixed` they do not depend on the items of other
    servers either, except for names that differ only in characters that models do not accept.

    Args:
        offered: The original names by server.
        naming: The rule for the names.

    Returns:
        The server and the original name, by unique name.

    Raises:
        NameCollision: Several servers use the same name, and `naming` is `strict`.
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
            # The names differ only in replaced characters.
            for each in meant:
                found[_free(shown, each, found)] = each
    return found


def _free(shown: str, meant: tuple[str, str], taken: Container[str]) -> str:
    """Return a name with a digest that is not in use. A server may use a name that looks like a generated one."""
    return next(
        name
        for name in (_marked(shown, *meant, *["again"] * times) for times in itertools.count())
        if name not in taken
    )


def _usable(name: str) -> str:
    shown = _STRANGE.sub("_", name)
    return shown if len(shown) <= LONGEST_NAME else _marked(shown, name)


def _marked(shown: str, *meant: str) -> str:
    """Return a name with a digest of its origin, which makes it unique with high probability."""
    digest = hashlib.sha256("\0".join(meant).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{shown[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
