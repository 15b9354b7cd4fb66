"""Methods that no server has, although a lax server takes some of them for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import near_misses
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["UNKNOWN_METHOD", "UNKNOWN_NOTIFICATION", "unknown_methods"]

UNKNOWN_METHOD: Final = "conformance/does-not-exist"
UNKNOWN_NOTIFICATION: Final = "notifications/conformance-unknown"


def unknown_methods(server: ServerUnderTest) -> list[str]:
    """Return unknown methods: a plain one, one with the prefix of notifications, and near misses of known ones."""
    known = ["ping" if server.revision.era is Era.LEGACY else "server/discover"]
    known += [f"{each}/list" for each in ("tools", "resources", "prompts") if server.inventory.has(each)][:1]
    # In an HTTP header, spaces around a value have no meaning.
    others = [each for method in known for each in near_misses(method) if each == each.strip()]
    return [UNKNOWN_METHOD, UNKNOWN_NOTIFICATION, *others]
