"""Attacks on time and on connections: slow clients, and large numbers of clients, that exclude others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from bench.attacks.catalogue import attack
from bench.attacks.connections import Broken, RawConnection
from bench.attacks.messages import (
    BATCHING,
    LARGE,
    LEGACY,
    MIB,
    MODERN,
    batch,
    bracket_bomb,
    call,
    head,
    headers_of,
    long_head,
    numbered_members,
    request,
)

if TYPE_CHECKING:
    from bench.attacks.attacker import Attacker

_DEADLINE_CAP = 60.0


@attack(
    "deadline",
    "bodies of 4 MiB that stop ten bytes short, and heads that never end: the lifetime of their connections",
    seconds=62,
    figures_below=_DEADLINE_CAP,
)
async def deadline(attacker: Attacker) -> None:
    """Send nearly all of a body at once, which extends the deadline by `HostTimeouts.body_rate`, and then nothing."""
    size = 4 * MIB
    length = {"content-length": str(size)}
    begun = b"x" * (size - 10)
    chunked = b"%x\r\n" % (size - 10) + begun + b"\r\n"
    heads = {
        "modern": head("POST", "/mcp", attacker.authority, {**headers_of(MODERN, "tools/call", "echo"), **length}),
        "legacy": head("POST", "/mcp", attacker.authority, {**headers_of(LEGACY, "initialize"), **length}),
    }
    streamed = head(
        "POST", "/mcp", attacker.authority, {**headers_of(LEGACY, "initialize"), "transfer-encoding": "chunked"}
    )
    await _lives(
        attacker,
        {
            **{name: start + begun for name, start in heads.items()},
            "chunked": streamed + chunked,
            "head": long_head(attacker.authority, 30_000),
            "first byte": b"P",
        },
    )


async def _lives(attacker: Attacker, beginnings: dict[str, bytes]) -> None:
    async def one(name: str, begun: bytes) -> None:
        connection = await attacker.hold()
        await connection.send(begun)
        began = trio.current_time()
        # The value that is reported for a longer lifetime.
        attacker.figures[f"{name} lived (s)"] = _DEADLINE_CAP
        with trio.move_on_after(_DEADLINE_CAP):
            await attacker.count_response(connection)
            await connection.drain()
        attacker.figures[f"{name} lived (s)"] = round(trio.current_time() - began, 1)

    async with trio.open_nursery() as nursery:
        for name, begun in beginnings.items():
            nursery.start_soon(one, name, begun)


@attack(
    "descriptors-soft",
    "1,100 idle connections to a server that may open 1,024 files, and 4,096 if it asks for them",
    seconds=10,
    nofile=(1_024, 4_096),
)
async def descriptors_soft(attacker: Attacker) -> None:
    """Use up the descriptors of a server that could raise its limit."""
    await _idle_connections(attacker, 1_100)


@attack(
    "descriptors-hard",
    "1,100 idle connections to a server that may open 1,024 files",
    seconds=10,
    nofile=(1_024, 1_024),
)
async def descriptors_hard(attacker: Attacker) -> None:
    """Use up the descriptors of a server that cannot raise its limit."""
    await _idle_connections(attacker, 1_100)


@attack(
    "descriptors-silent",
    "1,100 connections on which nothing is ever sent, to a server that may open 1,024 files",
    seconds=10,
    nofile=(1_024, 1_024),
)
async def descriptors_silent(attacker: Attacker) -> None:
    """Use up the descriptors of a server before any request, and come again when it closes a connection."""
    await _idle_connections(attacker, 1_100, silent=True)


@attack(
    "descriptors-streams",
    "1,100 subscriptions/listen streams to a server that may open 1,024 files",
    seconds=10,
    nofile=(1_024, 1_024),
)
async def descriptors_streams(attacker: Attacker) -> None:
    """Use up the descriptors of a server with streams that never end."""
    wanted = {"notifications": {"toolsListChanged": True}}
    whole = attacker.post(request("subscriptions/listen", wanted, MODERN), headers_of(MODERN, "subscriptions/listen"))
    await _idle_connections(attacker, 1_100, first=whole)


async def _idle_connections(
    attacker: Attacker, count: int, *, silent: bool = False, first: bytes | None = None
) -> None:
    whole = first or attacker.post(request("server/discover", {}, MODERN), headers_of(MODERN, "server/discover"))
    attempts = iter(range(5 * count))

    async def stay() -> None:
        for _ in attempts:
            try:
                connection = await attacker.connect()
                if not silent:
                    await connection.send(whole)
                    await attacker.count_response(connection)
                await connection.drain()
                await connection.aclose()
            except Broken:
                pass
            # A server that closes connections at once must not make this loop spin.
            await trio.sleep(0.25)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(stay)
            if number % 50 == 0:
                await trio.sleep(0.05)


# --- the cost of one message -----------------------------------------------------------------------------------------


async def _again_and_again(attacker: Attacker, whole: bytes, connections: int = 2) -> None:
    """Send the same request on some connections, again after each response, until the attack ends."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        while True:
            response = await attacker.exchange(connection, whole)
            if response.headers.get("connection") == "close":
                await connection.aclose()
                connection = await attacker.connect()

    await attacker.repeat(1_000_000, connections, one)


