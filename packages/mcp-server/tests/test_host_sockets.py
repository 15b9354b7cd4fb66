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
    """Respond with the body of the request: in parts at `/parts`, with a large body at `/large`."""
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
    """Run the host and yield it with its URL."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            address, port = listeners[0].socket.getsockname()
            host = HttpHost(app, limits=limits, timeouts=timeouts, tls=tls)
            await nursery.start(host.run, listeners)
            yield host, f"http://{address}:{port}"
            nursery.cancel_scope.cancel()


async def until(host: HttpHost, connections: int) -> None:
    """Wait until the host has this number of connections. The timeout of the test's host bounds the wait."""
    while host.connections != connections:
        await trio.lowlevel.checkpoint()


# --- all hosts --------------------------------------------------------------------------------------------------------


async def test_host_of_each_kind_serves_application(host: str) -> None:
    async with served(echo, host) as url:
        client = await RawHttp.to(url)
        for path in ("/", "/parts", "/deeper/still/"):
            got = await client.exchange("POST", path, b"hello")
            assert (got.status, got.body, got.headers["content-type"]) == (200, b"hello", "text/plain")
        await client.aclose()


async def test_host_of_each_kind_serves_concurrent_clients(host: str) -> None:
    async with served(echo, host) as url:

        async def one(number: int) -> None:
            client = await RawHttp.to(url)
            for count in range(5):
                body = f"{number}.{count}".encode() * 100
                assert (await client.exchange("POST", "/", body)).body == body
            await client.aclose()

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)


async def test_host_of_each_kind_continues_after_disconnects(host: str) -> None:
    request = b"POST %b/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello"
    async with served(echo, host) as url:
        for length in (0, 3, 20, 60, len(request) + 4):
            client = await RawHttp.to(url)
            await client.write((request % client.prefix.encode())[:length])
            await client.aclose()
        client = await RawHttp.to(url)
        assert (await client.exchange("POST", "/", b"hello")).body == b"hello"
        await client.aclose()


# --- the embedded host ------------------------------------------------------------------------------------------------


async def test_scope_has_addresses_and_scheme() -> None:
    scopes: list[Scope] = []

    async def record_scope(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async with embedded(record_scope) as (_, url):
        client = await RawHttp.to(url)
        await client.get("/")
        assert isinstance(client.stream, trio.SocketStream)
        assert scopes[0]["client"] == client.stream.socket.getsockname()
        assert scopes[0]["server"] == client.stream.socket.getpeername()
        assert scopes[0]["scheme"] == "http"
        await client.aclose()


async def test_pipelined_requests_do_not_starve_other_connections() -> None:
    order: list[str] = []

    async def record_scope(scope: Scope, receive: Receive, send: Send) -> None:
        order.append(str(scope["path"]))
        await echo(scope, receive, send)

    async with embedded(record_scope) as (_, url):
        clients = [await RawHttp.to(url) for _ in range(2)]
        for number, client in enumerate(clients):
            await client.write(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number * 200)
        for client in clients:
            for _ in range(200):
                await client.answer()
            await client.aclose()
    # Neither connection was served to its end before the other one.
    assert order != sorted(order)
    assert order != sorted(order, reverse=True)


async def test_response_in_many_parts_yields_to_other_tasks() -> None:
    order = 0

    async def count() -> None:
        nonlocal order
        while True:
            order += 1
            await trio.lowlevel.checkpoint()

    async def many(scope: Scope, receive: Receive, send: Send) -> None:
        before = order
        await send({"type": "http.response.start", "status": 200})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body", "body": str(order - before).encode()})

    async with embedded(many) as (_, url):
        client = await RawHttp.to(url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            got = await client.get("/")
            nursery.cancel_scope.cancel()
        assert int(got.body.lstrip(b"x")) >= 90
        await client.aclose()


async def test_tcp_nodelay_set() -> None:
    async with embedded(echo) as (host, url):
        client = await RawHttp.to(url)
        await until(host, 1)
        (connection,) = host._connections
        pipe = connection._pipe
        assert isinstance(pipe, SocketPipe)
        assert pipe._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await client.aclose()


async def test_incomplete_http_1_0_response_resets_connection() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with embedded(half) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.0\r\n\r\n")
        # An orderly close would make the incomplete body look complete.
        with pytest.raises(trio.BrokenResourceError):
            await client.answer()
        await client.aclose()


async def test_rejected_client_reads_end_of_stream_immediately() -> None:
    async with embedded(echo, timeouts=HostTimeouts(linger=1_000)) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"nonsense\r\n\r\n")
        assert (await client.answer()).status == 400
        assert await client.closed()
        assert host.connections == 1
        await client.aclose()
        await until(host, 0)


async def test_large_response_waits_for_reader() -> None:
    async with embedded(echo) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        # All buffers are full now.
        await trio.testing.wait_all_tasks_blocked(0.01)
        other = await RawHttp.to(url)
        assert (await other.get("/")).status == 200
        assert (await client.answer()).body == LARGE
        assert (await client.get("/")).status == 200
        await client.aclose()
        await other.aclose()


async def test_client_that_reads_nothing_reset_at_stall_timeout() -> None:
    async with embedded(echo, timeouts=HostTimeouts(stall=0.05)) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 1)
        await until(host, 0)
        # The reset also discards the data that the system had buffered.
        with pytest.raises((trio.BrokenResourceError, h11.RemoteProtocolError)):
            await client.answer()
        await client.aclose()


