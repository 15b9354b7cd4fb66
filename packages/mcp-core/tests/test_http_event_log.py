from __future__ import annotations

import tracemalloc

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcp_core.codec import encode
from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.http.event_log import EventLog, LoggedEvent, LoggedStream, Replay, event_id, parse_event_id
from mcp_core.jsonrpc.messages import Notification, RequestId
from mcp_core.limits import Limits


def make_log(events: int = 100, size: int = 10_000) -> EventLog:
    return EventLog(Limits(replay_events=events, replay_bytes=size))


def data_after(log: EventLog, stream: int, number: int = 0) -> list[bytes]:
    replay = log.after(stream, number)
    assert replay is not None
    return [event.data for event in replay.events]


# --- event ids


@pytest.mark.spec("resume.event-id-unique", "resume.event-id-encodes-stream", "resume.event-id-per-stream")
@given(stream=st.integers(0, 10**18 - 1), number=st.integers(0, 10**18 - 1))
def test_event_id_contains_stream_and_number(stream: int, number: int) -> None:
    assert parse_event_id(event_id(stream, number)) == (stream, number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-2-3",
        "01-2",
        "1-02",
        " 1-2",
        "1-2\n",
        "1_0-2",
        "+1-2",
        "1--2",
        "a-b",
        "٣-٤",
        "1-" + "9" * 19,
    ],
)
def test_event_id_malformed_returns_none(text: str) -> None:
    assert parse_event_id(text) is None


@given(st.text())
def test_event_id_parsed_only_in_canonical_form(text: str) -> None:
    parsed = parse_event_id(text)
    assert parsed is None or event_id(*parsed) == text


# --- streams


@pytest.mark.spec("resume.replay")
def test_events_after_number_replayed_in_order() -> None:
    events = make_log()
    events.begin(1, [7])
    assert [events.append(1, b""), events.append(1, b"one"), events.append(1, b"two", answers=7)] == [1, 2, 3]
    assert events.after(1, 1) == Replay((LoggedEvent(2, b"one"), LoggedEvent(3, b"two", 7)), 0)
    assert events.after(1, 3) == Replay((), 0)
    assert data_after(events, 1) == [b"", b"one", b"two"]


def test_short_events_use_little_memory() -> None:
    events = make_log(events=1_000, size=1_000_000)
    events.begin(1, [7])
    tracemalloc.start()
    try:
        for number in range(1_000):
            events.append(1, encode(Notification("notifications/progress", {"progress": number}), null_id=False))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert events.events == 1_000
    assert taken < 1_000_000


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 9_000])
def test_event_of_any_size_replayed_unchanged(size: int) -> None:
    events = make_log()
    events.begin(1, [7])
    events.append(1, b"x" * size)
    assert data_after(events, 1) == [b"x" * size]


@pytest.mark.spec("resume.no-cross-stream")
def test_streams_replayed_separately() -> None:
    events = make_log()
    events.begin(1, [1])
    events.begin(2, ["1"])
    events.append(1, b"a")
    events.append(2, b"b")
    events.append(1, b"c")
    assert data_after(events, 1) == [b"a", b"c"]
    assert data_after(events, 2) == [b"b"]


def test_replay_does_not_change_log() -> None:
    events = make_log()
    events.begin(1, [1])
    events.append(1, b"a")
    assert events.after(1, 1) == events.after(1, 1)
    assert data_after(events, 1) == [b"a"]


@pytest.mark.parametrize(("stream", "number"), [(2, 0), (1, 2), (1, -1), (0, 0)])
def test_replay_of_unknown_stream_or_number_returns_none(stream: int, number: int) -> None:
    events = make_log()
    events.begin(1)
    events.append(1, b"a")
    assert events.after(stream, number) is None


def test_stream_reports_last_number_and_pending_requests() -> None:
    events = make_log()
    events.begin(4, [2, "2", 3])
    events.append(4, b"x")
    events.append(4, b"y", answers="2")
    assert events.find(4) == LoggedStream(4, 2, (2, 3))
    assert events.find(5) is None
    events.begin(5)
    assert events.streams() == (LoggedStream(4, 2, (2, 3)), LoggedStream(5, 0, ()))


def test_request_ids_of_different_types_distinguished() -> None:
    events = make_log()
    events.begin(1, [1])
    with pytest.raises(LocalProtocolError, match="stream 1 has no pending request '1'"):
        events.append(1, b"x", answers="1")
    with pytest.raises(LocalProtocolError):
        events.append(1, b"x", answers=True)
    assert events.append(1, b"x", answers=1) == 1


def test_response_repeated_raises() -> None:
    events = make_log()
    events.begin(1, [1])
    events.append(1, b"x", answers=1)
    with pytest.raises(LocalProtocolError):
        events.append(1, b"x", answers=1)
    assert events.events == 1


def test_stream_begun_twice_raises() -> None:
    events = make_log()
    events.begin(1, [1])
    with pytest.raises(LocalProtocolError, match="stream 1 already exists"):
        events.begin(1)


