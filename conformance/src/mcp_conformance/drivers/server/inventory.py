"""What a server offers in one revision over one transport, as it says itself: the ground on which checks are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.server.peer import ServerPeer
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Survey", "survey"]

_PAGES: Final = 100
"""How many pages of a list are read."""

_LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "tools": ("tools", "tools/list", "tools"),
    "resources": ("resources", "resources/list", "resources"),
    "templates": ("resources", "resources/templates/list", "resourceTemplates"),
    "prompts": ("prompts", "prompts/list", "prompts"),
}
"""The capability, the method and the member of the result, by what is listed."""


@attrs.frozen(kw_only=True)
class Survey:
    """What a server offers."""

    capabilities: JsonObject
    """What it declares."""
    lists: Mapping[str, tuple[JsonObject, ...]]
    """`tools`, `resources`, `templates` and `prompts`, as they are listed."""

    def has(self, path: str) -> bool:
        """Whether a capability is declared, as `tools` or `resources.subscribe`."""
        here: object = self.capabilities
        for name in path.split("."):
            if not isinstance(here, dict) or name not in here or here[name] in (None, False):
                return False
            here = here[name]
        return True

    def find(self, kind: str, name: str) -> JsonObject | None:
        """What is listed under a name or URI; `None` when nothing is."""
        key = {"resources": "uri", "templates": "uriTemplate"}.get(kind, "name")
        return next((each for each in self.lists.get(kind, ()) if each.get(key) == name), None)


async def survey(peer: ServerPeer) -> Survey:
    """Look at a server, over a connection that is open.

    Raises:
        Deviation: It does not even answer that.
    """
    if peer.revision.era is Era.LEGACY:
        if peer.handshake is None:
            raise AssertionError("the connection is not open")
        first = peer.handshake
    else:
        first = await peer.request("server/discover")
    declared = first.result().get("capabilities")
    capabilities: JsonObject = declared if isinstance(declared, dict) else {}
    lists: dict[str, tuple[JsonObject, ...]] = {}
    for kind, (capability, method, member) in _LISTS.items():
        lists[kind] = await _listed(peer, method, member) if isinstance(capabilities.get(capability), dict) else ()
    return Survey(capabilities=capabilities, lists=lists)


async def _listed(peer: ServerPeer, method: str, member: str) -> tuple[JsonObject, ...]:
    """A list, as far as it can be had: what is wrong with it is for the checks to say."""
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
