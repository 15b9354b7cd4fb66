"""Which scopes are asked for, and how often more of them.

A challenge is the server's word on what the request needs: it goes first, and is neither filtered nor intersected with
what any list of supported scopes has. What was asked for or granted before is always asked for again, since an
authorization server may give exactly what it is asked for.

Spec: basic/authorization#scope-selection-strategy, #step-up-authorization-flow, #refresh-tokens
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import InsufficientScope
from mcp_core.oauth.documents import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.discovery import Discovered
    from mcp_core.oauth.records import TokenRecord

__all__ = ["OFFLINE_ACCESS", "STEP_UPS", "StepUps", "select_scopes", "union"]

OFFLINE_ACCESS: Final = "offline_access"
"""The scope by which OpenID providers are asked for a refresh token."""

STEP_UPS: Final = 2
"""How often more scopes are asked for, for one operation. Each time a person is asked. With the first authorization these
are three, which is what the specification calls a few."""

_OPERATIONS: Final = 1_000
"""Operations whose count is kept. With more, the first is forgotten."""


def union(*several: Iterable[str]) -> tuple[str, ...]:
    """All scopes, each once, in the order in which they come."""
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))


def select_scopes(
    found: Discovered,
    *,
    challenge: Challenge | None,
    configured: Sequence[str] | None,
    previous: TokenRecord | None,
    refreshable: bool,
) -> tuple[str, ...]:
    """What to ask for; nothing means that the request has no `scope`.

    Args:
        found: The server and its authorization server.
        challenge: That of the server, if it gave one.
        configured: What the user of the client wants where the server does not say; `None`: all that it supports.
        previous: The tokens of this server from this authorization server, if there are any.
        refreshable: Whether the grant may give a refresh token.
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
    # Alone it would take the place of the scopes that the authorization server gives when it is asked for none.
    return union(scopes, [OFFLINE_ACCESS]) if refreshable and scopes and OFFLINE_ACCESS in listed else scopes


class StepUps:
    """Counts how often more scopes were asked for: for each server and operation. It outlives the flows."""

    __slots__ = ("_taken", "limit")

    def __init__(self, limit: int = STEP_UPS) -> None:
        self.limit: Final = limit
        """How often for one operation."""
        self._taken: dict[tuple[str, str], int] = {}

    def take(self, tokens: TokenRecord, operation: str, required: Sequence[str]) -> None:
        """Counts one.

        Args:
            tokens: Those that did not suffice.
            operation: What was tried, as `tools/call forecast`.
            required: The scopes that the server wants; empty when it does not say.

        Raises:
            InsufficientScope: They were asked for too often, or the token has them all already.
        """
        key = (tokens.server_url, operation)
        taken = self._taken.get(key, 0)
        granted = f"granted are {one_line(' '.join(tokens.scopes)) or 'none by name'}"
        wanted = f"{operation or 'the request'} needs {one_line(' '.join(required)) or 'more scopes'}"
        if required and set(required) <= set(tokens.scopes):
            sentence = f"{wanted}, and the token has them: {granted}. The authorization server and the server disagree"
            raise InsufficientScope(sentence, required=required, granted=tokens.scopes)
        if taken >= self.limit:
            sentence = f"{wanted}, which was asked for {taken} times in vain: {granted}"
            raise InsufficientScope(sentence, required=required, granted=tokens.scopes)
        self._taken[key] = taken + 1
        if len(self._taken) > _OPERATIONS:
            del self._taken[next(iter(self._taken))]

    def succeeded(self, server_url: str, operation: str) -> None:
        """The operation went through: what was counted for it is forgotten."""
        self._taken.pop((server_url, operation), None)
