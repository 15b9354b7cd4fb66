r"""Encoding and decoding of JSON-RPC messages: `decode` reads the bytes of a peer, `encode` writes the bytes to send.

*Tolerated deviations.* Some peers omit `jsonrpc`, write `null` for an absent member, or write an error code as a
string. If the meaning is certain, the message is accepted and the deviation is recorded.

*Rejected messages.* Everything that two readers could understand differently is rejected: repeated members, ids with
two spellings, a message that is both request and response. The result is a `MalformedMessage`. Later bytes are not
affected.

Spec: basic#messages; JSON-RPC 2.0 sections 4 to 6. Member names are compared exactly: `RequestMethod` and `method\u0000` are
unknown members, and unknown members are ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeGuard

import attrs

from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError, MalformedMessage
from mcp_core.field_methods import FieldValue
from mcp_core.json_text import depth_exceeded, read, without_numbers, write
from mcp_core.jsonrpc.messages import (
    ErrorObject,
    ErrorResponse,
    JsonObject,
    JsonValue,
    Message,
    Notification,
    Request,
    RequestId,
    ResultResponse,
)
from mcp_core.limits import SERVER_LIMITS

if TYPE_CHECKING:
    from mcp_core.json_text import Repetition
    from mcp_core.limits import Limits

__all__ = ["Batch", "decode", "encode", "stand_in"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_EXCERPT_BYTES: Final = 200
"""Bytes of an excerpt: enough to recognize a banner or a traceback, and few enough for a log."""

_NAME_CHARS: Final = 40
"""The maximum number of characters of a peer's member name in an error."""

_SHORT_INTEGER: Final = 10**20
"""Integers with a smaller absolute value have at most 20 digits, the minimum of `Limits.id_chars`."""

_INTEGRAL: Final = re.compile(r"-?[0-9]{1,9}")
"""An error code in a string."""

_ENVELOPE_BYTES: Final = 1_000
"""The search range for the envelope of an unreadable response, in bytes from its start and from its end."""

_VERSION: Final = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ID: Final = rb'"id"\s*:\s*("[^"\\]*"|-?(?:0|[1-9][0-9]*))\s*'
_HEAD_OF_ANSWER: Final = re.compile(rb"\s*\{\s*" + _VERSION + _ID + rb',\s*"(?:result|error)"\s*:')
_TAIL_OF_ANSWER: Final = re.compile(rb"\}\s*,\s*" + _VERSION + _ID + rb"\}\s*$")
_BEGINS_AS_ANSWER: Final = re.compile(rb"\s*\{\s*" + _VERSION + rb'"(?:result|error)"\s*:\s*\{')


@attrs.frozen(eq=False, repr=False)
class Batch(FieldValue):
    """Several messages in one JSON array. Spec: basic#batching (2025-03-26 only)

    A received batch may have invalid members. Each is the `MalformedMessage` that describes the error.
    """

    members: tuple[Message | MalformedMessage, ...]
    """The members in their order on the wire. A batch to send must not be empty."""


def decode(
    data: bytes | memoryview, limits: Limits = SERVER_LIMITS, *, notes: list[str] | None = None
) -> Message | Batch:
    """Decode one message, or one batch.

    Args:
        data: The JSON text in UTF-8: one line, one body or the data of one event. Surrounding blanks are ignored.
        limits: The limits to apply.
        notes: A list that receives one sentence for each tolerated deviation.

    Returns:
        The message. A batch may have invalid members, each as the `MalformedMessage` that describes the error. The
        params are `None` if they were `null` or `[]`.

    Raises:
        MalformedMessage: The bytes are not JSON, are not a message, or exceed a limit. For a limit, the cause is
            `LimitExceeded`.
    """
    if type(data) is not bytes:
        data = bytes(data)
    outcome = _interpret(data, limits, [] if notes is None else notes)
    if isinstance(outcome, MalformedMessage):
        outcome.excerpt = data[:_EXCERPT_BYTES]
        raise outcome
    return outcome


