"""Extensions of one's own, from both sides: methods and notifications in both directions, settings, capabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.lowlevel

from mcp_client import Client, Handlers, open_http
from mcp_client.testing import open_in_memory
from mcp_core.engine.connection import Extensions
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import (
    COMPLETION_COMPLETE,
    NOTIFICATIONS_PROGRESS,
    PING,
    PROMPTS_LIST,
    RESOURCES_LIST,
    TOOLS_LIST,
    Method,
    NotificationRow,
    Role,
)
from mcp_core.revisions import LEGACY, R2026_07_28, Revision
from mcp_core.types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ListPromptsRequestParams,
    ListResourcesRequestParams,
    ListResourcesResult,
    ListToolsRequestParams,
    ListToolsResult,
    NotificationParams,
    PromptReference,
    RequestParams,
    Result,
    ServerCapabilities,
    Tool,
    wire,
)
from mcp_server import Context, RegistrationError, Server, serve_http, serve_stream

NAME = "com.example/search"


@wire()
class SearchParams(RequestParams):
    words: str


@wire()
class SearchResult(Result):
    found: int


@wire()
class ToldParams(NotificationParams):
    text: str


SEARCH = Method(name="com.example/search", sender=Role.CLIENT, params=SearchParams, result=SearchResult, extension=NAME)
NARROW = Method(
    name="com.example/narrow",
    sender=Role.SERVER,
    params=SearchParams,
    result=SearchResult,
    revisions=frozenset(LEGACY),
    extension=NAME,
)
SEEN = NotificationRow(name="notifications/com.example/seen", sender=Role.CLIENT, params=ToldParams, extension=NAME)
FOUND = NotificationRow(name="notifications/com.example/found", sender=Role.SERVER, params=ToldParams, extension=NAME)


@attrs.define
class Heard:
    """What each side was told."""

    server: list[str] = attrs.field(factory=list)
    client: list[str] = attrs.field(factory=list)


def searching(heard: Heard) -> Server:
    server = Server("searching", version="1")
    server.extension(NAME, {"depth": 3}, sends=[NARROW, FOUND])

    @server.method(SEARCH)
    async def search(params: SearchParams, context: Context) -> SearchResult:
        found = len(params.words)
        if context.peer.revision.server_requests:
            found += (await context.ask(NARROW, params)).found
        await context.notify(FOUND, ToldParams(text=f"found {found}"))
        return SearchResult(found=found)

    @server.notification(SEEN)
    def seen(params: ToldParams) -> None:
        heard.server.append(params.text)

    return server


@asynccontextmanager
async def connected(server: Server, heard: Heard, revision: Revision, *, http: bool) -> AsyncIterator[Client]:
    async def narrow(params: SearchParams) -> SearchResult:
        return SearchResult(found=100)

    def found(params: ToldParams) -> None:
        heard.client.append(params.text)

    handlers = Handlers(extensions={NAME: {"wide": True}}, methods={NARROW: narrow}, notifications={FOUND: found})
    rows = Extensions(methods={SEARCH.name: SEARCH}, notifications={SEEN.name: SEEN})
    if not http:
        async with open_in_memory(
            lambda stream: serve_stream(server, stream), revisions=[revision], handlers=handlers, extensions=rows
        ) as client:
            yield client
        return
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve_http(server, "127.0.0.1:0", task_status=task_status))
        async with open_http(url, revisions=[revision], handlers=handlers, extensions=rows) as client:
            yield client
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("http", [False, True], ids=["memory", "http"])
@pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)
async def test_both_sides_ask_and_tell_by_an_extension(revision: Revision, http: bool) -> None:
    heard = Heard()
    server = searching(heard)
    async with connected(server, heard, revision, http=http) as client:
        found = 103 if revision.server_requests else 3
        assert (await client.request(SEARCH, SearchParams(words="abc"))).found == found
        assert heard.client == [f"found {found}"]
        await client.notify(SEEN, ToldParams(text="seen"))
        with trio.fail_after(5):
            while not heard.server:
                await trio.lowlevel.checkpoint()
        assert heard.server == ["seen"]
        if not revision.server_requests:
            assert client.capabilities.extensions == {NAME: {"depth": 3}}


@pytest.mark.parametrize("row", [PING, NOTIFICATIONS_PROGRESS, SEARCH, SEEN], ids=lambda row: row.name)
def test_a_server_sends_no_row_that_is_not_its_own(row: Method[object, object] | NotificationRow[object]) -> None:
    server = Server("searching", version="1")
    with pytest.raises(
        RegistrationError, match=f"{row.name} is not a method of 'com.example/search' that a server sends"
    ):
        server.extension(NAME, sends=[row])
    assert server.capabilities.extensions is None


@pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)
async def test_who_answers_the_methods_of_a_feature_by_himself_offers_it(revision: Revision) -> None:
    server = Server("by hand", version="1")
    assert server.capabilities == ServerCapabilities(logging={})

    @server.method(TOOLS_LIST)
    async def tools(params: ListToolsRequestParams, context: Context) -> ListToolsResult:
        return ListToolsResult(tools=(Tool(name="one", input_schema={"type": "object"}),))

    @server.method(PROMPTS_LIST)
    async def prompts(params: ListPromptsRequestParams, context: Context) -> JsonObject:
        return {"prompts": [{"name": "one"}]}

    @server.method(RESOURCES_LIST)
    async def resources(params: ListResourcesRequestParams, context: Context) -> ListResourcesResult:
        return ListResourcesResult(resources=())

    @server.method(COMPLETION_COMPLETE)
    async def complete(params: CompleteRequestParams, context: Context) -> CompleteResult:
        return CompleteResult(completion=Completion(values=("done",)))

    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
        assert [tool.name for tool in await client.list_tools()] == ["one"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["one"]
        assert await client.list_resources() == ()
        assert (await client.complete(PromptReference(name="one"), "a", "d")).values == ("done",)
