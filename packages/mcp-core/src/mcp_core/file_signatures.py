"""File signatures: check of content against its media type, by the first bytes.

The signatures cover common image, audio, video and document formats.

A server declares the media type of its content, and the program that displays the content relies on it. This module
detects an HTML page that is declared as an image, or a program that is declared as audio. Formats without a signature
are unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_media_type"]

# ISO media: a box with 4 bytes of length, its name, and the major brand of the file; or one of the compatible brands
# after it.
_BRANDED: Final = r"....ftyp(?:....){0,15}?(?:%s)"
_XML: Final = rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--(?:[^-]|-[^-]){0,2000}-->\s*)?(?:<!DOCTYPE svg[^>]{0,500}>\s*)?<svg[\s>]"
_JPEG: Final = rb"\xff\xd8\xff"
_WAV: Final = rb"RI(?:FF|FX)....WAVE"
_MP3: Final = rb"ID3|\xff[\xe2\xe3\xf2-\xf7\xfa\xfb]"
_MP4: Final = (_BRANDED % "isom|iso[2-9]|mp4[12]|M4A |M4B |M4V |dash|avc1|3gp.|MSNV|qt  ").encode()
_ICO: Final = rb"\x00\x00\x01\x00"
_OGG: Final = rb"OggS"
_FLAC: Final = rb"fLaC"
_EBML: Final = rb"\x1a\x45\xdf\xa3"

_BEGINNINGS: Final[Mapping[str, bytes]] = {
    "application/gzip": rb"\x1f\x8b",
    "application/pdf": rb"[\s\S]{0,1019}%PDF-",
    "application/zip": rb"PK(?:\x03\x04|\x05\x06|\x07\x08)",
    "audio/aac": rb"\xff[\xf0\xf1\xf8\xf9]|ADIF",
    "audio/flac": _FLAC,
    "audio/midi": rb"MThd",
    "audio/mp3": _MP3,
    "audio/mp4": _MP4,
    "audio/mpeg": _MP3,
    "audio/ogg": _OGG,
    "audio/vnd.wave": _WAV,
    "audio/wav": _WAV,
    "audio/wave": _WAV,
    "audio/webm": _EBML,
    "audio/x-flac": _FLAC,
    "audio/x-wav": _WAV,
    "image/avif": (_BRANDED % "avi[fs]|mif1").encode(),
    "image/bmp": rb"BM",
    "image/gif": rb"GIF8[79]a",
    "image/heic": (_BRANDED % "hei[cmsx]|hev[cmsx]|mif1").encode(),
    "image/jpeg": _JPEG,
    "image/jpg": _JPEG,
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/svg+xml": _XML,
    "image/tiff": rb"II\*\x00|MM\x00\*",
    "image/vnd.microsoft.icon": _ICO,
    "image/webp": rb"RIFF....WEBP",
    "image/x-icon": _ICO,
    "video/mp4": _MP4,
    "video/webm": _EBML,
}

_LOOKED_AT: Final = 4_096


def check_media_type(claimed: str, data: bytes) -> bool:
    """Check content against its media type.

    Args:
        claimed: The media type that the peer declares, for example `image/png`. It may have parameters.
        data: The decoded content.

    Returns:
        Whether the content has the signature of the media type. `False` means that no signature is known for it.

    Raises:
        InvalidValue: The content has a different signature.
    """
    name = claimed.partition(";")[0].strip().lower()
    beginning = _BEGINNINGS.get(name)
    if beginning is None:
        return False
    if re.match(beginning, data[:_LOOKED_AT], re.DOTALL) is None:
        raise InvalidValue(f"the content is declared as {name}, but starts with {data[:12]!r}")
    return True
