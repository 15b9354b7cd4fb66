"""The loopback redirect endpoint of a login."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_client.auth.loopback import Loopback, open_loopback


async def exchange(loopback: Loopback, data: bytes) -> bytes:
    """Send bytes and return the whole response."""
    stream = await trio.open_tcp_stream("127.0.0.1", port_of(loopback))
    async with stream:
        try:
            await stream.send_all(data)
            answer = b""
            while data_received := await stream.receive_some():
                answer += data_received
        except trio.BrokenResourceError:
            return b""
        return answer


def port_of(loopback: Loopback) -> int:
    return int(loopback.redirect_uri.split(":")[2].split("/")[0])


def get(loopback: Loopback, target: str, *, method: str = "GET", host: str | None = None) -> bytes:
    authority = f"127.0.0.1:{port_of(loopback)}" if host is None else host
    return f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("latin-1")


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


@pytest.mark.spec("auth.redirect-uri-scheme")
async def test_redirect_received_unchanged() -> None:
    async with open_loopback() as loopback:
        assert loopback.redirect_uri.startswith("http://127.0.0.1:")
        assert loopback.redirect_uri.endswith("/callback")
        answer = await exchange(loopback, get(loopback, "/callback?code=a%20b&state=x&iss=https%3A%2F%2Fas"))
        assert status(answer) == 200
        assert await loopback.redirected() == f"{loopback.redirect_uri}?code=a%20b&state=x&iss=https%3A%2F%2Fas"


async def test_page_same_for_every_query() -> None:
    async with open_loopback() as loopback:
        pages = {
            await exchange(loopback, get(loopback, f"/callback{query}"))
            for query in (
                "",
                "?code=1&state=2",
                "?error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E",
                "?<script>alert(1)</script>",
                "?error_uri=javascript:alert(1)",
            )
        }
    assert len(pages) == 1
    (page,) = pages
    head, _, body = page.partition(b"\r\n\r\n")
    assert b"script" not in body
    assert b"http" not in body
    headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert headers == {
        b"Content-Type": b"text/html; charset=utf-8",
        b"Content-Length": str(len(body)).encode(),
        b"Cache-Control": b"no-store",
        b"Connection": b"close",
        b"Content-Security-Policy": b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        b"Cross-Origin-Opener-Policy": b"same-origin",
        b"Referrer-Policy": b"no-referrer",
        b"X-Content-Type-Options": b"nosniff",
        b"X-Frame-Options": b"DENY",
    }


@pytest.mark.parametrize(
    ("target", "method", "host", "expected"),
    [
        ("/", "GET", None, 404),
        ("/favicon.ico", "GET", None, 404),
        ("/callback/", "GET", None, 404),
        ("/callback/../callback", "GET", None, 404),
        ("//callback", "GET", None, 404),
        ("/CALLBACK", "GET", None, 404),
        ("/%63allback", "GET", None, 404),
        ("http://evil.example/callback?code=1", "GET", None, 404),
        ("/callback?code=1", "POST", None, 405),
        ("/callback?code=1", "HEAD", None, 405),
        ("/callback?code=1", "OPTIONS", None, 405),
        ("/callback?code=1", "PUT", None, 405),
        ("/callback?code=1", "GET", "evil.example", 421),
        ("/callback?code=1", "GET", "localhost", 421),
        ("/callback?code=1", "GET", "127.0.0.1", 421),
        ("/callback?code=1", "GET", "127.0.0.1:1", 421),
        ("/callback?code=1", "GET", "", 421),
    ],
)
async def test_request_to_other_target_rejected(target: str, method: str, host: str | None, expected: int) -> None:
    async with open_loopback() as loopback:
        answer = await exchange(loopback, get(loopback, target, method=method, host=host))
        assert status(answer) == expected
        assert (b"Allow: GET\r\n" in answer) is (expected == 405)
        assert b"evil" not in answer
        await exchange(loopback, get(loopback, "/callback?code=real"))
        assert await loopback.redirected() == f"{loopback.redirect_uri}?code=real"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"GET\r\n\r\n",
        b"GET /callback HTTP/1.1\r\n\r\n",
        b"GET /callback HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /callback?" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /callback HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_invalid_request_endpoint_stays_open(data: bytes) -> None:
    async with open_loopback() as loopback:
        with trio.move_on_after(1):
            answer = await exchange(loopback, data)
            assert not answer or status(answer) in (400, 421)
        await exchange(loopback, get(loopback, "/callback?code=real"))
        assert await loopback.redirected() == f"{loopback.redirect_uri}?code=real"


@settings(max_examples=30)
@given(data=st.binary(max_size=200))
@pytest.mark.property
def test_endpoint_any_bytes_stays_open(data: bytes) -> None:
    async def main() -> None:
        async with open_loopback() as loopback:
            stream = await trio.open_tcp_stream("127.0.0.1", port_of(loopback))
            async with stream:
                await stream.send_all(data)
                await stream.send_eof()
                try:
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    # The endpoint had sent its whole response.
                    pass
            assert status(await exchange(loopback, get(loopback, "/callback?code=1"))) == 200

    trio.run(main)


async def test_slow_connections_do_not_block_redirect(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_loopback() as loopback:
        slow = [await trio.open_tcp_stream("127.0.0.1", port_of(loopback)) for _ in range(40)]
        for stream in slow:
            await stream.send_all(b"GET /call")
        await exchange(loopback, get(loopback, "/callback?code=real"))
        assert await loopback.redirected() == f"{loopback.redirect_uri}?code=real"
        assert trio.current_time() < 60
        for stream in slow:
            await stream.aclose()


async def test_connection_reset_after_request_redirect_received() -> None:
    async with open_loopback() as loopback:
        stream = await trio.open_tcp_stream("127.0.0.1", port_of(loopback))
        await stream.send_all(get(loopback, "/callback?code=real"))
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await stream.aclose()
        with trio.fail_after(5):
            assert await loopback.redirected() == f"{loopback.redirect_uri}?code=real"


async def test_redirects_over_limit_dropped() -> None:
    async with open_loopback() as loopback:
        for number in range(20):
            await exchange(loopback, get(loopback, f"/callback?state={number}"))
        read = [await loopback.redirected() for _ in range(16)]
        assert read[-1].endswith("?state=15")
        with trio.move_on_after(0.01) as scope:
            await loopback.redirected()
        assert scope.cancelled_caught


async def test_port_reused_when_free() -> None:
    async with open_loopback() as first, open_loopback(port_of(first)) as second:
        assert port_of(second) != port_of(first)
    async with open_loopback(port_of(first)) as again:
        assert port_of(again) == port_of(first)


async def test_connection_to_other_address_refused() -> None:
    async with open_loopback() as loopback:
        # Another address of this machine.
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.2", port_of(loopback))


async def test_closed_endpoint_connection_refused() -> None:
    async with open_loopback() as loopback:
        pass
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", port_of(loopback))
