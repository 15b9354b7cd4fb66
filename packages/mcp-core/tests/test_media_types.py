from __future__ import annotations

import base64
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import InvalidValue, LimitExceeded
from mcp_core.file_signatures import _BEGINNINGS, check_media_type
from mcp_core.types import AudioContent, BlobResourceContents, ImageContent

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
HTML = b"<!DOCTYPE html><script>alert(1)</script>"

MATCHING = [
    ("application/gzip", b"\x1f\x8b\x08"),
    ("application/pdf", b"%PDF-1.7"),
    ("application/pdf", b"junk before\n%PDF-1.4"),
    ("application/zip", b"PK\x03\x04"),
    ("audio/aac", b"\xff\xf1\x50"),
    ("audio/flac", b"fLaC\x00"),
    ("audio/midi", b"MThd\x00"),
    ("audio/mpeg", b"ID3\x04"),
    ("audio/mpeg", b"\xff\xfb\x90"),
    ("audio/ogg", b"OggS\x00"),
    ("audio/wav", b"RIFF\x24\x08\x00\x00WAVEfmt "),
    ("audio/mp4", b"\x00\x00\x00\x20ftypM4A \x00"),
    ("audio/webm", b"\x1a\x45\xdf\xa3"),
    ("image/avif", b"\x00\x00\x00\x20ftypavif"),
    ("image/bmp", b"BM\x00"),
    ("image/gif", b"GIF89a\x01"),
    ("image/heic", b"\x00\x00\x00\x20ftypmif1\x00\x00\x00\x00heic"),
    ("image/jpeg", b"\xff\xd8\xff\xe0"),
    ("image/png", PNG),
    ("IMAGE/PNG; charset=binary", PNG),
    ("image/svg+xml", b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- made by hand -->\n<svg xmlns="x">'),
    ("image/svg+xml", b"<svg>"),
    ("image/tiff", b"II*\x00"),
    ("image/webp", b"RIFF\x24\x08\x00\x00WEBPVP8 "),
    ("image/x-icon", b"\x00\x00\x01\x00\x01"),
    ("video/mp4", b"\x00\x00\x00\x20ftypisom\x00"),
]


@pytest.mark.parametrize(("claimed", "data"), MATCHING)
def test_content_of_claimed_type_confirmed(claimed: str, data: bytes) -> None:
    assert check_media_type(claimed, data) is True


@pytest.mark.parametrize("claimed", sorted(_BEGINNINGS))
@pytest.mark.parametrize(
    "data", [b"", b"MZ\x90\x00", HTML, b"#!/bin/sh\n"], ids=["nothing", "program", "page", "script"]
)
def test_content_of_other_kind_raises(claimed: str, data: bytes) -> None:
    with pytest.raises(InvalidValue, match="but starts with"):
        check_media_type(claimed, data)


def test_content_of_other_known_type_raises() -> None:
    for claimed, data in MATCHING:
        for other in ("image/png", "image/jpeg", "audio/wav", "image/webp", "application/pdf"):
            if _BEGINNINGS[other] != _BEGINNINGS.get(claimed.lower().partition(";")[0]):
                with pytest.raises(InvalidValue):
                    check_media_type(other, data)


@pytest.mark.parametrize("claimed", ["text/plain", "application/json", "image/x-own", "", "png"])
def test_unknown_media_type_not_checked(claimed: str) -> None:
    assert check_media_type(claimed, PNG) is False


@pytest.mark.property
@given(st.sampled_from(sorted(_BEGINNINGS)), st.binary(max_size=200))
def test_arbitrary_bytes_checked_by_signature(claimed: str, data: bytes) -> None:
    is_checked = False
    with suppress(InvalidValue):
        is_checked = check_media_type(claimed, data)
    matches = re.match(_BEGINNINGS[claimed], data, re.DOTALL) is not None
    assert is_checked is matches


@pytest.mark.parametrize(
    "beginning", [b"<!--" + b"-" * 100_000, b"<" * 100_000, b"\n" * 100_000, b"<?xml" + b">" * 99_999]
)
def test_content_with_expensive_prefix_rejected(beginning: bytes) -> None:
    with pytest.raises(InvalidValue):
        check_media_type("image/svg+xml", beginning)


def test_content_types_checked_on_request() -> None:
    claimed = "image/png"
    for read_matching, read_other in (
        (ImageContent.of_bytes(PNG, claimed).data_bytes, ImageContent.of_bytes(HTML, claimed).data_bytes),
        (AudioContent.of_bytes(PNG, claimed).data_bytes, AudioContent.of_bytes(HTML, claimed).data_bytes),
        (
            BlobResourceContents(uri="a:b", blob=base64.b64encode(PNG).decode(), mime_type=claimed).blob_bytes,
            BlobResourceContents(uri="a:b", blob=base64.b64encode(HTML).decode(), mime_type=claimed).blob_bytes,
        ),
    ):
        assert read_matching(check_type=True) == PNG
        assert read_other() == HTML
        with pytest.raises(InvalidValue, match="declared as image/png"):
            read_other(check_type=True)
        with pytest.raises(LimitExceeded, match="max_bytes"):
            read_other(max_bytes=10, check_type=True)


def test_blob_without_media_type_not_checked() -> None:
    assert BlobResourceContents(uri="a:b", blob="AAAA").blob_bytes(check_type=True) == b"\0\0\0"