def _interpret(data: bytes, limits: Limits, notes: list[str]) -> Message | Batch | MalformedMessage:
    if len(data) > limits.message_bytes:
        excess = LimitExceeded(
            "message size in bytes", observed=len(data), allowed=limits.message_bytes, setting="Limits.message_bytes"
        )
        return _over(excess, None, limits, code=ErrorCode.PARSE_ERROR)
    try:
        value, bound, repetitions = read(data, limits)
    except ValueError as error:
        # Store only the text of the error: the error of orjson holds the whole message.
        return _unreadable(str(error), data, limits, notes)
    if bound is not None:
        return _over(bound, value, limits, code=ErrorCode.PARSE_ERROR)
    if repetitions:
        refusal = _repeated(value, repetitions, limits, notes)
        if refusal is not None:
            return refusal
    if isinstance(value, list):
        return _batch(value, limits, notes)
    return _message(value, limits, notes)


def _unreadable(reason: str, data: bytes, limits: Limits, notes: list[str]) -> Message | Batch | MalformedMessage:
    behind_mark = data.removeprefix(_BYTE_ORDER_MARK)
    if len(behind_mark) < len(data) and not behind_mark.startswith(_BYTE_ORDER_MARK):
        notes.append("a byte order mark precedes the message")
        return _interpret(behind_mark, limits, notes)
    # The id of an unreadable response is searched in its envelope, so that the caller does not wait until its deadline.
    envelope = _envelope_of_answer(data, limits)
    if "limit" in reason:
        return _over(depth_exceeded(limits.nesting_depth), envelope, limits, code=ErrorCode.PARSE_ERROR)
    if "infinity" in reason:
        value = without_numbers(data)
        return _bad("a number exceeds the range of a 64-bit float", value, limits, code=ErrorCode.PARSE_ERROR)
    bad = _bad("the bytes are not JSON in UTF-8", envelope, limits, code=ErrorCode.PARSE_ERROR)
    bad.message = f"{bad.message}: {reason}"
    return bad


def _envelope_of_answer(data: bytes, limits: Limits) -> JsonValue:
    """Return the envelope of an unreadable response: its id, if it is the first or last member, as peers write it."""
    found = _HEAD_OF_ANSWER.match(data[:_ENVELOPE_BYTES])
    if found is None and _BEGINS_AS_ANSWER.match(data[:_ENVELOPE_BYTES]):
        found = _TAIL_OF_ANSWER.search(data[-_ENVELOPE_BYTES:])
    if found is None:
        return None
    try:
        request_id, bound, _ = read(found[1], limits)
    except ValueError:
        return None
    return None if bound is not None else {"id": request_id, "result": None}


def _batch(value: list[JsonValue], limits: Limits, notes: list[str]) -> Batch | MalformedMessage:
    if not value:
        return _bad("a batch must not be empty", value, limits)
    if len(value) > limits.batch_members:
        excess = LimitExceeded(
            "messages in a batch", observed=len(value), allowed=limits.batch_members, setting="Limits.batch_members"
        )
        return _over(excess, value, limits)
    return Batch(tuple([_message(member, limits, notes) for member in value]))


def _message(value: JsonValue, limits: Limits, notes: list[str]) -> Message | MalformedMessage:
    if not isinstance(value, dict):
        return _bad("a message must be a JSON object", value, limits)
    if value.get("jsonrpc") != "2.0":
        if "jsonrpc" in value:
            return _bad('jsonrpc must be "2.0"', value, limits)
        notes.append("the member jsonrpc is missing")
    method = value.get("method")
    if isinstance(method, str):
        return _request(value, method, limits, notes)
    if method is not None:
        return _bad("method must be a string", value, limits)
    return _response(value, limits, notes)


