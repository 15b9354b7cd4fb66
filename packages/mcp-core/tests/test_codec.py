"""Decoding and encoding of messages: accepted and rejected input, error replies, and hostile input."""

from __future__ import annotations

import json
import math
from typing import Final, cast

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.codec import Batch, decode, encode, stand_in
from mcp_core.errors import LimitExceeded, LocalProtocolError, MalformedMessage
from mcp_core.framing.lines import LineFramer, frame
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
from mcp_core.limits import Limits

LIMITS = Limits(message_bytes=64 * 1024 * 1024)
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def _get_malformed(data: bytes | str, limits: Limits = LIMITS) -> MalformedMessage:
    with pytest.raises(MalformedMessage) as caught:
        decode(data.encode() if isinstance(data, str) else data, limits)
    return caught.value


def _decode_with_notes(data: str) -> tuple[Message | Batch, list[str]]:
    notes: list[str] = []
    return decode(data.encode(), LIMITS, notes=notes), notes


# Kinds of messages


@pytest.mark.spec(
    "jsonrpc.messages-conform",
    "jsonrpc.request-id-type",
    "jsonrpc.notification-no-id",
    "jsonrpc.version-member",
    "jsonrpc.request-id-present",
    "jsonrpc.result-member",
    "jsonrpc.error-object-shape",
    "jsonrpc.error-data-any",
)
@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Request(1, "ping"), '{"jsonrpc":"2.0","id":1,"method":"ping"}'),
        (Request("a", "x/y", {"p": [1]}), '{"jsonrpc":"2.0","id":"a","method":"x/y","params":{"p":[1]}}'),
        (Request("", "ping", {}), '{"jsonrpc":"2.0","id":"","method":"ping","params":{}}'),
        (Request(-5, "ping"), '{"jsonrpc":"2.0","id":-5,"method":"ping"}'),
        (Request(2**70, "ping"), '{"jsonrpc":"2.0","id":1180591620717411303424,"method":"ping"}'),
        (Notification("n"), '{"jsonrpc":"2.0","method":"n"}'),
        (Notification("n", {"é": "\u2028"}), '{"jsonrpc":"2.0","method":"n","params":{"é":"\u2028"}}'),
        (ResultResponse("1", {}), '{"jsonrpc":"2.0","id":"1","result":{}}'),
        (
            ErrorResponse(3, ErrorObject(-32000, "no", {"a": 1})),
            '{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"no","data":{"a":1}}}',
        ),
        (ErrorResponse(0, ErrorObject(7, "")), '{"jsonrpc":"2.0","id":0,"error":{"code":7,"message":""}}'),
        (
            Batch((Request(1, "a"), Notification("b"))),
            '[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]',
        ),
    ],
)
def test_message_encoded_and_decoded(message: Message | Batch, data: str) -> None:
    assert encode(message, null_id=True) == data.encode()
    assert _decode_with_notes(data) == (message, [])
    assert decode(memoryview(data.encode())) == message


@pytest.mark.spec(
    "jsonrpc.error-id-unreadable", "jsonrpc.error-response-id", "schema.error-id-optional", "schema.error-id-required"
)
def test_error_without_id_encoded_per_revision() -> None:
    error = ErrorResponse(None, ErrorObject(-32700, "no"))

    assert encode(error, null_id=True) == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'
    assert encode(error, null_id=False) == b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}'
    for null_id in (True, False):
        assert decode(encode(error, null_id=null_id)) == error


def test_whitespace_and_byte_order_mark_around_message_ignored() -> None:
    assert _decode_with_notes(f" \r\n\t{PING.decode()} \r\n") == (Request(1, "ping"), [])
    assert _decode_with_notes(f"\ufeff{PING.decode()}") == (
        Request(1, "ping"),
        ["a byte order mark precedes the message"],
    )


@pytest.mark.parametrize("members", ['"Method":"tools/call"', '"method\\u0000":"tools/call"', '"ID":2', '"x":{"id":2}'])
def test_similar_member_names_ignored(members: str) -> None:
    assert _decode_with_notes('{"jsonrpc":"2.0","id":1,"method":"ping",' + members + "}") == (Request(1, "ping"), [])
    assert _decode_with_notes("{" + members + ',"jsonrpc":"2.0","id":1,"method":"ping"}') == (Request(1, "ping"), [])


