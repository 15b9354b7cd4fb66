"""The first program of a worker process. It prepares the process and replaces itself with the worker's command.

The supervisor runs it as a script:

    python -I -S launcher.py SUPERVISOR DESCRIPTOR[,DESCRIPTOR...] COMMAND [ARGUMENT...]

The sockets must have the descriptors that sd_listen_fds(3) defines, `LISTEN_PID` must be the id of this process, and
the kernel must stop the worker when its supervisor ends. Only the new process can do this. Code between fork and exec
in the supervisor (`preexec_fn`) is not safe. The script imports only the standard library, since each start of a worker
runs it.
"""

from __future__ import annotations

import os
import signal
import sys

FIRST = 3
"""The descriptor of the first socket."""

SPARE = 1000
"""Descriptors from this one on are used while sockets are moved."""

PR_SET_PDEATHSIG = 1
"""The operation of prctl(2) that names the signal for the end of the parent process."""


def main(supervisor: int, descriptors: list[int], command: list[str]) -> None:
    """Move the sockets, request a signal for the end of the supervisor, and replace this process with the command."""
    import fcntl  # lazy: the script must not fail before its arguments are read where the module does not exist

    if sys.platform == "linux":
        import ctypes  # lazy: only Linux has this operation

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        sys.exit("mcp-server: the supervisor of this worker has ended")  # before it could be noticed
    # First out of the range, so that no socket replaces another.
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, SPARE) for each in descriptors]
    for place, each in enumerate(moved):
        os.dup2(each, FIRST + place)
        os.close(each)
    for each in descriptors:
        if each >= FIRST + len(descriptors):
            os.close(each)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(descriptors))
    try:
        os.execvp(command[0], command)  # noqa: S606  # the command of the operator
    except OSError as error:
        sys.exit(f"mcp-server: cannot run {command[0]!r}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(each) for each in sys.argv[2].split(",")], sys.argv[3:])
