"""The five revisions of the specification, as rows of named traits.

Whoever needs to know how a revision behaves asks one of its traits: `if revision.batching:`. Names and order of
revisions are compared in this module and nowhere else; what exists from one revision to another is asked with
`between`, which gives a set.

A new revision is a new row here, and new lifetimes in `mcp_core.types` and `mcp_core.methods`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "LATEST",
    "LATEST_LEGACY",
    "LEGACY",
    "MODERN",
    "R2024_11_05",
    "R2025_03_26",
    "R2025_06_18",
    "R2025_11_25",
    "R2026_07_28",
    "REVISIONS",
    "Era",
    "Revision",
    "between",
    "known",
    "preferred",
]


class Era(enum.Enum):
    """The two families of revisions. Spec: basic/versioning (2026-07-28)."""

    LEGACY = "legacy"
    """An `initialize` handshake opens a session, which remembers what was agreed."""
    MODERN = "modern"
    """No handshake, no session: each request says what it needs to have known."""


@attrs.frozen(kw_only=True, eq=False)
class Revision:
    """One revision: its name, and what is particular about it. Two revisions are equal when they are the same."""

    name: str
    """As it stands on the wire: `2025-06-18`."""
    era: Era
    """Legacy or modern."""
    batching: bool
    """Several messages may come in one JSON array."""
    server_requests: bool
    """The server sends requests of its own. If not, it asks in the result of the client's request."""
    responses_from_client: bool
    """The client answers requests, so a response may come from it."""
    result_type: bool
    """Each result says of what kind it is, in `resultType`."""
    server_info_in_results: bool
    """Each result names the server in its `_meta`."""
    session_log_level: bool
    """`logging/setLevel` sets the log level for the session. If not, each request carries its own."""
    subscribe_pair: bool
    """`resources/subscribe` and `resources/unsubscribe`. If not, `subscriptions/listen`."""
    core_tasks: bool
    """Tasks are a part of the protocol itself, though an experimental one."""
    cancel_names_request: bool
    """A cancellation has to name the request."""
    error_without_id: bool
    """An error answer to a message whose id could not be read has no `id` member. If not, `id` is null."""
    resource_not_found: int
    """The error code for a resource that does not exist."""
    missing_url_elicitation: int | None
    """The error code for a URL that the user has to visit first; `None` where there is no such code."""
    missing_client_capability: int
    """The error code for a request that needs a capability which the client did not declare."""
    bad_arguments_in_result: bool
    """Arguments that a tool does not take are told in a result with `isError`. If not, by error -32602."""
    unique_ids_for_ever: bool
    """A request id is never used again in a session. If not, only not while the request is in flight."""
    object_structured_content: bool
    """Structured content, and the schema of a tool's output, describe an object."""
    sessions: bool
    """HTTP: `Mcp-Session-Id`, and `DELETE` to end the session."""
    resumable: bool
    """HTTP: lost events of a stream can be had again with `Last-Event-ID`."""
    priming_event: bool
    """HTTP: a stream begins with an event that has an id and no data, and its server may close it before the answer."""
    version_header: bool
    """HTTP: `MCP-Protocol-Version` on each request after the first answer."""
    routing_headers: bool
    """HTTP: `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` repeat parts of the body."""
    disconnect_cancels: bool
    """HTTP: closing the answer's stream cancels the request."""
    http_sse: bool
    """HTTP: the transport is the pair of endpoints of 2024-11-05."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Revision {self.name}>"


R2024_11_05: Final = Revision(
    name="2024-11-05",
    era=Era.LEGACY,
    batching=False,
    server_requests=True,
    responses_from_client=True,
    result_type=False,
    server_info_in_results=False,
    session_log_level=True,
    subscribe_pair=True,
    core_tasks=False,
    cancel_names_request=True,
    error_without_id=False,
    resource_not_found=ErrorCode.RESOURCE_NOT_FOUND,
    missing_url_elicitation=None,
    missing_client_capability=ErrorCode.INVALID_REQUEST,
    bad_arguments_in_result=False,
    unique_ids_for_ever=True,
    object_structured_content=True,
    sessions=False,
    resumable=False,
    priming_event=False,
    version_header=False,
    routing_headers=False,
    disconnect_cancels=False,
    http_sse=True,
)
"""The first revision."""

R2025_03_26: Final = attrs.evolve(
    R2024_11_05, name="2025-03-26", batching=True, sessions=True, resumable=True, http_sse=False
)
"""Streamable HTTP, and the only one with batches."""

R2025_06_18: Final = attrs.evolve(R2025_03_26, name="2025-06-18", batching=False, version_header=True)
"""Elicitation and structured content."""

R2025_11_25: Final = attrs.evolve(
    R2025_06_18,
    name="2025-11-25",
    core_tasks=True,
    cancel_names_request=False,
    error_without_id=True,
    priming_event=True,
    missing_url_elicitation=ErrorCode.URL_ELICITATION_REQUIRED,
    bad_arguments_in_result=True,
)
"""Tasks, sampling with tools, elicitation by URL."""

R2026_07_28: Final = attrs.evolve(
    R2025_11_25,
    name="2026-07-28",
    era=Era.MODERN,
    server_requests=False,
    responses_from_client=False,
    result_type=True,
    server_info_in_results=True,
    session_log_level=False,
    subscribe_pair=False,
    core_tasks=False,
    cancel_names_request=True,
    resource_not_found=ErrorCode.INVALID_PARAMS,
    missing_url_elicitation=None,
    missing_client_capability=ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
    unique_ids_for_ever=False,
    object_structured_content=False,
    sessions=False,
    resumable=False,
    priming_event=False,
    routing_headers=True,
    disconnect_cancels=True,
)
"""Stateless."""

_ORDERED: Final = (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)

REVISIONS: Final[Mapping[str, Revision]] = {revision.name: revision for revision in _ORDERED}
"""All revisions by name, the oldest first."""

LEGACY: Final = tuple(revision for revision in _ORDERED if revision.era is Era.LEGACY)
"""The revisions with a handshake, the oldest first."""

MODERN: Final = tuple(revision for revision in _ORDERED if revision.era is Era.MODERN)
"""The revisions without one, the oldest first."""

LATEST_LEGACY: Final = LEGACY[-1]
"""The newest revision with a handshake: what a client proposes in `initialize`."""

LATEST: Final = _ORDERED[-1]
"""The newest revision."""


def between(since: Revision | None = None, until: Revision | None = None) -> frozenset[Revision]:
    """The revisions from `since` to `until`, both included; the first and the last where `None` is given.

    Args:
        since: The first revision of the set.
        until: The last revision of the set.

    Returns:
        The set. Ask it with `revision in between(...)`.
    """
    first = 0 if since is None else _ORDERED.index(since)
    last = len(_ORDERED) - 1 if until is None else _ORDERED.index(until)
    return frozenset(_ORDERED[first : last + 1])


def known(names: Iterable[str]) -> tuple[Revision, ...]:
    """The revisions among `names` that exist here, the oldest first. Unknown names are passed over."""
    wanted = set(names)
    return tuple(revision for revision in _ORDERED if revision.name in wanted)


def preferred(revisions: Iterable[Revision]) -> Revision | None:
    """The newest of `revisions`, or `None` when there is none."""
    wanted = set(revisions)
    return next((revision for revision in reversed(_ORDERED) if revision in wanted), None)
