"""The words of `mcp_client.testing.transport_contract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import orjson
import trio

from mcp_client.connection.transport import ByteStream

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

_PATIENCE: Final = 20
"""Seconds until what does not happen is said not to happen. What works takes a few milliseconds."""

_ALL_PATIENCE: Final = 60
"""Seconds until a whole check is given up that stays where no step is awaited."""

GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
"""How a stream says that it is over."""


class ServedStream(Protocol):
    """The server's end of a connection: what `mcp_server.serve_stream` wants."""

    async def receive_some(self) -> bytes | bytearray:
        """The next bytes; empty at the end."""

    async def send_all(self, data: bytes | memoryview) -> None:
        """Writes all of `data`."""


ServeClient: TypeAlias = Callable[[ServedStream], Awaitable[None]]
"""Serves one client. When it returns, the transport closes its stream."""

Connect: TypeAlias = Callable[[], Awaitable[ByteStream]]
"""Connects, as a client."""

OpenTransport: TypeAlias = Callable[[ServeClient], AbstractAsyncContextManager[Connect]]
"""Serves each client that connects with the function it is given, until the block ends, and gives what connects."""

TransportCheck: TypeAlias = Callable[[OpenTransport], Awaitable[None]]
"""One check. Raises `AssertionError`, with a sentence, when the rule is broken."""


class End(Protocol):
    """Either end of a connection: what both have in common."""

    async def receive_some(self) -> bytes | bytearray:
        """The next bytes; empty at the end."""

    async def send_all(self, data: bytes) -> None:
        """Writes all of `data`."""


Role: TypeAlias = Callable[[End], Awaitable[None]]
"""What one end does in a check."""


def true(holds: bool, what: str) -> None:  # noqa: FBT001  # reads as a sentence
    """Check that something holds. `what` describes it in the error."""
    if not holds:
        raise AssertionError(what)


@contextmanager
def within(what: str, seconds: float = _PATIENCE) -> Iterator[None]:
    """Bounds a step: what never happens is told by its name."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise AssertionError(f"waited {seconds} seconds in vain: {what}")


# --- what is carried -------------------------------------------------------------------------------------------------


def line(number: int, size: int = 0) -> bytes:
    """A notification of about `size` bytes, with characters of one to four bytes, and its line end."""
    text = "aä€😀" * (size // 10)
    message = {"jsonrpc": "2.0", "method": "notifications/check", "params": {"number": number, "text": text}}
    return orjson.dumps(message) + b"\n"


def lines(count: int, size: int = 0) -> list[bytes]:
    """That many of them, numbered."""
    return [line(number, size) for number in range(count)]


class Lines:
    """What came, line by line."""

    def __init__(self, stream: End) -> None:
        self._stream: Final = stream
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """The next line, with its end; `None` at the end of the stream."""
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
        """Takes these lines, and complains about others."""
        for number, wanted in enumerate(expected):
            with within(f"line {number}, of {len(wanted)} bytes, arrives"):
                found = await self.next()
            same_lines(found, wanted, number)


def same_lines(found: bytes | None, wanted: bytes, number: int) -> None:
    """Raises unless the line that came is the one that was sent."""
    true(found is not None, f"the stream ended before line {number}")
    if found != wanted:
        raise AssertionError(f"line {number} is {(found or b'')[:120]!r}, and was sent as {wanted[:120]!r}")


async def take(stream: End, expected: Iterable[bytes]) -> None:
    """Takes these lines from a stream, and no others."""
    await Lines(stream).take(expected)


async def echo(stream: ServedStream) -> None:
    """Says what it hears, until the other end is gone."""
    reader = Lines(stream)
    try:
        while (found := await reader.next()) is not None:
            await stream.send_all(found)
    except GONE:
        pass


async def hear_end(stream: End, what: str) -> None:
    """Waits until the other end is gone; nothing may come before."""
    with within(what):
        try:
            data = await stream.receive_some()
        except GONE:
            return
    true(not data, f"{what}: {bytes(data[:60])!r} came instead")


# --- two ends --------------------------------------------------------------------------------------------------------


async def met(open_transport: OpenTransport, serve: ServeClient, talk: Callable[[Connect], Awaitable[None]]) -> None:
    """Runs both sides of a check, and raises what went wrong on either, as it is: without groups around it.

    Args:
        open_transport: The transport.
        serve: What the server does with each client.
        talk: What the client does.
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
                with within("the client does its part", _ALL_PATIENCE):
                    await talk(connect)
                with within("the server has done its part"):
                    while serving:
                        idle = trio.Event()
                        await idle.wait()
            except Exception as failure:  # noqa: BLE001  raised below
                failures.append(failure)
            whole.deadline = trio.current_time() + _PATIENCE
    if whole.cancelled_caught:
        failures.append(AssertionError(f"serving did not end within {_PATIENCE} seconds when its block did"))
    if failures:
        # A rule that one side saw broken comes before the stream that ended for the other side then.
        failures.sort(key=lambda failure: not isinstance(failure, AssertionError))
        for other in failures[1:]:
            failures[0].add_note(f"The other side: {other!r}")
        raise failures[0]


async def both_ways(open_transport: OpenTransport, make: Callable[[], tuple[Role, Role]]) -> None:
    """Has two roles made, for the server and the client; and two more, with the parts changed."""
    one, other = make()
    await one_client(open_transport, one, other)
    other, one = make()
    await one_client(open_transport, one, other)


async def one_client(
    open_transport: OpenTransport, serve: ServeClient, act: Callable[[ByteStream], Awaitable[None]]
) -> None:
    """One client connects, does its part and closes."""

    async def talk(connect: Connect) -> None:
        with within("a client connects"):
            stream = await connect()
        try:
            await act(stream)
        finally:
            with within("the client's end is closed"):
                await stream.aclose()

    await met(open_transport, serve, talk)


def pieces(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Cuts `data` into pieces of these sizes, over and over."""
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        yield data[start : start + size]
        start, turn = start + size, turn + 1
