"""The settings of a run: time limits, headers, capabilities and authorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.wire.timeouts import AdaptiveTimeouts
from mcp_core.revisions import R2025_06_18, between

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.token_issuer import Issuer
    from mcp_conformance.oauth_testbed.trusted_party import TrustedParty
    from mcp_conformance.oauth_testbed.user_login import Login
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["ALL_CAPABILITIES", "CLIENT_INFO", "Settings", "capabilities_in"]

CLIENT_INFO: Final[JsonObject] = {"name": "mcp-conformance", "version": "0.1.0"}
"""The `clientInfo` of the suite."""

ALL_CAPABILITIES: Final[JsonObject] = {"elicitation": {}, "roots": {}, "sampling": {}}
"""The capabilities that the suite declares as a client, in revisions that have all of them."""


def capabilities_in(revision: Revision) -> JsonObject:
    """Return the capabilities that the suite declares as a client unless a check states others.

    A capability that the revision lacks would invite messages that the server could not be blamed for.
    """
    lacking = set() if revision in between(R2025_06_18) else {"elicitation"}
    return {name: value for name, value in ALL_CAPABILITIES.items() if name not in lacking}


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a run."""

    timeout: float = 10.0
    """Seconds that a response may take. No rule is judged by it; it only detects a hang."""
    timeouts: AdaptiveTimeouts = attrs.field(factory=AdaptiveTimeouts, eq=False)
    """The time limits of the waits for the target. Each target replaces them by its own."""
    starting: float = 30.0
    """Seconds that a process may take to its first message, because an interpreter or a package runner must start
    first.
    """
    jobs: int = 2
    """The number of revisions and transports that run at a time."""
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP headers of every request, for example an API key."""
    other_headers: tuple[tuple[str, str], ...] = ()
    """The headers of a second user in place of them; empty if only one user is known."""
    issuer: Issuer | None = None
    """The authorization server of the suite that the server under test trusts; `None` if absent."""
    authorization_server: str | None = None
    """The issuer of an authorization server under test; `None` if absent."""
    client_document: bytes | None = None
    """The Client ID Metadata Document of a client under test; `None` if it is not known."""
    party: TrustedParty | None = None
    """The party over https that the authorization server under test trusts; `None` if absent."""
    login: Login | None = None
    """The user login at that server; `None` if absent."""
    registrations: dict[tuple[str, str], HttpResponse] = attrs.field(factory=dict, eq=False, repr=False)
    """The responses to registrations of clients without login, by the redirect URI and the type of the application.

    The revisions of a run share them, because authorization servers limit registrations.
    """
