"""The embedded HTTP host over streams in memory: requests, answers, and what neither side may do to the other."""

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

from mcp_core.limits import Limits
from mcp_server.asgi import COMPANION, Application, Receive, Scope, Send, StartLater
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts

PATIENCE = 1_000
"""Seconds of the mock clock."""

Clock = trio.testing.MockClock


# --- applications ----------------------------------------------------------------------------------------------------


async def body_of(receive: Receive) -> bytes | None:
    """The whole body; `None` when the client left before its end."""
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
    """Answers with what it got."""
    body = await body_of(receive)
    if body is not None:
        await answer(send, f"{scope['method']} {scope['path']} ".encode() + body)


async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without asking for the body."""
    await answer(send, b"no", 403)


class Recorder:
    """Keeps the scopes and bodies that it got; for each request does what it is told next, or answers shortly."""

    def __init__(self, *behaviours: Application) -> None:
        self.behaviours = list(behaviours)
        self.scopes: list[Scope] = []
        self.bodies: list[bytes | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if self.behaviours:
            await self.behaviours.pop(0)(scope, receive, send)
            return
        self.bodies.append(await body_of(receive))
        if self.bodies[-1] is not None:
            await answer(send, b"ok")


# --- joining the two -------------------------------------------------------------------------------------------------


class Place:
    """A host that runs, and clients of it."""

    def __init__(self, host: HttpHost, nursery: trio.Nursery) -> None:
        self.host = host
        self.nursery = nursery

    def client(self, *, strict: bool = False) -> RawHttp:
        """A new connection; a strict one has no room for what was not read yet."""
        pair = trio.testing.lockstep_stream_pair() if strict else trio.testing.memory_stream_pair()
        ours, theirs = pair
        self.nursery.start_soon(partial(self.host.serve_stream, theirs, client=("192.0.2.1", 5)))
        return RawHttp(ours)


@asynccontextmanager
async def hosted(
    app: Application, *, limits: Limits | None = None, timeouts: HostTimeouts | None = None
) -> AsyncIterator[Place]:
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            host = HttpHost(app, limits=limits or Limits(), timeouts=timeouts)
            await nursery.start(host.run)
            yield Place(host, nursery)
            nursery.cancel_scope.cancel()


async def refused(client: RawHttp, status: int, text: str) -> None:
    """The client is told so, and that was it."""
    answer = await client.answer()
    assert answer.status == status, answer.body
    assert text in answer.body.decode()
    assert answer.headers["connection"] == "close"
    assert await client.closed()


async def write_until_broken(client: RawHttp, data: bytes, pause: float) -> int:
    """Writes the same again and again; says how often that was possible."""
    for count in itertools.count():
        try:
            await client.write(data)
        except trio.BrokenResourceError:
            return count
        await trio.sleep(pause)
    raise AssertionError("it never ends")


# --- requests --------------------------------------------------------------------------------------------------------


async def test_an_application_is_told_of_the_request(autojump_clock: Clock) -> None:
    recorder = Recorder()
    async with hosted(recorder) as place:
        client = place.client()
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


async def test_requests_follow_each_other_on_one_connection(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        for number in range(5):
            got = await client.ask("POST", f"/{number}", b"x" * number)
            assert got.body == f"POST /{number} ".encode() + b"x" * number
            assert "connection" not in got.headers
        assert place.host.connections == 1


async def test_requests_that_are_sent_ahead_are_answered_in_order(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
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
async def test_it_does_not_matter_how_the_bytes_are_cut(cuts: list[int]) -> None:
    recorder = Recorder()
    async with hosted(recorder) as place:
        client = place.client(strict=True)

        async def write() -> None:
            for start, end in zip([0, *cuts], [*cuts, len(PIPELINE)], strict=True):
                await client.write(PIPELINE[start:end])

        place.nursery.start_soon(write)
        for _ in range(3):
            assert (await client.answer()).body == b"ok"
    assert [scope["path"] for scope in recorder.scopes] == ["/one", "/two", "/three"]
    assert recorder.bodies == [b"hello", b"abcd", b""]


@pytest.mark.parametrize("end", [b"HTTP/1.0\r\n\r\n", b"HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"])
async def test_a_client_that_wants_one_answer_gets_one(end: bytes, autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"GET / " + end)
        got = await client.answer()
        assert (got.body, got.headers["connection"]) == (b"GET / ", "close")
        assert await client.closed()


async def test_an_old_client_gets_a_stream_that_ends_with_the_connection(autojump_clock: Clock) -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async with hosted(stream) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.0\r\n\r\n")
        got = await client.answer()
        assert (got.body, "transfer-encoding" in got.headers) == (b"onetwo", False)


async def test_an_upgrade_is_not_taken_up(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        for _ in range(2):
            got = await client.get("/", Connection="upgrade", Upgrade="websocket")
            assert (got.status, got.body) == (200, b"GET / ")


async def test_a_target_that_names_a_host_is_passed_on(autojump_clock: Clock) -> None:
    recorder = Recorder()
    async with hosted(recorder) as place:
        client = place.client()
        await client.write(b"GET http://evil.example/mcp?a HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.answer()
    assert recorder.scopes[0]["path"] == "http://evil.example/mcp"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_the_answer_to_head_has_no_body(method: str, autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        got = await client.ask(method, "/")
        assert got.headers["content-length"] == str(len(f"{method} / "))
        assert (await client.get("/next")).body == b"GET /next "


# --- bodies ----------------------------------------------------------------------------------------------------------


async def test_a_body_is_asked_for_when_the_client_waits_for_that(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert (await client.head("POST")).status == 100
        await client.write(b"bo")
        await trio.testing.wait_all_tasks_blocked()
        await client.write(b"dy")
        assert (await client.answer("POST")).body == b"POST / body"
        assert (await client.get("/next")).status == 200


async def test_a_body_is_asked_for_once(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.head("POST")).status == 100
        for piece in (b"4", b"\r", b"\nbody\r\n", b"0\r\n\r\n"):
            await client.write(piece)
            await trio.testing.wait_all_tasks_blocked()
        assert (await client.answer("POST")).body == b"POST / body"


async def test_a_body_that_nobody_asked_for_ends_the_connection(autojump_clock: Clock) -> None:
    async with hosted(deaf) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        got = await client.answer("POST")
        assert (got.status, got.headers["connection"]) == (403, "close")
        assert await client.closed()


async def test_a_small_body_that_was_refused_leaves_the_connection(autojump_clock: Clock) -> None:
    async with hosted(Recorder(deaf)) as place:
        client = place.client()
        got = await client.ask("POST", "/", b"x" * 100)
        assert (got.status, "connection" in got.headers) == (403, False)
        assert (await client.get("/next")).status == 200


async def test_a_client_that_still_sends_sees_why_it_was_refused(autojump_clock: Clock) -> None:
    async with hosted(deaf, limits=Limits(message_bytes=100_000)) as place:
        client = place.client(strict=True)
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n")
        # It reads nothing before it has sent all, and there is no room between the two.
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                for _ in range(9):
                    await client.write(b"x" * 10_000)

            nursery.start_soon(write)
            got = await client.answer("POST")
        assert (got.status, got.headers["connection"]) == (403, "close")
        await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert place.host.connections == 0


@pytest.mark.parametrize("pause", [0, 0.3])
async def test_what_a_refused_client_sends_is_dropped_for_a_while_only(pause: float, autojump_clock: Clock) -> None:
    async with hosted(deaf, limits=Limits(message_bytes=100_000)) as place:
        client = place.client(strict=True)
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.answer("POST")).status == 403
        start = trio.current_time()
        dropped = await write_until_broken(client, b"1\r\nx\r\n" * 1_000, pause)
        if pause:
            assert 2 <= trio.current_time() - start <= 2.5
        else:
            assert 16 <= dropped <= 18


async def test_an_answer_may_begin_before_the_body_is_read(autojump_clock: Clock) -> None:
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        await send({"type": "http.response.body", "body": await body_of(receive) or b"?"})

    async with hosted(early) as place:
        client = place.client()
        assert (await client.ask("POST", "/", b"known")).body == b"first known"
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nla")
        got = await client.head("POST")
        assert got.headers["connection"] == "close"
        await client.write(b"ter")
        assert [await client.part() for _ in range(3)] == [b"first ", b"later", b""]


async def test_a_body_in_the_smallest_of_chunks_lets_others_run(autojump_clock: Clock) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000)
        place.nursery.start_soon(count)
        await client.write(b"0\r\n\r\n")
        assert len((await client.answer("POST")).body) == 10_000 + len("POST / ")
        assert turns > 20


# --- what is no request ----------------------------------------------------------------------------------------------


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
async def test_what_is_no_request_is_refused_and_no_more(
    data: bytes, status: int, text: str, autojump_clock: Clock
) -> None:
    recorder = Recorder()
    async with hosted(recorder) as place:
        client = place.client()
        await client.write(data)
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await refused(client, status, text)
        assert (await place.client().get("/")).status == 200


async def test_what_was_wrong_is_told_in_short(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"no request " + b"x" * 5_000 + b"\r\n\r\n")
        got = await client.answer()
        assert len(got.body) < 300


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_head_is_bounded(in_pieces: bool, autojump_clock: Clock) -> None:
    limits = Limits(header_bytes=1_024)
    async with hosted(echo, limits=limits) as place:
        fits, too_large = (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * count + b"\r\n\r\n" for count in (992, 993))
        assert len(fits) == 1_024
        client = place.client()
        await client.write(fits + b"GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert [(await client.answer()).status for _ in range(2)] == [200, 200]
        for piece in [too_large[:600], too_large[600:]] if in_pieces else [too_large]:
            await client.write(piece)
            await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await refused(client, 431, "Limits.header_bytes")


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nHost: h\r\nX: ", b"GET / HTTP/1.1\r\n"])
async def test_a_head_without_end_is_refused_early(start: bytes, autojump_clock: Clock) -> None:
    async with hosted(echo, limits=Limits(header_bytes=4_096)) as place:
        client = place.client(strict=True)
        await client.write(start)
        sent = 0
        with trio.CancelScope() as writing:

            async def write() -> None:
                nonlocal sent
                while True:
                    await client.write(b"Xy: z\r\n" * 10 if start.endswith(b"\n") else b"x" * 70)
                    sent += 70

            place.nursery.start_soon(write)
            got = await client.answer()
            writing.cancel()
        assert got.status == 431
        assert sent < 10_000


@pytest.mark.parametrize("extra", [b"0\r\n" + b"X: y\r\n" * 10_000, b"5;" + b"x" * 50_000])
async def test_what_surrounds_chunks_is_bounded(extra: bytes, autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.write(extra)
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await refused(client, 431, "Limits.header_bytes")


async def test_empty_lines_before_a_request_are_ignored(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked()
        await client.write(b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer()).status == 200


# --- clients that are slow -------------------------------------------------------------------------------------------


async def test_a_client_that_says_nothing_is_dropped(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(head=7)) as place:
        client = place.client()
        start = trio.current_time()
        assert await client.closed()
        assert trio.current_time() - start == pytest.approx(7, abs=0.2)


async def test_empty_lines_do_not_keep_a_connection(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(head=7)) as place:
        client = place.client()
        start = trio.current_time()
        await write_until_broken(client, b"\r\n", 1)
        assert trio.current_time() - start <= 8


async def test_a_head_that_comes_byte_by_byte_is_dropped(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(head=7)) as place:
        client = place.client()
        head = b"GET / HTTP/1.1\r\nHost: hhhhhhhhhhhhhhhhhhh\r\n\r\n"
        for byte in head[:7]:
            await client.write(bytes([byte]))
            await trio.sleep(0.99)
        await trio.sleep(1)
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await refused(client, 408, "HostTimeouts.head")


async def test_a_kept_connection_is_dropped_when_it_is_not_used(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(idle=50)) as place:
        client = place.client()
        for _ in range(3):
            await client.get("/")
            await trio.sleep(49)
        await client.get("/")
        start = trio.current_time()
        assert await client.closed()
        assert trio.current_time() - start == pytest.approx(50, abs=0.2)


async def test_a_body_that_comes_byte_by_byte_is_dropped(autojump_clock: Clock) -> None:
    left = trio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) is None
        left.set()

    async with hosted(wait, timeouts=HostTimeouts(body=10, body_rate=100)) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
        start = trio.current_time()
        await write_until_broken(client, b"x", 1)
        assert left.is_set()
        # It had the ten seconds, the tenth of one that ten bytes earn, and the two in which it might read the answer.
        assert trio.current_time() - start == pytest.approx(12, abs=1.2)
        await refused(client, 408, "HostTimeouts.body")


async def test_a_slow_line_is_no_reason_to_drop_a_body(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(body=10, body_rate=100)) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12000\r\n\r\n")
        for _ in range(100):
            await trio.sleep(1)
            await client.write(b"x" * 120)
        assert (await client.answer("POST")).status == 200


async def test_the_time_that_the_application_takes_is_not_the_client_s(autojump_clock: Clock) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(100)
        first = await receive()
        await trio.sleep(100)
        assert first["body"] == b"on"
        assert await body_of(receive) == b"e"
        await answer(send, b"done")

    async with hosted(slow, timeouts=HostTimeouts(body=10)) as place:
        client = place.client()
        await client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\non")
        await trio.sleep(205)
        await client.write(b"e")
        assert (await client.answer("POST")).body == b"done"


async def test_a_client_that_takes_nothing_is_dropped(autojump_clock: Clock) -> None:
    times: list[float] = []

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        times.append(trio.current_time())
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        times.append(trio.current_time())
        # Whoever sends on has nothing of it, and does not stop the others.
        await send({"type": "http.response.body", "body": b"x" * 1_000_000})

    async with hosted(large, timeouts=HostTimeouts(stall=30)) as place:
        client = place.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(100)
        assert times[1] - times[0] == pytest.approx(30, abs=0.2)
        assert place.host.connections == 0
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.answer()


async def test_a_client_that_takes_little_at_a_time_is_served(autojump_clock: Clock) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"x" * 1_000_000)

    async with hosted(large, timeouts=HostTimeouts(stall=30)) as place:
        client = place.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.head()
        size = 0
        while data := await client.part():
            size += len(data)
            await trio.sleep(20)
        assert size == 1_000_000


async def test_how_long_an_answer_takes_is_not_bounded(autojump_clock: Clock) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(900)
        await answer(send, b"at last")

    async with hosted(slow) as place:
        assert (await place.client().get("/")).body == b"at last"


async def test_all_waiting_may_be_for_ever(autojump_clock: Clock) -> None:
    for_ever = HostTimeouts(head=math.inf, body=math.inf, idle=math.inf, stall=math.inf, linger=math.inf)
    async with hosted(echo, timeouts=for_ever) as place:
        client = place.client()
        for piece in (b"POST / HTTP/1.1\r\n", b"Host: h\r\nContent-Length: 2\r\n\r\n", b"x", b"y"):
            await client.write(piece)
            await trio.sleep(200)
        assert (await client.answer("POST")).status == 200


# --- clients that leave ----------------------------------------------------------------------------------------------


async def test_an_application_is_told_when_the_client_leaves(autojump_clock: Clock) -> None:
    told = trio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""
        assert await receive() == {"type": "http.disconnect"}
        assert await receive() == {"type": "http.disconnect"}
        told.set()

    async with hosted(wait) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(5)
        assert not told.is_set()
        await client.aclose()
        await told.wait()


async def test_a_client_that_says_no_more_but_reads_gets_its_answer(autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        assert (await client.answer()).status == 200


REQUEST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.parametrize("cut", range(len(REQUEST) + 1))
async def test_a_client_may_leave_anywhere(cut: int, caplog: pytest.LogCaptureFixture, autojump_clock: Clock) -> None:
    async def chatty(scope: Scope, receive: Receive, send: Send) -> None:
        if await body_of(receive) is None:
            return
        await send({"type": "http.response.start", "status": 200})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await trio.sleep(1)
        await send({"type": "http.response.body"})

    async with hosted(chatty) as place:
        client = place.client(strict=True)
        place.nursery.start_soon(client.write, REQUEST[:cut])
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        await trio.sleep(30)
        assert place.host.connections == 0
        assert (await place.client().get("/")).body == b"xxx"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_requests_that_come_meanwhile_wait_for_their_turn(autojump_clock: Clock) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        with trio.move_on_after(10):
            while await receive() != {"type": "http.disconnect"}:
                pass
        await answer(send, b"first")

    async with hosted(Recorder(wait)) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(5)
        await client.write(b"GET / HTTP/1.1\r\nHos")
        await trio.sleep(2)
        await client.write(b"t: h\r\n\r\n")
        assert (await client.answer()).body == b"first"
        assert (await client.answer()).body == b"ok"


async def test_little_is_read_ahead(autojump_clock: Clock) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        with trio.move_on_after(10):
            while await receive() != {"type": "http.disconnect"}:
                pass
        await answer(send, b"first")

    async with hosted(wait) as place:
        client = place.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        sent = 0
        with trio.move_on_after(5):
            while True:
                await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 100)
                sent += 2_800
        assert 4 * 1_024 <= sent < 8 * 1_024
        assert (await client.answer()).body == b"first"


# --- applications that fail ------------------------------------------------------------------------------------------


async def crash(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("secret")


async def crash_in_group(scope: Scope, receive: Receive, send: Send) -> None:
    raise ExceptionGroup("several", [ValueError("secret")])


async def say_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    pass


async def split_a_header(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"", location=b"a\r\nset-cookie: b")


async def push(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.push", "path": "/"})


async def start_strangely(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": "200"})


async def start_only(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200})


@pytest.mark.parametrize("app", [crash, crash_in_group, say_nothing, split_a_header, push, start_strangely, start_only])
async def test_a_failing_application_is_an_error_500(
    app: Application, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with hosted(Recorder(app)) as place:
        client = place.client()
        await client.write(b"GET /path?secret HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        await refused(client, 500, "internal server error")
        assert (await place.client().get("/")).status == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "GET /path" in record.getMessage()
    assert "secret" not in record.getMessage()


async def stop_short(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def fail_short(scope: Scope, receive: Receive, send: Send) -> None:
    await stop_short(scope, receive, send)
    raise ValueError("secret")


async def say_too_little(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    await send({"type": "http.response.body", "body": b"half"})


@pytest.mark.parametrize("app", [stop_short, fail_short, say_too_little])
async def test_half_an_answer_is_not_taken_for_a_whole(
    app: Application, caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async with hosted(app) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.head()
        assert await client.part() == b"half"
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.part()
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


async def test_two_tasks_do_not_send_at_the_same_time(autojump_clock: Clock) -> None:
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

    async with hosted(mix) as place:
        client = place.client(strict=True)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await failed.wait()
        assert len((await client.answer()).body) == 100_000


async def test_a_send_that_is_cancelled_half_way_ends_the_connection(autojump_clock: Clock) -> None:
    ended = trio.Event()

    async def give_up(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        assert await body_of(receive) == b""
        with trio.move_on_after(5):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        # The client is there still, but nothing can be said to it any more.
        assert await receive() == {"type": "http.disconnect"}
        await send({"type": "http.response.body", "body": b"y"})
        ended.set()

    async with hosted(give_up) as place:
        client = place.client(strict=True)
        start = trio.current_time()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await ended.wait()
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.answer()
        assert trio.current_time() - start < 10


async def test_what_is_cancelled_before_it_was_sent_was_never_said(autojump_clock: Clock) -> None:
    async def think_again(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        with trio.CancelScope() as scope_of_first:
            scope_of_first.cancel()
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
        assert scope_of_first.cancelled_caught
        await send({"type": "http.response.body", "body": b"second"})

    async with hosted(think_again) as place:
        got = await place.client().get("/")
        assert (got.body, got.headers["content-length"]) == (b"second", "6")


# --- companions ------------------------------------------------------------------------------------------------------


class Companied:
    """An application that works for some seconds, with a companion that notes what becomes of it."""

    def __init__(self, seconds: float, companion: Callable[[Receive], Awaitable[None]] | None = None) -> None:
        self.seconds = seconds
        self.companion = companion
        self.started_at: float | None = None
        self.cancelled = False
        self.left_alone: list[bool] = []

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
        # The response is complete: there is nothing left to keep company to.
        await trio.testing.wait_all_tasks_blocked()
        self.left_alone.append(self.cancelled or self.started_at is None)


def start_later(scope: Scope) -> StartLater:
    extensions = scope["extensions"]
    assert isinstance(extensions, dict)
    function: StartLater = extensions[COMPANION]
    return function


async def test_a_quick_request_has_no_companion(autojump_clock: Clock) -> None:
    app = Companied(0.05)
    async with hosted(app) as place:
        client = place.client()
        for _ in range(3):
            assert (await client.get("/")).body == b"done"
        await trio.sleep(20)
    assert app.started_at is None


async def test_a_slow_request_has_one_while_it_runs(autojump_clock: Clock) -> None:
    app = Companied(5)
    async with hosted(app) as place:
        client = place.client()
        for _ in range(2):
            assert (await client.get("/")).body == b"done"
        await trio.testing.wait_all_tasks_blocked()
    assert app.left_alone == [True, True]
    assert app.started_at == pytest.approx(0.1, abs=0.11)


async def test_a_companion_sees_the_client_leave(autojump_clock: Clock) -> None:
    left = trio.Event()

    async def watch(receive: Receive) -> None:
        assert await receive() == {"type": "http.disconnect"}
        left.set()

    async with hosted(Companied(50, watch)) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(5)
        await client.aclose()
        await left.wait()


async def test_a_companion_that_watches_leaves_the_next_request_whole(autojump_clock: Clock) -> None:
    async def watch(receive: Receive) -> None:
        await receive()

    async with hosted(Companied(5, watch)) as place:
        client = place.client()
        for _ in range(3):
            assert (await client.get("/")).body == b"done"


async def test_a_companion_that_fails_is_logged_and_no_more(
    caplog: pytest.LogCaptureFixture, autojump_clock: Clock
) -> None:
    async def fail(receive: Receive) -> None:
        raise ValueError("no company")

    async with hosted(Companied(5, fail)) as place:
        assert (await place.client().get("/")).body == b"done"
    assert "companion failed: request=GET /" in caplog.text


async def test_a_request_has_one_companion_at_most(autojump_clock: Clock) -> None:
    async def two(scope: Scope, receive: Receive, send: Send) -> None:
        start = start_later(scope)
        start(trio.sleep_forever)
        with pytest.raises(RuntimeError, match="already has a companion"):
            start(trio.sleep_forever)
        await answer(send, b"done")

    async with hosted(two) as place:
        assert (await place.client().get("/")).body == b"done"


async def test_a_companion_that_is_wanted_late_starts_at_once(autojump_clock: Clock) -> None:
    started = trio.Event()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(3)

        async def companion() -> None:
            started.set()

        start_later(scope)(companion)
        await started.wait()
        await answer(send, b"done")

    async with hosted(late) as place:
        assert (await place.client().get("/")).body == b"done"


async def test_the_next_request_waits_for_the_end_of_a_companion(autojump_clock: Clock) -> None:
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

    async with hosted(Recorder(first)) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 2)
        assert (await client.answer()).body == b"first"
        assert not ended
        assert (await client.answer()).body == b"ok"
        assert ended


async def test_an_application_that_fails_takes_its_companion_with_it(autojump_clock: Clock) -> None:
    ended = trio.Event()

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        async def companion() -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.set()

        start_later(scope)(companion)
        await trio.sleep(3)
        raise ValueError("no luck")

    async with hosted(fail) as place:
        client = place.client()
        assert (await client.get("/")).status == 500
        assert ended.is_set()


# --- applications that go on behind their answer ---------------------------------------------------------------------


class Lasting:
    """Answers at once, or after some seconds, and works on."""

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
        # It may say what it likes; the answer is complete.
        assert await receive() == {"type": "http.disconnect"}
        self.ended += 1


@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("watches", [False, True])
async def test_a_connection_is_served_on_while_an_application_works_behind_its_answer(
    before: float, watches: bool, autojump_clock: Clock
) -> None:
    app = Lasting(before, watches=watches)
    async with hosted(app) as place:
        client = place.client()
        assert (await client.get("/")).body == b"first"
        start = trio.current_time()
        for _ in range(3):
            assert (await client.get("/quick")).body == b"quick"
        assert trio.current_time() - start < 1
        assert app.ended == 0
        # What works on has no connection of its own.
        assert place.host.connections == 1
        app.release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert app.ended == 1
        assert place.host.connections == 1
        assert (await client.get("/quick")).body == b"quick"


async def test_whoever_watches_for_the_client_is_told_of_the_end_of_the_answer(autojump_clock: Clock) -> None:
    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.sleep(2)
            await answer(send, b"done")

    async with hosted(Recorder(both)) as place:
        client = place.client()
        assert (await client.get("/")).body == b"done"
        start = trio.current_time()
        for _ in range(3):
            assert (await client.get("/")).body == b"ok"
        assert trio.current_time() - start < 1


async def test_a_companion_that_ends_slowly_is_waited_for_before_the_connection_is_served_on(
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

    async with hosted(Recorder(last, second)) as place:
        client = place.client()
        assert (await client.get("/")).body == b"first"
        assert (await client.get("/")).body == b"second"
        released.set()


async def test_a_request_that_came_meanwhile_is_not_lost(autojump_clock: Clock) -> None:
    app = Lasting(5)
    async with hosted(app) as place:
        client = place.client()
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(2)
        await client.write(b"GET /quick HTTP/1.1\r\nHost: h\r\n\r\nGET /quick HT")
        assert (await client.answer()).body == b"first"
        assert (await client.answer()).body == b"quick"
        await client.write(b"TP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer()).body == b"quick"


class LateReader(trio.abc.HalfCloseableStream):
    """A stream whose bytes come a second after they are there, whatever is cancelled meanwhile.

    A task that reads a socket is like that for a moment: between the system's report and its turn.
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


