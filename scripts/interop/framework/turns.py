"""The command that runs a program when it is its turn: `python official_turns.py FOLDER PROGRAM ARGUMENT...`

The official framework starts all clients of a leg at once. On few processors each client would get so little time that
it misses deadlines. So at most as many clients run at a time as there are processors.

A turn is a lock on a file in the folder. The program inherits the lock, and releases it when it ends.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path


def main(folder: str, *command: str) -> None:
    """Wait for a turn, and replace this process by the program."""
    turn = os.getpid() % (os.cpu_count() or 1)
    lock = os.open(Path(folder) / f"turn-{turn}", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)  # the lock is inherited as a descriptor
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
