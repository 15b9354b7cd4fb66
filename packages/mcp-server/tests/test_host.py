"""The embedded HTTP host over streams in memory: requests, responses, slow and failing peers, companions."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import h11
import pytest
import trio
import trio.testing
from http_hosts import RawHttp
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_core.http.messages import Headers
from mcp_core.limits import Limits
from mcp_server.asgi import COMPANION, CONVERT_HEADERS, Application, Receive, Scope, Send, StartLater
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts

TIMEOUT = 1_000
"""Seconds of the mock clock for one test."""

Clock = trio.testing.MockClock


# --- applications ----------------------------------------------------------------------------------------------------


async def body_of(receive: Receive) -> bytes | None:
    """Return the whole body; `None` when the client disconnected before its end."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message["body"]
        assert type(part) is bytes
        body += part
        if not message["more_body"]:
            return body


async def answer(send: Send, body: bytes, status: int = 200, **headers: bytes) -> None:
    pairs = [(name.encode(), value) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with the method, the path and the body of the request."""
    body = await body_of(receive)
    if body is not None:
        await answer(send, f"{scope['method']} {scope['path']} ".encode() + body)


async def reject_unread(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with 403 without reading the body."""
    await answer(send, b"no", 403)


class Recorder:
    """An application that records scopes and bodies. Each request runs the next of `apps`; without one the response is
    short.
    """

    def __init__(self, *apps: Application) -> None:
        self.apps = list(apps)
        self.scopes: list[Scope] = []
        self.bodies: list[bytes | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if self.apps:
            await self.apps.pop(0)(scope, receive, send)
            return
        self.bodies.append(await body_of(receive))
        if self.bodies[-1] is not None:
            await answer(send, b"ok")


# --- the testbed ------------------------------------------------------------------------------------------------------


class HostTestbed:
    """A running host, and its clients."""

    def __init__(self, host: HttpHost, nursery: trio.Nursery) -> None:
        self.host = host
        self.nursery = nursery

    def client(self, *, strict: bool = False) -> RawHttp:
        """Open a connection. A write on a strict one blocks until the host has read it."""
        pair = trio.testing.lockstep_stream_pair() if strict else trio.testing.memory_stream_pair()
        ours, theirs = pair
        self.nursery.start_soon(partial(self.host.serve_stream, theirs, client=("192.0.2.1", 5)))
        return RawHttp(ours)


@asynccontextmanager
async def hosted(
    app: Application, *, limits: Limits | None = None, timeouts: HostTimeouts | None = None
) -> AsyncIterator[HostTestbed]:
    with trio.fail_after(TIMEOUT):
        async with trio.open_nursery() as nursery:
            host = HttpHost(app, limits=limits or Limits(), timeouts=timeouts)
            await nursery.start(host.run)
            yield HostTestbed(host, nursery)
            nursery.cancel_scope.cancel()


async def check_rejected(client: RawHttp, status: int, text: str) -> None:
    """Check that the client receives an error response and that the connection then ends."""
    answer = await client.answer()
    assert answer.status == status, answer.body
    assert text in answer.body.decode()
    assert answer.headers["connection"] == "close"
    assert await client.closed()


async def write_until_broken(client: RawHttp, data: bytes, pause: float) -> int:
    """Write the same data repeatedly, and return how often that succeeded."""
    for count in itertools.count():
        try:
            await client.write(data)
        except trio.BrokenResourceError:
            return count
        await trio.sleep(pause)
    raise AssertionError("the connection does not end")


# --- requests --------------------------------------------------------------------------------------------------------


async def test_scope_of_request_has_asgi_members(autojump_clock: Clock) -> None:
    recorder = Recorder()
    async with hosted(recorder) as testbed:
        client = testbed.client()
        await client.write(
            b"POST /a%20b%2Fc/?x=%20&y HTTP/1.1\r\nHost: h\r\nX-A:  one \r\nX-a: two\r\nContent-Length: 0\r\n\r\n"
        )
        await client.answer()
    (scope,) = recorder.scopes
    extensions = scope.pop("extensions")
    assert isinstance(extensions, dict)
    assert list(extensions) == [COMPANION]
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/a b/c/",
        "raw_path": b"/a%20b%2Fc/",
        "query_string": b"x=%20&y",
        "root_path": "",
        "headers": [(b"host", b"h"), (b"x-a", b"one"), (b"x-a", b"two"), (b"content-length", b"0")],
        "client": ("192.0.2.1", 5),
        "server": None,
    }


async def test_requests_on_one_connection_answered(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        for number in range(5):
            got = await client.exchange("POST", f"/{number}", b"x" * number)
            assert got.body == f"POST /{number} ".encode() + b"x" * number
            assert "connection" not in got.headers
        assert testbed.host.connections == 1


async def test_scope_has_headers_of_its_own_request(autojump_clock: Clock) -> None:
    recorder = Recorder()
    sent = [
        (b"a", {"Authorization": "one"}),
        (b"a", {"Authorization": "one"}),
        (b"abc", {"Authorization": "one"}),
        (b"a", {"Authorization": "two"}),
        (b"a", {}),
        (b"a", {"Authorization": "one"}),
        (b"a", {"Authorization": "one", "X": "y"}),
        (b"a", {"Authorization": "x" * 5_000}),
        (b"a", {"Authorization": "x" * 5_000}),
        (b"a", {"Authorization": "one"}),
    ]
    async with hosted(recorder) as testbed:
        client = testbed.client()
        for body, headers in sent:
            await client.exchange("POST", "/", body, **headers)
    assert recorder.bodies == [body for body, _ in sent]
    for (body, headers), scope in zip(sent, recorder.scopes, strict=True):
        expected = [("host", "127.0.0.1"), *((name.lower(), value) for name, value in headers.items())]
        expected.append(("content-length", str(len(body))))
        raw, extensions = scope["headers"], scope["extensions"]
        assert raw == [(name.encode(), value.encode()) for name, value in expected]
        assert isinstance(extensions, dict)
        # The function of an earlier request is also right for its own headers.
        if CONVERT_HEADERS in extensions:
            assert extensions[CONVERT_HEADERS](raw) == Headers(expected)
    # The second head with the same number of headers is kept, unless it is long.
    kept = [CONVERT_HEADERS in str(scope["extensions"]) for scope in recorder.scopes]
    assert kept == [False, True, True, True, False, False, False, False, False, True]


async def test_head_not_kept_by_idle_connection_and_slow_request(autojump_clock: Clock) -> None:
    def is_kept() -> bool:
        (connection,) = testbed.host._connections
        return connection.repeated_head is not None

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        assert is_kept()
        await trio.sleep(1)
        assert not is_kept()
        await answer(send, b"late")

    async with hosted(Recorder(echo, echo, wait, echo)) as testbed:
        client = testbed.client()
        await client.get()
        assert not is_kept()
        await client.get()
        assert is_kept()
        await trio.sleep(1)
        assert not is_kept()
        assert (await client.get()).body == b"late"
        assert (await client.get()).body == b"GET / "


async def test_pipelined_requests_answered_in_order(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(20)))
        for number in range(20):
            assert (await client.answer()).body == b"GET /%d " % number


PIPELINE = (
    b"POST /one HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
    b"\r\nPOST /two HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nX-T: 1\r\n\r\n"
    b"GET /three HTTP/1.1\r\nHost: h\r\n\r\n"
)


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, len(PIPELINE)), max_size=12).map(sorted))
async def test_requests_cut_at_any_byte_parsed(cuts: list[int]) -> None:
    recorder = Recorder()
    async with hosted(recorder) as testbed:
        client = testbed.client(strict=True)

        async def write() -> None:
            for start, end in zip([0, *cuts], [*cuts, len(PIPELINE)], strict=True):
                await client.write(PIPELINE[start:end])

        testbed.nursery.start_soon(write)
        for _ in range(3):
            assert (await client.answer()).body == b"ok"
    assert [scope["path"] for scope in recorder.scopes] == ["/one", "/two", "/three"]
    assert recorder.bodies == [b"hello", b"abcd", b""]