def test_append_to_unknown_or_ended_stream_raises() -> None:
    events = make_log()
    with pytest.raises(LocalProtocolError, match="stream 1 does not exist"):
        events.append(1, b"x")
    events.begin(1, [1])
    events.append(1, b"x")
    events.delivered(1)
    with pytest.raises(LocalProtocolError, match="stream 1 is over"):
        events.append(1, b"y")


def test_ended_stream_has_no_pending_requests_and_is_replayed() -> None:
    events = make_log()
    events.begin(1, [1])
    events.append(1, b"x")
    events.delivered(1)
    events.delivered(1)
    assert events.find(1) == LoggedStream(1, 1, ())
    assert data_after(events, 1) == [b"x"]


def test_ended_stream_without_events_removed() -> None:
    events = make_log()
    events.begin(1, [1])
    events.delivered(1)
    events.delivered(2)
    assert events.streams() == ()


@pytest.mark.spec("sse.no-broadcast")
def test_standalone_stream_replaced_by_next_one() -> None:
    events = make_log()
    events.begin(1)
    events.append(1, b"x")
    events.begin(2, [1])
    events.begin(3)
    with pytest.raises(LocalProtocolError, match="stream 1 is over"):
        events.append(1, b"y")
    assert data_after(events, 1) == [b"x"]
    events.delivered(3)
    events.begin(4)
    assert [stream.stream for stream in events.streams()] == [1, 2, 4]


# --- bounds


def test_shed_keeps_undelivered_responses_and_newest_event() -> None:
    events = make_log()
    events.begin(1, ["a", "b"])
    events.begin(2, ["c"])
    events.append(1, b"plain")
    events.append(1, b"answer", "a")
    events.append(2, b"over", "c")
    events.delivered(2)
    events.append(1, b"newest")
    for _ in range(2):
        events.shed()
        assert events.size == len(b"answernewest")
        assert events.events == 2
        assert events.find(2) is None
        assert data_after(events, 1, 1) == [b"answer", b"newest"]


def test_delivered_streams_evicted_first_oldest_first() -> None:
    events = make_log(events=4)
    events.begin(9)
    events.append(9, b"keep")
    for stream in (1, 2):
        events.begin(stream, [stream])
        events.append(stream, b"x", answers=stream)
    events.delivered(2)
    events.delivered(1)
    events.append(9, b"keep too")
    events.append(9, b"one more")
    assert events.find(2) is None
    assert events.after(2, 0) is None
    assert data_after(events, 1) == [b"x"]
    assert data_after(events, 9) == [b"keep", b"keep too", b"one more"]


def test_events_without_response_evicted_next_and_gap_reported() -> None:
    events = make_log(events=3)
    events.begin(1, [1])
    events.append(1, b"a")
    events.append(1, b"b")
    events.append(1, b"the answer", answers=1)
    events.begin(2, [2])
    events.append(2, b"c")
    assert events.after(1, 0) == Replay((LoggedEvent(2, b"b"), LoggedEvent(3, b"the answer", 1)), 1)
    events.append(2, b"d")
    assert events.after(1, 0) == Replay((LoggedEvent(3, b"the answer", 1),), 2)
    assert events.after(1, 1) == Replay((LoggedEvent(3, b"the answer", 1),), 1)
    assert events.after(1, 2) == Replay((LoggedEvent(3, b"the answer", 1),), 0)


def test_undelivered_response_never_evicted() -> None:
    events = make_log(events=1)
    events.begin(1, [1])
    events.begin(2, [2])
    events.append(1, b"first", answers=1)
    events.append(2, b"note")
    events.append(2, b"second", answers=2)
    assert data_after(events, 1) == [b"first"]
    assert events.after(2, 0) == Replay((LoggedEvent(2, b"second", 2),), 1)


def test_newest_event_kept_regardless_of_size() -> None:
    events = make_log(size=10)
    events.begin(1)
    events.append(1, b"small")
    events.append(1, b"x" * 11)
    assert events.after(1, 0) == Replay((LoggedEvent(2, b"x" * 11),), 1)
    assert (events.events, events.size) == (1, 11)
    events.append(1, b"y")
    assert (events.events, events.size) == (1, 1)


def test_log_over_limit_evicts_stream_when_delivered() -> None:
    events = make_log(events=1)
    for id in (1, 2):
        events.begin(id, [id])
    for id in (1, 2):
        events.append(id, b"x", answers=id)
    events.delivered(1)
    assert events.find(1) is None
    events.delivered(2)
    assert data_after(events, 2) == [b"x"]


def test_log_size_in_bytes_bounded() -> None:
    events = make_log(size=10)
    events.begin(1)
    for letter in (b"aaaa", b"bbbb", b"cc"):
        events.append(1, letter)
    assert events.size == 10
    events.append(1, b"d")
    assert data_after(events, 1) == [b"bbbb", b"cc", b"d"]