def _request(
    value: JsonObject, method: str, limits: Limits, notes: list[str]
) -> Request | Notification | MalformedMessage:
    params = value.get("params")
    if not isinstance(params, dict):
        if params is not None and params != []:
            return _bad("params must be an object", value, limits, code=ErrorCode.INVALID_PARAMS)
        if "params" in value:
            notes.append("params is null or an empty array")
        params = None
    if "result" in value or "error" in value:
        if value.get("result") is not None or value.get("error") is not None:
            return _bad("a message with a method must have no result and no error", value, limits)
        notes.append("a result or an error of null is present beside a method")
    if "id" not in value:
        return Notification(method, params)
    request_id = value["id"]
    if type(request_id) is not int and type(request_id) is not str:
        return _bad("the id of a request must be a string or an integer", value, limits)
    if (isinstance(request_id, str) or abs(request_id) >= _SHORT_INTEGER) and not _fits(request_id, limits):
        return _long_id(request_id, value, limits)
    return Request(request_id, method, params)


def _response(value: JsonObject, limits: Limits, notes: list[str]) -> ResultResponse | ErrorResponse | MalformedMessage:
    if "result" not in value and "error" not in value:
        bad = _bad("a message must have a method, a result or an error", value, limits)
        if "method" not in value and bad.reply is not None:
            # Some peers omit an empty result.
            bad.answers = bad.reply.id
        return bad
    result, error = value.get("result"), value.get("error")
    if "result" in value and "error" in value:
        if (result is None) == (error is None):
            return _bad("a response must have either a result or an error", value, limits)
        notes.append("a response has both a result and an error, one of them null")
    response_id = value.get("id")
    if response_id is not None:
        if type(response_id) is not int and type(response_id) is not str:
            return _bad("the id of a response must be a string or an integer", value, limits)
        if (isinstance(response_id, str) or abs(response_id) >= _SHORT_INTEGER) and not _fits(response_id, limits):
            return _long_id(response_id, value, limits)
    if error is not None or "result" not in value:
        made = _error(error, notes)
        return _bad(made, value, limits) if isinstance(made, str) else ErrorResponse(response_id, made)
    if response_id is None:
        return _bad("a result must have the id of its request", value, limits)
    if result is None:
        return _bad("a result must be an object, not null", value, limits)
    if not isinstance(result, dict):
        return _bad("a result must be an object", value, limits)
    return ResultResponse(response_id, result)


def _error(error: JsonValue, notes: list[str]) -> ErrorObject | str:
    """Return the error object, or the description of an error in it."""
    if not isinstance(error, dict):
        return "an error must be an object"
    code = error.get("code")
    if (isinstance(code, float) and code.is_integer()) or (isinstance(code, str) and _INTEGRAL.fullmatch(code)):
        notes.append("an error code is a string or has a fraction")
        code = int(code)
    if type(code) is not int:
        return "the code of an error must be an integer"
    message = error.get("message")
    if message is None:
        notes.append("an error has no message")
        message = ""
    if not isinstance(message, str):
        return "the message of an error must be a string"
    return ErrorObject(code, message, error.get("data"))


def _repeated(
    value: JsonValue, repetitions: tuple[Repetition, ...], limits: Limits, notes: list[str]
) -> MalformedMessage | None:
    """Reject repeated members, except within a response: there they affect only values of the peer itself."""
    for container, names in repetitions:
        if not names:
            # The id may be the repeated member. An error with a null id shows the peer that its request arrived.
            value = {**value, "id": None} if isinstance(value, dict) and _wants_reply(value) else value
            return _bad("a member of an object is repeated", value, limits)
        if container is value:
            if "id" in names:
                value = {**container, "id": None}
            return _bad(f"the member {min(names)[:_NAME_CHARS]!r} is repeated", value, limits)
    if isinstance(value, dict) and not isinstance(value.get("method"), str) and not _wants_reply(value):
        notes.append("a member of an object in a response is repeated; the last one is used")
        return None
    return _bad(f"the member {min(repetitions[0][1])[:_NAME_CHARS]!r} of an object is repeated", value, limits)


def _is_id(value: JsonValue) -> TypeGuard[RequestId]:
    return type(value) is int or type(value) is str


def _fits(request_id: RequestId, limits: Limits) -> bool:
    if isinstance(request_id, str):
        return len(request_id) <= limits.id_chars
    return -_SHORT_INTEGER < request_id < _SHORT_INTEGER or len(str(request_id)) <= limits.id_chars