@pytest.mark.parametrize("end", [b"HTTP/1.0\r\n\r\n", b"HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"])
async def test_connection_close_request_closes_after_response(end: bytes, autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"GET / " + end)
        got = await client.answer()
        assert (got.body, got.headers["connection"]) == (b"GET / ", "close")
        assert await client.closed()


async def test_http_1_0_stream_ends_with_connection(autojump_clock: Clock) -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async with hosted(stream) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.0\r\n\r\n")
        got = await client.answer()
        assert (got.body, "transfer-encoding" in got.headers) == (b"onetwo", False)


async def test_upgrade_ignored(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        for _ in range(2):
            got = await client.get("/", Connection="upgrade", Upgrade="websocket")
            assert (got.status, got.body) == (200, b"GET / ")


async def test_absolute_request_target_passed_to_application(autojump_clock: Clock) -> None:
    recorder = Recorder()
    async with hosted(recorder) as testbed:
        client = testbed.client()
        await client.write(b"GET http://evil.example/mcp?a HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.answer()
    assert recorder.scopes[0]["path"] == "http://evil.example/mcp"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_head_response_has_no_body(method: str, autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        got = await client.exchange(method, "/")
        assert got.headers["content-length"] == str(len(f"{method} / "))
        assert (await client.get("/next")).body == b"GET /next "


# --- bodies ----------------------------------------------------------------------------------------------------------


async def test_expect_continue_when_body_read_sends_100(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert (await client.head("POST")).status == 100
        await client.write(b"bo")
        await trio.testing.wait_all_tasks_blocked()
        await client.write(b"dy")
        assert (await client.answer("POST")).body == b"POST / body"
        assert (await client.get("/next")).status == 200


async def test_expect_continue_with_chunked_body_sends_100_once(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.head("POST")).status == 100
        for piece in (b"4", b"\r", b"\nbody\r\n", b"0\r\n\r\n"):
            await client.write(piece)
            await trio.testing.wait_all_tasks_blocked()
        assert (await client.answer("POST")).body == b"POST / body"


async def test_expect_continue_when_body_unread_closes_connection(autojump_clock: Clock) -> None:
    async with hosted(reject_unread) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        got = await client.answer("POST")
        assert (got.status, got.headers["connection"]) == (403, "close")
        assert await client.closed()


async def test_small_unread_body_keeps_connection(autojump_clock: Clock) -> None:
    async with hosted(Recorder(reject_unread)) as testbed:
        client = testbed.client()
        got = await client.exchange("POST", "/", b"x" * 100)
        assert (got.status, "connection" in got.headers) == (403, False)
        assert (await client.get("/next")).status == 200


async def test_client_still_sending_reads_error_response(autojump_clock: Clock) -> None:
    async with hosted(reject_unread, limits=Limits(message_bytes=100_000)) as testbed:
        client = testbed.client(strict=True)
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n")
        # The client reads only after it has sent everything, and nothing is buffered in between.
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                for _ in range(9):
                    await client.write(b"x" * 10_000)

            nursery.start_soon(write)
            got = await client.answer("POST")
        assert (got.status, got.headers["connection"]) == (403, "close")
        await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert testbed.host.connections == 0


@pytest.mark.parametrize("pause", [0, 0.3])
async def test_unread_body_after_rejection_drained_within_bounds(pause: float, autojump_clock: Clock) -> None:
    async with hosted(reject_unread, limits=Limits(message_bytes=100_000)) as testbed:
        client = testbed.client(strict=True)
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.answer("POST")).status == 403
        start = trio.current_time()
        dropped = await write_until_broken(client, b"1\r\nx\r\n" * 1_000, pause)
        if pause:
            assert 2 <= trio.current_time() - start <= 2.5
        else:
            assert 16 <= dropped <= 18


async def test_response_started_before_body_is_read_is_sent(autojump_clock: Clock) -> None:
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        await send({"type": "http.response.body", "body": await body_of(receive) or b"?"})

    async with hosted(early) as testbed:
        client = testbed.client()
        assert (await client.exchange("POST", "/", b"known")).body == b"first known"
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nla")
        got = await client.head("POST")
        assert got.headers["connection"] == "close"
        await client.write(b"ter")
        assert [await client.part() for _ in range(3)] == [b"first ", b"later", b""]


async def test_body_in_tiny_chunks_yields_to_other_tasks(autojump_clock: Clock) -> None:
    switches = 0

    async def count() -> None:
        nonlocal switches
        while True:
            switches += 1
            await trio.lowlevel.checkpoint()

    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000)
        testbed.nursery.start_soon(count)
        await client.write(b"0\r\n\r\n")
        assert len((await client.answer("POST")).body) == 10_000 + len("POST / ")
        assert switches > 20


# --- invalid requests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, "this is TLS"),
        (b"hello\r\n\r\n", 400, "not a valid HTTP/1.1 request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400, "header"),
        (b"PRI * HTTP/2.0\r\nHost: h\r\n\r\n", 505, "HTTP/1.1"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "Content-Length"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400, "Content-Length"),
        (
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "Transfer-Encoding cannot be used with Content-Length",
        ),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "or HTTP/1.0"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "chunked"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "chunk header"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400, "chunk footer"),
    ],
)
async def test_invalid_request_returns_error_and_closes(
    data: bytes, status: int, text: str, autojump_clock: Clock
) -> None:
    recorder = Recorder()
    async with hosted(recorder) as testbed:
        client = testbed.client()
        await client.write(data)
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await check_rejected(client, status, text)
        assert (await testbed.client().get("/")).status == 200


