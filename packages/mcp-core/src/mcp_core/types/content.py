"""Content: text, images, sound, resources; and the base64 that the binary kinds travel in.

Spec: server/tools#tool-result, server/prompts#data-types, server/resources#resource-contents
"""

from __future__ import annotations

import base64
import binascii
from typing import ClassVar, Final, Literal, Self, TypeAlias

from mcp_core.errors import InvalidValue, LimitExceeded
from mcp_core.file_signatures import check_media_type
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2025_11_25
from mcp_core.types.base import META_SINCE, Annotations, Icon, Open
from mcp_core.types.wire_object import field, wire

__all__ = [
    "MAX_DECODED_BYTES",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ResourceContents",
    "ResourceLink",
    "TextContent",
    "TextResourceContents",
    "UnknownContent",
    "decode_base64",
]

MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
"""The default bound on decoded binary content, in bytes: more than any picture or recording that a model takes."""

_URL_SAFE: Final = str.maketrans("-_", "+/", " \t\r\n")


def decode_base64(text: str, *, max_bytes: int = MAX_DECODED_BYTES) -> bytes:
    """The bytes that a peer wrote in base64. Line breaks, the URL-safe alphabet and missing padding are taken.

    Args:
        text: The base64.
        max_bytes: The bound on what comes out, in bytes.

    Returns:
        The bytes.

    Raises:
        LimitExceeded: There would be more than `max_bytes`.
        InvalidValue: It is no base64.
    """
    clean = text.translate(_URL_SAFE).rstrip("=")
    size = len(clean) * 3 // 4
    if size > max_bytes:
        raise LimitExceeded("decoded base64 in bytes", observed=size, allowed=max_bytes, setting="max_bytes")
    try:
        return base64.b64decode(clean + "=" * (-len(clean) % 4), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise InvalidValue(f"not base64: {problem}") from problem


def _decoded(text: str, max_bytes: int, claimed: str | None) -> bytes:
    data = decode_base64(text, max_bytes=max_bytes)
    if claimed is not None:
        check_media_type(claimed, data)
    return data


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@wire(tag="type")
class TextContent(Open):
    """Text. Spec: server/tools#text-content"""

    type: ClassVar[Literal["text"]] = "text"
    """Tells the kinds of content apart."""
    text: str
    """The text."""
    annotations: Annotations | None = None
    """Hints."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire(tag="type")
class ImageContent(Open):
    """A picture. Spec: server/tools#image-content"""

    type: ClassVar[Literal["image"]] = "image"
    """Tells the kinds of content apart."""
    data: str
    """The picture, in base64."""
    mime_type: str
    """Its media type."""
    annotations: Annotations | None = None
    """Hints."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""

    @classmethod
    def of_bytes(cls, data: bytes, mime_type: str) -> Self:
        """The content for the bytes of a picture."""
        return cls(data=_encode(data), mime_type=mime_type)

    def data_bytes(self, *, max_bytes: int = MAX_DECODED_BYTES, check_type: bool = False) -> bytes:
        """The bytes of the picture.

        Args:
            max_bytes: The bound on their number, which is looked at before they are decoded.
            check_type: Whether they have to begin as those of `mime_type` do; see `check_media_type`.

        Raises:
            LimitExceeded: There would be more than `max_bytes`.
            InvalidValue: It is no base64, or not what `mime_type` says.
        """
        return _decoded(self.data, max_bytes, self.mime_type if check_type else None)


@wire(since=R2025_03_26, tag="type")
class AudioContent(Open):
    """A recording. Spec: server/tools#audio-content"""

    type: ClassVar[Literal["audio"]] = "audio"
    """Tells the kinds of content apart."""
    data: str
    """The recording, in base64."""
    mime_type: str
    """Its media type."""
    annotations: Annotations | None = None
    """Hints."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""

    @classmethod
    def of_bytes(cls, data: bytes, mime_type: str) -> Self:
        """The content for the bytes of a recording."""
        return cls(data=_encode(data), mime_type=mime_type)

    def data_bytes(self, *, max_bytes: int = MAX_DECODED_BYTES, check_type: bool = False) -> bytes:
        """The bytes of the recording.

        Args:
            max_bytes: The bound on their number, which is looked at before they are decoded.
            check_type: Whether they have to begin as those of `mime_type` do; see `check_media_type`.

        Raises:
            LimitExceeded: There would be more than `max_bytes`.
            InvalidValue: It is no base64, or not what `mime_type` says.
        """
        return _decoded(self.data, max_bytes, self.mime_type if check_type else None)


@wire(when=("text",))
class TextResourceContents(Open):
    """The text of a resource. Spec: server/resources#resource-contents"""

    uri: str
    """The resource."""
    text: str
    """The text."""
    mime_type: str | None = None
    """Its media type."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire(when=("blob",))
class BlobResourceContents(Open):
    """The bytes of a resource. Spec: server/resources#resource-contents"""

    uri: str
    """The resource."""
    blob: str
    """The bytes, in base64."""
    mime_type: str | None = None
    """Their media type."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""

    @classmethod
    def of_bytes(cls, uri: str, data: bytes, mime_type: str | None = None) -> Self:
        """The contents of the resource `uri`."""
        return cls(uri=uri, blob=_encode(data), mime_type=mime_type)

    def blob_bytes(self, *, max_bytes: int = MAX_DECODED_BYTES, check_type: bool = False) -> bytes:
        """The bytes of the resource.

        Args:
            max_bytes: The bound on their number, which is looked at before they are decoded.
            check_type: Whether they have to begin as those of `mime_type` do; see `check_media_type`.

        Raises:
            LimitExceeded: There would be more than `max_bytes`.
            InvalidValue: It is no base64, or not what `mime_type` says.
        """
        return _decoded(self.blob, max_bytes, self.mime_type if check_type else None)


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents
"""What is in a resource."""


@wire(tag="type")
class EmbeddedResource(Open):
    """A resource with its contents. Spec: server/tools#embedded-resources"""

    type: ClassVar[Literal["resource"]] = "resource"
    """Tells the kinds of content apart."""
    resource: ResourceContents
    """The contents."""
    annotations: Annotations | None = None
    """Hints."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire(since=R2025_06_18, tag="type")
class ResourceLink(Open):
    """A resource by name, to be read if wanted. Spec: server/tools#resource-links"""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    """Tells the kinds of content apart."""
    uri: str
    """The resource. It need not be in `resources/list`."""
    name: str
    """The name for programs."""
    title: str | None = None
    """The name for people."""
    description: str | None = None
    """What it is."""
    mime_type: str | None = None
    """Its media type."""
    size: int | None = None
    """Its size in bytes, before base64."""
    annotations: Annotations | None = None
    """Hints."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """Its pictures."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire()
class UnknownContent(Open):
    """Content of a kind that the revision does not have: kept as it came, and sent as it came."""

    type: str
    """The kind. The other members are in `extra`."""


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
"""What a tool or a prompt gives."""
