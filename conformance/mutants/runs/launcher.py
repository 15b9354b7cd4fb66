"""The program that stands for a peer under test: a process of the fork server runs the peer.

It uses only the standard library and is run as a file, so that it starts in a fraction of the time that the imports of the
peer take. The peer gets the arguments, the environment, the working folder and the standard streams of this process.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

__all__ = ["LENGTH", "LOST", "main"]

LENGTH = struct.Struct(">I")
"""The length of an order in bytes, which precedes it."""
LOST = 70
"""The exit status if the fork server or the peer ended without a status."""


def main(arguments: list[str]) -> int:
    """Run the peer and return its exit status.

    Args:
        arguments: The path of the socket of the fork server, and the module and the arguments of the peer.
    """
    where, *others = arguments
    variables = [name + b"=" + value for name, value in os.environb.items()]
    words = [os.fsencode(os.getcwd()), b"%d" % len(others), *map(os.fsencode, others), *variables]
    order = b"\0".join(words)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(where)
        socket.send_fds(connection, [LENGTH.pack(len(order))], [0, 1, 2])
        connection.sendall(order)
        # Otherwise the suite would not see that the peer closes its output.
        os.close(0)
        os.close(1)
        status = connection.recv(1)
    return status[0] if status else LOST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
