"""Conversion of a function's return value to the result of a tool, in the revision of the client.

Spec: server/tools#tool-result, server/tools#output-schema. The return annotation determines the conversion:

| annotation                                                     | content                     | structured content      |
|----------------------------------------------------------------|-----------------------------|-------------------------|
| `str`, and other types that are a string in JSON               | the text                    | none                    |
| `None`                                                         | nothing                     | none                    |
| `Image`, `Audio`, `File`, `bytes`, content blocks, lists of them | the blocks                | none                    |
| dataclass, attrs class, `TypedDict`, `NamedTuple`, `dict[str, T]` | the JSON                 | the object              |
| any other: numbers, booleans, lists, unions                    | the JSON                    | `{"result": value}`     |
| none, `object`, `Any`, and lists of these: `list`, `list[Any]` | by the value                | none                    |
| `CallToolResult`                                               | unchanged                   | unchanged               |

By the value: content blocks, media and `bytes`, alone or in a list, are blocks; any other value is the text or the
JSON. `list`, `tuple`, `Sequence` and `Iterable` without an item type are treated like a missing annotation.

Values are wrapped in the same way in every revision, although only the legacy revisions require an object.

Content that an old revision does not have is replaced by a text that describes it. A tool that returns audio can
therefore respond to a client of 2024-11-05, which does not support audio content.
"""

from __future__ import annotations

import base64
import inspect
import json
import mimetypes
import pathlib
import types
import typing
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Union, cast, get_args, get_origin
from urllib.parse import quote

import attrs
import orjson

from mcp_core.field_methods import FieldValue
from mcp_core.schema.annotations import Function, Scope, Unresolvable, function_scope
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.records import MISSING
from mcp_core.schema.type_spec import Mismatch, TypeSpec
from mcp_core.types.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    UnknownContent,
)
from mcp_core.types.tools import CallToolResult
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.handlers.input_required import InputRequired
from mcp_server.schema.signature import label

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision
    from mcp_core.schema.hooks import HookConverter
    from mcp_core.types.prompts import GetPromptResult

__all__ = ["Audio", "File", "Image", "Results", "fit_prompt", "fit_result", "results"]

_OCTETS: Final = "application/octet-stream"


def _data_of(path: pathlib.Path | None, data: bytes | None) -> bytes:
    if (path is None) == (data is None):
        raise ValueError("pass either data or path")
    return path.read_bytes() if path is not None else data or b""


def _type_of(path: pathlib.Path | None, mime_type: str | None, default: str) -> str:
    guessed = mimetypes.guess_type(path.name)[0] if path is not None else None
    return mime_type or guessed or default


class Image:
    """An image that a tool returns.

    Args:
        data: The bytes of the image.
        mime_type: The media type. Default: guessed from the file name, otherwise `image/png`.
        path: A file to read, instead of `data`.

    Raises:
        ValueError: Both `data` and `path` are given, or neither.
        OSError: The file cannot be read.
    """

    def __init__(
        self, data: bytes | None = None, *, mime_type: str | None = None, path: str | pathlib.Path | None = None
    ) -> None:
        file = None if path is None else pathlib.Path(path)
        self.data: bytes = _data_of(file, data)
        """The bytes of the image."""
        self.mime_type: str = _type_of(file, mime_type, "image/png")
        """The media type."""

    def to_content(self) -> ImageContent:
        """Return the content block."""
        return ImageContent(data=base64.b64encode(self.data).decode("ascii"), mime_type=self.mime_type)


class Audio:
    """A sound recording that a tool returns.

    Args:
        data: The bytes of the recording.
        mime_type: The media type. Default: guessed from the file name, otherwise `audio/wav`.
        path: A file to read, instead of `data`.

    Raises:
        ValueError: Both `data` and `path` are given, or neither.
        OSError: The file cannot be read.
    """

    def __init__(
        self, data: bytes | None = None, *, mime_type: str | None = None, path: str | pathlib.Path | None = None
    ) -> None:
        file = None if path is None else pathlib.Path(path)
        self.data: bytes = _data_of(file, data)
        """The bytes of the recording."""
        self.mime_type: str = _type_of(file, mime_type, "audio/wav")
        """The media type."""

    def to_content(self) -> AudioContent:
        """Return the content block."""
        return AudioContent(data=base64.b64encode(self.data).decode("ascii"), mime_type=self.mime_type)