# Tolerated deviations


@pytest.mark.parametrize(
    ("data", "message", "note"),
    [
        ('{"id":1,"method":"ping"}', Request(1, "ping"), "the member jsonrpc is missing"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
            Request(1, "ping"),
            "params is null or an empty array",
        ),
        ('{"jsonrpc":"2.0","method":"n","params":[]}', Notification("n"), "params is null or an empty array"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"ping","result":null,"error":null}',
            Request(1, "ping"),
            "a result or an error of null is present beside a method",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}',
            ResultResponse(1, {"a": 1}),
            "a response has both a result and an error, one of them null",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"method":null,"result":null,"error":{"code":1,"message":"m"}}',
            ErrorResponse(1, ErrorObject(1, "m")),
            "a response has both a result and an error, one of them null",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"error":{"code":"-32601","message":"m"}}',
            ErrorResponse(1, ErrorObject(-32601, "m")),
            "an error code is a string or has a fraction",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32601.0,"message":"m"}}',
            ErrorResponse(1, ErrorObject(-32601, "m")),
            "an error code is a string or has a fraction",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"error":{"code":1}}',
            ErrorResponse(1, ErrorObject(1, "")),
            "an error has no message",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1,"b":2}}}',
            ResultResponse(1, {"a": {"b": 2}}),
            "a member of an object in a response is repeated; the last one is used",
        ),
    ],
)
def test_deviation_with_clear_meaning_tolerated_and_noted(data: str, message: Message, note: str) -> None:
    assert _decode_with_notes(data) == (message, [note])
    assert decode(data.encode()) == message


# Rejected messages


@pytest.mark.spec("jsonrpc.parse-error", "jsonrpc.parse-error-code", "jsonrpc.utf8")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"Server started",
        b"{",
        PING + b"\0",
        PING + PING,
        b"\0" + PING,
        b"\xef\xbb\xbf\xef\xbb\xbf" + PING,
        b"\xef\xbb\xbf",
        b"\xff\xfe" + PING.decode().encode("utf-16-le"),
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
        rb'{"jsonrpc":"2.0","id":1,"method":"\ud800"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":-Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a\nb"}',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":01,"method":"a"}',
    ],
)
def test_invalid_json_returns_parse_error(data: bytes) -> None:
    bad = _get_malformed(data)

    assert bad.code == -32700
    assert bad.reply == ErrorResponse(None, ErrorObject(-32700, "the bytes are not JSON in UTF-8"))
    assert bad.message.startswith("the bytes are not JSON in UTF-8: ")
    assert bad.excerpt == data[:200]
    assert (bad.__cause__, bad.__context__) == (None, None), "an exception that keeps the whole message in memory"


