"""The server of scripts/bench/soak_asyncio.py: functions for asyncio, which count their starts and ends.

An asyncio host serves `bench.programs.asyncio_server:app`. The last line of stdout is the count, when the lifespan ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import gc
import json
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

from bench.attacks.measure import usage
from mcp_server import Context, ElicitationAccepted, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp_server.asgi import Receive, Scope, Send

CALLER: Final = "x-caller"
"""The header with the name of the client, which becomes a context variable."""

_SHORT: Final = 0.01
"""Seconds after which a function gives up."""

_caller: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("caller", default="")


@attrs.define
class Counts:
    """The calls of functions that wait."""

    started: int = 0
    ended: int = 0
    cancelled: int = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a call."""
        self.started += 1
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended += 1


counts: Final = Counts()


@attrs.frozen
class Name:
    """A form with a name."""

    name: str


@asynccontextmanager
async def lifespan(_: Server) -> AsyncIterator[None]:
    """Print the counts at the end."""
    yield
    await asyncio.sleep(0)
    print(json.dumps(attrs.asdict(counts)), flush=True)


server = Server("soak", version="1", lifespan=lifespan)


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    await asyncio.sleep(0)
    return text


@server.tool
async def caller() -> str:
    """Return the context variable of the request."""
    await asyncio.sleep(0)
    return _caller.get()


@server.tool
async def steps(context: Context) -> str:
    """Report progress."""
    for step in range(3):
        await context.progress(step + 1, 3)
        await asyncio.sleep(0)
    return "done"


@server.tool
async def greet(context: Context) -> str:
    """Ask for a name."""
    answer = await context.elicit(Name, "Who are you?")
    return f"Hello {answer.value.name}" if isinstance(answer, ElicitationAccepted) else ""


@server.tool
async def wait(context: Context) -> str:
    """Wait until cancelled, and for a moment more."""
    with counts.one():
        try:
            await context.progress(1)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
    return ""


@server.tool
async def give_up() -> str:
    """Wait until a timeout of asyncio ends."""
    with counts.one():
        try:
            async with asyncio.timeout(_SHORT):
                await asyncio.Event().wait()
        except TimeoutError:
            return "gave up"
    return ""


@server.tool
async def fail() -> str:
    """Raise the error of a tool."""
    await asyncio.sleep(0)
    raise ValueError("on purpose")


@server.tool
async def change() -> str:
    """Notify listeners."""
    server.resource_updated("soak://item")
    return ""


@server.resource("soak://item")
async def item() -> str:
    """Return a text."""
    return "item"


@server.tool
async def figures() -> dict[str, float]:
    """Return the use of memory, descriptors and tasks, after a garbage collection."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    now = usage(os.getpid())
    return {
        "MiB": round(now.rss_mib, 1),
        "descriptors": now.descriptors,
        "asyncio tasks": len(asyncio.all_tasks()),
        "trio tasks": await _trio_tasks(),
        "calls that wait": counts.started - counts.ended,
    }


async def _trio_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


endpoint = server.asgi()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the endpoint, with the name of the client as a context variable."""
    headers = scope.get("headers")
    if isinstance(headers, list):
        _caller.set(dict(headers).get(CALLER.encode(), b"").decode())
    await endpoint(scope, receive, send)
