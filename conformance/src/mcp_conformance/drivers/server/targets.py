"""Servers under test: a command that uses stdio, a URL, or a command that serves a URL."""

from __future__ import annotations

import errno
import secrets
import shlex
import socket
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_conformance.drivers.server.http_connection import open_http
from mcp_conformance.drivers.server.sse_connection import open_sse
from mcp_conformance.drivers.server.stdio_connection import open_stdio
from mcp_conformance.model.check import Transport
from mcp_conformance.wire.http_client import Endpoint, IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.process import run_process
from mcp_conformance.wire.timeouts import AdaptiveTimeouts
from mcp_conformance.wire.transcript import Transcript

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.process import LineProcess
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["CommandTarget", "NotStarted", "ServerTarget", "UrlTarget", "free_port", "started"]

_NEVER_GIVEN: Final = range(20_000, 32_768)
"""Ports below those that Linux, macOS and Windows assign to programs that request any port."""
_RETURNED: Final[set[int]] = set()
"""The ports of that range that were returned."""
_ATTEMPTS: Final = 100
_LOOPBACK: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_PAUSE: Final = 0.05
"""Seconds between two attempts to reach a server that is starting."""

_TO_END: Final = 1.0
"""Seconds from the exit of a process to the end of its standard error, which a child process may keep open."""


class NotStarted(Exception):
    """The server under test did not start. The only argument is the cause."""


class ServerTarget(Protocol):
    """A server under test."""

    @property
    def transports(self) -> frozenset[Transport]:
        """The transports of the server."""
        ...

    def open(
        self,
        revision: Revision,
        transport: Transport,
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,
        transcript: Transcript | None = None,
    ) -> AbstractAsyncContextManager[SuiteConnection]:
        """Connect while the block runs. The arguments are those of `open_stdio` and `open_http`."""
        ...


class CommandTarget:
    """A server over stdio that is started for each connection.

    Args:
        command: The command line; split as a shell does, but without a shell.
        settings: The settings.
    """

    def __init__(self, command: str | Sequence[str], settings: Settings) -> None:
        self.command: Final = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
        self._settings: Final = attrs.evolve(settings, timeouts=AdaptiveTimeouts())

    def __str__(self) -> str:
        return shlex.join(self.command)

    @property
    def transports(self) -> frozenset[Transport]:
        """The transports of the server: stdio."""
        return frozenset({Transport.STDIO})

    @asynccontextmanager
    async def open(
        self,
        revision: Revision,
        transport: Transport,  # noqa: ARG002  there is only stdio
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,  # noqa: ARG002  stdio has no headers
        transcript: Transcript | None = None,
    ) -> AsyncIterator[SuiteConnection]:
        """Start the server and connect while the block runs."""
        async with open_stdio(
            self.command,
            revision,
            self._settings,
            capabilities=capabilities,
            handshake=handshake,
            transcript=transcript,
        ) as peer:
            yield peer