@pytest.mark.spec("jsonrpc.invalid-request-error", "jsonrpc.invalid-request-code", "jsonrpc.request-id-not-null")
@pytest.mark.parametrize(
    ("data", "echoed", "message"),
    [
        ("5", None, "a message must be a JSON object"),
        ('"ping"', None, "a message must be a JSON object"),
        ("null", None, "a message must be a JSON object"),
        ("{}", None, "a message must have a method, a result or an error"),
        ('{"id":5}', 5, "a message must have a method, a result or an error"),
        ('{"jsonrpc":"1.0","id":"a","method":"ping"}', "a", 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":2.0,"id":1,"method":"ping"}', 1, 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":null,"id":1,"method":"ping"}', 1, 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":"2.0","id":1,"method":5}', 1, "method must be a string"),
        ('{"jsonrpc":"2.0","method":["n"]}', None, "method must be a string"),
        ('{"jsonrpc":"2.0","id":1,"method":null}', 1, "a message must have a method, a result or an error"),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None, "the id of a request must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None, "the id of a request must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":1.0,"method":"ping"}', None, "the id of a request must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, "the id of a request must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":1e3,"method":"ping"}', None, "the id of a request must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, "the id of a request must be a string or an integer"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
            1,
            "a message with a method must have no result and no error",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}',
            1,
            "a message with a method must have no result and no error",
        ),
        ('{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', 1, "the member 'method' is repeated"),
        ('{"jsonrpc":"2.0","id":1,"method":"a","m\\u0065thod":"b"}', 1, "the member 'method' is repeated"),
        ('{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}', None, "the member 'id' is repeated"),
        ('{"jsonrpc":"2.0","id":1,"\\u0069d":1,"method":"a"}', None, "the member 'id' is repeated"),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1},"params":{}}', 1, "the member 'params' is repeated"),
        ('{"x":1,"jsonrpc":"2.0","id":1,"method":"a","x":1}', 1, "the member 'x' is repeated"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","name":"evil"}}',
            1,
            "the member 'name' of an object is repeated",
        ),
        (
            '{"jsonrpc":"2.0","id":1,"method":"a","params":[{"' + "k" * 99 + '":1,"' + "k" * 99 + '":2}]}',
            1,
            "k" * 40 + "' of",
        ),
    ],
)
def test_json_not_message_returns_invalid_request(data: str, echoed: RequestId | None, message: str) -> None:
    bad = _get_malformed(data)

    assert bad.code == -32600
    assert message in bad.message
    assert bad.reply == ErrorResponse(echoed, ErrorObject(-32600, bad.message))
    assert type(bad.reply.id) is type(echoed)
    assert bad.excerpt == data.encode()[:200]


@pytest.mark.spec("jsonrpc.invalid-params-error", "jsonrpc.invalid-params-code", "schema.params-object")
@pytest.mark.parametrize("params", ["[1]", '"x"', "0", "false", "[{}]"])
def test_params_not_object_return_invalid_params(params: str) -> None:
    bad = _get_malformed('{"jsonrpc":"2.0","id":7,"method":"ping","params":' + params + "}")

    assert bad.code == -32602
    assert bad.reply == ErrorResponse(7, ErrorObject(-32602, "params must be an object"))


@pytest.mark.spec("jsonrpc.notification-no-response")
@pytest.mark.parametrize(
    "data",
    [
        '{"jsonrpc":"2.0","method":"n","params":[1]}',
        '{"jsonrpc":"1.0","method":"n"}',
        '{"jsonrpc":"2.0","method":"n","method":"n"}',
        '{"jsonrpc":"2.0","method":"n","result":{}}',
    ],
)
def test_malformed_notification_has_no_reply(data: str) -> None:
    assert _get_malformed(data).reply is None


@pytest.mark.spec(
    "jsonrpc.response-result-or-error",
    "jsonrpc.response-not-both",
    "jsonrpc.result-xor-error",
    "jsonrpc.result-member",
    "jsonrpc.error-object-shape",
    "schema.result-object",
    "schema.error-object",
)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}', "either a result or an error"),
        ('{"jsonrpc":"2.0","id":1,"result":null,"error":null}', "either a result or an error"),
        ('{"jsonrpc":"2.0","id":1,"error":null}', "an error must be an object"),
        ('{"jsonrpc":"2.0","id":1,"error":"boom"}', "an error must be an object"),
        ('{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}', "the code of an error must be an integer"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"m"}}', "the code of an error must be an integer"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}', "the code of an error must be an integer"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":"x1","message":"m"}}', "the code of an error must be an integer"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":"' + "1" * 5_000 + '","message":"m"}}', "must be an integer"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":5}}', "the message of an error must be a string"),
        ('{"jsonrpc":"2.0","id":1,"result":null}', "a result must be an object, not null"),
        ('{"jsonrpc":"2.0","id":1,"result":[]}', "a result must be an object"),
        ('{"jsonrpc":"2.0","id":1,"result":"ok"}', "a result must be an object"),
        ('{"jsonrpc":"2.0","result":{}}', "a result must have the id of its request"),
        ('{"jsonrpc":"2.0","id":null,"result":{}}', "a result must have the id of its request"),
        ('{"jsonrpc":"2.0","id":1.0,"result":{}}', "the id of a response must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":false,"error":{"code":1,"message":"m"}}', "the id of a response must be"),
        ('{"jsonrpc":"2.0","id":"' + "x" * 257 + '","result":{}}', "Limits.id_chars"),
        ('{"jsonrpc":"3.0","id":1,"result":{}}', 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":"2.0","id":1,"method":5,"result":{}}', "method must be a string"),
        ('{"jsonrpc":"2.0","id":1,"id":2,"result":{}}', "the member 'id' is repeated"),
        ('{"jsonrpc":"2.0","id":1,"result":{"a":1},"result":{}}', "the member 'result' is repeated"),
    ],
)
def test_malformed_response_has_no_reply(data: str, message: str) -> None:
    bad = _get_malformed(data)

    assert message in bad.message
    assert bad.code == -32600
    assert bad.reply is None


