"""Operators on whole responses, notifications and requests of the peer: their ids, number, order and kind."""

# ruff: noqa: ARG001  # all operators and hooks have the parameters that their callers pass

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, TypeAlias

from mcp_core.revisions import REVISIONS, Era
from mutants.generated.fault import ANY, Leg, Operator, Recording, Target
from mutants.generated.proxy import ON_STREAM, Mutation
from mutants.generated.schemas import is_defined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.proxy import Conversation, MessageInfo

__all__ = ["MESSAGE_OPERATORS"]

_Sent: TypeAlias = "list[JsonValue | bytes] | None"
_Change: TypeAlias = "Callable[[JsonObject, MessageInfo, Conversation], _Sent]"

_RESPONSES: Final = ("result", "error")


class _MessageMutation(Mutation):
    """A change of the messages of one key.

    Args:
        target: The target.
        change: The change.
        others: A change of all other messages, for faults in their order.
    """

    def __init__(self, target: Target, change: _Change, others: _Change | None = None) -> None:
        self._target: Final = target
        self._change: Final = change
        self._others: Final = others

    def sent(self, message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        """Return the changed messages."""
        if self._target.key in (seen.key, f"{ANY} {seen.kind}"):
            return self._change(message, seen, conversation)
        return None if self._others is None else self._others(message, seen, conversation)


# --- responses --------------------------------------------------------------------------------------------------------


def _with_id(change: Callable[[JsonValue], JsonValue]) -> _Change:
    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        if message.get("id") is None:
            return None
        id = change(message["id"])
        return None if id == message["id"] and type(id) is type(message["id"]) else [{**message, "id": id}]

    return changed


def _other_kind(id: JsonValue) -> JsonValue:
    return str(id) if not isinstance(id, str) else int(id) if id.isdecimal() else f"{id} "


def _reused(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    """Send the id of the response before."""
    before, conversation.state["id"] = conversation.state.get("id"), message.get("id")
    return None if before is None or before == message.get("id") else [{**message, "id": before}]


def _as_error(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    error: JsonObject = {"code": -32603, "message": "internal error"}
    return [{"jsonrpc": "2.0", "id": message.get("id"), "error": error}]


def _as_result(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return None if message.get("id") is None else [{"jsonrpc": "2.0", "id": message["id"], "result": {}}]


def _both(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    error: JsonObject = {"code": -32603, "message": "internal error"}
    return [{"result": {}, "error": error, **message}]


def _neither(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [{name: value for name, value in message.items() if name not in _RESPONSES}]


def _twice(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [message, message]


def _twice_on_stream(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [message, message] if seen.stream else None


def _in_array(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    # A response to a member of a batch belongs into an array.
    return [[message]]


def _with_method(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [{**message, "method": seen.method or "ping"}]


def _other_code(code: int) -> _Change:
    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        error = message.get("error")
        if not isinstance(error, dict) or error.get("code") == code:
            return None
        return [{**message, "error": {**error, "code": code}}]

    return changed


def _empty_result(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [{**message, "result": {}}] if message.get("result") else None


def _dropped(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return []


# --- order ------------------------------------------------------------------------------------------------------------


def _hold(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    conversation.held.append(message)
    return []


def _hold_for_end(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    """Hold a message, for the end of its stream. A stream of which the client has disconnected has none."""
    held = conversation.state.setdefault(seen.stream, [])
    if isinstance(held, list):
        held.append(message)
    return []


def _release_after_response(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    held = conversation.state.pop(seen.stream, None) if seen.kind in _RESPONSES else None
    return [message, *held] if isinstance(held, list) else None


def _release_before(message: JsonObject, conversation: Conversation) -> _Sent:
    if not conversation.held:
        return None
    released: list[JsonValue | bytes] = [*conversation.held, message]
    conversation.held.clear()
    return released


def _release_before_response(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return _release_before(message, conversation) if seen.kind in _RESPONSES else None


def _carrier(leg: Leg) -> str:
    """Return the HTTP method whose responses are the streams for messages of a server: over HTTP+SSE, one per client."""
    return "GET" if leg.transport == "http-sse" else "POST"


def _hold_for_another(leg: Leg) -> _Change:
    """Hold a message of a stream, for another stream. What resumes the first stream does not have it either."""
    carrier = _carrier(leg)

    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        if seen.stream and not seen.stream.startswith(carrier):
            return [] if message in conversation.moved else None
        if not seen.stream:
            return None
        if conversation.held:
            return _release_on_another(leg)(message, seen, conversation)
        conversation.state["stream"] = seen.stream
        conversation.moved.append(message)
        return _hold(message, seen, conversation)

    return changed


def _release_on_another(leg: Leg) -> _Change:
    """Send the held message before the next one of another stream."""
    carrier = _carrier(leg)

    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        if not seen.stream.startswith(carrier) or seen.stream == conversation.state.get("stream"):
            return None
        return _release_before(message, conversation)

    return changed


# --- notifications and requests ---------------------------------------------------------------------------------------


def _with_other(*path: str) -> _Change:
    """Change a reference to another one of the same type."""

    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        holder: JsonValue = message
        for name in path[:-1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or path[-1] not in holder:
            return None
        held = holder[path[-1]]
        holder[path[-1]] = held + 1000 if isinstance(held, int) else f"{held}-other"
        return [message]

    return changed


def _other_type(*path: str) -> _Change:
    """Change a reference to the same text as another type, or to another text with the same letters."""

    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        holder: JsonValue = message
        for name in path[:-1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        held = holder.get(path[-1]) if isinstance(holder, dict) else None
        changed_value = str(held) if isinstance(held, int) else int(str(held)) if str(held).isdecimal() else None
        if not isinstance(holder, dict) or held is None or changed_value is None:
            return None
        holder[path[-1]] = changed_value
        return [message]

    return changed


def _as_request(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [{**message, "id": "no-notification"}]


def _as_notification(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    return [{name: value for name, value in message.items() if name != "id"}]


def _named(change: Callable[[str], str]) -> _Change:
    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        name = change(seen.method)
        return None if name == seen.method else [{**message, "method": name}]

    return changed


def _repeated_after(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    """Keep a notification, to send it again after the next response."""
    if message not in conversation.held:
        conversation.held[:] = [message]
    return None


def _again_after_response(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
    if seen.kind not in _RESPONSES or not conversation.held:
        return None
    again: list[JsonValue | bytes] = [message, *conversation.held]
    conversation.held.clear()
    return again


# --- targets ----------------------------------------------------------------------------------------------------------


def _each(*kinds: str) -> Callable[[Recording], Iterable[Target]]:
    """Return the messages of all methods of the revision. How a peer responds to others is its own affair."""

    def targets(recording: Recording) -> Iterable[Target]:
        return [Target(key=key) for key in recording.keys(*kinds) if is_defined(recording, key)]

    return targets


_NO_REQUEST: Final = " error"
"""The key of the errors for what is no JSON or no request."""


def _is_free(leg: Leg, key: str, code: JsonValue) -> bool:
    """Return whether the revision leaves a code to the server.

    Over HTTP the error -32600 for a valid request is in the body of a rejection, of which only the status is defined. A
    ping is sent as an invalid request, too, whose error names it over Streamable HTTP.
    """
    named = (_NO_REQUEST,) if leg.transport == "http-sse" else (_NO_REQUEST, "ping error")
    return code == _INVALID_REQUEST and leg.transport != "stdio" and leg.role == "server" and key not in named


def _may_be(leg: Leg, key: str, code: int) -> bool:
    """Return whether the revision permits another code, too."""
    return (leg.role, leg.revision, key, code) in _PERMITTED_CODES


_INVALID_REQUEST: Final = -32600
_INVALID_PARAMS: Final = -32602
_PERMITTED_CODES: Final = frozenset(
    {
        # The revision does not list the errors of an elicitation.
        ("client", "2025-06-18", "elicitation/create error", _INVALID_PARAMS),
        # A client rejects a mode that it does not declare with this code, and a client without elicitation declares no mode.
        ("client", "2025-11-25", "elicitation/create error", _INVALID_PARAMS),
    }
)
"""By role, revision and kind of error, the codes that are permitted beside the recorded one."""


def _errors_except(code: int) -> Callable[[Recording], Iterable[Target]]:
    """Return the errors with another code."""

    def has_other(recording: Recording, key: str) -> bool:
        if _may_be(recording.leg, key, code):
            return False
        errors = [message.get("error") for message in recording.messages(key)]
        codes = [each.get("code") for each in errors if isinstance(each, dict)]
        return any(each != code and not _is_free(recording.leg, key, each) for each in codes)

    return lambda recording: [
        each for each in (*_each("error")(recording), *_some(_NO_REQUEST)(recording)) if has_other(recording, each.key)
    ]


def _any(*kinds: str) -> Callable[[Recording], Iterable[Target]]:
    return lambda recording: [Target(key=f"{ANY} {kind}") for kind in kinds if recording.keys(kind)]


def _some(*keys: str) -> Callable[[Recording], Iterable[Target]]:
    return lambda recording: [Target(key=key) for key in keys if key in recording.samples]


def _on_streams(*kinds: str) -> Callable[[Recording], Iterable[Target]]:
    """Return the messages of servers on streams: that of a request, and over HTTP+SSE that of a client.

    A client has no streams: it posts each message.
    """

    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        kind = f"{ON_STREAM}{_carrier(leg)}"
        found = [Target(key=key.removesuffix(f" {kind}")) for key in recording.keys(kind)]
        # 2024-11-05 does not define the streams of Streamable HTTP.
        undefined = leg.revision == "2024-11-05" and leg.transport == "http"
        return [
            each for each in found if each.key.endswith(kinds) and is_defined(recording, each.key) and not undefined
        ]

    return targets


def _of_requests(recording: Recording) -> Iterable[Target]:
    """Return the notifications on streams that belong to a request, or to one client.

    In the revisions with sessions a server may send others on any stream.
    """
    every = REVISIONS[recording.leg.revision].era is Era.MODERN
    of_requests = ("notifications/progress notification", "notifications/message notification")
    return [each for each in _on_streams(" notification")(recording) if every or each.key in of_requests]


def _with_messages_before(recording: Recording) -> Iterable[Target]:
    """Return the notifications that belong to a request. Before 2026-07-28 log messages belong to a session."""
    own = ("notifications/message notification",)
    modern = REVISIONS[recording.leg.revision].era is Era.MODERN
    return _some("notifications/progress notification", *(own if modern else ()))(recording)


def _repeatable(recording: Recording) -> Iterable[Target]:
    # In the body of an HTTP response, two messages are no JSON, and the fault is another one. A client posts each message.
    leg = recording.leg
    return _each("result")(recording) if leg.transport == "stdio" or leg.role == "client" else []


def _answerable(recording: Recording) -> Iterable[Target]:
    """Return the results in whose place an error is wrong.

    A client may respond with an internal error to whatever depends on its user, its model or its data: roots, samplings,
    elicitations and their tasks.
    """
    found = _each("result")(recording)
    return [each for each in found if recording.leg.role == "server" or each.key == "ping result"]


def _awaited(recording: Recording) -> Iterable[Target]:
    """Return the results whose absence is wrong.

    A sampling or an elicitation, or its task, waits for the user, for whose decision the specification sets no limit: it
    may be open when the connection ends.
    """
    by_user = ("sampling/createMessage result", "elicitation/create result", "tasks/result result")
    free = by_user if recording.leg.role == "client" else ()
    return [each for each in _each("result")(recording) if each.key not in free]


def _renamable(recording: Recording) -> Iterable[Target]:
    """Return the messages whose method may not be renamed.

    Since 2026-07-28 a client may send any request, as extensions define methods: the error -32601 of the server is the
    answer. Only a method that the client needs is missed, or one that a header names.
    """
    modern, is_server = REVISIONS[recording.leg.revision].era is Era.MODERN, recording.leg.role == "server"
    needed = {"server/discover request", "tools/list request"}
    if recording.leg.transport == "http":
        needed.add("tools/call request")
    # A server may leave the tasks of a client unlisted and uncancelled, and an experimental capability may have other methods.
    optional = {"tasks/list request", "tasks/cancel request"} if is_server else set[str]()
    if modern:
        # No server has to log or to report progress, and extensions define notifications.
        optional |= {"notifications/message notification", "notifications/progress notification"}
    found = [each for each in _each("notification", "request")(recording) if each.key not in optional]
    free = modern and not is_server
    return [each for each in found if not free or each.key in needed or not each.key.endswith(" request")]


def _not_batchable(recording: Recording) -> Iterable[Target]:
    """Return the responses, except those of clients at 2025-03-26, which may post an array of one or more responses."""
    leg = recording.leg
    return [] if (leg.role, leg.revision) == ("client", "2025-03-26") else _any(*_RESPONSES)(recording)


_MEANING: Final = ("params", "progressToken")

_CHANGES: Final[tuple[tuple[str, str, Callable[[Recording], Iterable[Target]], _Change], ...]] = (
    ("response-id-type", "the id is the same text as another type", _any(*_RESPONSES), _with_id(_other_kind)),
    (
        "response-id-other",
        "the id is one that no request has",
        _each("error"),
        _with_id(lambda id: id + 1000 if isinstance(id, int) else f"{id}-other"),
    ),
    ("response-id-null", "the id is null", _any(*_RESPONSES), _with_id(lambda _: None)),
    ("response-id-reused", "the id is the one of the response before", _any(*_RESPONSES), _reused),
    ("response-as-error", "an internal error in place of a result", _answerable, _as_error),
    ("response-as-result", "an empty result in place of an error", _each("error"), _as_result),
    ("response-both", "a result and an error", _any(*_RESPONSES), _both),
    ("response-neither", "neither a result nor an error", _any(*_RESPONSES), _neither),
    ("response-twice", "the response is sent twice", _repeatable, _twice),
    ("response-twice-in-stream", "the response is sent twice on its stream", _on_streams(" result"), _twice_on_stream),
    ("response-in-array", "the response is in an array", _not_batchable, _in_array),
    ("response-with-method", "the response has a method", _any(*_RESPONSES), _with_method),
    ("error-code-zero", "the code of an error is 0", _errors_except(0), _other_code(0)),
    ("error-code-parse", "the code of an error is -32700", _errors_except(-32700), _other_code(-32700)),
    ("error-code-method", "the code of an error is -32601", _errors_except(-32601), _other_code(-32601)),
    ("error-code-params", "the code of an error is -32602", _errors_except(-32602), _other_code(-32602)),
    ("error-code-positive", "the code of an error is the one of HTTP", _errors_except(400), _other_code(400)),
    ("response-dropped", "the response is not sent", _awaited, _dropped),
    ("result-empty", "the result is empty", _each("result"), _empty_result),
    ("notification-as-request", "the notification has an id", _each("notification"), _as_request),
    ("request-as-notification", "the request has no id", _each("request"), _as_notification),
    (
        "method-case",
        "the name of the method is in another case",
        _renamable,
        _named(lambda name: name[0].upper() + name[1:]),
    ),
    (
        "method-prefix",
        "the name of the method lacks its first part",
        _renamable,
        _named(lambda name: name.partition("/")[2] or f"x{name}"),
    ),
    (
        "token-other",
        "the progress token is one that no request has",
        _some("notifications/progress notification"),
        _with_other(*_MEANING),
    ),
    (
        "token-type",
        "the progress token is the same text as another type",
        _some("notifications/progress notification"),
        _other_type(*_MEANING),
    ),
    (
        "subscription-other",
        "the subscription id is the one of another subscription",
        lambda recording: [
            each
            for each in _each("notification")(recording)
            if any(
                "io.modelcontextprotocol/subscriptionId" in str(message.get("params"))
                for message in recording.messages(each.key)
            )
        ],
        _with_other("params", "_meta", "io.modelcontextprotocol/subscriptionId"),
    ),
    (
        "task-other",
        "the task id of a status notification is the one of another task",
        _some("notifications/tasks/status notification", "notifications/tasks notification"),
        _with_other("params", "taskId"),
    ),
    (
        "uri-other",
        "the URI of an update is the one of another resource",
        _some("notifications/resources/updated notification"),
        _with_other("params", "uri"),
    ),
    (
        "acknowledgment-dropped",
        "the acknowledgment is not sent",
        _some("notifications/subscriptions/acknowledged notification"),
        _dropped,
    ),
)

_SEQUENCES: Final[tuple[tuple[str, str, Callable[[Recording], Iterable[Target]], _Change, _Change], ...]] = (
    (
        "notification-late",
        "a notification of a request is sent after its response",
        _with_messages_before,
        _hold_for_end,
        _release_after_response,
    ),
    (
        "notification-again",
        "a progress notification is repeated after the response",
        _with_messages_before,
        _repeated_after,
        _again_after_response,
    ),
    (
        "acknowledgment-late",
        "the acknowledgment is not the first message of its subscription",
        _some("notifications/subscriptions/acknowledged notification"),
        _hold,
        _release_before_response,
    ),
)

_ON_OTHER_STREAMS: Final[tuple[tuple[str, str, Callable[[Recording], Iterable[Target]]], ...]] = (
    ("notification-other-stream", "a notification of a request is sent on the stream of another one", _of_requests),
    (
        "response-other-stream",
        "a response is sent on the stream of another request, and its own stream ends without it",
        _on_streams(" result", " error"),
    ),
    ("request-other-stream", "a request of the server is sent on the stream of another one", _on_streams(" request")),
)
"""The operators on the streams of HTTP. Over HTTP+SSE the other stream is that of another client."""


def _operator(
    name: str,
    summary: str,
    targets: Callable[[Recording], Iterable[Target]],
    change: _Change,
    *,
    provoked: bool = False,
) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=targets,
        mutation=lambda target, _: _MessageMutation(target, change),
        provoked=provoked,
    )


def _sequence(
    name: str,
    summary: str,
    targets: Callable[[Recording], Iterable[Target]],
    change: _Change,
    others: _Change,
) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=targets,
        mutation=lambda target, _: _MessageMutation(target, change, others),
    )


def _on_other_stream(name: str, summary: str, targets: Callable[[Recording], Iterable[Target]]) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=targets,
        mutation=lambda target, leg: _MessageMutation(target, _hold_for_another(leg), _release_on_another(leg)),
    )


# --- identifiers ------------------------------------------------------------------------------------------------------


def _narrow(id: JsonValue) -> JsonValue:
    return (id + 2**31) % 2**32 - 2**31 if isinstance(id, int) and not isinstance(id, bool) else id


def _of_text(change: Callable[[str], JsonValue]) -> Callable[[JsonValue], JsonValue]:
    return lambda id: change(id) if isinstance(id, str) else id


def _normalized(text: str) -> str:
    return unicodedata.normalize("NFC", text)


_IDENTIFIERS: Final[tuple[tuple[str, str, Callable[[JsonValue], JsonValue]], ...]] = (
    ("zero", "0 is taken as absent", lambda id: None if id == 0 and id is not False else id),
    ("empty", "the empty text is taken as absent", lambda id: None if id == "" else id),
    ("negative", "the sign is lost", lambda id: abs(id) if isinstance(id, int) else id),
    ("32-bits", "it is cut to 32 bits", _narrow),
    ("long", "it is cut to 64 characters", _of_text(lambda id: id[:64])),
    ("very-long", "it is cut to 255 characters", _of_text(lambda id: id[:255])),
    ("digits", "a text of digits becomes a number", _of_text(lambda id: int(id) if id.isdecimal() else id)),
    ("number", "a number becomes a text", lambda id: str(id) if isinstance(id, int) else id),
    ("lower", "it is converted to lower case", _of_text(str.lower)),
    ("upper", "it is converted to upper case", _of_text(str.upper)),
    ("trimmed", "spaces around it are removed", _of_text(str.strip)),
    ("ascii", "characters beyond ASCII are lost", _of_text(lambda id: id.encode("ascii", "ignore").decode())),
    (
        "latin",
        "characters beyond Latin-1 become question marks",
        _of_text(lambda id: id.encode("latin-1", "replace").decode("latin-1")),
    ),
    ("null-text", "the text `null` becomes null", _of_text(lambda id: None if id == "null" else id)),
    ("composed", "it is normalized (NFC)", _of_text(_normalized)),
)
"""What may happen to an identifier that is stored, compared or sent back. Beyond 53 bits nothing is required of numbers
(RFC 8259, section 6)."""


def _token(change: Callable[[JsonValue], JsonValue]) -> _Change:
    def changed(message: JsonObject, seen: MessageInfo, conversation: Conversation) -> _Sent:
        params = message.get("params")
        if not isinstance(params, dict) or "progressToken" not in params:
            return None
        held = params["progressToken"]
        params["progressToken"] = change(held)
        same = params["progressToken"] == held and type(params["progressToken"]) is type(held)
        return None if same else [message]

    return changed


def _results_of_requests(recording: Recording) -> Iterable[Target]:
    """Return the results of a peer that gets requests in the revision, for which the suite chooses the ids."""
    leg = recording.leg
    if leg.role == "server" or REVISIONS[leg.revision].era is Era.LEGACY:
        yield from _any("result")(recording)


def _identifier_operators() -> Iterable[Operator]:
    for name, summary, change in _IDENTIFIERS:
        yield _operator(
            f"request-id-{name}",
            f"the request id: {summary}",
            _results_of_requests,
            _with_id(change),
            provoked=True,
        )
        yield _operator(
            f"progress-token-{name}",
            f"the progress token: {summary}",
            _some("notifications/progress notification"),
            _token(change),
            provoked=True,
        )


MESSAGE_OPERATORS: Final = (
    *(_operator(*row) for row in _CHANGES),
    *(_sequence(*row) for row in _SEQUENCES),
    *(_on_other_stream(*row) for row in _ON_OTHER_STREAMS),
    *_identifier_operators(),
)
"""The operators on whole messages, and on their identifiers."""
