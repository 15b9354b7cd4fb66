from __future__ import annotations

import tracemalloc

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.http.event_log import EventLog, LoggedEvent, LoggedStream, Replay, event_id, parse_event_id
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import Notification, RequestId
from mcp_core.limits import Limits


def log(events: int = 100, size: int = 10_000) -> EventLog:
    return EventLog(Limits(replay_events=events, replay_bytes=size))


def data_after(events: EventLog, stream: int, number: int = 0) -> list[bytes]:
    replay = events.after(stream, number)
    assert replay is not None
    return [event.data for event in replay.events]


# --- event ids


@pytest.mark.spec("resume.event-id-unique", "resume.event-id-encodes-stream", "resume.event-id-per-stream")
@given(stream=st.integers(0, 10**18 - 1), number=st.integers(0, 10**18 - 1))
def test_an_event_id_says_its_stream_and_its_place(stream: int, number: int) -> None:
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
def test_what_is_no_event_id_of_ours_is_none(text: str) -> None:
    assert parse_event_id(text) is None


@given(st.text())
def test_an_event_id_can_be_any_text_and_is_read_only_if_it_is_written_so(text: str) -> None:
    parsed = parse_event_id(text)
    assert parsed is None or event_id(*parsed) == text


# --- streams


@pytest.mark.spec("resume.replay")
def test_what_followed_an_event_comes_again_in_its_order() -> None:
    events = log()
    events.begin(1, [7])
    assert [events.append(1, b""), events.append(1, b"one"), events.append(1, b"two", answers=7)] == [1, 2, 3]
    assert events.after(1, 1) == Replay((LoggedEvent(2, b"one"), LoggedEvent(3, b"two", 7)), 0)
    assert events.after(1, 3) == Replay((), 0)
    assert data_after(events, 1) == [b"", b"one", b"two"]


def test_a_short_event_takes_little_room() -> None:
    events = log(events=1_000, size=1_000_000)
    events.begin(1, [7])
    tracemalloc.start()
    try:
        for number in range(1_000):
            events.append(1, encode(Notification("notifications/progress", {"progress": number}), null_id=False))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(events) == 1_000
    assert taken < 1_000_000


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 9_000])
def test_an_event_comes_again_as_it_was_whatever_its_size(size: int) -> None:
    events = log()
    events.begin(1, [7])
    events.append(1, b"x" * size)
    assert data_after(events, 1) == [b"x" * size]


@pytest.mark.spec("resume.no-cross-stream")
def test_a_stream_has_nothing_of_another_one() -> None:
    events = log()
    events.begin(1, [1])
    events.begin(2, ["1"])
    events.append(1, b"a")
    events.append(2, b"b")
    events.append(1, b"c")
    assert data_after(events, 1) == [b"a", b"c"]
    assert data_after(events, 2) == [b"b"]


def test_to_ask_changes_nothing() -> None:
    events = log()
    events.begin(1, [1])
    events.append(1, b"a")
    assert events.after(1, 1) == events.after(1, 1)
    assert data_after(events, 1) == [b"a"]


@pytest.mark.parametrize(("stream", "number"), [(2, 0), (1, 2), (1, -1), (0, 0)])
def test_what_never_was_cannot_be_resumed(stream: int, number: int) -> None:
    events = log()
    events.begin(1)
    events.append(1, b"a")
    assert events.after(stream, number) is None


def test_a_stream_tells_how_far_it_is() -> None:
    events = log()
    events.begin(4, [2, "2", 3])
    events.append(4, b"x")
    events.append(4, b"y", answers="2")
    assert events.find(4) == LoggedStream(4, 2, (2, 3))
    assert events.find(5) is None
    events.begin(5)
    assert events.streams() == (LoggedStream(4, 2, (2, 3)), LoggedStream(5, 0, ()))


def test_ids_of_different_types_are_different_requests() -> None:
    events = log()
    events.begin(1, [1])
    with pytest.raises(LocalProtocolError, match="stream 1 has no pending request '1'"):
        events.append(1, b"x", answers="1")
    with pytest.raises(LocalProtocolError):
        events.append(1, b"x", answers=True)
    assert events.append(1, b"x", answers=1) == 1


