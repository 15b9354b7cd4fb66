"""Header parameters of a client with an outdated schema, or none. Spec: basic/transports/streamable-http (2026-07-28)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.param_headers import header_value
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.stale_schemas import (
    EAGER,
    EAGER_HEADER,
    MOVED,
    OLD_AND_NEW,
    OTHER,
    PAGE_OF_MOVED,
    REPAIRED,
    UNLISTED,
)

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonValue

_MOVES: Final = "conformance_header_moves"
_UNLISTED: Final = "conformance_call_unlisted"
_PREFIX: Final = "mcp-param-"
_REJECTED: Final = 400


def _is_call(exchange: HttpExchange, tool: str) -> bool:
    params = exchange.message.get("params")
    named = params.get("name") if isinstance(params, dict) else None
    return exchange.message.get("method") == "tools/call" and named == tool


def _argument(exchange: HttpExchange, name: str) -> JsonValue:
    """Return an argument of a call of the tool whose annotation changes; `None` without that argument or call."""
    params = exchange.message.get("params")
    arguments = params.get("arguments") if isinstance(params, dict) else None
    return arguments.get(name) if isinstance(arguments, dict) and _is_call(exchange, MOVED) else None


def _params(exchange: HttpExchange) -> list[str]:
    """Return the names of the headers that repeat arguments, without the one that does not change."""
    names = [name for name, _ in exchange.headers if name.startswith(_PREFIX)]
    return [name for name in names if name != f"{_PREFIX}{EAGER_HEADER.lower()}"]


def _is_list(exchange: HttpExchange) -> bool:
    return exchange.message.get("method") == "tools/list"


def _is_page_of_moved(exchange: HttpExchange) -> bool:
    """Return whether a request lists the tool with the changed annotation."""
    params = exchange.message.get("params")
    return _is_list(exchange) and isinstance(params, dict) and params.get("cursor") == PAGE_OF_MOVED


@check("header.client-param-latest", proves=("header.param-latest-schema",), needs=(f"scenario:{_MOVES}",))
async def latest(client: ClientUnderTest) -> None:
    """Header parameters follow the latest schema."""
    exchanges = client.run(_MOVES).exchanges
    lists = [each.number for each in exchanges if _is_page_of_moved(each)]
    with_region = [each for each in exchanges if _argument(each, "region") is not None]
    after = [each for each in with_region if lists and each.number > lists[0]]
    if not after:
        raise NotTestable(
            f"the client did not list the tools again and call {MOVED} with a region: {client.run(_MOVES).ending}"
        )
    for exchange in after:
        if _params(exchange) != [f"{_PREFIX}{OLD_AND_NEW[1].lower()}"]:
            raise Deviation(f"only Mcp-Param-{OLD_AND_NEW[1]}", brief([*_params(exchange)]))


@check("header.client-param-retry", proves=("header.param-mismatch-retry",), needs=(f"scenario:{_MOVES}",))
async def retry(client: ClientUnderTest) -> None:
    """A call that is rejected for its headers is retried after all tools were listed again."""
    exchanges = client.run(_MOVES).exchanges
    after = [each for each in exchanges if each.number > _refused(client).number]
    if not after or not _is_list(after[0]):
        raise Deviation("tools/list after error -32020", str(after[0]) if after else client.run(_MOVES).ending)
    retry_call = next((each for each in after if not _is_list(each)), None)
    if retry_call is None or not _is_call(retry_call, MOVED):
        raise Deviation(f"{MOVED} again after tools/list", client.run(_MOVES).ending)
    if not any(_is_page_of_moved(each) for each in after[: after.index(retry_call)]):
        raise Deviation(f"the page with {MOVED} before it is called again", "only the first page was requested")


def _refused(client: ClientUnderTest) -> HttpExchange:
    """Return the first call that was rejected for its headers. Raise `NotTestable` without one."""
    evidence = client.run(_MOVES)
    refused = next((each for each in evidence.exchanges if _is_call(each, MOVED) and each.status == _REJECTED), None)
    if refused is None:
        raise NotTestable(f"no call of {MOVED} was rejected: {evidence.ending}")
    return refused


@check("header.client-param-retry-values", proves=("header.param-boolean-lowercase",), needs=(f"scenario:{_MOVES}",))
async def retry_values(client: ClientUnderTest) -> None:
    """The header of a boolean is `true` or `false` also in calls after one that was rejected for its headers."""
    number = _refused(client).number
    later = [each for each in client.run(_MOVES).exchanges if each.number > number]
    found = [each for each in later if isinstance(_argument(each, EAGER), bool)]
    if not found:
        raise NotTestable(f"the client did not call {MOVED} again with a boolean: {client.run(_MOVES).ending}")
    for exchange in found:
        expected = header_value(_argument(exchange, EAGER))
        # Another check requires the header.
        for value in exchange.all(f"{_PREFIX}{EAGER_HEADER}"):
            if value != expected:
                raise Deviation(f"Mcp-Param-{EAGER_HEADER}: {expected}", value)


@check("header.client-takes-repaired", proves=("header.xmcp-valid-not-rejected",), needs=(f"scenario:{_MOVES}",))
async def takes_repaired(client: ClientUnderTest) -> None:
    """A tool that was rejected for its annotation is used when the annotation is valid in a later list."""
    evidence = client.run(_MOVES)
    others = [each.number for each in evidence.exchanges if _is_call(each, OTHER)]
    # A list between two calls of the other tool is one that the client asked for in order to call each of its tools.
    again = [each for each in evidence.exchanges if _is_list(each) and others and others[0] < each.number < others[-1]]
    if not again:
        raise NotTestable(f"the client did not list the tools again and call each: {evidence.ending}")
    if not any(_is_call(each, REPAIRED) for each in evidence.exchanges):
        raise Deviation(f"{REPAIRED} to be called after tools/list with its valid annotation", evidence.ending)


@check("header.client-param-unlisted", proves=("header.param-unknown-schema-omit",), needs=(f"scenario:{_UNLISTED}",))
async def unlisted(client: ClientUnderTest) -> None:
    """A call of a tool with an unknown schema has no header parameters."""
    exchanges = client.run(_UNLISTED).exchanges
    first = next((each for each in exchanges if _is_call(each, UNLISTED)), None)
    if first is None or any(_is_list(each) for each in exchanges[: exchanges.index(first)]):
        raise NotTestable(f"the client did not call {UNLISTED} before it listed the tools")
    if _params(first):
        raise Deviation("no Mcp-Param header", brief([*_params(first)]))
