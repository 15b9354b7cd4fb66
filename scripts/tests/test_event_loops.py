"""Public functions that need an event loop: each works on trio and on asyncio, and explains that a loop is missing.

They are found through `__all__` of the public modules, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import attrs
import pytest
import trio
import trio.testing

import mcp_client.asyncio
import mcp_client.blocking
from checks.exports import PUBLIC
from mcp_client import Client, Connector, open_http, open_stdio, open_stream
from mcp_client.apps import read_app
from mcp_client.auth import MemoryStore, Paste, SystemBrowser
from mcp_client.auth.stores import FileStore, KeyringStore
from mcp_client.group import open_group
from mcp_client.skills import LoadedSkill, get_skill, list_skills, load_skill, read_directory
from mcp_client.testing import open_in_memory
from mcp_core.errors import ConnectionEnded, McpError, WrongAsyncLibrary
from mcp_core.methods import ELICITATION_CREATE
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types import ElicitRequestFormParams, RequestedSchema
from mcp_core.types.skills import Skill
from mcp_server import (
    Context,
    Server,
    serve_http,
    serve_hypercorn,
    serve_stdio,
    serve_stream,
    stopped_by_signals,
)
from mcp_server.asgi import Message
from mcp_server.auth.authorization_server import SqliteStore as AuthorizationStore
from mcp_server.auth.authorization_server import StoredUsers
from mcp_server.features import request_as_task
from mcp_server.skills import Skills
from mcp_server.stores import MemoryTaskStore, SqliteStore, SqliteTaskStore

PACKAGES = ("mcp_core", "mcp_client", "mcp_server")
SECONDS = 30
"""Time after which a test that waits forever fails."""

_METHODS = frozenset({"__aenter__", "__aexit__", "__anext__", "__call__"})

Found: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]  # any parameters


@allow_asyncio
async def _decorated() -> None:
    """Do nothing."""


def _needs_loop(value: object) -> bool:
    """Return whether a function returns a coroutine or an asynchronous context manager."""
    if not inspect.isfunction(value):
        return False
    plain = inspect.unwrap(value)
    returned = str(getattr(plain, "__annotations__", {}).get("return"))
    opens = "AsyncContextManager" in returned or returned == "Connector"
    return opens or inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)


def _is_decorated(function: Found) -> bool:
    return getattr(function, "__code__", None) is getattr(_decorated, "__code__", "")


def _found() -> Iterator[tuple[str, Found]]:
    """Yield the functions of the public modules that need an event loop, and such methods of their classes, each once.

    The methods of a protocol belong to the application.
    """
    seen: set[object] = set()
    for module in sorted(name for package in PACKAGES for name in PUBLIC[package]):
        if module.startswith("mcp_client.blocking"):
            continue
        for name in getattr(importlib.import_module(module), "__all__", ()):
            value = getattr(importlib.import_module(module), name)
            members = {f"{module}.{name}": value}
            if inspect.isclass(value):
                public = [each for each in dir(value) if not each.startswith("_") or each in _METHODS]
                is_protocol = getattr(value, "_is_protocol", False)
                members = {} if is_protocol else {f"{module}.{name}.{each}": getattr(value, each) for each in public}
            for shown, function in members.items():
                if _needs_loop(function) and function not in seen:
                    seen.add(function)
                    yield shown, function


FOUND = dict(_found())


# --- calls of the functions that are not decorated with `allow_asyncio` ------------------------------------------------


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # For the locks of the keyring.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@attrs.frozen
class Example:
    """A server and its client, in a handler of the server."""

    client: Client
    context: Context
    server: Server
    folder: Path


async def _nothing() -> Message:
    return {}


async def _ignore(_: Message) -> None:
    pass


async def _enter(block: object) -> None:
    """Enter and leave an asynchronous context manager."""
    manager = cast("Connector", block)
    await manager.__aenter__()
    await manager.__aexit__(None, None, None)


_SKILL = Skill(uri="skill://none/SKILL.md", frontmatter={"name": "none"}, resources="dynamic")
_FORM = ElicitRequestFormParams(message="Who?", requested_schema=RequestedSchema(properties={}))


def _stream() -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    theirs.send_stream.close()
    return ours


def _skills(example: Example) -> Skills:
    folder = example.folder / "greeting"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: greeting\ndescription: Greets.\n---\n")
    skills = Skills(Server("shop", version="1.0"))
    skills.add(folder)
    return skills


CALLS: dict[str, Callable[[Example], Awaitable[object]]] = {
    "mcp_client.Client.listen": lambda example: _enter(example.client.listen(tools=True)),
    "mcp_client.Connector.run": lambda example: open_stream(_stream()).run(),
    "mcp_client.auth.Paste.receive": lambda example: _enter(Paste().receive()),
    "mcp_client.auth.SystemBrowser.receive": lambda example: _enter(SystemBrowser().receive()),
    "mcp_client.auth.MemoryStore.lock": lambda example: _enter(MemoryStore().lock("https://mcp.example")),
    "mcp_client.auth.stores.FileStore.lock": lambda example: _enter(
        FileStore(example.folder / "tokens", passphrase="secret").lock("https://mcp.example")
    ),
    "mcp_client.auth.stores.KeyringStore.lock": lambda example: _enter(KeyringStore().lock("https://mcp.example")),
    "mcp_client.group.open_group": lambda example: _enter(open_group({})),
    "mcp_client.open_http": lambda example: _enter(open_http("http://127.0.0.1:1/mcp")),
    "mcp_client.open_stdio": lambda example: _enter(open_stdio([sys.executable, "-c", ""])),
    "mcp_client.open_stream": lambda example: _enter(open_stream(_stream())),
    "mcp_client.testing.open_in_memory": lambda example: _enter(open_in_memory(partial(serve_stream, example.server))),
    "mcp_server.Context.debug": lambda example: example.context.debug("said"),
    "mcp_server.Context.error": lambda example: example.context.error("said"),
    "mcp_server.Context.info": lambda example: example.context.info("said"),
    "mcp_server.Context.once": lambda example: example.context.once("key", lambda: 1),
    "mcp_server.Context.warning": lambda example: example.context.warning("said"),
    "mcp_server.Server.running": lambda example: _enter(example.server.running()),
    "mcp_server.transports.HttpEndpoint.__call__": lambda example: example.server.asgi()(
        {"type": "http", "path": "/none"}, _nothing, _ignore
    ),
}
"""How to call each of them."""

DECORATED: dict[str, Callable[[Example], Awaitable[object]]] = {
    "FileStore": lambda example: FileStore(example.folder / "tokens", passphrase="secret").load_tokens(
        "https://mcp.example"
    ),
    "MemoryStore": lambda example: MemoryStore().load_tokens("https://mcp.example"),
    "SqliteStore": lambda example: SqliteStore(example.folder / "sessions").load("id"),
    "SqliteTaskStore": lambda example: SqliteTaskStore(example.folder / "tasks").load("id"),
    "MemoryTaskStore": lambda example: MemoryTaskStore().load("id"),
    "StoredUsers": lambda example: StoredUsers(AuthorizationStore(example.folder / "users")).verify("ada", "secret"),
    "Skills": lambda example: _skills(example).refresh(),
    "drain": lambda example: example.server.asgi().drain(0),
    "ask_client": lambda example: SystemBrowser().ask_client("https://auth.example", "none"),
    "get_skill": lambda example: get_skill(example.client, _SKILL.uri),
    "list_skills": lambda example: list_skills(example.client),
    "load_skill": lambda example: load_skill(example.client, _SKILL, origin="here", dynamic=True),
    "read_directory": lambda example: read_directory(example.client, "skill://none"),
    "read_app": lambda example: read_app(example.client, "ui://none"),
    "request_as_task": lambda example: request_as_task(example.context, ELICITATION_CREATE, _FORM),
    "LoadedSkill": lambda example: LoadedSkill(example.client, _SKILL, "here").read("other.md"),
    "list_tools": lambda example: example.client.list_tools(),
    "ping": lambda example: example.client.ping(),
    "progress": lambda example: example.context.progress(1),
}
"""Calls of some decorated functions."""


async def _use(folder: Path, use: Callable[[Example], Awaitable[None]]) -> None:
    """Call a function in a handler of a server, on the library that runs."""
    server = Server("shop", version="1.0")
    results: list[Exception | None] = []

    @server.tool
    async def handler(context: Context) -> None:
        try:
            await use(Example(client, context, server, folder))
            results.append(None)
        except Exception as error:  # noqa: BLE001  # raised below
            results.append(error)

    async with open_in_memory(partial(serve_stream, server)) as client:
        await client.call_tool("handler")
    (error,) = results
    if error is not None:
        raise error


def _run(library: str, function: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine function on a library."""

    async def limited() -> None:
        await asyncio.wait_for(function(), SECONDS)

    if library == "asyncio":
        asyncio.run(limited())
    else:
        trio.run(function)


