from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcp_core.errors import HttpFailure, LimitExceeded, LocalProtocolError, RequestTimeout
from mcp_core.limits import Limits
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.pool import HttpPool
from mcp_core.trio.http_client.pool_policy import Use
from mcp_core.trio.http_client.url import parse_url

Script = Callable[["Peer"], Awaitable[None]]

URL = "http://mcp.example/mcp"
BIG = bytes(24 * 1024 * 1024)
"""More than the kernel buffers for both ends of a connection."""
TWO_LENGTHS = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


class Peer:
    """The server's end of one connection."""

    def __init__(self, stream: trio.SocketStream, server: Server) -> None:
        self.stream = stream
        self.server = server
        self._read = bytearray()

    async def request(self) -> bytes:
        """Read the next request; return b"" when the client has closed the connection."""
        while b"\r\n\r\n" not in self._read:
            if not await self._more():
                return b""
        end = self._read.index(b"\r\n\r\n") + 4
        _, _, length = bytes(self._read[:end]).lower().partition(b"content-length: ")
        end += int(length.split(b"\r\n")[0] or 0)
        while len(self._read) < end:
            if not await self._more():
                return b""
        request = bytes(self._read[:end])
        del self._read[:end]
        self.server.requests.append(request)
        return request

    async def _more(self) -> bool:
        data = await self.stream.receive_some()
        self._read += data
        return bool(data)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, body: bytes = b"ok", *lines: bytes, status: bytes = b"200 OK") -> None:
        head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *lines]
        await self.send(b"\r\n".join(head) + b"\r\n\r\n" + body)

    def reset(self) -> None:
        """Reset the connection."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()


class Server:
    """A raw server on loopback: each connection runs the next script, and the last script repeats."""

    def __init__(self, scripts: tuple[Script, ...], listener: trio.SocketListener) -> None:
        self._scripts = scripts
        self._listener = listener
        self.accepted = 0
        self.requests: list[bytes] = []
        self.gone = 0
        """Connections whose script has ended."""

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        """Connect to this server, whatever the host."""
        address, own = self._listener.socket.getsockname()[:2]
        return await trio.open_tcp_stream(address, own)

    async def serve(self, stream: trio.SocketStream) -> None:
        script = self._scripts[min(self.accepted, len(self._scripts) - 1)]
        self.accepted += 1
        try:
            async with stream:
                await script(Peer(stream, self))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.gone += 1


@asynccontextmanager
async def serving(*scripts: Script) -> AsyncIterator[Server]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = Server(scripts, listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def pool_on(
    server: Server, *, limits: Limits | None = None, per_origin: int = 128, idle_kept: int = 64
) -> AsyncIterator[HttpPool]:
    pool = HttpPool(
        proxies=False, limits=limits or Limits(), connect=server.connect, per_origin=per_origin, idle_kept=idle_kept
    )
    try:
        yield pool
    finally:
        await pool.aclose()
        assert not pool._open


async def echo(peer: Peer) -> None:
    """Respond to each request with its body."""
    while request := await peer.request():
        await peer.answer(request.partition(b"\r\n\r\n")[2] or b"ok")


async def post(pool: HttpPool, body: bytes = b"hello", *, url: str = URL, use: Use = Use.CALL) -> bytes:
    async with pool.request("POST", url, [("Content-Type", "application/json")], body, use=use) as response:
        return await response.read(1 << 20)


async def get(pool: HttpPool, url: str = URL) -> bytes:
    async with pool.request("GET", url) as response:
        return await response.read(1 << 20)


def after_one(then: Script) -> Script:
    """Respond to one request, then run another script."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer()
        await then(peer)

    return script


def respond_and_close(data: bytes) -> Script:
    """Read one request, send data, and close the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)

    return script


def respond_and_wait(data: bytes) -> Script:
    """Read one request, send data, and wait until the client closes the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        assert not await peer.request()

    return script


async def connection_error(call: Awaitable[object]) -> HttpConnectionEnded:
    with pytest.raises(HttpConnectionEnded) as raised:
        await call
    return raised.value


def counts(pool: HttpPool) -> tuple[int, int, int]:
    return pool._policy.busy, pool._policy.idle, pool._policy.waiting


# Requests, and idle connections.


