"""Connections that any task enters and leaves, in any order."""

from __future__ import annotations

import gc
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
import trio

from mcp_client import Client, open_http, open_stdio, open_stream
from mcp_client.group import ClientGroup, open_group
from mcp_core.errors import ConnectionEnded
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Server, serve_http, serve_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

PROGRAM: Final = """
import trio
from mcp_server import Server, serve_stdio
server = Server("child", version="1.0")
@server.tool(thread=False)
def hello() -> str:
    return "hello"
trio.run(serve_stdio, server)
"""

server = Server("same process", version="1.0")


@server.tool(thread=False)
def hello() -> str:
    return "hello"


class Openers:
    """Functions that return a connection of each kind."""

    def __init__(self, nursery: trio.Nursery, url: str, revision: Revision) -> None:
        self._nursery = nursery
        self._url = url
        self._revision = revision

    def stdio(self) -> AbstractAsyncContextManager[Client]:
        return open_stdio([sys.executable, "-c", PROGRAM], revisions=[self._revision])

    def http(self) -> AbstractAsyncContextManager[Client]:
        return open_http(self._url, revisions=[self._revision])

    def stream(self) -> AbstractAsyncContextManager[Client]:
        ours, theirs = trio.testing.memory_stream_pair()
        self._nursery.start_soon(serve_stream, server, theirs)
        return open_stream(ours, revisions=[self._revision])

    @asynccontextmanager
    async def group(self) -> AsyncIterator[Client]:
        """Open a group, and yield the client of its only member."""
        async with open_group({"one": self.http}) as group:
            yield await group["one"].connected()


@asynccontextmanager
async def opener(kind: str, revision: Revision) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[Client]]]:
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(serve_http, server, "127.0.0.1:0")
        yield getattr(Openers(nursery, urls[0], revision), kind)
        nursery.cancel_scope.cancel()


EACH: Final = pytest.mark.parametrize("kind", ["stdio", "http", "stream", "group"])
BOTH_ERAS: Final = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


async def is_open(client: Client) -> bool:
    try:
        return (await client.call_tool("hello")).text == "hello"
    except ConnectionEnded:
        return False


@EACH
@BOTH_ERAS
async def test_connections_closed_first_in_first_out(kind: str, revision: Revision) -> None:
    async with opener(kind, revision) as connect:
        first, second = AsyncExitStack(), AsyncExitStack()
        one = await first.enter_async_context(connect())
        two = await second.enter_async_context(connect())
        assert await is_open(one)
        await first.aclose()
        assert not await is_open(one)
        assert await is_open(two)
        await second.aclose()
        assert not await is_open(two)
        await first.aclose()


@EACH
@BOTH_ERAS
async def test_connection_entered_and_left_by_other_tasks(kind: str, revision: Revision) -> None:
    async with opener(kind, revision) as connect:
        stack = AsyncExitStack()
        clients: list[Client] = []

        async def enter() -> None:
            clients.append(await stack.enter_async_context(connect()))

        for step in (enter, partial(is_open_now, clients), stack.aclose):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(step)
        assert not await is_open(clients[0])


async def is_open_now(clients: list[Client]) -> None:
    assert await is_open(clients[0])


@EACH
@BOTH_ERAS
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_connection_in_abandoned_generator_is_closed(kind: str, revision: Revision) -> None:
    async with opener(kind, revision) as connect:
        clients: list[Client] = []

        async def texts() -> AsyncIterator[str]:
            async with connect() as client:
                clients.append(client)
                while True:
                    yield (await client.call_tool("hello")).text

        async for text in texts():
            assert text == "hello"
            break
        gc.collect()
        await clients[0].wait_ended()


@BOTH_ERAS
async def test_subscriptions_closed_first_in_first_out_by_other_task(revision: Revision) -> None:
    async with opener("http", revision) as connect, connect() as client:
        first, second = AsyncExitStack(), AsyncExitStack()
        await first.enter_async_context(client.listen(tools=True))
        changes = await second.enter_async_context(client.listen(tools=True))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.aclose)
        server.tool(name="other")(hello)
        try:
            await anext(changes)
        finally:
            server.remove_tool("other")
        await second.aclose()


@pytest.mark.parametrize("kind", ["stdio", "http", "stream"])
async def test_connection_entered_twice_raises(kind: str) -> None:
    async with opener(kind, R2026_07_28) as connect:
        connection = connect()
        async with connection as client:
            with pytest.raises(RuntimeError, match="already used"):
                await connection.__aenter__()
            assert await is_open(client)


async def test_group_entered_twice_raises() -> None:
    group = open_group({})
    async with group:
        with pytest.raises(RuntimeError, match="entered before"):
            await group.__aenter__()


async def test_listen_on_closed_client_raises() -> None:
    async with opener("http", R2026_07_28) as connect:
        async with connect() as client:
            assert await is_open(client)
        with pytest.raises(ConnectionEnded):
            async with client.listen(tools=True):
                pytest.fail("the client is closed")


def test_connections_left_open_end_with_run() -> None:
    groups: list[ClientGroup] = []

    async def main() -> None:
        connection = open_stdio([sys.executable, "-c", PROGRAM])
        client = await connection.__aenter__()
        assert await is_open(client)
        group = open_group({"child": lambda: open_stdio([sys.executable, "-c", PROGRAM])})
        groups.append(await group.__aenter__())

    trio.run(main)
    assert len(groups) == 1


class FailingMiddleware(Middleware):
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        if message.method == "subscriptions/listen":
            raise ValueError("a mistake")
        return await proceed(message)


async def test_exception_of_middleware_in_listen_leaves_client_open() -> None:
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(serve_http, server, "127.0.0.1:0")
        async with open_http(urls[0], middleware=[FailingMiddleware()]) as client:
            with pytest.raises(ValueError, match="a mistake"):
                async with client.listen(tools=True):
                    pytest.fail("the middleware fails")
            assert await is_open(client)
        nursery.cancel_scope.cancel()
