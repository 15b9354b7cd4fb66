"""Parsing and writing of server-sent events: independent of portions, with bounded memory."""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.framing.sse import Event, SseParser, encode_comment, encode_event
from mcp_core.limits import SERVER_LIMITS, Limits

SMALL = Limits(event_bytes=20)


def _parse(
    data: bytes, cuts: list[int], limits: Limits = SERVER_LIMITS
) -> tuple[list[Event | str], str, int | None, int]:
    """Return the events, the last id, the retry time, and the number of bytes discarded at the end."""
    parser = SseParser(limits)
    events: list[Event | LimitExceeded] = []
    start = 0
    for cut in [*sorted(cuts), len(data)]:
        events += parser.receive_data(data[start:cut])
        start = cut
    discarded = parser.receive_eof()
    texts = [str(item) if isinstance(item, LimitExceeded) else item for item in events]
    return texts, parser.last_event_id, parser.retry, discarded


def _events(data: bytes, limits: Limits = SERVER_LIMITS) -> list[Event | str]:
    whole = _parse(data, [], limits)
    assert _parse(data, list(range(len(data))), limits) == whole
    return whole[0]


@pytest.mark.spec("http.sse-parse-standard")
@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b"data: a\n\n", [Event(data=b"a")]),
        (b"data:a\n\n", [Event(data=b"a")]),
        (b"data:  a \n\n", [Event(data=b" a ")]),
        (b"data: a\r\n\r\n", [Event(data=b"a")]),
        (b"data: a\r\r", [Event(data=b"a")]),
        (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [Event(data=b"a"), Event(data=b"b"), Event(data=b"c")]),
        (b"data: a\ndata: b\rdata:\r\n\n", [Event(data=b"a\nb\n")]),
        (b"data\n\n", [Event()]),
        (b"data\ndata\n\n", [Event(data=b"\n")]),
        (b"data: a:b\n\n", [Event(data=b"a:b")]),
        (b"event: endpoint\ndata: /x\n\n", [Event(event="endpoint", data=b"/x")]),
        (b"event\ndata: a\n\nevent: \ndata: b\n\n", [Event(data=b"a"), Event(data=b"b")]),
        (b"event: a\nevent: b\ndata: c\n\n", [Event(event="b", data=b"c")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [Event(id="1", data=b"a"), Event(data=b"b")]),
        (b"id: 1\x002\ndata: a\n\n", [Event(data=b"a")]),
        (b"id\ndata: a\n\n", [Event(id="", data=b"a")]),
        (b"retry: 3000\ndata: a\n\n", [Event(retry=3000, data=b"a")]),
        (b"retry: 3s\nretry: -1\nretry: \nretry: \xd9\xa3\ndata: a\n\n", [Event(data=b"a")]),
        (b"retry: " + b"9" * 5_000 + b"\ndata: a\n\n", [Event(data=b"a")]),
        (b"retry: 10\n\n", [Event(retry=10)]),
        (b"event: ping\n\n", [Event(event="ping")]),
        (b": comment\n\n:\n: \ndata: a\n: in between\n\n", [Event(data=b"a")]),
        (b"Data: x\nfoo: bar\n data: y\nfoo\ndata: a\n\n", [Event(data=b"a")]),
        (b"foo: bar\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [Event(data=b"a")]),
        (b"\xef\xbb\xbf: c\n\xef\xbb\xbfdata: a\n\n", []),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [Event(data=b"b")]),
        (b"\n\n\r\n\r\ndata: a\n\n", [Event(data=b"a")]),
        (
            "data: \u2028\u00e9\U0001f600\x0b\x0c\x1c\n\n".encode(),
            [Event(data="\u2028\u00e9\U0001f600\x0b\x0c\x1c".encode())],
        ),
        (b"event: \xff\nid: \xc3\ndata: \xff\n\n", [Event(event="\ufffd", id="\ufffd", data=b"\xff")]),
    ],
)
def test_event_stream_parsed_per_standard(stream: bytes, events: list[Event]) -> None:
    assert _events(stream) == events


