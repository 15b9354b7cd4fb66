"""The checks of both roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks import Role
from mcp_conformance.server import SERVER_CHECKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_conformance.checks import Facts

__all__ = ["CHECKS", "find"]

CHECKS: Final[Mapping[Role, Iterable[Facts]]] = {Role.SERVER: SERVER_CHECKS, Role.CLIENT: ()}
"""All checks, by whom they are for."""


def find(id: str) -> Facts:
    """The check of an id, in either role.

    Raises:
        KeyError: There is none.
    """
    for checks in CHECKS.values():
        for check in checks:
            if check.id == id:
                return check
    raise KeyError(id)
