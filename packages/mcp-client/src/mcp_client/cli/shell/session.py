"""The session of the shell: one connection at a time, and the commands that the user types."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs
import orjson
import trio

from mcp_client.cli.arguments import UsageError, closest
from mcp_client.cli.commands import COMMANDS, Invocation
from mcp_client.cli.shell.commands import SHELL_COMMANDS, command_named
from mcp_client.cli.shell.completer import Catalog, ShellCompleter
from mcp_client.cli.shell.terminal import LineInterrupted, open_history
from mcp_client.cli.shell.words import split_words
from mcp_client.features.changes import ChangeKind
from mcp_core.errors import ConnectionEnded, McpError
from mcp_core.methods import PING, SERVER_DISCOVER
from mcp_core.trio.guest import current_guest
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types import LOGGING_LEVELS, DiscoverRequestParams

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mcp_client.cli.output import Screen
    from mcp_client.cli.shell.completer import ValueQuery
    from mcp_client.cli.shell.terminal import Terminal
    from mcp_client.client import Client
    from mcp_client.connection.message_observer import MessageDirection, OnMessage
    from mcp_client.connectors.stdio import Connector
    from mcp_client.handlers import ElicitAnswer, Handlers
    from mcp_core.types import LoggingMessageNotificationParams

__all__ = ["Connect", "run_shell"]

P = TypeVar("P")

OK: Final = 0
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130

_COMPLETION: Final = 1.0
"""Maximum time for lists and values from the server while the user types, in seconds."""

_HANDSHAKE: Final = 64 * 1024
"""Maximum size of the messages of a handshake that are kept, in characters. Most handshakes have less than two thousand."""

_ARROWS: Final[Mapping[MessageDirection, str]] = {"sent": "-->", "received": "<--"}

_SETTLE: Final = 0.2
"""Time in which a lost connection ends the client, in seconds. Over HTTP, the loss of one response does not."""


class Connect(Protocol):
    """A function that returns a new connection to the server."""

    def __call__(self, adapt: Callable[[Handlers], Handlers], on_message: OnMessage) -> Connector:
        """Return a connection to open.

        Args:
            adapt: Returns the handlers of the shell, from those of the command line.
            on_message: Is called with each message of the connection.

        Raises:
            UsageError: The options are invalid for the server.
        """


def run_shell(
    connect: Connect,
    terminal: Terminal,
    report: Callable[[McpError], None],
    secrets: Mapping[str, Sequence[str]],
) -> int:
    """Run the shell until the user leaves it.

    Args:
        connect: Returns a connection.
        terminal: The terminal.
        report: Shows an error.
        secrets: Names of the variables and headers that the server receives, by kind.

    Returns:
        The exit code.

    Raises:
        UsageError: The options are invalid for the server.
        KeyboardInterrupt: The user interrupted the shell.
    """

    async def run() -> int:
        return await current_guest().run(Shell(connect, terminal, report, secrets).run)

    return asyncio.run(run())


@attrs.define(kw_only=True)
class _Connection:
    """The open connection."""

    client: Client
    nursery: trio.Nursery
    seconds: float
    subscriptions: dict[str, trio.CancelScope] = attrs.field(factory=dict)


class Shell:
    """The shell. See `run_shell` for the arguments."""

    def __init__(
        self,
        connect: Connect,
        terminal: Terminal,
        report: Callable[[McpError], None],
        secrets: Mapping[str, Sequence[str]],
    ) -> None:
        self._connect_to: Final = connect
        self._terminal: Final = terminal
        self._report: Final = report
        self._secrets: Final = secrets
        self._messages: Final = _MessageLog(terminal)
        self._catalog = Catalog()
        self._has_lists = trio.Event()
        self._connection: _Connection | None = None
        # They outlive a lost connection.
        self._subscribed: Final[set[str]] = set()
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._own: Final[Mapping[str, Callable[[Sequence[str]], Awaitable[None]]]] = {
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "log": self._set_log_level,
            "raw": self._show_messages,
            "ping": self._ping,
            "reconnect": self._reconnect,
            "help": self._help,
        }

    async def run(self) -> int:
        """Connect, and read lines until the user leaves. Return the exit code. Raises `UsageError`."""
        guest = current_guest()

        async def request(query: ValueQuery) -> Sequence[str]:
            return await guest.run(partial(self._values, query))

        async def catalog() -> Catalog:
            if not self._has_lists.is_set():
                await guest.run(self._wait_for_lists)
            return self._catalog

        completer = ShellCompleter(catalog, request)
        self._terminal.attach(guest, open_history(self._terminal.note), completer)
        async with open_private_nursery() as nursery:
            self._nursery = nursery
            with self._terminal.without_echo():
                return await self._run()

    async def _run(self) -> int:
        code = await self._connect()
        if code == OK:
            await self._read_lines()
            await self._disconnect()
        return code

    # --- the connection --------------------------------------------------------------------------------------------

    async def _connect(self) -> int:
        """Open a connection. Return the exit code if it fails. Raises `UsageError`."""
        if self._nursery is None:
            raise AssertionError("the shell does not run")
        code = INTERRUPTED
        with self._cancellable():
            try:
                await self._nursery.start(self._run_connection)
                code = OK
            except McpError as error:
                self._report(error)
                code = UNREACHABLE
            except OSError as error:
                self._terminal.note(f"error: {error}")
                code = UNREACHABLE
        if code == OK:
            self._greet()
        elif code == INTERRUPTED:
            self._terminal.note("Interrupted.")
        return code

    async def _disconnect(self) -> None:
        self._scope.cancel()
        await self._over.wait()

    async def _run_connection(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run a connection until it is lost, or its scope is cancelled."""
        began = trio.current_time()
        self._messages.begin()
        connector = self._connect_to(self._adapt, self._messages.add)
        self._over = over = trio.Event()
        self._scope = scope = trio.CancelScope()
        try:
            with scope:
                async with connector as client, open_private_nursery() as nursery:
                    self._has_lists = trio.Event()
                    self._catalog = Catalog(has_completions=client.capabilities.completions is not None)
                    self._connection = _Connection(client=client, nursery=nursery, seconds=trio.current_time() - began)
                    self._messages.end_handshake()
                    task_status.started()
                    nursery.start_soon(self._follow_lists, client)
                    await client.wait_ended()
                    await self._report_loss(client)
        finally:
            self._connection = None
            over.set()

    async def _report_loss(self, client: Client) -> None:
        try:
            # It is not sent: each request of an ended client raises the reason.
            await client.ping()
        except McpError as error:
            error.context = attrs.evolve(error.context, method=None, request_id=None, phase=None)
            self._report(error)
        self._terminal.note("The connection is lost. `reconnect` opens a new one.")

    def _greet(self) -> None:
        if self._connection is None:
            return
        client = self._connection.client
        info = client.server_info
        name = "a server" if info is None else f"{info.name} {info.version or ''}".rstrip()
        self._terminal.note(
            f"Connected to {name}, revision {client.revision.name}. `help` lists the commands, Ctrl-D leaves."
        )

    def _open_connection(self) -> _Connection:
        """Return the open connection. Raises `UsageError`."""
        if self._connection is None:
            raise UsageError("there is no connection: `reconnect` opens one")
        return self._connection

    @contextmanager
    def _cancellable(self) -> Iterator[None]:
        """Cancel the block if the user presses Ctrl-C."""
        loop = asyncio.get_running_loop()
        with trio.CancelScope() as scope:
            # Without a prompt, the terminal sends a signal. The handler can interrupt any code, so the loop cancels.
            previous = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(scope.cancel))
            try:
                with self._terminal.interruptible(scope.cancel):
                    yield
            finally:
                signal.signal(signal.SIGINT, previous)

    # --- client requests and notifications -------------------------------------------------------------------------

    def _adapt(self, handlers: Handlers) -> Handlers:
        """Return the handlers of the command line, with their forms on the terminal of the shell."""
        elicit, elicit_url = handlers.elicit, handlers.elicit_url
        return attrs.evolve(
            handlers,
            elicit=None if elicit is None else self._in_form(elicit),
            elicit_url=None if elicit_url is None else self._in_form(elicit_url),
            log=self._show_log,
        )

    def _in_form(
        self, elicit: Callable[[P], Awaitable[ElicitAnswer] | ElicitAnswer]
    ) -> Callable[[P], Awaitable[ElicitAnswer]]:
        async def form(params: P) -> ElicitAnswer:
            async with self._terminal.form():
                answer = elicit(params)
                return await answer if isinstance(answer, Awaitable) else answer

        return form

    def _show_log(self, params: LoggingMessageNotificationParams) -> None:
        data = params.data if isinstance(params.data, str) else orjson.dumps(params.data).decode()
        source = f" {params.logger}" if params.logger else ""
        self._terminal.note(f"{params.level}{source}: {data}")

    async def _follow_lists(self, client: Client) -> None:
        """Read what the server offers, for completion, and again after each change."""
        offered = client.capabilities
        followed = {
            ChangeKind.TOOLS: bool(offered.tools and offered.tools.list_changed),
            ChangeKind.PROMPTS: bool(offered.prompts and offered.prompts.list_changed),
            ChangeKind.RESOURCES: bool(offered.resources and offered.resources.list_changed),
        }
        try:
            if not any(followed.values()):
                await self._load(client, followed)
                return
            async with client.listen(
                tools=followed[ChangeKind.TOOLS],
                prompts=followed[ChangeKind.PROMPTS],
                resources=followed[ChangeKind.RESOURCES],
            ) as changes:
                await self._load(client, followed)
                async for change in changes:
                    self._terminal.note(f"The list of {change.kind.value} has changed.")
                    await self._load(client.fresh(), [change.kind])
        except ConnectionEnded:
            return  # reported by the owner of the connection
        except McpError as error:
            self._terminal.note(f"Changes of lists are not shown: {error}")

    async def _load(self, client: Client, kinds: Iterable[ChangeKind]) -> None:
        """Read lists of the server. A list that cannot be read is empty: its command reports the error."""
        offered, catalog = client.capabilities, self._catalog
        for kind in kinds:
            try:
                if kind is ChangeKind.TOOLS and offered.tools is not None:
                    catalog.tools = await client.list_tools()
                elif kind is ChangeKind.PROMPTS and offered.prompts is not None:
                    catalog.prompts = await client.list_prompts()
                elif kind is ChangeKind.RESOURCES and offered.resources is not None:
                    catalog.resources = await client.list_resources()
                    catalog.templates = await client.list_resource_templates()
            except McpError:
                continue
        self._has_lists.set()

    async def _wait_for_lists(self) -> None:
        with trio.move_on_after(_COMPLETION):
            await self._has_lists.wait()

    async def _values(self, query: ValueQuery) -> Sequence[str]:
        """Return values from the server, or nothing if that fails or takes long."""
        if self._connection is None:
            return ()
        with trio.move_on_after(_COMPLETION):
            try:
                found = await self._connection.client.complete(
                    query.ref, query.argument, query.value, known=query.known or None
                )
            except McpError:
                return ()
            return found.values
        return ()

    # --- lines -----------------------------------------------------------------------------------------------------

    async def _read_lines(self) -> None:
        while True:
            try:
                line = await self._terminal.read_line()
            except LineInterrupted:
                continue
            except EOFError:
                return
            words = [word.text for word in split_words(line)]
            if words == ["exit"]:
                return
            if words:
                await self._execute(*words)

    async def _execute(self, name: str, *arguments: str) -> None:
        """Run a command, and report its errors. Ctrl-C cancels it."""
        is_cancelled = True
        with self._cancellable():
            try:
                command = command_named(name)
                command.check(name, arguments)
                if command.same_as is None or command.options is None:
                    await self._own[name](arguments)
                else:
                    await self._run_command(command.same_as, command.options(arguments))
            except (UsageError, OSError) as error:
                self._terminal.note(f"error: {error}")
            except ConnectionEnded as error:
                if not await self._is_lost():
                    self._report(error)
            except McpError as error:
                self._report(error)
            is_cancelled = False
        if is_cancelled:
            self._terminal.note("Cancelled.")

    async def _run_command(self, name: str, options: Namespace) -> None:
        connection = self._open_connection()
        await COMMANDS[name](
            Invocation(
                client=connection.client,
                options=options,
                screen=self._terminal,
                seconds=connection.seconds,
                secrets=self._secrets,
            )
        )

    async def _is_lost(self) -> bool:
        """Return whether the connection is lost, which its owner reports."""
        with trio.move_on_after(_SETTLE):
            await self._over.wait()
        return self._over.is_set()

    # --- commands of the shell -------------------------------------------------------------------------------------

    async def _subscribe(self, arguments: Sequence[str]) -> None:
        connection = self._open_connection()
        if not arguments:
            for uri in connection.subscriptions:
                self._terminal.text(uri)
            if not connection.subscriptions:
                self._terminal.note("There are no subscriptions.")
            return
        (uri,) = arguments
        if uri in connection.subscriptions:
            raise UsageError(f"there is a subscription to {uri} already")
        await connection.nursery.start(self._follow, connection, uri)
        self._terminal.note(f"Changes of {uri} are shown as they happen.")

    async def _follow(self, connection: _Connection, uri: str, *, task_status: trio.TaskStatus[None]) -> None:
        """Show the changes of a resource until its scope is cancelled."""
        is_open = False
        scope = trio.CancelScope()
        try:
            with scope:
                async with connection.client.listen(uris=[uri]) as changes:
                    if not changes.granted.resource_subscriptions:
                        raise UsageError("the server does not send change notifications of resources")
                    connection.subscriptions[uri] = scope
                    self._catalog.subscriptions = [*connection.subscriptions]
                    self._subscribed.add(uri)
                    is_open = True
                    task_status.started()
                    async for change in changes:
                        self._terminal.note(f"The resource {change.uri or uri} has changed.")
                self._subscribed.discard(uri)
                self._terminal.note(f"The server ended the subscription to {uri}.")
        except McpError:
            if not is_open:
                raise
            # The connection is lost, which its owner reports.
        finally:
            connection.subscriptions.pop(uri, None)
            self._catalog.subscriptions = [*connection.subscriptions]

    async def _unsubscribe(self, arguments: Sequence[str]) -> None:
        connection = self._open_connection()
        (uri,) = arguments
        if uri not in connection.subscriptions:
            raise UsageError(f"there is no subscription to {uri}{closest(uri, connection.subscriptions)}")
        self._subscribed.discard(uri)
        connection.subscriptions.pop(uri).cancel()

    async def _set_log_level(self, arguments: Sequence[str]) -> None:
        level = next((level for level in LOGGING_LEVELS if level == arguments[0]), None)
        if level is None:
            raise UsageError(f"unknown level {arguments[0]!r}{closest(arguments[0], LOGGING_LEVELS)}")
        await self._open_connection().client.set_log_level(level)

    async def _show_messages(self, arguments: Sequence[str]) -> None:
        if arguments[0] not in {"on", "off"}:
            raise UsageError(f"usage: raw {SHELL_COMMANDS['raw'].usage}")
        self._messages.show(is_on=arguments[0] == "on")

    async def _ping(self, _: Sequence[str]) -> None:
        client = self._open_connection().client
        began = trio.current_time()
        if client.revision in PING.revisions:
            await client.ping()
        else:
            # The request that each server of a revision without ping answers.
            await client.fresh().request(SERVER_DISCOVER, DiscoverRequestParams())
        self._terminal.text(f"{(trio.current_time() - began) * 1000:.1f} ms")

    async def _reconnect(self, _: Sequence[str]) -> None:
        uris = sorted(self._subscribed)
        await self._disconnect()
        if await self._connect() == OK:
            for uri in uris:
                await self._subscribe([uri])

    async def _help(self, arguments: Sequence[str]) -> None:
        names = arguments or SHELL_COMMANDS
        lines = [(f"{name} {command_named(name).usage}".rstrip(), command_named(name).summary) for name in names]
        width = max(len(usage) for usage, _ in lines)
        for usage, summary in lines:
            self._terminal.text(f"{usage:<{width}}  {summary}")
        if not arguments:
            self._terminal.text(_LINES)