def _long_id(request_id: RequestId, value: JsonValue, limits: Limits) -> MalformedMessage:
    observed = len(str(request_id))
    return _over(
        LimitExceeded("id length in characters", observed=observed, allowed=limits.id_chars, setting="Limits.id_chars"),
        value,
        limits,
    )


def _over(
    excess: LimitExceeded, value: JsonValue, limits: Limits, *, code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> MalformedMessage:
    bad = _bad(excess.message, value, limits, code=code)
    bad.__cause__ = excess
    return bad


def stand_in(bad: MalformedMessage) -> ErrorResponse | None:
    """Return an error response in place of a response that cannot be read, so that its request fails at once.

    Args:
        bad: The error about the unreadable response.

    Returns:
        The error response to pass to the engine, or `None` if the id cannot be read.
    """
    if bad.answers is None:
        return None
    return ErrorResponse(bad.answers, ErrorObject(int(bad.code), f"the peer's response cannot be read: {bad.message}"))


def _bad(
    message: str, value: JsonValue, limits: Limits, *, code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> MalformedMessage:
    request_id = value.get("id") if isinstance(value, dict) else None
    readable = request_id if _is_id(request_id) and _fits(request_id, limits) else None
    if _wants_reply(value):
        return MalformedMessage(message, code=int(code), reply=ErrorResponse(readable, ErrorObject(int(code), message)))
    return MalformedMessage(message, code=int(code), answers=readable)


def _wants_reply(value: JsonValue) -> bool:
    """Return whether an invalid value needs an error response: not a response, a notification, or an array of these."""
    if isinstance(value, list):
        return not value or any(not isinstance(member, dict) or _wants_reply(member) for member in value)
    if not isinstance(value, dict):
        return True
    if isinstance(value.get("method"), str):
        return "id" in value
    return "result" not in value and "error" not in value


def encode(message: Message | Batch, *, null_id: bool, line: bool = False) -> bytes:
    """Encode one message, or one batch, as one line.

    Args:
        message: The message to send. An `orjson.Fragment` in a result or in params is copied unchanged.
        null_id: Whether an error without an id has an `id` of null. Otherwise the member is omitted
            (`Revision.error_without_id`).
        line: Whether to append a line feed, as newline framing requires. This saves a copy.

    Raises:
        LocalProtocolError: JSON cannot express the message, see `mcp_core.json_text.write`; an id is neither a
            string nor an integer; a batch is empty or has a member that is not a message.
    """
    if isinstance(message, Batch):
        if not message.members:
            raise LocalProtocolError("a batch must not be empty")
        members = b",".join([write(_envelope(member, null_id=null_id)) for member in message.members])
        return b"[%b]\n" % members if line else b"[%b]" % members
    return write(_envelope(message, null_id=null_id), line=line)


def _envelope(message: Message | MalformedMessage, *, null_id: bool) -> JsonObject:
    if isinstance(message, ResultResponse):
        if type(message.id) is not int:
            _check_id(message.id)
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    if isinstance(message, Request):
        if type(message.id) is not int:
            _check_id(message.id)
        envelope: JsonObject = {"jsonrpc": "2.0", "id": message.id, "method": message.method}
    elif isinstance(message, Notification):
        envelope = {"jsonrpc": "2.0", "method": message.method}
    elif isinstance(message, ErrorResponse):
        return _error_envelope(message, null_id=null_id)
    else:
        raise LocalProtocolError(f"a {type(message).__name__} cannot be sent")
    if message.params is not None:
        envelope["params"] = message.params
    return envelope


def _error_envelope(message: ErrorResponse, *, null_id: bool) -> JsonObject:
    envelope: JsonObject = {"jsonrpc": "2.0"}
    if message.id is not None:
        _check_id(message.id)
        envelope["id"] = message.id
    elif null_id:
        envelope["id"] = None
    error: JsonObject = {"code": int(message.error.code), "message": message.error.message}
    if message.error.data is not None:
        error["data"] = message.error.data
    envelope["error"] = error
    return envelope


def _check_id(request_id: RequestId) -> None:
    if not _is_id(request_id):
        raise LocalProtocolError(f"an id must be a string or an integer, not {request_id!r}")
