"""OpenAPI documents: their operations, references and servers. Source: OpenAPI 3.1.1, sections 4.8.1 to 4.8.10.

Documents of version 3.0 are accepted too. A document that a YAML parser read can contain dates and numbers as keys;
they become strings.
"""

from __future__ import annotations

import datetime
import itertools
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Operation", "OperationDocument", "UnsupportedOperation", "first_free", "strings"]

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

_VERSION: Final = re.compile(r"3\.[012]\.\d+(-.+)?")


class UnsupportedOperation(Exception):  # not an error: the operation is left out
    """An operation cannot be called by this package. The message contains the reason."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Operation(FieldValue):
    """An operation of an OpenAPI document."""

    method: str
    """The HTTP method in upper case, for example `GET`."""
    path: str
    """The path with its parameters in braces, for example `/users/{id}`."""
    operation_id: str | None
    """The `operationId`, which is unique in the document."""
    summary: str | None
    """A short summary."""
    description: str | None
    """A description, in CommonMark."""
    tags: tuple[str, ...]
    """The tags."""
    deprecated: bool
    """Whether the operation is deprecated."""
    server: str | None
    """The URL of the server of the operation, if it differs from that of the document."""
    raw: JsonObject
    """The operation object with all members, also extensions, whose names begin with `x-`."""

    @property
    def key(self) -> str:
        """The `operationId`, or the method and the path, for example `GET /users/{id}`."""
        return self.operation_id or f"{self.method} {self.path}"


def strings(value: JsonValue) -> tuple[str, ...]:
    """Return the strings of an array, or nothing."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def first_free(name: str, taken: Container[str], most: int) -> str:
    """Return the name, shortened to `most` characters, with a number if it is taken."""
    ends = itertools.chain([""], (f"_{number}" for number in itertools.count(2)))
    return next(each for end in ends if (each := name[: most - len(end)] + end) not in taken)


class OperationDocument:
    """An OpenAPI document.

    Args:
        document: The parsed document.

    Raises:
        RegistrationError: It is not an OpenAPI document of version 3.
    """

    def __init__(self, document: Mapping[str, object]) -> None:
        root = _JsonReader().read(document)
        if not isinstance(root, dict):
            raise RegistrationError(f"an OpenAPI document is a dict, not {type(document).__name__}")
        version = root.get("openapi")
        if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
            found = f"swagger {root['swagger']!r}" if "swagger" in root else f"openapi {version!r}"
            raise RegistrationError(
                f"the document declares {found}; supported are OpenAPI 3.0 and 3.1 (convert older documents first)"
            )
        self._root: Final = root
        info = root.get("info")
        self._info: Final = info if isinstance(info, dict) else {}

    @property
    def title(self) -> str:
        """The title of the API."""
        return self._text("title") or "OpenAPI"

    @property
    def version(self) -> str:
        """The version of the API."""
        return self._text("version") or "0"

    @property
    def description(self) -> str | None:
        """The description of the API."""
        return self._text("description") or self._text("summary")

    def _text(self, member: str) -> str | None:
        value = self._info.get(member)
        return value if isinstance(value, str) and value else None

    @property
    def server(self) -> str | None:
        """The URL of the first server, if it is absolute, with the defaults of its variables."""
        found = _server(self._root)
        return found if found is not None and urlsplit(found).scheme in ("http", "https") else None

    def operations(self) -> Iterator[tuple[Operation, JsonObject]]:
        """Yield each operation with the path item that contains it."""
        paths = self._root.get("paths")
        for path, item in paths.items() if isinstance(paths, dict) else ():
            if not path.startswith("/"):
                continue  # an extension
            item = self._followed(item)  # noqa: PLW2901  # the same item
            for method in _METHODS:
                raw = item.get(method)
                if isinstance(raw, dict):
                    own = _server(raw) or _server(item)
                    yield _operation(method, path, raw, None if own == _server(self._root) else own), item

    def _followed(self, item: JsonValue) -> JsonObject:
        try:
            return self.resolve(item)
        except UnsupportedOperation as unsupported:
            raise RegistrationError(f"the document has an invalid path item: {unsupported}") from None

    def resolve(self, value: JsonValue) -> JsonObject:
        """Return the object that a value is or refers to. Raises `UnsupportedOperation`."""
        followed: list[str] = []
        while isinstance(value, dict):
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            if reference in followed:
                raise UnsupportedOperation(f"the reference {reference!r} leads to itself")
            followed.append(reference)
            value = self.at(reference)
        raise UnsupportedOperation(f"an object is expected, not {value!r}")

    def at(self, reference: str) -> JsonValue:
        """Return the value at a local reference (RFC 6901 section 6). Raises `UnsupportedOperation`."""
        if not reference.startswith("#/"):
            raise UnsupportedOperation(f"the reference {reference!r} leads out of the document; bundle the document")
        value: JsonValue = self._root
        for token in reference[2:].split("/"):
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                raise UnsupportedOperation(f"the reference {reference!r} leads to nothing")
        return value


def _operation(method: str, path: str, raw: JsonObject, server: str | None) -> Operation:
    def text(member: str) -> str | None:
        value = raw.get(member)
        return value.strip() or None if isinstance(value, str) else None

    return Operation(
        method=method.upper(),
        path=path,
        operation_id=text("operationId"),
        summary=text("summary"),
        description=text("description"),
        tags=strings(raw.get("tags")),
        deprecated=raw.get("deprecated") is True,
        server=server,
        raw=raw,
    )


def _server(owner: JsonObject) -> str | None:
    """Return the URL of the first server of a document, path item or operation."""
    servers = owner.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(url, str):
        return None
    variables = first.get("variables")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        default = variable.get("default") if isinstance(variable, dict) else None
        url = url.replace(f"{{{name}}}", str(default))
    return url


class _JsonReader:
    """Conversion of what a YAML parser returns to JSON. Values that anchors share stay shared."""

    def __init__(self) -> None:
        self._done: dict[int, JsonValue] = {}
        self._begun: set[int] = set()

    def read(self, value: object) -> JsonValue:
        """Return a value as JSON. Raises `RegistrationError` if it contains itself or another class."""
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if not isinstance(value, dict | list | tuple):
            raise RegistrationError(f"an OpenAPI document contains only JSON, not {value!r}")
        key = id(value)
        if key not in self._done:
            if key in self._begun:
                raise RegistrationError("the OpenAPI document contains itself; use $ref for recursive schemas")
            self._begun.add(key)
            self._done[key] = (
                {str(name): self.read(member) for name, member in value.items()}
                if isinstance(value, dict)
                else [self.read(item) for item in value]
            )
        return self._done[key]
