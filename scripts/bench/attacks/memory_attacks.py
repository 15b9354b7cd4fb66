"""Attacks on memory: a server keeps, or parses, more than its limits appear to allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from bench.attacks.catalogue import attack
from bench.attacks.connections import Broken
from bench.attacks.messages import (
    LARGE,
    LEGACY,
    MIB,
    MODERN,
    call,
    empty_objects,
    head,
    headers_of,
    initialize,
    listen,
    request,
    uris,
)

if TYPE_CHECKING:
    from bench.attacks.attacker import Attacker

_TASK_KEPT = (64.0, "tasks of all clients within Limits.task_bytes, until their time to live has passed")
_REPLAY_KEPT = (256.0, "events that are kept for clients that resume, within Limits.stored_bytes")
_ELICITATION_KEPT = (
    192.0,
    "requests that wait for the user, until smaller clients need the memory or the session has idled for half an hour",
)
_SESSIONS_KEPT = (
    160.0,
    "10,000 sessions within Limits.sessions, at 16 KiB each, until they have idled for half an hour",
)


@attack(
    "initialize",
    "60 sessions whose capabilities are 13 arrays of 99,000 {}: 3.9 MB on the wire, 80 MiB parsed",
    seconds=15,
)
async def initialize_bombs(attacker: Attacker) -> None:
    """Open sessions with capabilities that are much larger in memory than on the wire."""
    body = initialize({"experimental": {"x": empty_objects(13, 99_000)}})
    whole = attacker.post(body, headers_of(LEGACY, "initialize"))

    async def one(_: int) -> None:
        connection = await attacker.connect()
        try:
            await attacker.exchange(connection, whole)
        finally:
            await connection.aclose()

    await attacker.repeat(60, 2, one)


@attack("initialize-text", "300 sessions whose client has a title of 3.9 MB", seconds=10)
async def initialize_text(attacker: Attacker) -> None:
    """Open sessions with a long text that is part of what is kept of a client."""
    whole = attacker.post(initialize(padding="t" * LARGE), headers_of(LEGACY, "initialize"))

    async def one(_: int) -> None:
        connection = await attacker.connect()
        try:
            await attacker.exchange(connection, whole)
        finally:
            await connection.aclose()

    await attacker.repeat(300, 4, one)


@attack("bodies", "1,000 connections whose bodies of 4 MiB stop one byte short", seconds=15)
async def bodies(attacker: Attacker) -> None:
    """Send all of a body except its last byte, and keep the connection."""
    size = 4 * MIB
    headers = {**headers_of(MODERN, "tools/call", "echo"), "content-length": str(size)}
    begun = head("POST", "/mcp", attacker.authority, headers) + b"x" * (size - 1)

    async def one(_: int) -> None:
        connection = await attacker.hold()
        await connection.send(begun)

    await attacker.repeat(1_000, 16, one)
    await trio.sleep(5)


@attack("listen-long", "400 subscriptions/listen streams with 1,000 URIs of 3,900 bytes each", seconds=15)
async def listen_long(attacker: Attacker) -> None:
    """Open listen streams with long filters."""
    await _listen(attacker, 400, listen(1_000, 3_900))


@attack("listen-many", "400 subscriptions/listen streams with 1,000 URIs of 64 bytes each", seconds=10)
async def listen_many(attacker: Attacker) -> None:
    """Open listen streams with as many URIs as are allowed."""
    await _listen(attacker, 400, listen(1_000, 64))


async def _listen(attacker: Attacker, streams: int, body: bytes) -> None:
    whole = attacker.post(body, headers_of(MODERN, "subscriptions/listen"))

    async def one(_: int) -> None:
        connection = await attacker.hold()
        await connection.send(whole)
        await attacker.count_response(connection)

    await attacker.repeat(streams, 4, one)
    await trio.sleep(3)


@attack("left-modern", "1,000 calls of a slow tool with 3.9 MB of text, whose clients leave (2026-07-28)", seconds=10)
async def left_modern(attacker: Attacker) -> None:
    """Call and disconnect; such a call is cancelled."""
    body = call("wait", {"seconds": 10, "text": "x" * LARGE}, MODERN)
    whole = attacker.post(body, headers_of(MODERN, "tools/call", "wait"))

    async def one(_: int) -> None:
        connection = await attacker.connect()
        await connection.send(whole)
        await trio.sleep(0.05)
        await connection.aclose()

    await attacker.repeat(1_000, 8, one)


@attack("left-legacy", "1,000 calls of a slow tool with 3.9 MB of text, whose clients leave, in 50 sessions", settle=14)
async def left_legacy(attacker: Attacker) -> None:
    """Call and disconnect; such a call continues."""
    await _leave_calls(attacker, call("wait", {"seconds": 10, "text": "x" * LARGE}, LEGACY), 50, 20)


@attack("left-objects", "400 calls of a slow tool with 1.2 million {}, whose clients leave, in 20 sessions", settle=14)
async def left_objects(attacker: Attacker) -> None:
    """Call with arguments that are much larger in memory than on the wire, and disconnect."""
    arguments = {"seconds": 10, "data": empty_objects(12, 99_000)}
    await _leave_calls(attacker, call("wait", arguments, LEGACY), 20, 20)


async def _leave_calls(attacker: Attacker, body: bytes, sessions: int, calls: int) -> None:
    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        await connection.aclose()
        headers = headers_of(LEGACY, "tools/call", session=session)
        for number in range(calls):
            connection = await attacker.connect()
            await connection.send(attacker.post(body.replace(b'"id":1', b'"id":%d' % (number + 1), 1), headers))
            await trio.sleep(0.05)
            await connection.aclose()

    await attacker.repeat(sessions, 8, one)


@attack("queued", "calls of 1 MB that wait in the queues of 60 sessions: 30 in each", seconds=10, settle=14)
async def queued(attacker: Attacker) -> None:
    """Fill running and queued requests with large bodies, on connections that stay open."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        headers = headers_of(LEGACY, "tools/call", session=session)
        for number in range(30):
            body = call("wait", {"seconds": 10, "text": "x" * 1_000_000}, LEGACY, number + 1)
            connection = await attacker.hold()
            await connection.send(attacker.post(body, headers))

    await attacker.repeat(60, 8, one)
    await trio.sleep(2)