async def test_send_cancelled_after_last_byte_succeeds() -> None:
    caught: list[bool] = []

    async def cancel_after_send(scope: Scope, receive: Receive, send: Send) -> None:
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

    async with embedded(cancel_after_send) as (_, url):
        client = await RawHttp.to(url)
        assert (await client.get("/")).body == b"xy"
        # A part that was sent must not be reported as cancelled.
        assert caught == [False, True]
        await client.aclose()


async def test_silent_client_disconnected_at_head_timeout() -> None:
    async with embedded(echo, timeouts=HostTimeouts(head=0.05)) as (_, url):
        client = await RawHttp.to(url)
        assert await client.closed()
        await client.aclose()


async def test_incomplete_request_head_returns_408() -> None:
    async with embedded(echo, timeouts=HostTimeouts(head=0.05)) as (_, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.1\r\n")
        assert (await client.answer()).status == 408
        assert await client.closed()
        await client.aclose()


async def test_client_reset_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_two_thousand_broken_connections_leak_no_objects() -> None:
    async with embedded(echo) as (host, url):
        port = int(url.rpartition(":")[2])

        async def connect_and_disconnect(count: int) -> None:
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    sock.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel")
                await trio.lowlevel.checkpoint()
            await until(host, 0)

        await connect_and_disconnect(200)
        gc.collect()
        before = len(gc.get_objects())
        await connect_and_disconnect(1_800)
        gc.collect()
        assert len(gc.get_objects()) - before < 200


async def test_idle_connection_uses_less_than_10_kb() -> None:
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


async def test_host_at_capacity_accepts_after_disconnect() -> None:
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
    """Return whether the host is full. A type checker would take the property for a constant."""
    return host.is_full


class DisconnectedWork:
    """An application that runs on after a disconnect at `/work`, and responds immediately elsewhere."""

    def __init__(self) -> None:
        self.disconnected = 0
        self.done = 0
        self.release = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] == "/work":
            assert (await receive())["type"] == "http.disconnect"
            self.disconnected += 1
            await self.release.wait()
            assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.done += scope["path"] == "/work"

    async def until_disconnected(self, number: int) -> None:
        while self.disconnected < number:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("reset", [False, True])
