"""The connections of a test: opened by one function, and closed together at the end of the test.

`ConnectionsOfTest` opens them. `run_body` runs the body of a test, closes the connections, and raises the failure that the
author of the test looks for: a failed assertion in a handler in place of the error response that it caused, and an exception
in place of the exception group of a nursery.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import attrs

from mcp_client.connectors.http import open_http
from mcp_client.connectors.stdio import open_stdio
from mcp_client.deadlines import Deadlines
from mcp_client.features.tool_result import ToolFailed
from mcp_client.handlers import Handlers
from mcp_client.testing.memory import Serve, open_in_memory
from mcp_client.transports.stdio.command import describe_command
from mcp_core.errors import ConnectionEnded, LocalProtocolError, RequestFailed
from mcp_core.field_methods import FieldRepr
from mcp_core.revisions import REVISIONS
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.nursery import is_cancellation
from mcp_core.trio.owner_task import OwnerTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_client.client import Client
    from mcp_client.testing.recordings import RecordingsOfTest
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel

__all__ = [
    "ConnectFixture",
    "ConnectionsOfTest",
    "RunnableServer",
    "ServerStderr",
    "TestedServer",
    "run_body",
    "single_cause",
]

_STDERR_LINES: Final = 200
"""Number of lines at the end of a server's stderr that are shown for a failed test."""

_FAILURES: Final = 10
"""Number of failed assertions of handlers that are kept."""

_CAUSED: Final = (ToolFailed, RequestFailed, ConnectionEnded)
"""The errors of a client that a failed handler causes."""


@runtime_checkable
class RunnableServer(Protocol):
    """A server that runs in this program: `mcp_server.Server`."""

    def running(self) -> AbstractAsyncContextManager[object]:
        """Return a block in which the server runs."""


TestedServer: TypeAlias = RunnableServer | Serve | Sequence[str | PathLike[str]] | str
"""A server to connect to: an object that runs in memory, a function that serves a stream, a command, or a URL."""


class ConnectFixture(Protocol):
    """The function of the fixtures `connect` and `connect_recorded`."""

    async def __call__(
        self,
        server: TestedServer,
        *,
        revision: Revision | None = None,
        handlers: Handlers | None = None,
        deadlines: Deadlines | None = None,
        log_level: LoggingLevel | None = None,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Client:
        """Connect to a server until the end of the test.

        Args:
            server: The server: a `Server` of `mcp_server`, which runs in memory; a function that serves a stream, as for
                `open_in_memory`; a list with the words of a command, for stdio; or a URL, for HTTP.
            revision: The only revision to negotiate; `None` for all.
            handlers: The handlers of client requests and notifications; `None` for no handlers.
            deadlines: The deadlines of the connection and of its requests; `None` for the default.
            log_level: The minimum level of log messages that the server sends; `None` as for `open_stdio`.
            env: Environment variables of a command.
            headers: Headers of the requests to a URL.

        Returns:
            The client. It is closed at the end of the test, after the clients that were opened later.

        Raises:
            LocalProtocolError: `env` is given without a command, or `headers` without a URL; or the kind of server cannot
                be recorded.
            McpError: The exceptions of `open_stdio` and `open_http`.
        """


@attrs.define(eq=False, repr=False)
class ServerStderr(FieldRepr):
    """The end of what one server wrote to stderr."""

    name: str
    """The command, shortened."""
    lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=_STDERR_LINES))
    """The last lines, at most 200."""


