"""URIs of the template of the fixtures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["TEMPLATE", "expanded_template"]

TEMPLATE: Final = "test://template/{id}/data"
"""The fixture template."""


def expanded_template(server: ServerUnderTest, value: str) -> str | None:
    """Return the fixture template with a value for its variable, or `None` if the server does not have the template."""
    name = server.manifest.find("templates", TEMPLATE).name
    if server.inventory.find("templates", name) is None:
        return None
    # The template of the contract has one simple variable, as any template has that is mapped to it.
    return re.sub(r"\{[^{}]*\}", value, name)
