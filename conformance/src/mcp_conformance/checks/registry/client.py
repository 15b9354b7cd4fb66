"""The registry of the checks of clients.

A check of a client performs nothing: the client ran before, once in each scenario, and the check judges the recorded
messages. It names its scenarios in `needs`, for instance `scenario:tools_call`; a check that names none judges all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.dependencies import CLIENT_DEPENDENCIES
from mcp_conformance.model.check import CheckScope, Registry, Role

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest

__all__ = ["CLIENT_CHECKS", "check"]

CLIENT_CHECKS: Final[Registry[ClientUnderTest]] = Registry(Role.CLIENT, CLIENT_DEPENDENCIES)
"""All checks of clients, in the order of their registration."""

check: Final = partial(CLIENT_CHECKS.check, subject=CheckScope.EVIDENCE)
"""Registers a function as a check, as `Registry.check` does."""
