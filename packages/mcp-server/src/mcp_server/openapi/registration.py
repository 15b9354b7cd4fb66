"""Registration of the operations of an OpenAPI document as tools and resources."""

from __future__ import annotations

import inspect
import logging
import re
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, Unpack

from mcp_core.types import CallToolResult, ToolAnnotations
from mcp_server.errors import RegistrationError
from mcp_server.openapi.calls import HttpClient, OperationCall
from mcp_server.openapi.document import OperationDocument, UnsupportedOperation, first_free
from mcp_server.openapi.inputs import OperationInput, argument_name, read_input
from mcp_server.uris.template import UriTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.limits import Limits
    from mcp_core.schema.annotations import Function
    from mcp_server.openapi.document import Operation
    from mcp_server.options import ResourceOptions, ToolOptions

__all__ = ["Expose", "OperationKind", "Registry", "add_operations"]

_log: Final = logging.getLogger("mcp_server")

OperationKind: TypeAlias = Literal["tool", "resource"]
"""What an operation becomes."""

Expose: TypeAlias = "Callable[[Operation], OperationKind | None]"
"""Function that decides what an operation becomes; `None` omits it."""

_NAME_CHARS: Final = 64
"""Characters of a generated name. Some hosts allow no more, and no dots."""

_BRACES: Final = re.compile(r"\{([^{}]+)\}")
_NOT_HOST: Final = re.compile(r"[^a-z0-9]+")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]+")

_HINTS: Final[Mapping[str, ToolAnnotations]] = {
    "GET": ToolAnnotations(read_only_hint=True),
    "HEAD": ToolAnnotations(read_only_hint=True),
    "OPTIONS": ToolAnnotations(read_only_hint=True),
    "TRACE": ToolAnnotations(read_only_hint=True),
    "PUT": ToolAnnotations(idempotent_hint=True),
    "DELETE": ToolAnnotations(destructive_hint=True, idempotent_hint=True),
}
"""The safe and the idempotent methods (RFC 9110 section 9.2)."""


class Registry(Protocol):
    """The server that operations are registered on."""

    @property
    def limits(self) -> Limits:
        """The limits of the server."""

    def add_tool(self, function: Function, **options: Unpack[ToolOptions]) -> None:
        """Register a tool."""

    def add_resource(self, function: Function, uri: str, **options: Unpack[ResourceOptions]) -> None:
        """Register a resource."""


def add_operations(
    registry: Registry,
    document: OperationDocument,
    *,
    client: HttpClient,
    authority: str,
    expose: Expose | None,
    names: Mapping[str, str],
) -> None:
    """Register the operations of a document. Operations that cannot be called are logged and omitted.

    Args:
        registry: The server.
        document: The document.
        client: The HTTP client.
        authority: The name of the server, from which the authority of the URIs of resources is made.
        expose: Decides what an operation becomes. By default each operation becomes a tool.
        names: Names by the `operationId`, or by the method and the path.

    Raises:
        RegistrationError: A name is unknown or taken, the URL of the API is unknown, or `expose` returned another value.
    """
    base = _base_url(client, document)
    authority = _NOT_HOST.sub("-", authority.lower()).strip("-") or "api"
    unused, taken = set(names), set(names.values())
    for operation, item in document.operations():
        unused.discard(operation.key)
        kind = "tool" if expose is None else expose(operation)
        if kind is None:
            continue
        if kind not in ("tool", "resource"):
            raise RegistrationError(f"{operation.key}: expose must return 'tool', 'resource' or None, not {kind!r}")
        if kind == "resource" and operation.method != "GET":
            raise RegistrationError(f"{operation.key}: a {operation.method} request cannot be a resource, only GET can")
        name = names.get(operation.key) or _free(operation, taken)
        taken.add(name)
        try:
            if operation.server is not None and operation.server.rstrip("/") != base:
                # The client's credentials are for one server.
                raise UnsupportedOperation(f"its server is {operation.server}; pass a client with this base_url")
            given = read_input(document, operation, item)
            call = OperationCall(client, base, given, registry.limits.message_bytes)
            add = _add_tool if kind == "tool" else _add_resource
            add(registry, given, call, name, authority)
        except UnsupportedOperation as unsupported:
            _log.warning("OpenAPI operation omitted: operation=%s reason=%s", operation.key, unsupported)
    if unused:
        raise RegistrationError(f"names: the document has no operation {', '.join(map(repr, sorted(unused)))}")


