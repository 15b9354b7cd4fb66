"""Lists in pages: their order, their cursors, and what happens when they change meanwhile."""

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
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.jsonrpc.text import write
from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Server
from mcp_server.connection.sealer import InputPolicy

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)

LISTS = {
    "tools/list": ("tools", "name"),
    "resources/list": ("resources", "name"),
    "resources/templates/list": ("resourceTemplates", "name"),
    "prompts/list": ("prompts", "name"),
}
KEY = b"k" * 32


def text() -> str:
    return "x"


def of_id(id: str) -> str:
    return id


def add(server: Server, name: str) -> None:
    """Registers one thing of each kind."""
    server.add_tool(text, name=name)
    server.add_resource(text, f"a:{name}", name=name)
    server.add_resource(of_id, f"b:{name}/{{id}}", name=name)
    server.add_prompt(text, name=name)


def remove(server: Server, name: str) -> None:
    server.remove_tool(name)
    server.remove_resource(f"a:{name}")
    server.remove_resource(f"b:{name}/{{id}}")
    server.remove_prompt(name)


def make(names: Sequence[str], page_items: int = 3, keys: Sequence[bytes] = ()) -> Server:
    server = Server("s", version="0", limits=Limits(page_items=page_items), input_policy=InputPolicy(keys=keys))
    for name in names:
        add(server, name)
    return server


async def page(client: RawClient, method: str, cursor: object = None) -> tuple[list[str], str | None]:
    """The names of one page, and the cursor of the next."""
    params: JsonObject = {} if cursor is None else {"cursor": str(cursor)}
    result = await client.call(method, params)
    member, name = LISTS[method]
    following = result.get("nextCursor")
    assert following is None or isinstance(following, str)
    assert "nextCursor" not in result or following
    return [str(as_object(each)[name]) for each in as_list(result[member])], following


async def walk(client: RawClient, method: str, cursor: str | None = None) -> list[list[str]]:
    """All pages from a cursor on."""
    names, cursor = await page(client, method, cursor)
    pages = [names]
    while cursor is not None:
        names, cursor = await page(client, method, cursor)
        pages.append(names)
    return pages


@ALL
@pytest.mark.parametrize("method", LISTS)
@pytest.mark.spec(
    "pagination.operations",
    "pagination.supported-operations",
    "pagination.next-page",
    "pagination.cursor-string",
    "schema.paginated",
    "schema.cursor-starts-after",
)
async def test_a_list_is_given_in_pages_in_the_order_of_registration(method: str, revision: Revision) -> None:
    names = ["m", "z", "a", "q", "b", "y", "c"]
    async with connected(make(names), revision) as client:
        assert await walk(client, method) == [["m", "z", "a"], ["q", "b", "y"], ["c"]]


@ALL
@pytest.mark.parametrize("count", [1, 3])
async def test_a_list_that_fits_in_one_page_has_no_cursor(count: int, revision: Revision) -> None:
    async with connected(make(list("abc")[:count]), revision) as client:
        for method in LISTS:
            assert await page(client, method) == (list("abc")[:count], None)


@ALL
@pytest.mark.spec("pagination.stable-cursors")
async def test_a_cursor_gives_the_same_page_each_time(revision: Revision) -> None:
    async with connected(make("abcdefg"), revision) as client:
        _, cursor = await page(client, "tools/list")
        first = await page(client, "tools/list", cursor)
        again = await page(client, "tools/list", cursor)
        assert first[0] == again[0] == ["d", "e", "f"]
        assert await walk(client, "tools/list", first[1]) == await walk(client, "tools/list", again[1]) == [["g"]]


async def test_most_lists_have_one_page() -> None:
    assert SERVER_LIMITS.page_items == 1_000
    server = Server("s", version="0")
    for number in range(1_001):
        server.add_tool(text, name=f"t{number}")
    async with connected(server, R2025_11_25) as client:
        pages = await walk(client, "tools/list")
        assert [len(each) for each in pages] == [1_000, 1]
        assert list(itertools.chain(*pages)) == [f"t{number}" for number in range(1_001)]


# --- changes between two pages ---------------------------------------------------------------------------------------


@ALL
async def test_what_was_there_all_the_time_is_given_once_when_others_go_and_come(revision: Revision) -> None:
    server = make("abcdefg")
    async with connected(server, revision) as client:
        for method in LISTS:
            names, cursor = await page(client, method)
            assert names == ["a", "b", "c"]
            # Even the one that the cursor was made of goes, and comes again.
            remove(server, "a")
            remove(server, "c")
            remove(server, "e")
            add(server, "h")
            add(server, "c")
            assert await walk(client, method, cursor) == [["d", "f", "g"], ["h", "c"]]
            for name in "bdfghc":
                remove(server, name)
            for name in "abcdefg":
                add(server, name)