@attack("cpu-arguments", "calls with 99,000 arguments that the tool does not have", seconds=3, settle=3)
async def cpu_arguments(attacker: Attacker) -> None:
    """Make the server list the unknown arguments of a call."""
    body = call("echo", {"text": "x", **numbered_members(99_000)}, MODERN)
    await _again_and_again(attacker, attacker.post(body, headers_of(MODERN, "tools/call", "echo")))


@attack(
    "cpu-members",
    "messages with 99,000 members in addition to those of JSON-RPC, and as many in _meta",
    seconds=3,
    settle=3,
)
async def cpu_members(attacker: Attacker) -> None:
    """Send unknown members where a message has few."""
    body = call("echo", {"text": "x"}, MODERN)
    members = request("m", numbered_members(99_000), LEGACY).partition(b'"params":{')[2][:-2]
    body = body[:-1] + b"," + members + b"}"
    body = body.replace(b'"_meta":{', b'"_meta":{' + members + b",")
    await _again_and_again(attacker, attacker.post(body, headers_of(MODERN, "tools/call", "echo")))


@attack("cpu-nesting", "calls whose argument is nested 120 and 100,000 levels deep", seconds=3, settle=3)
async def cpu_nesting(attacker: Attacker) -> None:
    """Send deeply nested arrays."""
    headers = headers_of(MODERN, "tools/call", "echo")
    async with trio.open_nursery() as nursery:
        for depth in (120, 100_000, 1_900_000):
            nursery.start_soon(_again_and_again, attacker, attacker.post(bracket_bomb(depth), headers), 1)


@attack("cpu-values", "calls whose 1.2 million arguments are all invalid", seconds=3, settle=3)
async def cpu_values(attacker: Attacker) -> None:
    """Send a value that is invalid in many places to a tool."""
    body = call("echo", {"text": [[0] * 99_000 for _ in range(19)]}, MODERN)
    await _again_and_again(attacker, attacker.post(body, headers_of(MODERN, "tools/call", "echo")))


@attack("cpu-batch", "batches of 1,000 calls (2025-03-26)", seconds=3, settle=3)
async def cpu_batch(attacker: Attacker) -> None:
    """Send as many calls in a batch as are allowed."""
    whole = await _in_session(attacker, batch(1_000), BATCHING)
    await _again_and_again(attacker, whole)


@attack("cpu-batch-bad", "batches of 1,000 members that are not messages (2025-03-26)", seconds=3, settle=3)
async def cpu_batch_bad(attacker: Attacker) -> None:
    """Send members of a batch that each get an error."""
    member = b'{"jsonrpc":"2.0","id":1,"method":' + b"[" * 20 + b'"x"' + b"]" * 20 + b"}"
    whole = await _in_session(attacker, b"[" + b",".join([member] * 1_000) + b"]", BATCHING)
    await _again_and_again(attacker, whole)


@attack("cpu-method", "requests whose unknown method has 3.9 MB", seconds=3, settle=3)
async def cpu_method(attacker: Attacker) -> None:
    """Send a long name of a method, which an error may quote."""
    whole = await _in_session(attacker, request("m" * LARGE, {}, LEGACY), LEGACY)
    await _again_and_again(attacker, whole)


