"""The bounds on what a peer may make this side do: one object, the same names in client and server.

Hitting a bound raises or reports `mcp_core.errors.LimitExceeded`, which names the setting as `Limits.message_bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CLIENT_LIMITS", "SERVER_LIMITS", "Limits"]

_KIB: Final = 1024
_MIB: Final = 1024 * 1024

_EVENT_SLACK: Final = 64 * _KIB
"""What an event may hold besides its message: field names, its name and its id."""

_DEEPEST: Final = 250
"""orjson reads 1,024 levels but writes only 254; what was received must be writable again, in an envelope and a batch."""

_SHORTEST_ID: Final = 20
"""The digits of the largest integer of 64 bits: every peer that counts its requests must be understood."""


def _bounded(least: int, most: int | None = None) -> Callable[[Limits, attrs.Attribute[int], int], None]:
    def check(_: Limits, attribute: attrs.Attribute[int], value: int) -> None:
        if type(value) is not int:
            raise TypeError(f"Limits.{attribute.name} must be an int, not {type(value).__name__}")
        if value < least or (most is not None and value > most):
            span = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"Limits.{attribute.name} must be {span}, not {value}")

    return check


@attrs.frozen(kw_only=True)
class Limits:
    """The bounds of one connection, or of one endpoint.

    Raises:
        TypeError: A bound is no integer.
        ValueError: A bound is out of its range.
    """

    message_bytes: int = attrs.field(default=4 * _MIB, validator=_bounded(1))
    """Bytes of one message: a line without its end, a body, the data of an event. A server reads what anybody sends,
    hence 4 MiB; a client chose its server and gets long lists and files, hence 16 MiB in `CLIENT_LIMITS`."""
    nesting_depth: int = attrs.field(default=128, validator=_bounded(1, _DEEPEST))
    """Levels of arrays and objects in one message; 250 at most. Real messages have less than 40, and whoever walks
    a value by recursion needs some stack for each level."""
    array_items: int = attrs.field(default=100_000, validator=_bounded(1))
    """Items of one JSON array. An item of two bytes becomes an object of 60."""
    object_members: int = attrs.field(default=100_000, validator=_bounded(1))
    """Members of one JSON object, for the same reason."""
    batch_members: int = attrs.field(default=1_000, validator=_bounded(1))
    """Messages in one batch. Each may start a task."""
    id_chars: int = attrs.field(default=256, validator=_bounded(_SHORTEST_ID))
    """Characters of a request id, or its digits; at least 20. Ids are kept while the request runs, and logged."""
    event_bytes: int = attrs.field(validator=_bounded(1))
    """Bytes of one server-sent event, without comments and line ends. Default: `message_bytes` and 64 KiB."""
    running_requests: int = attrs.field(default=128, validator=_bounded(1))
    """Requests of one peer that run at the same time. Each has a task. Over HTTP a peer is a session, or on 2026-07-28 a
    principal; where nobody is told apart, each request is a peer of its own, and `connections` is the bound."""
    waiting_requests: int = attrs.field(default=1_024, validator=_bounded(0))
    """Requests of one peer that wait, read, for others to finish. With more a pipe is no longer read from; over HTTP the
    request is refused. Cancellations, answers and pings never wait."""
    waiting_bytes: int = attrs.field(default=16 * _MIB, validator=_bounded(0))
    """Bytes of the messages that wait so."""
    outgoing_bytes: int = attrs.field(default=4 * _MIB, validator=_bounded(1))
    """Bytes that may wait to be written to a slow peer. With more, whoever wants to send waits too."""
    watched_resources: int = attrs.field(default=1_000, validator=_bounded(0))
    """Resources that one peer may watch at the same time. Each change looks them up. In a client: the
    changes below the resources of one subscription that wait to be read."""
    uri_chars: int = attrs.field(default=8_192, validator=_bounded(1))
    """Characters of the URI of a subscription, and in a client of one that changed. Browsers and servers take URLs of 8,000
    (RFC 9110 section 4.1)."""
    handshake_bytes: int = attrs.field(default=16 * _KIB, validator=_bounded(1_024))
    """Bytes of JSON that a server keeps of `initialize`, for as long as the session lasts: the revision, the client's
    capabilities, and its name, title and version. Real ones have less than 1 KiB."""
    progress_per_second: int = attrs.field(default=20, validator=_bounded(1))
    """Progress notifications of one request. What comes faster is held back, the latest value wins, and the last one is
    sent before the answer. A bar that is drawn 20 times a second moves smoothly."""
    log_messages_per_second: int = attrs.field(default=100, validator=_bounded(1))
    """Log messages of one connection. What comes faster is dropped, and the client is told how many there were."""
    page_items: int = attrs.field(default=1_000, validator=_bounded(1))
    """Items of one page of a list that a server gives. Most lists are shorter, and have one page: there are clients
    that ask for no second one."""
    pages: int = attrs.field(default=1_000, validator=_bounded(1))
    """Pages of one list that a client fetches. A list with more is taken for one without an end."""
    input_rounds: int = attrs.field(default=16, validator=_bounded(1))
    """How often a server may ask a client for more before the request is given up (2026-07-28)."""
    listed_files: int = attrs.field(default=10_000, validator=_bounded(1))
    """Entries of a directory, and of those in it, that a server looks at to list its files. Those behind are not
    listed, but can be read."""
    file_bytes: int = attrs.field(default=8 * _MIB, validator=_bounded(1))
    """Bytes of a file that a server gives as a resource. In base64 it is a third larger, and a client reads messages of
    16 MiB."""
    tasks: int = attrs.field(default=1_000, validator=_bounded(1))
    """Tasks of one principal that are kept, until their time to live has passed. With more, no other one is begun. Of
    those that nobody is told apart from the others, so many together."""
    running_tasks: int = attrs.field(default=64, validator=_bounded(1))
    """Tasks of one principal that run at the same time."""
    task_bytes: int = attrs.field(default=16 * _MIB, validator=_bounded(1))
    """Bytes of the tasks of one principal that are kept: their arguments, answers and results, in JSON."""
    junk_lines: int = attrs.field(default=100, validator=_bounded(0))
    """Lines in a row that are no message, after which the peer is taken for something else; 0: the first one ends
    it. A banner or a traceback on stdout is survived."""

    header_bytes: int = attrs.field(default=32 * _KIB, validator=_bounded(1_024))
    """Bytes of the start line and all headers of one HTTP message. Tokens of 8 KiB and long cookies fit."""
    connections: int = attrs.field(default=4_096, validator=_bounded(1))
    """HTTP connections at a time. A server that has as many accepts no more until one ends; a client keeps no more.
    As many requests again may go on whose clients have left."""
    sessions: int = attrs.field(default=10_000, validator=_bounded(1))
    """Sessions of legacy HTTP clients at a time. When there are as many, those that idle longest make room."""
    replay_events: int = attrs.field(default=1_000, validator=_bounded(1))
    """Events of one session that are kept to be sent again. With more the oldest go, but never an answer that was not
    delivered yet."""
    replay_bytes: int = attrs.field(default=4 * _MIB, validator=_bounded(1))
    """Bytes of the events that are kept so. A single larger event is kept alone."""

    stored_bytes: int = attrs.field(default=64 * _MIB, validator=_bounded(1))
    """Bytes of such events of all sessions together, where they are kept in memory: a part of `total_bytes`. With more,
    the events of the sessions that hold most are dropped, and if that is not enough, these sessions."""
    total_bytes: int = attrs.field(default=256 * _MIB, validator=_bounded(1))
    """Bytes of memory that all HTTP clients of a server occupy together, as estimated: request bodies and what they are
    parsed to, requests that wait or run, sessions, subscriptions, events for replay, output that clients do not read.
    With more, the newest request of the client that occupies most is refused (`mcp_core.limits.memory_budget`)."""

    @event_bytes.default
    def _event_bytes_default(self) -> int:
        return self.message_bytes + _EVENT_SLACK


SERVER_LIMITS: Final = Limits()
"""What a server allows its clients unless told otherwise."""

CLIENT_LIMITS: Final = Limits(message_bytes=16 * _MIB)
"""What a client allows its server unless told otherwise."""
