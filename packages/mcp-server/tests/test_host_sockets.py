"""The embedded HTTP host on real sockets, and the same application on all hosts."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import pytest
import trio
import trio.testing
import trustme
from http_hosts import RawHttp, served

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_server.asgi import COMPANION, WRITE_NOW, Application, Message, Receive, Scope, Send, WriteNow
from mcp_server.host.embedded import HttpHost
from mcp_server.host.stream import SocketPipe, StreamPipe
from mcp_server.host.timeouts import HostTimeouts

LARGE = b"x" * 5_000_000


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what it got; in parts below `/parts`, and much below `/large`."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = b""
    more: object = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        part = message["body"]
        assert isinstance(part, bytes)
        body += part
        more = message["more_body"]
    path = str(scope["path"])
    if path.endswith("/large"):
        body = LARGE
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if path.endswith("/parts"):
        for byte in body:
            await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def embedded(
    app: Application,
    *,
    limits: Limits = SERVER_LIMITS,
    timeouts: HostTimeouts | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[HttpHost, str]]:
    """The host and its URL."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            address, port = listeners[0].socket.getsockname()
            host = HttpHost(app, limits=limits, timeouts=timeouts, tls=tls)
            await nursery.start(host.run, listeners)
            yield host, f"http://{address}:{port}"
            nursery.cancel_scope.cancel()


async def until(host: HttpHost, connections: int) -> None:
    """Returns when the host has so many connections. A test that waits in vain fails by the time-out of its host."""
    while host.connections != connections:
        await trio.lowlevel.checkpoint()


# --- on all hosts ----------------------------------------------------------------------------------------------------


async def test_every_host_serves_an_application(host: str) -> None:
    async with served(echo, host) as url:
        client = await RawHttp.to(url)
        for path in ("/", "/parts", "/deeper/still/"):
            got = await client.ask("POST", path, b"hello")
            assert (got.status, got.body, got.headers["content-type"]) == (200, b"hello", "text/plain")
        await client.aclose()


async def test_every_host_serves_many_at_once(host: str) -> None:
    async with served(echo, host) as url:

        async def one(number: int) -> None:
            client = await RawHttp.to(url)
            for count in range(5):
                body = f"{number}.{count}".encode() * 100
                assert (await client.ask("POST", "/", body)).body == body
            await client.aclose()

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)


async def test_every_host_survives_clients_that_leave(host: str) -> None:
    request = b"POST %b/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello"
    async with served(echo, host) as url:
        for cut in (0, 3, 20, 60, len(request) + 4):
            client = await RawHttp.to(url)
            await client.write((request % client.prefix.encode())[:cut])
            await client.aclose()
        client = await RawHttp.to(url)
        assert (await client.ask("POST", "/", b"hello")).body == b"hello"
        await client.aclose()


# --- the embedded one ------------------------------------------------------------------------------------------------


async def test_it_says_who_asks_and_where() -> None:
    scopes: list[Scope] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async with embedded(note) as (_, url):
        client = await RawHttp.to(url)
        await client.get("/")
        assert isinstance(client.stream, trio.SocketStream)
        assert scopes[0]["client"] == client.stream.socket.getsockname()
        assert scopes[0]["server"] == client.stream.socket.getpeername()
        assert scopes[0]["scheme"] == "http"
        await client.aclose()


async def test_requests_that_are_sent_ahead_leave_others_their_turn() -> None:
    turns: list[str] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        turns.append(str(scope["path"]))
        await echo(scope, receive, send)

    async with embedded(note) as (_, url):
        clients = [await RawHttp.to(url) for _ in range(2)]
        for number, client in enumerate(clients):
            await client.write(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number * 200)
        for client in clients:
            for _ in range(200):
                await client.answer()
            await client.aclose()
    # Neither was served to its end before the other had its turn.
    assert turns != sorted(turns)
    assert turns != sorted(turns, reverse=True)