@attack("cpu-names", "calls of unknown tools, prompts and resources whose names have 3.9 MB", seconds=3, settle=3)
async def cpu_names(attacker: Attacker) -> None:
    """Send long names, which are looked up and which an error may quote."""
    bodies = (
        call("\\u00e4%2e/" * (LARGE // 16), {}, LEGACY),
        request("resources/read", {"uri": "note://" + "%2e%2e/" * (LARGE // 8)}, LEGACY),
        request("prompts/get", {"name": "p" * LARGE}, LEGACY),
    )
    wholes = [await _in_session(attacker, body, LEGACY) for body in bodies]
    async with trio.open_nursery() as nursery:
        for whole in wholes:
            nursery.start_soon(_again_and_again, attacker, whole, 1)


@attack("cpu-junk", "bodies of 3.9 MB that are invalid JSON at their last byte", seconds=3, settle=3)
async def cpu_junk(attacker: Attacker) -> None:
    """Send escapes and long numbers that are invalid only at their end."""
    headers = headers_of(MODERN, "tools/call", "echo")
    bodies = (
        b'{"jsonrpc":"2.0","id":1,"method":"' + b"\\u0041" * (LARGE // 6),
        b'{"id":' + b"9" * LARGE,
        b"[" + b'"\\ud800",' * (90_000) + b"]",
        b'{"a":1,' * (LARGE // 8),
    )
    async with trio.open_nursery() as nursery:
        for body in bodies:
            nursery.start_soon(_again_and_again, attacker, attacker.post(body, headers), 1)


@attack(
    "cpu-headers", "heads of 32 KiB with many fields, with long lists, and with fields that repeat", seconds=3, settle=3
)
async def cpu_headers(attacker: Attacker) -> None:
    """Send heads that take long to parse."""
    body = call("echo", {"text": "x"}, MODERN)
    usual = headers_of(MODERN, "tools/call", "echo")
    heads: list[dict[str, str]] = [
        {**usual, "accept": usual["accept"] + ", a/b;q=0.1" * 2_400},
        {**usual, **{f"x-{number}": "y" for number in range(2_400)}},
        {**usual, "x-forwarded-for": "1.1.1.1, " * 3_200},
        {**usual, "content-type": "application/json" + ";a=b" * 6_000},
    ]
    async with trio.open_nursery() as nursery:
        for headers in heads:
            nursery.start_soon(_again_and_again, attacker, attacker.post(body, headers), 1)


async def _in_session(attacker: Attacker, body: bytes, revision: str) -> bytes:
    connection = await attacker.connect()
    session = await attacker.open_session(connection, revision=revision)
    await connection.aclose()
    return attacker.post(body, headers_of(revision, "", session=session))


# --- many small messages ---------------------------------------------------------------------------------------------


@attack("heads", "500 connections that send 30 KB of a head, and then a byte a second", seconds=8)
async def heads(attacker: Attacker) -> None:
    """Keep large heads unfinished."""
    begun = long_head(attacker.authority, 30_000)

    async def one(_: int) -> None:
        connection = await attacker.hold()
        await connection.send(begun)

    await attacker.repeat(500, 16, one)
    while attacker.held:
        await trio.sleep(1)
        for connection in tuple(attacker.held):
            try:
                await connection.send(b"y")
            except Broken:
                attacker.held.remove(connection)
                attacker.statuses["broken off"] += 1


@attack("pipelined", "20 connections that each send 2,000 requests at once, and read nothing", seconds=8)
async def pipelined(attacker: Attacker) -> None:
    """Send many pipelined requests."""
    whole = attacker.post(call("echo", {"text": "x" * 500}, MODERN), headers_of(MODERN, "tools/call", "echo"))

    async def one(_: int) -> None:
        connection = await attacker.hold(receive_buffer=4_096)
        await connection.send(whole * 2_000)

    await attacker.repeat(20, 20, one)


@attack("chunks", "20 connections that send a body of 3.9 MB in chunks of two bytes", seconds=8, settle=8)
async def chunks(attacker: Attacker) -> None:
    """Send a body in as many pieces as possible."""
    headers = {**headers_of(MODERN, "tools/call", "echo"), "transfer-encoding": "chunked"}
    begun = head("POST", "/mcp", attacker.authority, headers)
    some = b"2\r\nxy\r\n" * 10_000

    async def one(connection: RawConnection) -> None:
        try:
            await connection.send(begun)
            for _ in range(LARGE // 20_000):
                await connection.send(some)
        except Broken:
            attacker.statuses["broken off"] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one, await attacker.hold())
