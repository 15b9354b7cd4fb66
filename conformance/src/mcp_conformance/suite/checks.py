"""The checks of both roles."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks import CLIENT_CHECKS, SERVER_CHECKS
from mcp_conformance.model.check import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_conformance.model.check import CheckInfo

__all__ = ["CHECKS", "find"]

CHECKS: Final[Mapping[Role, Iterable[CheckInfo]]] = {Role.SERVER: SERVER_CHECKS, Role.CLIENT: CLIENT_CHECKS}
"""All checks, by role."""


@cache
def find(id: str, role: Role | None = None) -> CheckInfo:
    """Return the check with an id.

    Args:
        id: The id.
        role: The role of the check; `None`: the first of either role.

    Raises:
        KeyError: There is no such check.
    """
    for each, checks in CHECKS.items():
        for check in checks:
            if check.id == id and role in (None, each):
                return check
    raise KeyError(id)
