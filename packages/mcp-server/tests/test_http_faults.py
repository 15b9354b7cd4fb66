"""Connections that break at each byte, in either direction, and a server that is killed: the next client is served."""

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
from controlled_server import text_of
from raw_connection import (
    UNCUT,
    Body,
    Connect,
    ConnectionCut,
    CutPoint,
    RawConnection,
    call,
    connector,
    http,
    initialize,
    legacy,
    modern,
    notification,
)
from raw_connection import request as rpc_request

from mcp_core.errors import ConnectionEnded
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_11_25, Revision
from mcp_server import Context, Server
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.transports.http.endpoint import HttpEndpoint

Clock = trio.testing.MockClock

TIMEOUT = 10_000_000
"""Seconds of the mock clock for one test."""

DISCONNECT_DELAY = 10.0
"""The time limit for the server to detect a disconnect, in seconds."""

POLL_INTERVAL = 0.02

CLIENT_REQUEST_TIMEOUT = 2_000.0
"""The time after which the server abandons client requests of a disconnected client, in seconds."""


class Tools:
    """A server that counts its running handlers."""

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
                    return "disconnected"

        @server.resource("memo://{name}")
        async def memo(name: str) -> str:
            return name


class FaultTestbed:
    """A server, a client whose connection breaks, and other connections."""

    def __init__(self, tools: Tools, endpoint: HttpEndpoint, host: HttpHost, connect: Connect) -> None:
        self.tools = tools
        self.endpoint = endpoint
        self.host = host
        self.cut_point = UNCUT
        self.revision: Revision = R2025_11_25
        self.session = ""
        self.lost_sessions = 0
        self.connection: RawConnection
        self._connect = connect
        self._others: list[RawConnection] = []
        self._kept: RawConnection | None = None

    async def begin(self, cut_point: CutPoint) -> None:
        """Connect the client, to be cut at the point."""
        self.session = ""
        self.connection = RawConnection(await self._connect(), cut_point)

    async def connect_other(self) -> RawConnection:
        """Open another connection, which does not break."""
        connection = RawConnection(await self._connect())
        self._others.append(connection)
        return connection

    async def exchange(self, data: bytes, status: int = 200) -> bytes:
        """Exchange a request and its response on a connection that stays open."""
        if self._kept is None:
            self._kept = RawConnection(await self._connect())
        answer = await self._kept.exchange(data)
        assert answer.status == status, answer.body
        return answer.body

    def legacy(self, body: Body = b"", method: str = "POST", **more: str) -> bytes:
        return legacy(self.session, self.revision, body, method, **more)

    async def open(self, revision: Revision) -> None:
        """Open a session."""
        self.revision = revision
        connection = await self.connect_other()
        self.session = (await connection.exchange(http(body=initialize(revision)))).headers["mcp-session-id"]
        await connection.aclose()
        await self.exchange(self.legacy(notification("notifications/initialized")), 202)

    async def get(self, last_event_id: str | None) -> RawConnection:
        """Open a stream of the session on another connection."""
        connection = await self.connect_other()
        await connection.send(
            self.legacy(method="GET", **({} if last_event_id is None else {"last_event_id": last_event_id}))
        )
        return connection

    async def check_served(self) -> None:
        """Check that another client receives its response."""
        answer = json.loads(await self.exchange(modern(call("echo", id="other", text="here"))))
        assert answer["id"] == "other"
        assert text_of(answer) == "here"

    async def end(self) -> None:
        """Close all connections except the kept one, and check that no state of them remains."""
        for connection in (self.connection, *self._others):
            await connection.aclose()
        self._others.clear()
        with trio.move_on_after(DISCONNECT_DELAY):
            while self.remaining != (0, 0, 1, self.lost_sessions):  # noqa: ASYNC110  # there is no event for this
                await trio.sleep(POLL_INTERVAL)
        assert self.remaining == (0, 0, 1, self.lost_sessions)

    async def leave(self) -> None:
        """Close all connections."""
        for connection in (self._kept, *self._others, getattr(self, "wire", None)):
            if connection is not None:
                await connection.aclose()

    @property
    def remaining(self) -> tuple[int, int, int, int]:
        """The numbers of handlers, requests, connections and sessions."""
        return self.tools.running, self.endpoint.running, self.host.connections, self.endpoint.sessions


