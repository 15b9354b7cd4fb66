"""Scope selection, and the limit of step-up authorization.

A challenge names the scopes that the request requires. It has precedence, and is neither filtered by nor intersected
with a list of supported scopes. Scopes that were requested or granted before are always requested again, because an
authorization server may grant exactly the requested scopes.

Spec: basic/authorization#scope-selection-strategy, #step-up-authorization-flow, #refresh-tokens
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import InsufficientScope
from mcp_core.oauth.documents import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.discovery import DiscoveryResult
    from mcp_core.oauth.records import TokenRecord

__all__ = ["OFFLINE_ACCESS", "STEP_UPS", "StepUps", "select_scopes", "union"]

OFFLINE_ACCESS: Final = "offline_access"
"""The scope that requests a refresh token from OpenID providers."""

STEP_UPS: Final = 2
"""Maximum number of requests for more scopes for one operation. Each of them asks the user. With the first
authorization this makes three, which follows the specification's "a few"."""

_OPERATIONS: Final = 1_000
"""Maximum number of operations that are counted. When there are more, the oldest is evicted."""


def union(*several: Iterable[str]) -> tuple[str, ...]:
    """Return all scopes without duplicates, in order."""
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))


def select_scopes(
    found: DiscoveryResult,
    *,
    challenge: Challenge | None,
    configured: Sequence[str] | None,
    previous: TokenRecord | None,
    refreshable: bool,
) -> tuple[str, ...]:
    """Return the scopes to request; empty for a request without `scope`.

    Args:
        found: The metadata of the server and of its authorization server.
        challenge: The challenge of the server, if there is one.
        configured: The scopes to request if the challenge names none; `None` for all that the server supports.
        previous: The tokens of this server from this authorization server, if there are any.
        refreshable: Whether the grant can return a refresh token.
    """
    listed = found.server.scopes_supported or ()
    if challenge is not None and challenge.scopes:
        base = challenge.scopes
    elif configured is not None:
        base = tuple(configured)
    else:
        supported = () if found.protected_resource is None else found.protected_resource.scopes_supported or ()
        base = tuple(scope for scope in supported if scope != OFFLINE_ACCESS or scope in listed)
    before = () if previous is None else union(previous.requested_scopes, previous.scopes)
    scopes = union(before, base)
    # Requested alone it would replace the default scopes of the authorization server.
    return union(scopes, [OFFLINE_ACCESS]) if refreshable and scopes and OFFLINE_ACCESS in listed else scopes


class StepUps:
    """A counter of the requests for more scopes, by server and operation. Use one counter for many flows."""

    __slots__ = ("_taken", "limit")

    def __init__(self, limit: int = STEP_UPS) -> None:
        self.limit: Final = limit
        """The maximum number of requests for one operation."""
        self._taken: dict[tuple[str, str], int] = {}

    def take(self, tokens: TokenRecord, operation: str, required: Sequence[str]) -> None:
        """Count a request for more scopes.

        Args:
            tokens: The tokens with insufficient scope.
            operation: The operation, for example `tools/call forecast`.
            required: The scopes that the server requires; empty if it names none.

        Raises:
            InsufficientScope: The limit is reached, or the token has all of these scopes already.
        """
        key = (tokens.server_url, operation)
        taken = self._taken.get(key, 0)
        granted = f"granted scopes: {one_line(' '.join(tokens.scopes)) or 'none by name'}"
        wanted = f"{operation or 'the request'} requires {one_line(' '.join(required)) or 'more scopes'}"
        if required and set(required) <= set(tokens.scopes):
            sentence = f"{wanted}, and the token has them: {granted}. The authorization server and the server disagree"
            raise InsufficientScope(sentence, required=required, granted=tokens.scopes)
        if taken >= self.limit:
            sentence = f"{wanted}; authorization requests without success: {taken}; {granted}"
            raise InsufficientScope(sentence, required=required, granted=tokens.scopes)
        self._taken[key] = taken + 1
        if len(self._taken) > _OPERATIONS:
            del self._taken[next(iter(self._taken))]

    def succeeded(self, server_url: str, operation: str) -> None:
        """Reset the count of an operation that succeeded."""
        self._taken.pop((server_url, operation), None)
