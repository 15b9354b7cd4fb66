"""Bare trio and h11 that do the input and output of a client over HTTP, with a number of calls in flight."""

from __future__ import annotations

import json
import sys
import time

import h11
import trio

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'


async def call(stream: trio.SocketStream, connection: h11.Connection, request: h11.Request) -> None:
    """Make one call."""
    out = connection.send(request) or b""
    out += connection.send(h11.Data(data=BODY)) or b""
    out += connection.send(h11.EndOfMessage()) or b""
    await stream.send_all(out)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.EndOfMessage):
            connection.start_next_cycle()
            return


async def main(calls: int, at_once: int, url: str) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    host, _, path = url.removeprefix("http://").partition("/")
    headers = [
        ("host", host),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("content-length", str(len(BODY))),
    ]
    request = h11.Request(method="POST", target=f"/{path}", headers=headers)
    streams = [await trio.open_tcp_stream("127.0.0.1", int(host.rpartition(":")[2])) for _ in range(at_once)]
    connections = [h11.Connection(h11.CLIENT) for _ in range(at_once)]

    async def some(stream: trio.SocketStream, connection: h11.Connection, number: int) -> None:
        for _ in range(number):
            await call(stream, connection, request)

    async def all_of(number: int) -> None:
        async with trio.open_nursery() as nursery:
            for stream, connection in zip(streams, connections, strict=True):
                nursery.start_soon(some, stream, connection, number)

    await all_of(20)
    cpu, wall = time.process_time(), time.perf_counter()
    await all_of(calls // at_once)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


# The first argument is the revision, which makes no difference.
trio.run(main, int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