# Limits


@pytest.mark.parametrize(
    ("data", "limits", "setting", "code", "echoed"),
    [
        (PING, Limits(message_bytes=len(PING) - 1), "message_bytes", -32700, None),
        (b"[" * 10 + b"]" * 10, Limits(nesting_depth=3), "nesting_depth", -32700, None),
        (PING[:-1] + b',"params":{"a":{"b":[]}}}', Limits(nesting_depth=3), "nesting_depth", -32700, 1),
        (b"[" * 100_000 + b"]" * 100_000, LIMITS, "nesting_depth", -32700, None),
        (b'{"a":' * 1_000_000, LIMITS, "nesting_depth", -32700, None),
        (PING[:-1] + b',"params":{"a":[1,2,3]}}', Limits(array_items=2), "array_items", -32700, 1),
        (PING, Limits(object_members=2), "object_members", -32700, 1),
        (b"[" + b",".join([PING] * 3) + b"]", Limits(batch_members=2), "batch_members", -32600, None),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 257 + b'","method":"a"}', LIMITS, "id_chars", -32600, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 257 + b',"method":"a"}', LIMITS, "id_chars", -32600, None),
    ],
)
def test_message_over_limit_names_setting(
    data: bytes, limits: Limits, setting: str, code: int, echoed: RequestId | None
) -> None:
    bad = _get_malformed(data, limits)

    assert isinstance(bad.__cause__, LimitExceeded)
    assert bad.__cause__.setting == f"Limits.{setting}"
    assert bad.__cause__.allowed == getattr(limits, setting)
    assert bad.__cause__.observed > bad.__cause__.allowed
    assert f"Limits.{setting}" in bad.message
    assert bad.code == code
    assert bad.reply == ErrorResponse(echoed, ErrorObject(code, bad.message))


def test_message_at_limits_accepted() -> None:
    limits = Limits(
        message_bytes=len(PING), nesting_depth=1, array_items=1, object_members=3, batch_members=1, id_chars=20
    )

    assert decode(PING, limits) == Request(1, "ping")
    assert decode(b"[" + PING + b"]", attrs.evolve(limits, message_bytes=99, nesting_depth=2)) == Batch(
        (Request(1, "ping"),)
    )
    for request_id in ("x" * 256, int("9" * 256)):
        assert decode(encode(Request(request_id, "a"), null_id=True)) == Request(request_id, "a")


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":[[[]]]}}', Limits(nesting_depth=3)),
        (b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"n"}]', Limits(batch_members=1)),
    ],
)
def test_response_or_notification_over_limit_has_no_reply(data: bytes, limits: Limits) -> None:
    assert _get_malformed(data, limits).reply is None


def test_million_members_and_large_values_decoded() -> None:
    wide = b"{" + b",".join([b'"%d":1' % n for n in range(1_000_000)]) + b"}"
    many = LIMITS.__class__(message_bytes=1 << 26, object_members=1_000_000)

    assert isinstance(_get_malformed(wide).__cause__, LimitExceeded)
    assert _get_malformed(wide, many).message == "a message must have a method, a result or an error"
    repeated = b'{"jsonrpc":"2.0","id":1,"method":"a",' + b",".join([b'"k":1'] * 150_000) + b"}"
    assert _get_malformed(repeated).message == "the member 'k' is repeated"
    escaped = b'{"jsonrpc":"2.0","method":"' + b"\\u003a" * 1_000_000 + b'"}'
    assert decode(escaped, LIMITS) == Notification(":" * 1_000_000)


_OVER_A_MIB: Final = "x" * 2**20


