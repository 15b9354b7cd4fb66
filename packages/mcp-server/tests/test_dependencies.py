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


class ContextManagerValue:
    """A value that is a context manager."""

    def __enter__(self) -> str:
        raise AssertionError("not entered")

    def __exit__(self, *_: object) -> None:
        raise AssertionError("not entered")


def make_context_manager_value() -> ContextManagerValue:
    return ContextManagerValue()


async def call_tool(server: Server, tool: str, **arguments: str) -> str:
    """Call a tool and return its text."""
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        (block,) = (await client.call_tool(tool, arguments, raise_on_error=False)).content
    assert isinstance(block, TextContent)
    return block.text


async def test_provider_kinds() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    @server.tool
    async def all_kinds(
        word: str,
        a: Annotated[str, Depends(plain)],
        b: Annotated[str, Depends(coroutine)],
        c: Annotated[str, Depends(async_generator)],
        d: Annotated[str, Depends(manager)],
        e: Annotated[str, Depends(async_manager)],
        f: Annotated[ContextManagerValue, Depends(make_context_manager_value)],
    ) -> str:
        EVENTS.append("called")
        return ", ".join([word, a, b, c, d, e, type(f).__name__])

    assert await call_tool(server, "all_kinds", word="word") == (
        "word, plain, coroutine, async generator of generator, manager, async manager for tools/call, "
        "ContextManagerValue"
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


async def test_provider_is_called_once_per_call() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    def second(first: Annotated[str, Depends(plain)]) -> str:
        return f"second {first}"

    @server.tool
    async def both(a: Annotated[str, Depends(plain)], b: Annotated[str, Depends(second)]) -> str:
        return f"{a} {b}"

    assert await call_tool(server, "both") == "plain second plain"
    assert EVENTS == ["plain"]


async def test_dependencies_in_resources_and_prompts() -> None:
    server = Server("dependent", version="1")

    @server.resource("memo://one")
    def memo(word: Annotated[str, Depends(plain)]) -> str:
        return word

    @server.prompt
    def greet(name: str, word: Annotated[str, Depends(coroutine)]) -> str:
        return f"{name} {word}"

    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        read = await client.read_resource("memo://one")
        prompt = await client.get_prompt("greet", {"name": "Ada"})
    assert "plain" in repr(read.contents)
    assert "Ada coroutine" in repr(prompt.messages)


async def test_provider_is_cleaned_up_after_error() -> None:
    server = Server("dependent", version="1")
    EVENTS.clear()

    @server.tool
    async def fail(word: Annotated[str, Depends(generator_recording_error)]) -> str:
        raise ValueError(word)

    await call_tool(server, "fail")
    assert EVENTS == ["saw ValueError"]


def generator_recording_error() -> Iterator[str]:
    try:
        yield "value"
    except ValueError:
        EVENTS.append("saw ValueError")
        raise


async def test_override_replaces_provider() -> None:
    server = Server("dependent", version="1")

    @server.tool
    async def show(word: Annotated[str, Depends(async_generator)]) -> str:
        return word

    def replacement(context: Context) -> str:
        return f"replacement for {context.method}"

    with server.override(async_generator, replacement):
        assert await call_tool(server, "show") == "replacement for tools/call"
        with server.override(async_generator, coroutine):
            assert await call_tool(server, "show") == "coroutine"
        assert await call_tool(server, "show") == "replacement for tools/call"
    with server.override(generator, lambda: "another"):
        assert await call_tool(server, "show") == "async generator of another"
    assert await call_tool(server, "show") == "async generator of generator"


async def test_mrtr_retry_runs_providers_again() -> None:
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
    # The first run is cancelled at the client request: a generator without `finally` does not reach its end.
    assert EVENTS == ["generator cleaned up"]


def test_provider_with_required_argument_raises() -> None:
    server = Server("dependent", version="1")

    def provider_with_argument(table: str, database: str = "main") -> str:
        return table + database

    with pytest.raises(
        RegistrationError, match=r"provider_with_argument .* provides a value, but takes table; it may take a Context"
    ):

        @server.tool
        async def tool(word: Annotated[str, Depends(provider_with_argument)]) -> str:
            return word


def test_circular_dependency_raises() -> None:
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
