"""The connectors for byte streams: `open_stdio` starts a server process, `open_stream` uses an existing stream."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_client.client import Client
from mcp_client.connection.channel import ClientChannel
from mcp_client.connection.message_observer import MessageObserver
from mcp_client.connection.response_cache import Caching
from mcp_client.connectors.options import DEFAULT_OPTIONS
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.features.output_schema import OutputSchemas
from mcp_client.handlers import Handlers
from mcp_client.transports.stdio.application_stream import ApplicationStream
from mcp_client.transports.stdio.command import Grace, StdioParameters
from mcp_client.transports.stdio.legacy_commands import LegacyCommands, describe_attempt, may_be_legacy
from mcp_client.transports.stdio.process import ChildProcess
from mcp_client.transports.stdio.stream import StreamTransport
from mcp_client.worker_threads import check_plain
from mcp_core.engine.client import ClientConnection
from mcp_core.errors import ConnectionEnded, ErrorContext, McpError, Phase
from mcp_core.field_methods import FieldValue
from mcp_core.revisions import REVISIONS, Era
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.trio.owner_task import AsyncOnly, OwnerTask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    from mcp_client.connection.channel import Transport
    from mcp_client.connectors.options import ClientOptions
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.output_schema import OutputPolicy
    from mcp_client.transports.stdio.stream import ByteStream
    from mcp_core.engine.events import ServerPeer
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel

__all__ = ["Connector", "open_stdio", "open_stream"]

_log: Final = logging.getLogger("mcp_client")

DEFAULT_GRACE: Final = Grace()
NO_HANDLERS: Final = Handlers()

_commands: Final = LegacyCommands()
"""The commands of known legacy servers, without user data. All connections of the process share them."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProcessRestart(FieldValue):
    """The means to restart a server process that ended on `server/discover`."""

    parameters: StdioParameters
    """The command and its environment."""
    connection: Callable[[], ClientConnection]
    """Returns an engine for the new process."""