async def test_sequential_requests_share_connection() -> None:
    async with serving(echo) as server, pool_on(server) as pool:
        assert await post(pool, b"one") == b"one"
        assert await post(pool, b"two") == b"two"
        assert server.accepted == 1
        assert counts(pool) == (0, 1, 0)
    assert server.requests[0] == (
        b"POST /mcp HTTP/1.1\r\nHost: mcp.example\r\nAccept-Encoding: identity\r\n"
        b"Content-Type: application/json\r\nContent-Length: 3\r\n\r\none"
    )


async def test_content_length_sent_only_with_body() -> None:
    async with serving(echo) as server, pool_on(server) as pool:
        await get(pool, "http://mcp.example:81/a?b=c#d")
        await post(pool, b"")
    assert server.requests[0] == b"GET /a?b=c HTTP/1.1\r\nHost: mcp.example:81\r\nAccept-Encoding: identity\r\n\r\n"
    assert b"Content-Length: 0\r\n" in server.requests[1]


async def test_concurrent_requests_use_own_connections() -> None:
    async with serving(echo) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, (), b"1") as one, pool.request("POST", URL, (), b"2") as two:
            assert counts(pool) == (2, 0, 0)
            assert (await two.read(10), await one.read(10)) == (b"2", b"1")
        assert counts(pool) == (0, 2, 0)
        assert repr(pool) == "<HttpPool: 0 busy, 2 idle, 0 waiting>"


async def test_response_head_and_url_readable() -> None:
    async with (
        serving(respond_and_close(b"HTTP/1.1 404 Gone Away\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n")) as server,
        pool_on(server) as pool,
        pool.request("GET", URL + "?key=secret") as response,
    ):
        assert response.head.status == 404
        assert response.head.headers.get("x-a") == "1"
        assert response.url == URL + "?key=secret"
        assert repr(response) == "<PooledResponse 404 of http://mcp.example/mcp>"


async def test_host_header_of_caller_replaces_default() -> None:
    async with serving(echo) as server, pool_on(server) as pool, pool.request("GET", URL, [("host", "other.example")]):
        pass
    assert server.requests[0].startswith(b"GET /mcp HTTP/1.1\r\nhost: other.example\r\nAccept")


async def test_response_left_unfinished_closes_connection() -> None:
    async with (
        serving(respond_and_wait(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal"), echo) as server,
        pool_on(server) as pool,
    ):
        async with pool.request("POST", URL, (), b"x") as response:
            assert await response.receive_some() == b"hal"
        assert counts(pool) == (0, 0, 0)
        assert await post(pool) == b"hello"
        assert (server.accepted, server.gone) == (2, 1)
        error = await connection_error(response.receive_some())
        assert "was left before its end" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n2\r\nre\r\n0\r\n\r\n",
    ],
)
async def test_response_received_but_unread_keeps_connection(answer: bytes) -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(answer)

    async with serving(script) as server, pool_on(server) as pool:
        for _ in range(2):
            async with pool.request("POST", URL, (), b"x"):
                pass
        assert server.accepted == 1


async def test_response_end_readable_repeatedly() -> None:
    async with serving(echo) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, (), b"x") as response:
            assert await response.read(9) == b"x"
            assert counts(pool) == (0, 1, 0)
            assert await response.receive_some() == b""
            assert await response.read(9) == b""
        assert await response.receive_some() == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: max=9, timeout=1\r\n\r\nok",
    ],
    ids=["close requested", "HTTP/1.0", "extra data", "timeout below margin"],
)
async def test_connection_with_unsafe_response_not_reused(answer: bytes) -> None:
    async with serving(respond_and_wait(answer), echo) as server, pool_on(server) as pool:
        assert await get(pool) == b"ok"
        assert counts(pool) == (0, 0, 0)
        assert await post(pool) == b"hello"
        assert server.accepted == 2