_LINES: Final = """
REF is the name of a prompt, or a URI template. Values are typed by the tool's
schema. Quote spaces: city="New York". JSON needs no quotes: point={"x": [1, 2]}.
A line with an open quote or bracket continues on the next one.
Ctrl-C clears the line, or cancels the running command. Ctrl-D leaves the shell."""
"""The end of `help`, for a terminal of 80 columns."""


class _MessageLog:
    """The messages of a connection, as they are on the wire. Shows them while it is on.

    The messages of the handshake are kept, up to a limit: the handshake is over before the user can request to see it.

    Args:
        screen: The screen.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen: Final = screen
        self._is_on = False
        self._is_handshake = True
        self._handshake: list[str] = []
        self._size = 0

    def begin(self) -> None:
        """Begin with the handshake of a new connection."""
        self._is_handshake, self._handshake, self._size = True, [], 0

    def end_handshake(self) -> None:
        """Keep no more messages."""
        self._is_handshake = False

    def show(self, *, is_on: bool) -> None:
        """Show the messages from now on, and those of the handshake, or show no more of them."""
        if is_on and not self._is_on:
            for line in self._handshake:
                self._screen.note(line)
        self._is_on = is_on

    def add(self, direction: MessageDirection, message: bytes) -> None:
        """Add a message."""
        if not (self._is_on or self._is_handshake):
            return
        line = f"{_ARROWS[direction]} {message.decode(errors='backslashreplace')}"
        if self._is_handshake and self._size + len(line) <= _HANDSHAKE:
            self._handshake.append(line)
            self._size += len(line)
        if self._is_on:
            self._screen.note(line)
