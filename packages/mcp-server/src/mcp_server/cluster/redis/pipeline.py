"""One connection to one Redis server, on which commands are pipelined.

The server responds in the order of the commands. A command that finds the connection idle is written at once, by the
task that sends it. Commands that find others in flight are collected, and one task writes them together.

coredis parses what the server sends. Its own connections need three tasks and a cancel scope for each command: 100 µs of
CPU time, in place of the 30 µs of this module. The budget for a replayable event is 60 µs.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from mcp_core.errors import McpError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from coredis.exceptions import RedisError

    from mcp_server.cluster.redis.address import Credentials, Endpoint

__all__ = ["PendingCommand", "PipelineBroken", "RedisPipeline", "ServerFacts", "Value", "encode_command"]

Value: TypeAlias = "bytes | int | float | bool | list[Value] | dict[bytes, Value] | set[Value] | RedisError | None"
"""A reply of Redis."""

_CHUNK: Final = 65_536


class PipelineBroken(McpError):
    """A connection to Redis ended, or the server did not respond in time."""


def encode_command(*args: bytes) -> bytes:
    """Return a command in the protocol of Redis."""
    return b"*%d\r\n%b" % (len(args), encode_arguments(args))


def encode_arguments(args: Sequence[bytes]) -> bytes:
    """Return arguments in the protocol of Redis."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(each), each) for each in args])


class PendingCommand:
    """A command that waits for its reply."""

    __slots__ = ("_is_done", "data", "failure", "first_sent_at", "reply", "sent_at", "task", "tries")

    def __init__(self, data: bytes) -> None:
        self.data: Final = data
        """The encoded command."""
        self.reply: Value = None
        """The reply, after the task has been woken."""
        self.failure: McpError | None = None
        """The reason why there is no reply."""
        self.first_sent_at: float = 0.0
        """When the command was first written, on the clock of trio."""
        self.sent_at: float = 0.0
        """When the command was last written, on the clock of trio."""
        self._is_done = False
        self.tries: int = 0
        """How often the command was written."""
        self.task: trio.lowlevel.Task | None = None
        """The task that waits; `None` if it was cancelled."""

    async def wait(self) -> Value:
        """Wait for the reply.

        Raises:
            McpError: `failure`.
        """
        if not self._is_done:
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abandon)
        if self.failure is not None:
            raise self.failure
        return self.reply

    def _abandon(self, _: object) -> trio.lowlevel.Abort:
        # The server runs the command, and its reply is discarded.
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def resolve(self, reply: Value) -> None:
        """Pass the reply to the task."""
        self.reply = reply
        self._wake()

    def fail(self, failure: McpError) -> None:
        """Let the task raise an error."""
        self.failure = failure
        self._wake()

    def _wake(self) -> None:
        self._is_done = True
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class ServerFacts:
    """The facts that a server states when a connection is opened."""

    __slots__ = ("mode", "role", "version")

    def __init__(self, hello: dict[bytes, Value]) -> None:
        self.mode: Final = _text(hello.get(b"mode"))
        """`standalone`, `sentinel` or `cluster`."""
        self.role: Final = _text(hello.get(b"role"))
        """`master` or `replica`."""
        self.version: Final = _text(hello.get(b"version"))
        """The version of the protocol and the commands."""