@attack("queue-slots", "1,200 small calls of a slow tool in each of 3 sessions", seconds=10, settle=14)
async def queue_slots(attacker: Attacker) -> None:
    """Use all running and queued requests of sessions."""
    for _ in range(3):
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        await connection.aclose()
        headers = headers_of(LEGACY, "tools/call", session=session)

        async def one(number: int, headers: dict[str, str] = headers) -> None:
            connection = await attacker.hold()
            await connection.send(attacker.post(call("wait", {"seconds": 1}, LEGACY, number + 1), headers))

        await attacker.repeat(1_200, 16, one)
    async with trio.open_nursery() as nursery:
        for connection in attacker.held:
            nursery.start_soon(attacker.count_response, connection)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()


@attack("subscribe-one", "1,000 resources/subscribe of 64 KiB in one session")
async def subscribe_one(attacker: Attacker) -> None:
    """Subscribe to long URIs in one session."""
    await _subscribe(attacker, 1_000)


@attack("subscribe-many", "200 resources/subscribe of 64 KiB in each of 50 sessions", seconds=10)
async def subscribe_many(attacker: Attacker) -> None:
    """Subscribe to long URIs in many sessions."""

    async def one(_: int) -> None:
        await _subscribe(attacker, 200)

    await attacker.repeat(50, 4, one)


async def _subscribe(attacker: Attacker, count: int) -> None:
    connection = await attacker.connect()
    session = await attacker.open_session(connection)
    headers = headers_of(LEGACY, "resources/subscribe", session=session)
    for uri in uris(count, 64 * 1024 - 128):
        await attacker.exchange(
            connection, attacker.post(request("resources/subscribe", {"uri": uri}, LEGACY), headers)
        )
    await connection.aclose()