class Connector(AsyncOnly):
    """A connection to open: an asynchronous context manager for the `Client`.

    Leaving the block closes the connection and ends all of its tasks and processes. `aclose` does the same, even while
    the connection is being opened. Any task can enter and leave the block, also in another order than other blocks: an
    owner task runs the connection.
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
        self._channel: ClientChannel | None = None
        self._closed = False
        self._owner: OwnerTask[Client] | None = None

    @allow_asyncio
    async def __aenter__(self) -> Client:
        if self._owner is not None:
            raise RuntimeError("this connector was already used; call open_stdio, open_stream or open_http again")
        self._owner = OwnerTask(self._run, "mcp_client connection")
        return await self._owner.__aenter__()

    @allow_asyncio
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._owner is None:
            raise RuntimeError("this connection was not opened")
        await self._owner.__aexit__(kind, error, traceback)

    async def run(self, *, task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the connection in a task of its own, for clients whose lifetimes are independent of each other.

            client = await nursery.start(open_stdio(["weather-server"]).run)
            ...
            await client.aclose()

        Returns when any task closes the client, or when the connection is lost.

        Args:
            task_status: Receives the `Client` when the connection is open.

        Raises:
            RuntimeError: The connection was opened before.
            McpError: The exceptions of entering the block.
        """
        async with self as client:
            task_status.started(client)
            await client.wait_ended()

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the connection, or stop opening it. Any task can call this, more than once."""
        self._closed = True
        self._connecting.cancel()
        if self._channel is not None:
            await self._channel.aclose()
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
                if self._channel is not None:
                    await self._channel.aclose()

    async def _connect(self, nursery: trio.Nursery) -> Client:
        if self._closed:
            raise _closed_meanwhile()
        if self._restart is None:
            channel, server = await self._open_link(nursery)
        else:
            channel, server = await self._open_process(nursery, self._restart)
        client = Client(channel, self._outputs)
        level = self._connection.log_level
        if level is not None and server.revision.session_log_level and server.capabilities.logging is not None:
            try:
                await client.set_log_level(level)
            except McpError as error:
                # The server is usable without its log messages.
                _log.warning("setting the log level failed: %s", error)
        return client

    async def _open_link(
        self, nursery: trio.Nursery, era: Era | None = None, began: float | None = None
    ) -> tuple[ClientChannel, ServerPeer]:
        transport = await self._make_transport(nursery, era)
        self._channel = channel = ClientChannel(
            self._connection,
            transport,
            self._handlers,
            self._deadlines,
            nursery,
            middleware=self._middleware,
            caching=self._caching,
        )
        return channel, await channel.open(began=began)

    async def _open_process(self, nursery: trio.Nursery, restart: ProcessRestart) -> tuple[ClientChannel, ServerPeer]:
        """Open a connection to a server process, and start it again if it ends on `server/discover`."""
        era = _commands.era(restart.parameters)
        began = trio.current_time()
        try:
            return await self._open_link(nursery, era)
        except McpError as error:
            if era is not None:
                # The next attempt begins with a probe.
                _commands.forget(restart.parameters)
            if era is not None or self._channel is None or not may_be_legacy(error, self._connection.revisions):
                raise
            ended, channel = error, self._channel
        _log.info("server ended on server/discover, restarting it as a legacy server: %s", channel.transport.describe())
        first = describe_attempt(self._connection.opened_with, ended, stderr=True)
        await channel.aclose()
        self._connection = restart.connection()
        try:
            opened = await self._open_link(nursery, Era.LEGACY, began)
        except McpError as error:
            second = describe_attempt(self._connection.opened_with, error, stderr=False)
            attempts = (first, f"{second}. Pass revisions= to open with one of the two requests only")
            error.context = attrs.evolve(error.context, attempts=attempts)
            raise
        if opened[1].revision.era is Era.LEGACY:
            _commands.learn(restart.parameters)
        return opened


def _closed_meanwhile() -> ConnectionEnded:
    error = ConnectionEnded("the client was closed while it was connecting")
    error.context = ErrorContext(phase=Phase.CONNECT)
    return error


def connection_of(
    handlers: Handlers, revisions: Sequence[Revision], log_level: LoggingLevel | None, options: ClientOptions
) -> ClientConnection:
    """Return the engine of a client, from the arguments of a connector."""
    return ClientConnection(
        options.info,
        handlers.capabilities(),
        revisions=tuple(revisions),
        log_level=log_level,
        limits=options.limits,
        extensions=handlers.extended(options.extensions),
    )


def observer_of(options: ClientOptions) -> MessageObserver | None:
    """Return the observer of messages that the options require. Raises `LocalProtocolError` for a coroutine function."""
    check_plain(options.on_message, "ClientOptions.on_message")
    return None if options.on_message is None else MessageObserver(options.on_message)


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
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    deadlines: Deadlines = DEFAULT_DEADLINES,
    log_level: LoggingLevel | None = None,
    middleware: Sequence[Middleware] = (),
    options: ClientOptions = DEFAULT_OPTIONS,
) -> Connector:
    """Start a server as a child process and connect to it over stdin and stdout.

        async with open_stdio(["weather-server"]) as client:
            result = await client.call_tool("forecast", {"city": "Ghent"})

    Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28)

    Args:
        command: The program and its arguments; no shell is involved.
        env: Environment variables of the child process. It also inherits a few harmless ones (`PATH`, `HOME`, the
            language).
        inherit_env: Whether the child process inherits the whole environment.
        cwd: The working directory of the child process; `None` for the one of this process.
        grace: The time for each step of stopping the child process.
        on_stderr: Called with each line that the server writes to stderr.
        on_junk: Called with each line on stdout that is not a message.
        handlers: The handlers of client requests and notifications.
        revisions: The revisions to negotiate; give a single one to pin it.
        deadlines: The deadlines of the connection and of its requests.
        log_level: The minimum level of log messages that the server sends. A legacy server receives the level when the
            session is open, a modern server with each request. `None`: legacy servers choose a level, and modern
            servers do not send log messages.
        middleware: The middleware of all messages, outermost first.
        options: Further settings.

    Returns:
        An asynchronous context manager for the `Client`.

    *Closing*: closes stdin and waits for the process to exit, then sends SIGTERM and SIGKILL to its process group.
    `grace` limits each step.

    Raises:
        TypeError: `command` is a string.
        LocalProtocolError: `on_stderr`, `on_junk` or `ClientOptions.on_message` is a coroutine function.
        ProcessFailed: On entering: starting the process failed.
        NegotiationFailed: On entering: the client and the server have no revision in common.
        ConnectionEnded: On entering: the process ended before it responded; the message has the end of its stderr. If
            the process was started twice, `context.attempts` has both attempts.
        RequestTimeout: On entering: the connect deadline passed.
    """
    check_plain(on_stderr, "on_stderr")
    check_plain(on_junk, "on_junk")
    observer = observer_of(options)
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
        return StreamTransport(child, options.limits, on_junk=on_junk, era=era, observer=observer)

    def connection() -> ClientConnection:
        return connection_of(handlers, revisions, log_level, options)

    return Connector(
        start,
        connection(),
        handlers,
        deadlines,
        options.validate_output,
        middleware=middleware,
        caching=Caching() if options.cache else None,
        restart=ProcessRestart(parameters=parameters, connection=connection),
    )


def open_stream(
    stream: ByteStream,
    *,
    name: str = "a stream",
    on_junk: Callable[[str], None] | None = None,
    handlers: Handlers = NO_HANDLERS,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    deadlines: Deadlines = DEFAULT_DEADLINES,
    log_level: LoggingLevel | None = None,
    middleware: Sequence[Middleware] = (),
    options: ClientOptions = DEFAULT_OPTIONS,
) -> Connector:
    """Connect to a server over a byte stream with one message per line: a socket, a pipe or an in-memory stream.

    Args:
        stream: The byte stream, with `receive_some`, `send_all` and `aclose`. The client closes it. Streams of trio are
            written for trio; another one has an attribute `async_library`, or is written for the library of the caller.
        name: The name of the server in error messages.
        on_junk: Called with each line that is not a message.
        handlers: The handlers of client requests and notifications.
        revisions: The revisions to negotiate; give a single one to pin it.
        deadlines: The deadlines of the connection and of its requests.
        log_level: The minimum level of log messages that the server sends. A legacy server receives the level when the
            session is open, a modern server with each request. `None`: legacy servers choose a level, and modern
            servers do not send log messages.
        middleware: The middleware of all messages, outermost first.
        options: Further settings.

    Returns:
        An asynchronous context manager for the `Client`. Entering raises the exceptions of `open_stdio`.
    """
    check_plain(on_junk, "on_junk")
    observer = observer_of(options)
    adapted = ApplicationStream.of(stream)

    async def start(_: trio.Nursery, _era: Era | None) -> Transport:
        return StreamTransport(adapted, options.limits, name=name, on_junk=on_junk, observer=observer)

    connection = connection_of(handlers, revisions, log_level, options)
    caching = Caching() if options.cache else None
    return Connector(
        start, connection, handlers, deadlines, options.validate_output, middleware=middleware, caching=caching
    )