class ConnectionsOfTest:
    """The open connections of a test. `connect` is the function of `ConnectFixture`.

    Args:
        serve: Returns the function that serves a stream for a server in memory: `serve_stream` of `mcp_server`. The client
            does not depend on the package of the server.
        recordings: Replays the recordings of the test, or makes them; `None` to connect to the servers only.
    """

    def __init__(self, serve: Callable[[RunnableServer], Serve], recordings: RecordingsOfTest | None = None) -> None:
        self._serve: Final = serve
        self._recordings: Final = recordings
        self._open: Final[list[AbstractAsyncContextManager[Client]]] = []
        self.stderr: Final[list[ServerStderr]] = []
        """What the servers wrote to stderr, in the order of the connections."""

    @allow_asyncio
    async def connect(
        self,
        server: TestedServer,
        *,
        revision: Revision | None = None,
        handlers: Handlers | None = None,
        deadlines: Deadlines | None = None,
        log_level: LoggingLevel | None = None,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Client:
        """Connect to a server until the end of the test, as described by `ConnectFixture`."""
        revisions = tuple(REVISIONS.values()) if revision is None else (revision,)
        handlers = handlers or Handlers()
        deadlines = deadlines or Deadlines()
        is_url = isinstance(server, str)
        is_command = isinstance(server, Sequence) and not is_url
        if env is not None and not is_command:
            raise LocalProtocolError("connect: env requires a command; only a process has an environment")
        if headers is not None and not is_url:
            raise LocalProtocolError("connect: headers require a URL; only requests over HTTP have headers")
        if isinstance(server, RunnableServer):
            server = self._serve(server)
        if self._recordings is not None:
            stderr = ServerStderr("the recording")
            self.stderr.append(stderr)
            server = self._recordings.substitute(server, stderr.lines.append)
        connection: AbstractAsyncContextManager[Client]
        if isinstance(server, str):
            connection = open_http(
                server,
                headers=headers,
                handlers=handlers,
                revisions=revisions,
                deadlines=deadlines,
                log_level=log_level,
            )
        elif isinstance(server, Sequence):
            stderr = ServerStderr(describe_command([str(word) for word in server]))
            self.stderr.append(stderr)
            connection = open_stdio(
                server,
                env=env,
                on_stderr=stderr.lines.append,
                handlers=handlers,
                revisions=revisions,
                deadlines=deadlines,
                log_level=log_level,
            )
        else:
            serve = server

            def opened() -> AbstractAsyncContextManager[Client]:
                return open_in_memory(
                    serve, handlers=handlers, revisions=revisions, deadlines=deadlines, log_level=log_level
                )

            # The test can open the connection inside a nursery that ends before the connection.
            connection = OwnerTask(opened, "mcp_client connection of a test")
        client = await connection.__aenter__()
        self._open.append(connection)
        return client

    @allow_asyncio
    async def aclose(self, error: BaseException | None = None) -> None:
        """Close the connections, the last one first. Keep new recordings if the test passed.

        Args:
            error: The failure of the test. Failures of closing become notes of it.

        Raises:
            Exception: A connection or a server in memory failed, and the test did not.
        """
        failures: list[Exception] = []
        while self._open:
            try:
                await self._open.pop().__aexit__(None, None, None)
            except Exception as failure:  # noqa: BLE001  raised when all are closed
                failures.append(failure)
        if self._recordings is not None:
            self._recordings.finish(keep=error is None and not failures)
        if error is None and failures:
            first, *others = failures
            for other in others:
                first.add_note(f"Closing another connection failed: {other!r}")
            raise first
        for other in failures:
            if error is not None:
                error.add_note(f"Closing a connection failed: {other!r}")


class _FailedAssertions(logging.Handler):
    """The failed assertions of handlers, which the client and the server log, because a peer must not see them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: Final[deque[AssertionError]] = deque(maxlen=_FAILURES)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        cause = None if error is None else single_cause(error)
        if isinstance(cause, AssertionError):
            self.found.append(cause)


@contextmanager
def _assertions_of_handlers() -> Iterator[deque[AssertionError]]:
    handler = _FailedAssertions()
    loggers = [logging.getLogger(name) for name in ("mcp_client", "mcp_server")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.found
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def single_cause(error: BaseException) -> BaseException:
    """Return the exception inside of exception groups that contain only one; else the group.

    Cancellations do not count: a nursery cancels its tasks when one of them fails.
    """
    while isinstance(error, BaseExceptionGroup):
        failures = [each for each in error.exceptions if not is_cancellation(each)]
        if len(failures) != 1:
            break
        (error,) = failures
    return error


async def run_body(
    body: Callable[[], Awaitable[object]], connections: ConnectionsOfTest | None, check: Callable[[], None]
) -> None:
    """Run the body of a test, and close its connections. On trio or on asyncio.

    Args:
        body: The test.
        connections: The connections that the test opens.
        check: Raises `AssertionError` for a failure that the test cannot see, such as an unexpected client request.

    Raises:
        BaseException: The failure of the test, without exception groups around a single exception. If a handler failed
            with an assertion, and the test with the error response, the assertion.
    """
    __tracebackhide__ = True
    failure: BaseException | None = None
    with _assertions_of_handlers() as failed:
        try:
            await body()
        except BaseException as error:
            failure = single_cause(error)
            if connections is not None:
                await connections.aclose(failure)
            if failure is error and not isinstance(failure, _CAUSED):
                raise
        else:
            if connections is not None:
                await connections.aclose()
            check()
            return
    # Raised outside of the `except` block, so that a group is not the context of its exception.
    if isinstance(failure, _CAUSED):
        try:
            check()
        except AssertionError as unexpected:
            raise unexpected from failure
        if failed:
            raise failed[0] from failure
    raise failure
