"""The embedded host as one of several processes that accept connections from one socket."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio
import trio.testing
from http_hosts import RawHttp

from mcp_server.asgi import Receive, Scope, Send
from mcp_server.host.connection_counts import ConnectionCounts
from mcp_server.host.embedded import HttpHost


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def listening() -> tuple[trio.SocketListener, str]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return listener, f"http://127.0.0.1:{listener.socket.getsockname()[1]}"


async def test_leaving_host_serves_open_connections_once_more() -> None:
    listener, url = await listening()
    other = listener.socket.dup()  # that of the other processes
    host = HttpHost(answer)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(host.run, [listener]))
        first, second = await RawHttp.to(url), await RawHttp.to(url)
        assert "connection" not in (await first.get()).headers
        assert "connection" not in (await second.get()).headers
        left = trio.Event()

        async def leave() -> None:
            await host.leave()
            left.set()

        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        # Another process would accept this connection.
        waiting = await trio.open_tcp_stream(*other.getsockname())
        assert (await first.get()).headers["connection"] == "close"
        assert not left.is_set()
        assert (await second.get()).headers["connection"] == "close"
        # The host waits until the clients have closed.
        for each in (first.stream, second.stream, waiting):
            await each.aclose()
        await left.wait()
        other.close()
        host.stop()


async def test_host_lets_process_with_fewer_connections_accept(
    mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    counts = ConnectionCounts.create(tmp_path / "counts", 2)
    other = ConnectionCounts(tmp_path / "counts", 1)
    listener, url = await listening()
    host = HttpHost(answer, counts=counts)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(host.run, [listener]))
        # No other process accepts connections: it accepts at once.
        first = await RawHttp.to(url)
        assert (await first.get()).status == 204
        assert host.connections == 1
        other.record(0)
        second = await RawHttp.to(url)
        await trio.testing.wait_all_tasks_blocked()
        assert host.connections == 1
        # The other process does not: it is busy.
        mock_clock.jump(1)
        assert (await second.get()).status == 204
        # The other process has more: this one accepts at once.
        other.record(5)
        third = await RawHttp.to(url)
        assert (await third.get()).status == 204
        # The other process accepts while this one waits.
        other.record(1)
        fourth = await RawHttp.to(url)
        await trio.testing.wait_all_tasks_blocked()
        taken, _ = await listener.socket.accept()
        taken.close()
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        assert host.connections == 3
        # It waits again for the next connection.
        fifth = await RawHttp.to(url)
        await trio.testing.wait_all_tasks_blocked()
        assert host.connections == 3
        mock_clock.jump(1)
        assert (await fifth.get()).status == 204
        for each in (first, second, third, fourth, fifth):
            await each.stream.aclose()
        host.stop()