@pytest.mark.spec("sse.priming-event", "sse.data-is-json-rpc")
@pytest.mark.parametrize("stream", [b"id: 7\ndata:\n\n", b"id: 7\ndata: \n\n", b"id: 7\n\n"])
def test_event_with_id_only_returned_without_data(stream: bytes) -> None:
    assert _events(stream) == [Event(id="7", data=b"")]


def test_last_event_id_and_retry_kept_after_event() -> None:
    stream = b"id: 1\nretry: 5\ndata: a\n\ndata: b\n\nid: 3\nretry: 9\ndata: unfinished"

    events, last_id, retry, discarded = _parse(stream, [])

    assert events == [Event(id="1", retry=5, data=b"a"), Event(data=b"b")]
    assert (last_id, retry) == ("1", 5)
    assert discarded == len("id: 3" + "retry: 9" + "data: unfinished")
    assert _parse(stream + b"\n\n", [])[1:] == ("3", 9, 0)
    assert _parse(b"id: 1\n\nid:\n\n", [])[1] == ""


@pytest.mark.parametrize(
    ("stream", "discarded"),
    [
        (b"data: a\n\n", 0),
        (b"data: a\n", 7),
        (b"data: a", 7),
        (b"data: a\r", 7),
        (b"data: a\n\r", 0),
        (b": endless comment", 0),
        (b"data: a\n: endless comment", 7),
        (b"data: " + b"x" * 100, 106),
        (b"data: " + b"x" * 100 + b"\ndata: 1", 113),
    ],
)
def test_truncated_event_discarded_and_size_reported(stream: bytes, discarded: int) -> None:
    for cuts in ([], list(range(len(stream)))):
        assert _parse(stream, cuts, SMALL)[3] == discarded


def _limit_error(size: int) -> str:
    return f"event size in bytes: {size} is over the limit of 20; the setting is Limits.event_bytes"


@pytest.mark.parametrize(
    ("stream", "size"),
    [
        (b"data: " + b"x" * 15, 21),
        (b"data: " + b"x" * 500, 506),
        (b"data: 1\r\ndata: 2\r\ndata: 3", 21),
        (b"data: " + b"x" * 500 + b"\nid: 7\ndata: y", 518),
        (b"\xef\xbb\xbfdata: " + b"x" * 15, 21),
        (b"\xef\xbb\xbfdata: " + b"x" * 100, 106),
        (b"unknown: " + b"x" * 12, 21),
    ],
)
def test_event_over_limit_skipped_and_size_reported(stream: bytes, size: int) -> None:
    assert _events(stream + b"\n\ndata: b\n\n", SMALL) == [_limit_error(size), Event(data=b"b")]


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 14, b"data: 1\ndata:2\ndata:3\n", b"\xef\xbb\xbfdata: " + b"x" * 14]
)
def test_event_of_limit_size_accepted(stream: bytes) -> None:
    (event,) = _events(stream + b"\n\n", SMALL)

    assert isinstance(event, Event)


@pytest.mark.parametrize("stream", [b"id: 7\ndata: " + b"x" * 50, b"data: " + b"x" * 50 + b"\nid: 7"])
def test_event_over_limit_updates_last_event_id(stream: bytes) -> None:
    assert _parse(stream + b"\n\n", [], SMALL)[1] == "7"


@pytest.mark.spec("http.sse-client-ignores-comments")
@pytest.mark.parametrize("start", [b": ", b"\xef\xbb\xbf:"])
def test_comments_do_not_count_toward_limit(start: bytes) -> None:
    stream = start + b"x" * 1_000 + b"\ndata: 1\n" + b": y" * 1_000 + b"\n\n"

    assert _events(stream, SMALL) == [Event(data=b"1")]


@pytest.mark.parametrize("start", [b":", b"data: ", b"\xef\xbb\xbf:", b"data: 1\n\n:"])
def test_line_without_end_not_buffered(start: bytes) -> None:
    parser = SseParser(Limits(event_bytes=1024 * 1024))
    portion = b"x" * 65536
    parser.receive_data(start)
    tracemalloc.start()
    try:
        for _ in range(1024):
            assert parser.receive_data(portion) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 3 * 1024 * 1024
    assert parser.receive_data(b"\n\ndata: next\n\n")[-1] == Event(data=b"next")


