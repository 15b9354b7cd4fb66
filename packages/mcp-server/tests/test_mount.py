"""Mounted servers, in the same process and remote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import pytest
import trio
import trio.testing

from mcp_client import ChangeKind, Client, Handlers, ToolResult
from mcp_client.testing import open_in_memory
from mcp_core.errors import ErrorCode, RequestFailed, ResourceNotFound
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import LEGACY, R2026_07_28, Revision
from mcp_core.types import (
    CallToolRequestParams,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)
from mcp_server import AccessRequest, Context, RegistrationError, Server, serve_stream

BOTH_REVISIONS = pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)


def make_notes_server() -> Server:
    """Return a server to mount, with every kind of registration."""
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


def make_house_server() -> Server:
    """Return a server on which others are mounted."""
    server = Server("house", version="1", limits=Limits(page_items=2))

    @server.tool
    async def search(query: str) -> str:
        return f"house found {query}"

    @server.resource("house://one")
    def one() -> str:
        return "the house"

    return server


def text_of(result: ToolResult[object]) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def open_mounted(revision: Revision) -> AsyncIterator[tuple[Client, Server]]:
    server, mounted = make_house_server(), make_notes_server()
    server.mount(mounted, prefix="notes")
    async with open_in_memory(
        lambda stream: serve_stream(server, stream), revisions=[revision], handlers=Handlers(roots=())
    ) as client:
        yield client, mounted


@asynccontextmanager
async def open_remote(revision: Revision) -> AsyncIterator[tuple[Client, Server]]:
    server, mounted = make_house_server(), make_notes_server()
    async with AsyncExitStack() as stack:
        remote_client = await stack.enter_async_context(
            open_in_memory(lambda stream: serve_stream(mounted, stream), handlers=Handlers(roots=()))
        )
        server.mount_remote(remote_client, prefix="notes")
        yield (
            await stack.enter_async_context(
                open_in_memory(
                    lambda stream: serve_stream(server, stream), revisions=[revision], handlers=Handlers(roots=())
                )
            ),
            mounted,
        )


BOTH_MOUNTS = pytest.mark.parametrize("mount_kind", [open_mounted, open_remote])
Mount: TypeAlias = Callable[[Revision], AbstractAsyncContextManager[tuple[Client, Server]]]


@BOTH_REVISIONS
@BOTH_MOUNTS
async def test_mounted_server_is_listed_and_called(revision: Revision, mount_kind: Mount) -> None:
    async with mount_kind(revision) as (client, _):
        assert [tool.name for tool in await client.list_tools()] == ["search", "notes_search", "notes_ask"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["notes_greet"]
        assert [each.uri for each in await client.list_resources()] == ["house://one", "note://one"]
        assert [each.uri_template for each in await client.list_resource_templates()] == ["note://{name}/text"]
        progress: list[float] = []
        assert text_of(await client.call_tool("search", {"query": "x"})) == "house found x"
        result = await client.call_tool(
            "notes_search", {"query": "x"}, on_progress=lambda value, _total, _message: progress.append(value)
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


@BOTH_REVISIONS
@BOTH_MOUNTS
async def test_unknown_name_of_mounted_server_returns_error(revision: Revision, mount_kind: Mount) -> None:
    async with mount_kind(revision) as (client, _):
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


@BOTH_REVISIONS
@BOTH_MOUNTS
async def test_mounted_server_changes_are_notified(revision: Revision, mount_kind: Mount) -> None:
    uris = ["note://one"] if mount_kind is open_mounted else []
    async with mount_kind(revision) as (client, mounted), client.listen(tools=True, uris=uris) as changes:
        assert bool(changes.granted.resource_subscriptions) == (mount_kind is open_mounted)
        await trio.testing.wait_all_tasks_blocked()

        @mounted.tool
        async def later() -> str:
            return "later"

        change = await changes.__anext__()
        assert change.kind is ChangeKind.TOOLS
        assert "notes_later" in [tool.name for tool in await client.list_tools()]
        assert text_of(await client.call_tool("notes_later")) == "later"
        if mount_kind is open_mounted:
            mounted.resource_updated("note://one")
            change = await changes.__anext__()
            assert (change.kind, change.uri) == (ChangeKind.RESOURCE, "note://one")
        mounted.remove_tool("later")
        await changes.__anext__()
        with pytest.raises(RequestFailed, match="unknown tool"):
            await client.call_tool("notes_later")


async def test_remote_resource_subscription_not_granted() -> None:
    async with open_remote(R2026_07_28) as (client, _), client.listen(uris=["note://one"]) as changes:
        assert not changes.granted.resource_subscriptions
    async with open_remote(LEGACY[-1]) as (client, _):
        with pytest.raises(ResourceNotFound):
            async with client.listen(uris=["note://one"]):
                raise AssertionError


async def test_remote_server_unknown_members_forwarded() -> None:
    mounted, server = make_notes_server(), make_house_server()

    @mounted.method(TOOLS_LIST)
    async def tools(_: object, __: Context) -> JsonObject:
        schema: JsonObject = {"type": "object", "x-odd": [1.5, None]}
        return {"tools": [{"name": "odd", "inputSchema": schema, "strange": {"deep": [True]}}]}

    @mounted.method(TOOLS_CALL)
    async def call(_: object, __: Context) -> JsonObject:
        return {"content": [{"type": "text", "text": "x", "strange": 1}], "stranger": {"a": None}}

    async with open_in_memory(lambda stream: serve_stream(mounted, stream), revisions=[LEGACY[-1]]) as remote_client:
        server.mount_remote(remote_client, prefix="odd")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            tool = next(tool for tool in await client.list_tools() if tool.name == "odd_odd")
            assert tool.input_schema == {"type": "object", "x-odd": [1.5, None]}
            assert tool.extra == {"strange": {"deep": [True]}}
            result = await client.call_tool("odd_odd")
            assert result.result.extra["stranger"] == {"a": None}
            assert result.content[0].extra == {"strange": 1}


async def test_disconnected_remote_server_omitted_and_calls_fail(caplog: pytest.LogCaptureFixture) -> None:
    server, mounted = make_house_server(), make_notes_server()
    async with open_in_memory(lambda stream: serve_stream(mounted, stream)) as remote_client:
        server.mount_remote(remote_client, prefix="notes")
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["search"]
        with pytest.raises(RequestFailed, match="the mounted server did not respond") as caught:
            await client.call_tool("notes_search", {"query": "x"})
        assert caught.value.code == ErrorCode.INTERNAL_ERROR
        with pytest.raises(RequestFailed, match="did not respond"):
            await client.read_resource("note://one")
    assert "list request to a mounted server failed" in caplog.text
    assert "change notifications of a mounted server are unavailable" in caplog.text


async def test_mount_nested_and_without_prefix() -> None:
    inner, middle, outer = make_notes_server(), Server("middle", version="1"), make_house_server()
    middle.mount(inner, prefix="inner")
    outer.mount(middle)
    async with open_in_memory(lambda stream: serve_stream(outer, stream)) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["search", "inner_search", "inner_ask"]
        assert text_of(await client.call_tool("inner_search", {"query": "x"})) == "notes found x"
        assert "the note" in repr(await client.read_resource("note://one"))


async def test_mounted_server_lifespan_is_inside_of_outer() -> None:
    events: list[str] = []

    def server_with_lifespan(name: str) -> Server:
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

    outer, inner = server_with_lifespan("whole"), server_with_lifespan("part")
    outer.mount(inner, prefix="part")
    async with open_in_memory(lambda stream: serve_stream(outer, stream)) as client:
        assert text_of(await client.call_tool("state_whole")) == "whole"
        assert text_of(await client.call_tool("part_state_part")) == "part"
    assert events == ["part begins", "whole begins", "whole ends", "part ends"]


async def test_outer_access_applies_to_mounted_server() -> None:
    async def access(request: AccessRequest) -> bool:
        return request.name not in {"notes_search", "note://one", "notes_greet"}

    server = Server("house", version="1", access=access)
    server.mount(make_notes_server(), prefix="notes")
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
def test_mount_invalid_prefix_raises(prefix: str) -> None:
    with pytest.raises(RegistrationError, match="cannot be a prefix"):
        make_house_server().mount(make_notes_server(), prefix=prefix)


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a_b"), ("a_b", "a"), (None, None)])
def test_mount_ambiguous_prefixes_raise(first: str | None, second: str | None) -> None:
    server = make_house_server()
    server.mount(make_notes_server(), prefix=first)
    with pytest.raises(RegistrationError, match=r"is already mounted with .*; names would be ambiguous"):
        server.mount(make_notes_server(), prefix=second)


def test_mount_cycle_raises() -> None:
    outer, inner = make_house_server(), make_notes_server()
    with pytest.raises(RegistrationError, match="'house' cannot be mounted on 'house', which is a part of it"):
        outer.mount(outer)
    outer.mount(inner, prefix="part")
    with pytest.raises(RegistrationError, match="'house' cannot be mounted on 'notes'"):
        inner.mount(outer, prefix="whole")


def test_mount_server_with_access_or_tasks_raises() -> None:
    async def access(_: AccessRequest) -> bool:
        return True

    with pytest.raises(
        RegistrationError, match="'guarded' has its own `access` function: pass the function to 'house'"
    ):
        make_house_server().mount(Server("guarded", version="1", access=access))
    working, late = make_notes_server(), make_notes_server()

    @working.tool(task="optional")
    async def slow() -> str:
        return "slow"

    with pytest.raises(RegistrationError, match="'notes' has tools that run as tasks"):
        make_house_server().mount(working, prefix="working")
    make_house_server().mount(late, prefix="late")
    with pytest.raises(RegistrationError, match="'notes' is mounted on 'house': register tools that run as tasks"):
        late.tool(task="optional")(slow)


async def test_outer_access_gets_normalized_uri() -> None:
    checked: list[tuple[str, str]] = []

    async def access(request: AccessRequest) -> bool:
        checked.append((request.kind, request.name))
        return request.name not in {"note://secret/text", "secret://{name}", "note://secret"}

    server, inner = Server("house", version="1", access=access), make_notes_server()

    @inner.resource("secret://{name}")
    def secret(name: str) -> str:
        return name

    @inner.completion(resource="secret://{name}", argument="name")
    def secrets(value: str) -> list[str]:
        return ["hunter2"]

    middle = Server("middle", version="1")
    middle.mount(inner)
    server.mount(middle)
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        for uri in ("note://secret/text", "note://%73ecret/text", "note://%73%65cret/text", "secret://one"):
            with pytest.raises(ResourceNotFound):
                await client.read_resource(uri)
        async with client.listen(uris=["note://%73ecret/text", "secret://one", "note://open/text"]) as changes:
            assert changes.granted.resource_subscriptions == ("note://open/text",)
        with pytest.raises(RequestFailed, match="unknown resource template"):
            await client.complete(ResourceTemplateReference(uri="secret://{name}"), "name", "")
        checked.clear()
        await client.read_resource("note://%6Fpen/text")
        assert checked == [("template", "note://{name}/text"), ("resource", "note://open/text")]


async def test_access_of_proxy_gets_normalized_uri() -> None:
    checked: list[str] = []

    async def access(request: AccessRequest) -> bool:
        checked.append(request.name)
        return "secret" not in request.name

    server = Server("proxy", version="1", access=access)
    async with open_in_memory(lambda stream: serve_stream(make_notes_server(), stream)) as remote_client:
        server.mount_remote(remote_client, prefix="notes")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            for uri in ("note://secret/text", "note://%73ecret/text", "note://a%2fb%C3%A4%7e/other"):
                with pytest.raises(ResourceNotFound):
                    await client.read_resource(uri)
    assert checked == ["note://secret/text", "note://secret/text", "note://a%2Fb%C3%A4~/other"]


async def test_disconnected_remote_server_does_not_hide_next() -> None:
    first, second, server = make_notes_server(), Server("second", version="1"), Server("proxy", version="1")

    @second.resource("second://one")
    def one() -> str:
        return "of the second"

    async with AsyncExitStack() as stack:
        for remote_client, prefix in ((first, "first"), (second, "second")):
            client = await stack.enter_async_context(
                open_in_memory(lambda stream, remote_client=remote_client: serve_stream(remote_client, stream))  # type: ignore[misc]  # bound
            )
            server.mount_remote(client, prefix=prefix)
            if remote_client is first:
                await client.aclose()
        client = await stack.enter_async_context(open_in_memory(lambda stream: serve_stream(server, stream)))
        assert "of the second" in repr(await client.read_resource("second://one"))
        with pytest.raises(RequestFailed, match="the mounted server did not respond") as caught:
            await client.read_resource("first://one")
        assert not isinstance(caught.value, ResourceNotFound)


@BOTH_REVISIONS
async def test_trace_and_extension_metadata_forwarded_to_remote_server(revision: Revision) -> None:
    received: list[JsonObject] = []
    remote_client = Server("behind", version="1")

    @remote_client.tool
    async def listen(context: Context) -> str:
        received.append(context.meta)
        return "heard"

    server = Server("proxy", version="1")
    meta_sent: JsonObject = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "com.example/search": {"deep": True},
    }
    async with open_in_memory(lambda stream: serve_stream(remote_client, stream), revisions=[revision]) as open_remote:
        server.mount_remote(open_remote, prefix="b")
        async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[revision]) as client:
            await client.with_meta(meta_sent).call_tool("b_listen", on_progress=lambda *_: None)
            definition, params = TOOLS_CALL, CallToolRequestParams(name="b_listen", meta={"traceparent": "nonsense"})
            await client.request(definition, params)
    forwarded = [{key: value for key, value in meta.items() if key in meta_sent} for meta in received]
    assert forwarded == [meta_sent, {}]


async def test_proxied_list_pages_need_one_request() -> None:
    checked: list[object] = []

    class CountingMiddleware(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            checked.append(message.method)
            return await proceed(message)

    remote_client = Server("behind", version="1", middleware=[CountingMiddleware()])
    for number in range(9):
        remote_client.add_tool(lambda: "", name=f"tool{number}", description="One of them.")
    server = make_house_server()
    async with open_in_memory(lambda stream: serve_stream(remote_client, stream)) as open_remote:
        server.mount_remote(open_remote, prefix="b")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            for number in (9, 10):
                checked.clear()
                assert len(await client.list_tools()) == 1 + number
                assert checked == ["tools/list"]
                remote_client.add_tool(lambda: "", name=f"more{number}", description="One more.")


async def test_client_middleware_error_does_not_end_proxy() -> None:
    class FailingMiddleware(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            if message.method == "subscriptions/listen":
                raise ValueError("a mistake")
            return await proceed(message)

    server = make_house_server()
    async with open_in_memory(
        lambda stream: serve_stream(make_notes_server(), stream), middleware=[FailingMiddleware()]
    ) as open_remote:
        server.mount_remote(open_remote, prefix="b")
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            await trio.testing.wait_all_tasks_blocked()
            assert text_of(await client.call_tool("search", {"query": "x"})) == "house found x"
