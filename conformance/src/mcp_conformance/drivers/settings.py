"""How the suite runs: bounds, and who it says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.revisions import R2025_06_18, between

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.token_issuer import Issuer
    from mcp_conformance.oauth_testbed.user_login import Login
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["ALL_CAPABILITIES", "CLIENT_INFO", "Settings", "capabilities_in"]

CLIENT_INFO: Final[JsonObject] = {"name": "mcp-conformance", "version": "0.1.0"}
"""Who asks."""

ALL_CAPABILITIES: Final[JsonObject] = {"elicitation": {}, "roots": {}, "sampling": {}}
"""What the suite declares as a client, in the revisions that have all of it."""


def capabilities_in(revision: Revision) -> JsonObject:
    """What the suite declares as a client unless a check says otherwise.

    Who declares what a revision lacks asks for it, and could not blame the server.
    """
    lacking = set() if revision in between(R2025_06_18) else {"elicitation"}
    return {name: value for name, value in ALL_CAPABILITIES.items() if name not in lacking}


@attrs.frozen(kw_only=True)
class Settings:
    """The bounds of a run."""

    patience: float = 10.0
    """Seconds that an answer may take. No rule is judged by it: only that something hangs."""
    starting: float = 30.0
    """Seconds that a process may take until its first word: an interpreter or a package runner has to come up first."""
    jobs: int = 2
    """How many revisions and transports are tried at a time."""
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP headers for every request, as for a server that wants a key."""
    other_headers: tuple[tuple[str, str], ...] = ()
    """Those of another user in place of them; empty: only one user is known."""
    issuer: Issuer | None = None
    """The authorization server that the server under test believes; `None`: none that the suite has a hand in."""
    authorization_server: str | None = None
    """The issuer of an authorization server that is put to the test itself; `None`: none is."""
    login: Login | None = None
    """Somebody who logs in there; `None`: nobody does."""
