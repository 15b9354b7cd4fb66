"""The input of an operation: its parameters and its request body, as the arguments of a tool and as an HTTP request.

Source: OpenAPI 3.1.1, sections 4.8.12 (parameters), 4.8.13 (request bodies) and 4.8.15 (encoding)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.json_text import write
from mcp_server.errors import ToolError
from mcp_server.openapi.document import UnsupportedOperation, first_free
from mcp_server.openapi.schemas import SchemaReader
from mcp_server.openapi.serialization import (
    QUERY_STYLES,
    SEGMENT_STYLES,
    bracketed,
    plain_text,
    query_pairs,
    segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_server.openapi.document import Operation, OperationDocument

__all__ = ["HttpRequest", "OperationInput", "Parameter", "argument_name", "read_input"]

_DEFAULT_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
"""The default style of each location, in the order in which arguments receive their names."""

_IGNORED_HEADERS: Final = frozenset({"accept", "authorization", "content-type"})
"""Headers that are not parameters: the media types and the HTTP client determine them (section 4.8.12.2)."""

_JSON: Final = re.compile(r"(application|\*)/(json|\*|[\w.+-]+\+json)(\s*;.*)?", re.IGNORECASE)
_FORM: Final = "application/x-www-form-urlencoded"

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BRACES: Final = re.compile(r"\{([^{}]+)\}")

_NAME_CHARS: Final = 64
"""Characters of the name of an argument. Some hosts allow no more, and only letters, digits and `_`."""


def argument_name(name: str) -> str:
    """Return a name with the characters that all hosts allow in the name of an argument."""
    return _ILLEGAL.sub("_", name).strip("_")[:_NAME_CHARS] or "value"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Parameter(FieldValue):
    """A parameter of an operation."""

    name: str
    """Its name in the document."""
    location: str
    """`path`, `query`, `header` or `cookie`."""
    argument: str
    """The name of the argument of the tool."""
    is_required: bool
    """Whether a request must have it."""
    schema: JsonObject
    """The schema of its values."""
    style: str
    """How its values are written (section 4.8.12.3)."""
    is_exploded: bool
    """Whether each item of an array or object is written on its own."""
    is_json: bool
    """Whether its value is written as JSON."""

    @property
    def kind(self) -> JsonValue:
        """The JSON type of its values, if its schema has one."""
        return self.schema.get("type")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Body(FieldValue):
    argument: str
    media_type: str
    is_required: bool
    schema: JsonObject
    write: Callable[[JsonValue], bytes]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HttpRequest(FieldValue):
    """An HTTP request of an operation."""

    target: str
    """The path and the query, percent-encoded."""
    headers: dict[str, str]
    """The header fields."""
    content: bytes | None
    """The body, if there is one."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OperationInput(FieldValue):
    """The parameters and the body of an operation."""

    operation: Operation
    """The operation."""
    parameters: tuple[Parameter, ...]
    """The parameters."""
    definitions: JsonObject
    """The schemas that the other schemas refer to."""
    _body: _Body | None

    @property
    def has_body(self) -> bool:
        """Whether a request can have a body."""
        return self._body is not None

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the arguments."""
        members: JsonObject = {each.argument: each.schema for each in self.parameters}
        required: list[JsonValue] = [each.argument for each in self.parameters if each.is_required]
        if self._body is not None:
            members[self._body.argument] = self._body.schema
            required += [self._body.argument] if self._body.is_required else []
        schema: JsonObject = {"type": "object", "properties": members, "additionalProperties": False}
        if required:
            schema["required"] = required
        if self.definitions:
            schema["$defs"] = self.definitions
        return schema

    def request(self, arguments: Mapping[str, JsonValue]) -> HttpRequest:
        """Return the HTTP request for arguments that match the schema.

        Raises:
            ToolError: A path parameter is empty or leads to another path, or a header contains control characters.
        """
        path: dict[str, str] = {}
        query: list[str] = []
        cookies: list[str] = []
        headers = {"Accept": "application/json, */*;q=0.8"}
        for parameter in self.parameters:
            value = arguments.get(parameter.argument)
            if value is None and not parameter.is_required:
                continue
            name, style, explode = parameter.name, parameter.style, parameter.is_exploded
            if parameter.is_json:
                value = write(value).decode()
            if parameter.location == "path":
                path[name] = segment(name, value, style=style, explode=explode)
            elif parameter.location == "header":
                headers[name] = _field(parameter, segment(name, value, style=style, explode=explode, encode=False))
            else:
                pairs = query if parameter.location == "query" else cookies
                pairs.extend(query_pairs(name, value, style=style, explode=explode))
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        content = None
        body = self._body
        if body is not None and (body.is_required or arguments.get(body.argument) is not None):
            headers["Content-Type"] = body.media_type
            content = body.write(arguments.get(body.argument))
        target = self._path(path)
        return HttpRequest(target=f"{target}?{'&'.join(query)}" if query else target, headers=headers, content=content)

    def _path(self, values: Mapping[str, str]) -> str:
        """Return the path of a request. Raises `ToolError` if a value makes it another path.

        Percent-encoding does not protect a segment `..`, because servers decode it before they resolve the path.
        An empty value turns `/users/{id}` into the path of the whole collection.
        """
        template = self.operation.path
        for parameter in self.parameters:
            if parameter.location == "path" and not values.get(parameter.name, ""):
                raise ToolError(f"{parameter.argument}: the value of a path parameter must not be empty")
        path = _BRACES.sub(lambda found: values.get(found[1], found[0]), template)
        for part, known in zip(path.split("/"), template.split("/"), strict=True):
            if part in (".", "..") and part != known:
                raise ToolError(f"{self.operation.method} {template}: {part!r} must not be a path segment")
        return path


def _field(parameter: Parameter, text: str) -> str:
    """Return the value of a header. Raises `ToolError` if it could end the header (RFC 9110 section 5.5)."""
    if _CONTROL.search(text) or not text.isascii():
        raise ToolError(f"{parameter.argument}: the header {parameter.name} allows only printable ASCII characters")
    return text


def read_input(document: OperationDocument, operation: Operation, item: JsonObject) -> OperationInput:
    """Read the input of an operation.

    Args:
        document: The document.
        operation: The operation.
        item: The path item that contains it. Its parameters belong to all operations of the path.

    Raises:
        UnsupportedOperation: It has a parameter or a body that cannot be sent.
    """
    schemas = SchemaReader(document)
    names: set[str] = set()
    found: list[Parameter] = []
    raw = _parameters(document, operation, item)
    for location, style in _DEFAULT_STYLES.items():
        for (name, where), parameter in raw.items():
            if where == location and not (where == "header" and name.lower() in _IGNORED_HEADERS):
                argument = _free(name, location, names)
                found.append(_parameter(document, schemas, {"style": style, **parameter}, argument))
    declared = {each.name for each in found if each.location == "path"}
    missing = [name for name in _BRACES.findall(operation.path) if name not in declared]
    if missing:
        raise UnsupportedOperation(f"the document does not describe the path parameter {', '.join(missing)}")
    body = _body(document, schemas, operation.raw.get("requestBody"), names)
    return OperationInput(operation=operation, parameters=tuple(found), definitions=schemas.definitions(), body=body)


def _free(name: str, location: str, names: set[str]) -> str:
    """Return the name of an argument that no other argument has."""
    plain = argument_name(name)
    suffix = f"_{location}"
    argument = (
        plain if plain not in names else first_free(plain[: _NAME_CHARS - len(suffix)] + suffix, names, _NAME_CHARS)
    )
    names.add(argument)
    return argument


def _parameters(
    document: OperationDocument, operation: Operation, item: JsonObject
) -> dict[tuple[str, str], JsonObject]:
    """Return the parameters by name and location. Those of an operation replace those of its path."""
    found: dict[tuple[str, str], JsonObject] = {}
    for owner in (item, operation.raw):
        listed = owner.get("parameters")
        for value in listed if isinstance(listed, list) else ():
            parameter = document.resolve(value)
            name, location = parameter.get("name"), parameter.get("in")
            if not isinstance(name, str) or location not in _DEFAULT_STYLES:
                raise UnsupportedOperation(f"a parameter has the name {name!r} and the location {location!r}")
            found[name, str(location)] = parameter
    return found


def _parameter(document: OperationDocument, schemas: SchemaReader, raw: JsonObject, argument: str) -> Parameter:
    name, location, style = str(raw["name"]), str(raw["in"]), raw["style"]
    styles: Mapping[str, object] = SEGMENT_STYLES if location in ("path", "header") else QUERY_STYLES
    if not isinstance(style, str) or style not in styles:
        raise UnsupportedOperation(f"the {location} parameter {name!r} has the unknown style {style!r}")
    explode = raw.get("explode", style == "form")
    content = raw.get("content")
    is_json = isinstance(content, dict)
    source = raw.get("schema", True)
    if isinstance(content, dict):
        media_type, member = next(iter(content.items()), ("", {}))
        if _JSON.fullmatch(media_type) is None:
            raise UnsupportedOperation(f"the {location} parameter {name!r} has the media type {media_type!r}")
        source = document.resolve(member).get("schema", True)
    return Parameter(
        name=name,
        location=location,
        argument=argument,
        # Some documents forget that path parameters are always required.
        is_required=location == "path" or raw.get("required") is True,
        schema={
            **_annotations(raw),
            **_as_object(schemas.read(source)),
            # Without it, `created<` and `created>` would look alike.
            **({} if argument == name else {"title": name}),
            **_description(raw),
        },
        style=style,
        is_exploded=explode is True,
        is_json=is_json,
    )


def _as_object(schema: JsonObject | bool) -> JsonObject:  # noqa: FBT001  # a schema can be a boolean
    return schema if isinstance(schema, dict) else {} if schema else {"not": {}}


def _description(raw: JsonObject) -> JsonObject:
    """Return the description of a parameter or a body, which is about more than that of its schema."""
    return {"description": raw["description"]} if isinstance(raw.get("description"), str) else {}


def _annotations(raw: JsonObject) -> JsonObject:
    """Return the examples and the deprecation of a parameter, as members of a schema."""
    found: JsonObject = {"deprecated": True} if raw.get("deprecated") is True else {}
    examples = raw.get("examples")
    values = (
        [each["value"] for each in examples.values() if isinstance(each, dict) and "value" in each]
        if isinstance(examples, dict)
        else []
    )
    if "example" in raw:
        values = [raw["example"]]
    return {**found, "examples": values} if values else found


def _body(document: OperationDocument, schemas: SchemaReader, raw: JsonValue, names: set[str]) -> _Body | None:
    """Return the body of an operation in the first media type that can be written; `None` if it has no body."""
    if raw is None:
        return None
    body = document.resolve(raw)
    content = body.get("content")
    offered = content if isinstance(content, dict) else {}
    choices: tuple[tuple[Callable[[str], bool], Callable[[JsonObject], Callable[[JsonValue], bytes]]], ...] = (
        (_is_json, lambda _: _write_json),
        (_is_form, _form_writer),
        (_is_text, lambda _: _write_text),
    )
    for fits, writer in choices:
        for media_type, member in offered.items():
            if not fits(media_type):
                continue
            described = document.resolve(member)
            schema = schemas.read(described.get("schema", True))
            return _Body(
                argument=_free("body", "content", names),
                media_type="application/json" if "*" in media_type else media_type,
                is_required=body.get("required") is True,
                schema={**_as_object(schema), **_description(body)},
                write=writer(described),
            )
    if offered and body.get("required") is True:
        raise UnsupportedOperation(f"its body has an unsupported media type: {', '.join(offered)}")
    return None


def _is_json(media_type: str) -> bool:
    return _JSON.fullmatch(media_type) is not None


def _is_form(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() == _FORM


def _is_text(media_type: str) -> bool:
    return media_type.lower().startswith("text/")


def _write_json(value: JsonValue) -> bytes:
    return write(value)


def _write_text(value: JsonValue) -> bytes:
    return plain_text(value).encode()


def _form_writer(described: JsonObject) -> Callable[[JsonValue], bytes]:
    """Return the function that writes a form (section 4.8.15.1.1)."""
    encoding = described.get("encoding")
    rows = encoding if isinstance(encoding, dict) else {}

    def pairs(value: JsonObject) -> Iterator[str]:
        for name, member in value.items():
            row = rows.get(name)
            style = row.get("style") if isinstance(row, dict) else None
            if isinstance(row, dict) and isinstance(style, str) and style in QUERY_STYLES:
                yield from query_pairs(name, member, style=style, explode=row.get("explode", style == "form") is True)
            elif _is_nested(member):
                yield from bracketed(name, member)
            else:
                yield from query_pairs(name, member, style="form", explode=True)

    return lambda value: "&".join(pairs(value)).encode() if isinstance(value, dict) else plain_text(value).encode()


def _is_nested(value: JsonValue) -> bool:
    """Return whether a value is an object, or contains one."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict | list) for each in value))