@asynccontextmanager
async def open_testbed(tools: Tools, *, sockets: bool = False) -> AsyncIterator[FaultTestbed]:
    endpoint = tools.server.asgi(legacy_sse=True)
    with trio.fail_after(30 if sockets else TIMEOUT):
        async with trio.open_nursery() as nursery:
            host = HttpHost(endpoint, timeouts=HostTimeouts(idle=math.inf))
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1") if sockets else []
            await nursery.start(host.run, listeners)

            async def connect() -> trio.abc.HalfCloseableStream:
                return await trio.testing.open_stream_to_socket_listener(listeners[0])

            testbed = FaultTestbed(tools, endpoint, host, connect if sockets else connector(host, nursery))
            try:
                yield testbed
            finally:
                await testbed.leave()
                nursery.cancel_scope.cancel()


# --- conversations ----------------------------------------------------------------------------------------------------


class Conversation:
    """The messages of a client on a connection that may break, and the checks after it."""

    async def prepare(self, testbed: FaultTestbed) -> None:
        """Prepare the server before the connection opens."""

    async def run(self, testbed: FaultTestbed) -> None:
        """Send and receive the messages."""
        raise AssertionError(testbed)

    async def check_after(self, testbed: FaultTestbed) -> None:
        """Check the state after the connection has ended."""


class ModernJson(Conversation):
    async def run(self, testbed: FaultTestbed) -> None:
        assert text_of((await testbed.connection.exchange(modern(call("echo", text="a")))).json()) == "a"


class ModernStream(Conversation):
    async def run(self, testbed: FaultTestbed) -> None:
        *reported, answer = (await testbed.connection.exchange(modern(call("steps", token=7)))).messages()
        assert [as_object(each["params"])["progress"] for each in reported] == [1, 2]
        assert text_of(answer) == "done"


class Listen(Conversation):
    async def run(self, testbed: FaultTestbed) -> None:
        connection = testbed.connection
        await connection.send(
            modern(rpc_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["memo://x"]}}))
        )
        assert (await connection.message(1))["method"] == "notifications/subscriptions/acknowledged"
        testbed.tools.server.resource_updated("memo://x")
        assert (await connection.message(2))["method"] == "notifications/resources/updated"


class WholeSession(Conversation):
    """A session on one connection, from the first to the last request."""

    async def run(self, testbed: FaultTestbed) -> None:
        connection = testbed.connection
        opened = await connection.exchange(http(body=initialize(R2025_11_25)), "open")
        session = opened.headers["mcp-session-id"]
        assert (
            await connection.exchange(legacy(session, R2025_11_25, notification("notifications/initialized")))
        ).status == 202
        assert text_of((await connection.exchange(legacy(session, R2025_11_25, call("echo", text="a")))).json()) == "a"
        assert (await connection.exchange(legacy(session, R2025_11_25, b"", "DELETE"), "delete")).status == 200

    async def check_after(self, testbed: FaultTestbed) -> None:
        # A client without the session id cannot delete the session.
        testbed.lost_sessions += ("open" in testbed.connection.sent_completely) - (
            "delete" in testbed.connection.sent_completely
        )


class SessionConversation(Conversation):
    revision: Revision = R2025_11_25

    async def prepare(self, testbed: FaultTestbed) -> None:
        await testbed.open(self.revision)

    async def check_after(self, testbed: FaultTestbed) -> None:
        await testbed.exchange(testbed.legacy(method="DELETE"))


class Stream(SessionConversation):
    """A response with notifications. A client that knows an event id can resume it without loss or repetition."""

    async def run(self, testbed: FaultTestbed) -> None:
        check_steps((await testbed.connection.exchange(testbed.legacy(call("steps", token=7)))).messages())

    async def check_after(self, testbed: FaultTestbed) -> None:
        await fetch_rest(testbed, check_steps)
        await super().check_after(testbed)


