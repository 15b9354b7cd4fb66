"""Building blocks for the checks of `mcp_client.testing.transport_contract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import orjson
import trio

from mcp_client.transports.stdio.stream import ByteStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "GONE",
    "Connect",
    "End",
    "Lines",
    "OpenTransport",
    "Role",
    "ServeClient",
    "ServedStream",
    "TransportCheck",
    "both_ways",
    "echo",
    "hear_end",
    "line",
    "lines",
    "met",
    "one_client",
    "pieces",
    "same_lines",
    "take",
    "true",
    "within",
]

_SECONDS: Final = 20
"""Time after which a step counts as failed, in seconds. A working transport needs a few milliseconds."""

_ALL_SECONDS: Final = 60
"""Time after which a whole check counts as failed, in seconds."""

GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
"""The exceptions of a stream that has ended."""


class ServedStream(Protocol):
    """The server's end of a connection, as `mcp_server.serve_stream` accepts it."""

    async def receive_some(self) -> bytes | bytearray:
        """Return the next bytes; empty at the end."""

    async def send_all(self, data: bytes | memoryview) -> None:
        """Write all of `data`."""


ServeClient: TypeAlias = Callable[[ServedStream], Awaitable[None]]
"""Serves one client. When the function returns, the transport closes the stream."""

Connect: TypeAlias = Callable[[], Awaitable[ByteStream]]
"""Opens a connection, as a client."""

OpenTransport: TypeAlias = Callable[[ServeClient], AbstractAsyncContextManager[Connect]]
"""Serves each client that connects with the given function until the block ends, and yields a `Connect`."""

TransportCheck: TypeAlias = Callable[[OpenTransport], Awaitable[None]]
"""A check. Raises `AssertionError` with a sentence if the transport breaks the rule."""


class End(Protocol):
    """Either end of a connection: the methods that both have."""

    async def receive_some(self) -> bytes | bytearray:
        """Return the next bytes; empty at the end."""

    async def send_all(self, data: bytes) -> None:
        """Write all of `data`."""


Role: TypeAlias = Callable[[End], Awaitable[None]]
"""The behavior of one end in a check."""


def true(holds: bool, what: str) -> None:  # noqa: FBT001  # reads as a sentence
    """Raise `AssertionError` unless the condition holds. `what` is the message of the error."""
    if not holds:
        raise AssertionError(what)


@contextmanager
def within(what: str, seconds: float = _SECONDS) -> Iterator[None]:
    """Limit the time of a step. `what` describes the step in the error."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise AssertionError(f"timed out after {seconds} seconds: {what}")


# --- messages --------------------------------------------------------------------------------------------------------


def line(number: int, size: int = 0) -> bytes:
    """Return a notification of about `size` bytes as a line, with characters of one to four bytes."""
    text = "aä€😀" * (size // 10)
    message = {"jsonrpc": "2.0", "method": "notifications/check", "params": {"number": number, "text": text}}
    return orjson.dumps(message) + b"\n"


def lines(count: int, size: int = 0) -> list[bytes]:
    """Return a number of such lines, numbered from 0."""
    return [line(number, size) for number in range(count)]


class Lines:
    """A reader of lines."""

    def __init__(self, stream: End) -> None:
        self._stream: Final = stream
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """Return the next line, with its line end; `None` at the end of the stream."""
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            data = await self._stream.receive_some()
            if not data:
                true(not self._buffer, f"the stream ended within a line: {bytes(self._buffer[:60])!r}...")
                return None
            self._buffer += data
        found = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return found

    async def take(self, expected: Iterable[bytes]) -> None:
        """Read the expected lines. Raises `AssertionError` for other lines."""
        for number, wanted in enumerate(expected):
            with within(f"line {number}, of {len(wanted)} bytes, arrives"):
                found = await self.next()
            same_lines(found, wanted, number)


def same_lines(found: bytes | None, wanted: bytes, number: int) -> None:
    """Raise `AssertionError` unless the received line is the expected one."""
    true(found is not None, f"the stream ended before line {number}")
    if found != wanted:
        raise AssertionError(f"line {number} arrived as {(found or b'')[:120]!r}, but was sent as {wanted[:120]!r}")


async def take(stream: End, expected: Iterable[bytes]) -> None:
    """Read the expected lines from a stream. Raises `AssertionError` for other lines."""
    await Lines(stream).take(expected)


async def echo(stream: ServedStream) -> None:
    """Send each received line back, until the peer closes."""
    reader = Lines(stream)
    try:
        while (found := await reader.next()) is not None:
            await stream.send_all(found)
    except GONE:
        pass


async def hear_end(stream: End, what: str) -> None:
    """Wait until the peer closes. Raises `AssertionError` if data arrives before."""
    with within(what):
        try:
            data = await stream.receive_some()
        except GONE:
            return
    true(not data, f"{what}: received {bytes(data[:60])!r} instead")


# --- two ends --------------------------------------------------------------------------------------------------------


async def met(open_transport: OpenTransport, serve: ServeClient, talk: Callable[[Connect], Awaitable[None]]) -> None:
    """Run both sides of a check, and raise the failure of either side, without an exception group around it.

    Args:
        open_transport: The transport.
        serve: The behavior of the server for each client.
        talk: The behavior of the client.
    """
    failures: list[Exception] = []
    serving = 0
    idle = trio.Event()

    async def guarded(stream: ServedStream) -> None:
        nonlocal serving
        serving += 1
        try:
            await serve(stream)
        except Exception as failure:  # noqa: BLE001  raised below, outside of the nurseries of the transport
            failures.append(failure)
        finally:
            serving -= 1
            idle.set()

    with trio.CancelScope() as whole:
        async with open_transport(guarded) as connect:
            try:
                with within("the client completes the check", _ALL_SECONDS):
                    await talk(connect)
                with within("the server completes the check"):
                    while serving:
                        idle = trio.Event()
                        await idle.wait()
            except Exception as failure:  # noqa: BLE001  raised below
                failures.append(failure)
            whole.deadline = trio.current_time() + _SECONDS
    if whole.cancelled_caught:
        failures.append(AssertionError(f"the transport did not end within {_SECONDS} seconds after its block"))
    if failures:
        # A broken rule on one side takes precedence over the ended stream that it causes on the peer.
        failures.sort(key=lambda failure: not isinstance(failure, AssertionError))
        for other in failures[1:]:
            failures[0].add_note(f"The peer: {other!r}")
        raise failures[0]


async def both_ways(open_transport: OpenTransport, make: Callable[[], tuple[Role, Role]]) -> None:
    """Run a check with both assignments of its two roles to the server and the client."""
    one, other = make()
    await one_client(open_transport, one, other)
    other, one = make()
    await one_client(open_transport, one, other)


async def one_client(
    open_transport: OpenTransport, serve: ServeClient, act: Callable[[ByteStream], Awaitable[None]]
) -> None:
    """Connect one client, run its part and close it."""

    async def talk(connect: Connect) -> None:
        with within("a client connects"):
            stream = await connect()
        try:
            await act(stream)
        finally:
            with within("closing the end of the client"):
                await stream.aclose()

    await met(open_transport, serve, talk)


def pieces(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Cut `data` into pieces of these sizes, repeated."""
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        yield data[start : start + size]
        start, turn = start + size, turn + 1