async def test_disconnect_with_running_request_counts_toward_capacity(reset: bool) -> None:
    app = DisconnectedWork()
    async with embedded(app, limits=Limits(connections=2)) as (host, url):
        closed_clients = [await RawHttp.to(url) for _ in range(2)]
        for client in closed_clients:
            await client.write(b"GET /work HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 2)
        for client in closed_clients:
            if reset:
                assert isinstance(client.stream, trio.SocketStream)
                client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await client.aclose()
        await app.until_disconnected(1)
        await until(host, 0)
        # Requests without a client fill the host, so that repeated connecting and disconnecting is bounded.
        assert is_full(host)
        later = await RawHttp.to(url)
        await later.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert host.connections == 0
        app.release.set()
        assert (await later.answer()).body == b"ok"
        assert (app.disconnected, app.done) == (2, 2)
        assert not is_full(host)
        await later.aclose()


async def test_host_stop_waits_for_request_of_disconnected_client() -> None:
    app = DisconnectedWork()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            address, port = listener.socket.getsockname()
            host = HttpHost(app, limits=Limits(connections=2))
            await nursery.start(host.run, [listener])
            closed_client = await RawHttp.to(f"http://{address}:{port}")
            await closed_client.write(b"GET /work HTTP/1.1\r\nHost: h\r\n\r\n")
            await until(host, 1)
            await closed_client.aclose()
            await app.until_disconnected(1)
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


async def test_host_at_capacity_closes_idle_connection() -> None:
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
    """A socket whose `accept` fails, or returns a connection that is already closed."""

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
            # On some systems the client may disconnect before `accept` returns.
            accepted.close()
        return accepted, address

    def close(self) -> None:
        self.real.close()


async def test_accept_failure_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            address, port = listener.socket.getsockname()
            failures = ["accept", "accept", "gone"]
            listener.socket = FailingSocket(listener.socket, failures)  # type: ignore[assignment]  # has the members that are used
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
    # The message is logged at most once a minute, so that an attack cannot fill the disk.
    assert caplog.text.count("accept failed: [Errno 24] Too many open files") == 1
    assert "Limits.connections" in caplog.text


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


def contexts(authority: trustme.CA) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a context for the server, and one for a client that trusts it."""
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


async def secure(url: str, context: ssl.SSLContext) -> RawHttp:
    """Connect a client with TLS."""
    port = int(url.rpartition(":")[2])
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, https_compatible=True, ssl_context=context)
    return RawHttp(stream)


async def test_tls_serves_https(authority: trustme.CA) -> None:
    ours, theirs = contexts(authority)
    scopes: list[Scope] = []

    async def record_scope(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async with embedded(record_scope, tls=ours) as (host, url):
        client = await secure(url, theirs)
        for path in ("/", "/parts"):
            assert (await client.exchange("POST", path, b"hello")).body == b"hello"
        assert len((await client.get("/large")).body) == len(LARGE)
        await client.aclose()
        await until(host, 0)
    assert scopes[0]["scheme"] == "https"


async def test_plain_http_on_tls_port_disconnected(authority: trustme.CA) -> None:
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


async def test_incomplete_tls_handshake_disconnected(authority: trustme.CA) -> None:
    ours, _ = contexts(authority)
    async with embedded(echo, tls=ours, timeouts=HostTimeouts(head=0.05)) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"\x16\x03\x01\x02\x00\x01\x00")
        await until(host, 1)
        await until(host, 0)
        await client.aclose()


async def test_tls_client_that_reads_nothing_disconnected(authority: trustme.CA) -> None:
    ours, theirs = contexts(authority)
    async with embedded(echo, tls=ours, timeouts=HostTimeouts(stall=0.05, linger=0.05)) as (host, url):
        client = await secure(url, theirs)
        await client.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(host, 1)
        await until(host, 0)
        await client.aclose()


# --- sockets ----------------------------------------------------------------------------------------------------------


def pair() -> tuple[SocketPipe, socket.socket]:
    """Return a pipe and the blocking socket connected to it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return SocketPipe(ours), theirs


async def test_socket_pipe_reads_to_end_of_stream() -> None:
    pipe, other = pair()
    with other:
        other.send(b"hello")
        assert await pipe.receive_some() == b"hello"
    assert await pipe.receive_some() == b""
    await pipe.aclose()
    await pipe.aclose()
    pipe.abort()


async def test_socket_pipe_send_waits_while_buffer_is_full() -> None:
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


async def test_socket_pipe_interrupt_raises_closed_resource_error(nursery: trio.Nursery) -> None:
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
        # The pipe remains usable.
        other.send(b"hello")
        assert await pipe.receive_some() == b"hello"
        pipe.abort()
        with pytest.raises(trio.ClosedResourceError):
            await pipe.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await pipe.send_some(memoryview(b"x"))
        with pytest.raises(trio.BrokenResourceError):
            pipe.send_now(b"x")


async def test_socket_pipe_reset_raises_broken_resource_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as other:
        accepted, _ = server.accept()
        accepted.setblocking(False)
        pipe = SocketPipe(accepted)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        other.close()
        with pytest.raises(trio.BrokenResourceError):
            await pipe.receive_some()
        await pipe.aclose()


class SpuriousSocket(socket.socket):
    """A socket whose first read would block although the system reported data."""

    spurious = True

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        if self.spurious:
            self.spurious = False
            raise BlockingIOError
        return super().recv(bufsize, flags)


async def test_socket_pipe_spurious_readiness_waits_again() -> None:
    ours, theirs = socket.socketpair()
    spurious = SpuriousSocket(fileno=ours.detach())
    spurious.setblocking(False)
    with theirs:
        theirs.send(b"hello")
        pipe = SocketPipe(spurious)
        assert await pipe.receive_some() == b"hello"
        await pipe.aclose()


async def test_stream_pipe_after_abort_raises() -> None:
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


# --- `write_now` ------------------------------------------------------------------------------------------------------


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


async def test_write_now_keeps_order_with_send() -> None:
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


async def test_write_now_remainder_sent_before_next_part() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        write_now = write_now_of(scope)
        await begin(receive, send)
        # This is more than the system buffers for a client that does not read.
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


async def test_write_now_after_disconnect_has_no_effect() -> None:
    ended = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        write_now = write_now_of(scope)
        await begin(receive, send)
        started.set()

        disconnected = trio.Event()

        async def watch() -> None:
            assert (await receive())["type"] == "http.disconnect"
            disconnected.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            while not disconnected.is_set():
                write_now(b"x")
                await trio.lowlevel.checkpoint()
        assert write_now(b"x")
        ended.set()

    started = trio.Event()
    async with embedded(app) as (host, url):
        client = await RawHttp.to(url)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await started.wait()
        assert isinstance(client.stream, trio.SocketStream)
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await client.aclose()
        await ended.wait()
        await until(host, 0)


async def test_write_now_failure_reports_disconnect() -> None:
    """Cover a socket that has no data to read, so that only the write detects the disconnect."""

    class BrokenPipe(SocketPipe):
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
            host.start(host._connection(BrokenPipe(theirs), "http", None, None))
            client = RawHttp(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
            await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await ended.wait()
            await until(host, 0)
            await client.aclose()
            nursery.cancel_scope.cancel()


async def test_tls_scope_has_no_write_now() -> None:
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
        await client.exchange("POST", "/", b"hello")
        await client.aclose()
    assert offered == [COMPANION]


@pytest.mark.parametrize("size", [0, 200_000])
async def test_pending_receive_returns_at_response_end_with_pipelined_data(size: int) -> None:
    disconnected = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def watch() -> None:
            assert (await receive())["type"] == "http.disconnect"
            disconnected.set()

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
        await disconnected.wait()
        if not size:
            await client.write(ahead)
        assert (await client.answer()).body == b"x" * size
        await client.aclose()
