"""Methods that a server does not have, although a lax server takes some of them for others, or for those of its revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import INHERITED, near_misses
from mcp_conformance.model.check import Transport
from mcp_core.methods import methods
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["UNKNOWN_METHOD", "UNKNOWN_NOTIFICATION", "methods_of_other_revisions", "unknown_methods"]

UNKNOWN_METHOD: Final = "conformance/does-not-exist"
UNKNOWN_NOTIFICATION: Final = "notifications/conformance-unknown"


_OF_REVISIONS: Final[Mapping[str, JsonObject]] = {
    "ping": {},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "test://static-text"},
    "resources/unsubscribe": {"uri": "test://static-text"},
    "tasks/list": {},
    "tasks/get": {"taskId": "conformance-none"},
}
"""Methods that only some revisions have, with their params."""


def methods_of_other_revisions(server: ServerUnderTest) -> list[tuple[str, JsonObject]]:
    """Return methods that other revisions have, with valid params.

    Over HTTP another check covers those that are not in the modern revision, and their status.
    """
    if server.revision.era is Era.MODERN and server.transport is Transport.HTTP:
        return []
    known = methods(server.revision)
    return [(method, params) for method, params in _OF_REVISIONS.items() if method not in known]


def unknown_methods(server: ServerUnderTest) -> list[str]:
    """Return unknown methods: a plain one, one with the prefix of notifications, near misses, and inherited names."""
    known = ["ping" if server.revision.era is Era.LEGACY else "server/discover"]
    known += [f"{each}/list" for each in ("tools", "resources", "prompts") if server.inventory.has(each)][:1]
    # In an HTTP header, spaces around a value have no meaning.
    others = [each for method in known for each in near_misses(method) if each == each.strip()]
    return [UNKNOWN_METHOD, UNKNOWN_NOTIFICATION, *others, *INHERITED]
