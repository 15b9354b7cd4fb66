"""MCP over a Unix socket: for programs of one user on one machine.

    python unix_socket.py     serves a small server at a socket, calls it, and prints the result

Connection: the server listens at a path, the client connects to it. Messages: UTF-8, one message per line, as over
stdio. A connection is one client; it ends when either side closes it. Cancellation: `notifications/cancelled`.

Access is checked three times. Only the owner can enter the folder of the socket (0700), so that no other user can reach
the socket, or replace it; the socket itself has 0600; and on Linux each end asks the kernel for the user of the peer, and
closes the connection if it is another user.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import trio

from mcp_client import open_stream
from mcp_server import Server, serve_stream


class NotPrivate(Exception):
    """Another user could read or write the messages, or is the peer."""


def check_folder(folder: Path) -> None:
    """Check that only this user can enter the folder. Raises `NotPrivate`."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivate(f"{folder} is not a folder; links are not followed")
    if status.st_uid != os.geteuid():
        raise NotPrivate(f"{folder} belongs to user {status.st_uid}, not to user {os.geteuid()} of this process")
    if status.st_mode & 0o077:
        raise NotPrivate(f"{folder} is accessible to other users ({stat.filemode(status.st_mode)}); make it 0700")


def check_peer(stream: trio.SocketStream) -> None:
    """Check that the peer is this user, on Linux; elsewhere only the folder is checked. Raises `NotPrivate`."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        credentials = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        assert isinstance(credentials, bytes)
        _, user, _ = struct.unpack("3i", credentials)
        if user != os.geteuid():
            raise NotPrivate(f"the peer is user {user}, not user {os.geteuid()}")


def listen(path: Path) -> socket.socket:
    """Listen at `path`. The socket of a crashed server is replaced, that of a running server is not.

    Raises:
        NotPrivate: Other users can access the folder.
        FileExistsError: The path is another file, or the socket of a running server.
    """
    check_folder(path.parent)
    if os.path.lexists(path):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} exists and is not a socket")
        if has_server(path):
            raise FileExistsError(f"a server is already listening at {path}")
        path.unlink()
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        # No client can connect before this: the socket does not listen yet, and the folder is private.
        path.chmod(0o600)
        listening.listen(100)
        listening.settimeout(0)
    except BaseException:
        listening.close()
        raise
    return listening


def has_server(path: Path) -> bool:
    """Return whether a server listens at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            # The backlog of the server is full.
            pass
    return True


def remove(path: Path, listening: os.stat_result) -> None:
    """Remove a socket, unless it was replaced by another one."""
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), listening):
            path.unlink()


async def serve_unix(
    serve_client: Callable[[trio.SocketStream], Awaitable[None]],
    path: Path,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `serve_client` with the stream of each client of this user, until cancelled; then remove the socket."""

    async def serve_one(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                check_peer(stream)
            except NotPrivate:
                return
            await serve_client(stream)

    listening = listen(path)
    created = os.lstat(path)
    try:
        task_status.started()
        await trio.serve_listeners(serve_one, [trio.SocketListener(trio.socket.from_stdlib_socket(listening))])
    finally:
        remove(path, created)


async def open_unix(path: Path) -> trio.SocketStream:
    """Connect to a server of this user. Raises `OSError` if there is no server, `NotPrivate` if another user may run it."""
    check_folder(path.parent)
    stream = await trio.open_unix_socket(str(path))
    try:
        check_peer(stream)
    except NotPrivate:
        await trio.aclose_forcefully(stream)
        raise
    return stream


@asynccontextmanager
async def serving(server: Server, path: Path) -> AsyncIterator[None]:
    """Serve `server` at `path` for the duration of the block: one lifespan, many clients."""
    async with server.running(), trio.open_nursery() as nursery:
        await nursery.start(serve_unix, partial(serve_stream, server), path)
        yield
        nursery.cancel_scope.cancel()


async def main() -> None:
    server = Server("counter", version="1.0")

    @server.tool
    async def count_words(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    # mkdtemp creates the folder with 0700.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mcp")
        async with serving(server, path), open_stream(await open_unix(path)) as client:
            result = await client.call_tool("count_words", {"text": "one message per line"})
            print(client.revision, result.structured_content)


if __name__ == "__main__":
    trio.run(main)