class File:
    """A file that a tool returns as an embedded resource.

    Args:
        data: The contents: text or bytes.
        mime_type: The media type. Default: guessed from the name.
        path: A file to read, instead of `data`.
        uri: The URI of the embedded resource. Default: made from the name.
        name: The file name. Default: the name of `path`.

    Raises:
        ValueError: Both `data` and `path` are given, or neither.
        OSError: The file cannot be read.
    """

    def __init__(
        self,
        data: bytes | str | None = None,
        *,
        mime_type: str | None = None,
        path: str | pathlib.Path | None = None,
        uri: str | None = None,
        name: str | None = None,
    ) -> None:
        file = None if path is None else pathlib.Path(path)
        self.data: bytes | str = data if isinstance(data, str) and file is None else _data_of(file, _bytes(data))
        """The contents."""
        self.name: str = name or (file.name if file is not None else "result")
        """The file name."""
        default = "text/plain" if isinstance(self.data, str) else _OCTETS
        self.mime_type: str = _type_of(pathlib.Path(self.name), mime_type, default)
        """The media type."""
        self.uri: str = uri or f"attachment:/{quote(self.name, safe='')}"
        """The URI of the embedded resource."""

    def to_content(self) -> EmbeddedResource:
        """Return the content block."""
        if isinstance(self.data, str):
            return EmbeddedResource(
                resource=TextResourceContents(uri=self.uri, text=self.data, mime_type=self.mime_type)
            )
        blob = base64.b64encode(self.data).decode("ascii")
        return EmbeddedResource(resource=BlobResourceContents(uri=self.uri, blob=blob, mime_type=self.mime_type))


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


_BLOCKS: Final = (TextContent, ImageContent, AudioContent, EmbeddedResource, ResourceLink, UnknownContent)
_MEDIA: Final = (Image, Audio, File)
_LISTS: Final = (list, tuple, Sequence, Iterable)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Results(FieldValue):
    """The conversion of the return values of a function."""

    output_schema: JsonObject | None
    """The JSON Schema of the structured content; `None` if there is no structured content."""
    _owner: str
    _spec: TypeSpec | None
    _wrapped: bool
    _any: TypeSpec

    def to_result(self, value: object) -> CallToolResult:
        """Return the tool result for a return value.

        Args:
            value: The return value of the function.

        Raises:
            InvalidResult: The value does not match the annotation, or cannot be represented in JSON.
        """
        if isinstance(value, CallToolResult):
            return value
        try:
            if self._spec is None:
                return CallToolResult(content=tuple(self._blocks(value)))
            written = self._spec.dump(value)
        except Mismatch as mismatch:
            raise self._failure("; ".join(str(problem) for problem in mismatch.problems())) from None
        except RecursionError:
            raise self._failure("the value contains itself, or is nested too deeply") from None
        if self.output_schema is None:
            text = written if isinstance(written, str) else _json(written)
            return CallToolResult(content=() if written is None else (TextContent(text=text),))
        structured: JsonValue = {"result": written} if self._wrapped else written
        return CallToolResult(content=(TextContent(text=_json(structured)),), structured_content=structured)

    def _failure(self, what: str) -> InvalidResult:
        return InvalidResult(f"{self._owner} returned a value that does not match its annotation: {what}")

    def _blocks(self, value: object) -> Iterable[ContentBlock]:
        """Return the content for a value whose type the annotation does not specify."""
        if value is None:
            return []
        if isinstance(value, list | tuple) and any(isinstance(item, (*_BLOCKS, *_MEDIA, bytes)) for item in value):
            return [block for item in value for block in self._blocks(item)]
        if isinstance(value, _BLOCKS):
            return [value]
        if isinstance(value, _MEDIA):
            return [value.to_content()]
        if isinstance(value, bytes):
            return [File(value).to_content()]
        written = self._any.dump(value)
        return [TextContent(text=written if isinstance(written, str) else _json(written))]


def _json(value: JsonValue) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # An integer of more than 64 bits, or a lone surrogate, which can be written only as an escape.
        return json.dumps(value, separators=(",", ":"))


