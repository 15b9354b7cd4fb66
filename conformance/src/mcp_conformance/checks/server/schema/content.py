"""Content blocks, validated against the schema."""

from __future__ import annotations

import base64
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import RecordedMessages, member
from mcp_conformance.checks.probes.schema_check import VALID, conforms, contents_flaw, look
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import R2025_03_26, R2025_06_18, between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.revisions import Revision

_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?)?")
_BLOCKS: Final = "schema.content-block-types"
_ENCODED_SIGNATURES: Final = (b"iVBORw0KGgo", b"/9j/4", b"R0lGODdh", b"R0lGODlh", b"UklGR", b"JVBERi0")
"""The base64 of the first bytes of PNG, JPEG, GIF, RIFF and PDF files, with which no such file begins."""
_BINARY_KINDS: Final = ("image/", "audio/", "video/", "application/pdf")

for _type, _definition, _id in (
    ("text", "TextContent", "schema.text-content"),
    ("image", "ImageContent", "schema.image-content"),
    ("audio", "AudioContent", "schema.audio-content"),
    ("resource_link", "ResourceLink", "schema.resource-link"),
):
    look(
        _id,
        f"Content of type {_type} conforms to the schema.",
        _id,
        _BLOCKS,
        VALID,
        at=partial(RecordedMessages.blocks_of, kind=_type),
        by=conforms(_definition, "annotations", "icons"),
        what=f"content of type {_type}",
    )


def _embedded(value: JsonValue, revision: Revision) -> str | None:
    return conforms("EmbeddedResource", "annotations")(value, revision) or contents_flaw(member(value, "resource"))


look(
    "schema.embedded-resource",
    "Content of type resource contains the contents of a resource.",
    "schema.embedded-resource",
    _BLOCKS,
    VALID,
    at=lambda recorded: recorded.blocks_of("resource"),
    by=_embedded,
    what="embedded resource",
)


def _kind(value: JsonValue, revision: Revision) -> str | None:
    kinds = ["text", "image", "resource"]
    kinds += ["audio"] if revision in between(R2025_03_26) else []
    kinds += ["resource_link"] if revision in between(R2025_06_18) else []
    return None if value in kinds else f"{brief(value)} is not one of {', '.join(kinds)}"


look(
    "schema.content-kinds",
    "The type of content in a tool result or prompt is defined by the revision.",
    "schema.tool-content-kinds-2024-11-05",
    "schema.tool-content-kinds-2025-03-26",
    "schema.tool-content-kinds-2025-06-18",
    _BLOCKS,
    at=lambda recorded: (member(each, "type") for each in recorded.blocks()),
    by=_kind,
    what="content type",
)


def _binary(recorded: RecordedMessages) -> Iterator[JsonValue]:
    """Yield what contains binary data: the data are in `data` or `blob`."""
    yield from (
        each for each in (*recorded.blocks_of("image"), *recorded.blocks_of("audio")) if _data(each) is not None
    )
    yield from (each for each in recorded.contents() if isinstance(each, dict) and "blob" in each)


def _data(holder: JsonValue) -> JsonValue:
    return member(holder, "blob") if member(holder, "data") is None else member(holder, "data")


def _base64(value: JsonValue, _: Revision) -> str | None:
    try:
        data = base64.b64decode(str(_data(value)), validate=True)
    except ValueError as error:
        return f"it is not base64: {error}"
    kind = str(member(value, "mimeType")).lower()
    if data.startswith(_ENCODED_SIGNATURES) and kind.startswith(_BINARY_KINDS):
        return "it is base64 of base64"
    return None


look(
    "schema.base64",
    "Binary data is base64 with the standard alphabet.",
    "schema.base64-data",
    "schema.image-content",
    "schema.audio-content",
    "schema.resource-contents",
    at=_binary,
    by=_base64,
    what="binary data",
)


def _annotations(recorded: RecordedMessages) -> Iterator[JsonValue]:
    return recorded.having(recorded.holders(), "annotations")


look(
    "schema.annotations",
    "Annotations have an audience of user and assistant, and a priority from 0 to 1.",
    "schema.annotations",
    "schema.annotations-last-modified",
    "schema.annotations-audience",
    "schema.annotations-priority",
    "schema.resource-annotations",
    VALID,
    at=_annotations,
    by=conforms("Annotations", "lastModified"),
    what="annotations",
)
look(
    "schema.annotations-timestamp",
    "lastModified is an ISO 8601 timestamp.",
    "schema.annotations-last-modified",
    "schema.annotations-timestamp",
    at=lambda recorded: recorded.having(_annotations(recorded), "lastModified"),
    by=lambda value, _: None if isinstance(value, str) and _TIMESTAMP.fullmatch(value) else "it is not a timestamp",
    what="lastModified",
)