async def test_body_without_length_ends_with_connection() -> None:
    async with serving(respond_and_close(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as server, pool_on(server) as pool:
        assert await get(pool) == b"all of it"
        assert counts(pool) == (0, 0, 0)


async def test_idle_connection_expired_closed(mock_clock: MockClock) -> None:
    async with serving(echo) as server, pool_on(server) as pool:
        await post(pool)
        mock_clock.jump(3.9)
        await post(pool)
        assert server.accepted == 1
        mock_clock.jump(4)
        await post(pool)
        assert server.accepted == 2
        assert counts(pool) == (0, 1, 0)


async def test_idle_connection_keep_alive_timeout_respected(mock_clock: MockClock) -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.answer(b"ok", b"Keep-Alive: timeout=75")

    async with serving(script) as server, pool_on(server) as pool:
        await post(pool)
        mock_clock.jump(59)
        await post(pool)
        assert server.accepted == 1
        mock_clock.jump(60)
        await post(pool)
        assert server.accepted == 2


async def test_idle_connections_over_limit_closed() -> None:
    async with serving(echo) as server, pool_on(server, idle_kept=1) as pool:
        async with pool.request("POST", URL, (), b"1"), pool.request("POST", URL, (), b"2"):
            pass
        assert counts(pool) == (0, 1, 0)
        assert len(pool._open) == 1


# Connections that end.


async def wait_until_readable(pool: HttpPool) -> None:
    for connection in pool._open:
        await trio.lowlevel.wait_readable(connection._socket)


async def test_idle_connection_closed_by_server_not_reused() -> None:
    async def leave(peer: Peer) -> None:
        """Close the connection."""

    async with serving(after_one(leave), after_one(leave), echo) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, (), b"x") as one, pool.request("POST", URL, (), b"y") as two:
            await one.read(9)
            await two.read(9)
        assert counts(pool) == (0, 2, 0)
        await wait_until_readable(pool)
        assert await post(pool, b"z") == b"z"
        assert server.accepted == 3
        assert counts(pool) == (0, 1, 0)


async def test_idle_connection_with_unexpected_data_not_reused() -> None:
    async def send_unexpectedly(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await peer.request()

    async with serving(after_one(send_unexpectedly), echo) as server, pool_on(server) as pool:
        await post(pool)
        await wait_until_readable(pool)
        assert await post(pool) == b"hello"
        assert server.accepted == 2


async def read_and_leave(peer: Peer) -> None:
    await peer.request()


async def test_post_received_before_close_not_retried() -> None:
    async with serving(after_one(read_and_leave), echo) as server, pool_on(server) as pool:
        await post(pool)
        error = await connection_error(post(pool))
        assert (error.sent, error.begun) == (True, False)
        assert str(error) == "the connection to http://mcp.example ended without a response"
        assert server.accepted == 1
        assert counts(pool) == (0, 0, 0)


async def test_get_received_before_close_retried_once() -> None:
    async with serving(after_one(read_and_leave), echo) as server, pool_on(server) as pool:
        await post(pool)
        assert await get(pool) == b"ok"
        assert server.accepted == 2


async def test_retry_uses_new_connection() -> None:
    async with serving(after_one(read_and_leave), after_one(read_and_leave), echo) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, (), b"x"), pool.request("POST", URL, (), b"y"):
            pass
        assert counts(pool) == (0, 2, 0)
        assert await get(pool) == b"ok"
        assert counts(pool) == (0, 2, 0)
        assert server.accepted == 3
        assert len(server.requests) == 4


async def test_get_on_new_connection_not_retried() -> None:
    async with serving(after_one(read_and_leave), read_and_leave, echo) as server, pool_on(server) as pool:
        await post(pool)
        error = await connection_error(get(pool))
        assert (error.sent, error.begun) == (True, False)
        assert server.accepted == 2


async def test_get_with_partial_response_not_retried() -> None:
    async with serving(after_one(respond_and_close(b"HTTP/1.1 2")), echo) as server, pool_on(server) as pool:
        await post(pool)
        error = await connection_error(get(pool))
        assert (error.sent, error.begun) == (True, True)
        assert server.accepted == 1


async def reset_during_request(peer: Peer) -> None:
    await peer.stream.receive_some(1)
    peer.reset()


async def test_post_incompletely_sent_retried() -> None:
    async with serving(after_one(reset_during_request), echo) as server, pool_on(server) as pool:
        await post(pool)
        async with pool.request("POST", URL, (), BIG) as response:
            assert len(await response.read(len(BIG))) == len(BIG)
        assert server.accepted == 2


async def test_post_incompletely_sent_on_new_connection_raises() -> None:
    async with serving(reset_during_request, echo) as server, pool_on(server) as pool:
        error = await connection_error(post(pool, BIG))
        assert (error.sent, error.begun) == (False, False)
        assert "ended while the request was sent" in str(error)
        assert server.accepted == 1
        assert counts(pool) == (0, 0, 0)


async def test_response_before_request_end_returned() -> None:
    async def reject(peer: Peer) -> None:
        await peer.stream.receive_some(1)
        await peer.answer(b"too long", status=b"413 Content Too Large")

    async with serving(reject, echo) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, (), BIG) as response:
            assert response.head.status == 413
            assert await response.read(99) == b"too long"
        assert counts(pool) == (0, 0, 0)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200", "ended before the response was complete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "does not carry HTTP/1.1: illegal status line"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "does not carry HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "conflicting Content-Length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "does not carry HTTP/1.1"),
        (TWO_LENGTHS, "sent a response with both Content-Length and Transfer-Encoding"),
        (TWO_LENGTHS.replace(b"HTTP/1.1", b"HTTP/1.0"), "both Content-Length and Transfer-Encoding"),
        (TWO_LENGTHS.replace(b"200 OK", b"404 Not Found"), "both Content-Length and Transfer-Encoding"),
        (b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "does not carry HTTP/1.1: the response is HTTP/2.0"),
        (b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", "the response is HTTP/1.2"),
        (b"HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok", "the response is HTTP/0.9"),
        (b"HTTP/2.0 102 Wait\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "the response is HTTP/2.0"),
        (b"HTTP/1.1 102 Wait\r\n\r\n" * 17, "more than 16 informational responses"),
        (b"X" * 3000 + b"\r\n\r\n", "does not carry HTTP/1.1: illegal status line"),
    ],
)
async def test_invalid_response_head_closes_connection(answer: bytes, reason: str) -> None:
    async with serving(respond_and_close(answer)) as server, pool_on(server) as pool:
        error = await connection_error(post(pool))
        assert reason in str(error)
        assert len(str(error)) < 400
        assert (error.sent, error.begun) == (True, True)
        assert counts(pool) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"Content-Length: 9\r\n\r\nhal", "ended before the response was complete"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhal", "ended before the response was complete"),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nhal\r\nzz\r\n", "illegal chunk header"),
    ],
)
async def test_truncated_or_invalid_body_raises(body: bytes, reason: str) -> None:
    async with (
        serving(respond_and_close(b"HTTP/1.1 200 OK\r\n" + body)) as server,
        pool_on(server) as pool,
        pool.request("GET", URL) as response,
    ):
        error = await connection_error(response.read(99))
        assert reason in str(error)
        assert error.sent
        assert counts(pool) == (0, 0, 0)


