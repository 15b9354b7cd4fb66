"""An application for trio in the ASGI functions of a host on asyncio."""

from __future__ import annotations

import asyncio

import trio

from mcp_server.asgi import COMPANION, SLOW_AFTER, Message, Receive, Scope, Send
from mcp_server.transports.http.asyncio_host import serve_from_asyncio

_SECONDS = 20
"""Time after which a call that waits forever fails."""


def test_stream_to_host_that_never_waits_lets_other_tasks_run() -> None:
    sent: list[Message] = []

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:  # an application
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not stop.is_set():
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            assert len(sent) < 10_000, "no other task has run"
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    async def main() -> None:
        async with asyncio.timeout(_SECONDS):
            serving = asyncio.create_task(serve_from_asyncio(stream, {"type": "http"}, receive, send))
            await asyncio.sleep(0.001)
            stop.set()
            await serving
        assert [message.get("more_body", False) for message in sent[-2:]] == [True, False]

    stop = asyncio.Event()
    asyncio.run(main())


def test_companion_starts_for_each_request_that_is_slow_and_for_no_other() -> None:
    started: list[str] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:  # an application
        name = str(scope["path"])
        has_started = trio.Event()

        async def companion() -> None:
            started.append(name)
            has_started.set()

        extensions = scope["extensions"]
        assert isinstance(extensions, dict)
        extensions[COMPANION](companion)
        if name != "fast":
            await has_started.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        pass

    async def main() -> None:
        async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as group:
            for path in ("slow", "fast"):
                group.create_task(serve_from_asyncio(serve, {"type": "http", "path": path}, receive, send))
            later = asyncio.Event()
            # Before the first two are due, so that the timer has to be set again.
            asyncio.get_running_loop().call_later(SLOW_AFTER / 2, later.set)
            await later.wait()
            await serve_from_asyncio(serve, {"type": "http", "path": "later"}, receive, send)

    asyncio.run(main())
    assert started == ["slow", "later"]
