from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.transports.stdio.stderr import MAX_LINE_BYTES, StderrRecord


def lines_of(*chunks: bytes) -> list[str]:
    lines: list[str] = []
    record = StderrRecord(tail_bytes=0, on_line=lines.append)
    for chunk in chunks:
        record.feed(chunk)
    record.end()
    return lines


@pytest.mark.spec("stdio.stderr-handling")
def test_lines_delivered_without_line_ends() -> None:
    assert lines_of(b"one\r\ntwo\n\nthr", b"ee") == ["one", "two", "", "three"]


def test_final_line_end_adds_no_empty_line() -> None:
    assert lines_of(b"one\n") == ["one"]


def test_invalid_utf_8_replaced() -> None:
    assert lines_of(b"gr\xfcn\n") == ["gr�n"]


def test_long_line_delivered_in_pieces() -> None:
    assert [len(line) for line in lines_of(*[b"x" * 1000] * 40)] == [
        MAX_LINE_BYTES,
        MAX_LINE_BYTES,
        40_000 % MAX_LINE_BYTES,
    ]


@pytest.mark.property
@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\xc3\xa9", b"z" * MAX_LINE_BYTES, b"y" * (MAX_LINE_BYTES - 1)])),
    st.data(),
)
def test_lines_independent_of_chunks(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert lines_of(*pieces) == lines_of(whole)


@pytest.mark.parametrize("end", ["", "\n"])
def test_tail_has_last_20_lines(end: str) -> None:
    record = StderrRecord(tail_bytes=16 * 1024)
    record.feed(("\n".join(str(number) for number in range(50)) + end).encode())

    assert record.tail == "\n".join(str(number) for number in range(30, 50)) + end


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_tail_has_last_bytes_of_any_chunks(chunk: int) -> None:
    written = bytes(range(32, 127)) * 3
    record = StderrRecord(tail_bytes=50)
    for start in range(0, len(written), chunk):
        record.feed(written[start : start + chunk])
    assert record.tail == written[-50:].decode()


def test_tail_of_0_bytes_empty() -> None:
    record = StderrRecord(tail_bytes=0)
    record.feed(b"secret")
    assert record.tail == ""


def test_on_line_failure_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []

    def broken(line: str) -> None:
        lines.append(line)
        raise RuntimeError("oops")

    record = StderrRecord(tail_bytes=10, on_line=broken)
    with caplog.at_level(logging.ERROR, "mcp_client"):
        record.feed(b"one\ntwo\n")
    assert lines == ["one", "two"]
    assert [entry.name for entry in caplog.records] == ["mcp_client", "mcp_client"]
    assert record.tail == "one\ntwo\n"
