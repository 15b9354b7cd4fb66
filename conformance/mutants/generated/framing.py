"""Operators on what carries messages: lines of stdio, heads and bodies of HTTP responses, and events of streams."""

# ruff: noqa: ARG002  # all operators and hooks have the parameters that their callers pass

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.revisions import R2025_06_18, R2026_07_28, REVISIONS, between
from mutants.generated.fault import Operator, Recording, Target
from mutants.generated.proxy import HttpHead, Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_core.revisions import Revision

__all__ = ["FRAMING_OPERATORS"]

_LINE: Final = Target(key="* line")
_DATE_ONLY: Final = frozenset({"server", "date", "content-length", "transfer-encoding", "connection"})
"""Headers of HTTP itself, which the suite leaves to its HTTP library."""
_BOM: Final = b"\xef\xbb\xbf"


# --- lines ------------------------------------------------------------------------------------------------------------


class _LineMutation(Mutation):
    def __init__(self, change: Callable[[bytes], bytes]) -> None:
        self._change: Final = change

    def line(self, line: bytes) -> bytes | None:
        """Return the changed line."""
        changed = self._change(line)
        return None if changed == line else changed


def _cut_in_two(line: bytes) -> bytes:
    at = line.find(b",")
    return line if at < 0 else line[: at + 1] + b"\n" + line[at + 1 :]


def _indented(line: bytes) -> bytes:
    return json.dumps(json.loads(line), indent=1).encode() + b"\n"


_LINES: Final[tuple[tuple[str, str, Callable[[bytes], bytes], str], ...]] = (
    ("line-in-two", "a message is written over two lines", _cut_in_two, ""),
    ("line-indented", "a message is indented, over many lines", _indented, ""),
    ("line-blank-before", "an empty line is before each message", lambda line: b"\n" + line, ""),
    ("line-blank-after", "an empty line is after each message", lambda line: line + b"\n", ""),
    ("line-escape-codes", "messages are colored", lambda line: b"\x1b[32m" + line[:-1] + b"\x1b[0m\n", ""),
    ("line-reset-before", "an escape code is before each message", lambda line: b"\x1b[0m" + line, ""),
    ("line-bom", "a byte order mark is before each message", lambda line: _BOM + line, ""),
    ("line-crlf", "lines end with CR LF", lambda line: line[:-1] + b"\r\n", ""),
    ("line-cr", "lines end with CR", lambda line: line[:-1] + b"\r", ""),
    ("line-log", "a log line is before each message", lambda line: b"INFO sends a message\n" + line, ""),
    ("line-log-json", "a log line in JSON is before each message", lambda line: b'{"level":"info"}\n' + line, ""),
    ("line-prefix", "a prompt is before each message", lambda line: b"> " + line, ""),
    (
        "line-header",
        "messages are framed with Content-Length",
        lambda line: b"Content-Length: %d\n\n" % len(line) + line,
        "",
    ),
    ("line-semicolon", "a semicolon is after each message", lambda line: line[:-1] + b";\n", ""),
    ("line-null", "a null byte is after each message", lambda line: line[:-1] + b"\0\n", ""),
    ("line-utf16", "messages are in UTF-16", lambda line: line[:-1].decode().encode("utf-16") + b"\n", ""),
    (
        "line-latin",
        "messages have a byte that is not UTF-8",
        lambda line: line.replace(b'"jsonrpc"', b'"\xe9":1,"jsonrpc"', 1),
        "",
    ),
    ("line-nan", "messages have NaN", lambda line: line.replace(b'"jsonrpc"', b'"x":NaN,"jsonrpc"', 1), ""),
    ("line-quotes", "messages have single quotes", lambda line: line.replace(b'"', b"'"), ""),
    ("line-comma", "messages have a trailing comma", lambda line: line[:-2] + b",}\n", ""),
    (
        "line-spaces",
        "spaces are before and after each message",
        lambda line: b"  " + line[:-1] + b" \t\n",
        "RFC 8259 permits spaces around a value.",
    ),
    (
        "line-spaces-inside",
        "spaces are between the members",
        lambda line: json.dumps(json.loads(line), separators=(" , ", " : ")).encode() + b"\n",
        "RFC 8259 permits spaces between tokens.",
    ),
    (
        "line-unescaped",
        "characters beyond ASCII are not escaped",
        lambda line: json.dumps(json.loads(line), ensure_ascii=False).encode() + b"\n",
        "JSON-RPC messages are UTF-8.",
    ),
)