class UrlTarget:
    """A running server.

    Args:
        url: The URL.
        settings: The settings.
        context: The trusted certificates; `None`: those of the system.
        sse_url: The URL of the HTTP+SSE stream; `None` if the server has none.
        timeouts: The time limits of the waits for the same server; `None`: new ones.
    """

    def __init__(
        self,
        url: str,
        settings: Settings,
        context: ssl.SSLContext | None = None,
        *,
        sse_url: str | None = None,
        timeouts: AdaptiveTimeouts | None = None,
    ) -> None:
        self.endpoint: Final = Endpoint(url, context)
        self.sse: Final = None if sse_url is None else Endpoint(sse_url, context)
        self._settings: Final = attrs.evolve(settings, timeouts=timeouts or AdaptiveTimeouts())
        self._context: Final = context
        self.timeout: Final = settings.timeout
        """Seconds that a response may take."""
        self.process: LineProcess | None = None
        """The process, if the suite started the server."""
        self.start: Callable[[], Awaitable[None]] | None = None
        """Starts the server again, and raises `NotStarted` on failure; `None` if the suite did not start it."""
        self.start_another: Callable[[], AbstractAsyncContextManager[UrlTarget]] | None = None
        """Starts another process of the server, at another port; `None` if the suite did not choose its port."""
        self.accounts: Final = trio.Lock()
        """Held by a check that changes the accounts of the users: all legs have the same users."""

    def __str__(self) -> str:
        return self.endpoint.url

    def for_user(self, headers: tuple[tuple[str, str], ...]) -> UrlTarget:
        """Return the same server for another user.

        Args:
            headers: The headers that authenticate the user in every request.
        """
        settings = attrs.evolve(self._settings, headers=headers)
        return UrlTarget(self.endpoint.url, settings, self._context, timeouts=settings.timeouts)

    @property
    def transports(self) -> frozenset[Transport]:
        """The transports of the server: HTTP, and HTTP+SSE if offered."""
        return frozenset({Transport.HTTP} if self.sse is None else {Transport.HTTP, Transport.HTTP_SSE})

    def open(
        self,
        revision: Revision,
        transport: Transport,
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,
        transcript: Transcript | None = None,
    ) -> AbstractAsyncContextManager[SuiteConnection]:
        """Connect while the block runs."""
        record = Transcript() if transcript is None else transcript
        if self.process is not None:
            record.log = self.process.last_lines
        if transport is Transport.HTTP_SSE and self.sse is not None:
            return open_sse(
                self.sse,
                revision,
                self._settings,
                capabilities=capabilities,
                handshake=handshake,
                transcript=record,
            )
        return open_http(
            self.endpoint,
            revision,
            self._settings,
            capabilities=capabilities,
            handshake=handshake,
            by_tool=by_tool,
            transcript=record,
        )


@asynccontextmanager
async def started(
    command: str, url: str, settings: Settings, *, sse_url: str | None = None, seconds: float = 30.0
) -> AsyncIterator[UrlTarget]:
    """Start a server that listens on a port while the block runs.

    Args:
        command: The command line, with the placeholder `{port}`.
        url: The URL, with `{port}` too.
        settings: The settings.
        sse_url: The URL of the HTTP+SSE stream, with `{port}` too; `None` if the server has none.
        seconds: The time until the server must be reachable.

    Raises:
        NotStarted: The server exited, or cannot be reached in time.
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
        if "{port}" in command:
            target.start_another = partial(started, command, url, settings, sse_url=sse_url, seconds=seconds)
        try:
            yield target
        finally:
            over.set()


async def _keep(
    target: UrlTarget, words: Sequence[str], seconds: float, over: trio.Event, *, task_status: trio.TaskStatus[None]
) -> None:
    """Run a server. Report it as started when it can be reached, and stop it when all is over."""
    async with run_process(words, by_input=False) as process:
        target.process = process
        with trio.move_on_after(seconds) as scope:
            await _reached(target, process, words[0])
        if scope.cancelled_caught:
            raise NotStarted(f"nothing listens at {target.endpoint.url} after {seconds:g} seconds{_log(process)}")
        task_status.started()
        await over.wait()


async def _reached(target: UrlTarget, process: LineProcess, name: str) -> None:
    while True:
        try:
            await trio.aclose_forcefully(await target.endpoint.connect())
        except IncompleteResponse as ended:
            if process.status is not None:
                with trio.move_on_after(_TO_END):
                    await process.wait_for_log()
                raise NotStarted(f"{name} ended with status {process.status}{_log(process)}") from ended
            await trio.sleep(_PAUSE)
        else:
            return


def _log(process: LineProcess) -> str:
    lines = process.last_lines()
    return f"; end of its standard error:\n{lines}" if lines else ", without any standard error"


def free_port() -> int:
    """Return a port on which no program listens, neither on the IPv4 nor on the IPv6 loopback address.

    Another program could get the port before the server listens, and would be tested in its place. Therefore the port
    is not in a range from which systems assign ports, and it was not returned before.

    Raises:
        OSError: No free port was found.
    """
    for _ in range(_ATTEMPTS):
        port = secrets.choice(_NEVER_GIVEN)
        if port not in _RETURNED and all(_is_free(family, address, port) for family, address in _LOOPBACK):
            _RETURNED.add(port)
            return port
    raise OSError(f"no free port between {_NEVER_GIVEN[0]} and {_NEVER_GIVEN[-1]}")


def _is_free(family: socket.AddressFamily, address: str, port: int) -> bool:
    """Return whether no program listens on a port. This holds as well if the address does not exist."""
    try:
        with socket.socket(family) as probe:
            probe.bind((address, port))
    except OSError as error:
        return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True
