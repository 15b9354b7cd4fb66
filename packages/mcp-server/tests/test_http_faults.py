"""Connections that break at every byte, in either direction, and a server that is killed: who comes next is served."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from asgi_host import as_object
from http_gate import text_of
from http_wires import (
    UNCUT,
    Body,
    Connect,
    Cut,
    Scissors,
    Wire,
    call,
    connector,
    http,
    initialize,
    legacy,
    modern,
    note,
)
from http_wires import request as asking

from mcp_core.errors import ConnectionEnded
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_11_25, Revision
from mcp_server import Context, Server
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.transports.http.endpoint import HttpEndpoint

Clock = trio.testing.MockClock

PATIENCE = 10_000_000
"""Seconds of the mock clock. What stands still fails."""

SOON = 10.0
"""Seconds, after which a server has noticed that a client left at the latest."""

MOMENT = 0.02

IDLE = 2_000.0
"""Seconds, after which nobody waits any more for an answer of a client that is gone."""


class Tools:
    """A server that counts the handlers that run."""

    def __init__(self) -> None:
        self.running = 0
        self.server = server = Server("faults", version="0")

        @contextmanager
        def counted() -> Iterator[None]:
            self.running += 1
            try:
                yield
            finally:
                self.running -= 1

        @server.tool
        async def echo(text: str) -> str:
            with counted():
                return text

        @server.tool
        async def steps(context: Context) -> str:
            with counted():
                await context.progress(1)
                await context.progress(2)
                return "done"

        @server.tool
        async def look(context: Context) -> str:
            with counted():
                try:
                    return str(len(await context.list_roots()))
                except ConnectionEnded:
                    return "nobody is there"

        @server.resource("memo://{name}")
        async def memo(name: str) -> str:
            return name


class World:
    """A server, a client whose connection breaks, and others."""

    def __init__(self, tools: Tools, endpoint: HttpEndpoint, host: HttpHost, connect: Connect) -> None:
        self.tools = tools
        self.endpoint = endpoint
        self.host = host
        self.scissors = UNCUT
        self.revision: Revision = R2025_11_25
        self.session = ""
        self.lost_sessions = 0
        self.wire: Wire
        self._connect = connect
        self._sides: list[Wire] = []
        self._control: Wire | None = None

    async def begin(self, scissors: Scissors) -> None:
        """Connects the client, to break off where it is told."""
        self.session = ""
        self.wire = Wire(await self._connect(), scissors)

    async def side(self) -> Wire:
        """Another connection, which does not break."""
        wire = Wire(await self._connect())
        self._sides.append(wire)
        return wire

    async def ask(self, data: bytes, status: int = 200) -> bytes:
        """One exchange by another connection, which is kept."""
        if self._control is None:
            self._control = Wire(await self._connect())
        answer = await self._control.ask(data)
        assert answer.status == status, answer.body
        return answer.body

    def legacy(self, body: Body = b"", method: str = "POST", **more: str) -> bytes:
        return legacy(self.session, self.revision, body, method, **more)

    async def open(self, revision: Revision) -> None:
        """Opens a session."""
        self.revision = revision
        wire = await self.side()
        self.session = (await wire.ask(http(body=initialize(revision)))).headers["mcp-session-id"]
        await wire.aclose()
        await self.ask(self.legacy(note("notifications/initialized")), 202)

    async def get(self, last_event_id: str | None) -> Wire:
        """Opens a stream of the session by another connection."""
        wire = await self.side()
        await wire.send(
            self.legacy(method="GET", **({} if last_event_id is None else {"last_event_id": last_event_id}))
        )
        return wire

    async def is_served(self) -> None:
        """Somebody else gets the right answer."""
        answer = json.loads(await self.ask(modern(call("echo", id="other", text="here"))))
        assert answer["id"] == "other"
        assert text_of(answer) == "here"

    async def end(self) -> None:
        """All leave but the one who is kept: of the others nothing may remain."""
        for wire in (self.wire, *self._sides):
            await wire.aclose()
        self._sides.clear()
        with trio.move_on_after(SOON):
            while self.left != (0, 0, 1, self.lost_sessions):  # noqa: ASYNC110  # nothing tells when that is
                await trio.sleep(MOMENT)
        assert self.left == (0, 0, 1, self.lost_sessions)

    async def leave(self) -> None:
        """Even the one who is kept leaves."""
        for wire in (self._control, *self._sides, getattr(self, "wire", None)):
            if wire is not None:
                await wire.aclose()

    @property
    def left(self) -> tuple[int, int, int, int]:
        """Handlers, requests, connections and sessions."""
        return self.tools.running, self.endpoint.running, self.host.connections, self.endpoint.sessions


@asynccontextmanager
async def world_of(tools: Tools, *, sockets: bool = False) -> AsyncIterator[World]:
    endpoint = tools.server.asgi(legacy_sse=True)
    with trio.fail_after(30 if sockets else PATIENCE):
        async with trio.open_nursery() as nursery:
            host = HttpHost(endpoint, timeouts=HostTimeouts(idle=math.inf))
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1") if sockets else []
            await nursery.start(host.run, listeners)

            async def connect() -> trio.abc.HalfCloseableStream:
                return await trio.testing.open_stream_to_socket_listener(listeners[0])

            world = World(tools, endpoint, host, connect if sockets else connector(host, nursery))
            try:
                yield world
            finally:
                await world.leave()
                nursery.cancel_scope.cancel()


# --- what is said ----------------------------------------------------------------------------------------------------


class Talk:
    """What a client says and hears, on a connection that may break, and what has to hold then."""

    async def prepare(self, world: World) -> None:
        """Before."""

    async def talk(self, world: World) -> None:
        """What is said."""
        raise AssertionError(world)

    async def afterwards(self, world: World) -> None:
        """When the connection is gone."""


class ModernJson(Talk):
    async def talk(self, world: World) -> None:
        assert text_of((await world.wire.ask(modern(call("echo", text="a")))).json()) == "a"


class ModernStream(Talk):
    async def talk(self, world: World) -> None:
        *told, answer = (await world.wire.ask(modern(call("steps", token=7)))).messages()
        assert [as_object(each["params"])["progress"] for each in told] == [1, 2]
        assert text_of(answer) == "done"


class Listen(Talk):
    async def talk(self, world: World) -> None:
        wire = world.wire
        await wire.send(
            modern(asking("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["memo://x"]}}))
        )
        assert (await wire.message(1))["method"] == "notifications/subscriptions/acknowledged"
        world.tools.server.resource_updated("memo://x")
        assert (await wire.message(2))["method"] == "notifications/resources/updated"


class WholeSession(Talk):
    """One connection, kept from the first to the last request."""

    async def talk(self, world: World) -> None:
        wire = world.wire
        opened = await wire.ask(http(body=initialize(R2025_11_25)), "open")
        session = opened.headers["mcp-session-id"]
        assert (await wire.ask(legacy(session, R2025_11_25, note("notifications/initialized")))).status == 202
        assert text_of((await wire.ask(legacy(session, R2025_11_25, call("echo", text="a")))).json()) == "a"
        assert (await wire.ask(legacy(session, R2025_11_25, b"", "DELETE"), "delete")).status == 200

    async def afterwards(self, world: World) -> None:
        # Who did not hear of its session cannot end it.
        world.lost_sessions += ("open" in world.wire.whole) - ("delete" in world.wire.whole)


class InSession(Talk):
    revision: Revision = R2025_11_25

    async def prepare(self, world: World) -> None:
        await world.open(self.revision)

    async def afterwards(self, world: World) -> None:
        await world.ask(world.legacy(method="DELETE"))


class Stream(InSession):
    """An answer with notifications. Who knows an id of it fetches what it lost, no more and no less."""

    async def talk(self, world: World) -> None:
        check_steps((await world.wire.ask(world.legacy(call("steps", token=7)))).messages())

    async def afterwards(self, world: World) -> None:
        await fetch_rest(world, check_steps)
        await super().afterwards(world)


def check_steps(messages: list[JsonObject]) -> None:
    *told, answer = messages
    assert [as_object(each["params"])["progress"] for each in told] == [1, 2]
    assert text_of(answer) == "done"


async def fetch_rest(world: World, check: Callable[[list[JsonObject]], None]) -> None:
    """Fetches what the broken connection lost of its stream, where one was begun that is not over."""
    seen = world.wire.reader
    if seen.last_event_id is None or seen.complete:
        return
    wire = await world.get(seen.last_event_id)
    rest = await wire.answer()
    if rest.status == 405:
        # All of it had come, but for the end.
        check(seen.messages())
    else:
        check(seen.messages() + rest.messages())
    await wire.aclose()


class Question(InSession):
    """A call that asks its client, who may come back to hear the question."""

    async def talk(self, world: World) -> None:
        await world.wire.send(world.legacy(call("look")), "call")
        await answer(world, await world.wire.message(1))
        assert text_of(await world.wire.message(2)) == "1"
        await world.wire.answer()

    async def afterwards(self, world: World) -> None:
        seen = world.wire.reader
        if seen.complete or "call" not in world.wire.whole:
            pass
        elif seen.last_event_id is None:
            # Nobody will ever answer.
            await trio.sleep(IDLE)
        elif len(seen.messages()) < 2:
            wire = await world.get(seen.last_event_id)
            if not seen.messages():
                await answer(world, await wire.message(1))
            elif world.tools.running:
                await answer(world, seen.messages()[0])
            *asked, last = seen.messages() + (await wire.answer()).messages()
            assert [each["method"] for each in asked] == ["roots/list"]
            assert text_of(last) == "1"
        await super().afterwards(world)


async def answer(world: World, question: JsonObject) -> None:
    assert question["method"] == "roots/list"
    await world.ask(world.legacy(roots(question["id"])), 202)


def roots(id: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": "file:///a"}]}}


class AnswerToQuestion(InSession):
    """The answer to what the server asks, by the connection that may break: it counts when all of it was sent."""

    calling: Wire
    question: JsonObject

    async def prepare(self, world: World) -> None:
        await super().prepare(world)
        self.calling = await world.side()
        await self.calling.send(world.legacy(call("look")))
        self.question = await self.calling.message(1)

    async def talk(self, world: World) -> None:
        assert (await world.wire.ask(world.legacy(roots(self.question["id"])), "answer")).status == 202

    async def afterwards(self, world: World) -> None:
        if "answer" not in world.wire.whole:
            assert world.tools.running == 1
            await answer(world, self.question)
        assert text_of(await self.calling.message(2)) == "1"
        await self.calling.answer()
        await super().afterwards(world)


class Standing(InSession):
    """The standalone stream: a notice that went down with a connection is had again by its id."""

    told: list[str]

    async def prepare(self, world: World) -> None:
        await super().prepare(world)
        self.told = []
        for uri in ("memo://x", "memo://y"):
            await world.ask(world.legacy(asking("resources/subscribe", {"uri": uri})))

    async def talk(self, world: World) -> None:
        await world.wire.send(world.legacy(method="GET"))
        await world.wire.until(lambda: bool(world.wire.reader.events))
        self.tell(world, "memo://x")
        assert updated(await world.wire.message(1)) == "memo://x"
        await world.wire.cut()

    async def afterwards(self, world: World) -> None:
        seen = world.wire.reader
        wire = await world.get(seen.last_event_id)
        await wire.until(lambda: bool(wire.reader.status))
        self.tell(world, "memo://y")
        told: list[str] = []
        while "memo://y" not in told:
            told.append(updated(await wire.message(len(told) + 1)))
        if seen.last_event_id is not None:
            assert [updated(each) for each in seen.messages()] + told == self.told
        await super().afterwards(world)

    def tell(self, world: World, uri: str) -> None:
        world.tools.server.resource_updated(uri)
        self.told.append(uri)


def updated(message: JsonObject) -> str:
    assert message["method"] == "notifications/resources/updated"
    return str(as_object(message["params"])["uri"])


class Resume(InSession):
    """The rest of a stream, by a connection that breaks as well."""

    first: str
    before: list[JsonObject]

    async def prepare(self, world: World) -> None:
        await super().prepare(world)
        # A client that reads only the beginning.
        broken = Wire((await world.side()).stream)
        await broken.send(world.legacy(call("steps", token=7)))
        await broken.message(1)
        await broken.aclose()
        self.first = str(broken.reader.last_event_id)
        self.before = broken.reader.messages()

    async def talk(self, world: World) -> None:
        rest = await world.wire.ask(world.legacy(method="GET", last_event_id=self.first))
        check_steps(self.before + rest.messages())

    async def afterwards(self, world: World) -> None:
        seen = world.wire.reader
        if not seen.complete:
            wire = await world.get(seen.last_event_id or self.first)
            rest = await wire.answer()
            check_steps(self.before + seen.messages() + (rest.messages() if rest.status == 200 else []))
        await super().afterwards(world)


class Delete(InSession):
    async def talk(self, world: World) -> None:
        assert (await world.wire.ask(world.legacy(method="DELETE"), "delete")).status == 200

    async def afterwards(self, world: World) -> None:
        await world.ask(world.legacy(method="DELETE"), 404 if "delete" in world.wire.whole else 200)


class BatchStream(InSession):
    """Requests in one array, answered by a stream."""

    revision = R2025_03_26

    async def talk(self, world: World) -> None:
        members = [call("steps", token=7), call("echo", id=2, text="a"), asking("ping", id=3)]
        check_batch((await world.wire.ask(world.legacy(members))).messages())

    async def afterwards(self, world: World) -> None:
        await fetch_rest(world, check_batch)
        await super().afterwards(world)


def check_batch(messages: list[JsonObject]) -> None:
    answers = {each["id"]: each for each in messages if "id" in each}
    assert len(messages) == 5
    assert (text_of(answers[1]), text_of(answers[2]), answers[3]["result"]) == ("done", "a", {})


class BatchJson(InSession):
    revision = R2025_03_26

    async def talk(self, world: World) -> None:
        answer = await world.wire.ask(world.legacy([call("echo", id=2, text="a"), asking("ping", id=3)]))
        assert {each["id"] for each in json.loads(answer.body)} == {2, 3}


class OldStream(Talk):
    """The stream of 2024-11-05, which is the session."""

    async def talk(self, world: World) -> None:
        await world.wire.send(http("GET", "/sse"))
        await world.wire.until(lambda: bool(world.wire.reader.events))
        target = world.wire.reader.events[0].data.decode()
        for count, message in enumerate((initialize(R2024_11_05), call("steps", token=7))):
            await world.ask(http("POST", target, message), 202)
            await old_message(world.wire, 1 + 3 * count)
        await world.wire.cut()

    async def afterwards(self, world: World) -> None:
        events = world.wire.reader.events
        if events:
            while world.endpoint.sessions:  # noqa: ASYNC110  # likewise
                await trio.sleep(MOMENT)
            await world.ask(http("POST", events[0].data.decode(), asking("ping")), 404)


class OldPost(Talk):
    """A POST of 2024-11-05: its message counts when all of it was sent, and then once."""

    stream: Wire
    target: str

    async def prepare(self, world: World) -> None:
        self.stream = await world.side()
        await self.stream.send(http("GET", "/sse"))
        await self.stream.until(lambda: bool(self.stream.reader.events))
        self.target = self.stream.reader.events[0].data.decode()
        await world.ask(http("POST", self.target, initialize(R2024_11_05)), 202)
        await old_message(self.stream, 1)

    async def talk(self, world: World) -> None:
        assert (await world.wire.ask(http("POST", self.target, call("echo", text="a")), "call")).status == 202

    async def afterwards(self, world: World) -> None:
        await world.ask(http("POST", self.target, asking("ping", id="last")), 202)
        expected = [1, "last"] if "call" in world.wire.whole else ["last"]
        last = await old_message(self.stream, 1 + len(expected))
        assert sorted(map(str, [each["id"] for each in old_messages(self.stream)[1:]])) == [str(id) for id in expected]
        assert "result" in last


def old_messages(wire: Wire) -> list[JsonObject]:
    return [as_object(json.loads(event.data)) for event in wire.reader.events[1:]]


async def old_message(wire: Wire, number: int) -> JsonObject:
    await wire.until(lambda: len(old_messages(wire)) >= number)
    return old_messages(wire)[number - 1]


TALKS: tuple[type[Talk], ...] = (
    ModernJson,
    ModernStream,
    Listen,
    WholeSession,
    Stream,
    Question,
    AnswerToQuestion,
    Standing,
    Resume,
    Delete,
    BatchStream,
    BatchJson,
    OldStream,
    OldPost,
)


# --- every byte ------------------------------------------------------------------------------------------------------


async def play(world: World, talk: Talk, scissors: Scissors) -> Wire:
    """One talk that is broken off, and all that has to hold after it."""
    await world.begin(scissors)
    await talk.prepare(world)
    broken = False
    try:
        await talk.talk(world)
    except Cut:
        broken = True
    # What is read may be framed in fewer chunks than before.
    assert broken or scissors.sends is None
    await world.wire.aclose()
    await world.is_served()
    await talk.afterwards(world)
    await world.end()
    return world.wire


@pytest.mark.spec("sse.disconnect-any-time", "sse.get-close-any-time", "http.multiple-clients")
@pytest.mark.parametrize("how", ["leaves", "falls silent", "stops reading"])
@pytest.mark.parametrize("kind", TALKS)
async def test_a_client_may_leave_at_any_byte(
    kind: type[Talk], how: str, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with world_of(Tools()) as world:
        talk = kind()
        whole = await play(world, talk, UNCUT)
        # What the client sees first is the end of its connection, not that of the task.
        await trio.testing.wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        count = whole.read if how == "stops reading" else whole.sent
        # Falling silent is the same to the server as leaving, but for who is there to be answered.
        for at in range(0, count + 1, 3 if how == "falls silent" else 1):
            match how:
                case "leaves":
                    scissors = Scissors(sends=at)
                case "falls silent":
                    scissors = Scissors(sends=at, half=True)
                case _:
                    scissors = Scissors(reads=at)
            await play(world, talk, scissors)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert not [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("how", ["leaves", "stops reading"])
@pytest.mark.parametrize("kind", [kind for kind in TALKS if kind is not Question])
async def test_sockets_may_break_as_well(kind: type[Talk], how: str, caplog: pytest.LogCaptureFixture) -> None:
    async with world_of(Tools(), sockets=True) as world:
        talk = kind()
        whole = await play(world, talk, UNCUT)
        tasks, descriptors = trio.lowlevel.current_statistics().tasks_living, open_descriptors()
        count = whole.sent if how == "leaves" else whole.read
        for at in range(0, count, max(1, count // 12)):
            await play(world, talk, Scissors(sends=at) if how == "leaves" else Scissors(reads=at))
        assert (trio.lowlevel.current_statistics().tasks_living, open_descriptors()) == (tasks, descriptors)
    assert not [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


# --- a server that is killed -----------------------------------------------------------------------------------------

SOURCE = """
import trio
from mcp_server import Context, Server