def _line_operator(name: str, summary: str, change: Callable[[bytes], bytes], invisible: str) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=lambda recording: [_LINE] if recording.leg.transport == "stdio" else [],
        mutation=lambda _, __: _LineMutation(change),
        invisible=invisible,
    )


# --- events -----------------------------------------------------------------------------------------------------------


class _EventMutation(Mutation):
    def __init__(self, change: Callable[[bytes, int], bytes]) -> None:
        self._change: Final = change

    def event(self, event: bytes, number: int) -> bytes | None:
        """Return the changed event."""
        changed = self._change(event, number)
        return None if changed == event else changed


def _fields(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes, int], bytes]:
    return lambda event, _: b"\n".join(change(event[:-2].split(b"\n"))) + b"\n\n"


def _data(change: Callable[[bytes], bytes]) -> Callable[[bytes, int], bytes]:
    """Change the data of events that have some."""
    return _fields(lambda lines: [change(each) if each.startswith(b"data: {") else each for each in lines])


def _in_lines(line: bytes) -> bytes:
    at = line.find(b",")
    return line if at < 0 else line[: at + 1] + b"\ndata: " + line[at + 1 :]


_EVENTS: Final[tuple[tuple[str, str, Callable[[bytes, int], bytes], str], ...]] = (
    ("event-no-end", "the empty line after an event is missing", lambda event, _: event[:-1], ""),
    ("event-no-data-name", "the data has no field name", _data(lambda line: line[6:]), ""),
    ("event-data-case", "the field name of data is in another case", _data(lambda line: b"Data: " + line[6:]), ""),
    ("event-cut", "the data is cut", _data(lambda line: line[:-2]), ""),
    ("event-in-array", "the data is an array", _data(lambda line: b"data: [" + line[6:] + b"]"), ""),
    (
        "event-text",
        "the data is a JSON text of the message",
        _data(lambda line: b"data: " + json.dumps(line[6:].decode()).encode()),
        "",
    ),
    ("event-twice-in-one", "two messages are in one event", _data(lambda line: line + b"\n" + line), ""),
    (
        "event-latin",
        "the data is not UTF-8",
        _data(lambda line: line.replace(b'"jsonrpc"', b'"\xe9":1,"jsonrpc"', 1)),
        "",
    ),
    (
        "event-plain-json",
        "messages are sent without the framing of events",
        lambda event, _: b"".join(line[6:] + b"\n" for line in event.split(b"\n") if line.startswith(b"data: {")),
        "",
    ),
    (
        "event-type",
        "events have another type than `message`",
        lambda event, _: event.replace(b"event: message", b"event: response"),
        "",
    ),
    (
        "event-id-same",
        "all events have the same id",
        _fields(lambda lines: [b"id: 1" if each.startswith(b"id:") else each for each in lines]),
        "",
    ),
    (
        "event-order",
        "the fields are in another order",
        _fields(lambda lines: lines[::-1]),
        "The fields of an event are unordered.",
    ),
    (
        "event-comment",
        "a comment is before each event",
        lambda event, _: b": keep-alive\n\n" + event,
        "Comments are ignored.",
    ),
    (
        "event-comment-inside",
        "a comment is in each event",
        _fields(lambda lines: [lines[0], b": x", *lines[1:]]),
        "Comments are ignored.",
    ),
    (
        "event-no-space",
        "the space after the colon is missing",
        _fields(lambda lines: [each.replace(b": ", b":", 1) for each in lines]),
        "The space is optional.",
    ),
    (
        "event-crlf",
        "lines end with CR LF",
        lambda event, _: event.replace(b"\n", b"\r\n"),
        "CR LF, LF and CR end a line.",
    ),
    ("event-cr", "lines end with CR", lambda event, _: event.replace(b"\n", b"\r"), "CR LF, LF and CR end a line."),
    (
        "event-lines",
        "the data is in two lines",
        _data(_in_lines),
        "The lines of data are joined with a line feed, which JSON permits.",
    ),
    (
        "event-unknown-field",
        "events have an unknown field",
        lambda event, _: b"x: y\n" + event,
        "Unknown fields are ignored.",
    ),
    (
        "event-bom",
        "the stream begins with a byte order mark",
        lambda event, number: event if number else _BOM + event,
        "One leading byte order mark is ignored.",
    ),
    (
        "event-retry-text",
        "events have a retry that is no number",
        lambda event, _: b"retry: soon\n" + event,
        "Such a retry is ignored.",
    ),
)


