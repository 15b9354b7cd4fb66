"""The compression of screenshots: a palette of at most 256 colors, and zlib's highest level.

Pages have few colors, but the edges of letters have hundreds of shades. Of each group of similar shades the most frequent one
is kept, so that areas keep their exact colors. Uses the standard library only.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["smaller"]

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}
"""By color type: the channels, with and without transparency, which is dropped."""


def smaller(png: bytes) -> bytes:
    """Return the image with a palette.

    Args:
        png: An image with eight bits for each channel, not interlaced, as browsers write it.

    Raises:
        ValueError: The image has another format.
    """
    chunks = dict[bytes, bytes]()
    for name, data in _chunks(png):
        chunks[name] = chunks.get(name, b"") + data
    width, height, depth, kind, *_, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or interlaced or kind not in _CHANNELS:
        raise ValueError("this is no picture of a browser")
    channels = _CHANNELS[kind]
    rows = _rows(zlib.decompress(chunks[b"IDAT"]), width * channels, channels)
    pixels = [[tuple(row[at : at + 3]) for at in range(0, len(row), channels)] for row in rows]
    palette, index = _palette(Counter(pixel for row in pixels for pixel in row))
    lines = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in pixels)
    return _SIGNATURE + b"".join(
        [
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(value for color in palette for value in color)),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _palette(found: Counter[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], int]]:
    """Return the palette, and the palette color of each original color."""
    for shift in range(8):
        kept: dict[tuple[int, ...], int] = {}
        palette: list[tuple[int, ...]] = []
        index: dict[tuple[int, ...], int] = {}
        for color, _ in found.most_common():
            group = tuple(value >> shift for value in color)
            if group not in kept:
                kept[group] = len(palette)
                palette.append(color)
            index[color] = kept[group]
        if len(palette) <= 256:
            return palette, index
    raise AssertionError("eight groups have at most 256 colors")


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _rows(data: bytes, size: int, step: int) -> Iterator[bytes]:
    """Yield the rows without their filters. Spec: PNG, 9.2"""
    above = bytearray(size)
    for at in range(0, len(data), size + 1):
        kind, row = data[at], bytearray(data[at + 1 : at + 1 + size])
        for place in range(size):
            left = row[place - step] if place >= step else 0
            corner = above[place - step] if place >= step else 0
            row[place] = (row[place] + _guess(kind, left, above[place], corner)) & 255
        yield bytes(row)
        above = row


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 4:
        nearest = left + above - corner
        return min((left, above, corner), key=lambda value: abs(nearest - value))
    return (0, left, above, (left + above) // 2)[kind]
