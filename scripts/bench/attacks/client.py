"""Well-behaved clients, which make calls all the time: `python -m bench.attacks.client URL KIND...`.

Each call is a line of JSON when it begins, and another one when it ends: kind, number, seconds of the monotonic clock of
the system, and the error. A line of the kind `lag` says how late this process woke up: on a busy machine every latency
grows by as much.
"""

from __future__ import annotations

import argparse
import itertools
import json
import ssl
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from bench.attacks.processes import end_with_parent
from mcp_client import Deadlines, HttpOptions, open_http
from mcp_core.errors import ConnectionEnded, McpError
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_client import Changes, Client, Connector

__all__ = ["KINDS"]

_PAUSE: Final = 0.05
_NEWCOMER_PAUSE: Final = 0.2
_TIMEOUT: Final = 60.0
_LEGACY: Final = "2025-11-25"
_MODERN: Final = "2026-07-28"
_OLDEST: Final = "2024-11-05"


@attrs.define
class Caller:
    """The clients of one process."""

    url: str
    tls: ssl.SSLContext | None
    numbers: itertools.count[int] = attrs.field(factory=itertools.count)

    def open(self, revision: str, path: str = "/mcp") -> Connector:
        """Return a client that is not connected yet."""
        return open_http(
            self.url.removesuffix("/mcp") + path,
            http=HttpOptions(
                tls=self.tls,
                proxies=False,
                on_session_lost=lambda: emit(kind="session lost", number=next(self.numbers), ended=time.monotonic()),
            ),
            revisions=[REVISIONS[revision]],
            deadlines=Deadlines(connect=_TIMEOUT, idle=_TIMEOUT, total=_TIMEOUT),
        )

    async def measure(self, kind: str, call: Callable[[], Awaitable[None]]) -> bool:
        """Make one call and report it. Return whether it was answered."""
        number = next(self.numbers)
        emit(kind=kind, number=number, began=time.monotonic())
        error: str | None = None
        try:
            with trio.fail_after(_TIMEOUT):
                await call()
        except (McpError, trio.TooSlowError) as failure:
            error = f"{type(failure).__name__}: {failure}"[:300]
        emit(kind=kind, number=number, ended=time.monotonic(), error=error)
        return error is None

    async def keep(
        self, kind: str, revision: str, path: str = "/mcp", call: Callable[[Client], Awaitable[None]] | None = None
    ) -> None:
        """Call on one connection without end, and connect again when it fails."""
        while True:
            try:
                async with self.open(revision, path) as client:
                    while await self.measure(kind, partial(call or echo, client)):
                        await self.pause(_PAUSE)
            except McpError as failure:
                self.report_failure(kind, failure)
            await self.pause(_PAUSE)

    async def listen(self, kind: str, revision: str) -> None:
        """Change a resource repeatedly, and measure the time until this client is notified."""
        uri = f"note://{next(self.numbers)}"

        async def change(client: Client, changes: Changes) -> None:
            await client.call_tool("change", {"first": int(uri.removeprefix("note://")), "count": 1})
            async for _ in changes:
                return
            raise ConnectionEnded("the stream of changes ended")

        while True:
            try:
                async with self.open(revision) as client, client.listen(uris=[uri]) as changes:
                    while await self.measure(kind, partial(change, client, changes)):
                        await self.pause(_NEWCOMER_PAUSE)
            except McpError as failure:
                self.report_failure(kind, failure)
            await self.pause(_PAUSE)

    def report_failure(self, kind: str, failure: McpError) -> None:
        """Report that a client could not connect, or lost its connection."""
        emit(kind=kind, number=next(self.numbers), ended=time.monotonic(), error=f"not connected: {failure}"[:300])

    async def come_anew(self, kind: str, revision: str) -> None:
        """Connect, call once and disconnect, without end."""

        async def visit() -> None:
            async with self.open(revision) as client:
                await echo(client)

        while True:
            await self.measure(kind, visit)
            await self.pause(_NEWCOMER_PAUSE)

    async def pause(self, seconds: float) -> None:
        """Wait, and report the delay of the wakeup."""
        began = time.monotonic()
        await trio.sleep(seconds)
        ended = time.monotonic()
        emit(kind="lag", number=next(self.numbers), began=began + seconds, ended=ended)


async def echo(client: Client) -> None:
    """Make a call, and check its answer."""
    result = await client.call_tool("echo", {"text": "hello"})
    if result.is_error or "hello" not in str(result.content):
        raise AssertionError(f"a wrong answer: {result}")


async def give_up(client: Client) -> None:
    """Cancel a call of a slow tool, and make sure that the connection is still usable."""
    with trio.move_on_after(0.02):
        await client.call_tool("wait", {"seconds": 30, "text": "x" * 10_000})
    await echo(client)


async def come_back(client: Client) -> None:
    """Make a call whose stream the server closes before the response, so that the client must resume it."""
    result = await client.call_tool("release", {"text": "hello"})
    if result.is_error or "hello" not in str(result.content):
        raise AssertionError(f"a wrong answer: {result}")


def emit(**line: object) -> None:
    """Print a line."""
    print(json.dumps(line), flush=True)


KINDS: Final[dict[str, Callable[[Caller], Awaitable[None]]]] = {
    "legacy": lambda caller: caller.keep("legacy", _LEGACY),
    "modern": lambda caller: caller.keep("modern", _MODERN),
    "new legacy": lambda caller: caller.come_anew("new legacy", _LEGACY),
    "new modern": lambda caller: caller.come_anew("new modern", _MODERN),
    "http+sse": lambda caller: caller.keep("http+sse", _OLDEST, "/sse"),
    "listening legacy": lambda caller: caller.listen("listening legacy", _LEGACY),
    "listening modern": lambda caller: caller.listen("listening modern", _MODERN),
    "cancelling legacy": lambda caller: caller.keep("cancelling legacy", _LEGACY, call=give_up),
    "cancelling modern": lambda caller: caller.keep("cancelling modern", _MODERN, call=give_up),
    "resuming": lambda caller: caller.keep("resuming", _LEGACY, call=come_back),
}


async def main(given: argparse.Namespace) -> None:
    """Call until standard input ends."""
    caller = Caller(given.url, None if given.ca is None else ssl.create_default_context(cafile=given.ca))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_with_parent, nursery.cancel_scope)
        for kind in given.kinds:
            nursery.start_soon(KINDS[kind], caller)


def parse() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description="The well-behaved clients of scripts/bench/attack_server.py.")
    parser.add_argument("url")
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--ca", help="a file with the certificate to trust")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(main, parse())
