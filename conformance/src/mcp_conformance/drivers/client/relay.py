"""What a client under test starts as its server: it passes everything on to the suite, and does what the suite says.

It uses nothing but the standard library, and is run as a file, so that it starts quickly and wherever Python does.

Both ways go frames of a kind (one byte), a length (four bytes, the most significant first) and a content. To the suite:
`H` the token, `I` what came in, `E` the end of what comes in, `S` the number of a signal. From the suite: `O` and `R` what
to write to standard output and standard error, `C` to close standard output, `X` to end with a status.
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
    """Run it.

    Args:
        arguments: The port of the suite on this machine, and the token by which it knows its own.

    Returns:
        The exit status that the suite wants.
    """
    connection = socket.create_connection(("127.0.0.1", int(arguments[0])))
    lock = threading.RLock()

    def send(kind: bytes, content: bytes = b"") -> None:
        with lock:
            try:
                connection.sendall(_HEAD.pack(kind, len(content)) + content)
            except OSError:
                # Nobody is left to tell.
                os._exit(70)

    def pump() -> None:
        while data := os.read(0, _PORTION):
            send(b"I", data)
        send(b"E")

    send(b"H", arguments[1].encode())
    # The client must not get at it through a signal that the suite has not seen.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: send(b"S", str(int(got)).encode()))
    threading.Thread(target=pump, daemon=True).start()
    return _obey(connection)


def _obey(connection: socket.socket) -> int:
    """Do what the suite says, until it says to end."""
    frames = connection.makefile("rb")
    while len(head := frames.read(_HEAD.size)) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        content = frames.read(length)
        if kind == b"X":
            return int(content)
        if kind == b"C":
            os.close(1)
            continue
        try:
            _write(1 if kind == b"O" else 2, content)
        except OSError:
            # The client does not read any more; the suite sees that by what comes in.
            continue
    return 70


def _write(target: int, content: bytes) -> None:
    while content:
        content = content[os.write(target, content) :]


if __name__ == "__main__":
    _status = main(sys.argv[1:])
    # Not `sys.exit`: the thread may sit in a read that never returns, and the interpreter would wait for its lock.
    os._exit(_status)
