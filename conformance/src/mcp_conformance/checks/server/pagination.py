"""Pagination of lists."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import near_misses
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.registry.server import check
from mcp_conformance.checks.server.lists import LISTS, entries, walk
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.checks.server.lists import List
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.model.fixtures_manifest import Fixture
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_INVALID: Final = "conformance: not a cursor of the server"
_NEGATIVE: Final = "-1"
"""An offset that no page has, and which some languages count from the end."""
_MOST_PAGES: Final = 100
"""The number of pages after the first one that are requested."""
_META: Final[JsonObject] = {"progressToken": "conformance-pages", "com.example/anything": 1}
_RETURNS: Final = 5
"""The number of pages that are requested again."""
_FIXTURES: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("test_simple_text", "test_embedded_resource"),
    "resources": ("test://static-text", "test://static-binary", "test://watched-resource"),
    "prompts": ("test_simple_prompt", "test_prompt_with_image"),
}
"""By kind, the fixtures that can be used without effect."""
_USES: Final[Mapping[str, tuple[str, str, str]]] = {
    "tools": ("tools/call", "name", "content"),
    "resources": ("resources/read", "uri", "contents"),
    "prompts": ("prompts/get", "name", "messages"),
}
"""By kind, the method that uses a feature, the parameter that names the feature, and a member of the result."""


async def _long(server: ServerUnderTest) -> list[tuple[List, JsonObject]]:
    """Return each list with several pages, and its first page."""
    found: list[tuple[List, JsonObject]] = []
    for row in LISTS:
        if server.inventory.has(row.capability):
            page = (await server.peer.request(row.method)).result()
            if page.get("nextCursor") is not None:
                found.append((row, page))
    if not found:
        raise NotTestable("no list of the server has more than one page")
    return found


async def _page(peer: SuiteConnection, row: List, cursor: object) -> JsonObject:
    if not isinstance(cursor, str):
        raise Deviation("nextCursor to be a string", str(cursor))
    return (await peer.request(row.method, {"cursor": cursor})).result()


def _names(row: List, *pages: JsonObject) -> list[str]:
    return [str(each.get(row.key)) for page in pages for each in entries(page, row)]


@check("pagination.cursor-is-a-string", proves=("pagination.cursor-string",))
async def cursor_is_a_string(server: ServerUnderTest) -> None:
    """`nextCursor` is a string."""
    for row, page in await _long(server):
        if not isinstance(page.get("nextCursor"), str):
            raise Deviation(f"nextCursor of {row.method} to be a string", brief(page.get("nextCursor")))


@check("pagination.walk", proves=("pagination.operations", "pagination.next-page"))
async def walked(server: ServerUnderTest) -> None:
    """All pages together contain each entry once, and the pages end, also for several clients, and with more than a cursor."""
    # Each modern request has metadata.
    metas = (None,) if server.revision.era is Era.MODERN else (None, _META)
    rows = [row for row, _ in await _long(server)]
    for row, meta in product(rows, metas):
        names = _names(row, *await walk(server.peer, row, meta=meta))
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise Deviation(f"each entry of {row.method} on one page", f"on several pages: {brief([*twice])}")
    if server.revision.era is Era.MODERN:
        await _check_in_turns(rows, server.peer, server.peer)
    elif server.transport is not Transport.STDIO:
        # Only another session is another client there.
        async with server.open() as other:
            await _check_in_turns(rows, server.peer, other)


async def _check_in_turns(rows: list[List], *peers: SuiteConnection) -> None:
    """Require that each client gets all pages of each list while the others do."""
    for row in rows:

        async def differs(row: List = row) -> str | None:
            # Another check covers entries that only some requests return.
            alone = [_names(row, *await walk(peer, row)) for peer in peers]
            known = set[str]().union(*alone).intersection(*alone)
            try:
                in_turns = await _walk_in_turns(row, peers)
            except Deviation as deviation:
                return deviation.observed
            missing = [name for names in in_turns for name in sorted(known.difference(names))]
            return f"{brief([*missing])} on no page" if missing else None

        # The list may change meanwhile.
        if (observed := await each_time(differs)) is not None:
            raise Deviation(f"all pages of {row.method} for each of {len(peers)} clients at once", observed)


async def _walk_in_turns(row: List, peers: tuple[SuiteConnection, ...]) -> list[list[str]]:
    """Request the pages of a list several times, one page each in turn, and return the entries of each walk.

    Raises:
        Deviation: A page is an error.
    """
    pages = [[(await peer.request(row.method)).result()] for peer in peers]
    for _ in range(_MOST_PAGES):
        for peer, walked in zip(peers, pages, strict=True):
            onward = walked[-1].get("nextCursor")
            if onward is not None:
                walked.append(await _page(peer, row, onward))
    return [_names(row, *walked) for walked in pages]


@check("pagination.no-gaps", proves=("pagination.operations", "pagination.next-page"))
async def no_gaps(server: ServerUnderTest) -> None:
    """A fixture that can be used is on one of the pages."""
    is_known = False
    for row, _ in await _long(server):
        for name in _FIXTURES.get(row.kind, ()):
            fixture = server.manifest.find(row.kind, name)
            if server.inventory.find(row.kind, fixture.name) is not None:
                is_known = True
            elif await _is_usable(server, row, fixture):
                raise Deviation(f"{fixture.name} on one of the pages of {row.method}", "it can be used, but is on none")
    if not is_known:
        raise NotTestable("the lists with more than one page contain no known fixture")


async def _is_usable(server: ServerUnderTest, row: List, fixture: Fixture) -> bool:
    """Return whether the server has a feature that it does not list."""
    method, key, member = _USES[row.kind]
    params: JsonObject = {key: fixture.name}
    if key == "name":
        params["arguments"] = fixture.arguments or {}
    answer = await server.peer.request(method, params)
    return not answer.is_error and bool(answer.result().get(member)) and answer.result().get("isError") is not True


@check("pagination.stable-cursor", proves=("pagination.stable-cursors",))
async def stable_cursor(server: ServerUnderTest) -> None:
    """A cursor returns the same page again, in any order, and after the list was read to its end and from the start."""
    for row, _ in await _long(server):
        pages = await walk(server.peer, row)
        await server.peer.request(row.method)
        for before, page in reversed([*pairwise(pages)][:_RETURNS]):
            again = await _page(server.peer, row, before["nextCursor"])
            if _names(row, again) != _names(row, page):
                raise Deviation(f"the page {brief([*_names(row, page)])}", brief([*_names(row, again)]))


@check(
    "pagination.cursor-elsewhere", proves=("pagination.cursor-connection-independent",), transports=(Transport.HTTP,)
)
async def cursor_elsewhere(server: ServerUnderTest) -> None:
    """A cursor is valid on another connection too."""
    for row, first in await _long(server):
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
        row_cursors = [_INVALID, _NEGATIVE]
        onward = first.message.get("result")
        given = onward.get("nextCursor") if isinstance(onward, dict) else None
        if isinstance(given, str):
            row_cursors += near_misses(given)
        cursors += ((row, each) for each in row_cursors)
    return [(row, await server.peer.request(row.method, {"cursor": each})) for row, each in cursors]