async def test_error_response_for_invalid_request_is_short(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"no request " + b"x" * 5_000 + b"\r\n\r\n")
        got = await client.answer()
        assert len(got.body) < 300


@pytest.mark.parametrize("split", [False, True])
async def test_request_head_over_limit_returns_431(split: bool, autojump_clock: Clock) -> None:
    limits = Limits(header_bytes=1_024)
    async with hosted(echo, limits=limits) as testbed:
        fits, too_large = (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * count + b"\r\n\r\n" for count in (992, 993))
        assert len(fits) == 1_024
        client = testbed.client()
        await client.write(fits + b"GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert [(await client.answer()).status for _ in range(2)] == [200, 200]
        for piece in [too_large[:600], too_large[600:]] if split else [too_large]:
            await client.write(piece)
            await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await check_rejected(client, 431, "Limits.header_bytes")


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nHost: h\r\nX: ", b"GET / HTTP/1.1\r\n"])
async def test_request_head_without_end_returns_431_early(start: bytes, autojump_clock: Clock) -> None:
    async with hosted(echo, limits=Limits(header_bytes=4_096)) as testbed:
        client = testbed.client(strict=True)
        await client.write(start)
        sent = 0
        with trio.CancelScope() as writing:

            async def write() -> None:
                nonlocal sent
                while True:
                    await client.write(b"Xy: z\r\n" * 10 if start.endswith(b"\n") else b"x" * 70)
                    sent += 70

            testbed.nursery.start_soon(write)
            got = await client.answer()
            writing.cancel()
        assert got.status == 431
        assert sent < 10_000


@pytest.mark.parametrize("extra", [b"0\r\n" + b"X: y\r\n" * 10_000, b"5;" + b"x" * 50_000])
async def test_chunk_extensions_and_trailers_over_limit_return_431(extra: bytes, autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.write(extra)
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await check_rejected(client, 431, "Limits.header_bytes")


async def test_empty_lines_before_request_ignored(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked()
        await client.write(b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer()).status == 200


# --- slow clients -----------------------------------------------------------------------------------------------------


async def test_silent_connection_closed_at_head_timeout(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(head=7)) as testbed:
        client = testbed.client()
        start = trio.current_time()
        assert await client.closed()
        assert trio.current_time() - start == pytest.approx(7, abs=0.2)


async def test_empty_lines_do_not_extend_head_timeout(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(head=7)) as testbed:
        client = testbed.client()
        start = trio.current_time()
        await write_until_broken(client, b"\r\n", 1)
        assert trio.current_time() - start <= 8


async def test_request_head_byte_by_byte_returns_408(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(head=7)) as testbed:
        client = testbed.client()
        head = b"GET / HTTP/1.1\r\nHost: hhhhhhhhhhhhhhhhhhh\r\n\r\n"
        for byte in head[:7]:
            await client.write(bytes([byte]))
            await trio.sleep(0.99)
        await trio.sleep(1)
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await check_rejected(client, 408, "HostTimeouts.head")


async def test_idle_connection_closed_at_idle_timeout(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(idle=50)) as testbed:
        client = testbed.client()
        for _ in range(3):
            await client.get("/")
            await trio.sleep(49)
        await client.get("/")
        start = trio.current_time()
        assert await client.closed()
        assert trio.current_time() - start == pytest.approx(50, abs=0.2)


async def test_body_below_minimum_rate_returns_408(autojump_clock: Clock) -> None:
    left = trio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) is None
        left.set()

    async with hosted(wait, timeouts=HostTimeouts(body=10, body_rate=100)) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
        start = trio.current_time()
        await write_until_broken(client, b"x", 1)
        assert left.is_set()
        # The body had the ten seconds, a tenth of a second that ten bytes earn, and two seconds to read the response.
        assert trio.current_time() - start == pytest.approx(12, abs=1.2)
        await check_rejected(client, 408, "HostTimeouts.body")


async def test_slow_body_above_minimum_rate_accepted(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(body=10, body_rate=100)) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12000\r\n\r\n")
        for _ in range(100):
            await trio.sleep(1)
            await client.write(b"x" * 120)
        assert (await client.answer("POST")).status == 200


async def test_application_time_not_counted_as_body_timeout(autojump_clock: Clock) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(100)
        first = await receive()
        await trio.sleep(100)
        assert first["body"] == b"on"
        assert await body_of(receive) == b"e"
        await answer(send, b"done")

    async with hosted(slow, timeouts=HostTimeouts(body=10)) as testbed:
        client = testbed.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\non")
        await trio.sleep(205)
        await client.write(b"e")
        assert (await client.answer("POST")).body == b"done"


async def test_client_that_reads_nothing_dropped_at_stall_timeout(autojump_clock: Clock) -> None:
    times: list[float] = []

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        times.append(trio.current_time())
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        times.append(trio.current_time())
        # A later send has no effect and does not raise.
        await send({"type": "http.response.body", "body": b"x" * 1_000_000})

    async with hosted(large, timeouts=HostTimeouts(stall=30)) as testbed:
        client = testbed.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(100)
        assert times[1] - times[0] == pytest.approx(30, abs=0.2)
        assert testbed.host.connections == 0
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.answer()


async def test_client_that_reads_slowly_receives_whole_body(autojump_clock: Clock) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"x" * 1_000_000)

    async with hosted(large, timeouts=HostTimeouts(stall=30)) as testbed:
        client = testbed.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.head()
        size = 0
        while data := await client.part():
            size += len(data)
            await trio.sleep(20)
        assert size == 1_000_000


async def test_response_time_of_application_unlimited(autojump_clock: Clock) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(900)
        await answer(send, b"at last")

    async with hosted(slow) as testbed:
        assert (await testbed.client().get("/")).body == b"at last"


async def test_infinite_timeouts_accepted(autojump_clock: Clock) -> None:
    unlimited = HostTimeouts(head=math.inf, body=math.inf, idle=math.inf, stall=math.inf, linger=math.inf)
    async with hosted(echo, timeouts=unlimited) as testbed:
        client = testbed.client()
        for piece in (b"POST / HTTP/1.1\r\n", b"Host: h\r\nContent-Length: 2\r\n\r\n", b"x", b"y"):
            await client.write(piece)
            await trio.sleep(200)
        assert (await client.answer("POST")).status == 200


# --- clients that disconnect ------------------------------------------------------------------------------------------


async def test_receive_when_client_disconnects_returns_http_disconnect(autojump_clock: Clock) -> None:
    disconnected = trio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""
        assert await receive() == {"type": "http.disconnect"}
        assert await receive() == {"type": "http.disconnect"}
        disconnected.set()

    async with hosted(wait) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(5)
        assert not disconnected.is_set()
        await client.aclose()
        await disconnected.wait()


async def test_half_closed_client_receives_response(autojump_clock: Clock) -> None:
    async with hosted(echo) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        assert (await client.answer()).status == 200


REQUEST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.parametrize("length", range(len(REQUEST) + 1))
async def test_disconnect_at_any_byte_leaves_host_running(
    length: int, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async def chatty(scope: Scope, receive: Receive, send: Send) -> None:
        if await body_of(receive) is None:
            return
        await send({"type": "http.response.start", "status": 200})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await trio.sleep(1)
        await send({"type": "http.response.body"})

    async with hosted(chatty) as testbed:
        client = testbed.client(strict=True)
        testbed.nursery.start_soon(client.write, REQUEST[:length])
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        await trio.sleep(30)
        assert testbed.host.connections == 0
        assert (await testbed.client().get("/")).body == b"xxx"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_request_received_during_response_answered_afterward(autojump_clock: Clock) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        with trio.move_on_after(10):
            while await receive() != {"type": "http.disconnect"}:
                pass
        await answer(send, b"first")

    async with hosted(Recorder(wait)) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(5)
        await client.write(b"GET / HTTP/1.1\r\nHos")
        await trio.sleep(2)
        await client.write(b"t: h\r\n\r\n")
        assert (await client.answer()).body == b"first"
        assert (await client.answer()).body == b"ok"


async def test_read_ahead_during_request_is_bounded(autojump_clock: Clock) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        with trio.move_on_after(10):
            while await receive() != {"type": "http.disconnect"}:
                pass
        await answer(send, b"first")

    async with hosted(wait) as testbed:
        client = testbed.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        sent = 0
        with trio.move_on_after(5):
            while True:
                await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 100)
                sent += 2_800
        assert 4 * 1_024 <= sent < 8 * 1_024
        assert (await client.answer()).body == b"first"


# --- applications that fail -------------------------------------------------------------------------------------------


async def crash(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("secret")


async def crash_in_group(scope: Scope, receive: Receive, send: Send) -> None:
    raise ExceptionGroup("several", [ValueError("secret")])


async def send_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    pass


async def split_header(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"", location=b"a\r\nset-cookie: b")


async def push(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.push", "path": "/"})


async def send_invalid_status(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": "200"})


async def start_only(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200})


@pytest.mark.parametrize(
    "app", [crash, crash_in_group, send_nothing, split_header, push, send_invalid_status, start_only]
)
async def test_application_failure_before_response_returns_500(
    app: Application, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with hosted(Recorder(app)) as testbed:
        client = testbed.client()
        await client.write(b"GET /path?secret HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await check_rejected(client, 500, "internal server error")
        assert (await testbed.client().get("/")).status == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "GET /path" in record.getMessage()
    assert "secret" not in record.getMessage()


async def send_incomplete_body(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def fail_after_first_part(scope: Scope, receive: Receive, send: Send) -> None:
    await send_incomplete_body(scope, receive, send)
    raise ValueError("secret")


async def send_less_than_content_length(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    await send({"type": "http.response.body", "body": b"half"})


@pytest.mark.parametrize("app", [send_incomplete_body, fail_after_first_part, send_less_than_content_length])
async def test_incomplete_response_closes_connection_without_end(
    app: Application, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with hosted(app) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.head()
        assert await client.part() == b"half"
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.part()
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


async def test_concurrent_send_raises_busy_resource_error(autojump_clock: Clock) -> None:
    failed = trio.Event()

    async def mix(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        part = partial(send, {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError, match="another task is sending"):
                await part()
            failed.set()
        await send({"type": "http.response.body"})

    async with hosted(mix) as testbed:
        client = testbed.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await failed.wait()
        assert len((await client.answer()).body) == 100_000


async def test_send_cancelled_midway_ends_connection(autojump_clock: Clock) -> None:
    ended = trio.Event()

    async def give_up(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        assert await body_of(receive) == b""
        with trio.move_on_after(5):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        # The client is still connected, but nothing more can be sent to it.
        assert await receive() == {"type": "http.disconnect"}
        await send({"type": "http.response.body", "body": b"y"})
        ended.set()

    async with hosted(give_up) as testbed:
        client = testbed.client(strict=True)
        start = trio.current_time()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await ended.wait()
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.answer()
        assert trio.current_time() - start < 10


async def test_body_cancelled_before_send_is_not_sent(autojump_clock: Clock) -> None:
    async def cancel_first_part(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        with trio.CancelScope() as first_part:
            first_part.cancel()
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
        assert first_part.cancelled_caught
        await send({"type": "http.response.body", "body": b"second"})

    async with hosted(cancel_first_part) as testbed:
        got = await testbed.client().get("/")
        assert (got.body, got.headers["content-length"]) == (b"second", "6")


# --- companions ------------------------------------------------------------------------------------------------------


class AppWithCompanion:
    """An application that runs for some seconds, with a companion whose start and end it records."""

    def __init__(self, seconds: float, companion: Callable[[Receive], Awaitable[None]] | None = None) -> None:
        self.seconds = seconds
        self.companion = companion
        self.started_at: float | None = None
        self.cancelled = False
        self.companion_ended: list[bool] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = trio.current_time()
        assert await body_of(receive) == b""

        async def companion() -> None:
            self.started_at = trio.current_time() - begun
            try:
                if self.companion is not None:
                    await self.companion(receive)
                await trio.sleep_forever()
            except trio.Cancelled:
                self.cancelled = True
                raise

        start_later(scope)(companion)
        await trio.sleep(self.seconds)
        await answer(send, b"done")
        # The response is complete, so the companion must have ended.
        await trio.testing.wait_all_tasks_blocked()
        self.companion_ended.append(self.cancelled or self.started_at is None)


def start_later(scope: Scope) -> StartLater:
    extensions = scope["extensions"]
    assert isinstance(extensions, dict)
    function: StartLater = extensions[COMPANION]
    return function


async def test_short_request_starts_no_companion(autojump_clock: Clock) -> None:
    app = AppWithCompanion(0.05)
    async with hosted(app) as testbed:
        client = testbed.client()
        for _ in range(3):
            assert (await client.get("/")).body == b"done"
        await trio.sleep(20)
    assert app.started_at is None


async def test_long_request_runs_companion_until_response(autojump_clock: Clock) -> None:
    app = AppWithCompanion(5)
    async with hosted(app) as testbed:
        client = testbed.client()
        for _ in range(2):
            assert (await client.get("/")).body == b"done"
        await trio.testing.wait_all_tasks_blocked()
    assert app.companion_ended == [True, True]
    assert app.started_at == pytest.approx(0.1, abs=0.11)


async def test_companion_receives_http_disconnect(autojump_clock: Clock) -> None:
    left = trio.Event()

    async def watch(receive: Receive) -> None:
        assert await receive() == {"type": "http.disconnect"}
        left.set()

    async with hosted(AppWithCompanion(50, watch)) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(5)
        await client.aclose()
        await left.wait()


async def test_companion_that_receives_keeps_next_request_intact(autojump_clock: Clock) -> None:
    async def watch(receive: Receive) -> None:
        await receive()

    async with hosted(AppWithCompanion(5, watch)) as testbed:
        client = testbed.client()
        for _ in range(3):
            assert (await client.get("/")).body == b"done"


async def test_companion_failure_logged_and_response_sent(
    caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async def fail(receive: Receive) -> None:
        raise ValueError("companion")

    async with hosted(AppWithCompanion(5, fail)) as testbed:
        assert (await testbed.client().get("/")).body == b"done"
    assert "companion failed: request=GET /" in caplog.text


async def test_second_companion_raises_runtime_error(autojump_clock: Clock) -> None:
    async def two(scope: Scope, receive: Receive, send: Send) -> None:
        start = start_later(scope)
        start(trio.sleep_forever)
        with pytest.raises(RuntimeError, match="already has a companion"):
            start(trio.sleep_forever)
        await answer(send, b"done")

    async with hosted(two) as testbed:
        assert (await testbed.client().get("/")).body == b"done"


async def test_companion_scheduled_late_starts_immediately(autojump_clock: Clock) -> None:
    started = trio.Event()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(3)

        async def companion() -> None:
            started.set()

        start_later(scope)(companion)
        await started.wait()
        await answer(send, b"done")

    async with hosted(late) as testbed:
        assert (await testbed.client().get("/")).body == b"done"


async def test_next_request_waits_for_end_of_companion(autojump_clock: Clock) -> None:
    ended: list[float] = []

    async def first(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""

        async def companion() -> None:
            try:
                await receive()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.01)
                ended.append(trio.current_time())

        start_later(scope)(companion)
        await trio.sleep(2)
        await answer(send, b"first")

    async with hosted(Recorder(first)) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 2)
        assert (await client.answer()).body == b"first"
        assert not ended
        assert (await client.answer()).body == b"ok"
        assert ended


async def test_application_failure_cancels_companion(autojump_clock: Clock) -> None:
    ended = trio.Event()

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        async def companion() -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.set()

        start_later(scope)(companion)
        await trio.sleep(3)
        raise ValueError("broken")

    async with hosted(fail) as testbed:
        client = testbed.client()
        assert (await client.get("/")).status == 500
        assert ended.is_set()


# --- applications that run on after their response --------------------------------------------------------------------


class LongRunningApp:
    """An application that responds immediately, or after some seconds, and then runs until it is released."""

    def __init__(self, before: float = 0, *, watches: bool = False) -> None:
        self.before = before
        self.watches = watches
        self.release = trio.Event()
        self.ended = 0
        self.disconnects = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/quick":
            await answer(send, b"quick")
            return
        await body_of(receive)

        async def watch() -> None:
            assert (await receive())["type"] == "http.disconnect"
            self.disconnects += 1

        if self.before:
            start_later(scope)(watch)
            await trio.sleep(self.before)
        await answer(send, b"first")
        if self.watches:
            await watch()
        await self.release.wait()
        # The response is complete.
        assert await receive() == {"type": "http.disconnect"}
        self.ended += 1


@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("watches", [False, True])
async def test_application_running_after_response_frees_connection(
    before: float, watches: bool, autojump_clock: Clock
) -> None:
    app = LongRunningApp(before, watches=watches)
    async with hosted(app) as testbed:
        client = testbed.client()
        assert (await client.get("/")).body == b"first"
        start = trio.current_time()
        for _ in range(3):
            assert (await client.get("/quick")).body == b"quick"
        assert trio.current_time() - start < 1
        assert app.ended == 0
        # The task that still runs does not count as a connection.
        assert testbed.host.connections == 1
        app.release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert app.ended == 1
        assert testbed.host.connections == 1
        assert (await client.get("/quick")).body == b"quick"


async def test_pending_receive_returns_when_response_ends(autojump_clock: Clock) -> None:
    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.sleep(2)
            await answer(send, b"done")

    async with hosted(Recorder(both)) as testbed:
        client = testbed.client()
        assert (await client.get("/")).body == b"done"
        start = trio.current_time()
        for _ in range(3):
            assert (await client.get("/")).body == b"ok"
        assert trio.current_time() - start < 1


async def test_connection_waits_for_slow_companion_before_next_request(
    autojump_clock: Clock,
) -> None:
    ended = trio.Event()
    released = trio.Event()

    async def last(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""

        async def companion() -> None:
            try:
                await receive()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(3)
                ended.set()

        start_later(scope)(companion)
        await trio.sleep(2)
        await answer(send, b"first")
        await released.wait()

    async def second(scope: Scope, receive: Receive, send: Send) -> None:
        assert ended.is_set()
        await answer(send, b"second")

    async with hosted(Recorder(last, second)) as testbed:
        client = testbed.client()
        assert (await client.get("/")).body == b"first"
        assert (await client.get("/")).body == b"second"
        released.set()


async def test_pipelined_request_during_running_application_answered(autojump_clock: Clock) -> None:
    app = LongRunningApp(5)
    async with hosted(app) as testbed:
        client = testbed.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(2)
        await client.write(b"GET /quick HTTP/1.1\r\nHost: h\r\n\r\nGET /quick HT")
        assert (await client.answer()).body == b"first"
        assert (await client.answer()).body == b"quick"
        await client.write(b"TP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer()).body == b"quick"


class LateReader(trio.abc.HalfCloseableStream):
    """A stream that delivers its bytes a second after their arrival, even if the read is cancelled meanwhile.

    A task that reads a socket has such a moment between the report of the system and its next step.
    """

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = bytes(await self.stream.receive_some(max_bytes))
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def aclose(self) -> None:
        await self.stream.aclose()


async def test_request_read_while_previous_response_ends_answered(autojump_clock: Clock) -> None:
    released = trio.Event()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.sleep(5)
            await answer(send, b"first")
            await released.wait()

    async with hosted(Recorder(watching)) as testbed:
        ours, theirs = trio.testing.memory_stream_pair()
        testbed.nursery.start_soon(testbed.host.serve_stream, LateReader(theirs))
        client = RawHttp(ours)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        # The first request begins at 1 second and is answered at 6; the watcher of its client has the next one at 6.9.
        await trio.sleep(5.9)
        await client.write(b"GET /quick HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer()).body == b"first"
        assert (await client.answer()).body == b"ok"
        released.set()


@pytest.mark.parametrize("reason", ["the client closes", "the host is full", "the client left"])
async def test_connection_of_running_application_closed_when_not_reusable(reason: str, autojump_clock: Clock) -> None:
    app = LongRunningApp()
    async with hosted(app, limits=Limits(connections=1 if "full" in reason else 9)) as testbed:
        client = testbed.client()
        end = b"Connection: close\r\n" if "closes" in reason else b""
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n" + end + b"\r\n")
        if reason == "the client left":
            await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        assert (await client.answer()).body == b"first"
        start = trio.current_time()
        if reason != "the client left":
            assert await client.closed()
        assert trio.current_time() - start < 5
        await trio.sleep(5)
        app.release.set()
        await trio.sleep(1)
        assert (app.ended, testbed.host.connections) == (1, 0)


# --- the end of the host ----------------------------------------------------------------------------------------------


async def test_stopping_host_completes_started_requests(autojump_clock: Clock) -> None:
    async with hosted(Recorder(AppWithCompanion(5), AppWithCompanion(5))) as testbed:
        host = testbed.host
        idle, running, begun, unused = (testbed.client() for _ in range(4))
        await running.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(1)
        await begun.write(b"GET / HTT")
        await trio.sleep(1)
        host.stop()
        assert await idle.closed()
        assert await unused.closed()
        await begun.write(b"P/1.1\r\nHost: h\r\n\r\n")
        for client in (running, begun):
            got = await client.answer()
            assert (got.body, got.headers["connection"]) == (b"done", "close")
            assert await client.closed()
        await trio.testing.wait_all_tasks_blocked()
        assert host.connections == 0
        assert await testbed.client().closed()


async def test_host_run_returns_after_last_connection(autojump_clock: Clock) -> None:
    host = HttpHost(AppWithCompanion(5))
    async with trio.open_nursery() as nursery:
        ended = trio.Event()

        async def run(task_status: trio.TaskStatus[None]) -> None:
            await host.run(task_status=task_status)
            ended.set()

        await nursery.start(run)
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(host.serve_stream, theirs)
        client = RawHttp(ours)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(1)
        host.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set()
        assert (await client.answer()).body == b"done"
        await ended.wait()


async def test_start_soon_when_host_not_running_raises(autojump_clock: Clock) -> None:
    with pytest.raises(RuntimeError, match="host is not running"):
        HttpHost(echo).start_soon(trio.sleep_forever)


class FaultyStream(trio.abc.Stream):
    """A stream without data. Reading it fails, or closing it blocks."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("the host sent without a request")

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("the host waited to send")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise ValueError("not an error of streams")
        return b""

    async def aclose(self) -> None:
        try:
            if not self.fails:
                await trio.sleep_forever()
        finally:
            self.closed = True


async def test_connection_failure_logged_and_host_keeps_running(
    caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with hosted(echo) as testbed:
        stream = FaultyStream(fails=True)
        await testbed.host.serve_stream(stream)
        assert stream.closed
        assert "connection failed" in caplog.text
        assert (await testbed.client().get("/")).status == 200


async def test_blocked_close_cancelled_at_linger_timeout(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(linger=3)) as testbed:
        stream = FaultyStream()
        start = trio.current_time()
        await testbed.host.serve_stream(stream)
        assert stream.closed
        assert trio.current_time() - start == 3
