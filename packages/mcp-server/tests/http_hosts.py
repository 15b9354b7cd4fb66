"""Hosts of an ASGI application, on each of which the tests run.

    async with served(app, kind) as url: ...

`embedded` is the host of this package, `hypercorn` is Hypercorn, and `mounted` is a prefix of a quart-trio application
on Hypercorn. `uvicorn` runs on asyncio: `run_on_asyncio` runs the test in trio tasks, as a guest of the same loop. A test
with the fixture `host` runs once with each `kind`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import h11
import hypercorn
import hypercorn.trio
import pytest
import quart_trio
import trio
import uvicorn

from mcp_core.limits import SERVER_LIMITS, Limits
from mcp_core.trio.guest import current_guest
from mcp_core.trio.host_loop import host_of_trio
from mcp_server.asgi import Application, Receive, Scope, Send
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts

if TYPE_CHECKING:
    from hypercorn.typing import Framework

T = TypeVar("T")


def run_on_asyncio(function: Callable[[], Awaitable[T]], *, clock: object, instruments: object) -> T:
    """Run a trio function as a guest of an asyncio loop: the runner of tests with the mark `trio(run=run_on_asyncio)`."""
    assert not clock
    assert not instruments

    async def guest() -> T:
        return await current_guest().run(function)

    return asyncio.run(guest())


HOSTS: Final = (
    "embedded",
    "hypercorn",
    "mounted",
    pytest.param("uvicorn", marks=pytest.mark.trio(run=run_on_asyncio)),
)

PREFIX: Final = "/below"
"""The path of a mounted application."""

_TIMEOUT: Final = 30
"""Seconds of the test's clock."""


@asynccontextmanager
async def served(
    app: Application, kind: str, *, limits: Limits = SERVER_LIMITS, timeouts: HostTimeouts | None = None
) -> AsyncIterator[str]:
    """Serve `app` while the block runs; yield the URL of its root without a trailing slash, as `http://127.0.0.1:4711`."""
    # A test that waits forever must fail.
    with trio.fail_after(_TIMEOUT):
        async with trio.open_nursery() as nursery:
            if kind == "embedded":
                (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                host, port = listener.socket.getsockname()[:2]
                await nursery.start(HttpHost(app, limits=limits, timeouts=timeouts).run, [listener])
                yield f"http://{host}:{port}"
            elif kind == "uvicorn":
                loop = host_of_trio()
                assert loop is not None
                async with loop.enter_asyncio(partial(served_by_uvicorn, app)) as url:
                    yield url
            else:
                config = hypercorn.Config()
                config.bind = ["127.0.0.1:0"]
                config.accesslog = config.errorlog = None
                stop = trio.Event()
                # Hypercorn has types of its own for the same interface.
                root = cast("Framework", app if kind == "hypercorn" else mounted(app))
                serve = partial(hypercorn.trio.serve, root, config, shutdown_trigger=stop.wait)
                (url,) = await nursery.start(serve)
                yield url + (PREFIX if kind == "mounted" else "")
                stop.set()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def served_by_uvicorn(app: Application) -> AsyncIterator[str]:
    """Serve `app` in an asyncio task while the block runs; yield the URL of its root."""
    # Open connections are closed at once.
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield "http://{}:{}".format(*listening.getsockname())
        finally:
            server.should_exit = True
            await serving


def mounted(app: Application) -> Application:
    """Return an application with `app` mounted at `PREFIX` of a quart-trio application."""
    outer = quart_trio.QuartTrio("outer")
    pages = cast("Application", outer.asgi_app)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] == "http" and path.startswith(PREFIX + "/"):
            await app({**scope, "root_path": PREFIX}, receive, send)
        else:
            await pages(scope, receive, send)

    setattr(outer, "asgi_app", dispatch)  # noqa: B010  # as documented by Quart; a method to type checkers
    return cast("Application", outer)


class RawResponse:
    """A response, as a client reads it."""

    def __init__(self, head: h11.Response | h11.InformationalResponse) -> None:
        self.status: Final = head.status_code
        self.headers: Final = {name.decode(): value.decode() for name, value in head.headers}
        self.body = b""


class RawHttp:
    """A client that writes requests as bytes, in pieces if needed, and parses responses with h11."""

    def __init__(self, stream: trio.abc.Stream, prefix: str = "") -> None:
        self.stream = stream
        self.prefix: Final = prefix
        self.parser = h11.Connection(h11.CLIENT)

    @classmethod
    async def to(cls, url: str) -> RawHttp:
        """Connect to the host of `url`. The path of `url` is the prefix of all paths."""
        address, slash, path = url.removeprefix("http://").partition("/")
        host, _, port = address.rpartition(":")
        return cls(await trio.open_tcp_stream(host, int(port)), slash + path)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self.stream.send_all(data)

    async def get(self, path: str = "/", **headers: str) -> RawResponse:
        """Send a GET request and return the response."""
        return await self.exchange("GET", path, None, **headers)

    async def exchange(self, method: str, path: str, body: bytes | None = None, **headers: str) -> RawResponse:
        """Send a request and return the response. Underscores in the names of headers are sent as dashes."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        await self.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        return await self.answer(method)

    async def head(self, method: str = "GET") -> RawResponse:
        """Return the head of the next response, which may be an informational one."""
        if self.parser.our_state is h11.DONE and self.parser.their_state is h11.DONE:
            self.parser.start_next_cycle()
        if self.parser.our_state is h11.IDLE:
            # The requests are written as bytes, so the parser must be given the request of this response.
            self.parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
            self.parser.send(h11.EndOfMessage())
        event = await self._event()
        assert isinstance(event, h11.Response | h11.InformationalResponse), event
        return RawResponse(event)

    async def part(self) -> bytes:
        """Return the next part of the body; an empty one at its end."""
        event = await self._event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        assert isinstance(event, h11.EndOfMessage), event
        return b""

    async def answer(self, method: str = "GET") -> RawResponse:
        """Return the next response with its body."""
        answer = await self.head(method)
        while data := await self.part():
            answer.body += data
        return answer

    async def closed(self) -> bool:
        """Read until the connection ends, and return whether no data preceded the end."""
        try:
            return not self.parser.trailing_data[0] and not await self.stream.receive_some()
        except trio.BrokenResourceError:
            return True

    async def aclose(self) -> None:
        """Close the connection."""
        await self.stream.aclose()

    async def _event(self) -> h11.Event:
        while (event := self.parser.next_event()) is h11.NEED_DATA:
            self.parser.receive_data(bytes(await self.stream.receive_some()))
        assert not isinstance(event, type), event
        return event
