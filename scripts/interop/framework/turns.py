"""Runs a program when it is its turn: `python official_turns.py FOLDER PROGRAM ARGUMENT...`

The official framework starts all clients of a leg at once. Where they have to share few processors, each would get so little
of them that deadlines pass which nobody would miss otherwise. So no more of them run at a time than there are processors.

A turn is a lock on a file in the folder. The program inherits it, and gives it up by its end, whatever that is.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path


def main(folder: str, *command: str) -> None:
    """Waits for a turn, and becomes the program. It does not return."""
    turn = os.getpid() % (os.cpu_count() or 1)
    lock = os.open(Path(folder) / f"turn-{turn}", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)  # it has no name
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
