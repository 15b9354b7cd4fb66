"""`mcp-server dev` in a process of its own, with an author's file that tests change."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Final

__all__ = ["DevCommand", "run_dev"]

TIMEOUT: Final = 90
"""The time limit of a step, in seconds."""


class DevCommand:
    """The running command.

    Args:
        process: The process.
        file: The author's file.
    """

    def __init__(self, process: subprocess.Popen[str], file: Path) -> None:
        self.process: Final = process
        self.file: Final = file
        self.output: Final[list[str]] = []
        """The lines of stderr so far."""
        self._lines: Final[Queue[str]] = Queue()
        self._reader: Final = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line.rstrip("\n"))

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait for a line of stderr that contains the pattern, after those that were waited for."""
        while True:
            try:
                line = self._lines.get(timeout=TIMEOUT)
            except Empty:
                raise AssertionError(f"no line with {pattern!r} in:\n" + "\n".join(self.output)) from None
            self.output.append(line)
            found = re.search(pattern, line)
            if found:
                return found

    def rest(self) -> list[str]:
        """Wait for the end of the command, and return the lines after those that were waited for."""
        self._reader.join(TIMEOUT)
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def write(self, source: str) -> None:
        """Replace the author's file in one step, as editors do."""
        new = self.file.with_suffix(".new")
        new.write_text(source)
        new.replace(self.file)

    def child(self) -> int:
        """Return the id of the child process (Linux)."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        found = {int(each) for thread in threads for each in (thread / "children").read_text().split()}
        assert len(found | {int(each) for each in children}) == 1
        return found.pop()

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)


@contextmanager
def run_dev(folder: Path, source: str, *options: str, name: str = "app.py") -> Iterator[DevCommand]:
    """Run the command for a file with this source while the block runs."""
    file = folder / name
    file.write_text(source)
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_server", "dev", name, *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Without bytecode, a reload could not use that of the old code by mistake.
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        | {"PYTHONWARNINGS": "default"},
    )
    try:
        yield DevCommand(process, file)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.stderr is not None
        process.stderr.close()
