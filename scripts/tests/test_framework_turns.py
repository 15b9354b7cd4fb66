from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from interop.framework import turns as official_turns

COUNT_HELD_LOCKS = """
import fcntl, pathlib, sys
held = 0
for path in pathlib.Path(sys.argv[1]).glob("turn-*"):
    with path.open() as turn:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held += 1
print(held, *sys.argv[2:])
sys.exit(7)
"""


def test_program_holds_lock_until_exit(tmp_path: Path) -> None:
    program = [sys.executable, "-c", COUNT_HELD_LOCKS, str(tmp_path), "an argument", "http://127.0.0.1/mcp"]
    command = [sys.executable, official_turns.__file__, str(tmp_path), *program]
    for _ in range(2 * (os.cpu_count() or 1)):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        assert (done.stdout, done.returncode) == ("1 an argument http://127.0.0.1/mcp\n", 7)
    assert len([*tmp_path.iterdir()]) <= (os.cpu_count() or 1)