def check_steps(messages: list[JsonObject]) -> None:
    *reported, answer = messages
    assert [as_object(each["params"])["progress"] for each in reported] == [1, 2]
    assert text_of(answer) == "done"


async def fetch_rest(testbed: FaultTestbed, check: Callable[[list[JsonObject]], None]) -> None:
    """Resume the stream of the broken connection, if it began and has not ended."""
    received = testbed.connection.reader
    if received.last_event_id is None or received.complete:
        return
    connection = await testbed.get(received.last_event_id)
    rest = await connection.answer()
    if rest.status == 405:
        # The client had received all events, but not the end of the stream.
        check(received.messages())
    else:
        check(received.messages() + rest.messages())
    await connection.aclose()


class ClientRequestOnStream(SessionConversation):
    """A call that sends a client request; the client may resume the stream to receive it."""

    async def run(self, testbed: FaultTestbed) -> None:
        await testbed.connection.send(testbed.legacy(call("look")), "call")
        await answer(testbed, await testbed.connection.message(1))
        assert text_of(await testbed.connection.message(2)) == "1"
        await testbed.connection.answer()

    async def check_after(self, testbed: FaultTestbed) -> None:
        received = testbed.connection.reader
        if received.complete or "call" not in testbed.connection.sent_completely:
            pass
        elif received.last_event_id is None:
            # No client can respond.
            await trio.sleep(CLIENT_REQUEST_TIMEOUT)
        elif len(received.messages()) < 2:
            connection = await testbed.get(received.last_event_id)
            if not received.messages():
                await answer(testbed, await connection.message(1))
            elif testbed.tools.running:
                await answer(testbed, received.messages()[0])
            *client_requests, last = received.messages() + (await connection.answer()).messages()
            assert [each["method"] for each in client_requests] == ["roots/list"]
            assert text_of(last) == "1"
        await super().check_after(testbed)


async def answer(testbed: FaultTestbed, client_request: JsonObject) -> None:
    assert client_request["method"] == "roots/list"
    await testbed.exchange(testbed.legacy(roots(client_request["id"])), 202)


def roots(id: JsonValue) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": "file:///a"}]}}


class ResponseToClientRequest(SessionConversation):
    """The response to a client request on the connection that may break. It counts if it was sent completely."""

    calling: RawConnection
    client_request: JsonObject

    async def prepare(self, testbed: FaultTestbed) -> None:
        await super().prepare(testbed)
        self.calling = await testbed.connect_other()
        await self.calling.send(testbed.legacy(call("look")))
        self.client_request = await self.calling.message(1)

    async def run(self, testbed: FaultTestbed) -> None:
        assert (
            await testbed.connection.exchange(testbed.legacy(roots(self.client_request["id"])), "answer")
        ).status == 202

    async def check_after(self, testbed: FaultTestbed) -> None:
        if "answer" not in testbed.connection.sent_completely:
            assert testbed.tools.running == 1
            await answer(testbed, self.client_request)
        assert text_of(await self.calling.message(2)) == "1"
        await self.calling.answer()
        await super().check_after(testbed)


class StandaloneStream(SessionConversation):
    """The standalone stream. Resumption by event id delivers the notifications that the broken connection lost."""

    announced: list[str]

    async def prepare(self, testbed: FaultTestbed) -> None:
        await super().prepare(testbed)
        self.announced = []
        for uri in ("memo://x", "memo://y"):
            await testbed.exchange(testbed.legacy(rpc_request("resources/subscribe", {"uri": uri})))

    async def run(self, testbed: FaultTestbed) -> None:
        await testbed.connection.send(testbed.legacy(method="GET"))
        await testbed.connection.until(lambda: bool(testbed.connection.reader.events))
        self.announce(testbed, "memo://x")
        assert updated(await testbed.connection.message(1)) == "memo://x"
        await testbed.connection.cut()

    async def check_after(self, testbed: FaultTestbed) -> None:
        received = testbed.connection.reader
        connection = await testbed.get(received.last_event_id)
        await connection.until(lambda: bool(connection.reader.status))
        self.announce(testbed, "memo://y")
        delivered: list[str] = []
        while "memo://y" not in delivered:
            delivered.append(updated(await connection.message(len(delivered) + 1)))
        if received.last_event_id is not None:
            assert [updated(each) for each in received.messages()] + delivered == self.announced
        await super().check_after(testbed)

    def announce(self, testbed: FaultTestbed, uri: str) -> None:
        testbed.tools.server.resource_updated(uri)
        self.announced.append(uri)