def _event_operator(name: str, summary: str, change: Callable[[bytes, int], bytes], invisible: str) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        # Only HTTP+SSE names the type of events that carry messages.
        targets=lambda recording: (
            [Target(key="* event")]
            if recording.keys("event") and (name != "event-type" or recording.leg.transport == "http-sse")
            else []
        ),
        mutation=lambda _, __: _EventMutation(change),
        invisible=invisible,
    )


# --- heads and bodies -------------------------------------------------------------------------------------------------


class _HeadMutation(Mutation):
    """A change of the heads of one kind of response."""

    def __init__(self, target: Target, change: Callable[[HttpHead, str], HttpHead]) -> None:
        self._target: Final = target
        self._change: Final = change

    def head(self, head: HttpHead, request: HttpHead, kind: str) -> HttpHead | None:
        """Return the changed head."""
        if self._target.key not in (f"{kind} http", f"{kind} request-head"):
            return None
        changed = self._change(head, self._target.detail)
        return None if changed == head else changed


class _BodyMutation(Mutation):
    """A change of the bodies of one kind of response."""

    def __init__(self, target: Target, change: Callable[[bytes], bytes]) -> None:
        self._target: Final = target
        self._change: Final = change

    def body(self, body: bytes, kind: str) -> bytes | None:
        """Return the changed body."""
        if self._target.key != f"{kind} http":
            return None
        changed = self._change(body)
        return None if changed == body else changed


def _status(status: str) -> Callable[[HttpHead, str], HttpHead]:
    def changed(head: HttpHead, detail: str) -> HttpHead:  # noqa: ARG001  one signature
        version, _, _ = head.start.partition(" ")
        return attrs.evolve(head, start=f"{version} {status} Changed")

    return changed


def _responses(*patterns: str) -> Callable[[Recording], Iterable[Target]]:
    """Return the responses whose names match one of some patterns, such as `POST request 200 *`."""
    return lambda recording: [
        Target(key=key)
        for key in recording.keys("http")
        if any(fnmatchcase(key.removesuffix(" http"), pattern) for pattern in patterns)
    ]


_UNFIXED: Final[Mapping[str, tuple[str, ...]]] = {
    # The response to a POST is not defined, only that a message is sent by it, and that a refusal is one.
    "2024-11-05": ("POST message *",),
    # Only a server without older revisions must reject GET and DELETE, and it has no `initialize`.
    "2026-07-28": ("GET *", "DELETE *", "POST initialize *"),
}
"""By revision, the responses whose status it leaves to the server."""
_UNFIXED_EXACTLY: Final[Mapping[str, tuple[str, ...]]] = {
    "2024-11-05": ("*",),
    # The status of a foreign origin is fixed since 2025-11-25.
    "2025-03-26": ("* 403 *",),
    "2025-06-18": ("* 403 *",),
}
"""By revision, the responses of whose status it fixes the class at most."""


def _with_statuses(
    targets: Callable[[Recording], Iterable[Target]], *, exact: bool = False
) -> Callable[[Recording], Iterable[Target]]:
    """Limit targets to the responses whose status the revision defines.

    Args:
        targets: The targets.
        exact: Whether the fault is another status of the same class. Otherwise only the class counts.
    """

    def limited(recording: Recording) -> Iterable[Target]:
        revision = recording.leg.revision
        unfixed = _UNFIXED.get(revision, ()) + (_UNFIXED_EXACTLY.get(revision, ()) if exact else ())
        return [each for each in targets(recording) if not any(fnmatchcase(each.key, pattern) for pattern in unfixed)]

    return limited