@attack(
    "replay", "200 sessions with an answer of 3.9 MB on a stream that its client left", seconds=10, kept=_REPLAY_KEPT
)
async def replay(attacker: Attacker) -> None:
    """Make the server keep responses for clients that never resume."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        headers = {**headers_of(LEGACY, "tools/call", session=session), "accept": "text/event-stream"}
        await connection.send(attacker.post(call("large", {"size": LARGE}, LEGACY), headers))
        await attacker.count_response(connection)
        await connection.aclose()

    await attacker.repeat(200, 8, one)


@attack("sessions", "12,000 initialize, and nothing else", seconds=15, kept=_SESSIONS_KEPT)
async def sessions(attacker: Attacker) -> None:
    """Open as many sessions as are allowed, and more."""
    whole = attacker.post(initialize(), headers_of(LEGACY, "initialize"))

    async def one(_: int) -> None:
        connection = await attacker.connect()
        for _ in range(100):
            await attacker.exchange(connection, whole)
        await connection.aclose()

    await attacker.repeat(120, 8, one)


_STREAMS_KEPT = 64.0


@attack(
    "session-streams",
    "1,000 sessions with 20 streams of answers each, all of them left",
    seconds=10,
    kept=(_STREAMS_KEPT, "what 20 streams of 1,000 sessions keep for clients that resume"),
)
async def session_streams(attacker: Attacker) -> None:
    """Make the server keep many streams for clients that never resume."""
    await _leave_streams(attacker, sessions=1_000, streams=20)


@attack(
    "million-streams",
    "10,000 sessions with 100 streams of answers each, all of them left",
    seconds=540,
    kept=(_SESSIONS_KEPT[0] + _STREAMS_KEPT, "as many sessions and events as their limits permit"),
    only_by_name=True,
)
async def million_streams(attacker: Attacker) -> None:
    """Make the server keep more streams than its limits permit."""
    await _leave_streams(attacker, sessions=10_000, streams=100)


async def _leave_streams(attacker: Attacker, *, sessions: int, streams: int) -> None:
    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        headers = {**headers_of(LEGACY, "tools/call", session=session), "accept": "text/event-stream"}
        for number in range(streams):
            await attacker.exchange(connection, attacker.post(call("echo", {"text": "x"}, LEGACY, number + 1), headers))
        await connection.aclose()

    await attacker.repeat(sessions, 8, one)


@attack("sse-2024", "300 streams of the HTTP+SSE transport, each with two slow calls of 3.9 MB", seconds=10)
async def sse_2024(attacker: Attacker) -> None:
    """Open streams of the transport of 2024-11-05, and post large calls to them."""
    stream_head = head("GET", "/sse", attacker.authority, {"accept": "text/event-stream"})
    body = call("wait", {"seconds": 10, "text": "x" * LARGE}, LEGACY)
    opening = initialize(revision="2024-11-05")

    async def one(_: int) -> None:
        stream = await attacker.hold()
        await stream.send(stream_head)
        await attacker.count_response(stream)
        while b"\n\n" not in stream.received and b"\r\n\r\n" not in stream.received:
            await stream.receive()
        lines = stream.received.decode().splitlines()
        place = next((line[5:].strip() for line in lines if line.startswith("data:")), None)
        if place is None:
            return
        connection = await attacker.connect()
        for message in (opening, body, body.replace(b'"id":1', b'"id":2', 1)):
            await attacker.exchange(connection, attacker.post(message, headers_of(LEGACY, ""), place))
        await connection.aclose()

    await attacker.repeat(300, 8, one)
    await trio.sleep(3)


@attack(
    "elicitation",
    "300 sessions with a call of 1 MB that waits for an answer of its user",
    seconds=10,
    kept=_ELICITATION_KEPT,
)
async def elicitation(attacker: Attacker) -> None:
    """Leave the elicitations of a server without a response."""
    opening = initialize({"elicitation": {}})

    async def one(_: int) -> None:
        connection = await attacker.hold()
        session = await attacker.open_session(connection, opening)
        headers = headers_of(LEGACY, "tools/call", session=session)
        await connection.send(attacker.post(call("ask", {"text": "x" * 1_000_000}, LEGACY), headers))
        await attacker.count_response(connection)

    await attacker.repeat(300, 8, one)
    await trio.sleep(3)


@attack("elicitation-left", "300 such sessions whose clients leave", seconds=10, kept=_ELICITATION_KEPT)
async def elicitation_left(attacker: Attacker) -> None:
    """Leave the elicitations of a server without a response, and close the connection."""
    opening = initialize({"elicitation": {}})

    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection, opening)
        headers = headers_of(LEGACY, "tools/call", session=session)
        await connection.send(attacker.post(call("ask", {"text": "x" * 1_000_000}, LEGACY), headers))
        await trio.sleep(0.1)
        await connection.aclose()

    await attacker.repeat(300, 8, one)


@attack("tasks", "2,000 tasks with arguments of 256 KiB, in 20 sessions", seconds=10, kept=_TASK_KEPT)
async def tasks(attacker: Attacker) -> None:
    """Start tasks with large arguments and results."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        headers = headers_of(LEGACY, "tools/call", session=session)
        for number in range(100):
            arguments = {"seconds": 0.5 * (number % 3), "text": "x" * 256 * 1024}
            body = call("job", arguments, LEGACY, number + 1, task={"ttl": 60_000})
            await attacker.exchange(connection, attacker.post(body, headers))
        await connection.aclose()

    await attacker.repeat(20, 4, one)


