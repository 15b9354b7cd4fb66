"""The connections of the walk over the method table. They stay open from test to test, in event loops in threads.

A connection is opened for the first test that uses it. Later tests prove that it continues to work.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.abc
import attrs
import trio
from http_hosts import served_by_uvicorn
from walk_server import DO, EXTENSIONS, make_server

from mcp_client import Client, ClientOptions, Handlers, open_http, open_stdio
from mcp_client.testing import Options, open_in_memory
from mcp_core import types as t
from mcp_core.engine.events import Outgoing, ReceiveResult
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonValue, Message, Notification, Request
from mcp_core.methods import NOTIFICATIONS, AnyNotificationMethod, AnyRequestMethod, Side
from mcp_core.revisions import Revision
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.guest import current_guest
from mcp_core.trio.host_loop import host_of_trio
from mcp_server import serve_http, serve_stream

__all__ = ["ConnectionPool", "ConnectionSpec", "Party"]

T = TypeVar("T")

_TIMEOUT_SECONDS: Final = 20
_PROGRAM: Final = str(Path(__file__).with_name("walk_server.py"))


@attrs.frozen
class ConnectionSpec:
    """The transport and the revision of a connection, and which sides declare their capabilities."""

    transport: str
    revision: Revision
    server: bool = True
    client: bool = True

    @property
    def over_http(self) -> bool:
        return self.transport not in {"memory", "stdio"}


@attrs.define(eq=False)
class Party:
    """A client, with a record of the messages that it received."""

    spec: ConnectionSpec
    handshake: list[str] = attrs.field(factory=list)
    """The messages that the server received during the handshake."""
    received: list[str] = attrs.field(factory=list)
    """The messages that this client received, and the events that the engine returned."""
    notes: list[str] = attrs.field(factory=list)
    """The deviations that the engine noted."""
    notifications: list[AnyNotificationMethod] = attrs.field(factory=list)
    """The notifications that the application received."""
    client_cancelled: anyio.Semaphore = attrs.field(factory=lambda: anyio.Semaphore(0))
    closed: anyio.Event = attrs.field(factory=anyio.Event)
    _client: Client | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    async def call(self, name: str, **arguments: JsonValue) -> JsonValue:
        """Call a function of the server by a method that needs no capability."""
        params = t.CallToolRequestParams(name=name, arguments=arguments)
        return _json(await self.client.request(DO, params))

    async def call_by_tool(self, name: str, **arguments: JsonValue) -> JsonValue:
        """Call a function of the server by a tool, which can send client requests in every revision."""
        return _json((await self.client.call_tool("do", {"name": name, "arguments": arguments})).result)

    async def server_received(self) -> list[str]:
        """Return the messages that the server received since the last call."""
        lines = await self.call("received")
        assert isinstance(lines, list)
        return [str(line) for line in lines]

    # --- messages that no application can send ---------------------------------------------------------------------

    @allow_asyncio
    async def request_unchecked(self, definition: AnyRequestMethod, wire_params: dict[str, JsonValue]) -> object:
        """Send a request that the engine does not check."""
        connection, revision = self.client._channel.connection, self.spec.revision

        def unchecked(definition: AnyRequestMethod, params: object, *, progress: bool = False) -> Outgoing:
            outbound = connection._outbound.begin(definition, revision, t.Result, progress=False, augmented=False)
            meta = {} if revision.session_log_level else {"_meta": connection._envelope(revision)}
            return Outgoing(Request(outbound.id, definition.name, {**wire_params, **meta}))

        connection.__dict__["request"] = unchecked
        try:
            return await self.client._channel.request(definition, None)
        finally:
            del connection.__dict__["request"]

    async def notify_unchecked(self, definition: AnyNotificationMethod, wire_params: dict[str, JsonValue]) -> None:
        """Send a notification that the engine does not check."""
        await self._send(Notification(definition.name, wire_params))

    @allow_asyncio
    async def _send(self, message: Message) -> None:
        await self.client._channel.transport.send(message)

    def record(self, client: Client) -> None:
        """Record the inbound messages from now on."""
        self._client = client
        connection = client._channel.connection
        receive = connection.receive

        def recorded(message: Message) -> ReceiveResult:
            reaction = receive(message)
            subject = message.method if isinstance(message, Request | Notification) else "answer"
            self.received.append(f"{subject} {type(reaction.event).__name__}")
            self.notes.extend(reaction.event.notes)
            return reaction

        connection.__dict__["receive"] = recorded

    # --- the application -------------------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """Return the handlers: all of them, or none."""
        recorders = {
            definition: partial(self.notifications.append, definition)
            for definition in NOTIFICATIONS
            if Side.SERVER in definition.sender
        }
        listeners = {definition: _without_argument(recorder) for definition, recorder in recorders.items()}
        if not self.spec.client:
            return Handlers(tasks=False, notifications=listeners)
        return Handlers(
            elicit=self._elicit,
            elicit_url=self._visit,
            sample=self._sample,
            sample_tools=True,
            roots=self._roots,
            accept_tasks=True,
            notifications=listeners,
        )

    async def _elicit(self, params: t.ElicitRequestFormParams) -> t.ElicitResult:
        if params.message == "slow":
            await self._until_cancelled()
        return t.ElicitResult(action="accept", content={"name": "Ada"})

    async def _visit(self, params: t.ElicitRequestURLParams) -> t.ElicitResult:
        return t.ElicitResult(action="accept" if params.url == "https://example.com/" else "decline")

    async def _sample(self, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        if params.system_prompt == "slow":
            await self._until_cancelled()
        model = "plain" if params.tools is None else params.tools[0].name
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text="hi"), model=model)

    async def _until_cancelled(self) -> None:
        try:
            await self.call("release_work")
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.client_cancelled.release()
            raise

    async def _roots(self) -> list[t.Root]:
        connection = self.client._channel.connection
        for id in connection.inbound_requests:
            # No function of the client does this. The server requests progress to show that it arrives.
            outgoing = connection.progress(id, 1)
            if outgoing is not None:
                await self._send(outgoing.message)
        return [t.Root(uri="file:///")]


def _without_argument(recorder: Callable[[], None]) -> Callable[[object], None]:
    return lambda _: recorder()


def _json(result: t.CallToolResult) -> JsonValue:
    (block,) = result.content
    assert isinstance(block, t.TextContent)
    assert not result.is_error, block.text
    value: JsonValue = json.loads(block.text)
    return value


# --- transports ------------------------------------------------------------------------------------------------------


def _open_in_memory(spec: ConnectionSpec, options: Options) -> AbstractAsyncContextManager[Client]:
    return open_in_memory(partial(serve_stream, make_server(declares=spec.server)), **options)


def _open_stdio(spec: ConnectionSpec, options: Options) -> AbstractAsyncContextManager[Client]:
    options.pop("name", None)
    return open_stdio([sys.executable, _PROGRAM, "full" if spec.server else "bare"], **options)  # type: ignore[misc]  # it has no name


async def _identify(_: HttpRequest) -> str:
    return "ada"


@asynccontextmanager
async def _open_http(spec: ConnectionSpec, options: Options) -> AsyncIterator[Client]:
    server = make_server(declares=spec.server)
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, server, "127.0.0.1:0", legacy_sse=True, authenticate=_identify, grace=0.1)
        (url,) = await nursery.start(serve)
        if spec.revision.http_sse:
            url = url.removesuffix("/mcp") + "/sse"
        options.pop("name", None)
        async with open_http(url, **options) as client:  # type: ignore[misc]  # it has no name
            yield client
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _open_in_asyncio(spec: ConnectionSpec, options: Options) -> AsyncIterator[Client]:
    """Serve under uvicorn, and connect in an asyncio task."""
    async with _served_by_uvicorn(spec) as url:
        options.pop("name", None)
        async with open_http(url, **options) as client:  # type: ignore[misc]  # it has no name
            yield client


@asynccontextmanager
async def _served_by_uvicorn(spec: ConnectionSpec) -> AsyncIterator[str]:
    app = make_server(declares=spec.server).asgi(legacy_sse=True, authenticate=_identify)
    async with served_by_uvicorn(app) as url:
        yield url + ("/sse" if spec.revision.http_sse else "/mcp")


@asynccontextmanager
async def _open_to_uvicorn(spec: ConnectionSpec, options: Options) -> AsyncIterator[Client]:
    """Serve under uvicorn on asyncio, and connect in a trio task."""
    loop = host_of_trio()
    assert loop is not None
    async with loop.enter_asyncio(partial(_served_by_uvicorn, spec)) as url:
        options.pop("name", None)
        async with open_http(url, **options) as client:  # type: ignore[misc]  # it has no name
            yield client


_OPENERS: Final[dict[str, Callable[[ConnectionSpec, Options], AbstractAsyncContextManager[Client]]]] = {
    "memory": _open_in_memory,
    "stdio": _open_stdio,
    "http": _open_http,
    "uvicorn": _open_to_uvicorn,
    "asyncio": _open_in_asyncio,
}


class ConnectionPool:
    """The open connections of the walk over one transport, with the thread of their event loop.

    Args:
        transport: The transport. With `uvicorn` and `asyncio`, trio is a guest of an asyncio loop; with `asyncio`, the client and
            the exercises run in asyncio tasks.
    """

    def __init__(self, transport: str) -> None:
        self._transport: Final = transport
        self._ready: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run)
        self._parties: Final[dict[ConnectionSpec, Party]] = {}
        self._failures: Final[list[Exception]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._group: anyio.abc.TaskGroup | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        for spec in tuple(self._parties):
            self.forget(spec)
        self._call(self._over.set)
        self._thread.join()
        assert self._failures == []

    def run(self, test: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous function in the loop and wait for it, at most 20 seconds."""

        async def bounded() -> T:
            with anyio.fail_after(_TIMEOUT_SECONDS):
                return await test()

        if self._loop is None:
            return trio.from_thread.run(bounded, trio_token=self._token)
        return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()

    async def party(self, spec: ConnectionSpec) -> Party:
        """Return the connection, and open it if necessary."""
        if spec not in self._parties:
            assert self._group is not None
            self._parties[spec] = await self._group.start(self._hold, spec)
        return self._parties[spec]

    def forget(self, spec: ConnectionSpec) -> None:
        """Close a connection after a failed test, so that the next test opens another."""
        party = self._parties.pop(spec, None)
        if party is not None:
            self._call(party.closed.set)

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop."""
        if self._loop is None:
            trio.from_thread.run_sync(function, trio_token=self._token)
        else:
            self._loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        if self._transport == "asyncio":
            asyncio.run(self._main())
        elif self._transport == "uvicorn":
            asyncio.run(self._main_as_guest())
        else:
            trio.run(self._main)

    async def _main_as_guest(self) -> None:
        await current_guest().run(self._main)

    async def _main(self) -> None:
        if trio.lowlevel.in_trio_task():
            self._token = trio.lowlevel.current_trio_token()
        else:
            self._loop = asyncio.get_running_loop()
        self._over = anyio.Event()
        async with anyio.create_task_group() as self._group:
            self._ready.set()
            await self._over.wait()

    async def _hold(self, spec: ConnectionSpec, *, task_status: anyio.abc.TaskStatus[Party]) -> None:
        party = Party(spec)
        options = Options(
            revisions=[spec.revision],
            handlers=party.handlers(),
            options=ClientOptions(extensions=EXTENSIONS),
            log_level="info",
        )
        started = False
        try:
            async with _OPENERS[spec.transport](spec, options) as client:
                party.record(client)
                party.handshake = await party.server_received()
                started = True
                task_status.started(party)
                await party.closed.wait()
        except Exception as failure:
            if not started:
                raise
            self._failures.append(failure)
