"""MCP over a Unix socket: for programs of one user on one machine.

    python unix_socket.py     serves a small server at a socket, talks to it, and prints what it said

How it is established: the server listens at a path, the client connects to it. What is exchanged: UTF-8, one message a
line, as over stdio. A connection is one client; it ends when either side closes. A request is cancelled by
`notifications/cancelled`.

Who may connect is decided three times. The folder of the socket is for its owner alone (0700), so that nobody else can
reach it, nor put another socket in its place; the socket itself has 0600; and on Linux each end asks the system for the
user at the other, and hangs up on anybody else.
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
    """Somebody else could read, write or stand at the other end."""


def check_folder(folder: Path) -> None:
    """Raises `NotPrivate` unless `folder` is a folder that only this user can enter."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivate(f"{folder} is not a folder; a link to one will not do")
    if status.st_uid != os.geteuid():
        raise NotPrivate(f"{folder} belongs to user {status.st_uid}, not to user {os.geteuid()}, who runs this")
    if status.st_mode & 0o077:
        raise NotPrivate(f"{folder} is open to others ({stat.filemode(status.st_mode)}); make it 0700")


def check_peer(stream: trio.SocketStream) -> None:
    """Raises `NotPrivate` unless this user is at the other end. Only Linux is asked; elsewhere the folder has to do."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        given = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        assert isinstance(given, bytes)
        _, user, _ = struct.unpack("3i", given)
        if user != os.geteuid():
            raise NotPrivate(f"user {user} is at the other end, not user {os.geteuid()}")


def listen(path: Path) -> socket.socket:
    """Listens at `path`. What a server that crashed has left there is removed; one that runs is not disturbed.

    Raises:
        NotPrivate: Others can get at the folder.
        FileExistsError: There is something else, or a server that runs.
    """
    check_folder(path.parent)
    if os.path.lexists(path):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} is there, and is no socket")
        if answers(path):
            raise FileExistsError(f"a server listens at {path} already")
        path.unlink()
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        # Nobody can have come in between: it does not listen yet, and the folder is ours.
        path.chmod(0o600)
        listening.listen(100)
        listening.settimeout(0)
    except BaseException:
        listening.close()
        raise
    return listening


def answers(path: Path) -> bool:
    """Whether there is a server at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            # It has more clients than it can take just now.
            pass
    return True


def remove(path: Path, listening: os.stat_result) -> None:
    """Removes a socket, unless somebody has put another one there since."""
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), listening):
            path.unlink()


async def serve_unix(
    serve_client: Callable[[trio.SocketStream], Awaitable[None]],
    path: Path,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Calls `serve_client` with the stream of each client of this user, until it is cancelled. Then the socket is gone."""

    async def serve_one(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                check_peer(stream)
            except NotPrivate:
                return
            await serve_client(stream)

    listening = listen(path)
    made = os.lstat(path)
    try:
        task_status.started()
        await trio.serve_listeners(serve_one, [trio.SocketListener(trio.socket.from_stdlib_socket(listening))])
    finally:
        remove(path, made)


async def open_unix(path: Path) -> trio.SocketStream:
    """Connects to a server of this user. Raises `OSError` when there is none, `NotPrivate` when it may be another's."""
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
    """Serves `server` at `path` while the block runs: one life, many clients."""
    async with server.running(), trio.open_nursery() as nursery:
        await nursery.start(serve_unix, partial(serve_stream, server), path)
        yield
        nursery.cancel_scope.cancel()


async def main() -> None:
    server = Server("counter", version="1.0")

    @server.tool
    async def count_words(text: str) -> int:
        """Counts the words of a text."""
        return len(text.split())

    # mkdtemp makes it 0700.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mcp")
        async with serving(server, path), open_stream(await open_unix(path)) as client:
            result = await client.call_tool("count_words", {"text": "one message a line"})
            print(client.revision, result.structured_content)


if __name__ == "__main__":
    trio.run(main)
