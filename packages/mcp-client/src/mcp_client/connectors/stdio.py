"""The ways in: `open_stdio` starts a server and talks to it, `open_stream` talks over bytes that are there."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_client.client import Client
from mcp_client.connection.channel import Link
from mcp_client.connection.response_cache import Caching
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.features.output_schema import OutputSchemas
from mcp_client.handlers import Handlers
from mcp_client.nursery import open_private_nursery
from mcp_client.transports.stdio.command import Grace, StdioParameters
from mcp_client.transports.stdio.legacy_commands import LegacyCommands, describe_attempt, may_be_legacy
from mcp_client.transports.stdio.process import ChildProcess
from mcp_client.transports.stdio.stream import StreamTransport
from mcp_core.engine.client import ClientConnection
from mcp_core.errors import Circumstances, ConnectionEnded, McpError, Phase
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.revisions import REVISIONS, Era
from mcp_core.types import Implementation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from os import PathLike
    from types import TracebackType

    from mcp_client.connection.transport import ByteStream, Transport
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.output_schema import OutputPolicy
    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.events import ServerPeer
    from mcp_core.limits import Limits
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel

__all__ = ["Opening", "open_stdio", "open_stream"]

_log: Final = logging.getLogger("mcp_client")

DEFAULT_INFO: Final = Implementation(name="mcp-client", version="0.1.0")
"""Who a client says it is unless the application says more."""

DEFAULT_GRACE: Final = Grace()
NO_HANDLERS: Final = Handlers()

_commands: Final = LegacyCommands()
"""What this process knows of commands. No data of a user is in it, so all connections of the process share it."""


@attrs.frozen(kw_only=True)
class ProcessRestart:
    """How a server process that ended on `server/discover` is started again."""

    parameters: StdioParameters
    """What runs."""
    connection: Callable[[], ClientConnection]
    """Makes an engine for the new process."""


class Opening:
    """A client that is about to be: `async with` it to have the `Client`.

    Leaving the block closes the connection and ends every task and process of it. `aclose` does the same from any
    task, also while the connection is still being made.
    """

    def __init__(
        self,
        make_transport: Callable[[trio.Nursery, Era | None], Awaitable[Transport]],
        connection: ClientConnection,
        handlers: Handlers,
        deadlines: Deadlines,
        validate_output: OutputPolicy,
        *,
        middleware: Sequence[Middleware],
        caching: Caching | None,
        restart: ProcessRestart | None = None,
    ) -> None:
        self._make_transport: Final = make_transport
        self._connection = connection
        self._restart: Final = restart
        self._handlers: Final = handlers
        self._deadlines: Final = deadlines
        self._outputs: Final = OutputSchemas(validate_output)
        self._middleware: Final = tuple(middleware)
        self._caching: Final = caching
        self._connecting = trio.CancelScope()
        self._link: Link | None = None
        self._closed = False
        self._block: AbstractAsyncContextManager[Client] | None = None

    async def __aenter__(self) -> Client:
        if self._block is not None:
            raise RuntimeError("this connection was opened before; call open_... again for another one")
        self._block = self._run()
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if self._block is None:
            raise RuntimeError("this connection was not opened")
        return await self._block.__aexit__(kind, error, traceback)

    async def run(self, *, task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED) -> None:
        """Has the connection in a task of its own, for clients that live as long as they like, in no special order.

            client = await nursery.start(open_stdio(["weather-server"]).run)
            ...
            await client.aclose()

        It returns when the client is closed, by any task, or the connection is lost; it raises as entering the block
        does.
        """
        async with self as client:
            task_status.started(client)
            await client.wait_ended()

    async def aclose(self) -> None:
        """Closes the connection, or gives up making it. Any task may, and more than once."""
        self._closed = True
        self._connecting.cancel()
        if self._link is not None:
            await self._link.aclose()
        else:
            await trio.lowlevel.checkpoint()

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[Client]:
        async with open_private_nursery() as nursery:
            try:
                with self._connecting:
                    client = await self._connect(nursery)
                if self._connecting.cancelled_caught:
                    raise _closed_meanwhile()
                yield client
            finally:
                if self._link is not None:
                    await self._link.aclose()

    async def _connect(self, nursery: trio.Nursery) -> Client:
        if self._closed:
            raise _closed_meanwhile()
        if self._restart is None:
            link, server = await self._open_link(nursery)
        else:
            link, server = await self._open_process(nursery, self._restart)
        client = Client(link, self._outputs, self._caching)
        level = self._connection.log_level
        if level is not None and server.revision.session_log_level and server.capabilities.logging is not None:
            try:
                await client.set_log_level(level)
            except McpError as error:
                # What a server logs is no reason to do without it.
                _log.warning("the log level could not be set: %s", error)
        return client

    async def _open_link(
        self, nursery: trio.Nursery, era: Era | None = None, began: float | None = None
    ) -> tuple[Link, ServerPeer]:
        transport = await self._make_transport(nursery, era)
        self._link = link = Link(
            self._connection, transport, self._handlers, self._deadlines, nursery, middleware=self._middleware
        )
        return link, await link.open(began=began)

    async def _open_process(self, nursery: trio.Nursery, restart: ProcessRestart) -> tuple[Link, ServerPeer]:
        """Open a connection to a server process, and start it again if it ends on `server/discover`."""
        era = _commands.era(restart.parameters)
        began = trio.current_time()
        try:
            return await self._open_link(nursery, era)
        except McpError as error:
            if era is not None:
                # With a probe it may work the next time.
                _commands.forget(restart.parameters)
            if era is not None or self._link is None or not may_be_legacy(error, self._connection.revisions):
                raise
            ended, link = error, self._link
        _log.info("%s ended on server/discover; it is started again, as a legacy server", link.transport.describe())
        first = describe_attempt(self._connection.opened_with, ended, stderr=True)
        await link.aclose()
        self._connection = restart.connection()
        try:
            opened = await self._open_link(nursery, Era.LEGACY, began)
        except McpError as error:
            second = describe_attempt(self._connection.opened_with, error, stderr=False)
            attempts = (first, f"{second}. Pass revisions= to open with one of the two requests only")
            error.circumstances = attrs.evolve(error.circumstances, attempts=attempts)
            raise
        if opened[1].revision.era is Era.LEGACY:
            _commands.learn(restart.parameters)
        return opened


def _closed_meanwhile() -> ConnectionEnded:
    error = ConnectionEnded("the client was closed while it was connecting")
    error.circumstances = Circumstances(phase=Phase.CONNECT)
    return error


def connection_of(
    info: Implementation,
    handlers: Handlers,
    revisions: Sequence[Revision],
    *,
    log_level: LoggingLevel | None,
    limits: Limits,
    extensions: Extensions | None,
) -> ClientConnection:
    """The engine of a client, from what each way in is told."""
    return ClientConnection(
        info,
        handlers.capabilities(),
        revisions=tuple(revisions),
        log_level=log_level,
        limits=limits,
        extensions=handlers.extended(extensions),
    )


def open_stdio(
    command: Sequence[str | PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: str | PathLike[str] | None = None,
    grace: Grace = DEFAULT_GRACE,
    on_stderr: Callable[[str], None] | None = None,
    on_junk: Callable[[str], None] | None = None,
    handlers: Handlers = NO_HANDLERS,
    info: Implementation = DEFAULT_INFO,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    deadlines: Deadlines = DEFAULT_DEADLINES,
    limits: Limits = CLIENT_LIMITS,
    log_level: LoggingLevel | None = None,
    validate_output: OutputPolicy = "warn",
    extensions: Extensions | None = None,
    middleware: Sequence[Middleware] = (),
    cache: bool = True,
) -> Opening:
    """Starts a server as a child process and talks to it over stdin and stdout.

        async with open_stdio(["weather-server"]) as client:
            result = await client.call_tool("forecast", {"city": "Ghent"})

    Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28)

    Args:
        command: The program and its arguments; no shell is involved.
        env: Environment variables of the child, beside a few harmless ones of ours (`PATH`, `HOME`, the language).
        inherit_env: Give it our whole environment.
        cwd: Its working directory; ours when `None`.
        grace: How long each step of stopping it may take.
        on_stderr: Is called with each line that it writes to stderr.
        on_junk: Is called with each line on stdout that is no message.
        handlers: What the server may ask of us.
        info: Who we are.
        revisions: The revisions that may be spoken; give one to pin it.
        deadlines: How long to wait for what.
        limits: The bounds that hold here.
        log_level: The least level of log messages that is wanted. A legacy server is told when the session is open, a
            modern one with each request; without it they send what they like, or nothing.
        validate_output: Whether a tool's structured result that breaks its output schema is raised, warned of in the
            log, or not checked. Only tools that `list_tools` brought are checked. What cannot be validated, since the
            schema is in an unknown dialect or refers elsewhere, is raised and warned of as well.
        extensions: Methods and notifications beyond the specification.
        middleware: What stands around every message; the first is the outermost.
        cache: Whether a result is used again for as long as the server says that it may be (2026-07-28).
            `Client.fresh` asks all the same.

    A process that ends on `server/discover` (exits, or closes stdout), as legacy servers made with rmcp do, is started
    again and sent `initialize`. The connect deadline covers both starts. This process remembers the command, and does
    not probe it again. `revisions` with one era alone starts the command once.

    Returns:
        An asynchronous context manager that gives the `Client`.

    *Closing*: closes stdin, waits for the process to exit, then SIGTERM and SIGKILL to its process group, each step
    bounded by `grace`.

    Raises:
        TypeError: `command` is a string.
        ProcessFailed: On entering: the process could not be started.
        NegotiationFailed: On entering: no revision in common.
        ConnectionEnded: On entering: it ended before it answered; the message has the end of its stderr. If it was
            started twice, `circumstances.attempts` has both attempts.
        RequestTimeout: On entering: the connect deadline passed.
    """
    parameters = StdioParameters(
        command=command,
        env=env or {},
        inherit_env=inherit_env,
        cwd=cwd,
        grace=grace,
        on_stderr_line=on_stderr,
    )

    async def start(nursery: trio.Nursery, era: Era | None) -> Transport:
        child = await ChildProcess.open(parameters, nursery)
        return StreamTransport(child, limits, on_junk=on_junk, era=era)

    def connection() -> ClientConnection:
        return connection_of(info, handlers, revisions, log_level=log_level, limits=limits, extensions=extensions)

    return Opening(
        start,
        connection(),
        handlers,
        deadlines,
        validate_output,
        middleware=middleware,
        caching=Caching() if cache else None,
        restart=ProcessRestart(parameters=parameters, connection=connection),
    )


def open_stream(
    stream: ByteStream,
    *,
    name: str = "a stream",
    on_junk: Callable[[str], None] | None = None,
    handlers: Handlers = NO_HANDLERS,
    info: Implementation = DEFAULT_INFO,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    deadlines: Deadlines = DEFAULT_DEADLINES,
    limits: Limits = CLIENT_LIMITS,
    log_level: LoggingLevel | None = None,
    validate_output: OutputPolicy = "warn",
    extensions: Extensions | None = None,
    middleware: Sequence[Middleware] = (),
    cache: bool = True,
) -> Opening:
    """Talks to a server over a byte stream, one message a line: a socket, a pipe, a stream in memory.

    Args:
        stream: The bytes: `receive_some`, `send_all`, `aclose`. Closed with the client.
        name: Who is at the other end, for error messages.
        on_junk: Is called with each line that is no message.
        handlers: What the server may ask of us.
        info: Who we are.
        revisions: The revisions that may be spoken; give one to pin it.
        deadlines: How long to wait for what.
        limits: The bounds that hold here.
        log_level: The least level of log messages that is wanted. A legacy server is told when the session is open, a
            modern one with each request; without it they send what they like, or nothing.
        validate_output: Whether a tool's structured result that breaks its output schema is raised, warned of in the
            log, or not checked. Only tools that `list_tools` brought are checked. What cannot be validated, since the
            schema is in an unknown dialect or refers elsewhere, is raised and warned of as well.
        extensions: Methods and notifications beyond the specification.
        middleware: What stands around every message; the first is the outermost.
        cache: Whether a result is used again for as long as the server says that it may be (2026-07-28).
            `Client.fresh` asks all the same.

    Returns:
        An asynchronous context manager that gives the `Client`. It raises as `open_stdio` does.
    """

    async def start(_: trio.Nursery, _era: Era | None) -> Transport:
        return StreamTransport(stream, limits, name=name, on_junk=on_junk)

    connection = connection_of(info, handlers, revisions, log_level=log_level, limits=limits, extensions=extensions)
    caching = Caching() if cache else None
    return Opening(start, connection, handlers, deadlines, validate_output, middleware=middleware, caching=caching)