def test_functions_that_need_event_loop_are_decorated_or_called_below() -> None:
    assert len(FOUND) > 150
    plain = {name for name, function in FOUND.items() if not _is_decorated(function)}
    assert plain == set(CALLS), "decorate the function with allow_asyncio, or add a call of it to CALLS"


@pytest.mark.parametrize("library", ["trio", "asyncio"])
@pytest.mark.parametrize("name", [*CALLS, *DECORATED])
def test_function_with_event_loop_works(tmp_path: Path, name: str, library: str) -> None:
    async def use(example: Example) -> None:
        try:
            await {**CALLS, **DECORATED}[name](example)
        except WrongAsyncLibrary:
            raise
        except McpError:
            pass  # the server offers nothing, but it was asked

    _run(library, partial(_use, tmp_path, use))


@pytest.mark.parametrize("name", CALLS)
def test_function_without_event_loop_raises_error(tmp_path: Path, name: str) -> None:
    async def use(example: Example) -> None:
        def in_thread() -> None:
            call = CALLS[name](example)
            assert inspect.iscoroutine(call)
            with pytest.raises(
                WrongAsyncLibrary, match=r"neither asyncio nor trio runs in this thread: .*(use|write|host)"
            ):
                call.send(None)

        await trio.to_thread.run_sync(in_thread)

    trio.run(_use, tmp_path, use)