def _is_content(hint: object) -> bool:
    """Return whether an annotation contains content blocks, or does not specify a type."""
    if hint in (MISSING, object, typing.Any, bytes) or hint == ContentBlock:
        return True
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_is_content(argument) for argument in arguments)
    if isinstance(hint, type) and issubclass(hint, (*_BLOCKS, *_MEDIA, CallToolResult)):
        return True
    if _unsubscripted(hint) in _LISTS:
        return True
    if isinstance(origin, type) and issubclass(origin, _LISTS) and not issubclass(origin, dict):
        items = [argument for argument in arguments if argument is not Ellipsis]
        return any(_is_block(item) for item in items) or (bool(items) and all(map(_is_unknown, items)))
    return False


def _unsubscripted(hint: object) -> object:
    """Return the class of a `typing` alias without arguments, for example `typing.List`; otherwise the annotation."""
    return hint if get_args(hint) else get_origin(hint) or hint


def _is_unknown(hint: object) -> bool:
    return hint in (MISSING, object, typing.Any)


def _is_block(hint: object) -> bool:
    return not _is_unknown(hint) and _is_content(hint)


def results(function: Function, converter: HookConverter | None = None) -> Results:
    """Read the return annotation of a function.

    Args:
        function: The function.
        converter: The hooks of the author.

    Returns:
        The conversion of its return values.

    Raises:
        RegistrationError: JSON cannot represent the type, or the annotation cannot be resolved.
    """
    owner = label(function)
    scope = function_scope(function, {})
    compiler = Compiler(owner, output=True, error=RegistrationError, converter=converter)
    compiler.at("the return annotation")
    hint = _without_input_required(_return_hint(function, scope, compiler))
    unknown = compiler.spec(object, scope)
    if _is_content(hint):
        return Results(output_schema=None, owner=owner, spec=None, wrapped=False, any=unknown)
    shape = compiler.spec(hint, scope)
    if shape.kinds <= {"string", "null"}:
        return Results(output_schema=None, owner=owner, spec=shape, wrapped=False, any=unknown)
    wrapped = shape.kinds != {"object"}
    schema = compiler.finish(
        {"type": "object", "properties": {"result": shape.schema}, "required": ["result"]} if wrapped else shape.schema
    )
    if not wrapped and "type" not in schema:
        # The schema of a class that contains itself is a reference; legacy revisions require an object at the top.
        schema = {"type": "object", **schema}
    return Results(output_schema=schema, owner=owner, spec=shape, wrapped=wrapped, any=unknown)


def _without_input_required(hint: object) -> object:
    """Return the annotation without `InputRequired`, which is not a tool result."""
    members = get_args(hint)
    if hint is InputRequired or InputRequired not in members:
        return MISSING if hint is InputRequired else hint
    kept = [member for member in members if member is not InputRequired]
    return Union[tuple(kept)]  # noqa: UP007  # the members are known only at run time


def _return_hint(function: Function, scope: Scope, compiler: Compiler) -> object:
    try:
        hint: object = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return MISSING
    if isinstance(hint, str):
        try:
            return scope.evaluate(hint)
        except Unresolvable as error:
            raise compiler.failure(f"the annotation {error}") from error
    return hint


_KINDS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)


@cache
def _missing(revision: Revision) -> tuple[type, ...]:
    """Return the kinds of content that `revision` does not have."""
    return tuple(kind for kind in _KINDS if revision not in kind.__wire__.alive)


def _fit(block: ContentBlock, missing: tuple[type, ...]) -> ContentBlock:
    if not isinstance(block, missing):
        return block
    if isinstance(block, AudioContent):
        return TextContent(
            text=f"[audio of type {block.mime_type}, which this revision of the protocol does not support]"
        )
    channel = cast("ResourceLink", block)  # the only other kind that later revisions added
    about = f"{channel.title or channel.name}: {channel.uri}"
    return TextContent(text=about if channel.mime_type is None else f"{about} ({channel.mime_type})")


def fit_result(result: CallToolResult, revision: Revision) -> CallToolResult:
    """Return the result with the content that `revision` does not have replaced by text."""
    missing = _missing(revision)
    if not missing or not any(isinstance(block, missing) for block in result.content):
        return result
    return attrs.evolve(result, content=tuple(_fit(block, missing) for block in result.content))


def fit_prompt(result: GetPromptResult, revision: Revision) -> GetPromptResult:
    """Return the prompt with the content that `revision` does not have replaced by text."""
    missing = _missing(revision)
    if not missing or not any(isinstance(message.content, missing) for message in result.messages):
        return result
    return attrs.evolve(
        result,
        messages=tuple(attrs.evolve(message, content=_fit(message.content, missing)) for message in result.messages),
    )