async def test_an_answer_in_many_parts_leaves_others_their_turn() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def many(scope: Scope, receive: Receive, send: Send) -> None:
        before = turns
        await send({"type": "http.response.start", "status": 200})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body", "body": str(turns - before).encode()})

    async with embedded(many) as (_, url):
        client = await RawHttp.to(url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            got = await client.get("/")
            nursery.cancel_scope.cancel()
        assert int(got.body.lstrip(b"x")) >= 90
        await client.aclose()


async def test_small_writes_are_not_held_back() -> None:
    async with embedded(echo) as (host, url):
        client = await RawHttp.to(url)
        await until(host, 1)
        (connection,) = host._connections
        pipe = connection._pipe
        assert isinstance(pipe, SocketPipe)
        assert pipe._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await client.aclose()


async def test_an_answer_that_ends_with_the_connection_is_reset_when_it_is_not_complete() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with embedded(half) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.0\r\n\r\n")
        # A proper end would make half an answer a whole one.
        with pytest.raises(trio.BrokenResourceError):
            await client.answer()
        await client.aclose()


async def test_a_refused_client_sees_the_end_at_once() -> None:
    async with embedded(echo, timeouts=HostTimeouts(linger=1_000)) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"nonsense\r\n\r\n")
        assert (await client.answer()).status == 400
        assert await client.closed()
        assert host.connections == 1
        await client.aclose()
        await until(host, 0)


async def test_a_large_answer_waits_for_its_reader() -> None:
    async with embedded(echo) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        # All buffers are full by now.
        await trio.testing.wait_all_tasks_blocked(0.01)
        other = await RawHttp.to(url)
        assert (await other.get("/")).status == 200
        assert (await client.answer()).body == LARGE
        assert (await client.get("/")).status == 200
        await client.aclose()
        await other.aclose()


async def test_a_client_that_takes_nothing_is_reset() -> None:
    async with embedded(echo, timeouts=HostTimeouts(stall=0.05)) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 1)
        await until(host, 0)
        # What waited in the system is gone with it, so that it takes no memory.
        with pytest.raises((trio.BrokenResourceError, h11.RemoteProtocolError)):
            await client.answer()
        await client.aclose()


async def test_a_send_that_is_cancelled_when_all_was_sent_ends_nothing() -> None:
    caught: list[bool] = []

    async def go_on(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        sending = trio.CancelScope()

        async def cancel() -> None:
            sending.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            with sending:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        caught.append(sending.cancelled_caught)
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await send({"type": "http.response.body", "body": b"no", "more_body": True})
        caught.append(cancelled.cancelled_caught)
        await send({"type": "http.response.body", "body": b"y"})

    async with embedded(go_on) as (_, url):
        client = await RawHttp.to(url)
        assert (await client.get("/")).body == b"xy"
        # A part that was sent must not look as if it was not.
        assert caught == [False, True]
        await client.aclose()


async def test_a_client_that_says_nothing_is_dropped() -> None:
    async with embedded(echo, timeouts=HostTimeouts(head=0.05)) as (_, url):
        client = await RawHttp.to(url)
        assert await client.closed()
        await client.aclose()


async def test_a_client_that_begins_and_says_no_more_is_told() -> None:
    async with embedded(echo, timeouts=HostTimeouts(head=0.05)) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.1\r\n")
        assert (await client.answer()).status == 408
        assert await client.closed()
        await client.aclose()


async def test_a_client_that_resets_the_connection_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    released = trio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await released.wait()
        await echo(scope, receive, send)

    async with embedded(slow) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 1)
        assert isinstance(client.stream, trio.SocketStream)
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await client.aclose()
        released.set()
        await until(host, 0)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_two_thousand_that_come_and_go_leave_nothing() -> None:
    async with embedded(echo) as (host, url):
        port = int(url.rpartition(":")[2])

        async def come_and_go(count: int) -> None:
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    sock.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel")
                await trio.lowlevel.checkpoint()
            await until(host, 0)

        await come_and_go(200)
        gc.collect()
        before = len(gc.get_objects())
        await come_and_go(1_800)
        gc.collect()
        assert len(gc.get_objects()) - before < 200