async def test_invalid_unread_body_closes_connection() -> None:
    async with (
        serving(respond_and_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")) as server,
        pool_on(server) as pool,
    ):
        async with pool.request("GET", URL):
            pass
        assert counts(pool) == (0, 0, 0)


async def test_informational_responses_skipped() -> None:
    informational = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 8
    async with (
        serving(respond_and_close(informational + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as server,
        pool_on(server) as pool,
    ):
        assert await get(pool) == b"ok"


async def test_connection_reset_raises() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with serving(script) as server, pool_on(server) as pool:
        error = await connection_error(post(pool))
        assert "broke before the response was complete" in str(error)
        assert (error.sent, error.begun) == (True, False)


# Bounds.


@pytest.mark.parametrize("size", [2_000, 40_000], ids=["in one piece", "endless"])
async def test_response_head_over_limit_raises(size: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nX: " + b"x" * size + b"\r\n\r\n"
    async with serving(respond_and_close(head)) as server, pool_on(server, limits=Limits(header_bytes=1_024)) as pool:
        with pytest.raises(LimitExceeded) as refused:
            await get(pool)
        assert refused.value.setting == "Limits.header_bytes"
        assert refused.value.allowed == 1_024
        assert counts(pool) == (0, 0, 0)


async def test_body_received_with_head_not_counted_as_head() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5_000
    async with serving(respond_and_close(answer)) as server, pool_on(server, limits=Limits(header_bytes=1_024)) as pool:
        assert len(await get(pool)) == 5_000


async def test_chunk_header_over_limit_raises() -> None:
    response_bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 5_000
    async with (
        serving(respond_and_wait(response_bytes)) as server,
        pool_on(server, limits=Limits(header_bytes=1_024)) as pool,
        pool.request("GET", URL) as response,
    ):
        with pytest.raises(LimitExceeded, match=r"Limits\.header_bytes"):
            await response.read(99)
        assert counts(pool) == (0, 0, 0)


@pytest.mark.parametrize(
    "body", [b"Content-Length: 20\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n14\r\n" + b"x" * 20 + b"\r\n"]
)
async def test_body_over_limit_raises(body: bytes) -> None:
    async with serving(respond_and_wait(b"HTTP/1.1 200 OK\r\n" + body)) as server, pool_on(server) as pool:
        async with pool.request("GET", URL) as response:
            with pytest.raises(LimitExceeded) as refused:
                await response.read(19)
        assert (refused.value.observed, refused.value.setting) == (20, "Limits.message_bytes")
        assert counts(pool) == (0, 0, 0)


async def test_chunked_body_in_pieces_read() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhal\r\n")
        await wait_all_tasks_blocked()
        await peer.send(b"2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n")

    async with serving(script) as server, pool_on(server) as pool:
        assert await get(pool) == b"hallo"


async def test_encoded_body_rejected_with_head_readable() -> None:
    async with (
        serving(respond_and_wait(b"HTTP/1.1 401 No\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")) as server,
        pool_on(server) as pool,
        pool.request("GET", URL) as response,
    ):
        assert response.head.status == 401
        with pytest.raises(HttpFailure, match="responded with the content encoding 'gzip'") as refused:
            await response.read(99)
        assert refused.value.status == 401


async def test_identity_content_encoding_accepted() -> None:
    async with (
        serving(
            respond_and_close(b"HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\nContent-Length: 1\r\n\r\nx")
        ) as server,
        pool_on(server) as pool,
    ):
        assert await get(pool) == b"x"


async def test_streams_leave_connections_for_calls() -> None:
    async def script(peer: Peer) -> None:
        if b"GET" in await peer.request():
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            await peer.answer()
        await peer.request()

    async with (
        serving(script) as server,
        pool_on(server, limits=Limits(connections=3)) as pool,
        pool.request("GET", URL, use=Use.STREAM),
    ):
        with pytest.raises(LimitExceeded) as refused:
            async with pool.request("GET", URL, use=Use.STREAM):
                pass
        assert refused.value.setting == "Limits.connections"
        async with pool.request("POST", URL, (), b"call"):
            assert await post(pool, use=Use.SIDE) == b"ok"


# Waiting and cancelling.


async def test_waiting_calls_served_in_order() -> None:
    order: list[int] = []

    async def call(pool: HttpPool, number: int) -> None:
        await post(pool)
        order.append(number)

    async with serving(echo) as server, pool_on(server, per_origin=1) as pool:
        async with trio.open_nursery() as nursery, pool.request("POST", URL, (), b"x"):
            for number in range(5):
                nursery.start_soon(call, pool, number)
                await wait_all_tasks_blocked()
            assert counts(pool) == (1, 0, 5)
        assert order == [0, 1, 2, 3, 4]
        assert server.accepted == 1


async def test_cancelled_waiting_call_passes_slot_on() -> None:
    bodies: list[bytes] = []

    async def call(pool: HttpPool, scope: trio.CancelScope, body: bytes) -> None:
        with scope:
            bodies.append(await post(pool, body))

    first, second = trio.CancelScope(), trio.CancelScope()
    async with (
        serving(echo) as server,
        pool_on(server, per_origin=1) as pool,
        trio.open_nursery() as nursery,
        pool.request("POST", URL, (), b"x"),
    ):
        nursery.start_soon(call, pool, first, b"1")
        await wait_all_tasks_blocked()
        nursery.start_soon(call, pool, second, b"2")
        await wait_all_tasks_blocked()
        first.cancel()
        await wait_all_tasks_blocked()
        assert counts(pool) == (1, 0, 1)
    assert bodies == [b"2"]


async def test_call_cancelled_when_slot_granted_passes_slot_on() -> None:
    async def call(pool: HttpPool, scope: trio.CancelScope) -> None:
        with scope:
            await post(pool)

    scope = trio.CancelScope()
    async with serving(echo) as server, pool_on(server, per_origin=1) as pool, trio.open_nursery() as nursery:
        async with pool.request("POST", URL, (), b"x") as response:
            nursery.start_soon(call, pool, scope)
            await wait_all_tasks_blocked()
            await response.read(9)
            scope.cancel()
        await wait_all_tasks_blocked()
        assert counts(pool)[0] == 0
        assert await post(pool) == b"hello"


async def test_cancelled_call_closes_connection_and_frees_slot() -> None:
    async def silent(peer: Peer) -> None:
        assert await peer.request()
        assert not await peer.request()

    async with serving(silent, echo) as server, pool_on(server, per_origin=1) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(post, pool)
            await wait_all_tasks_blocked()
            assert counts(pool) == (1, 0, 0)
            nursery.cancel_scope.cancel()
        assert counts(pool) == (0, 0, 0)
        assert not pool._open
        assert await post(pool) == b"hello"
        assert server.gone == 1


async def test_cancelled_read_loses_no_data() -> None:
    go_on = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
        await go_on.wait()
        await peer.send(b"lt")

    async with serving(script) as server, pool_on(server) as pool, pool.request("GET", URL) as response:
        assert await response.receive_some() == b"ha"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(response.receive_some)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        go_on.set()
        assert await response.read(9) == b"lt"


# Opening.


async def test_connect_refused_raises_with_reason() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    pool = HttpPool(proxies=False)
    error = await connection_error(post(pool, url=f"http://127.0.0.1:{port}/mcp"))
    assert str(error) == f"cannot connect to http://127.0.0.1:{port}: Connection refused"
    assert not error.sent
    assert counts(pool) == (0, 0, 0)


async def test_connect_failures_of_addresses_reported_once() -> None:
    async def connect(host: str, port: int) -> trio.SocketStream:
        refused, unreachable = ConnectionRefusedError(111, "refused"), OSError(101, "unreachable")
        raise OSError("all failed") from ExceptionGroup("", [refused, unreachable, refused])

    error = await connection_error(post(HttpPool(proxies=False, connect=connect)))
    assert str(error) == "cannot connect to http://mcp.example: Connection refused; Network is unreachable"


async def test_connect_unknown_name_raises() -> None:
    async def connect(host: str, port: int) -> trio.SocketStream:
        raise socket.gaierror(-2, "Name or service not known")

    error = await connection_error(post(HttpPool(proxies=False, connect=connect)))
    assert str(error) == "cannot connect to http://mcp.example: Name or service not known"


async def test_connect_deadline_passed_raises(autojump_clock: MockClock) -> None:
    async def connect(host: str, port: int) -> trio.SocketStream:
        await trio.sleep_forever()
        raise AssertionError

    pool = HttpPool(proxies=False, connect=connect, connect_seconds=7)
    with pytest.raises(RequestTimeout, match=r"no connection to http://mcp\.example: the connect deadline of 7 s"):
        await post(pool)
    assert counts(pool) == (0, 0, 0)


async def test_connection_opened_during_close_closed() -> None:
    go_on = trio.Event()

    async with serving(echo) as server:

        async def connect(host: str, port: int) -> trio.SocketStream:
            await go_on.wait()
            return await server.connect(host, port)

        pool = HttpPool(proxies=False, connect=connect)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection_error, post(pool))
            await wait_all_tasks_blocked()
            await pool.aclose()
            go_on.set()
        assert not pool._open
        assert not server.requests


# Closing.


async def test_close_ends_running_waiting_and_later_requests() -> None:
    errors: list[HttpConnectionEnded] = []

    async def call(pool: HttpPool) -> None:
        errors.append(await connection_error(post(pool)))

    async with serving(read_and_wait) as server, pool_on(server, per_origin=1) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, pool)
            await wait_all_tasks_blocked()
            nursery.start_soon(call, pool)
            await wait_all_tasks_blocked()
            assert counts(pool) == (1, 0, 1)
            await pool.aclose()
        assert sorted((str(error), error.sent) for error in errors) == [
            ("the connection to http://mcp.example was closed by this side", True),
            ("the connections of this client are closed", False),
        ]
        assert not (await connection_error(post(pool))).sent
        await pool.aclose()


async def read_and_wait(peer: Peer) -> None:
    while await peer.request():
        pass


async def test_close_does_not_retry_get() -> None:
    async with serving(after_one(read_and_wait), echo) as server, pool_on(server) as pool:
        await post(pool)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection_error, get(pool))
            await wait_all_tasks_blocked()
            await pool.aclose()
        assert server.accepted == 1


async def test_close_when_slot_granted_ends_request() -> None:
    async with serving(echo) as server, pool_on(server, per_origin=1) as pool:
        async with trio.open_nursery() as nursery:
            async with pool.request("POST", URL, (), b"x"):
                nursery.start_soon(connection_error, post(pool))
                await wait_all_tasks_blocked()
            await pool.aclose()
        assert counts(pool) == (0, 0, 0)
        assert len(server.requests) == 1


async def test_close_keeps_completed_response() -> None:
    async with serving(echo) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, (), b"x") as response:
            await response.receive_some()
            await pool.aclose()
            assert await response.receive_some() == b""
        assert counts(pool) == (0, 0, 0)