def test_large_request_repeated_member_rejected_without_id() -> None:
    bad = _get_malformed(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"%b"}' % _OVER_A_MIB.encode())
    assert bad.message == "a member of an object is repeated"
    assert bad.reply == ErrorResponse(None, ErrorObject(-32600, bad.message))


def test_large_response_repeated_member_has_answered_id() -> None:
    bad = _get_malformed(b'{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":"%b"}}' % _OVER_A_MIB.encode())
    assert bad.answers == 1
    assert bad.reply is None


# Lines with an invalid message, followed by a valid one


ATTACKS = [
    b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    rb'"\ud800"',
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"9" * 5_000,
    b'{"a":' * 150 + b"1" + b"}" * 150,
    b"[" * 1_000 + b"]" * 1_000,
    b"[" * 100_000 + b"]" * 100_000,
    b"[" * 1_000_000 + b"]" * 1_000_000,
    b"{" + b",".join([b'"%d":1' % n for n in range(200_000)]) + b"}",
    b"\0",
    PING + b"\0",
    b"\xef\xbb\xbf",
    b"x" * (5 * 1024 * 1024),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=[repr(attack[:12]) for attack in ATTACKS])
def test_malformed_line_returns_one_error_next_message_decoded(attack: bytes) -> None:
    framer = LineFramer(Limits())
    outcomes: list[object] = []
    for part in framer.receive_data(b"\n" + attack + b"\r\n\n" + PING + b"\n"):
        if isinstance(part, LimitExceeded):
            outcomes.append(part)
        else:
            outcomes.append(_outcome(part))

    error, message = outcomes
    assert isinstance(error, LimitExceeded) or (isinstance(error, MalformedMessage) and error.reply is not None)
    assert message == Request(1, "ping")


def _outcome(data: bytes) -> Message | Batch | MalformedMessage:
    try:
        return decode(data)
    except MalformedMessage as bad:
        return bad


@pytest.mark.property
@given(st.binary() | st.text().map(str.encode))
def test_arbitrary_bytes_decoded_or_malformed(data: bytes) -> None:
    check_any_bytes(data)


def check_any_bytes(data: bytes) -> None:
    """Check that decoding raises only `MalformedMessage`, and that a decoded message can be encoded."""
    message = _outcome(data)
    if isinstance(message, MalformedMessage):
        assert message.reply is None or decode(encode(message.reply, null_id=True)) == message.reply
        return
    if isinstance(message, Batch):
        message = Batch(
            tuple(m for m in message.members if not isinstance(m, MalformedMessage)) or (Notification("n"),)
        )
    assert decode(encode(message, null_id=True)) == message


_pieces = st.sampled_from(
    [
        b'"jsonrpc":"2.0"',
        b'"id":1',
        b'"id":null',
        b'"method":"m"',
        b'"params":{}',
        b'"params":[]',
        b'"result":{}',
        b'"error":{"code":1,"message":""}',
        b'"result":null',
        b'"error":null',
        b'"\\u0069d":2',
        b'"x":99999999999999999999',
    ]
)


@pytest.mark.property
@given(st.lists(st.lists(_pieces, max_size=6), max_size=3), st.booleans(), st.data())
def test_damaged_message_decoded_or_malformed(members: list[list[bytes]], batch: bool, data: st.DataObject) -> None:
    text = b",".join(b"{" + b",".join(pieces) + b"}" for pieces in members)
    text = b"[" + text + b"]" if batch else text
    cut = data.draw(st.integers(0, len(text)))
    check_any_bytes(text[:cut] + data.draw(st.binary(max_size=2)) + text[cut + data.draw(st.integers(0, 2)) :])


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**250), 10**250)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=5), children, max_size=4),
    max_leaves=15,
)
_objects = st.dictionaries(st.text(max_size=8), _values, max_size=4)
_ids = st.integers(-(10**200), 10**200) | st.text(max_size=256)
_messages = (
    st.builds(Request, _ids, st.text(), st.none() | _objects)
    | st.builds(Notification, st.text(), st.none() | _objects)
    | st.builds(ResultResponse, _ids, _objects)
    | st.builds(ErrorResponse, st.none() | _ids, st.builds(ErrorObject, st.integers(), st.text(), _values))
)


