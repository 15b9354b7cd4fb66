"""Pagination of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import near_misses
from mcp_conformance.checks.registry.server import check
from mcp_conformance.checks.server.lists import LISTS, entries, walk
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.checks.server.lists import List
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_INVALID: Final = "conformance: not a cursor of the server"


async def _long(server: ServerUnderTest) -> tuple[List, JsonObject]:
    """Return a list with several pages, and its first page."""
    for row in LISTS:
        if server.inventory.has(row.capability):
            page = (await server.peer.request(row.method)).result()
            if page.get("nextCursor") is not None:
                return row, page
    raise NotTestable("no list of the server has more than one page")


async def _page(peer: SuiteConnection, row: List, cursor: object) -> JsonObject:
    if not isinstance(cursor, str):
        raise Deviation("nextCursor to be a string", str(cursor))
    return (await peer.request(row.method, {"cursor": cursor})).result()


def _names(row: List, *pages: JsonObject) -> list[str]:
    return [str(each.get(row.key)) for page in pages for each in entries(page, row)]


@check("pagination.cursor-is-a-string", proves=("pagination.cursor-string",))
async def cursor_is_a_string(server: ServerUnderTest) -> None:
    """`nextCursor` is a string."""
    row, page = await _long(server)
    if not isinstance(page.get("nextCursor"), str):
        raise Deviation(f"nextCursor of {row.method} to be a string", brief(page.get("nextCursor")))


@check("pagination.walk", proves=("pagination.operations", "pagination.next-page"))
async def walked(server: ServerUnderTest) -> None:
    """All pages together contain each entry once, and the pages end."""
    row, _ = await _long(server)
    names = _names(row, *await walk(server.peer, row))
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise Deviation(f"each entry of {row.method} on one page", f"on several pages: {brief([*twice])}")


@check("pagination.stable-cursor", proves=("pagination.stable-cursors",))
async def stable_cursor(server: ServerUnderTest) -> None:
    """The same cursor returns the same page again."""
    row, first = await _long(server)
    one, two = [await _page(server.peer, row, first["nextCursor"]) for _ in range(2)]
    if _names(row, one) != _names(row, two):
        raise Deviation(f"the page {brief([*_names(row, one)])}", brief([*_names(row, two)]))


@check(
    "pagination.cursor-elsewhere", proves=("pagination.cursor-connection-independent",), transports=(Transport.HTTP,)
)
async def cursor_elsewhere(server: ServerUnderTest) -> None:
    """A cursor is valid on another connection too."""
    row, first = await _long(server)
    here = await _page(server.peer, row, first["nextCursor"])
    async with server.open() as other:
        there = await _page(other, row, first["nextCursor"])
    if _names(row, here) != _names(row, there):
        raise Deviation(f"the page {brief([*_names(row, here)])}", brief([*_names(row, there)]))


@check("pagination.invalid-cursor", proves=("pagination.invalid-cursor-error", "pagination.invalid-cursor-32602"))
async def invalid_cursor(server: ServerUnderTest) -> None:
    """An invalid cursor is answered with the error -32602."""
    for row, answer in await _invalid(server):
        answer.error(-32602, what=f"an invalid cursor of {row.method}")


@check("pagination.survives-invalid-cursor", proves=("pagination.invalid-cursor-graceful",))
async def survives_invalid_cursor(server: ServerUnderTest) -> None:
    """An invalid cursor gets a response, and the server keeps running."""
    await _invalid(server)
    await server.peer.fence()


async def _invalid(server: ServerUnderTest) -> list[tuple[List, JsonRpcResponse]]:
    rows = [row for row in LISTS if server.inventory.has(row.capability)]
    if not rows:
        raise NotApplicable("the server has no lists")
    cursors: list[tuple[List, str]] = []
    for row in rows:
        first = await server.peer.request(row.method)
        if first.is_error:
            raise NotTestable(f"the control request failed: {row.method}")
        row_cursors = [_INVALID]
        onward = first.message.get("result")
        given = onward.get("nextCursor") if isinstance(onward, dict) else None
        if isinstance(given, str):
            row_cursors += near_misses(given)
        cursors += ((row, each) for each in row_cursors)
    return [(row, await server.peer.request(row.method, {"cursor": each})) for row, each in cursors]