server = Server("killed", version="1")

@server.tool
async def count(context: Context) -> str:
    for step in range(1, 500):
        await context.progress(step)
    await trio.sleep_forever()

@server.tool
async def echo(text: str) -> str:
    return text
"""


@contextmanager
def process(folder: Path, bind: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server in a process of its own, and where it listens."""
    command = [sys.executable, "-m", "mcp_server", "run", "killed", "--http", bind, "--store", "kept.sqlite"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as started:
        try:
            assert started.stderr is not None
            said = started.stderr.readline()
            found = re.fullmatch(r"killed is served at http://(127\.0\.0\.1:\d+)/mcp\n", said)
            assert found, said
            yield started, found[1]
        finally:
            started.kill()


@attrs.define
class Broken:
    """A call of which the client heard some, before the server was killed."""

    id: int
    told: list[JsonObject]
    last_event_id: str | None


class Returning:
    """A client with one session, which outlives the server."""

    def __init__(self) -> None:
        self.session = ""
        self.wire: Wire

    def request(self, body: Body = b"", method: str = "POST", **more: str) -> bytes:
        return legacy(self.session, R2025_11_25, body, method, **more)

    async def connect(self, address: str) -> None:
        host, _, port = address.partition(":")
        self.wire = Wire(await trio.open_tcp_stream(host, int(port)))
        if not self.session:
            self.session = (await self.wire.ask(http(body=initialize(R2025_11_25)))).headers["mcp-session-id"]
            assert (await self.wire.ask(self.request(note("notifications/initialized")))).status == 202
        assert text_of((await self.wire.ask(self.request(call("echo", text="a")))).json()) == "a"

    async def begin(self, id: int, events: int) -> None:
        """Calls a tool, and reads some events of its answer."""
        await self.wire.send(self.request(call("count", id=id, token=id)))
        await self.wire.until(lambda: len(self.wire.reader.events) > events)

    async def fetch(self, broken: Broken) -> None:
        """Fetches what is missing: nothing is lost, nothing comes twice, and the request is answered."""
        rest = await self.wire.ask(self.request(method="GET", last_event_id=str(broken.last_event_id)))
        *told, answer = broken.told + rest.messages()
        steps = [as_object(each["params"])["progress"] for each in told]
        assert steps == list(range(1, len(steps) + 1))
        assert answer["id"] == broken.id
        assert "restarted" in str(as_object(answer["error"])["message"])
        over = await self.wire.ask(self.request(method="GET", last_event_id=str(rest.last_event_id)))
        assert over.status == 405


@pytest.mark.spec("resume.replay", "resume.no-cross-stream", "resume.always-get", "session.assign")
async def test_a_server_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(SOURCE)
    address = "127.0.0.1:0"
    client = Returning()
    broken: Broken | None = None
    with trio.fail_after(60):
        for id, events in enumerate((0, 1, 4, 17), start=1):
            with process(tmp_path, address) as (running, address):
                await client.connect(address)
                async with client.wire.stream:
                    if broken is not None:
                        await client.fetch(broken)
                    await client.begin(id, events)
                    running.send_signal(signal.SIGKILL)
                    assert running.wait() == -signal.SIGKILL
                reader = client.wire.reader
                broken = Broken(id, reader.messages(), reader.last_event_id)
        assert broken is not None
        with process(tmp_path, address):
            await client.connect(address)
            async with client.wire.stream:
                await client.fetch(broken)
