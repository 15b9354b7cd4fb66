"""Other servers as a part of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import pytest
import trio
import trio.testing

from mcp_client import ChangeKind, Client, Handlers
from mcp_client.testing import open_in_memory
from mcp_core.errors import ErrorCode, RequestFailed, ResourceNotFound
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST
from mcp_core.middleware import Middleware, Passing, Proceed
from mcp_core.revisions import LEGACY, R2026_07_28, Revision
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)
from mcp_server import AccessRequest, Context, RegistrationError, Server, serve_stream

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)


def notes() -> Server:
    """A server to be mounted, with something of each kind."""
    server = Server("notes", version="1")

    @server.tool
    async def search(query: str, context: Context) -> str:
        await context.progress(1)
        return f"{context.server.info.name} found {query}"

    @server.tool
    async def ask(context: Context) -> str:
        return str(len(await context.list_roots()))

    @server.prompt
    def greet(name: str) -> str:
        return f"Hello, {name}"

    @server.resource("note://one")
    def one() -> str:
        return "the note"

    @server.resource("note://{name}/text")
    def text(name: str) -> str:
        return f"text of {name}"

    @server.completion(prompt="greet", argument="name")
    def names(value: str) -> list[str]:
        return [value + "da"]

    @server.completion(resource="note://{name}/text", argument="name")
    def note_names(value: str) -> list[str]:
        return [value + "te"]

    return server


def house() -> Server:
    """The server that others are mounted on."""
    server = Server("house", version="1", limits=Limits(page_items=2))

    @server.tool
    async def search(query: str) -> str:
        return f"house found {query}"

    @server.resource("house://one")
    def one() -> str:
        return "the house"

    return server


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def local(revision: Revision) -> AsyncIterator[tuple[Client, Server]]:
    server, mounted = house(), notes()
    server.mount(mounted, prefix="notes")
    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=Handlers(roots=())
    ) as client:
        yield client, mounted


@asynccontextmanager
async def remote(revision: Revision) -> AsyncIterator[tuple[Client, Server]]:
    server, mounted = house(), notes()
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(
            open_in_memory(lambda stream: serve_stream(mounted, stream), handlers=Handlers(roots=()))
        )
        server.mount_remote(behind, prefix="notes")
        yield (
            await stack.enter_async_context(
                open_in_memory(
                    lambda stream: serve_stream(server, stream), revisions=[revision], handlers=Handlers(roots=())
                )
            ),
            mounted,
        )


WAYS = pytest.mark.parametrize("way", [local, remote])
Way: TypeAlias = Callable[[Revision], AbstractAsyncContextManager[tuple[Client, Server]]]


@BOTH
@WAYS
async def test_all_that_it_offers_is_listed_and_used(revision: Revision, way: Way) -> None:
    async with way(revision) as (client, _):
        assert [tool.name for tool in await client.list_tools()] == ["search", "notes_search", "notes_ask"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["notes_greet"]
        assert [each.uri for each in await client.list_resources()] == ["house://one", "note://one"]
        assert [each.uri_template for each in await client.list_resource_templates()] == ["note://{name}/text"]
        progress: list[float] = []
        assert text_of(await client.call_tool("search", {"query": "x"})) == "house found x"
        result = await client.call_tool(
            "notes_search", {"query": "x"}, on_progress=lambda each: progress.append(each.progress)
        )
        assert text_of(result) == "notes found x"
        assert progress == [1]
        assert text_of(await client.call_tool("notes_ask")) == "0"
        assert "Hello, Ada" in repr(await client.get_prompt("notes_greet", {"name": "Ada"}))
        for uri, text in [("house://one", "the house"), ("note://one", "the note"), ("note://x/text", "text of x")]:
            assert text in repr((await client.read_resource(uri)).contents)
        assert (await client.complete(PromptReference(name="notes_greet"), "name", "A")).values == ("Ada",)
        template = ResourceTemplateReference(uri="note://{name}/text")
        assert (await client.complete(template, "name", "no")).values == ("note",)


@BOTH
@WAYS
async def test_what_nobody_has_is_unknown(revision: Revision, way: Way) -> None:
    async with way(revision) as (client, _):
        for name in ("notes_nothing", "nothing"):
            with pytest.raises(RequestFailed, match="unknown tool") as caught:
                await client.call_tool(name)
            assert caught.value.code == ErrorCode.INVALID_PARAMS
        with pytest.raises(RequestFailed, match="unknown prompt"):
            await client.get_prompt("greet", {"name": "Ada"})
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://")
        with pytest.raises(RequestFailed, match="unknown"):
            await client.complete(PromptReference(name="nothing"), "name", "A")


@BOTH
@WAYS
async def test_its_changes_are_told(revision: Revision, way: Way) -> None:
    uris = ["note://one"] if way is local else []
    async with way(revision) as (client, mounted), client.listen(tools=True, uris=uris) as changes:
        assert bool(changes.granted.resource_subscriptions) == (way is local)
        await trio.testing.wait_all_tasks_blocked()

        @mounted.tool
        async def later() -> str:
            return "later"

        change = await changes.__anext__()
        assert change.kind is ChangeKind.TOOLS
        assert "notes_later" in [tool.name for tool in await client.list_tools()]
        assert text_of(await client.call_tool("notes_later")) == "later"
        if way is local:
            mounted.resource_updated("note://one")
            change = await changes.__anext__()
            assert (change.kind, change.uri) == (ChangeKind.RESOURCE, "note://one")
        mounted.remove_tool("later")
        await changes.__anext__()
        with pytest.raises(RequestFailed, match="unknown tool"):
            await client.call_tool("notes_later")


async def test_the_changes_of_a_remote_resource_are_not_promised() -> None:
    async with remote(R2026_07_28) as (client, _), client.listen(uris=["note://one"]) as changes:
        assert not changes.granted.resource_subscriptions
    async with remote(LEGACY[-1]) as (client, _):
        with pytest.raises(ResourceNotFound):
            async with client.listen(uris=["note://one"]):
                raise AssertionError


async def test_members_that_nobody_here_knows_are_passed_on() -> None:
    mounted, server = notes(), house()

    @mounted.method(TOOLS_LIST)
    async def tools(_: object, __: Context) -> JsonObject:
        schema: JsonObject = {"type": "object", "x-odd": [1.5, None]}
        return {"tools": [{"name": "odd", "inputSchema": schema, "strange": {"deep": [True]}}]}

    @mounted.method(TOOLS_CALL)
    async def call(_: object, __: Context) -> JsonObject:
        return {"content": [{"type": "text", "text": "x", "strange": 1}], "stranger": {"a": None}}

    async with open_in_memory(lambda stream: serve_stream(mounted, stream), revisions=[LEGACY[-1]]) as behind:
        server.mount_remote(behind, prefix="odd")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            tool = next(tool for tool in await client.list_tools() if tool.name == "odd_odd")
            assert tool.input_schema == {"type": "object", "x-odd": [1.5, None]}
            assert tool.extra == {"strange": {"deep": [True]}}
            result = await client.call_tool("odd_odd")
            assert result.extra["stranger"] == {"a": None}
            assert result.content[0].extra == {"strange": 1}


async def test_a_server_that_is_gone_is_left_out_and_its_calls_fail(caplog: pytest.LogCaptureFixture) -> None:
    server, mounted = house(), notes()
    async with open_in_memory(lambda stream: serve_stream(mounted, stream)) as behind:
        server.mount_remote(behind, prefix="notes")
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["search"]
        with pytest.raises(RequestFailed, match="the mounted server did not respond") as caught:
            await client.call_tool("notes_search", {"query": "x"})
        assert caught.value.code == ErrorCode.INTERNAL_ERROR
        with pytest.raises(RequestFailed, match="did not respond"):
            await client.read_resource("note://one")
    assert "list request to a mounted server failed" in caplog.text
    assert "change notifications of a mounted server are unavailable" in caplog.text


async def test_servers_may_be_mounted_on_mounted_ones_and_without_a_prefix() -> None:
    inner, middle, outer = notes(), Server("middle", version="1"), house()
    middle.mount(inner, prefix="inner")
    outer.mount(middle)
    async with open_in_memory(lambda stream: serve_stream(outer, stream)) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["search", "inner_search", "inner_ask"]
        assert text_of(await client.call_tool("inner_search", {"query": "x"})) == "notes found x"
        assert "the note" in repr(await client.read_resource("note://one"))


async def test_the_life_of_a_part_goes_on_within_that_of_the_whole() -> None:
    events: list[str] = []

    def living(name: str) -> Server:
        @asynccontextmanager
        async def lifespan(_: Server) -> AsyncIterator[str]:
            events.append(f"{name} begins")
            yield name
            events.append(f"{name} ends")

        server = Server(name, version="1", lifespan=lifespan)

        @server.tool(name=f"state_{name}")
        async def state(context: Context) -> str:
            return context.state(str)

        return server

    whole, part = living("whole"), living("part")
    whole.mount(part, prefix="part")
    async with open_in_memory(lambda stream: serve_stream(whole, stream)) as client:
        assert text_of(await client.call_tool("state_whole")) == "whole"
        assert text_of(await client.call_tool("part_state_part")) == "part"
    assert events == ["part begins", "whole begins", "whole ends", "part ends"]


async def test_the_access_of_the_whole_is_asked_for_what_is_mounted() -> None:
    async def access(request: AccessRequest) -> bool:
        return request.name not in {"notes_search", "note://one", "notes_greet"}

    server = Server("house", version="1", access=access)
    server.mount(notes(), prefix="notes")
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["notes_ask"]
        with pytest.raises(RequestFailed, match="unknown tool"):
            await client.call_tool("notes_search", {"query": "x"})
        with pytest.raises(RequestFailed, match="unknown prompt"):
            await client.get_prompt("notes_greet", {"name": "Ada"})
        with pytest.raises(RequestFailed, match="unknown prompt"):
            await client.complete(PromptReference(name="notes_greet"), "name", "A")
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://one")
        async with client.listen(uris=["note://one", "note://x/text"]) as changes:
            assert changes.granted.resource_subscriptions == ("note://x/text",)


@pytest.mark.parametrize("prefix", ["", "a b", "x" * 65, "ä"])
def test_a_prefix_that_no_tool_can_have_is_refused(prefix: str) -> None:
    with pytest.raises(RegistrationError, match="cannot be a prefix"):
        house().mount(notes(), prefix=prefix)


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a_b"), ("a_b", "a"), (None, None)])
def test_prefixes_that_are_not_told_apart_are_refused(first: str | None, second: str | None) -> None:
    server = house()
    server.mount(notes(), prefix=first)
    with pytest.raises(RegistrationError, match=r"is already mounted with .*; names would be ambiguous"):
        server.mount(notes(), prefix=second)


def test_a_server_is_not_mounted_on_itself_or_on_a_part_of_it() -> None:
    whole, part = house(), notes()
    with pytest.raises(RegistrationError, match="'house' cannot be mounted on 'house', which is a part of it"):
        whole.mount(whole)
    whole.mount(part, prefix="part")
    with pytest.raises(RegistrationError, match="'house' cannot be mounted on 'notes'"):
        part.mount(whole, prefix="whole")


def test_what_only_the_whole_can_have_is_refused_in_a_part() -> None:
    async def access(_: AccessRequest) -> bool:
        return True

    with pytest.raises(
        RegistrationError, match="'guarded' has its own `access` function: pass the function to 'house'"
    ):
        house().mount(Server("guarded", version="1", access=access))
    working, late = notes(), notes()

    @working.tool(task="optional")
    async def slow() -> str:
        return "slow"

    with pytest.raises(RegistrationError, match="'notes' has tools that run as tasks"):
        house().mount(working, prefix="working")
    house().mount(late, prefix="late")
    with pytest.raises(RegistrationError, match="'notes' is mounted on 'house': register tools that run as tasks"):
        late.tool(task="optional")(slow)


async def test_the_access_of_the_whole_decides_by_one_form_of_a_uri() -> None:
    asked: list[tuple[str, str]] = []

    async def access(request: AccessRequest) -> bool:
        asked.append((request.kind, request.name))
        return request.name not in {"note://secret/text", "secret://{name}", "note://secret"}

    server, part = Server("house", version="1", access=access), notes()

    @part.resource("secret://{name}")
    def secret(name: str) -> str:
        return name

    @part.completion(resource="secret://{name}", argument="name")
    def secrets(value: str) -> list[str]:
        return ["hunter2"]

    middle = Server("middle", version="1")
    middle.mount(part)
    server.mount(middle)
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        for uri in ("note://secret/text", "note://%73ecret/text", "note://%73%65cret/text", "secret://one"):
            with pytest.raises(ResourceNotFound):
                await client.read_resource(uri)
        async with client.listen(uris=["note://%73ecret/text", "secret://one", "note://open/text"]) as changes:
            assert changes.granted.resource_subscriptions == ("note://open/text",)
        with pytest.raises(RequestFailed, match="unknown resource template"):
            await client.complete(ResourceTemplateReference(uri="secret://{name}"), "name", "")
        asked.clear()
        await client.read_resource("note://%6Fpen/text")
        assert asked == [("template", "note://{name}/text"), ("resource", "note://open/text")]


async def test_what_a_proxied_server_is_asked_for_is_decided_by_one_form_of_a_uri() -> None:
    asked: list[str] = []

    async def access(request: AccessRequest) -> bool:
        asked.append(request.name)
        return "secret" not in request.name

    server = Server("proxy", version="1", access=access)
    async with open_in_memory(lambda stream: serve_stream(notes(), stream)) as behind:
        server.mount_remote(behind, prefix="notes")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            for uri in ("note://secret/text", "note://%73ecret/text", "note://a%2fb%C3%A4%7e/other"):
                with pytest.raises(ResourceNotFound):
                    await client.read_resource(uri)
    assert asked == ["note://secret/text", "note://secret/text", "note://a%2Fb%C3%A4~/other"]


async def test_a_server_that_is_gone_does_not_hide_the_resources_of_the_next() -> None:
    first, second, server = notes(), Server("second", version="1"), Server("proxy", version="1")

    @second.resource("second://one")
    def one() -> str:
        return "of the second"

    async with AsyncExitStack() as stack:
        for behind, prefix in ((first, "first"), (second, "second")):
            client = await stack.enter_async_context(
                open_in_memory(lambda stream, behind=behind: serve_stream(behind, stream))  # type: ignore[misc]  # bound
            )
            server.mount_remote(client, prefix=prefix)
            if behind is first:
                await client.aclose()
        client = await stack.enter_async_context(open_in_memory(lambda stream: serve_stream(server, stream)))
        assert "of the second" in repr(await client.read_resource("second://one"))
        with pytest.raises(RequestFailed, match="the mounted server did not respond") as caught:
            await client.read_resource("first://one")
        assert not isinstance(caught.value, ResourceNotFound)


@BOTH
async def test_a_trace_and_what_extensions_say_goes_on_to_a_proxied_server(revision: Revision) -> None:
    heard: list[JsonObject] = []
    behind = Server("behind", version="1")

    @behind.tool
    async def listen(context: Context) -> str:
        heard.append(context.meta)
        return "heard"

    server = Server("proxy", version="1")
    said: JsonObject = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "com.example/search": {"deep": True},
    }
    async with open_in_memory(lambda stream: serve_stream(behind, stream), revisions=[revision]) as remote:
        server.mount_remote(remote, prefix="b")
        async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
            await client.with_meta(said).call_tool("b_listen", on_progress=lambda _: None)
            row, params = TOOLS_CALL, CallToolRequestParams(name="b_listen", meta={"traceparent": "nonsense"})
            await client.request(row, params)
    ours = [{key: value for key, value in meta.items() if key in said} for meta in heard]
    assert ours == [said, {}]


async def test_a_page_of_a_proxied_list_does_not_cost_the_whole_list() -> None:
    asked: list[object] = []

    class Counting(Middleware):
        async def request(self, message: Passing, proceed: Proceed) -> object:
            asked.append(message.method)
            return await proceed(message)

    behind = Server("behind", version="1", middleware=[Counting()])
    for number in range(9):
        behind.add_tool(lambda: "", name=f"tool{number}", description="One of them.")
    server = house()
    async with open_in_memory(lambda stream: serve_stream(behind, stream)) as remote:
        server.mount_remote(remote, prefix="b")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            for number in (9, 10):
                asked.clear()
                assert len(await client.list_tools()) == 1 + number
                assert asked == ["tools/list"]
                behind.add_tool(lambda: "", name=f"more{number}", description="One more.")


async def test_a_middleware_that_fails_does_not_end_the_server_that_a_proxy_is_on() -> None:
    class Failing(Middleware):
        async def request(self, message: Passing, proceed: Proceed) -> object:
            if message.method == "subscriptions/listen":
                raise ValueError("a mistake")
            return await proceed(message)

    server = house()
    async with open_in_memory(lambda stream: serve_stream(notes(), stream), middleware=[Failing()]) as remote:
        server.mount_remote(remote, prefix="b")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            await trio.testing.wait_all_tasks_blocked()
            assert text_of(await client.call_tool("search", {"query": "x"})) == "house found x"