def _headers(recording: Recording) -> Iterable[Target]:
    found: set[tuple[str, str]] = set()
    # The form of a refusal is left to the server: its body is optional, and its headers belong to the authorization.
    defined = _with_statuses(_responses("POST * 200 *", "GET 200 stream"))
    for key in (each.key for each in defined(recording)):
        for head in recording.messages(key):
            found |= {(key, name) for name in head if name not in _DATE_ONLY}
    return [Target(key=key, detail=name) for key, name in sorted(found)]


def _named(*names: str) -> Callable[[Recording], Iterable[Target]]:
    return lambda recording: [each for each in _headers(recording) if each.detail in names]


def _valued(change: Callable[[str], str]) -> Callable[[HttpHead, str], HttpHead]:
    def changed(head: HttpHead, name: str) -> HttpHead:
        value = head.first(name)
        return head if value is None else head.replaced(name, (name, change(value)))

    return changed


def _renamed(head: HttpHead, name: str) -> HttpHead:
    value = head.first(name)
    return head if value is None else head.replaced(name, (name.swapcase(), value))


_SERVED: Final = _with_statuses(_responses("POST request 200 *", "POST initialize 200 *"))
_ACCEPTED: Final = _with_statuses(_responses("POST message 202 *"))
_REFUSED: Final = _with_statuses(_responses("POST * 4?? *", "GET 4?? *", "DELETE 4?? *"))
"""The refusals of messages. Which status a body has that is no message is left to the server."""
_FIXED: Final = _with_statuses(_responses("POST request 40[34] *", "GET 40[345] *", "DELETE 40[345] *"), exact=True)
"""The refusals whose status the specification fixes: of a foreign origin, an unknown session, and an absent method."""
_ANY: Final = _responses("*")
_NEEDED: Final = _named("content-type", "mcp-session-id")

_HEADS: Final[
    tuple[tuple[str, str, Callable[[Recording], Iterable[Target]], Callable[[HttpHead, str], HttpHead], str], ...]
] = (
    ("status-served-302", "a response is sent with status 302", _SERVED, _status("302"), ""),
    ("status-served-400", "a response is sent with status 400", _SERVED, _status("400"), ""),
    ("status-served-404", "a response is sent with status 404", _SERVED, _status("404"), ""),
    ("status-served-500", "a response is sent with status 500", _SERVED, _status("500"), ""),
    ("status-accepted-200", "a notification is accepted with status 200", _ACCEPTED, _status("200"), ""),
    ("status-accepted-201", "a notification is accepted with status 201", _ACCEPTED, _status("201"), ""),
    ("status-accepted-204", "a notification is accepted with status 204", _ACCEPTED, _status("204"), ""),
    ("status-accepted-400", "a notification is refused with status 400", _ACCEPTED, _status("400"), ""),
    ("status-refused-200", "a refusal has the status 200", _REFUSED, _status("200"), ""),
    ("status-refused-202", "a refusal has the status 202", _REFUSED, _status("202"), ""),
    ("status-refused-500", "a refusal with a fixed status has the status 500", _FIXED, _status("500"), ""),
    ("status-refused-400", "a refusal with a fixed status has the status 400", _FIXED, _status("400"), ""),
    ("header-absent", "a header is absent", _NEEDED, lambda head, name: head.without(name), ""),
    ("header-empty", "a header is empty", _NEEDED, _valued(lambda _: ""), ""),
    (
        "content-type-text",
        "the content type is text/plain",
        _named("content-type"),
        _valued(lambda _: "text/plain"),
        "",
    ),
    ("content-type-html", "the content type is text/html", _named("content-type"), _valued(lambda _: "text/html"), ""),
    (
        "content-type-other",
        "JSON is declared as a stream, and a stream as JSON",
        _named("content-type"),
        _valued(lambda value: "application/json" if "event" in value else "text/event-stream"),
        "",
    ),
    (
        "content-type-near",
        "the content type is a near miss",
        _named("content-type"),
        _valued(
            lambda value: value.replace("application/json", "application/jsonrpc").replace(
                "event-stream", "eventstream"
            )
        ),
        "",
    ),
    (
        "session-id-space",
        "the session id has a space inside",
        _named("mcp-session-id"),
        _valued(lambda value: f"{value[:4]} {value[4:]}"),
        "",
    ),
    (
        "session-id-unicode",
        "the session id has a character beyond ASCII",
        _named("mcp-session-id"),
        _valued(lambda value: f"{value}\xe9"),
        "",
    ),
    ("session-id-short", "the session id can be guessed", _named("mcp-session-id"), _valued(lambda _: "1"), ""),
    (
        "header-case",
        "the name of a header is in another case",
        _headers,
        _renamed,
        "Names of headers are case-insensitive (RFC 9110).",
    ),
    (
        "header-spaces",
        "spaces are around the value of a header",
        _headers,
        _valued(lambda value: f"  {value}\t"),
        "Optional whitespace around a value is not part of it (RFC 9110).",
    ),
    (
        "content-type-charset",
        "the content type has a charset",
        _named("content-type"),
        _valued(lambda value: f"{value}; charset=utf-8"),
        "Parameters do not change the media type (RFC 9110).",
    ),
    (
        "content-type-case",
        "the content type is in upper case",
        _named("content-type"),
        _valued(str.upper),
        "Media types are case-insensitive (RFC 9110).",
    ),
    (
        "header-unknown",
        "an unknown header is added",
        _ANY,
        lambda head, _: attrs.evolve(head, headers=(*head.headers, ("X-Other", "1"))),
        "Unknown headers are ignored (RFC 9110).",
    ),
    (
        "reason-phrase",
        "the reason phrase is unusual",
        _ANY,
        lambda head, _: attrs.evolve(head, start=" ".join([*head.start.split(" ")[:2], "Whatever"])),
        "Clients ignore the reason phrase (RFC 9112).",
    ),
)


