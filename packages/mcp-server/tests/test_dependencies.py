"""Parameters whose values functions provide: `Depends`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated

import pytest
import trio

from mcp_client import Handlers
from mcp_client.testing import open_in_memory
from mcp_core.types import TextContent
from mcp_server import Context, Depends, RegistrationError, Server, serve_stream

EVENTS: list[str] = []


def plain() -> str:
    EVENTS.append("plain")
    return "plain"


async def coroutine() -> str:
    await trio.lowlevel.checkpoint()
    return "coroutine"


def generator() -> Iterator[str]:
    yield "generator"
    EVENTS.append("generator cleaned up")


async def async_generator(inner: Annotated[str, Depends(generator)]) -> AsyncIterator[str]:
    yield f"async generator of {inner}"
    EVENTS.append("async generator cleaned up")


@contextmanager
def manager() -> Iterator[str]:
    yield "manager"
    EVENTS.append("manager cleaned up")


@asynccontextmanager
async def async_manager(context: Context) -> AsyncIterator[str]:
    yield f"async manager for {context.method}"


class Reused:
    """A value that happens to be a context manager."""

    def __enter__(self) -> str:
        raise AssertionError("nobody asked for that")

    def __exit__(self, *_: object) -> None:
        raise AssertionError("nobody asked for that")


def reused() -> Reused:
    return Reused()


async def said(server: Server, tool: str, **arguments: str) -> str:
    """What a tool answers."""
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        (block,) = (await client.call_tool(tool, arguments)).content
    assert isinstance(block, TextContent)
    return block.text


async def test_a_provider_may_be_a_function_of_any_kind() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    @server.tool
    async def all_of_them(
        word: str,
        a: Annotated[str, Depends(plain)],
        b: Annotated[str, Depends(coroutine)],
        c: Annotated[str, Depends(async_generator)],
        d: Annotated[str, Depends(manager)],
        e: Annotated[str, Depends(async_manager)],
        f: Annotated[Reused, Depends(reused)],
    ) -> str:
        EVENTS.append("called")
        return ", ".join([word, a, b, c, d, e, type(f).__name__])

    assert await said(server, "all_of_them", word="word") == (
        "word, plain, coroutine, async generator of generator, manager, async manager for tools/call, Reused"
    )
    assert EVENTS == [
        "plain",
        "called",
        "manager cleaned up",
        "async generator cleaned up",
        "generator cleaned up",
    ]
    (tool,) = server.offered()["tools"]
    assert tool.input_schema["properties"].keys() == {"word"}  # type: ignore[attr-defined]  # it is a tool


async def test_a_provider_is_called_once_for_a_call() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    def second(first: Annotated[str, Depends(plain)]) -> str:
        return f"second {first}"

    @server.tool
    async def both(a: Annotated[str, Depends(plain)], b: Annotated[str, Depends(second)]) -> str:
        return f"{a} {b}"

    assert await said(server, "both") == "plain second plain"
    assert EVENTS == ["plain"]


async def test_prompts_resources_and_plain_functions_have_dependencies_too() -> None:
    server = Server("dependent", version="1")

    @server.resource("memo://one")
    def memo(word: Annotated[str, Depends(plain)]) -> str:
        return word

    @server.prompt
    def greet(name: str, word: Annotated[str, Depends(coroutine)]) -> str:
        return f"{name} {word}"

    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        read = await client.read_resource("memo://one")
        got = await client.get_prompt("greet", {"name": "Ada"})
    assert "plain" in repr(read.contents)
    assert "Ada coroutine" in repr(got.messages)


async def test_what_is_provided_is_cleaned_up_when_the_function_fails() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    @server.tool
    async def fail(word: Annotated[str, Depends(generator_that_sees)]) -> str:
        raise ValueError(word)

    await said(server, "fail")
    assert EVENTS == ["saw ValueError"]


def generator_that_sees() -> Iterator[str]:
    try:
        yield "seen"
    except ValueError:
        EVENTS.append("saw ValueError")
        raise


async def test_a_test_puts_another_in_its_place() -> None:
    server = Server("dependent", version="1")

    @server.tool
    async def tell(word: Annotated[str, Depends(async_generator)]) -> str:
        return word

    def stand_in(context: Context) -> str:
        return f"stand-in for {context.method}"

    with server.override(async_generator, stand_in):
        assert await said(server, "tell") == "stand-in for tools/call"
        with server.override(async_generator, coroutine):
            assert await said(server, "tell") == "coroutine"
        assert await said(server, "tell") == "stand-in for tools/call"
    with server.override(generator, lambda: "another"):
        assert await said(server, "tell") == "async generator of another"
    assert await said(server, "tell") == "async generator of generator"


async def test_a_question_ends_what_is_provided_and_the_next_round_begins_it_anew() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    @server.tool
    async def ask(word: Annotated[str, Depends(generator)], context: Context) -> str:
        answer = await context.list_roots()
        return f"{word} {len(answer)}"

    async with open_in_memory(lambda stream: serve_stream(server, stream), handlers=Handlers(roots=())) as client:
        assert client.revision.server_requests is False
        (block,) = (await client.call_tool("ask")).content
    assert isinstance(block, TextContent)
    assert block.text == "generator 0"
    # Cancelled in the first round: a generator that does not look for it does not come to its end.
    assert EVENTS == ["generator cleaned up"]


def test_a_provider_that_needs_an_argument_is_refused() -> None:
    server = Server("dependent", version="1")

    def needy(table: str, database: str = "main") -> str:
        return table + database

    with pytest.raises(RegistrationError, match=r"needy .* provides a value, but takes table; it may take a Context"):

        @server.tool
        async def tool(word: Annotated[str, Depends(needy)]) -> str:
            return word


def test_a_circle_is_refused() -> None:
    server = Server("dependent", version="1")

    def first(word: Annotated[str, Depends(lambda: "x")]) -> str:
        return word

    def second(word: Annotated[str, Depends(first)]) -> str:
        return word

    first.__annotations__["word"] = Annotated[str, Depends(second)]
    with pytest.raises(RegistrationError, match=r"circular dependency: .*second.* needs .*first.* needs .*second"):

        @server.tool
        async def tool(word: Annotated[str, Depends(second)]) -> str:
            return word
