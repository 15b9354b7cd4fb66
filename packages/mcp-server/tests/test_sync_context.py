from __future__ import annotations

import inspect
import threading
from functools import partial
from typing import TYPE_CHECKING, Annotated

import attrs
import pytest
import trio

from mcp_client import Handlers
from mcp_client.testing import open_in_memory
from mcp_core.methods import ROOTS_LIST
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ListRootsRequestParams,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)
from mcp_server import Context, Depends, ElicitationAccepted, RegistrationError, Server, SyncContext, serve_stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOTH_ERAS = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


@attrs.frozen
class Name:
    first: str


def members_of(kind: type) -> dict[str, object]:
    """Return the public members of a class: the parameters of methods, and `property`."""
    found: dict[str, object] = {}
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            found[name] = (
                property if isinstance(member, property) else list(inspect.signature(member).parameters.values())
            )
    return found


def test_sync_context_has_members_of_context() -> None:
    expected, found = members_of(Context), members_of(SyncContext)
    assert found.keys() == expected.keys()
    # `once` takes a function that is not a coroutine function.
    expected.pop("once")
    found.pop("once")
    assert found == expected


@BOTH_ERAS
async def test_methods_block_until_client_has_responded(revision: Revision, tmp_path: Path) -> None:
    server = Server("plain", version="1.0")
    paid: list[int] = []
    ran_in: set[int] = set()

    def pay() -> int:
        paid.append(len(paid) + 1)
        return paid[-1]

    @server.tool
    def order(article: str, context: SyncContext) -> str:
        ran_in.add(threading.get_ident())
        context.info(f"order of {article}", "shop")
        context.progress(1, 3, "asking")
        outcome = context.elicit(Name, "Who are you?")
        first = outcome.value.first if isinstance(outcome, ElicitationAccepted) else "nobody"
        number = context.once("pay", pay)
        context.progress(2, 3, "paid")
        verse = context.sample("A verse, please.", max_tokens=10)
        assert isinstance(verse.content, TextContent)
        roots = context.list_roots()
        assert context.request(ROOTS_LIST, ListRootsRequestParams(), key="again").roots == roots
        assert (context.method, context.peer.revision) == ("tools/call", revision)
        assert repr(context).startswith("<SyncContext of tools/call")
        return f"{article} {number} for {first}: {verse.content.text} {len(roots)}"

    async def elicit(_: ElicitRequestFormParams) -> dict[str, object]:
        return {"first": "Ada"}

    async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="Violets are blue"), model="poet")

    logged: list[LoggingMessageNotificationParams] = []
    steps: list[tuple[float, float | None, str | None]] = []
    handlers = Handlers(elicit=elicit, sample=sample, roots=[Root(uri=tmp_path.as_uri())], log=logged.append)
    async with open_in_memory(
        partial(serve_stream, server), revisions=[revision], handlers=handlers, log_level="info"
    ) as client:
        result = await client.call_tool("order", {"article": "tea"}, on_progress=lambda *step: steps.append(step))
    assert result.text == "tea 1 for Ada: Violets are blue 1"
    assert paid == [1]
    assert {(1, 3, "asking"), (2, 3, "paid")} <= set(steps)
    assert logged[0].data == "order of tea"
    assert logged[0].logger == "shop"
    assert threading.get_ident() not in ran_in


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_cancelled_request_ends_method_that_waits(revision: Revision) -> None:
    server = Server("plain", version="1.0")
    waiting, left = trio.Event(), trio.Event()

    @server.tool
    def wait(context: SyncContext) -> str:
        try:
            trio.from_thread.run_sync(waiting.set)
            while True:
                context.debug("still here")
        finally:
            trio.from_thread.run_sync(left.set)

    async with open_in_memory(partial(serve_stream, server), revisions=[revision]) as client:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait")
                await waiting.wait()
                scope.cancel()
        await left.wait()
        assert await client.list_tools()


async def test_once_in_each_worker_thread_completes() -> None:
    server = Server("plain", version="1.0")
    calls = trio.to_thread.current_default_thread_limiter().total_tokens
    together = threading.Barrier(int(calls))

    @server.tool
    def work(number: int, context: SyncContext) -> int:
        together.wait()
        return context.once("work", lambda: number)

    async with open_in_memory(partial(serve_stream, server), revisions=[R2025_06_18]) as client:
        results: list[int] = []

        async def call(number: int) -> None:
            results.append((await client.call_tool("work", {"number": number}, returns=int)).data)

        async with trio.open_nursery() as nursery:
            for number in range(int(calls)):
                nursery.start_soon(call, number)
    assert sorted(results) == list(range(int(calls)))


async def test_context_after_end_raises() -> None:
    server = Server("plain", version="1.0")
    kept: list[SyncContext] = []

    @server.tool
    def keep(context: SyncContext) -> None:
        kept.append(context)

    async with open_in_memory(partial(serve_stream, server)) as client:
        await client.call_tool("keep")
        with pytest.raises(RuntimeError, match="used after its handler has returned"):
            _ = kept[0].meta
        with pytest.raises(RuntimeError):
            kept[0].progress(1)


def _plain_with_context(server: Server) -> None:
    @server.tool
    def work(context: Context) -> None: ...


def _prompt_with_context(server: Server) -> None:
    @server.prompt
    def work(context: Context) -> str:
        return ""


def _resource_with_context(server: Server) -> None:
    @server.resource("a:b")
    def work(context: Context) -> str:
        return ""


def _coroutine_with_sync_context(server: Server) -> None:
    @server.tool
    async def work(context: SyncContext) -> None: ...


def _inline_with_sync_context(server: Server) -> None:
    @server.tool(thread=False)
    def work(context: SyncContext) -> None: ...


def _provider_with_sync_context(server: Server) -> None:
    def provider(context: SyncContext) -> str:
        return context.method

    @server.tool
    async def work(method: Annotated[str, Depends(provider)]) -> str:
        return method


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (_plain_with_context, "'context': it is a plain function, .* write 'context: SyncContext', or 'async def'"),
        (_prompt_with_context, "write 'context: SyncContext', or 'async def'"),
        (_resource_with_context, "write 'context: SyncContext', or 'async def'"),
        (_coroutine_with_sync_context, "would block the event loop; write 'context: Context'"),
        (_provider_with_sync_context, "is a provider, which runs in the event loop; it takes a Context"),
        (_inline_with_sync_context, "would block the event loop; .* or a plain function without thread=False"),
    ],
)
def test_context_of_other_kind_of_function_raises(register: Callable[[Server], None], message: str) -> None:
    with pytest.raises(RegistrationError, match=message) as caught:
        register(Server("plain", version="1.0"))
    assert "test_sync_context.py:" in str(caught.value)