@pytest.mark.parametrize("name", [name for name, function in FOUND.items() if _is_decorated(function)])
def test_decorated_function_without_event_loop_raises_error(name: str) -> None:
    # The arguments do not matter: the function is not called.
    call = FOUND[name]()
    assert inspect.iscoroutine(call)
    assert call.__qualname__ == getattr(FOUND[name], "__qualname__", None)
    with pytest.raises(WrongAsyncLibrary, match="neither asyncio nor trio runs in this thread") as caught:
        call.send(None)
    operator = {"__aenter__": "async with", "__aexit__": "async with", "__anext__": "async for"}
    last = name.rpartition(".")[2]
    assert operator.get(last, call.__qualname__) in caught.value.message


@pytest.mark.parametrize("serve", [serve_http, serve_hypercorn, serve_stdio])
def test_serve_function_without_event_loop_names_both_ways(
    serve: Callable[[Server], Coroutine[None, None, None]],
) -> None:
    with pytest.raises(WrongAsyncLibrary) as caught:
        serve(Server("shop", version="1.0")).send(None)
    name = serve.__name__
    assert f"asyncio.run({name}(server)) or trio.run({name}, server)" in caught.value.message


def test_connection_without_event_loop_names_blocking_client() -> None:
    with pytest.raises(WrongAsyncLibrary, match=r"mcp_client\.blocking"):
        open_http("http://127.0.0.1:1/mcp").__aenter__().send(None)


def test_names_for_asyncio_are_names_for_trio() -> None:
    # The wrong one of the two modules cannot be chosen.
    for name in mcp_client.asyncio.__all__:
        assert getattr(mcp_client.asyncio, name) is getattr(mcp_client, name)