def updated(message: JsonObject) -> str:
    assert message["method"] == "notifications/resources/updated"
    return str(as_object(message["params"])["uri"])


class Resume(SessionConversation):
    """The rest of a stream, on a connection that may break as well."""

    first: str
    before: list[JsonObject]

    async def prepare(self, testbed: FaultTestbed) -> None:
        await super().prepare(testbed)
        # Read only the beginning of the stream.
        broken = RawConnection((await testbed.connect_other()).stream)
        await broken.send(testbed.legacy(call("steps", token=7)))
        await broken.message(1)
        await broken.aclose()
        self.first = str(broken.reader.last_event_id)
        self.before = broken.reader.messages()

    async def run(self, testbed: FaultTestbed) -> None:
        rest = await testbed.connection.exchange(testbed.legacy(method="GET", last_event_id=self.first))
        check_steps(self.before + rest.messages())

    async def check_after(self, testbed: FaultTestbed) -> None:
        received = testbed.connection.reader
        if not received.complete:
            connection = await testbed.get(received.last_event_id or self.first)
            rest = await connection.answer()
            check_steps(self.before + received.messages() + (rest.messages() if rest.status == 200 else []))
        await super().check_after(testbed)


class Delete(SessionConversation):
    async def run(self, testbed: FaultTestbed) -> None:
        assert (await testbed.connection.exchange(testbed.legacy(method="DELETE"), "delete")).status == 200

    async def check_after(self, testbed: FaultTestbed) -> None:
        await testbed.exchange(
            testbed.legacy(method="DELETE"), 404 if "delete" in testbed.connection.sent_completely else 200
        )


class BatchStream(SessionConversation):
    """A batch that is answered by a stream."""

    revision = R2025_03_26

    async def run(self, testbed: FaultTestbed) -> None:
        members = [call("steps", token=7), call("echo", id=2, text="a"), rpc_request("ping", id=3)]
        check_batch((await testbed.connection.exchange(testbed.legacy(members))).messages())

    async def check_after(self, testbed: FaultTestbed) -> None:
        await fetch_rest(testbed, check_batch)
        await super().check_after(testbed)


def check_batch(messages: list[JsonObject]) -> None:
    answers = {each["id"]: each for each in messages if "id" in each}
    assert len(messages) == 5
    assert (text_of(answers[1]), text_of(answers[2]), answers[3]["result"]) == ("done", "a", {})


class BatchJson(SessionConversation):
    revision = R2025_03_26

    async def run(self, testbed: FaultTestbed) -> None:
        answer = await testbed.connection.exchange(
            testbed.legacy([call("echo", id=2, text="a"), rpc_request("ping", id=3)])
        )
        assert {each["id"] for each in json.loads(answer.body)} == {2, 3}


class OldStream(Conversation):
    """The stream of 2024-11-05, which is the session."""

    async def run(self, testbed: FaultTestbed) -> None:
        await testbed.connection.send(http("GET", "/sse"))
        await testbed.connection.until(lambda: bool(testbed.connection.reader.events))
        target = testbed.connection.reader.events[0].data.decode()
        for count, message in enumerate((initialize(R2024_11_05), call("steps", token=7))):
            await testbed.exchange(http("POST", target, message), 202)
            await old_message(testbed.connection, 1 + 3 * count)
        await testbed.connection.cut()

    async def check_after(self, testbed: FaultTestbed) -> None:
        events = testbed.connection.reader.events
        if events:
            while testbed.endpoint.sessions:  # noqa: ASYNC110  # there is no event for this
                await trio.sleep(POLL_INTERVAL)
            await testbed.exchange(http("POST", events[0].data.decode(), rpc_request("ping")), 404)