def test_begin_while_undelivered_responses_fill_log_raises() -> None:
    events = make_log(events=2)
    for id in (1, 2):
        events.begin(id, [id])
    for id in (1, 2):
        events.append(id, b"x", answers=id)
    with pytest.raises(
        LimitExceeded,
        match=r"undelivered responses of one session: 2 is over the limit of 2; the setting is Limits.replay_events",
    ):
        events.begin(3, [3])
    assert events.find(3) is None
    events.delivered(1)
    events.begin(3, [3])
    events.append(3, b"x", answers=3)
    with pytest.raises(LimitExceeded):
        events.begin(4, [4])


def test_begin_while_undelivered_bytes_fill_log_raises() -> None:
    events = make_log(size=10)
    events.begin(1, [1])
    events.append(1, b"x" * 10, answers=1)
    with pytest.raises(
        LimitExceeded, match=r"in bytes: 10 is over the limit of 10; the setting is Limits.replay_bytes"
    ):
        events.begin(2)
    events.delivered(1)
    events.begin(2)


# --- against a model


@attrs.define
class ModelStream:
    pending: list[RequestId]
    last: int = 0
    all: list[LoggedEvent] = attrs.field(factory=list)
    ended: bool = False


class EventLogMachine(RuleBasedStateMachine):
    """The log compared with a model that keeps everything: a missing event must have been removable."""

    def __init__(self) -> None:
        super().__init__()
        self.log = EventLog(Limits(replay_events=5, replay_bytes=40))
        self.model: dict[int, ModelStream] = {}
        self.count = 0
        self.newest = 0

    def undelivered(self) -> list[LoggedEvent]:
        return [
            event
            for stream_model in self.model.values()
            if not stream_model.ended
            for event in stream_model.all
            if event.answers is not None
        ]

    @rule(pending=st.integers(0, 2))
    def begin(self, pending: int) -> None:
        self.count += 1
        requests: list[RequestId] = [f"{self.count}.{n}" for n in range(pending)]
        undelivered = self.undelivered()
        if len(undelivered) >= 5 or sum(len(event.data) for event in undelivered) >= 40:
            with pytest.raises(LimitExceeded):
                self.log.begin(self.count, requests)
            return
        self.log.begin(self.count, requests)
        if not requests:
            for stream_model in self.model.values():
                stream_model.ended = stream_model.ended or self.is_standalone(stream_model)
        self.model[self.count] = ModelStream(requests)

    def is_standalone(self, stream_model: ModelStream) -> bool:
        return not stream_model.pending and all(event.answers is None for event in stream_model.all)

    @rule(pick=st.integers(0, 30), size=st.sampled_from([0, 1, 9, 50]), answer=st.booleans())
    def append(self, pick: int, size: int, answer: bool) -> None:
        if not self.model:
            return
        stream = sorted(self.model)[pick % len(self.model)]
        stream_model = self.model[stream]
        answers = stream_model.pending[0] if answer and stream_model.pending else None
        if stream_model.ended:
            with pytest.raises(LocalProtocolError):
                self.log.append(stream, b"x" * size, answers)
            return
        number = self.log.append(stream, b"x" * size, answers)
        self.newest = stream
        stream_model.last += 1
        assert number == stream_model.last
        if answers is not None:
            stream_model.pending.remove(answers)
        stream_model.all.append(LoggedEvent(number, b"x" * size, answers))
        replay = self.log.after(stream, number - 1)
        assert replay == Replay((stream_model.all[-1],), 0)

    @rule(pick=st.integers(0, 30))
    def delivered(self, pick: int) -> None:
        stream = sorted(self.model)[pick % len(self.model)] if self.model else 1
        self.log.delivered(stream)
        if stream in self.model:
            self.model[stream].ended = True

    @invariant()
    def required_events_are_kept(self) -> None:
        for stream, stream_model in self.model.items():
            replay = self.log.after(stream, 0)
            if replay is None:
                assert stream_model.ended
                continue
            assert set(replay.events) <= set(stream_model.all)
            assert [event.number for event in replay.events] == sorted(event.number for event in replay.events)
            assert replay.lost == stream_model.last - len(replay.events)
            found = self.log.find(stream)
            assert found is not None
            assert found.last == stream_model.last
            if stream_model.ended:
                # An ended stream is evicted as a whole.
                assert found.pending == ()
            else:
                assert found.pending == tuple(stream_model.pending)
                assert {event for event in stream_model.all if event.answers is not None} <= set(replay.events)

    @invariant()
    def bounds_hold_except_for_required_events(self) -> None:
        events = [event for stream in self.log.streams() for event in self.events(stream.stream)]
        assert self.log.events == len(events)
        assert self.log.size == sum(len(event.data) for event in events)
        if len(events) > 5 or sum(len(event.data) for event in events) > 40:
            plain = [event for event in events if event.answers is None]
            # The other events are undelivered responses. The only exception is the newest event.
            assert len(plain) <= 1
            ended_streams = {
                stream for stream, found in self.model.items() if found.ended and self.log.find(stream) is not None
            }
            assert ended_streams <= {self.newest}

    def events(self, stream: int) -> tuple[LoggedEvent, ...]:
        replay = self.log.after(stream, 0)
        assert replay is not None
        return replay.events


TestLog = EventLogMachine.TestCase
TestLog.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