@pytest.mark.property
@pytest.mark.spec("stdio.one-message-per-line", "jsonrpc.result-id-echo", "jsonrpc.error-id-echo")
@given(_messages | st.builds(Batch, st.lists(_messages, min_size=1, max_size=4).map(tuple)), st.booleans())
def test_message_round_trip_on_one_line(message: Message | Batch, null_id: bool) -> None:
    data = encode(message, null_id=null_id)

    assert LineFramer(Limits()).receive_data(frame(data)) == [data]
    notes: list[str] = []
    assert decode(data, notes=notes) == message
    assert notes == []
    json.loads(data)


# Batches


@pytest.mark.spec("batch.receive", "batch.element-kinds")
def test_batch_members_checked_separately() -> None:
    batch = decode(
        b'[{"jsonrpc":"2.0","id":1,"method":"a"}, 5, [], [[{}]], {"jsonrpc":"2.0","id":2,"method":7},'
        b' {"jsonrpc":"2.0","method":"n","params":5}, {"jsonrpc":"2.0","id":3,"result":{}}]'
    )

    assert isinstance(batch, Batch)
    assert batch.members[0] == Request(1, "a")
    assert batch.members[6] == ResultResponse(3, {})
    replies = [member.reply for member in batch.members if isinstance(member, MalformedMessage)]
    no_object = ErrorResponse(None, ErrorObject(-32600, "a message must be a JSON object"))
    assert replies == [no_object] * 3 + [ErrorResponse(2, ErrorObject(-32600, "method must be a string")), None]


@pytest.mark.spec("batch.empty-array")
def test_empty_batch_returns_one_error() -> None:
    bad = _get_malformed("[]")

    assert bad.reply == ErrorResponse(None, ErrorObject(-32600, "a batch must not be empty"))


def test_batch_repeated_member_rejected_entirely() -> None:
    bad = _get_malformed('[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"id":3,"method":"b"}]')

    assert bad.reply == ErrorResponse(None, ErrorObject(-32600, "the member 'id' of an object is repeated"))


@pytest.mark.parametrize("member", [None, MalformedMessage("no")])
def test_batch_empty_or_malformed_member_not_encoded(member: MalformedMessage | None) -> None:
    with pytest.raises(LocalProtocolError, match=r"a batch must not be empty|a MalformedMessage cannot be sent"):
        encode(Batch(() if member is None else (member,)), null_id=True)


# Messages that cannot be encoded


@pytest.mark.spec("jsonrpc.request-id-present", "jsonrpc.request-id-fractional")
@pytest.mark.parametrize("wrong", [True, 1.0, None, b"x"])
def test_invalid_id_not_encoded(wrong: object) -> None:
    request_id = cast("RequestId", wrong)  # the test needs a value of a wrong type
    for message in (Request(request_id, "a"), ResultResponse(request_id, {})):
        with pytest.raises(LocalProtocolError, match="an id must be a string or an integer"):
            encode(message, null_id=True)


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", 10**400, b"x"])
def test_value_not_json_not_encoded_path_in_error(value: object) -> None:
    params = cast("JsonObject", {"arguments": {"x": [value]}})  # the test needs a value of a wrong type
    with pytest.raises(LocalProtocolError, match=r"params\.arguments\.x\[0\]"):
        encode(Request(1, "a", params), null_id=True)


def test_encoded_fragment_copied_unchanged() -> None:
    fragment = orjson.Fragment(b'{"tools":[null]}')
    result = cast("JsonObject", fragment)  # a fragment in place of an object
    part: JsonObject = {"tools": cast("JsonValue", orjson.Fragment(b"[]"))}  # a fragment in place of an array

    assert encode(ResultResponse(1, result), null_id=True) == b'{"jsonrpc":"2.0","id":1,"result":{"tools":[null]}}'
    assert encode(ResultResponse(2**64, part), null_id=True) == (
        b'{"jsonrpc":"2.0","id":18446744073709551616,"result":{"tools":[]}}'
    )


