"""The cache hints of a server's results."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
import trio.testing

from mcp_client import Client
from mcp_client.testing import Transcript, open_in_memory
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.types import CacheableResult, CacheScope, ReadResourceResult, TextResourceContents
from mcp_server import AccessRequest, CacheHint, Server, serve_stream


def make_server(*, cache: CacheHint | None = None, restricted: bool = False) -> Server:
    async def access(_: AccessRequest) -> bool:
        return True

    server = Server("test", version="1", cache=cache, access=access if restricted else None)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.prompt
    async def poem() -> str:
        return "A poem"

    @server.resource("a:kept", cache=CacheHint(90, "public"))
    async def stored() -> str:
        return "text"

    @server.resource("a:{other}", cache=CacheHint(1.5))
    async def other(other: str) -> str:
        return other

    @server.resource("b:plain")
    async def plain() -> str:
        return "text"

    @server.resource("b:own", cache=CacheHint(90))
    async def own() -> ReadResourceResult:
        contents = (TextResourceContents(uri="b:own", text="x"),)
        return ReadResourceResult(contents=contents, ttl_ms=7, cache_scope="public")

    return server


ClientCall: TypeAlias = Callable[[Client], Awaitable[object]]


class HintRecorder(Middleware):
    """A middleware that records the hints of results."""

    def __init__(self) -> None:
        self.hints: list[tuple[int, str]] = []

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        result = await proceed(message)
        assert isinstance(result, CacheableResult)
        self.hints.append((result.ttl_ms, result.cache_scope))
        return result


async def get_hints(server: Server, client_call: ClientCall) -> list[tuple[int, str]]:
    """Return the hints of the results that a client gets."""
    get_hints = HintRecorder()
    async with open_in_memory(lambda stream: serve_stream(server, stream), middleware=[get_hints]) as client:
        await client_call(client)
    return get_hints.hints


LISTS: list[ClientCall] = [
    lambda client: client.list_tools(),
    lambda client: client.list_prompts(),
    lambda client: client.list_resources(),
    lambda client: client.list_resource_templates(),
]


@pytest.mark.parametrize("client_call", LISTS)
@pytest.mark.parametrize("scope", ["private", "public"])
@pytest.mark.spec(
    "caching.hints-tools-list",
    "caching.hints-prompts-list",
    "caching.hints-resources-list",
    "caching.hints-resources-templates-list",
    "caching.ttl-non-negative-integer",
    "caching.scope-values",
)
async def test_lists_have_hint_of_server(client_call: ClientCall, scope: CacheScope) -> None:
    assert await get_hints(make_server(cache=CacheHint(60, scope)), client_call) == [(60_000, scope)]
    assert await get_hints(make_server(), client_call) == [(0, "private")]


@pytest.mark.parametrize("client_call", [*LISTS, lambda client: client.read_resource("a:kept")])
@pytest.mark.spec("caching.scope-reflects-visibility", "caching.public-awareness")
async def test_hint_with_access_control_is_private(client_call: ClientCall) -> None:
    ((ttl, scope),) = await get_hints(make_server(cache=CacheHint(60, "public"), restricted=True), client_call)
    assert ttl > 0
    assert scope == "private"


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        ("a:kept", (90_000, "public")),
        ("a:x", (1_500, "private")),
        ("b:plain", (0, "private")),
        ("b:own", (7, "public")),
    ],
)
@pytest.mark.spec("caching.hints-resources-read")
async def test_resource_has_its_own_hint(uri: str, hint: tuple[int, str]) -> None:
    server = make_server(cache=CacheHint(60, "public"))
    assert await get_hints(server, lambda client: client.read_resource(uri)) == [hint]


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_client_caches_by_hint_and_refreshes_after_change(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    transcript, server = Transcript(), make_server(cache=CacheHint(60))
    async with (
        open_in_memory(
            lambda stream: serve_stream(server, stream), revisions=[revision], transcript=transcript
        ) as client,
        client.listen(tools=True) as changes,
    ):
        for _ in range(3):
            assert [tool.name for tool in await client.list_tools()] == ["add"]
        server.remove_tool("add")
        async for _ in changes:
            break
        assert await client.list_tools() == ()
    requests = transcript.text().count('"tools/list"')
    assert requests == (2 if revision is R2026_07_28 else 4)
    assert ("ttlMs" in transcript.text()) is (revision is R2026_07_28)


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_cache_hint_invalid_seconds_raises(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"CacheHint\.seconds must be a finite number of at least 0"):
        CacheHint(seconds)


def test_cache_hint_invalid_scope_raises() -> None:
    with pytest.raises(ValueError, match=r"CacheHint\.scope must be 'private' or 'public', not 'all'"):
        CacheHint(1, "all")  # type: ignore[arg-type]  # on purpose
