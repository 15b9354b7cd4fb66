"""The pagination of lists: their order, their cursors, and changes between pages."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence

import pytest
from asgi_host import hosted
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_client import RawClient, as_list, as_object, connected

from mcp_core.errors import ErrorCode
from mcp_core.http.messages import HttpRequest
from mcp_core.json_text import write
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Server
from mcp_server.connection.sealer import InputPolicy

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)

LIST_METHODS = {
    "tools/list": ("tools", "name"),
    "resources/list": ("resources", "name"),
    "resources/templates/list": ("resourceTemplates", "name"),
    "prompts/list": ("prompts", "name"),
}
KEY = b"k" * 32


def text() -> str:
    return "x"


def identity(id: str) -> str:
    return id


def add_all_kinds(server: Server, name: str) -> None:
    """Register a tool, a resource, a template and a prompt."""
    server.add_tool(text, name=name)
    server.add_resource(text, f"a:{name}", name=name)
    server.add_resource(identity, f"b:{name}/{{id}}", name=name)
    server.add_prompt(text, name=name)


def remove_all_kinds(server: Server, name: str) -> None:
    server.remove_tool(name)
    server.remove_resource(f"a:{name}")
    server.remove_resource(f"b:{name}/{{id}}")
    server.remove_prompt(name)


def make_server(names: Sequence[str], page_items: int = 3, keys: Sequence[bytes] = ()) -> Server:
    server = Server("s", version="0", limits=Limits(page_items=page_items), input_policy=InputPolicy(keys=keys))
    for name in names:
        add_all_kinds(server, name)
    return server


async def get_page(client: RawClient, method: str, cursor: object = None) -> tuple[list[str], str | None]:
    """Return the names of a page, and the cursor of the next one."""
    params: JsonObject = {} if cursor is None else {"cursor": str(cursor)}
    result = await client.call(method, params)
    member, name = LIST_METHODS[method]
    next_cursor = result.get("nextCursor")
    assert next_cursor is None or isinstance(next_cursor, str)
    assert "nextCursor" not in result or next_cursor
    return [str(as_object(each)[name]) for each in as_list(result[member])], next_cursor


async def get_pages(client: RawClient, method: str, cursor: str | None = None) -> list[list[str]]:
    """Return all pages from a cursor on."""
    names, cursor = await get_page(client, method, cursor)
    pages = [names]
    while cursor is not None:
        names, cursor = await get_page(client, method, cursor)
        pages.append(names)
    return pages


@ALL_REVISIONS
@pytest.mark.parametrize("method", LIST_METHODS)
@pytest.mark.spec(
    "pagination.operations",
    "pagination.supported-operations",
    "pagination.next-page",
    "pagination.cursor-string",
    "schema.paginated",
    "schema.cursor-starts-after",
)
async def test_list_is_paginated_in_order_of_registration(method: str, revision: Revision) -> None:
    names = ["m", "z", "a", "q", "b", "y", "c"]
    async with connected(make_server(names), revision) as client:
        assert await get_pages(client, method) == [["m", "z", "a"], ["q", "b", "y"], ["c"]]


@ALL_REVISIONS
@pytest.mark.parametrize("count", [1, 3])
async def test_list_within_page_size_has_no_cursor(count: int, revision: Revision) -> None:
    async with connected(make_server(list("abc")[:count]), revision) as client:
        for method in LIST_METHODS:
            assert await get_page(client, method) == (list("abc")[:count], None)


@ALL_REVISIONS
@pytest.mark.spec("pagination.stable-cursors")
async def test_cursor_used_twice_returns_same_page(revision: Revision) -> None:
    async with connected(make_server("abcdefg"), revision) as client:
        _, cursor = await get_page(client, "tools/list")
        first = await get_page(client, "tools/list", cursor)
        second = await get_page(client, "tools/list", cursor)
        assert first[0] == second[0] == ["d", "e", "f"]
        assert (
            await get_pages(client, "tools/list", first[1])
            == await get_pages(client, "tools/list", second[1])
            == [["g"]]
        )


async def test_default_page_size_is_1000() -> None:
    assert SERVER_LIMITS.page_items == 1_000
    server = Server("s", version="0")
    for number in range(1_001):
        server.add_tool(text, name=f"t{number}")
    async with connected(server, R2025_11_25) as client:
        pages = await get_pages(client, "tools/list")
        assert [len(each) for each in pages] == [1_000, 1]
        assert list(itertools.chain(*pages)) == [f"t{number}" for number in range(1_001)]


# --- changes between pages -------------------------------------------------------------------------------------------


@ALL_REVISIONS
async def test_items_present_throughout_listed_once_despite_changes(revision: Revision) -> None:
    server = make_server("abcdefg")
    async with connected(server, revision) as client:
        for method in LIST_METHODS:
            names, cursor = await get_page(client, method)
            assert names == ["a", "b", "c"]
            # The item that the cursor points to is removed as well, and added again.
            remove_all_kinds(server, "a")
            remove_all_kinds(server, "c")
            remove_all_kinds(server, "e")
            add_all_kinds(server, "h")
            add_all_kinds(server, "c")
            assert await get_pages(client, method, cursor) == [["d", "f", "g"], ["h", "c"]]
            for name in "bdfghc":
                remove_all_kinds(server, name)
            for name in "abcdefg":
                add_all_kinds(server, name)


@settings(max_examples=60)
@given(st.data())
async def test_generated_changes_neither_lose_nor_repeat_stable_items(data: st.DataObject) -> None:
    names = [f"n{number}" for number in range(data.draw(st.integers(0, 12), label="names"))]
    server = make_server(names, page_items=data.draw(st.integers(1, 4), label="page"))
    add_all_kinds(server, "anchor")
    stable, listed = {*names, "anchor"}, []
    present = [*names, "anchor"]
    async with connected(server, R2026_07_28) as client:
        cursor: str | None = None
        while True:
            found, cursor = await get_page(client, "prompts/list", cursor)
            listed += found
            if cursor is None:
                break
            for number in range(data.draw(st.integers(0, 3), label="changes")):
                if data.draw(st.booleans(), label="remove") and len(present) > 1:
                    removed = data.draw(st.sampled_from([name for name in present if name != "anchor"]), label="gone")
                    present.remove(removed)
                    stable.discard(removed)
                    remove_all_kinds(server, removed)
                else:
                    added = f"c{len(listed)}-{number}-{len(present)}"
                    if added not in present and added not in stable:
                        present.append(added)
                        add_all_kinds(server, added)
    for name in stable:
        assert listed.count(name) == 1, name


# --- cursors ---------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec(
    "pagination.invalid-cursor-error", "pagination.invalid-cursor-graceful", "pagination.invalid-cursor-32602"
)
async def test_unknown_cursor_returns_invalid_params(revision: Revision) -> None:
    async with connected(make_server("abcdefg"), revision) as client:
        _, cursor = await get_page(client, "tools/list")
        assert cursor is not None
        for invalid in (
            "",
            "3",
            "ä",
            "\x00",
            cursor[:-4],
            cursor + "AAAA",
            cursor[::-1],
            "A" * 40_000,
            "A" * 2_000_000,
        ):
            for method in LIST_METHODS:
                error = await client.fail(method, {"cursor": invalid})
                assert error["code"] == ErrorCode.INVALID_PARAMS
                assert error["message"] == (
                    "invalid params: the cursor is invalid for this list or has expired; request the first page again"
                )


@ALL_REVISIONS
async def test_cursor_of_other_list_returns_invalid_params(revision: Revision) -> None:
    async with connected(make_server("abcdefg"), revision) as client:
        for method in LIST_METHODS:
            _, cursor = await get_page(client, method)
            for other in LIST_METHODS:
                if other != method:
                    assert (await client.fail(other, {"cursor": cursor}))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("security.handle-bound-to-user", "security.handle-not-authentication")
async def test_cursor_of_other_principal_returns_invalid_params() -> None:
    async def identify(request: HttpRequest) -> str | None:
        return request.headers.get("authorization")

    async with hosted(make_server("abcdefg").asgi(authenticate=identify), R2026_07_28) as client:
        client.headers["authorization"] = "ann"
        cursor = as_object((await client.ask("tools/list"))["result"])["nextCursor"]
        assert "result" in await client.ask("tools/list", {"cursor": cursor})
        for other in ("bob", None):
            client.headers["authorization"] = other
            error = as_object((await client.ask("tools/list", {"cursor": cursor}))["error"])
            assert error["code"] == ErrorCode.INVALID_PARAMS


async def test_cursor_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    async with connected(make_server("abcdefg"), R2026_07_28) as client:
        _, cursor = await get_page(client, "tools/list")
        now += 3_599
        assert (await get_page(client, "tools/list", cursor))[0] == ["d", "e", "f"]
        now += 1
        assert (await client.fail("tools/list", {"cursor": cursor}))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("pagination.cursor-connection-independent", "jsonrpc.stateless-no-connection-affinity")
async def test_cursor_valid_on_other_connection() -> None:
    server = make_server("abcdefg")
    async with connected(server, R2026_07_28) as client:
        _, cursor = await get_page(client, "tools/list")
    async with connected(server, R2025_11_25) as client:
        assert await get_pages(client, "tools/list", cursor) == [["d", "e", "f"], ["g"]]


async def test_cursor_valid_in_other_process_with_same_keys() -> None:
    async with connected(make_server("abcdefg", keys=[KEY]), R2026_07_28) as client:
        _, cursor = await get_page(client, "tools/list")
    async with connected(make_server("Aabcdefg", keys=[KEY]), R2026_07_28) as client:
        # This server has more items, and continues after the last listed one.
        assert await get_pages(client, "tools/list", cursor) == [["d", "e", "f"], ["g"]]
    for other in (make_server("abdefg", keys=[KEY]), make_server("abcdefg")):
        # This server does not have the item of the cursor, or has other keys.
        async with connected(other, R2026_07_28) as client:
            assert (await client.fail("tools/list", {"cursor": cursor}))["code"] == ErrorCode.INVALID_PARAMS


async def test_pages_are_encoded_once_per_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = 0
    original = write

    def count(value: JsonObject) -> bytes:
        nonlocal writes
        writes += 1
        return original(value)

    monkeypatch.setattr("mcp_server.features.listing.write", count)
    server = make_server("abcdefg")
    for revision in (R2026_07_28, R2025_11_25):
        writes = 0
        for _ in range(3):
            async with connected(server, revision) as client:
                await get_pages(client, "tools/list")
        assert writes == 3
    add_all_kinds(server, "h")
    writes = 0
    async with connected(server, R2026_07_28) as client:
        assert await get_pages(client, "tools/list") == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert writes == 3


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_cursor_over_uri_limit_is_internal_error(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0", limits=Limits(page_items=1))
    for letter in "ab":
        server.add_resource(text, f"{letter}:{'x' * 40_000}", name=letter)
    async with connected(server, revision) as client:
        error = as_object((await client.ask("resources/list"))["error"])
        assert error == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "cursor" in str(record.exc_info)
