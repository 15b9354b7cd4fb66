"""The registry of the checks of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.dependencies import SERVER_DEPENDENCIES
from mcp_conformance.model.check import Registry, Role

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["SERVER_CHECKS", "check"]

SERVER_CHECKS: Final[Registry[ServerUnderTest]] = Registry(Role.SERVER, SERVER_DEPENDENCIES)
"""All checks of servers, in the order of their registration."""

check: Final = SERVER_CHECKS.check
"""Registers a function as a check, as `Registry.check` does."""
