"""The fork server: it has imported the raw peers once, and forks a process for each peer under test.

A trial of a fault starts up to a hundred peers, each of which would import the same modules. `launcher` is the program that
the suite starts in place of the peer. When it ends, its peer ends too.

The fork server ends at the end of its standard input.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from mutants.runs import launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["fork_server", "main", "peer_command"]

_SOCKET: Final = "MUTANTS_FORK_SERVER"
"""The environment variable with the path of the socket."""
_WAITING: Final = 128
"""The number of launchers that may wait for the server."""


def peer_command(module: str) -> list[str]:
    """Return the start of the command line of a peer: the launcher if a fork server runs, otherwise the peer itself.

    Args:
        module: The module whose function `main` runs the peer.
    """
    where = os.environ.get(_SOCKET)
    if not where:
        return [sys.executable, "-m", module]
    return [sys.executable, "-S", "-E", str(Path(launcher.__file__)), where, module]


@contextmanager
def fork_server(*modules: str) -> Iterator[None]:
    """Run a fork server. Peers that this process and its new child processes start in the block use it.

    Args:
        modules: The modules of the peers.
    """
    outer = os.environ.get(_SOCKET)
    with TemporaryDirectory() as folder:
        where = str(Path(folder) / "fork-server")
        command = [sys.executable, "-m", __name__, where, *modules]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603  this module
            if process.stdout is not None:
                process.stdout.readline()
            os.environ[_SOCKET] = where
            try:
                yield
            finally:
                if outer is None:
                    del os.environ[_SOCKET]
                else:
                    os.environ[_SOCKET] = outer
                # It ends at the end of its input, which the exit of the block closes.


def main(arguments: Sequence[str]) -> None:
    """Serve until the end of standard input, and print a line when ready.

    Args:
        arguments: The path of the socket, and the modules of the peers.
    """
    where, *modules = arguments
    for module in modules:
        import_module(module)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(where)
        listener.listen(_WAITING)
        # The system reaps the peers: each reports its exit status itself.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        # A collection in a peer would copy all that it shares with this process.
        gc.freeze()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            if listener in ready:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    listener.close()
                    _run_peer(connection)
                connection.close()


def _run_peer(connection: socket.socket) -> None:
    """Run one peer in this process, and report its exit status. Does not return."""
    status = launcher.LOST
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run = _take_over(connection)
        threading.Thread(target=_end_with_launcher, args=(connection,), daemon=True).start()
        status = run()
    except SystemExit as ended:
        # The parser of the arguments exits with a number.
        status = ended.code if isinstance(ended.code, int) else launcher.LOST
    except BaseException:  # noqa: BLE001  as the interpreter does for a program
        traceback.print_exc()
        status = 1
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(OSError):
            connection.send(bytes([status & 0xFF]))
        os._exit(status)


def _take_over(connection: socket.socket) -> Callable[[], int]:
    """Take the arguments, the environment, the working folder and the standard streams of the launcher.

    Returns:
        The function that runs the peer.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, launcher.LENGTH.size, 3)
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
        os.close(given)
    (length,) = launcher.LENGTH.unpack(head)
    order = b""
    while len(order) < length and (data := connection.recv(length - len(order))):
        order += data
    folder, number, *words = order.split(b"\0")
    arguments, variables = words[: int(number)], words[int(number) :]
    os.chdir(folder)
    os.environb.clear()
    for each in variables:
        name, _, value = each.partition(b"=")
        os.environb[name] = value
    sys.argv = [*map(os.fsdecode, arguments)]
    peer: Callable[[], int] = import_module(sys.argv[0]).main
    return peer


def _end_with_launcher(connection: socket.socket) -> None:
    """End this process when the launcher has ended: the suite ended it."""
    with suppress(OSError):
        connection.recv(1)
    os._exit(launcher.LOST)


if __name__ == "__main__":
    main(sys.argv[1:])
