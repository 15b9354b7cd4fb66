"""Where the checks of servers are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.model.check import Registry, Role

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["SERVER_CHECKS", "check"]

SERVER_CHECKS: Final[Registry[ServerUnderTest]] = Registry(Role.SERVER)
"""All of them, in the order in which they were written."""

check = SERVER_CHECKS.check
"""Makes a check of a function. See `Registry.check`."""
