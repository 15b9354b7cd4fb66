"""The features that a server declares and lists in one revision over one transport. Checks are selected by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.revisions import Era
from mcp_core.types.meta import SERVER_INFO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ServerInventory", "read_inventory"]

_PAGES: Final = 100
"""The maximal number of pages of a list that are read."""

_LONGEST: Final = 200
"""The maximal length of the name and version of a server, in characters."""

_LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "tools": ("tools", "tools/list", "tools"),
    "resources": ("resources", "resources/list", "resources"),
    "templates": ("resources", "resources/templates/list", "resourceTemplates"),
    "prompts": ("prompts", "prompts/list", "prompts"),
}
"""The capability, the method and the member of the result, by kind of list."""


@attrs.frozen(kw_only=True)
class ServerInventory:
    """The features of a server."""

    capabilities: JsonObject
    """The declared capabilities."""
    lists: Mapping[str, tuple[JsonObject, ...]]
    """The entries of `tools`, `resources`, `templates` and `prompts`."""
    implementation: str = ""
    """The name and version of the server; empty if it states none."""

    def has(self, path: str) -> bool:
        """Return whether a capability is declared, for example `tools` or `resources.subscribe`."""
        here: object = self.capabilities
        for name in path.split("."):
            if not isinstance(here, dict) or name not in here or here[name] in (None, False):
                return False
            here = here[name]
        return True

    def find(self, kind: str, name: str) -> JsonObject | None:
        """Find the entry with a name or URI; `None` if absent."""
        key = {"resources": "uri", "templates": "uriTemplate"}.get(kind, "name")
        return next((each for each in self.lists.get(kind, ()) if each.get(key) == name), None)


async def read_inventory(peer: SuiteConnection) -> ServerInventory:
    """Read the inventory of a server over an open connection.

    Raises:
        Deviation: The server sent no valid response.
    """
    if peer.revision.era is Era.LEGACY:
        if peer.handshake is None:
            raise AssertionError("the connection is not open")
        first = peer.handshake
    else:
        first = await peer.request("server/discover")
    # The server serves the revision, of which nothing is tested without the lists. What other legs waited for in vain says
    # nothing about them.
    peer.is_patient = True
    declared = first.result().get("capabilities")
    capabilities: JsonObject = declared if isinstance(declared, dict) else {}
    lists: dict[str, tuple[JsonObject, ...]] = {}
    for kind, (capability, method, member) in _LISTS.items():
        lists[kind] = await _listed(peer, method, member) if isinstance(capabilities.get(capability), dict) else ()
    return ServerInventory(
        capabilities=capabilities, lists=lists, implementation=_implementation(first.result(), peer.revision.era)
    )


def _implementation(result: JsonObject, era: Era) -> str:
    """Return the name and version of a server as it states them. Defects are left to the checks."""
    meta = result.get("_meta")
    info = result.get("serverInfo") if era is Era.LEGACY else meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    parts = (info.get("name"), info.get("version")) if isinstance(info, dict) else ()
    return " ".join(part for part in parts if isinstance(part, str) and part)[:_LONGEST]


async def _listed(peer: SuiteConnection, method: str, member: str) -> tuple[JsonObject, ...]:
    """Read a list as far as possible. Defects of the list are left to the checks."""
    found: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        answer = await peer.request(method, None if cursor is None else {"cursor": cursor})
        page = answer.message.get("result")
        if not isinstance(page, dict):
            break
        entries = page.get(member)
        found += [entry for entry in (entries if isinstance(entries, list) else ()) if isinstance(entry, dict)]
        onward = page.get("nextCursor")
        if not isinstance(onward, str) or onward == cursor:
            break
        cursor = onward
    return tuple(found)
