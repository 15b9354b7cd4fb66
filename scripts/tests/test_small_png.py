"""Reduction of the size of PNG images."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documentation.small_png import _chunk, _chunks, _rows, smaller

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(rows: list[list[tuple[int, int, int]]], *, filters: list[int], kind: int = 2, depth: int = 8) -> bytes:
    """Return an image as browsers write it, each row with its filter."""
    alpha = b"\xff" if kind == 6 else b""
    step = 3 + len(alpha)
    above = bytes(len(rows[0]) * step)
    lines = b""
    for row, each in zip(rows, filters, strict=True):
        plain = b"".join(bytes(pixel) + alpha for pixel in row)
        left = bytes(step) + plain[:-step]
        corner = bytes(step) + above[:-step]
        predictions = {
            0: bytes(len(plain)),
            1: left,
            2: above,
            3: bytes((a + b) // 2 for a, b in zip(left, above, strict=True)),
            4: bytes(_paeth(*each) for each in zip(left, above, corner, strict=True)),
        }[each]
        lines += bytes([each]) + bytes(
            (value - prediction) & 255 for value, prediction in zip(plain, predictions, strict=True)
        )
        above = plain
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), depth, kind, 0, 0, 0)
    data = zlib.compress(lines)
    # Two IDAT chunks, because an image can have several.
    parts = [(b"IHDR", header), (b"IDAT", data[:5]), (b"IDAT", data[5:]), (b"IEND", b"")]
    return SIGNATURE + b"".join(_chunk(name, part) for name, part in parts)


def _paeth(left: int, above: int, corner: int) -> int:
    prediction = left + above - corner
    distances = [
        (abs(prediction - left), 0, left),
        (abs(prediction - above), 1, above),
        (abs(prediction - corner), 2, corner),
    ]
    return min(distances)[2]


def pixels(picture: bytes) -> list[list[tuple[int, ...]]]:
    """Return the pixels of an image with a palette."""
    chunks = dict(_chunks(picture))
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, kind) == (8, 3)
    palette = chunks[b"PLTE"]
    rows = list(_rows(zlib.decompress(chunks[b"IDAT"]), width, 1))
    assert len(rows) == height
    return [[tuple(palette[index * 3 : index * 3 + 3]) for index in row] for row in rows]


COLORS = st.tuples(*[st.integers(0, 255)] * 3)


@given(st.data(), st.integers(1, 8), st.integers(1, 8), st.sampled_from([2, 6]))
def test_few_colors_preserved(data: st.DataObject, width: int, height: int, kind: int) -> None:
    rows = [[data.draw(COLORS) for _ in range(width)] for _ in range(height)]
    filters = [data.draw(st.integers(0, 4)) for _ in range(height)]
    assert pixels(smaller(png(rows, filters=filters, kind=kind))) == rows


def test_excess_colors_reduced_to_frequent_and_similar_ones() -> None:
    shades = [(red, green, 7) for red in range(0, 256, 8) for green in range(0, 256, 8)]
    rows = [[(250, 251, 252)] * 64, *[shades[at : at + 64] for at in range(0, len(shades), 64)]]
    after = pixels(smaller(png(rows, filters=[0] * len(rows))))
    assert after[0] == rows[0]
    kept = {color for row in after for color in row}
    assert 64 < len(kept) <= 256
    near = [
        abs(a - b)
        for old, new in zip(rows, after, strict=True)
        for c, d in zip(old, new, strict=True)
        for a, b in zip(c, d, strict=True)
    ]
    assert max(near) < 32


@pytest.mark.parametrize(("kind", "depth"), [(3, 8), (2, 16), (0, 8)])
def test_unsupported_png_rejected(kind: int, depth: int) -> None:
    with pytest.raises(ValueError, match="no picture of a browser"):
        smaller(png([[(1, 2, 3)]], filters=[0], kind=kind, depth=depth))