async def test_routes_bounded() -> None:
    async with serving(echo) as server, pool_on(server, idle_kept=1) as pool:
        for number in range(1_100):
            pool._route(parse_url(f"http://host-{number}.example/"))
        assert len(pool._routes) <= 1_000
        assert await post(pool) == b"hello"


# Redirects.


async def test_redirect_repeats_body_and_headers() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"", b"Location: /mcp/", status=b"307 Temporary Redirect")
        await echo(peer)

    async with serving(script) as server, pool_on(server) as pool:
        async with pool.request("POST", URL, [("Authorization", "Bearer t")], b"body") as response:
            assert response.url == "http://mcp.example/mcp/"
            assert await response.read(9) == b"body"
        assert server.accepted == 1
    assert server.requests[1] == server.requests[0].replace(b"/mcp ", b"/mcp/ ")


async def test_redirect_to_other_origin_raises() -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.answer(b"", b"Location: http://evil.example/mcp", status=b"308 Permanent Redirect")

    async with serving(script) as server, pool_on(server) as pool:
        with pytest.raises(HttpFailure, match=r"another origin, http://evil\.example") as refused:
            await post(pool)
        assert refused.value.status == 308
        assert len(server.requests) == 1
        assert counts(pool) == (0, 1, 0)


async def test_redirect_loop_raises_after_limit() -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.answer(b"", b"Location: /mcp", status=b"307 Temporary Redirect")

    async with serving(script) as server, pool_on(server) as pool:
        with pytest.raises(HttpFailure, match="after 5 redirects"):
            await post(pool)
        assert len(server.requests) == 6


