"""The process that a client under test starts as its server. It relays everything to the suite and obeys its commands.

It uses only the standard library and is run as a file, so that it starts quickly and wherever Python does.

In both directions a frame consists of a kind (one byte), a length (four bytes, big-endian) and the content. To the
suite: `H` the token, `I` received input, `E` the end of input, `S` the number of a signal. From the suite: `O` and `R`
bytes for standard output and standard error, `C` to close standard output, `D` to close standard error, `X` to exit with a status.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading

__all__ = ["main"]

_HEAD = struct.Struct(">cI")
_PORTION = 64 * 1024


def main(arguments: list[str]) -> int:
    """Run the relay.

    Args:
        arguments: The port of the suite on this machine, and the token that authenticates the relay.

    Returns:
        The exit status that the suite requests.
    """
    connection = socket.create_connection(("127.0.0.1", int(arguments[0])))
    lock = threading.RLock()

    def send(kind: bytes, content: bytes = b"") -> None:
        with lock:
            try:
                connection.sendall(_HEAD.pack(kind, len(content)) + content)
            except OSError:
                # The connection to the suite is lost, so the loss cannot be reported.
                os._exit(70)

    def pump() -> None:
        while data := os.read(0, _PORTION):
            send(b"I", data)
        send(b"E")

    send(b"H", arguments[1].encode())
    # A signal must not end this process before the suite knows of it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: send(b"S", str(int(got)).encode()))
    threading.Thread(target=pump, daemon=True).start()
    return _obey(connection)


def _obey(connection: socket.socket) -> int:
    """Execute the commands of the suite until it requests the exit."""
    frames = connection.makefile("rb")
    while len(head := frames.read(_HEAD.size)) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        content = frames.read(length)
        if kind == b"X":
            return int(content)
        if kind == b"C":
            os.close(1)
            continue
        if kind == b"D":
            # Its number remains in use, so that nothing else that is opened gets it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            continue
        try:
            _write(1 if kind == b"O" else 2, content)
        except OSError:
            # The client has closed its end; the suite notices that by the end of input.
            continue
    return 70


def _write(target: int, content: bytes) -> None:
    while content:
        content = content[os.write(target, content) :]


if __name__ == "__main__":
    _status = main(sys.argv[1:])
    # Not `sys.exit`: the thread may block in a read that never returns, and the interpreter would wait for its lock.
    os._exit(_status)
