"""Commands on a real terminal: a pseudoterminal, whose other side a test reads and types into."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_SECONDS: Final = 60
"""Time to wait for output before a test fails, in seconds. Commands are slow on a loaded machine."""


class Terminal:
    """A command whose stdin and stderr are a terminal. Its stdout is a pipe.

    Args:
        command: The command.
        cwd: The working directory.
    """

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        self._process: Final = subprocess.Popen(
            command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, cwd=cwd, text=True
        )
        os.close(theirs)
        self._read = ""
        self.shown = ""
        """All output on the terminal, including the typed text."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        os.close(self._ours)

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows a text after the last one that was waited for."""
        while text not in self._read:
            if not self._receive():
                raise AssertionError(f"the command ended without {text!r}: {self.shown}")
        self._read = self._read.partition(text)[2]

    def type_line(self, line: str) -> None:
        """Type a line, and press Enter."""
        os.write(self._ours, f"{line}\n".encode())

    def answer(self, prompt: str, line: str) -> None:
        """Wait for a prompt, and type a line."""
        self.wait_for(prompt)
        self.type_line(line)

    def interrupt(self) -> None:
        """Send the signal of Ctrl-C to the command."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Wait for the end of the command. Return its exit code and its stdout."""
        while self._receive():
            pass
        out, _ = self._process.communicate(timeout=_SECONDS)
        return self._process.returncode, out

    def _receive(self) -> bool:
        """Read the next output. Return whether there was any before the end."""
        ready, _, _ = select.select([self._ours], [], [], _SECONDS)
        if not ready:
            raise AssertionError(f"no output in {_SECONDS} seconds after: {self.shown}")
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux reports the end of the command as EIO
            return False
        text = data.decode().replace("\r\n", "\n")
        self._read += text
        self.shown += text
        return bool(data)