@attack("unread-answers", "300 connections that never read the answer of 3.9 MB to each of their two calls", seconds=10)
async def unread_answers(attacker: Attacker) -> None:
    """Request large responses and read nothing."""
    body = call("large", {"size": LARGE}, MODERN)
    whole = attacker.post(body, headers_of(MODERN, "tools/call", "large"))

    async def one(_: int) -> None:
        connection = await attacker.hold(receive_buffer=4_096)
        await connection.send(whole * 2)

    await attacker.repeat(300, 8, one)
    await trio.sleep(5)


@attack(
    "unread-calls", "200 sessions that never read 400 log messages of 16 KiB of a call", seconds=10, kept=_REPLAY_KEPT
)
async def unread_calls(attacker: Attacker) -> None:
    """Make a call send much, and read nothing of it."""

    async def one(_: int) -> None:
        connection = await attacker.hold(receive_buffer=4_096)
        session = await attacker.open_session(connection)
        headers = headers_of(LEGACY, "tools/call", session=session)
        body = call("chatter", {"messages": 400, "size": 16_384}, LEGACY, 1, _meta={"progressToken": "p"})
        await connection.send(attacker.post(body, headers))

    await attacker.repeat(200, 8, one)
    await trio.sleep(5)


@attack(
    "unread-streams",
    "200 standalone streams that are never read, and changes of 50 resources",
    seconds=10,
    kept=_REPLAY_KEPT,
)
async def unread_streams(attacker: Attacker) -> None:
    """Subscribe in sessions, never read their streams, and change the resources."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        session = await attacker.open_session(connection)
        headers = headers_of(LEGACY, "resources/subscribe", session=session)
        for number in range(50):
            body = request("resources/subscribe", {"uri": f"note://{number}"}, LEGACY, number + 1)
            await attacker.exchange(connection, attacker.post(body, headers))
        await connection.aclose()
        stream = await attacker.hold(receive_buffer=4_096)
        await stream.send(head("GET", "/mcp", attacker.authority, headers_of(LEGACY, "", session=session)))

    await attacker.repeat(200, 8, one)
    await _change(attacker, 50)


@attack(
    "unread-listen", "400 subscriptions/listen streams that are never read, and changes of 1,000 resources", seconds=10
)
async def unread_listen(attacker: Attacker) -> None:
    """Subscribe to many resources, never read, and change the resources."""
    wanted = {"notifications": {"resourceSubscriptions": [f"note://{number}" for number in range(1_000)]}}
    whole = attacker.post(request("subscriptions/listen", wanted, MODERN), headers_of(MODERN, "subscriptions/listen"))

    async def one(_: int) -> None:
        connection = await attacker.hold(receive_buffer=4_096)
        await connection.send(whole)

    await attacker.repeat(400, 8, one)
    await _change(attacker, 1_000)


async def _change(attacker: Attacker, count: int) -> None:
    """Change resources until the attack ends."""
    connection = await attacker.connect()
    body = call("change", {"first": 0, "count": count}, MODERN)
    whole = attacker.post(body, headers_of(MODERN, "tools/call", "change"))
    for _ in range(100):
        try:
            await attacker.exchange(connection, whole)
        except Broken:
            return
        await trio.sleep(0.05)
