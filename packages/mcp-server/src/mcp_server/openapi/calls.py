"""Calls of an operation through an HTTP client, and their responses as results of tools and contents of resources."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import orjson

from mcp_core.errors import ErrorCode, RequestFailed, ResourceNotFound
from mcp_core.field_methods import FieldValue
from mcp_core.types import BlobResourceContents, CallToolResult, TextContent, TextResourceContents
from mcp_server.errors import ToolError
from mcp_server.features.results import Audio, File, Image

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import ContentBlock
    from mcp_server.openapi.inputs import HttpRequest, OperationInput

__all__ = ["HttpClient", "HttpResponse", "OperationCall"]

_log: Final = logging.getLogger("mcp_server")

_ERROR_CHARS: Final = 4_000
"""Characters of the body of an error response that a model sees. Error bodies of real APIs are shorter."""

_TEXT_TYPES: Final = frozenset(
    {"json", "xml", "javascript", "yaml", "x-yaml", "x-www-form-urlencoded", "x-ndjson", "sql"}
)


class HttpResponse(Protocol):
    """A response whose body is read piece by piece. `httpx.Response` is one."""

    @property
    def status_code(self) -> int:
        """The status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields; names are compared without case."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the pieces of the decoded body."""

    async def aclose(self) -> None:
        """Close the response. Reading another piece raises an error."""


class HttpClient(Protocol):
    """An HTTP client: `httpx.AsyncClient` is one. It sends credentials, follows redirects and limits the time."""

    @property
    def base_url(self) -> object:
        """The URL of the API as `str()` returns it; empty if it is unknown."""

    def stream(
        self, method: str, url: str, *, content: bytes | None, headers: dict[str, str]
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request. The block receives the response."""


@attrs.frozen(eq=False, repr=False)
class _ApiResponse(FieldValue):
    status: int
    media_type: str
    charset: str
    body: bytes

    @property
    def is_text(self) -> bool:
        kind, _, subtype = self.media_type.partition("/")
        return kind == "text" or subtype in _TEXT_TYPES or subtype.endswith(("+json", "+xml")) or not self.media_type

    def text(self) -> str:
        """Return the body as text. Bytes that are not valid in its encoding are replaced."""
        try:
            return self.body.decode(self.charset, "replace")
        except LookupError:  # an unknown encoding
            return self.body.decode("utf-8", "replace")

    def json_object(self) -> JsonObject | None:
        """Return the body if it is a JSON object."""
        try:
            value: JsonValue = orjson.loads(self.body)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


@attrs.frozen(eq=False, repr=False)
class OperationCall(FieldValue):
    """An operation that can be called."""

    _client: HttpClient
    _base: str
    _input: OperationInput
    _limit: int

    async def tool_result(self, arguments: Mapping[str, JsonValue]) -> CallToolResult:
        """Call the operation. Raises `ToolError` if it fails."""
        received = await self._received(self._input.request(arguments))
        if received.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ToolError(f"{self._status(received.status)}: {received.text()[:_ERROR_CHARS]}")
        if not received.body:
            return CallToolResult(content=(TextContent(text=self._status(received.status)),))
        block = _block(received)
        structured = received.json_object() if isinstance(block, TextContent) else None
        return CallToolResult(content=(block,), structured_content=structured)

    async def contents(
        self, arguments: Mapping[str, JsonValue], uri: str
    ) -> TextResourceContents | BlobResourceContents:
        """Read the operation as the resource `uri`. Raises `RequestFailed` if it fails."""
        try:
            received = await self._received(self._input.request(arguments))
        except ToolError as error:
            raise RequestFailed(error.message, code=ErrorCode.INTERNAL_ERROR) from error
        if received.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise ResourceNotFound.of(uri)
        if received.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise RequestFailed(self._status(received.status), code=ErrorCode.INTERNAL_ERROR)
        kind = received.media_type or None
        if received.is_text:
            return TextResourceContents(uri=uri, text=received.text(), mime_type=kind)
        return BlobResourceContents.of_bytes(uri, received.body, received.media_type)

    async def _received(self, request: HttpRequest) -> _ApiResponse:
        """Send a request and receive the whole response. Raises `ToolError` if it does not arrive or is too long."""
        operation = self._input.operation
        body = bytearray()
        try:
            stream = self._client.stream(
                operation.method, self._base + request.target, content=request.content, headers=request.headers
            )
            async with stream as response:
                status, content_type = response.status_code, response.headers.get("content-type", "")
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > self._limit:
                        # The next piece raises an error, which ends the generators of the client. `break` would leave
                        # them to the garbage collector, which trio reports.
                        await response.aclose()
        except Exception as error:  # of the author's HTTP client, whose classes are unknown here
            if len(body) > self._limit:
                raise self._too_long() from error
            _log.exception("OpenAPI request failed: operation=%s", operation.key)
            raise ToolError(
                f"{self._label()}: the API did not respond. The log of the server contains the reason."
            ) from error
        if len(body) > self._limit:
            raise self._too_long()
        media_type, _, rest = content_type.partition(";")
        charset = next((part.strip()[8:].strip('"') for part in rest.split(";") if _is_charset(part)), "utf-8")
        return _ApiResponse(status, media_type.strip().lower(), charset, bytes(body))

    def _too_long(self) -> ToolError:
        return ToolError(f"{self._label()}: the response has more than {self._limit} bytes (Limits.message_bytes)")

    def _label(self) -> str:
        return f"{self._input.operation.method} {self._input.operation.path}"

    def _status(self, status: int) -> str:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = ""
        return f"{self._label()}: HTTP {status} {phrase}".rstrip()


def _is_charset(part: str) -> bool:
    return part.strip().lower().startswith("charset=")


def _block(received: _ApiResponse) -> ContentBlock:
    """Return the content block for a response."""
    if received.is_text:
        return TextContent(text=received.text())
    kind = received.media_type.partition("/")[0]
    if kind == "image":
        return Image(received.body, mime_type=received.media_type).to_content()
    if kind == "audio":
        return Audio(received.body, mime_type=received.media_type).to_content()
    return File(received.body, mime_type=received.media_type).to_content()