def _sent_headers(*names: str) -> Callable[[Recording], Iterable[Target]]:
    """Return the headers of the protocol in the requests of a client; without names, all of them."""

    def targets(recording: Recording) -> Iterable[Target]:
        found = {
            (key, name)
            for key in recording.keys("request-head")
            for head in recording.messages(key)
            for name in head
            if (name in names if names else name in _PROTOCOL or name.startswith("mcp-"))
        }
        return [Target(key=key, detail=name) for key, name in sorted(found)]

    return targets


_PROTOCOL: Final = ("accept", "content-type", "last-event-id")
_DEFINED: Final[Mapping[str, frozenset[Revision]]] = {
    # Earlier revisions do not state the content type of a request.
    "content-type": between(R2026_07_28),
    "mcp-protocol-version": between(R2025_06_18),
    "mcp-method": between(R2026_07_28),
    "mcp-name": between(R2026_07_28),
}
"""The revisions that define a header of requests. In others it means nothing."""


def _defined(*names: str) -> Callable[[Recording], Iterable[Target]]:
    """Return those of the headers in the requests of a client that its revision defines."""
    inner = _sent_headers(*names)

    def targets(recording: Recording) -> Iterable[Target]:
        revision = REVISIONS[recording.leg.revision]
        return [each for each in inner(recording) if revision in _DEFINED.get(each.detail, {revision})]

    return targets