async def test_idle_connections_are_small() -> None:
    import tracemalloc

    async with embedded(echo) as (host, url):
        clients = [await RawHttp.to(url) for _ in range(100)]
        await until(host, 100)
        for client in clients:
            await client.get("/")
        gc.collect()
        tracemalloc.start()
        more = [socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) for _ in range(200)]
        for sock in more:
            sock.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 300)
        for sock in more:
            await trio.lowlevel.wait_readable(sock)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert size / 200 < 10_000
        for sock in more:
            sock.close()
        for client in clients:
            await client.aclose()


async def test_a_full_host_accepts_when_one_leaves() -> None:
    async with embedded(echo, limits=Limits(connections=2)) as (host, url):
        busy = [await RawHttp.to(url) for _ in range(2)]
        for client in busy:
            await client.write(b"POST / HTTP/1.1\r\n")
        await until(host, 2)
        waiting = await RawHttp.to(url)
        await waiting.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert host.connections == 2
        await busy[0].aclose()
        assert (await waiting.answer()).status == 200
        for client in (busy[1], waiting):
            await client.aclose()


def is_full(host: HttpHost) -> bool:
    """Asked anew each time: a type checker takes a property for a constant."""
    return host.is_full


class Working:
    """An application that works on for clients who have left, and answers others at once."""

    def __init__(self) -> None:
        self.left = 0
        self.done = 0
        self.release = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] == "/work":
            assert (await receive())["type"] == "http.disconnect"
            self.left += 1
            await self.release.wait()
            assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.done += scope["path"] == "/work"

    async def until_left(self, number: int) -> None:
        while self.left < number:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_leaves_makes_room_although_its_request_goes_on(reset: bool) -> None:
    app = Working()
    async with embedded(app, limits=Limits(connections=2)) as (host, url):
        gone = [await RawHttp.to(url) for _ in range(2)]
        for client in gone:
            await client.write(b"GET /work HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 2)
        for client in gone:
            if reset:
                assert isinstance(client.stream, trio.SocketStream)
                client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await client.aclose()
        await app.until_left(1)
        await until(host, 0)
        # As many as may be connected work on for nobody: so no more may come, and connect, and leave.
        assert is_full(host)
        later = await RawHttp.to(url)
        await later.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert host.connections == 0
        app.release.set()
        assert (await later.answer()).body == b"ok"
        assert (app.left, app.done) == (2, 2)
        assert not is_full(host)
        await later.aclose()


async def test_one_that_works_on_for_nobody_keeps_no_other_out_but_is_waited_for_at_the_end() -> None:
    app = Working()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            address, port = listener.socket.getsockname()
            host = HttpHost(app, limits=Limits(connections=2))
            await nursery.start(host.run, [listener])
            gone = await RawHttp.to(f"http://{address}:{port}")
            await gone.write(b"GET /work HTTP/1.1\r\nHost: h\r\n\r\n")
            await until(host, 1)
            await gone.aclose()
            await app.until_left(1)
            for _ in range(2):
                client = await RawHttp.to(f"http://{address}:{port}")
                assert (await client.get("/")).status == 200
                await client.aclose()
                await until(host, 0)
            host.stop()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(nursery.child_tasks) == 1
            app.release.set()
        assert app.done == 1


async def test_a_full_host_ends_what_is_idle() -> None:
    async with embedded(echo, limits=Limits(connections=3)) as (_, url):
        busy, idle, later = [await RawHttp.to(url) for _ in range(3)]
        await busy.write(b"POST / HTTP/1.1\r\n")
        for client in (idle, later):
            await client.get("/")
        fourth = await RawHttp.to(url)
        assert (await fourth.get("/")).status == 200
        assert await idle.closed()
        assert (await later.get("/")).status == 200
        await busy.write(b"Host: h\r\nContent-Length: 0\r\n\r\n")
        assert (await busy.answer("POST")).status == 200
        for client in (busy, idle, later, fourth):
            await client.aclose()


class FailingSocket:
    """Stands for a socket whose `accept`, `getsockname` or `setsockopt` fails."""

    def __init__(self, real: trio.socket.SocketType, failures: list[str]) -> None:
        self.real = real
        self.failures = failures

    async def accept(self) -> tuple[object, object]:
        if self.failures[:1] == ["accept"]:
            self.failures.pop(0)
            raise OSError(errno.EMFILE, "Too many open files")
        accepted, address = await self.real.accept()
        if self.failures[:1] == ["gone"]:
            self.failures.pop(0)
            # As it is when the client was too quick for us, on some systems.
            accepted.close()
        return accepted, address

    def close(self) -> None:
        self.real.close()


async def test_a_system_without_room_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            address, port = listener.socket.getsockname()
            failures = ["accept", "accept", "gone"]
            listener.socket = FailingSocket(listener.socket, failures)  # type: ignore[assignment]  # what is used of it
            host = HttpHost(echo)
            await nursery.start(host.run, [listener])
            client = await RawHttp.to(f"http://{address}:{port}")
            assert await client.closed()
            await client.aclose()
            client = await RawHttp.to(f"http://{address}:{port}")
            assert (await client.get("/")).status == 200
            await client.aclose()
            assert failures == []
            host.stop()
    # Once a minute at most: an attack must not fill the disk.
    assert caplog.text.count("accept failed: [Errno 24] Too many open files") == 1
    assert "Limits.connections" in caplog.text


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


def contexts(authority: trustme.CA) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server, and for a client that trusts it."""
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


async def secure(url: str, context: ssl.SSLContext) -> RawHttp:
    """A client by TLS."""
    port = int(url.rpartition(":")[2])
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, https_compatible=True, ssl_context=context)
    return RawHttp(stream)


async def test_https_is_served(authority: trustme.CA) -> None:
    ours, theirs = contexts(authority)
    scopes: list[Scope] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async with embedded(note, tls=ours) as (host, url):
        client = await secure(url, theirs)
        for path in ("/", "/parts"):
            assert (await client.ask("POST", path, b"hello")).body == b"hello"
        assert len((await client.get("/large")).body) == len(LARGE)
        await client.aclose()
        await until(host, 0)
    assert scopes[0]["scheme"] == "https"


async def test_a_client_that_does_not_speak_tls_is_dropped(authority: trustme.CA) -> None:
    ours, theirs = contexts(authority)
    async with embedded(echo, tls=ours) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 1)
        await until(host, 0)
        await client.aclose()
        again = await secure(url, theirs)
        assert (await again.get("/")).status == 200
        await again.aclose()


async def test_a_handshake_that_does_not_end_is_dropped(authority: trustme.CA) -> None:
    ours, _ = contexts(authority)
    async with embedded(echo, tls=ours, timeouts=HostTimeouts(head=0.05)) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"\x16\x03\x01\x02\x00\x01\x00")
        await until(host, 1)
        await until(host, 0)
        await client.aclose()


async def test_a_client_that_takes_nothing_by_tls_is_dropped(authority: trustme.CA) -> None:
    ours, theirs = contexts(authority)
    async with embedded(echo, tls=ours, timeouts=HostTimeouts(stall=0.05, linger=0.05)) as (host, url):
        client = await secure(url, theirs)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 1)
        await until(host, 0)
        await client.aclose()


# --- the socket ------------------------------------------------------------------------------------------------------


def pair() -> tuple[SocketPipe, socket.socket]:
    """A connected pair; the other end is blocking."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return SocketPipe(ours), theirs


async def test_a_socket_is_read_to_its_end() -> None:
    pipe, other = pair()
    with other:
        other.send(b"hello")
        assert await pipe.receive_some() == b"hello"
    assert await pipe.receive_some() == b""
    await pipe.aclose()
    await pipe.aclose()
    pipe.abort()


async def test_a_socket_takes_what_has_room_and_says_when_there_is_more() -> None:
    pipe, other = pair()
    with other:
        sent = 0
        while count := pipe.send_now(b"x" * 100_000):
            sent += count
        with trio.move_on_after(0.01) as scope:
            await pipe.send_some(memoryview(b"y"))
        assert scope.cancelled_caught
        received = 0
        while received < sent:
            received += len(other.recv(100_000))
        assert await pipe.send_some(memoryview(b"yy")) == 2
        assert other.recv(10) == b"yy"
        pipe.finish()
        assert other.recv(10) == b""
    pipe.finish()
    with pytest.raises(trio.BrokenResourceError):
        pipe.send_now(b"z")
    await pipe.aclose()


async def test_who_waits_for_a_socket_can_be_interrupted(nursery: trio.Nursery) -> None:
    pipe, other = pair()
    with other:
        for _ in range(2):

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await pipe.receive_some()

            async with trio.open_nursery() as waiting:
                waiting.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                pipe.interrupt()
        # It is as good as before.
        other.send(b"hello")
        assert await pipe.receive_some() == b"hello"
        pipe.abort()
        with pytest.raises(trio.ClosedResourceError):
            await pipe.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await pipe.send_some(memoryview(b"x"))
        with pytest.raises(trio.BrokenResourceError):
            pipe.send_now(b"x")


async def test_a_reset_is_a_broken_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as other:
        accepted, _ = server.accept()
        accepted.setblocking(False)
        pipe = SocketPipe(accepted)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        other.close()
        with pytest.raises(trio.BrokenResourceError):
            await pipe.receive_some()
        await pipe.aclose()


class Hasty(socket.socket):
    """Says once that there is something to read, when there is not."""

    hasty = True

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        if self.hasty:
            self.hasty = False
            raise BlockingIOError
        return super().recv(bufsize, flags)


async def test_a_socket_that_has_nothing_after_all_is_waited_for() -> None:
    ours, theirs = socket.socketpair()
    hasty = Hasty(fileno=ours.detach())
    hasty.setblocking(False)
    with theirs:
        theirs.send(b"hello")
        pipe = SocketPipe(hasty)
        assert await pipe.receive_some() == b"hello"
        await pipe.aclose()


async def test_a_stream_that_was_dropped_is_not_used_again() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    pipe = StreamPipe(ours, 1)
    await theirs.send_all(b"hello")
    pipe.abort()
    with pytest.raises(trio.ClosedResourceError):
        await pipe.receive_some()
    with pytest.raises(trio.ClosedResourceError):
        await pipe.send_some(memoryview(b"x"))
    await pipe.aclose()
    assert await theirs.receive_some() == b""


# --- writing without waiting -----------------------------------------------------------------------------------------


def write_now_of(scope: Scope) -> WriteNow:
    extensions = scope["extensions"]
    assert isinstance(extensions, dict)
    write_now: WriteNow = extensions[WRITE_NOW]
    return write_now


def part(body: bytes = b"", *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def begin(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200})
    await send(part(b"a"))


async def test_what_is_written_without_waiting_is_in_order_with_the_rest() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        write_now = write_now_of(scope)
        with pytest.raises(RuntimeError, match="the response has not started"):
            write_now(b"x")
        await begin(receive, send)
        assert write_now(b"b")
        assert write_now(b"c")
        await send(part(b"d"))
        assert write_now(b"e")
        await send(part(b"f", more=False))
        with pytest.raises(RuntimeError, match="after the end"):
            write_now(b"x")

    async with embedded(app) as (_, url):
        client = await RawHttp.to(url)
        for _ in range(2):
            assert (await client.get("/")).body == b"abcdef"
        await client.aclose()


async def test_what_does_not_go_out_at_once_goes_before_the_next_part() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        write_now = write_now_of(scope)
        await begin(receive, send)
        # More than the system keeps for a client that does not read.
        assert not write_now(LARGE * 6)
        with pytest.raises(trio.BusyResourceError):
            write_now(b"too early")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, part())
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                write_now(b"too early")
            reading.set()
        await send(part(b"b", more=False))

    reading = trio.Event()
    async with embedded(app) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await reading.wait()
        got = await client.answer()
        assert got.body == b"a" + LARGE * 6 + b"b"
        await client.aclose()


