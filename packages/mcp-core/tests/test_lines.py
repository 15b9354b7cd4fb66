"""Framing of lines: independent of portions, and long lines use no memory."""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.framing.lines import LineFramer, frame
from mcp_core.limits import Limits

SMALL = Limits(message_bytes=10)


def _to_text(frames: list[bytes | LimitExceeded]) -> list[bytes | str]:
    return [str(item) if isinstance(item, LimitExceeded) else item for item in frames]


def _frames(data: bytes, cuts: list[int], limits: Limits = SMALL) -> list[bytes | str]:
    framer = LineFramer(limits)
    frames: list[bytes | LimitExceeded] = []
    start = 0
    for cut in [*sorted(cuts), len(data)]:
        frames += framer.receive_data(data[start:cut])
        start = cut
    return _to_text(frames + framer.receive_eof())


@pytest.mark.spec("stdio.newline-delimited", "stdio.one-message-per-line", "stdio.crlf-tolerated", "stdio.unicode")
@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\r\n \t\r\na\n\n", [b"a"]),
        (b"  a b \t\n", [b"a b"]),
        (b"a", [b"a"]),
        (b"a\r", [b"a"]),
        (b"a\rb\n", [b"a\rb"]),
        ("\u2028a\u2029\n".encode(), ["\u2028a\u2029".encode()]),
        (b"\x0ba\x0c\x1c\x1d\x1e\x85\n", [b"\x0ba\x0c\x1c\x1d\x1e\x85"]),
        (b"\0\n\xff\n", [b"\0", b"\xff"]),
    ],
)
def test_lines_split_at_lf_and_trimmed(data: bytes, frames: list[bytes]) -> None:
    assert _frames(data, []) == frames
    assert _frames(data, list(range(len(data)))) == frames


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (b"x" * 11, 11),
        (b"x" * 12, 12),
        (b"x" * 500, 500),
        (b"x" * 11 + b"\r", 12),
        (b" " * 12, 12),
        (b"x" * 10 + b"\r\r", 12),
    ],
)
def test_long_line_skipped_and_size_reported(line: bytes, size: int) -> None:
    message = f"line length in bytes: {size} is over the limit of 10; the setting is Limits.message_bytes"
    data = b"a\n" + line + b"\nb\n" + line

    assert _frames(data, []) == [b"a", message, b"b", message]
    assert _frames(data, list(range(len(data)))) == [b"a", message, b"b", message]


@pytest.mark.parametrize("line", [b"x" * 10, b"x" * 10 + b"\r", b" " * 11, b" " + b"x" * 10])
def test_line_of_limit_size_accepted(line: bytes) -> None:
    frames = [line.strip()] if line.strip() else []

    assert _frames(line + b"\n", []) == frames
    assert _frames(line + b"\n", list(range(len(line)))) == frames


_lines = st.lists(
    st.sampled_from(
        [b"\n", b"\r\n", b"\r", b" ", b"a", b"bc", b"x" * 9, b"y" * 10, b"z" * 11, b"w" * 30, "\u2028".encode()]
    )
).map(b"".join)


@pytest.mark.property
@given(_lines | st.binary(), st.data())
@example(b"x" * 12 + b"\n" + b"a\n", None)
def test_frames_independent_of_portions(data: bytes, draw: st.DataObject | None) -> None:
    cuts = [] if draw is None else draw.draw(st.lists(st.integers(0, len(data))))
    check_portions(data, cuts)


def check_portions(data: bytes, cuts: list[int]) -> None:
    """Check that portions do not matter, and that the frames are those of a simple reader."""
    expected: list[bytes | str] = []
    for line in data.split(b"\n"):
        if len(line) > 11 or len(line.strip(b" \t\r")) > 10:
            expected.append(
                f"line length in bytes: {len(line)} is over the limit of 10; the setting is Limits.message_bytes"
            )
        elif line.strip(b" \t\r"):
            expected.append(line.strip(b" \t\r"))
    assert _frames(data, []) == expected
    assert _frames(data, list(range(len(data)))) == expected
    assert _frames(data, cuts) == expected


@pytest.mark.property
@given(st.lists(st.binary(min_size=1, max_size=9).map(lambda item: item.replace(b"\n", b"_").replace(b"\r", b"_"))))
def test_framed_payloads_received(payloads: list[bytes]) -> None:
    stream = b"".join(frame(payload) for payload in payloads)

    assert _frames(stream, []) == [payload.strip(b" \t") for payload in payloads if payload.strip(b" \t")]


def test_line_without_end_counted_and_not_buffered() -> None:
    framer = LineFramer(Limits(message_bytes=1024 * 1024))
    portion = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(1024):
            assert framer.receive_data(portion) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 3 * 1024 * 1024
    assert framer.skipping == 64 * 1024 * 1024
    (error, message) = framer.receive_data(b"\nnext\n")
    assert isinstance(error, LimitExceeded)
    assert (error.observed, error.allowed) == (64 * 1024 * 1024, 1024 * 1024)
    assert message == b"next"
    assert framer.skipping == 0


def test_large_line_byte_by_byte_uses_little_memory() -> None:
    size = 300_000
    framer = LineFramer(Limits(message_bytes=size))
    tracemalloc.start()
    try:
        for _ in range(size):
            framer.receive_data(b"x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * size
    assert framer.receive_data(b"\r\n") == [b"x" * size]


def test_receive_after_eof_raises() -> None:
    framer = LineFramer(SMALL)
    framer.receive_data(b"a")

    assert framer.receive_eof() == [b"a"]
    with pytest.raises(LocalProtocolError, match="after the end"):
        framer.receive_data(b"b")
    with pytest.raises(LocalProtocolError, match="after the end"):
        framer.receive_eof()


@pytest.mark.spec("stdio.newline-delimited")
def test_frame_message_with_line_break_raises() -> None:
    assert frame("\u2028".encode()) == "\u2028\n".encode()
    for payload in (b"a\nb", b"a\rb", b"a\n"):
        with pytest.raises(LocalProtocolError, match="message contains a line break"):
            frame(payload)


def test_blank_lines_skipped_without_calls_per_line() -> None:
    framer = LineFramer(Limits())
    calls: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        frames = framer.receive_data(b"{}" + b"\n" * 10_000 + b"[]\n")
    finally:
        sys.setprofile(None)
    assert frames == [b"{}", b"[]"]
    assert len(calls) <= 6
