"""Header parameters of a client with an outdated schema, or none. Spec: basic/transports/streamable-http (2026-07-28)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.stale_schemas import MOVED, OLD_AND_NEW, UNLISTED

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest

_MOVES: Final = "conformance_header_moves"
_UNLISTED: Final = "conformance_call_unlisted"
_PREFIX: Final = "mcp-param-"


def _is_call(exchange: HttpExchange, tool: str) -> bool:
    params = exchange.message.get("params")
    named = params.get("name") if isinstance(params, dict) else None
    return exchange.message.get("method") == "tools/call" and named == tool


def _has_region(exchange: HttpExchange) -> bool:
    """Return whether an exchange calls the tool whose annotation changes, with the annotated argument."""
    params = exchange.message.get("params")
    arguments = params.get("arguments") if isinstance(params, dict) else None
    return _is_call(exchange, MOVED) and isinstance(arguments, dict) and arguments.get("region") is not None


def _params(exchange: HttpExchange) -> list[str]:
    """Return the names of the headers that repeat arguments."""
    return [name for name, _ in exchange.headers if name.startswith(_PREFIX)]


def _is_list(exchange: HttpExchange) -> bool:
    return exchange.message.get("method") == "tools/list"


@check("header.client-param-latest", proves=("header.param-latest-schema",), needs=(f"scenario:{_MOVES}",))
async def latest(client: ClientUnderTest) -> None:
    """Header parameters follow the latest schema."""
    exchanges = client.run(_MOVES).exchanges
    lists = [each.number for each in exchanges if _is_list(each)]
    after = [each for each in exchanges if _has_region(each) and len(lists) > 1 and each.number > lists[1]]
    if not after:
        raise NotTestable(
            f"the client did not list the tools again and call {MOVED} with a region: {client.run(_MOVES).ending}"
        )
    for exchange in after:
        if _params(exchange) != [f"{_PREFIX}{OLD_AND_NEW[1].lower()}"]:
            raise Deviation(f"only Mcp-Param-{OLD_AND_NEW[1]}", brief([*_params(exchange)]))


@check("header.client-param-retry", proves=("header.param-mismatch-retry",), needs=(f"scenario:{_MOVES}",))
async def retry(client: ClientUnderTest) -> None:
    """A call that is rejected for its headers is retried after the tools were listed again."""
    exchanges = client.run(_MOVES).exchanges
    refused = next((each for each in exchanges if _is_call(each, MOVED) and each.status == 400), None)
    if refused is None:
        raise NotTestable(f"no call of {MOVED} was rejected: {client.run(_MOVES).ending}")
    after = [each for each in exchanges if each.number > refused.number]
    if not after or not _is_list(after[0]):
        raise Deviation("tools/list after error -32020", str(after[0]) if after else client.run(_MOVES).ending)
    retry_call = next((each for each in after if not _is_list(each)), None)
    if retry_call is None or not _is_call(retry_call, MOVED):
        raise Deviation(f"{MOVED} again after tools/list", client.run(_MOVES).ending)


@check("header.client-param-unlisted", proves=("header.param-unknown-schema-omit",), needs=(f"scenario:{_UNLISTED}",))
async def unlisted(client: ClientUnderTest) -> None:
    """A call of a tool with an unknown schema has no header parameters."""
    exchanges = client.run(_UNLISTED).exchanges
    first = next((each for each in exchanges if _is_call(each, UNLISTED)), None)
    if first is None or any(_is_list(each) for each in exchanges[: exchanges.index(first)]):
        raise NotTestable(f"the client did not call {UNLISTED} before it listed the tools")
    if _params(first):
        raise Deviation("no Mcp-Param header", brief([*_params(first)]))