async def test_what_is_written_for_a_client_that_has_gone_goes_nowhere() -> None:
    ended = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        write_now = write_now_of(scope)
        await begin(receive, send)
        gone.set()

        left = trio.Event()

        async def watch() -> None:
            assert (await receive())["type"] == "http.disconnect"
            left.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            while not left.is_set():
                write_now(b"x")
                await trio.lowlevel.checkpoint()
        assert write_now(b"x")
        ended.set()

    gone = trio.Event()
    async with embedded(app) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await gone.wait()
        assert isinstance(client.stream, trio.SocketStream)
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await client.aclose()
        await ended.wait()
        await until(host, 0)


async def test_a_broken_write_tells_that_the_client_has_left() -> None:
    """Also where nothing can be read that would tell it."""

    class Broken(SocketPipe):
        def send_now(self, data: bytes | memoryview) -> int:
            if bytes(data).endswith(b"b\r\n"):
                raise trio.BrokenResourceError("broken")
            return super().send_now(data)

    ended = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(receive, send)
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                assert (await receive())["type"] == "http.disconnect"
                ended.set()

            nursery.start_soon(watch)
            await trio.testing.wait_all_tasks_blocked()
            assert write_now_of(scope)(b"b")
            await send(part(b"c", more=False))

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            host = HttpHost(app)
            await nursery.start(host.run)
            host.start(host._connection(Broken(theirs), "http", None, None))
            client = RawHttp(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
            await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await ended.wait()
            await until(host, 0)
            await client.aclose()
            nursery.cancel_scope.cancel()


async def test_tls_has_no_writing_without_waiting() -> None:
    ca = trustme.CA()
    server, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    ca.issue_cert("127.0.0.1").configure_cert(server)
    ca.configure_trust(trusting)
    offered: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        extensions = scope["extensions"]
        assert isinstance(extensions, dict)
        offered.extend(extensions)
        await echo(scope, receive, send)

    async with embedded(app, tls=server) as (_, url):
        port = int(url.rpartition(":")[2])
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=trusting, https_compatible=True)
        client = RawHttp(stream)
        await client.ask("POST", "/", b"hello")
        await client.aclose()
    assert offered == [COMPANION]


@pytest.mark.parametrize("size", [0, 200_000])
async def test_who_waits_for_the_client_is_told_of_the_end_however_much_was_sent_ahead(size: int) -> None:
    told = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def watch() -> None:
            assert (await receive())["type"] == "http.disconnect"
            told.set()

        if scope["path"] == "/":
            await receive()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                await trio.testing.wait_all_tasks_blocked(0.01)
                await echo(scope, receive_nothing, send)
        else:
            await echo(scope, receive, send)

    async def receive_nothing() -> Message:
        return {"type": "http.request", "body": b"first", "more_body": False}

    ahead = b"POST /next HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with embedded(app) as (_, url), trio.open_nursery() as nursery:
        client = await RawHttp.to(url)
        first = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
        nursery.start_soon(client.write, first + ahead if size else first)
        assert (await client.answer()).body == b"first"
        await told.wait()
        if not size:
            await client.write(ahead)
        assert (await client.answer()).body == b"x" * size
        await client.aclose()
