"""Where the walk takes place: connections that last from test to test, in an event loop of their own.

A connection is opened when a test first asks for it. That it goes on with the next test is a part of what is tested.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import attrs
import trio
from walk_server import DO, EXTENSIONS, make_server

from mcp_client import Client, Handlers, open_http, open_stdio
from mcp_client.testing import Options, open_in_memory
from mcp_core import types as t
from mcp_core.engine.events import Outgoing, Reaction
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonValue, Message, Notification, Request
from mcp_core.methods import NOTIFICATIONS, AnyMethod, AnyNotification, Role
from mcp_core.revisions import Revision
from mcp_server import serve_http, serve_stream

__all__ = ["Party", "Place", "World"]

T = TypeVar("T")

_PATIENCE: Final = 20
_PROGRAM: Final = str(Path(__file__).with_name("walk_server.py"))


@attrs.frozen
class Place:
    """Which connection: how, in which revision, and which of both sides declare what they have."""

    transport: str
    revision: Revision
    server: bool = True
    client: bool = True


@attrs.define(eq=False)
class Party:
    """A client, with all that its application is asked."""

    place: Place
    opening: list[str] = attrs.field(factory=list)
    """What the server had heard when the connection was open."""
    heard: list[str] = attrs.field(factory=list)
    """What came, and what the engine made of it."""
    notes: list[str] = attrs.field(factory=list)
    """What it had to say of that."""
    taken: list[AnyNotification] = attrs.field(factory=list)
    """The notifications that the application was given."""
    gave_up: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(0))
    over: trio.Event = attrs.field(factory=trio.Event)
    _client: Client | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    async def do(self, name: str, **arguments: JsonValue) -> JsonValue:
        """Has the server do something, whatever anybody has declared."""
        params = t.CallToolRequestParams(name=name, arguments=arguments)
        return _json(await self.client.request(DO, params))

    async def tool(self, name: str, **arguments: JsonValue) -> JsonValue:
        """The same, by a tool, which can ask in every revision."""
        return _json(await self.client.call_tool("do", {"name": name, "arguments": arguments}))

    async def server_heard(self) -> list[str]:
        """What the server heard since it was asked last."""
        lines = await self.do("heard")
        assert isinstance(lines, list)
        return [str(line) for line in lines]

    # --- what no application can do --------------------------------------------------------------------------------

    async def ask_unchecked(self, row: AnyMethod, wire: dict[str, JsonValue]) -> object:
        """Sends a request that nothing has checked."""
        connection, revision = self.client._link.connection, self.place.revision

        def unchecked(row: AnyMethod, params: object, *, progress: bool = False) -> Outgoing:
            asked = connection._outbound.ask(row, revision, t.Result, progress=False, augmented=False)
            meta = {} if revision.session_log_level else {"_meta": connection._envelope(revision)}
            return Outgoing(Request(asked.id, row.name, {**wire, **meta}))

        connection.__dict__["call"] = unchecked
        try:
            return (await self.client._link.request(row, None))[0]
        finally:
            del connection.__dict__["call"]

    async def tell_unchecked(self, row: AnyNotification, wire: dict[str, JsonValue]) -> None:
        """Sends a notification that nothing has checked."""
        await self.client._link.transport.send(Notification(row.name, wire))

    def watch(self, client: Client) -> None:
        """Takes down what comes from here on."""
        self._client = client
        connection = client._link.connection
        receive = connection.receive

        def watched(message: Message) -> Reaction:
            reaction = receive(message)
            said = message.method if isinstance(message, Request | Notification) else "answer"
            self.heard.append(f"{said} {type(reaction.event).__name__}")
            self.notes.extend(reaction.event.notes)
            return reaction

        connection.__dict__["receive"] = watched

    # --- the application -------------------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """What it offers: everything, or nothing."""
        takers = {row: partial(self.taken.append, row) for row in NOTIFICATIONS if Role.SERVER in row.sender}
        listeners = {row: _taker(take) for row, take in takers.items()}
        if not self.place.client:
            return Handlers(tasks=False, notifications=listeners)
        return Handlers(
            elicit=self._elicit,
            elicit_url=self._visit,
            sample=self._sample,
            sample_tools=True,
            roots=self._roots,
            answer_as_tasks=True,
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
            await self.do("open_gate")
            await trio.sleep_forever()
        except trio.Cancelled:
            self.gave_up.release()
            raise

    async def _roots(self) -> list[t.Root]:
        connection = self.client._link.connection
        for id in connection.owed:
            # No function of the client does this. It is told when the server wants to know how far we are.
            outgoing = connection.progress(id, 1)
            if outgoing is not None:
                await self.client._link.transport.send(outgoing.message)
        return [t.Root(uri="file:///")]


def _taker(take: Callable[[], None]) -> Callable[[object], None]:
    return lambda _: take()


def _json(result: t.CallToolResult) -> JsonValue:
    (block,) = result.content
    assert isinstance(block, t.TextContent)
    assert not result.is_error, block.text
    value: JsonValue = json.loads(block.text)
    return value


# --- the ways to a server --------------------------------------------------------------------------------------------


def _in_memory(place: Place, options: Options) -> AbstractAsyncContextManager[Client]:
    return open_in_memory(partial(serve_stream, make_server(declares=place.server)), **options)


def _by_stdio(place: Place, options: Options) -> AbstractAsyncContextManager[Client]:
    options.pop("name", None)
    return open_stdio([sys.executable, _PROGRAM, "full" if place.server else "bare"], **options)  # type: ignore[misc]  # it has no name


async def _everybody(_: HttpRequest) -> str:
    return "ada"


@asynccontextmanager
async def _over_http(place: Place, options: Options) -> AsyncIterator[Client]:
    server = make_server(declares=place.server)
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, server, "127.0.0.1:0", legacy_sse=True, identify=_everybody, grace=0.1)
        (url,) = await nursery.start(serve)
        if place.revision.http_sse:
            url = url.removesuffix("/mcp") + "/sse"
        options.pop("name", None)
        async with open_http(url, **options) as client:  # type: ignore[misc]  # it has no name
            yield client
        nursery.cancel_scope.cancel()


_WAYS: Final[dict[str, Callable[[Place, Options], AbstractAsyncContextManager[Client]]]] = {
    "memory": _in_memory,
    "stdio": _by_stdio,
    "http": _over_http,
}


class World:
    """An event loop in a thread, and the connections in it."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread: Final = threading.Thread(target=trio.run, args=(self._main,))
        self._parties: Final[dict[Place, Party]] = {}
        self._failures: Final[list[Exception]] = []
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        for place in tuple(self._parties):
            self.forget(place)
        trio.from_thread.run_sync(self._over.set, trio_token=self._token)
        self._thread.join()
        assert self._failures == []

    def run(self, test: Callable[[], Awaitable[T]]) -> T:
        """Runs something in the loop, and waits for it, but not for ever."""

        async def bounded() -> T:
            with trio.fail_after(_PATIENCE):
                return await test()

        return trio.from_thread.run(bounded, trio_token=self._token)

    async def party(self, place: Place) -> Party:
        """The connection, which is opened if it is not there."""
        if place not in self._parties:
            assert self._nursery is not None
            self._parties[place] = await self._nursery.start(self._hold, place)
        return self._parties[place]

    def forget(self, place: Place) -> None:
        """A test failed: the next one begins with another connection."""
        party = self._parties.pop(place, None)
        if party is not None:
            trio.from_thread.run_sync(party.over.set, trio_token=self._token)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._over = trio.Event()
        async with trio.open_nursery() as self._nursery:
            self._ready.set()
            await self._over.wait()

    async def _hold(self, place: Place, task_status: trio.TaskStatus[Party]) -> None:
        party = Party(place)
        options = Options(
            revisions=[place.revision], handlers=party.handlers(), extensions=EXTENSIONS, log_level="info"
        )
        started = False
        try:
            async with _WAYS[place.transport](place, options) as client:
                party.watch(client)
                party.opening = await party.server_heard()
                started = True
                task_status.started(party)
                await party.over.wait()
        except Exception as failure:
            if not started:
                raise
            self._failures.append(failure)
