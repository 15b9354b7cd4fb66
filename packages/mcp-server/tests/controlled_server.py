"""A server with tools that tests hold, release and observe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import REVISIONS, Revision
from mcp_server import Context, Server


class ControlledServer:
    """The tools of a server, their calls, and the events that they wait for."""

    def __init__(
        self, limits: Limits | None = None, revisions: tuple[Revision, ...] = tuple(REVISIONS.values())
    ) -> None:
        self.server = Server("gate", version="0", limits=limits or Limits(), revisions=revisions, async_library="trio")
        self.releases: dict[str, trio.Event] = {}
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.done: list[str] = []
        self.contexts: list[Context] = []
        server = self.server

        @server.tool
        async def echo(text: str) -> str:
            """Return the text."""
            return text

        @server.tool
        async def hold(name: str, context: Context) -> str:
            """Wait until the test releases the call."""
            self.running.append(name)
            self.contexts.append(context)
            try:
                await self.release_event(name).wait()
            except trio.Cancelled:
                self.cancelled.append(name)
                raise
            self.done.append(name)
            return name

        @server.tool
        async def steps(name: str, context: Context, count: int = 2) -> str:
            """Report each step, and wait for its release."""
            self.running.append(name)
            try:
                for step in range(1, count + 1):
                    await context.progress(step)
                    await self.release_event(f"{name}{step}").wait()
            except trio.Cancelled:
                self.cancelled.append(name)
                raise
            self.done.append(name)
            return name

        @server.tool
        async def half() -> str:
            """Return text that JSON cannot encode."""
            return "half of a pair: \ud800"

        @server.tool
        async def fail() -> str:
            """Raise an exception."""
            raise RuntimeError("a secret")

        @server.tool
        async def look(context: Context) -> str:
            """Request the roots of the client."""
            self.running.append("look")
            return str(len(await context.list_roots()))

        @server.tool
        async def release(name: str, context: Context) -> str:
            """Release the stream of the request."""
            await context.progress(1)
            await context.release_stream()
            self.running.append(name)
            await self.release_event(name).wait()
            await context.progress(2)
            self.done.append(name)
            return name

        @server.tool
        async def who(context: Context) -> str:
            """Return the principal and the request."""
            assert context.http is not None
            name = None if context.principal is None else context.principal.subject
            return f"{name} {context.http.method} {context.http.headers.get('user-agent')}"

        @server.resource("memo://{name}")
        async def memo(name: str) -> str:
            """Return the name."""
            return name

    def release_event(self, name: str) -> trio.Event:
        return self.releases.setdefault(name, trio.Event())

    def let(self, *names: str) -> None:
        for name in names:
            self.release_event(name).set()

    async def until_running(self, *names: str) -> None:
        await until(lambda: all(name in self.running for name in names))


async def until(ready: Callable[[], bool]) -> None:
    """Let other tasks run until the predicate is true."""
    with trio.fail_after(20):
        while not ready():
            await trio.lowlevel.checkpoint()


def text_of(answer: Mapping[str, JsonValue]) -> str:
    """Return the text in the result of a tool."""
    result = answer["result"]
    assert isinstance(result, dict), answer
    content = result["content"]
    assert isinstance(content, list)
    first = content[0]
    assert isinstance(first, dict)
    text = first["text"]
    assert isinstance(text, str)
    return text
