"""Where the checks of clients are kept.

A check of a client does nothing: the client ran before, once in each scenario, and the check judges the evidence. It names
the scenarios that it looks at in `needs`, as `scenario:tools_call`; one that names none looks at all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.model.check import Registry, Role, Subject

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest

__all__ = ["CLIENT_CHECKS", "check"]

CLIENT_CHECKS: Final[Registry[ClientUnderTest]] = Registry(Role.CLIENT)
"""All of them, in the order in which they were written."""

check = partial(CLIENT_CHECKS.check, subject=Subject.EVIDENCE)
"""Makes a check of a function. See `Registry.check`."""
