"""What is put to the test as a server: a command that speaks over its pipes, a URL, or a command that listens at one."""

from __future__ import annotations

import errno
import secrets
import shlex
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_conformance.drivers.server.http_peer import open_http
from mcp_conformance.drivers.server.sse_peer import open_sse
from mcp_conformance.drivers.server.stdio_peer import open_stdio
from mcp_conformance.model.check import Transport
from mcp_conformance.wire.http_client import Endpoint, HttpEnded
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.process import run_process

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_conformance.drivers.server.peer import ServerPeer
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.process import LineProcess
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["CommandTarget", "NotStarted", "ServerTarget", "UrlTarget", "free_port", "started"]

_NEVER_GIVEN: Final = range(20_000, 32_768)
"""Ports below those that Linux, macOS and Windows give to programs that ask for any."""
_RETURNED: Final[set[int]] = set()
"""Those of them that were used."""
_ATTEMPTS: Final = 100
_LOOPBACK: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_PAUSE: Final = 0.05
"""Seconds between two attempts to reach a server that is starting."""


class NotStarted(Exception):
    """The server under test did not start. Why is the only argument."""


class ServerTarget(Protocol):
    """A server under test."""

    @property
    def transports(self) -> frozenset[Transport]:
        """What it can be reached over."""
        ...

    @property
    def log(self) -> str:
        """The end of what it wrote to standard error, where that is known."""
        ...

    def open(
        self,
        revision: Revision,
        transport: Transport,
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,
    ) -> AbstractAsyncContextManager[ServerPeer]:
        """Connect, for a block. See `open_stdio` and `open_http`."""
        ...


class CommandTarget:
    """A server that is started for each connection, and speaks over its pipes.

    Args:
        command: The command line; split as a shell does, but no shell runs it.
        settings: The bounds.
    """

    def __init__(self, command: str | Sequence[str], settings: Settings) -> None:
        self.command: Final = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
        self._settings: Final = settings
        self.log = ""
        """What the process of the last connection wrote to standard error."""

    def __str__(self) -> str:
        return shlex.join(self.command)

    @property
    def transports(self) -> frozenset[Transport]:
        """Its pipes."""
        return frozenset({Transport.STDIO})

    @asynccontextmanager
    async def open(
        self,
        revision: Revision,
        transport: Transport,  # noqa: ARG002  there is one
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,  # noqa: ARG002  these are headers
    ) -> AsyncIterator[ServerPeer]:
        """Start it, for a block."""
        async with open_stdio(
            self.command, revision, self._settings, capabilities=capabilities, handshake=handshake
        ) as peer:
            try:
                yield peer
            finally:
                self.log = peer.process.log


class UrlTarget:
    """A server that runs already.

    Args:
        url: Where.
        settings: The bounds.
        context: Whom to trust; `None`: whom the system trusts.
        sse_url: Where the stream of HTTP+SSE is; `None`: it offers none.
    """

    def __init__(
        self, url: str, settings: Settings, context: ssl.SSLContext | None = None, *, sse_url: str | None = None
    ) -> None:
        self.endpoint: Final = Endpoint(url, context)
        self.sse: Final = None if sse_url is None else Endpoint(sse_url, context)
        self._settings: Final = settings
        self._context: Final = context
        self.patience: Final = settings.patience
        """Seconds that something may take."""
        self.process: LineProcess | None = None
        """Its process, if it was started by the suite."""
        self.start: Callable[[], Awaitable[None]] | None = None
        """Starts it, and raises `NotStarted` where that fails; `None` where the suite did not start it."""

    def __str__(self) -> str:
        return self.endpoint.url

    def for_user(self, headers: tuple[tuple[str, str], ...]) -> UrlTarget:
        """The same server for somebody else.

        Args:
            headers: Who that is: what every request has.
        """
        settings = attrs.evolve(self._settings, headers=headers)
        return UrlTarget(self.endpoint.url, settings, self._context)

    @property
    def log(self) -> str:
        """The end of what it wrote to standard error so far; empty where the suite did not start it."""
        return "" if self.process is None else self.process.log

    @property
    def transports(self) -> frozenset[Transport]:
        """HTTP, and HTTP+SSE where it is offered."""
        return frozenset({Transport.HTTP} if self.sse is None else {Transport.HTTP, Transport.HTTP_SSE})

    def open(
        self,
        revision: Revision,
        transport: Transport,
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,
    ) -> AbstractAsyncContextManager[ServerPeer]:
        """Connect, for a block."""
        if transport is Transport.HTTP_SSE and self.sse is not None:
            return open_sse(self.sse, revision, self._settings, capabilities=capabilities, handshake=handshake)
        return open_http(
            self.endpoint, revision, self._settings, capabilities=capabilities, handshake=handshake, by_tool=by_tool
        )


@asynccontextmanager
async def started(
    command: str, url: str, settings: Settings, *, sse_url: str | None = None, seconds: float = 30.0
) -> AsyncIterator[UrlTarget]:
    """Start a server that listens at a port, for a block.

    Args:
        command: The command line, with `{port}` where the port goes.
        url: Its URL, with `{port}` too.
        settings: The bounds.
        sse_url: Where its stream of HTTP+SSE is, with `{port}` too; `None`: it offers none.
        seconds: How long it may take until it can be reached.

    Raises:
        NotStarted: It ended, or cannot be reached in time.
    """
    port = str(free_port())
    words = [word.replace("{port}", port) for word in shlex.split(command)]
    old = None if sse_url is None else sse_url.replace("{port}", port)
    target = UrlTarget(url.replace("{port}", port), settings, sse_url=old)
    over = trio.Event()
    async with open_nursery() as nursery:

        async def start() -> None:
            await nursery.start(_keep, target, words, seconds, over)

        await start()
        target.start = start
        try:
            yield target
        finally:
            over.set()


async def _keep(
    target: UrlTarget, words: Sequence[str], seconds: float, over: trio.Event, *, task_status: trio.TaskStatus[None]
) -> None:
    """Run a server from when it can be reached until all is over."""
    async with run_process(words, by_input=False) as process:
        target.process = process
        with trio.move_on_after(seconds) as scope:
            await _reached(target, process, words[0])
        if scope.cancelled_caught:
            raise NotStarted(f"nothing listens at {target.endpoint.url} after {seconds:g} seconds\n{process.log}")
        task_status.started()
        await over.wait()


async def _reached(target: UrlTarget, process: LineProcess, name: str) -> None:
    while True:
        try:
            await trio.aclose_forcefully(await target.endpoint.connect())
        except HttpEnded as ended:
            if process.status is not None:
                raise NotStarted(f"{name} ended with status {process.status}\n{process.log}") from ended
            await trio.sleep(_PAUSE)
        else:
            return


def free_port() -> int:
    """A port of the loopback interface that nobody listens at, neither by IPv4 nor by IPv6.

    Before the server listens, another program could be given it, and would be put to the test in its place. So it is none of
    those that a system gives to whoever asks for any, and none that was returned before.

    Raises:
        OSError: None was found.
    """
    for _ in range(_ATTEMPTS):
        port = secrets.choice(_NEVER_GIVEN)
        if port not in _RETURNED and all(_is_free(family, address, port) for family, address in _LOOPBACK):
            _RETURNED.add(port)
            return port
    raise OSError(f"no free port between {_NEVER_GIVEN[0]} and {_NEVER_GIVEN[-1]}")


def _is_free(family: socket.AddressFamily, address: str, port: int) -> bool:
    """Whether nobody listens there. Nobody does where there is no such address."""
    try:
        with socket.socket(family) as probe:
            probe.bind((address, port))
    except OSError as error:
        return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True