def test_a_request_is_answered_once() -> None:
    events = log()
    events.begin(1, [1])
    events.append(1, b"x", answers=1)
    with pytest.raises(LocalProtocolError):
        events.append(1, b"x", answers=1)
    assert len(events) == 1


def test_a_stream_begins_once() -> None:
    events = log()
    events.begin(1, [1])
    with pytest.raises(LocalProtocolError, match="stream 1 already exists"):
        events.begin(1)


def test_nothing_is_added_to_a_stream_that_was_not_begun_or_is_over() -> None:
    events = log()
    with pytest.raises(LocalProtocolError, match="stream 1 does not exist"):
        events.append(1, b"x")
    events.begin(1, [1])
    events.append(1, b"x")
    events.delivered(1)
    with pytest.raises(LocalProtocolError, match="stream 1 is over"):
        events.append(1, b"y")


def test_a_stream_that_is_over_owes_nothing_and_can_still_be_had() -> None:
    events = log()
    events.begin(1, [1])
    events.append(1, b"x")
    events.delivered(1)
    events.delivered(1)
    assert events.find(1) == LoggedStream(1, 1, ())
    assert data_after(events, 1) == [b"x"]


def test_a_stream_that_is_over_without_an_event_leaves_nothing() -> None:
    events = log()
    events.begin(1, [1])
    events.delivered(1)
    events.delivered(2)
    assert events.streams() == ()


@pytest.mark.spec("sse.no-broadcast")
def test_there_is_one_standalone_stream_the_last_one() -> None:
    events = log()
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


def test_everything_but_answers_and_the_newest_event_can_be_shed() -> None:
    events = log()
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
        assert len(events) == 2
        assert events.find(2) is None
        assert data_after(events, 1, 1) == [b"answer", b"newest"]


def test_whole_streams_that_were_delivered_go_first_the_oldest_before_the_others() -> None:
    events = log(events=4)
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


def test_then_what_answers_nothing_goes_and_the_gap_is_told() -> None:
    events = log(events=3)
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


def test_an_answer_that_was_not_delivered_does_not_go() -> None:
    events = log(events=1)
    events.begin(1, [1])
    events.begin(2, [2])
    events.append(1, b"first", answers=1)
    events.append(2, b"note")
    events.append(2, b"second", answers=2)
    assert data_after(events, 1) == [b"first"]
    assert events.after(2, 0) == Replay((LoggedEvent(2, b"second", 2),), 1)


def test_the_newest_event_stays_however_large_it_is() -> None:
    events = log(size=10)
    events.begin(1)
    events.append(1, b"small")
    events.append(1, b"x" * 11)
    assert events.after(1, 0) == Replay((LoggedEvent(2, b"x" * 11),), 1)
    assert (len(events), events.size) == (1, 11)
    events.append(1, b"y")
    assert (len(events), events.size) == (1, 1)


def test_what_holds_the_log_beyond_its_bounds_goes_as_soon_as_it_was_delivered() -> None:
    events = log(events=1)
    for id in (1, 2):
        events.begin(id, [id])
    for id in (1, 2):
        events.append(id, b"x", answers=id)
    events.delivered(1)
    assert events.find(1) is None
    events.delivered(2)
    assert data_after(events, 2) == [b"x"]


def test_the_bytes_are_bounded_too() -> None:
    events = log(size=10)
    events.begin(1)
    for letter in (b"aaaa", b"bbbb", b"cc"):
        events.append(1, letter)
    assert events.size == 10
    events.append(1, b"d")
    assert data_after(events, 1) == [b"bbbb", b"cc", b"d"]


def test_nothing_begins_while_answers_that_nobody_fetches_fill_the_log() -> None:
    events = log(events=2)
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


def test_nor_while_their_bytes_do() -> None:
    events = log(size=10)
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
class Kept:
    owed: list[RequestId]
    last: int = 0
    all: list[LoggedEvent] = attrs.field(factory=list)
    over: bool = False


