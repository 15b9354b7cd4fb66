"""Content: text, images, audio and resources, and the base64 encoding of binary content.

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
"""The default limit of decoded binary content, in bytes: more than any image or recording that a model accepts."""

_URL_SAFE: Final = str.maketrans("-_", "+/", " \t\r\n")


def decode_base64(text: str, *, max_bytes: int = MAX_DECODED_BYTES) -> bytes:
    """Decode base64 from a peer. Line breaks, the URL-safe alphabet and missing padding are accepted.

    Args:
        text: The base64.
        max_bytes: The maximum size of the result, in bytes.

    Returns:
        The bytes.

    Raises:
        LimitExceeded: The result would be larger than `max_bytes`.
        InvalidValue: The text is not base64.
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
    """The type of content."""
    text: str
    """The text."""
    annotations: Annotations | None = None
    """Hints for clients."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire(tag="type")
class ImageContent(Open):
    """An image. Spec: server/tools#image-content"""

    type: ClassVar[Literal["image"]] = "image"
    """The type of content."""
    data: str
    """The image, in base64."""
    mime_type: str
    """The media type."""
    annotations: Annotations | None = None
    """Hints for clients."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""

    @classmethod
    def of_bytes(cls, data: bytes, mime_type: str) -> Self:
        """Create content from the bytes of an image."""
        return cls(data=_encode(data), mime_type=mime_type)

    def data_bytes(self, *, max_bytes: int = MAX_DECODED_BYTES, check_type: bool = False) -> bytes:
        """Decode the image.

        Args:
            max_bytes: The maximum size, in bytes, which is checked before the decoding.
            check_type: Whether the bytes must begin as `mime_type` requires; see `check_media_type`.

        Raises:
            LimitExceeded: The image would be larger than `max_bytes`.
            InvalidValue: The data is not base64, or does not match `mime_type`.
        """
        return _decoded(self.data, max_bytes, self.mime_type if check_type else None)


@wire(since=R2025_03_26, tag="type")
class AudioContent(Open):
    """An audio recording. Spec: server/tools#audio-content"""

    type: ClassVar[Literal["audio"]] = "audio"
    """The type of content."""
    data: str
    """The recording, in base64."""
    mime_type: str
    """The media type."""
    annotations: Annotations | None = None
    """Hints for clients."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""

    @classmethod
    def of_bytes(cls, data: bytes, mime_type: str) -> Self:
        """Create content from the bytes of a recording."""
        return cls(data=_encode(data), mime_type=mime_type)

    def data_bytes(self, *, max_bytes: int = MAX_DECODED_BYTES, check_type: bool = False) -> bytes:
        """Decode the recording.

        Args:
            max_bytes: The maximum size, in bytes, which is checked before the decoding.
            check_type: Whether the bytes must begin as `mime_type` requires; see `check_media_type`.

        Raises:
            LimitExceeded: The recording would be larger than `max_bytes`.
            InvalidValue: The data is not base64, or does not match `mime_type`.
        """
        return _decoded(self.data, max_bytes, self.mime_type if check_type else None)


@wire(when=("text",))
class TextResourceContents(Open):
    """The text of a resource. Spec: server/resources#resource-contents"""

    uri: str
    """The URI of the resource."""
    text: str
    """The text."""
    mime_type: str | None = None
    """The media type."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire(when=("blob",))
class BlobResourceContents(Open):
    """The bytes of a resource. Spec: server/resources#resource-contents"""

    uri: str
    """The URI of the resource."""
    blob: str
    """The bytes, in base64."""
    mime_type: str | None = None
    """The media type of the bytes."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""

    @classmethod
    def of_bytes(cls, uri: str, data: bytes, mime_type: str | None = None) -> Self:
        """Create the contents of the resource `uri` from bytes."""
        return cls(uri=uri, blob=_encode(data), mime_type=mime_type)

    def blob_bytes(self, *, max_bytes: int = MAX_DECODED_BYTES, check_type: bool = False) -> bytes:
        """Decode the contents.

        Args:
            max_bytes: The maximum size, in bytes, which is checked before the decoding.
            check_type: Whether the bytes must begin as `mime_type` requires; see `check_media_type`.

        Raises:
            LimitExceeded: The contents would be larger than `max_bytes`.
            InvalidValue: The data is not base64, or does not match `mime_type`.
        """
        return _decoded(self.blob, max_bytes, self.mime_type if check_type else None)


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents
"""The contents of a resource."""


@wire(tag="type")
class EmbeddedResource(Open):
    """A resource with its contents. Spec: server/tools#embedded-resources"""

    type: ClassVar[Literal["resource"]] = "resource"
    """The type of content."""
    resource: ResourceContents
    """The contents."""
    annotations: Annotations | None = None
    """Hints for clients."""
    meta: JsonObject | None = field(default=None, name="_meta", since=META_SINCE)
    """Metadata."""


@wire(since=R2025_06_18, tag="type")
class ResourceLink(Open):
    """A reference to a resource, which the client can read. Spec: server/tools#resource-links"""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    """The type of content."""
    uri: str
    """The URI of the resource, which may be missing in `resources/list`."""
    name: str
    """The identifier."""
    title: str | None = None
    """The display name."""
    description: str | None = None
    """The description of the resource."""
    mime_type: str | None = None
    """The media type."""
    size: int | None = None
    """The size in bytes, before base64."""
    annotations: Annotations | None = None
    """Hints for clients."""
    icons: tuple[Icon, ...] | None = field(default=None, since=R2025_11_25)
    """The icons."""
    meta: JsonObject | None = field(default=None, name="_meta")
    """Metadata."""


@wire()
class UnknownContent(Open):
    """Content of a type that the revision does not define. It is kept and sent unchanged."""

    type: str
    """The type of content. The other members are in `extra`."""


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
"""A part of the result of a tool or prompt."""