def test_event_without_end_not_buffered() -> None:
    parser = SseParser(Limits(event_bytes=64 * 1024))
    portion = b"data: " + b"x" * 1018 + b"\n"
    tracemalloc.start()
    try:
        for _ in range(4096):
            assert parser.receive_data(portion) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 256 * 1024
    (error,) = parser.receive_data(b"\n")
    assert isinstance(error, LimitExceeded)
    assert (error.observed, error.setting) == (4096 * 1024, "Limits.event_bytes")


def test_receive_after_eof_raises() -> None:
    parser = SseParser(SMALL)
    parser.receive_eof()

    with pytest.raises(LocalProtocolError, match="after the end"):
        parser.receive_data(b"data: a\n\n")
    with pytest.raises(LocalProtocolError, match="has already ended"):
        parser.receive_eof()


_pieces = st.lists(
    st.sampled_from(
        [
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"data",
            b"data: ",
            b"data:x",
            b"id: 1",
            b"id:\x00",
            b"event: e",
            b"retry: 1",
            b":",
            b" ",
            b"\xef\xbb\xbf",
            b"y" * 15,
            b"z" * 30,
            "é".encode(),
            b"\xff",
        ]
    )
).map(b"".join)


@pytest.mark.property
@given(_pieces | st.binary(), st.data())
@example(b"\r\n\r\n", None)
def test_events_independent_of_portions(data: bytes, draw: st.DataObject | None) -> None:
    cuts = [] if draw is None else draw.draw(st.lists(st.integers(0, len(data))))
    check_portions(data, cuts)


def check_portions(data: bytes, cuts: list[int]) -> None:
    """Check that the events do not depend on portions, and that nothing is raised."""
    for limits in (SMALL, SERVER_LIMITS):
        whole = _parse(data, [], limits)
        assert _parse(data, list(range(len(data))), limits) == whole
        assert _parse(data, cuts, limits) == whole


_line = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=10)
_data = st.binary(max_size=30).map(lambda item: item.replace(b"\r", b"\n"))


@pytest.mark.property
@given(_data, st.none() | _line, st.none() | _line, st.none() | st.integers(0, 10**15 - 1), _line)
def test_encoded_event_parsed(data: bytes, event: str | None, id: str | None, retry: int | None, comment: str) -> None:
    stream = encode_comment(comment) + encode_event(data, event=event, id=id, retry=retry) + encode_comment()

    assert _events(stream) == [Event(data=data, event=event or "message", id=id, retry=retry)]


def test_event_encoding_format() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert encode_event(b"{}", event="message", id="1", retry=5) == b"event: message\nid: 1\nretry: 5\ndata: {}\n\n"
    assert encode_event(b"a\nb") == b"data: a\ndata: b\n\n"
    assert encode_event(id="1") == b"id: 1\ndata: \n\n"
    assert encode_comment() == b": \n\n"
    assert encode_comment("ping \ud800") == b": ping ?\n\n"


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_event_field_with_line_break_raises(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="the name of an event must be one line"):
        encode_event(event=text)
    with pytest.raises(LocalProtocolError, match="the id of an event must be one line"):
        encode_event(id=text)
    with pytest.raises(LocalProtocolError, match="the text of a comment must be one line"):
        encode_comment(text)


def test_event_field_not_representable_raises() -> None:
    for data in (b"a\rb", b"a\r\nb"):
        with pytest.raises(LocalProtocolError, match="must not contain CR"):
            encode_event(data)
    with pytest.raises(LocalProtocolError, match="lone surrogate"):
        encode_event(id="\ud800")
    with pytest.raises(LocalProtocolError, match="lone surrogate"):
        encode_event(event="\ud800")
    with pytest.raises(LocalProtocolError, match="must not be negative: -1"):
        encode_event(retry=-1)


@pytest.mark.parametrize("line", [b"\n", b":\n", b": keep-alive\n\n", b"\r\n"])
def test_empty_lines_and_comments_parsed_without_calls_per_line(line: bytes) -> None:
    parser = SseParser(Limits())
    calls: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    data = line * 10_000
    sys.setprofile(count)
    try:
        events = parser.receive_data(data)
    finally:
        sys.setprofile(None)
    assert events == []
    assert len(calls) <= 3
    assert parser.receive_data(b"data: x\n\n") == [Event(data=b"x")]