async def test_304_returned() -> None:
    async with (
        serving(respond_and_close(b"HTTP/1.1 304 Not Modified\r\n\r\n")) as server,
        pool_on(server) as pool,
        pool.request("GET", URL) as response,
    ):
        assert response.head.status == 304


# Requests that cannot be sent.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Token", "secret\r\nX-Evil: 1"),
        ("X-Token", "secret\n"),
        ("X-Token", " secret"),
        ("X-Token", "secret\0"),
        ("X-Token", "secret\N{SNOWMAN}"),
        ("X Token", "secret"),
        ("", "secret"),
        ("Transfer-Encoding: chunked, x", "secret"),
        ("X-Token: a\r\nX", "secret"),
        ("X-Tökén", "secret"),
        ("X-Token:", "secret"),
    ],
)
async def test_invalid_header_named_without_value(name: str, value: str) -> None:
    pool = HttpPool(proxies=False)
    with pytest.raises(LocalProtocolError) as refused:
        async with pool.request("POST", URL, [("A", "b"), (name, value)], b""):
            pass
    assert f"cannot send the header {name!r}" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["Content-Length", "transfer-encoding", "Connection", "Accept-Encoding", "Expect", "Proxy-Authorization"]
)
async def test_connection_headers_of_caller_rejected(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="is set by the connection"):
        async with HttpPool(proxies=False).request("POST", URL, [(name, "1")], b""):
            pass


async def test_invalid_method_or_url_rejected() -> None:
    pool = HttpPool(proxies=False)
    with pytest.raises(LocalProtocolError, match="'GE T' is not an HTTP method"):
        async with pool.request("GE T", URL):
            pass
    with pytest.raises(LocalProtocolError, match="http:// or https://"):
        await get(pool, "mcp.example")


async def test_unentered_exchange_exit_allowed() -> None:
    exchange = HttpPool(proxies=False).request("GET", "mcp.example")
    await exchange.__aexit__(None, None, None)


async def test_header_values_empty_or_latin_1_sent() -> None:
    async with serving(echo) as server, pool_on(server) as pool, pool.request("GET", URL, [("A", ""), ("B", "é x\ty")]):
        pass
    assert b"A: \r\nB: \xe9 x\ty\r\n" in server.requests[0]


def test_pool_import_loads_no_http_dependencies() -> None:
    code = "import sys, mcp_core.trio.http_client.pool; print({'h11', 'truststore'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
