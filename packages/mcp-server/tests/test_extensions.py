"""Custom extensions on both sides: methods and notifications in both directions, settings, capabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.lowlevel

from mcp_client import Client, ClientOptions, Handlers, open_http
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
    NotificationMethod,
    RequestMethod,
    Side,
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
class TextParams(NotificationParams):
    text: str


SEARCH = RequestMethod(
    name="com.example/search", sender=Side.CLIENT, params=SearchParams, result=SearchResult, extension=NAME
)
NARROW = RequestMethod(
    name="com.example/narrow",
    sender=Side.SERVER,
    params=SearchParams,
    result=SearchResult,
    revisions=frozenset(LEGACY),
    extension=NAME,
)
READ_UP_TO = NotificationMethod(
    name="notifications/com.example/seen", sender=Side.CLIENT, params=TextParams, extension=NAME
)
MATCHES = NotificationMethod(
    name="notifications/com.example/found", sender=Side.SERVER, params=TextParams, extension=NAME
)


@attrs.define
class ReceivedTexts:
    """The texts of the notifications that each side received."""

    server: list[str] = attrs.field(factory=list)
    client: list[str] = attrs.field(factory=list)


def make_search_server(received: ReceivedTexts) -> Server:
    server = Server("searching", version="1")
    server.extension(NAME, {"depth": 3}, sends=[NARROW, MATCHES])

    @server.method(SEARCH)
    async def search(params: SearchParams, context: Context) -> SearchResult:
        found = len(params.words)
        if context.peer.revision.server_requests:
            found += (await context.request(NARROW, params)).found
        await context.notify(MATCHES, TextParams(text=f"found {found}"))
        return SearchResult(found=found)

    @server.notification(READ_UP_TO)
    def on_read_up_to(params: TextParams) -> None:
        received.server.append(params.text)

    return server


@asynccontextmanager
async def connected(
    server: Server, received: ReceivedTexts, revision: Revision, *, http: bool
) -> AsyncIterator[Client]:
    async def narrow(params: SearchParams) -> SearchResult:
        return SearchResult(found=100)

    def found(params: TextParams) -> None:
        received.client.append(params.text)

    handlers = Handlers(extensions={NAME: {"wide": True}}, methods={NARROW: narrow}, notifications={MATCHES: found})
    extensions = Extensions(methods={SEARCH.name: SEARCH}, notifications={READ_UP_TO.name: READ_UP_TO})
    if not http:
        async with open_in_memory(
            lambda stream: serve_stream(server, stream),
            revisions=[revision],
            handlers=handlers,
            options=ClientOptions(extensions=extensions),
        ) as client:
            yield client
        return
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve_http(server, "127.0.0.1:0", task_status=task_status))
        async with open_http(
            url, revisions=[revision], handlers=handlers, options=ClientOptions(extensions=extensions)
        ) as client:
            yield client
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("http", [False, True], ids=["memory", "http"])
@pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)
async def test_extension_methods_and_notifications_in_both_directions(revision: Revision, http: bool) -> None:
    received = ReceivedTexts()
    server = make_search_server(received)
    async with connected(server, received, revision, http=http) as client:
        found = 103 if revision.server_requests else 3
        assert (await client.request(SEARCH, SearchParams(words="abc"))).found == found
        assert received.client == [f"found {found}"]
        await client.notify(READ_UP_TO, TextParams(text="seen"))
        with trio.fail_after(5):
            while not received.server:
                await trio.lowlevel.checkpoint()
        assert received.server == ["seen"]
        if not revision.server_requests:
            assert client.capabilities.extensions == {NAME: {"depth": 3}}


@pytest.mark.parametrize(
    "definition", [PING, NOTIFICATIONS_PROGRESS, SEARCH, READ_UP_TO], ids=lambda definition: definition.name
)
def test_extension_sends_foreign_definition_raises(
    definition: RequestMethod[object, object] | NotificationMethod[object],
) -> None:
    server = Server("searching", version="1")
    with pytest.raises(
        RegistrationError, match=f"{definition.name} is not a method of 'com.example/search' that a server sends"
    ):
        server.extension(NAME, sends=[definition])
    assert server.capabilities.extensions is None


@pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)
async def test_custom_method_handlers_declare_capabilities(revision: Revision) -> None:
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