async def test_connection_when_next_request_is_read_while_response_ends_answers_it(autojump_clock: Clock) -> None:
    released = trio.Event()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.sleep(5)
            await answer(send, b"first")
            await released.wait()

    async with hosted(Recorder(watching)) as place:
        ours, theirs = trio.testing.memory_stream_pair()
        place.nursery.start_soon(place.host.serve_stream, LateReader(theirs))
        client = RawHttp(ours)
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        # The first request begins at 1 second and is answered at 6; the watcher of its client has the next one at 6.9.
        await trio.sleep(5.9)
        await client.write(b"GET /quick HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer()).body == b"first"
        assert (await client.answer()).body == b"ok"
        released.set()


@pytest.mark.parametrize("why", ["the client wants no more", "the host is full", "the client left"])
async def test_a_connection_that_cannot_be_served_on_ends(why: str, autojump_clock: Clock) -> None:
    app = Lasting()
    async with hosted(app, limits=Limits(connections=1 if "full" in why else 9)) as place:
        client = place.client()
        end = b"Connection: close\r\n" if "wants" in why else b""
        await client.write(b"GET / HTTP/1.1\r\nHost: h\r\n" + end + b"\r\n")
        if why == "the client left":
            await client.stream.send_eof()  # type: ignore[attr-defined]  # the stream in memory has it
        assert (await client.answer()).body == b"first"
        start = trio.current_time()
        if why != "the client left":
            assert await client.closed()
        assert trio.current_time() - start < 5
        await trio.sleep(5)
        app.release.set()
        await trio.sleep(1)
        assert (app.ended, place.host.connections) == (1, 0)


# --- many, and the end -----------------------------------------------------------------------------------------------


async def test_a_stopping_host_breaks_off_nothing(autojump_clock: Clock) -> None:
    async with hosted(Recorder(Companied(5), Companied(5))) as place:
        host = place.host
        idle, running, begun, unborn = (place.client() for _ in range(4))
        await running.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(1)
        await begun.write(b"GET / HTT")
        await trio.sleep(1)
        host.stop()
        assert await idle.closed()
        assert await unborn.closed()
        await begun.write(b"P/1.1\r\nHost: h\r\n\r\n")
        for client in (running, begun):
            got = await client.answer()
            assert (got.body, got.headers["connection"]) == (b"done", "close")
            assert await client.closed()
        await trio.testing.wait_all_tasks_blocked()
        assert host.connections == 0
        assert await place.client().closed()


async def test_a_host_has_ended_when_the_last_connection_has(autojump_clock: Clock) -> None:
    host = HttpHost(Companied(5))
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


async def test_a_host_that_does_not_run_starts_nothing(autojump_clock: Clock) -> None:
    with pytest.raises(RuntimeError, match="host is not running"):
        HttpHost(echo).start_soon(trio.sleep_forever)


class Odd(trio.abc.Stream):
    """A stream of which nothing ever comes, that fails or clings."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("nothing was asked")

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("nobody wants to know")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise ValueError("this is not what streams raise")
        return b""

    async def aclose(self) -> None:
        try:
            if not self.fails:
                await trio.sleep_forever()
        finally:
            self.closed = True


async def test_a_connection_that_fails_ends_alone(caplog: pytest.LogCaptureFixture, autojump_clock: Clock) -> None:
    async with hosted(echo) as place:
        stream = Odd(fails=True)
        await place.host.serve_stream(stream)
        assert stream.closed
        assert "connection failed" in caplog.text
        assert (await place.client().get("/")).status == 200


async def test_closing_waits_for_nobody(autojump_clock: Clock) -> None:
    async with hosted(echo, timeouts=HostTimeouts(linger=3)) as place:
        stream = Odd()
        start = trio.current_time()
        await place.host.serve_stream(stream)
        assert stream.closed
        assert trio.current_time() - start == 3
