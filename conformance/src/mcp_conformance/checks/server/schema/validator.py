"""The validator of a server: unknown dialects and references that lead out of a schema.

A client sends no schemas. The fixture `conformance_validate` validates a value with a schema from its arguments, by the
means that the server uses for its own schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.local_services import require_local
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.wire.http_server import open_http_server

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_FIXTURE: Final = "conformance_validate"
_UNKNOWN: Final[JsonObject] = {"$schema": "https://json-schema.example/conformance/unknown-dialect"}
_CONTROL: Final = ((1, "valid"), ("a text", "invalid"))


async def _validate(server: ServerUnderTest, schema: JsonObject, value: JsonValue) -> JsonRpcResponse:
    return await server.call(_FIXTURE, {"schema": schema, "value": value})


def _outcome(answer: JsonRpcResponse) -> str | None:
    """Return the text of a result; `None` for an error."""
    if answer.is_error or answer.result().get("isError") is True:
        return None
    content = answer.result().get("content")
    blocks = content if isinstance(content, list) else []
    return "".join(str(each.get("text", "")) for each in blocks if isinstance(each, dict)).strip()


async def _require_validator(server: ServerUnderTest) -> None:
    """Require that the fixture validates.

    Raises:
        NotTestable: It is missing, or its outcome for a simple schema is wrong.
    """
    for value, expected in _CONTROL:
        answer = await _validate(server, {"type": "integer"}, value)
        if _outcome(answer) != expected:
            raise NotTestable(f"the control request failed: {_FIXTURE} does not return {expected!r}: {answer}")


async def _with_reference(server: ServerUnderTest) -> tuple[JsonRpcResponse, list[str]]:
    """Validate with a reference to a server of the suite.

    Returns:
        The response, and the requests at the server.
    """
    require_local(server)
    await _require_validator(server)
    fetches: list[str] = []

    async def serve(exchange: ServerExchange) -> None:
        fetches.append(f"{exchange.method} {exchange.target}")
        await exchange.respond(200, [("Content-Type", "application/schema+json")], b'{"type":"integer"}')

    async with open_http_server(serve) as port:
        reference: JsonObject = {"$ref": f"http://localhost:{port}/integer.json"}
        answer = await _validate(server, {"type": "object", "properties": {"count": reference}}, {"count": 1})
        await server.peer.fence()
    return answer, fetches


@check(
    "schema.unknown-dialect",
    proves=("schema.dialect-unsupported-error", "schema.unsupported-dialect-error"),
    needs=_NEEDS,
)
async def unknown_dialect(server: ServerUnderTest) -> None:
    """A schema in an unknown dialect leads to an error, neither to a verdict nor to a crash."""
    await _require_validator(server)
    answer = await _validate(server, {**_UNKNOWN, "type": "integer"}, 1)
    if _outcome(answer) is not None:
        raise Deviation("an error for a schema in an unknown dialect", str(answer))
    await server.peer.fence()


@check(
    "schema.no-network-reference",
    proves=("schema.no-network-ref", "schema.network-ref-opt-in-off"),
    needs=_NEEDS,
)
async def no_network_reference(server: ServerUnderTest) -> None:
    """A `$ref` to a URL is not fetched while a value is validated."""
    _, fetches = await _with_reference(server)
    if fetches:
        raise Deviation("no request for the schema of a reference", ", ".join(fetches))


@check("schema.unresolved-reference", proves=("schema.unresolved-ref-rejected",), needs=_NEEDS)
async def unresolved_reference(server: ServerUnderTest) -> None:
    """A schema whose `$ref` is not resolved leads to an error: it does not permit everything."""
    answer, fetches = await _with_reference(server)
    if fetches:
        raise NotTestable("the server resolves the reference")
    if _outcome(answer) is not None:
        raise Deviation("an error for a schema with an unresolved reference", str(answer))