@pytest.mark.parametrize("rest", ['"result": []', '"result": 1, "error": {"code": 1}', '"error": "no"'])
def test_malformed_response_has_answered_id(rest: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(b'{"jsonrpc": "2.0", "id": 7, %b}' % rest.encode())
    assert caught.value.answers == 7
    assert caught.value.reply is None


@pytest.mark.parametrize("value", [b"NaN", b"1e400", b'"\\ud800"', b'"\xff"', b"7" * 5_000, b"[" * 100_000, b'"\x00"'])
@pytest.mark.parametrize("member", [b"result", b"error"])
@pytest.mark.parametrize(
    ("template", "answers"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "%b": {"a": %b}}', 7),
        (b' {"id":"caf\xc3\xa9","%b":{"a":%b}}', "caf\u00e9"),
        (b'{"%b":{"a":%b},"jsonrpc":"2.0","id":-7}\r', -7),
        (b'{"jsonrpc":"2.0","%b":{"a":%b},"id":7}', 7),
        (b'\xef\xbb\xbf{"id":7,"%b":{"a":%b}}', 7),
        (b'{"jsonrpc":"2.0","id":null,"%b":{"a":%b}}', None),
        (b'{"jsonrpc":"2.0","id":' + b"7" * 500 + b',"%b":{"a":%b}}', None),
        (b'{"jsonrpc":"2.0","id":"\xff","%b":{"a":%b}}', None),
    ],
)
def test_undecodable_response_has_answered_id(
    template: bytes, answers: int | str | None, member: bytes, value: bytes
) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(template % (member, value))
    assert caught.value.code == -32700
    assert caught.value.answers == answers
    substitute = stand_in(caught.value)
    assert (substitute and substitute.id) == answers
    assert substitute is None or substitute.error.code == -32700


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"a","result":NaN}',
        b'{"jsonrpc":"2.0","method":"a","params":{"result":{"a":NaN},"id":7}}',
        b'{"result":{"a":NaN,"id":7}}',
        b'log: {"id":7,"result":NaN}',
        b'{"result":NaN',
    ],
)
def test_undecodable_message_not_response_has_no_answered_id(data: bytes) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(data)
    assert caught.value.answers is None
    assert caught.value.reply is not None


def test_message_with_only_id_may_be_response() -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(b'{"jsonrpc":"2.0","id":7}')
    assert caught.value.answers == 7
    assert caught.value.reply is not None
    with pytest.raises(MalformedMessage) as caught:
        decode(b'{"jsonrpc":"2.0","id":7,"method":null}')
    assert caught.value.answers is None


def test_malformed_request_has_no_answered_id() -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(b'{"jsonrpc": "2.0", "id": 7, "method": "a", "params": 1}')
    assert caught.value.answers is None


@pytest.mark.parametrize("message", [Request(1, "ping"), Batch((Request(1, "ping"), Notification("n")))])
def test_line_end_encoded_on_demand(message: Request | Batch) -> None:
    assert encode(message, null_id=True, line=True) == encode(message, null_id=True) + b"\n"


@pytest.mark.parametrize("number", ["1" + "0" * 309, "-1" + "0" * 309, "9" * 5_000, "1e400", "-1e999"])
@pytest.mark.parametrize(
    ("message", "id"),
    [
        ('{"jsonrpc": "2.0", "id": 7, "method": "a", "params": {"x": [NUMBER]}}', 7),
        ('{"jsonrpc": "2.0", "params": {"x": {"y": NUMBER, "z": 0.5}}, "id": "seven", "method": "a"}', "seven"),
        ('{"jsonrpc": "2.0", "id": 7, "result": {"x": NUMBER}}', 7),
        ('{"jsonrpc": "2.0", "id": NUMBER, "method": "a"}', None),
        ('{"jsonrpc": "2.0", "id": 7, "method": "a", "params": {"x": [NUMBER}}', None),
        ("[" * 100_000 + "NUMBER", None),
    ],
)
def test_number_beyond_float_rejected_with_id(message: str, id: str | int | None, number: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(message.replace("NUMBER", number).encode())
    reply = caught.value.reply
    assert (caught.value.answers if reply is None else reply.id) == id
    if id is not None:
        assert caught.value.message == "a number exceeds the range of a 64-bit float"