class OldPost(Conversation):
    """A POST of 2024-11-05. Its message counts once, if it was sent completely."""

    stream: RawConnection
    target: str

    async def prepare(self, testbed: FaultTestbed) -> None:
        self.stream = await testbed.connect_other()
        await self.stream.send(http("GET", "/sse"))
        await self.stream.until(lambda: bool(self.stream.reader.events))
        self.target = self.stream.reader.events[0].data.decode()
        await testbed.exchange(http("POST", self.target, initialize(R2024_11_05)), 202)
        await old_message(self.stream, 1)

    async def run(self, testbed: FaultTestbed) -> None:
        assert (
            await testbed.connection.exchange(http("POST", self.target, call("echo", text="a")), "call")
        ).status == 202

    async def check_after(self, testbed: FaultTestbed) -> None:
        await testbed.exchange(http("POST", self.target, rpc_request("ping", id="last")), 202)
        expected = [1, "last"] if "call" in testbed.connection.sent_completely else ["last"]
        last = await old_message(self.stream, 1 + len(expected))
        assert sorted(map(str, [each["id"] for each in old_messages(self.stream)[1:]])) == [str(id) for id in expected]
        assert "result" in last


def old_messages(connection: RawConnection) -> list[JsonObject]:
    return [as_object(json.loads(event.data)) for event in connection.reader.events[1:]]


async def old_message(connection: RawConnection, number: int) -> JsonObject:
    await connection.until(lambda: len(old_messages(connection)) >= number)
    return old_messages(connection)[number - 1]


CONVERSATIONS: tuple[type[Conversation], ...] = (
    ModernJson,
    ModernStream,
    Listen,
    WholeSession,
    Stream,
    ClientRequestOnStream,
    ResponseToClientRequest,
    StandaloneStream,
    Resume,
    Delete,
    BatchStream,
    BatchJson,
    OldStream,
    OldPost,
)


# --- cuts -------------------------------------------------------------------------------------------------------------