class Log(RuleBasedStateMachine):
    """The log beside one that forgets nothing: what is missing must have been allowed to go."""

    def __init__(self) -> None:
        super().__init__()
        self.log = EventLog(Limits(replay_events=5, replay_bytes=40))
        self.model: dict[int, Kept] = {}
        self.count = 0
        self.newest = 0

    def unfetched(self) -> list[LoggedEvent]:
        return [
            event for kept in self.model.values() if not kept.over for event in kept.all if event.answers is not None
        ]

    @rule(owed=st.integers(0, 2))
    def begin(self, owed: int) -> None:
        self.count += 1
        requests: list[RequestId] = [f"{self.count}.{n}" for n in range(owed)]
        waiting = self.unfetched()
        if len(waiting) >= 5 or sum(len(event.data) for event in waiting) >= 40:
            with pytest.raises(LimitExceeded):
                self.log.begin(self.count, requests)
            return
        self.log.begin(self.count, requests)
        if not requests:
            for kept in self.model.values():
                kept.over = kept.over or self.is_standalone(kept)
        self.model[self.count] = Kept(requests)

    def is_standalone(self, kept: Kept) -> bool:
        return not kept.owed and all(event.answers is None for event in kept.all)

    @rule(pick=st.integers(0, 30), size=st.sampled_from([0, 1, 9, 50]), answer=st.booleans())
    def append(self, pick: int, size: int, answer: bool) -> None:
        if not self.model:
            return
        stream = sorted(self.model)[pick % len(self.model)]
        kept = self.model[stream]
        answers = kept.owed[0] if answer and kept.owed else None
        if kept.over:
            with pytest.raises(LocalProtocolError):
                self.log.append(stream, b"x" * size, answers)
            return
        number = self.log.append(stream, b"x" * size, answers)
        self.newest = stream
        kept.last += 1
        assert number == kept.last
        if answers is not None:
            kept.owed.remove(answers)
        kept.all.append(LoggedEvent(number, b"x" * size, answers))
        replay = self.log.after(stream, number - 1)
        assert replay == Replay((kept.all[-1],), 0)

    @rule(pick=st.integers(0, 30))
    def delivered(self, pick: int) -> None:
        stream = sorted(self.model)[pick % len(self.model)] if self.model else 1
        self.log.delivered(stream)
        if stream in self.model:
            self.model[stream].over = True

    @invariant()
    def what_must_stay_is_there(self) -> None:
        for stream, kept in self.model.items():
            replay = self.log.after(stream, 0)
            if replay is None:
                assert kept.over
                continue
            assert set(replay.events) <= set(kept.all)
            assert [event.number for event in replay.events] == sorted(event.number for event in replay.events)
            assert replay.lost == kept.last - len(replay.events)
            found = self.log.find(stream)
            assert found is not None
            assert found.last == kept.last
            if kept.over:
                # Nothing is taken from within a stream that is over: it goes as a whole.
                assert found.pending == ()
            else:
                assert found.pending == tuple(kept.owed)
                assert {event for event in kept.all if event.answers is not None} <= set(replay.events)

    @invariant()
    def the_bounds_hold_but_for_what_must_stay(self) -> None:
        kept = [event for stream in self.log.streams() for event in self.events(stream.stream)]
        assert len(self.log) == len(kept)
        assert self.log.size == sum(len(event.data) for event in kept)
        if len(kept) > 5 or sum(len(event.data) for event in kept) > 40:
            plain = [event for event in kept if event.answers is None]
            # All others are answers that nobody fetched; the newest event is the one exception.
            assert len(plain) <= 1
            over = {stream for stream, found in self.model.items() if found.over and self.log.find(stream) is not None}
            assert over <= {self.newest}

    def events(self, stream: int) -> tuple[LoggedEvent, ...]:
        replay = self.log.after(stream, 0)
        assert replay is not None
        return replay.events


TestLog = Log.TestCase
TestLog.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
