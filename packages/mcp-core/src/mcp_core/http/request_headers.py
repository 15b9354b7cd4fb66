"""Headers of a client's HTTP requests, and the check which messages the client may send.

Names are in lower case, because HTTP ignores case. Headers of the connection are not included: `Host`,
`Content-Length`, and `Accept-Encoding: identity`. Without the latter servers may compress, also streams, and then
buffer events.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_core.codec import Batch
from mcp_core.errors import LocalProtocolError
from mcp_core.http.media_types import EVENT_STREAM, JSON
from mcp_core.http.routing_headers import LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, mirrored
from mcp_core.jsonrpc.messages import ErrorResponse, Notification, Request, ResultResponse
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision

__all__ = [
    "ON_POST",
    "check_allowed",
    "get_headers",
    "is_session_id",
    "post_headers",
    "resumable_after",
    "session_headers",
]

_ON_GET: Final = (("accept", EVENT_STREAM),)
ON_POST: Final = (("accept", f"{JSON}, {EVENT_STREAM}"), ("content-type", JSON))
"""The headers of every POST of a message."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
"""The allowed characters of a session id. Spec: basic/transports#session-management (legacy)"""

_SENDABLE: Final = re.compile(r"[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
"""Text in ISO 8859-1 that a header transmits unchanged."""


def check_allowed(message: Message | Batch | None, revision: Revision | None) -> None:
    """Check that the revision allows to post a message, or, for `None`, to fetch a stream.

    Args:
        message: The message.
        revision: The negotiated revision; `None` before negotiation.

    Raises:
        LocalProtocolError: The revision does not allow it.
    """
    if isinstance(message, Batch):
        forbidden = "a batch must not be posted" if revision is None or not revision.batching else None
    elif isinstance(message, ResultResponse | ErrorResponse):
        answers = revision is None or revision.responses_from_client
        forbidden = None if answers else "a response must not be posted"
    else:
        modern = message is None and revision is not None and revision.era is Era.MODERN
        forbidden = "a stream must not be fetched with GET" if modern else None
    if forbidden is not None:
        where = "before the revision is negotiated" if revision is None else f"in revision {revision}"
        raise LocalProtocolError(f"{forbidden} {where}", anchor="basic/transports")


def post_headers(
    message: Message | Batch,
    revision: Revision | None,
    session_id: str | None,
    header_params: Sequence[ParamHeader],
    names: Mapping[str, str],
) -> list[tuple[str, str]]:
    """Return the headers of a POST.

    Args:
        message: The posted message.
        revision: The negotiated revision; `None` before negotiation.
        session_id: The session id; `None` without a session.
        header_params: The header parameters of the called tool.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Raises:
        LocalProtocolError: A header cannot carry a part of the message.
    """
    if revision is not None and revision.routing_headers and isinstance(message, Request | Notification):
        return [*ON_POST, *mirrored(message, revision, header_params, names=names)]
    return [*ON_POST, *session_headers(revision, session_id)]


def get_headers(
    last_event_id: str, revision: Revision | None, session_id: str | None, limits: Limits
) -> list[tuple[str, str]]:
    """Return the headers of a GET.

    Args:
        last_event_id: The event after which the stream continues; empty for a new stream.
        revision: The negotiated revision.
        session_id: The session id; `None` without a session.
        limits: The limits. `header_bytes` applies to the event id.

    Raises:
        LocalProtocolError: A header cannot carry the event id.
    """
    headers = [*_ON_GET, *session_headers(revision, session_id)]
    if last_event_id:
        value = _as_value(last_event_id)
        if not resumable_after(last_event_id, limits):
            raise LocalProtocolError(f"a header cannot carry the event id {value[:80]!a}")
        headers.append((LAST_EVENT_ID, value))
    return headers


def session_headers(revision: Revision | None, session_id: str | None) -> list[tuple[str, str]]:
    """Return the headers that name the session of a request. The `DELETE` that ends a session needs no other headers.

    Args:
        revision: The negotiated revision; `None` before negotiation.
        session_id: The session id. It is not sent to a modern server, which has no sessions.
    """
    headers: list[tuple[str, str]] = []
    if session_id is not None and (revision is None or revision.era is Era.LEGACY):
        headers.append((MCP_SESSION_ID, session_id))
    if revision is not None and revision.version_header:
        headers.append((MCP_PROTOCOL_VERSION, revision.name))
    return headers


def is_session_id(text: str) -> bool:
    """Return whether the client may send this session id of a server."""
    return _VISIBLE.fullmatch(text) is not None


def resumable_after(event_id: str, limits: Limits) -> bool:
    """Return whether a stream can be resumed after the event `event_id`, which a header has to carry."""
    value = _as_value(event_id)
    return len(value) <= limits.header_bytes and _SENDABLE.fullmatch(value) is not None


def _as_value(event_id: str) -> str:
    """Return the UTF-8 bytes of an id, each as one character, for a header."""
    return event_id.encode("utf-8", "replace").decode("latin-1")
