"""Limits on the resources that a peer can use: one class, with the same names in client and server.

An exceeded limit raises or reports `mcp_core.errors.LimitExceeded`, which names the setting, for example
`Limits.message_bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CLIENT_LIMITS", "SERVER_LIMITS", "Limits"]

_KIB: Final = 1024
_MIB: Final = 1024 * 1024

_EVENT_SLACK: Final = 64 * _KIB
"""Bytes of an event in addition to its message: the field names, the name and the id of the event."""

_DEEPEST: Final = 250
"""orjson reads 1,024 levels but writes 254. A received value must be writable again, in an envelope and a batch."""

_SHORTEST_ID: Final = 20
"""The number of digits of the largest 64-bit integer: peers that count their requests in 64 bits must be supported."""


def _bounded(least: int, most: int | None = None) -> Callable[[Limits, attrs.Attribute[int], int], None]:
    def check(_: Limits, attribute: attrs.Attribute[int], value: int) -> None:
        if type(value) is not int:
            raise TypeError(f"Limits.{attribute.name} must be an int, not {type(value).__name__}")
        if value < least or (most is not None and value > most):
            span = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"Limits.{attribute.name} must be {span}, not {value}")

    return check


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Limits(FieldValue):
    """The limits of one connection, or of one endpoint.

    Raises:
        TypeError: A limit is not an integer.
        ValueError: A limit is out of its range.
    """

    message_bytes: int = attrs.field(default=4 * _MIB, validator=_bounded(1))
    """Bytes of one message: a line without its line end, a body, or the data of an event. A server reads messages of
    unknown clients, hence 4 MiB. A client chose its server and receives long lists and files, hence 16 MiB in
    `CLIENT_LIMITS`."""
    nesting_depth: int = attrs.field(default=128, validator=_bounded(1, _DEEPEST))
    """Levels of arrays and objects in one message; at most 250. Real messages have fewer than 40. Recursive functions
    need stack space for each level."""
    array_items: int = attrs.field(default=100_000, validator=_bounded(1))
    """Items of one JSON array. An item of two bytes in the text can become an object of 60 bytes."""
    object_members: int = attrs.field(default=100_000, validator=_bounded(1))
    """Members of one JSON object. The reason is the same as for `array_items`."""
    batch_members: int = attrs.field(default=1_000, validator=_bounded(1))
    """Messages in one batch. Each message may start a task of the event loop."""
    id_chars: int = attrs.field(default=256, validator=_bounded(_SHORTEST_ID))
    """Characters of a request id, or its digits; at least 20. Ids are stored while their request runs, and logged."""
    event_bytes: int = attrs.field(validator=_bounded(1))
    """Bytes of one server-sent event, without comments and line ends. Default: `message_bytes` plus 64 KiB."""
    running_requests: int = attrs.field(default=128, validator=_bounded(1))
    """Requests of one peer that run at the same time, each in its own task. Over HTTP a peer is a session, or on
    2026-07-28 a principal. Without authentication, each modern request is a peer of its own, and `connections` is the
    limit."""
    waiting_requests: int = attrs.field(default=1_024, validator=_bounded(0))
    """Queued requests of one peer: they are read, and wait for others to finish. If the queue is full, reading
    from a pipe pauses; over HTTP, new requests are rejected. Cancellations, responses and pings are never queued."""
    waiting_bytes: int = attrs.field(default=16 * _MIB, validator=_bounded(0))
    """Bytes of the queued messages of one peer."""
    outgoing_bytes: int = attrs.field(default=4 * _MIB, validator=_bounded(1))
    """Bytes of output that may wait to be written to a slow peer. Above this limit, senders wait too."""
    watched_resources: int = attrs.field(default=1_000, validator=_bounded(0))
    """Resources that one peer may subscribe to at the same time. Each change looks them up. In a client: the unread
    changes below the resources of one subscription."""
    uri_chars: int = attrs.field(default=8_192, validator=_bounded(1))
    """Characters of the URI of a subscription, and in a client also of the URI in a change notification. Browsers and
    servers support URLs of 8,000 characters (RFC 9110 section 4.1)."""
    handshake_bytes: int = attrs.field(default=16 * _KIB, validator=_bounded(1_024))
    """Bytes of JSON that a server stores from `initialize` for the lifetime of the session: the revision, the client's
    capabilities, and its name, title and version. Real ones have less than 1 KiB."""
    progress_per_second: int = attrs.field(default=20, validator=_bounded(1))
    """Progress notifications of one request per second. Faster updates are delayed: the latest value replaces earlier
    ones, and the last value is sent before the response. A progress bar that is updated 20 times a second moves
    smoothly."""
    log_messages_per_second: int = attrs.field(default=100, validator=_bounded(1))
    """Log messages of one connection per second. The excess is dropped. The next message reports its number."""
    page_items: int = attrs.field(default=1_000, validator=_bounded(1))
    """Items of one page of a list that a server returns. Most lists are shorter and fit into one page: some clients do
    not request a second page."""
    pages: int = attrs.field(default=1_000, validator=_bounded(1))
    """Pages of one list that a client fetches. A list with more pages is treated as endless."""
    input_round_trips: int = attrs.field(default=16, validator=_bounded(1))
    """Round trips of one multi round-trip request: if the server requires more, the client fails it (2026-07-28)."""
    listed_files: int = attrs.field(default=10_000, validator=_bounded(1))
    """Entries of a directory tree that a server examines to list its files. Later entries are not listed, but can be
    read."""
    file_bytes: int = attrs.field(default=8 * _MIB, validator=_bounded(1))
    """Bytes of a file that a server returns as a resource. In base64 a file grows by a third, and a client reads
    messages of 16 MiB."""
    tasks: int = attrs.field(default=1_000, validator=_bounded(1))
    """Tasks of one principal that are stored, until their time to live has passed. At the limit, new tasks are
    rejected. All unauthenticated clients together count as one principal."""
    running_tasks: int = attrs.field(default=64, validator=_bounded(1))
    """Tasks of one principal that run at the same time."""
    task_bytes: int = attrs.field(default=16 * _MIB, validator=_bounded(1))
    """Bytes of the stored tasks of one principal: their arguments, input responses and results, in JSON."""
    junk_lines: int = attrs.field(default=100, validator=_bounded(0))
    """Consecutive invalid lines after which the peer is treated as another kind of program; with 0, the first invalid
    line ends the connection. A banner or a traceback on stdout is tolerated."""

    header_bytes: int = attrs.field(default=32 * _KIB, validator=_bounded(1_024))
    """Bytes of the start line and all headers of one HTTP message. Enough for tokens of 8 KiB and long cookies."""
    connections: int = attrs.field(default=4_096, validator=_bounded(1))
    """HTTP connections at a time. At the limit, a server accepts no more until one closes, and a client opens no more.
    The same number of requests whose clients have disconnected may continue to run."""
    sessions: int = attrs.field(default=10_000, validator=_bounded(1))
    """Sessions of legacy HTTP clients at a time. At the limit, the sessions that have been idle longest are evicted."""
    replay_events: int = attrs.field(default=1_000, validator=_bounded(1))
    """Events of one session that are stored for replay. Above the limit, the oldest are dropped, except responses that
    were not delivered yet."""
    replay_bytes: int = attrs.field(default=4 * _MIB, validator=_bounded(1))
    """Bytes of the events of one session that are stored for replay. A single larger event is stored alone."""

    stored_bytes: int = attrs.field(default=64 * _MIB, validator=_bounded(1))
    """Bytes of the replay events of all sessions together, if they are stored in memory; a part of `total_bytes`. Above
    the limit, the events of the largest sessions are dropped, and if that is not enough, these sessions."""
    total_bytes: int = attrs.field(default=256 * _MIB, validator=_bounded(1))
    """Estimated bytes of memory for all HTTP clients of a server together: request bodies and their parsed values,
    queued and running requests, sessions, subscriptions, replay events, and output that clients have not read. Above
    the limit, the newest request of the client with the most memory is rejected (`mcp_core.limits.memory_budget`)."""

    @event_bytes.default
    def _event_bytes_default(self) -> int:
        return self.message_bytes + _EVENT_SLACK


SERVER_LIMITS: Final = Limits()
"""The default limits of a server."""

CLIENT_LIMITS: Final = Limits(message_bytes=16 * _MIB)
"""The default limits of a client."""
