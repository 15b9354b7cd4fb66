"""The checks of both roles."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks import CLIENT_CHECKS, SERVER_CHECKS
from mcp_conformance.model.check import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_conformance.model.check import Facts

__all__ = ["CHECKS", "find"]

CHECKS: Final[Mapping[Role, Iterable[Facts]]] = {Role.SERVER: SERVER_CHECKS, Role.CLIENT: CLIENT_CHECKS}
"""All checks, by whom they are for."""


@cache
def find(id: str, role: Role | None = None) -> Facts:
    """The check of an id.

    Args:
        id: The id.
        role: Whom it is for; `None`: the first of either.

    Raises:
        KeyError: There is none.
    """
    for each, checks in CHECKS.items():
        for check in checks:
            if check.id == id and role in (None, each):
                return check
    raise KeyError(id)