@settings(max_examples=60)
@given(st.data())
async def test_no_change_loses_or_repeats_what_stays(data: st.DataObject) -> None:
    names = [f"n{number}" for number in range(data.draw(st.integers(0, 12), label="names"))]
    server = make(names, page_items=data.draw(st.integers(1, 4), label="page"))
    add(server, "anchor")
    staying, seen = {*names, "anchor"}, []
    present = [*names, "anchor"]
    async with connected(server, R2026_07_28) as client:
        cursor: str | None = None
        while True:
            found, cursor = await page(client, "prompts/list", cursor)
            seen += found
            if cursor is None:
                break
            for number in range(data.draw(st.integers(0, 3), label="changes")):
                if data.draw(st.booleans(), label="remove") and len(present) > 1:
                    gone = data.draw(st.sampled_from([name for name in present if name != "anchor"]), label="gone")
                    present.remove(gone)
                    staying.discard(gone)
                    remove(server, gone)
                else:
                    came = f"c{len(seen)}-{number}-{len(present)}"
                    if came not in present and came not in staying:
                        present.append(came)
                        add(server, came)
    for name in staying:
        assert seen.count(name) == 1, name


# --- cursors ---------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.spec(
    "pagination.invalid-cursor-error", "pagination.invalid-cursor-graceful", "pagination.invalid-cursor-32602"
)
async def test_a_cursor_that_was_never_given_out_is_refused(revision: Revision) -> None:
    async with connected(make("abcdefg"), revision) as client:
        _, cursor = await page(client, "tools/list")
        assert cursor is not None
        for bad in ("", "3", "ä", "\x00", cursor[:-4], cursor + "AAAA", cursor[::-1], "A" * 40_000, "A" * 2_000_000):
            for method in LISTS:
                error = await client.fail(method, {"cursor": bad})
                assert error["code"] == ErrorCode.INVALID_PARAMS
                assert error["message"] == (
                    "invalid params: the cursor is invalid for this list or has expired; request the first page again"
                )


@ALL
async def test_a_cursor_is_of_one_list(revision: Revision) -> None:
    async with connected(make("abcdefg"), revision) as client:
        for method in LISTS:
            _, cursor = await page(client, method)
            for other in LISTS:
                if other != method:
                    assert (await client.fail(other, {"cursor": cursor}))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("security.handle-bound-to-user", "security.handle-not-authentication")
async def test_a_cursor_is_of_use_to_whom_it_was_given_only() -> None:
    async def identify(request: HttpRequest) -> str | None:
        return request.headers.get("authorization")

    async with hosted(make("abcdefg").asgi(identify=identify), R2026_07_28) as client:
        client.headers["authorization"] = "somebody"
        cursor = as_object((await client.ask("tools/list"))["result"])["nextCursor"]
        assert "result" in await client.ask("tools/list", {"cursor": cursor})
        for other in ("somebody else", None):
            client.headers["authorization"] = other
            error = as_object((await client.ask("tools/list", {"cursor": cursor}))["error"])
            assert error["code"] == ErrorCode.INVALID_PARAMS


async def test_a_cursor_ceases_to_be_good(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    async with connected(make("abcdefg"), R2026_07_28) as client:
        _, cursor = await page(client, "tools/list")
        now += 3_599
        assert (await page(client, "tools/list", cursor))[0] == ["d", "e", "f"]
        now += 1
        assert (await client.fail("tools/list", {"cursor": cursor}))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("pagination.cursor-connection-independent", "jsonrpc.stateless-no-connection-affinity")
async def test_a_cursor_is_good_on_another_connection() -> None:
    server = make("abcdefg")
    async with connected(server, R2026_07_28) as client:
        _, cursor = await page(client, "tools/list")
    async with connected(server, R2025_11_25) as client:
        assert await walk(client, "tools/list", cursor) == [["d", "e", "f"], ["g"]]


async def test_a_cursor_is_good_in_another_process_with_the_same_keys() -> None:
    async with connected(make("abcdefg", keys=[KEY]), R2026_07_28) as client:
        _, cursor = await page(client, "tools/list")
    async with connected(make("Aabcdefg", keys=[KEY]), R2026_07_28) as client:
        # That one has more, and goes on behind the last that was seen.
        assert await walk(client, "tools/list", cursor) == [["d", "e", "f"], ["g"]]
    for other in (make("abdefg", keys=[KEY]), make("abcdefg")):
        # It knows nothing of where the cursor points; or it has other keys.
        async with connected(other, R2026_07_28) as client:
            assert (await client.fail("tools/list", {"cursor": cursor}))["code"] == ErrorCode.INVALID_PARAMS


async def test_pages_are_encoded_once_for_each_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    original = write

    def count(value: JsonObject) -> bytes:
        nonlocal written
        written += 1
        return original(value)

    monkeypatch.setattr("mcp_server.features.listing.write", count)
    server = make("abcdefg")
    for revision in (R2026_07_28, R2025_11_25):
        written = 0
        for _ in range(3):
            async with connected(server, revision) as client:
                await walk(client, "tools/list")
        assert written == 3
    add(server, "h")
    written = 0
    async with connected(server, R2026_07_28) as client:
        assert await walk(client, "tools/list") == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert written == 3


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_a_cursor_too_long_to_come_back_is_an_internal_error(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s", version="0", limits=Limits(page_items=1))
    for letter in "ab":
        server.add_resource(text, f"{letter}:{'x' * 40_000}", name=letter)
    async with connected(server, revision) as client:
        error = as_object((await client.ask("resources/list"))["error"])
        assert error == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "cursor" in str(record.exc_info)