async def run_conversation(testbed: FaultTestbed, conversation: Conversation, cut_point: CutPoint) -> RawConnection:
    """Run a conversation with a cut and all checks after it."""
    await testbed.begin(cut_point)
    await conversation.prepare(testbed)
    broken = False
    try:
        await conversation.run(testbed)
    except ConnectionCut:
        broken = True
    # The data may be framed in fewer chunks than in the first run.
    assert broken or cut_point.sends is None
    await testbed.connection.aclose()
    await testbed.check_served()
    await conversation.check_after(testbed)
    await testbed.end()
    return testbed.connection


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings and errors, except for the time of a function: the machine can stop any function."""
    messages = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    return [message for message in messages if not message.startswith("event loop blocked for ")]


@pytest.mark.spec("sse.disconnect-any-time", "sse.get-close-any-time", "http.multiple-clients")
@pytest.mark.parametrize("mode", ["leaves", "falls silent", "stops reading"])
@pytest.mark.parametrize("kind", CONVERSATIONS)
async def test_disconnect_at_any_byte_leaves_no_state(
    kind: type[Conversation], mode: str, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with open_testbed(Tools()) as testbed:
        conversation = kind()
        full_run = await run_conversation(testbed, conversation, UNCUT)
        # The client may see the end of its connection before the task of the server ends.
        await trio.testing.wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        count = full_run.read if mode == "stops reading" else full_run.sent
        # For the server, a half-closed connection equals a disconnect, except that a response can be sent.
        for at in range(0, count + 1, 3 if mode == "falls silent" else 1):
            match mode:
                case "leaves":
                    cut_point = CutPoint(sends=at)
                case "falls silent":
                    cut_point = CutPoint(sends=at, half=True)
                case _:
                    cut_point = CutPoint(reads=at)
            await run_conversation(testbed, conversation, cut_point)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert problems(caplog) == []


@pytest.mark.parametrize("mode", ["leaves", "stops reading"])
@pytest.mark.parametrize("kind", [kind for kind in CONVERSATIONS if kind is not ClientRequestOnStream])
async def test_broken_socket_leaves_no_state(
    kind: type[Conversation], mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_testbed(Tools(), sockets=True) as testbed:
        conversation = kind()
        full_run = await run_conversation(testbed, conversation, UNCUT)
        tasks, descriptors = trio.lowlevel.current_statistics().tasks_living, open_descriptors()
        count = full_run.sent if mode == "leaves" else full_run.read
        for at in range(0, count, max(1, count // 12)):
            await run_conversation(
                testbed, conversation, CutPoint(sends=at) if mode == "leaves" else CutPoint(reads=at)
            )
        assert (trio.lowlevel.current_statistics().tasks_living, open_descriptors()) == (tasks, descriptors)
    assert problems(caplog) == []


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


# --- a server that is killed ------------------------------------------------------------------------------------------

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
    """Run the server in another process, and yield the process and the address."""
    command = [sys.executable, "-m", "mcp_server", "run", "killed", "--http", bind, "--store", "kept.sqlite"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as started:
        try:
            assert started.stderr is not None
            line = started.stderr.readline()
            found = re.fullmatch(r"killed is served at http://(127\.0\.0\.1:\d+)/mcp\n", line)
            assert found, line
            yield started, found[1]
        finally:
            started.kill()


@attrs.define
class InterruptedCall:
    """A call of which the client received some events before the server was killed."""

    id: int
    reported: list[JsonObject]
    last_event_id: str | None


class PersistentClient:
    """A client with one session that outlives the server."""

    def __init__(self) -> None:
        self.session = ""
        self.connection: RawConnection

    def request(self, body: Body = b"", method: str = "POST", **more: str) -> bytes:
        return legacy(self.session, R2025_11_25, body, method, **more)

    async def connect(self, address: str) -> None:
        host, _, port = address.partition(":")
        self.connection = RawConnection(await trio.open_tcp_stream(host, int(port)))
        if not self.session:
            self.session = (await self.connection.exchange(http(body=initialize(R2025_11_25)))).headers[
                "mcp-session-id"
            ]
            assert (
                await self.connection.exchange(self.request(notification("notifications/initialized")))
            ).status == 202
        assert text_of((await self.connection.exchange(self.request(call("echo", text="a")))).json()) == "a"

    async def begin(self, id: int, events: int) -> None:
        """Call a tool and read some events of its response."""
        await self.connection.send(self.request(call("count", id=id, token=id)))
        await self.connection.until(lambda: len(self.connection.reader.events) > events)

    async def fetch(self, broken: InterruptedCall) -> None:
        """Resume the stream and check that each event is received once and that the request is answered."""
        rest = await self.connection.exchange(self.request(method="GET", last_event_id=str(broken.last_event_id)))
        *reported, answer = broken.reported + rest.messages()
        steps = [as_object(each["params"])["progress"] for each in reported]
        assert steps == list(range(1, len(steps) + 1))
        assert answer["id"] == broken.id
        assert "restarted" in str(as_object(answer["error"])["message"])
        over = await self.connection.exchange(self.request(method="GET", last_event_id=str(rest.last_event_id)))
        assert over.status == 405


@pytest.mark.spec("resume.replay", "resume.no-cross-stream", "resume.always-get", "session.assign")
async def test_killed_server_resumes_sessions_and_streams(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(SOURCE)
    address = "127.0.0.1:0"
    client = PersistentClient()
    broken: InterruptedCall | None = None
    with trio.fail_after(60):
        for id, events in enumerate((0, 1, 4, 17), start=1):
            with process(tmp_path, address) as (running, address):
                await client.connect(address)
                async with client.connection.stream:
                    if broken is not None:
                        await client.fetch(broken)
                    await client.begin(id, events)
                    running.send_signal(signal.SIGKILL)
                    assert running.wait() == -signal.SIGKILL
                reader = client.connection.reader
                broken = InterruptedCall(id, reader.messages(), reader.last_event_id)
        assert broken is not None
        with process(tmp_path, address):
            await client.connect(address)
            async with client.connection.stream:
                await client.fetch(broken)