def _base_url(client: HttpClient, document: OperationDocument) -> str:
    """Return the URL of the API: that of the client, or that of the first server of the document."""
    base = str(client.base_url) or document.server
    if not base:
        raise RegistrationError(
            "the URL of the API is unknown: the document has no absolute server URL; pass"
            " client=httpx.AsyncClient(base_url=...)"
        )
    return base.rstrip("/")


def _free(operation: Operation, taken: set[str]) -> str:
    """Return a name for an operation that no other operation has."""
    text = operation.operation_id or f"{operation.method.lower()} {operation.path}"
    plain = _ILLEGAL.sub("_", text).strip("_") or "operation"
    return first_free(plain, taken, _NAME_CHARS)


def _add_tool(registry: Registry, given: OperationInput, call: OperationCall, name: str, _: str) -> None:
    async def run(arguments: JsonObject) -> CallToolResult:
        return await call.tool_result(arguments)

    operation = given.operation
    options: ToolOptions = {
        "name": name,
        "title": operation.summary,
        "description": _description(operation),
        "input_schema": given.schema(),
    }
    hints = _HINTS.get(operation.method)
    if hints is not None:
        options["annotations"] = hints
    try:
        registry.add_tool(run, **options)
    except RegistrationError as error:
        raise _rejected(error, name) from error


def _rejected(error: RegistrationError, name: str) -> Exception:
    """Return what to raise: an author can correct a name, but not a schema in the document of an API."""
    _, found, reason = error.message.partition("input_schema: ")
    return UnsupportedOperation(reason) if found else RegistrationError(f"{name}: {error.message}")


def _description(operation: Operation) -> str | None:
    text = operation.description or operation.summary
    return f"Deprecated. {text or ''}".strip() if operation.deprecated else text


def _add_resource(registry: Registry, given: OperationInput, call: OperationCall, name: str, authority: str) -> None:
    required = [each.name for each in given.parameters if each.is_required and each.location in ("header", "cookie")]
    if required:
        raise UnsupportedOperation(f"a resource has no header parameters, but {', '.join(required)} is required")
    if given.has_body:
        raise UnsupportedOperation("a resource has no request body")
    listed = [each for each in given.parameters if each.location in ("path", "query") and each.kind != "object"]
    if any(each.is_required and each not in listed for each in given.parameters):
        raise UnsupportedOperation("a parameter of a resource cannot be an object")
    lists = {each.argument for each in listed if each.kind == "array"}
    path = _BRACES.sub(lambda found: f"{{{_argument(given, found[1])}}}", given.operation.path)
    query = ",".join(each.argument for each in listed if each.location == "query")
    uri = f"openapi://{authority}{path}{{?{query}}}" if query else f"openapi://{authority}{path}"
    template = UriTemplate(uri)

    async def read(**arguments: str | None) -> object:
        values = {key: value for key, value in arguments.items() if value is not None}
        # The items of an array are separated by commas, as in the style `form` without `explode`.
        split: JsonObject = {key: [*value.split(",")] if key in lists else value for key, value in values.items()}
        return await call.contents(split, template.expand(values))

    read.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # of PEP 362; `inspect` reads it
        [
            inspect.Parameter(
                each.argument,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=str if each.location == "path" else str | None,
                default=inspect.Parameter.empty if each.location == "path" else None,
            )
            for each in listed
        ]
    )
    operation = given.operation
    registry.add_resource(read, uri, name=name, title=operation.summary, description=_description(operation))


def _argument(given: OperationInput, name: str) -> str:
    found = (each.argument for each in given.parameters if each.location == "path" and each.name == name)
    return next(found, argument_name(name))