def _text(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


class RedisPipeline:
    """An open connection. `open` opens it, `run` reads until it ends.

    Args:
        stream: The stream.
        timeout: The time in which the server must respond to a command, in seconds.
    """

    def __init__(
        self, stream: trio.abc.HalfCloseableStream | trio.SSLStream[trio.SocketStream], timeout: float
    ) -> None:
        from coredis.parser import NotEnoughData, Parser  # lazy: an extra, and slow to import

        self._not_enough: Final = NotEnoughData
        self._parser: Final = Parser()
        self._stream: Final = stream
        self._timeout: Final = timeout
        self.sent: Final[deque[PendingCommand]] = deque()
        """The commands that have no reply yet, in their order."""
        self.is_useful: bool = False
        """Whether a command had a reply since the value was last set."""
        self._buffer = bytearray()
        self._flush = trio.Event()
        self._writing = False
        self._scope: Final = trio.CancelScope()
        self._failure: Exception | None = None
        self._socket: socket.socket | None = None
        if isinstance(stream, trio.SocketStream):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = socket.socket(fileno=os.dup(stream.socket.fileno()))

    @classmethod
    async def open(cls, endpoint: Endpoint, tls: ssl.SSLContext | None, *, seconds: float) -> RedisPipeline:
        """Connect to a server.

        Args:
            endpoint: The server.
            tls: The settings of an encrypted connection; `None` for one that is not encrypted.
            seconds: The time in which the server must respond to a command.

        Raises:
            OSError: The server cannot be reached.
            trio.BrokenResourceError: The encryption failed.
        """
        stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        if tls is None:
            return cls(stream, seconds)
        encrypted = trio.SSLStream(stream, tls, server_hostname=endpoint.host, https_compatible=True)
        try:
            await encrypted.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(encrypted)
            raise
        return cls(encrypted, seconds)

    def send(self, call: PendingCommand) -> None:
        """Send a command. Does not block."""
        call.sent_at = trio.current_time()
        if not call.tries:
            call.first_sent_at = call.sent_at
        call.tries += 1
        is_idle = not self.sent
        self.sent.append(call)
        data = call.data
        if is_idle and self._socket is not None and not self._buffer and not self._writing:
            try:
                written = self._socket.send(data)
            except BlockingIOError:
                written = 0
            except OSError as error:
                self.break_off(error)
                return
            if written == len(data):
                return
            data = data[written:]
        self._buffer += data
        self._flush.set()

    def break_off(self, reason: Exception) -> None:
        """End the connection: `run` raises `PipelineBroken`."""
        if self._failure is None:
            self._failure = reason
        self._scope.cancel()

    async def run(self) -> None:
        """Receive replies until the connection ends.

        Raises:
            PipelineBroken: The connection ended.
        """
        try:
            async with trio.open_nursery() as nursery:
                with self._scope:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._watch)
                    await self._read()
                nursery.cancel_scope.cancel()
        finally:
            self.close()
        raise PipelineBroken(str(self._failure) or type(self._failure).__name__) from self._failure

    def close(self) -> None:
        """Close the socket without waiting for the server."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def aclose(self) -> None:
        """Close the connection."""
        self.close()
        await trio.aclose_forcefully(self._stream)

    async def _read(self) -> None:
        parser, sent, not_enough = self._parser, self.sent, self._not_enough
        try:
            while True:
                data = await self._stream.receive_some(_CHUNK)
                if not data:
                    raise PipelineBroken("the server closed the connection")
                parser.feed(bytes(data))
                while not isinstance(reply := parser.parse(), not_enough):
                    if not sent:
                        raise PipelineBroken("the server sent a reply without a command")
                    self.is_useful = True
                    sent.popleft().resolve(cast("Value", reply[1]))  # the same type, without decoded text
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, PipelineBroken) as error:
            self.break_off(error)
        except Exception as error:  # noqa: BLE001  # the parser raises various errors for data that is not of Redis
            self.break_off(PipelineBroken(f"the server does not speak the protocol of Redis: {type(error).__name__}"))

    async def _write(self) -> None:
        try:
            while True:
                await self._flush.wait()
                self._flush = trio.Event()
                while self._buffer:
                    data, self._buffer = self._buffer, bytearray()
                    self._writing = True
                    await self._stream.send_all(data)
                    self._writing = False
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.break_off(error)

    async def _watch(self) -> None:
        """End the connection if the oldest command has waited too long."""
        while True:
            await trio.sleep(self._timeout / 2)
            if self.sent and trio.current_time() - self.sent[0].sent_at > self._timeout:
                self.break_off(PipelineBroken(f"the server did not respond within {self._timeout:g} seconds"))
                return

    # --- the opening ---------------------------------------------------------------------------------------------------

    async def greet(self, credentials: Credentials) -> ServerFacts:
        """Authenticate, and return what the server states. To be called while `run` runs.

        Raises:
            RedisError: The server rejects the credentials.
            McpError: The connection ended.
        """
        hello = await self.command(b"HELLO", b"3", *credentials.arguments)
        if not isinstance(hello, dict):
            raise PipelineBroken("the server does not respond as Redis does")
        return ServerFacts(hello)

    async def command(self, *args: bytes) -> Value:
        """Run a command.

        Raises:
            RedisError: The server rejects the command.
            McpError: The connection ended.
        """
        (reply,) = await self.commands([args])
        return reply

    async def commands(self, commands: Sequence[Sequence[bytes]]) -> list[Value]:
        """Run commands in one round trip, and return their replies.

        Raises:
            RedisError: The server rejects a command.
            McpError: The connection ended.
        """
        sent = [PendingCommand(encode_command(*args)) for args in commands]
        for each in sent:
            self.send(each)
        replies: list[Value] = []
        for each in sent:
            reply = await each.wait()
            if isinstance(reply, Exception):
                raise reply
            replies.append(reply)
        return replies
