"""The five revisions of the specification, as instances with named traits.

Code that depends on a revision reads one of its traits: `if revision.batching:`. Only this module compares names and
the order of revisions. For features that exist from one revision to another, `between` returns the set of revisions.

A new revision is a new instance here, and new lifetimes in `mcp_core.types` and `mcp_core.methods`.
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
    """The two groups of revisions. Spec: basic/versioning (2026-07-28)."""

    LEGACY = "legacy"
    """An `initialize` handshake opens a session, which stores the negotiated facts."""
    MODERN = "modern"
    """No handshake and no session: each request carries the facts that it needs."""


@attrs.frozen(kw_only=True, eq=False)
class Revision:
    """A revision of the specification: its name and its traits. Revisions are compared by identity."""

    name: str
    """The name on the wire, for example `2025-06-18`."""
    era: Era
    """The era: legacy or modern."""
    batching: bool
    """Whether several messages may be sent in one JSON array."""
    server_requests: bool
    """Whether the server sends requests. If not, it sends input requests in the result of the client's request."""
    responses_from_client: bool
    """Whether the client sends responses to requests of the server."""
    result_type: bool
    """Whether each result has a `resultType`."""
    server_info_in_results: bool
    """Whether each result names the server in its `_meta`."""
    session_log_level: bool
    """Whether `logging/setLevel` sets the log level of the session. If not, each request carries its log level."""
    subscribe_pair: bool
    """Whether subscriptions use `resources/subscribe` and `resources/unsubscribe`. If not, `subscriptions/listen`."""
    core_tasks: bool
    """Whether tasks are part of the protocol itself (experimental)."""
    cancel_names_request: bool
    """Whether a cancel notification must name the request."""
    error_without_id: bool
    """Whether an error response to a message with an unreadable id has no `id` member. If not, `id` is null."""
    resource_not_found: int
    """The error code for a resource that does not exist."""
    missing_url_elicitation: int | None
    """The error code for a URL that the user must visit first; `None` if the revision has no such code."""
    missing_client_capability: int
    """The error code for a request that requires a capability that the client did not declare."""
    bad_arguments_in_result: bool
    """Whether invalid arguments of a tool are reported in a result with `isError`. If not, with error -32602."""
    unique_ids_for_ever: bool
    """Whether a request id must not be reused in a session. If not, only while the request is pending."""
    object_structured_content: bool
    """Whether structured content must be an object, and the output schema of a tool must describe an object."""
    sessions: bool
    """HTTP: whether there are `Mcp-Session-Id`, and `DELETE` to end the session."""
    resumable: bool
    """HTTP: whether lost events of a stream can be fetched again with `Last-Event-ID`."""
    priming_event: bool
    """HTTP: whether a stream starts with an event that has an id and no data. The server may then close the stream
    before the response."""
    version_header: bool
    """HTTP: whether each request after the first response has the header `MCP-Protocol-Version`."""
    routing_headers: bool
    """HTTP: whether the headers `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` repeat parts of the body."""
    disconnect_cancels: bool
    """HTTP: whether closing the stream of the response cancels the request."""
    http_sse: bool
    """HTTP: whether the transport is the pair of endpoints of 2024-11-05."""

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
"""The revision with Streamable HTTP, and the only one with batches."""

R2025_06_18: Final = attrs.evolve(R2025_03_26, name="2025-06-18", batching=False, version_header=True)
"""The revision that adds elicitation and structured content."""

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
"""The revision that adds tasks, sampling with tools, and elicitation by URL."""

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
"""The stateless revision."""

_ORDERED: Final = (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)

REVISIONS: Final[Mapping[str, Revision]] = {revision.name: revision for revision in _ORDERED}
"""All revisions by name, the oldest first."""

LEGACY: Final = tuple(revision for revision in _ORDERED if revision.era is Era.LEGACY)
"""The revisions with a handshake, the oldest first."""

MODERN: Final = tuple(revision for revision in _ORDERED if revision.era is Era.MODERN)
"""The revisions without a handshake, the oldest first."""

LATEST_LEGACY: Final = LEGACY[-1]
"""The newest revision with a handshake: the one that a client proposes in `initialize`."""

LATEST: Final = _ORDERED[-1]
"""The newest revision."""


def between(since: Revision | None = None, until: Revision | None = None) -> frozenset[Revision]:
    """Return the revisions from `since` to `until`, both included.

    Args:
        since: The first revision of the set; `None` for the oldest one.
        until: The last revision of the set; `None` for the newest one.

    Returns:
        The set. Use it as `revision in between(...)`.
    """
    first = 0 if since is None else _ORDERED.index(since)
    last = len(_ORDERED) - 1 if until is None else _ORDERED.index(until)
    return frozenset(_ORDERED[first : last + 1])


def known(names: Iterable[str]) -> tuple[Revision, ...]:
    """Return the known revisions among `names`, the oldest first. Unknown names are ignored."""
    wanted = set(names)
    return tuple(revision for revision in _ORDERED if revision.name in wanted)


def preferred(revisions: Iterable[Revision]) -> Revision | None:
    """Return the newest of `revisions`, or `None` if there are no revisions."""
    wanted = set(revisions)
    return next((revision for revision in reversed(_ORDERED) if revision in wanted), None)