# --- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["trio", "asyncio"])
def test_await_forgotten_warning_names_method(tmp_path: Path, library: str) -> None:
    async def use(example: Example) -> None:
        example.client.list_tools()  # type: ignore[unused-coroutine]  # the misuse
        gc.collect()

    with pytest.warns(RuntimeWarning, match=r"coroutine 'Client\.list_tools' was never awaited"):
        _run(library, partial(_use, tmp_path, use))


def test_await_forgotten_without_event_loop_warning_names_function() -> None:
    with pytest.warns(RuntimeWarning, match="coroutine 'serve_http' was never awaited"):
        serve_http(Server("shop", version="1.0"))  # type: ignore[unused-coroutine]  # the misuse


@pytest.mark.parametrize("library", ["trio", "asyncio"])
@pytest.mark.parametrize("open_block", [lambda: open_http("http://127.0.0.1:1/mcp"), lambda: open_group({})])
def test_with_instead_of_async_with_raises_error(library: str, open_block: Callable[[], object]) -> None:
    async def use() -> None:
        block = cast("memoryview", open_block())
        with (
            pytest.raises(TypeError, match=r"write 'async with' in a coroutine function, or use mcp_client\.blocking"),
            block,
        ):
            pass

    _run(library, use)


@pytest.mark.parametrize("library", ["trio", "asyncio"])
def test_async_with_of_blocking_client_raises_error(library: str) -> None:
    async def use() -> None:
        with pytest.raises(TypeError, match=r"write 'with', or use mcp_client\.asyncio"):
            async with cast("Connector", mcp_client.blocking.open_http("http://127.0.0.1:1/mcp")):
                pass

    _run(library, use)


def test_call_passed_to_trio_run_error_names_correct_call() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the coroutine is not awaited
        with pytest.raises(TypeError, match=r"trio\.run\(serve_http, \.\.\.\)"):
            trio.run(serve_http(Server("shop", version="1.0")))  # type: ignore[arg-type]  # the misuse
        gc.collect()


def test_function_passed_to_asyncio_run_error_names_function() -> None:
    with pytest.raises((TypeError, ValueError), match="serve_http"):
        asyncio.run(serve_http)  # type: ignore[arg-type]  # the misuse


def test_stopped_by_signals_on_asyncio_raises_error() -> None:
    async def main() -> None:
        with pytest.raises(WrongAsyncLibrary, match="add_signal_handler"), stopped_by_signals():
            pass

    asyncio.run(main())


SHOP = """
import trio
from mcp_server import Server, serve_stdio

server = Server("shop", version="1.0")
server.tool(lambda: "", name="nothing")
trio.run(serve_stdio, server)
"""


@pytest.fixture
def connector() -> Connector:
    return open_stdio([sys.executable, "-c", SHOP])


async def _ask(client: Client) -> None:
    await asyncio.wait_for(client.call_tool("nothing"), SECONDS)


def test_client_in_loop_of_other_thread_raises_error(connector: Connector) -> None:
    async def main() -> None:
        async with connector as client:

            def in_thread() -> None:
                with pytest.raises(WrongAsyncLibrary, match="opened in another event loop"):
                    asyncio.run(_ask(client))

            await asyncio.to_thread(in_thread)
            await _ask(client)

    asyncio.run(main())


def test_connection_left_in_loop_of_other_thread_raises_error(connector: Connector) -> None:
    async def leave() -> None:
        await connector.__aexit__(None, None, None)

    async def main() -> None:
        async with connector as client:

            def in_thread() -> None:
                with pytest.raises(WrongAsyncLibrary, match="entered in another event loop"):
                    asyncio.run(leave())

            await asyncio.to_thread(in_thread)
            await _ask(client)

    asyncio.run(main())


def test_client_in_second_loop_of_thread_raises_error(connector: Connector) -> None:
    with asyncio.Runner() as first:
        client = first.run(connector.__aenter__())
        with pytest.raises(WrongAsyncLibrary, match="opened in another event loop"):
            asyncio.run(_ask(client))
        first.run(_ask(client))


def test_client_after_its_loop_has_ended_raises_connection_ended(connector: Connector) -> None:
    client = asyncio.run(connector.__aenter__())
    with pytest.raises(ConnectionEnded):
        asyncio.run(_ask(client))