_SENT: Final = _defined("accept", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name")
_REPEATED: Final = _defined("mcp-method", "mcp-name", "mcp-session-id", "last-event-id")


_SENT_HEADS: Final[
    tuple[tuple[str, str, Callable[[Recording], Iterable[Target]], Callable[[HttpHead, str], HttpHead], str], ...]
] = (
    ("sent-absent", "a header of a request is absent", _SENT, lambda head, name: head.without(name), ""),
    ("sent-empty", "a header of a request is empty", _SENT, _valued(lambda _: ""), ""),
    ("sent-value-case", "an opaque value is in another case", _REPEATED, _valued(str.swapcase), ""),
    ("sent-value-cut", "an opaque value is cut", _REPEATED, _valued(lambda value: value[:-1]), ""),
    (
        "sent-accept-one",
        "only one media type is accepted",
        # A stream that is opened by GET has one media type.
        lambda recording: [each for each in _sent_headers("accept")(recording) if each.key.startswith("POST ")],
        _valued(lambda value: value.partition(",")[0]),
        "",
    ),
    (
        "sent-accept-any",
        "any media type is accepted, in place of the two",
        _sent_headers("accept"),
        _valued(lambda _: "*/*"),
        "",
    ),
    (
        "sent-type-text",
        "a request is text/plain",
        _defined("content-type"),
        _valued(lambda _: "text/plain"),
        "",
    ),
    (
        "sent-version-other",
        "a request states another version",
        _defined("mcp-protocol-version"),
        _valued(lambda value: "2025-06-18" if value == "2025-11-25" else "2025-11-25"),
        "",
    ),
    (
        "sent-name-case",
        "the name of a header is in another case",
        _sent_headers(),
        _renamed,
        "Names of headers are case-insensitive (RFC 9110).",
    ),
    (
        "sent-spaces",
        "spaces are around the value of a header",
        _sent_headers(),
        _valued(lambda value: f"  {value}\t"),
        "Optional whitespace around a value is not part of it (RFC 9110).",
    ),
    (
        "sent-accept-order",
        "the accepted media types are in another order",
        _sent_headers("accept"),
        _valued(lambda value: ", ".join(reversed(value.split(", ")))),
        "The media types of Accept are unordered.",
    ),
)

_BODIES: Final[tuple[tuple[str, str, Callable[[bytes], bytes], str], ...]] = (
    ("body-cut", "the body is cut", lambda body: body[:-1], ""),
    ("body-bom", "the body begins with a byte order mark", lambda body: _BOM + body, ""),
    (
        "body-text",
        "the body is a JSON text of the message",
        lambda body: json.dumps(body.decode("utf-8", "replace")).encode(),
        "",
    ),
    ("body-event", "the body is an event", lambda body: b"data: " + body + b"\n\n", ""),
    ("body-array", "the body is an array", lambda body: b"[" + body + b"]", ""),
    ("body-twice", "the body has two messages", lambda body: body + body, ""),
    ("body-empty", "the body is empty", lambda _: b"", ""),
    ("body-latin", "the body is not UTF-8", lambda body: body.replace(b'"jsonrpc"', b'"\xe9":1,"jsonrpc"', 1), ""),
    ("body-nan", "the body has NaN", lambda body: body.replace(b'"jsonrpc"', b'"x":NaN,"jsonrpc"', 1), ""),
    (
        "body-spaces",
        "spaces and line feeds are around the message",
        lambda body: b"\n " + body + b"\r\n",
        "RFC 8259 permits spaces around a value.",
    ),
)


def _head_operator(
    name: str,
    summary: str,
    targets: Callable[[Recording], Iterable[Target]],
    change: Callable[[HttpHead, str], HttpHead],
    invisible: str,
) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=targets,
        mutation=lambda target, _: _HeadMutation(target, change),
        invisible=invisible,
    )


def _body_operator(name: str, summary: str, change: Callable[[bytes], bytes], invisible: str) -> Operator:
    def targets(recording: Recording) -> Iterable[Target]:
        return [
            Target(key=key)
            for key in recording.keys("http")
            if any(head.get("content-type") == "application/json" for head in recording.messages(key))
            # What is in the body of a refusal is not specified for all of them.
            and key.split(" ")[-3].startswith("2")
        ]

    return Operator(
        name=name,
        summary=summary,
        targets=targets,
        mutation=lambda target, _: _BodyMutation(target, change),
        invisible=invisible,
    )


FRAMING_OPERATORS: Final = (
    *(_line_operator(*row) for row in _LINES),
    *(_event_operator(*row) for row in _EVENTS),
    *(_head_operator(*row) for row in (*_HEADS, *_SENT_HEADS)),
    *(_body_operator(*row) for row in _BODIES),
)
"""The operators on lines, events, heads and bodies."""
