"""What an HTTP client sends besides the body, and what it may not send at all.

Names are in lower case, as HTTP compares them. What is a matter of the connection is not among them: `Host`,
`Content-Length`, and `Accept-Encoding: identity`, without which servers may compress, which they do to streams as well,
and hold events back.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_core.errors import LocalProtocolError
from mcp_core.http.media_types import EVENT_STREAM, JSON
from mcp_core.http.routing_headers import LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, mirrored
from mcp_core.jsonrpc.messages import Batch, ErrorResponse, Notification, Request, ResultResponse
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
"""What every POST of a message has."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
"""What a session id may be. Spec: basic/transports#session-management (legacy)"""

_SENDABLE: Final = re.compile(r"[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
"""What a header carries unchanged, in ISO 8859-1."""


def check_allowed(message: Message | Batch | None, revision: Revision | None) -> None:
    """Whether a message may be posted, or, for `None`, a stream be fetched.

    Args:
        message: The message.
        revision: What was agreed on; `None` before that.

    Raises:
        LocalProtocolError: The revision knows no such thing.
    """
    if isinstance(message, Batch):
        forbidden = "a batch may not be posted" if revision is None or not revision.batching else None
    elif isinstance(message, ResultResponse | ErrorResponse):
        answers = revision is None or revision.responses_from_client
        forbidden = None if answers else "an answer may not be posted"
    else:
        modern = message is None and revision is not None and revision.era is Era.MODERN
        forbidden = "no stream is fetched by GET" if modern else None
    if forbidden is not None:
        where = "before the revision is agreed" if revision is None else f"in revision {revision}"
        raise LocalProtocolError(f"{forbidden} {where}", anchor="basic/transports")


def post_headers(
    message: Message | Batch,
    revision: Revision | None,
    session_id: str | None,
    designated: Sequence[ParamHeader],
    names: Mapping[str, str],
) -> list[tuple[str, str]]:
    """The headers of a POST.

    Args:
        message: What is posted.
        revision: What was agreed on; `None` before that.
        session_id: The session.
        designated: The parameters of the called tool that stand in headers too.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Raises:
        LocalProtocolError: Something in the message cannot be said in a header.
    """
    if revision is not None and revision.routing_headers and isinstance(message, Request | Notification):
        return [*ON_POST, *mirrored(message, revision, designated, names=names)]
    return [*ON_POST, *session_headers(revision, session_id)]


def get_headers(
    last_event_id: str, revision: Revision | None, session_id: str | None, limits: Limits
) -> list[tuple[str, str]]:
    """The headers of a GET.

    Args:
        last_event_id: The event after which the stream shall go on; empty for a stream of its own.
        revision: What was agreed on.
        session_id: The session.
        limits: The bounds that hold here.

    Raises:
        LocalProtocolError: No header can carry the event id.
    """
    headers = [*_ON_GET, *session_headers(revision, session_id)]
    if last_event_id:
        value = _as_value(last_event_id)
        if not resumable_after(last_event_id, limits):
            raise LocalProtocolError(f"the event id {value[:80]!a} is nothing that a header can carry")
        headers.append((LAST_EVENT_ID, value))
    return headers


def session_headers(revision: Revision | None, session_id: str | None) -> list[tuple[str, str]]:
    """What says to which session a request belongs: all that the `DELETE` at its end needs.

    Args:
        revision: What was agreed on; `None` before that.
        session_id: The session. A modern server has none, and is sent none.
    """
    headers: list[tuple[str, str]] = []
    if session_id is not None and (revision is None or revision.era is Era.LEGACY):
        headers.append((MCP_SESSION_ID, session_id))
    if revision is not None and revision.version_header:
        headers.append((MCP_PROTOCOL_VERSION, revision.name))
    return headers


def is_session_id(text: str) -> bool:
    """Whether a session id of a server is one that may be sent back."""
    return _VISIBLE.fullmatch(text) is not None


def resumable_after(event_id: str, limits: Limits) -> bool:
    """Whether a stream can be resumed after the event `event_id`: a header has to carry it."""
    value = _as_value(event_id)
    return len(value) <= limits.header_bytes and _SENDABLE.fullmatch(value) is not None


def _as_value(event_id: str) -> str:
    """The bytes of an id, each as one character: as headers have them."""
    return event_id.encode("utf-8", "replace").decode("latin-1")
