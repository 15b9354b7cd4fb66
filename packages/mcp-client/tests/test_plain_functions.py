"""Plain functions as handlers and consent hooks: they run in worker threads, on trio and on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio
import trio.testing
from asyncio_server import served

import mcp_client.asyncio
from mcp_client import Handlers
from mcp_client.guards import Consent
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_core.methods import RequestMethod, Side
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.types import (
    CallToolRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    RequestParams,
    Result,
    Root,
    TextContent,
)
from mcp_core.types.wire_object import wire
from mcp_server import Context, Server, serve_stream

_THREADS = 8
"""How many plain handlers of a connection run at once."""


@attrs.frozen
class Name:
    name: str


@wire()
class AddParams(RequestParams):
    a: int
    b: int


@wire()
class AddResult(Result):
    sum: int


ADD = RequestMethod(name="example/add", sender=Side.SERVER, params=AddParams, result=AddResult)


class Functions:
    """A plain function for each handler and consent hook, and the threads in which they ran."""

    def __init__(self) -> None:
        self.threads: dict[str, threading.Thread] = {}

    def _ran(self, name: str) -> None:
        self.threads[name] = threading.current_thread()

    def elicit(self, _: ElicitRequestFormParams) -> dict[str, object]:
        self._ran("elicit")
        return {"name": "Ada"}

    def elicit_url(self, _: ElicitRequestURLParams) -> ElicitResult:
        self._ran("elicit_url")
        return ElicitResult(action="accept")

    def sample(self, _: CreateMessageRequestParams) -> CreateMessageResult:
        self._ran("sample")
        return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")

    def roots(self) -> list[Root]:
        self._ran("roots")
        return [Root(uri="file:///")]

    def consent_to_call(self, _: CallToolRequestParams) -> bool:
        self._ran("call")
        return True

    def consent_to_sample(self, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
        self._ran("consent_to_sample")
        return params

    def consent_to_sampled(self, _: CreateMessageRequestParams, result: CreateMessageResult) -> CreateMessageResult:
        self._ran("sampled")
        return result

    def consent_to_elicit(self, _: ElicitRequestFormParams | ElicitRequestURLParams) -> bool:
        self._ran("consent_to_elicit")
        return True

    def consent_to_root(self, _: Root) -> bool:
        self._ran("root")
        return True

    def handlers(self) -> Handlers:
        return Handlers(elicit=self.elicit, elicit_url=self.elicit_url, sample=self.sample, roots=self.roots)

    def consent(self) -> Consent:
        return Consent(
            call=self.consent_to_call,
            sample=self.consent_to_sample,
            sampled=self.consent_to_sampled,
            elicit=self.consent_to_elicit,
            root=self.consent_to_root,
        )

    def check(self) -> None:
        """Check that each function was called, in another thread than that of the test."""
        assert set(self.threads) == {
            *("elicit", "elicit_url", "sample", "roots", "call", "consent_to_sample", "sampled"),
            *("consent_to_elicit", "root"),
        }
        assert threading.current_thread() not in self.threads.values()


def shop() -> Server:
    """Return a server with a tool that sends each client request."""
    server = Server("shop", version="1.0")

    @server.tool
    async def greet(context: Context) -> str:
        """Return a greeting."""
        name = await context.elicit(Name, "Who are you?")
        page = await context.elicit_url("https://example.com/", "Visit the page.")
        model = await context.sample("Hello?", max_tokens=10)
        roots = await context.list_roots()
        return f"{name}, {page}, {model.content}, {roots}"

    return server


def check_greeting(text: str) -> None:
    assert "name='Ada'" in text
    assert "Accepted" in text
    assert "text='Hello'" in text
    assert "uri='file:///'" in text


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=lambda each: each.name)
async def test_plain_handlers_run_in_worker_threads(revision: Revision) -> None:
    functions = Functions()
    async with open_in_memory(
        partial(serve_stream, shop()),
        revisions=[revision],
        handlers=functions.handlers(),
        middleware=[functions.consent()],
    ) as client:
        check_greeting((await client.call_tool("greet")).text)
    functions.check()


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=lambda each: each.name)
def test_plain_handlers_under_asyncio_run_in_worker_threads(revision: Revision) -> None:
    functions = Functions()

    async def main() -> None:
        async with (
            served(shop()) as url,
            mcp_client.asyncio.open_http(
                url, revisions=[revision], handlers=functions.handlers(), middleware=[functions.consent()]
            ) as client,
        ):
            check_greeting((await client.call_tool("greet")).text)

    asyncio.run(asyncio.wait_for(main(), 20))
    functions.check()


async def add_later(params: AddParams) -> AddResult:
    return AddResult(sum=params.a + params.b)


def add(params: AddParams) -> AddResult:
    return AddResult(sum=params.a + params.b)


@pytest.mark.parametrize("handler", [add, add_later, lambda params: add_later(params)])
async def test_handler_of_any_kind_of_function_answers(handler: Callable[[AddParams], object]) -> None:
    answers: list[object] = []
    done = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": ADD.name, "params": {"a": 1, "b": 2}})
        answers.append((await peer.receive())["result"])
        done.set()

    async with open_in_memory(scripted(script), handlers=Handlers(methods={ADD: handler}), revisions=[R2025_11_25]):
        await done.wait()
    assert answers == [{"sum": 3}]


async def test_plain_handler_failed_answers_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[object] = []
    done = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        answers.append((await peer.receive())["error"])
        done.set()

    def roots() -> list[Root]:
        raise ValueError("s3cr3t")

    async with open_in_memory(scripted(script), handlers=Handlers(roots=roots), revisions=[R2025_11_25]):
        await done.wait()
    assert answers == [{"code": -32603, "message": "Internal error"}]
    assert "s3cr3t" in caplog.text


async def test_plain_handlers_over_limit_wait_and_do_not_delay_the_end() -> None:
    release = threading.Event()
    started: list[object] = []
    waiting, ended = threading.Semaphore(0), threading.Semaphore(0)

    def roots() -> list[Root]:
        started.append(None)
        waiting.release()
        release.wait(20)
        ended.release()
        return []

    async def all_of(semaphore: threading.Semaphore) -> bool:
        return await trio.to_thread.run_sync(lambda: all(semaphore.acquire(timeout=20) for _ in range(_THREADS)))

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        for number in range(_THREADS + 3):
            await peer.send({"jsonrpc": "2.0", "id": number, "method": "roots/list"})
        await trio.sleep_forever()

    try:
        async with open_in_memory(scripted(script), handlers=Handlers(roots=roots), revisions=[R2025_11_25]):
            assert await all_of(waiting)
            await trio.testing.wait_all_tasks_blocked()
        # The connection is closed, although no function has returned.
        assert not release.is_set()
    finally:
        release.set()
    assert await all_of(ended)
    assert len(started) == _THREADS
