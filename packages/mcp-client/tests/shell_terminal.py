"""A terminal emulator that runs a command, as a user sees it: a pseudoterminal, and the screen that its output draws."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import pyte

WireMessage: TypeAlias = dict[str, Any]  # type: ignore[explicit-any]  # JSON of any form, whose members tests read
"""A message as it is on the wire."""

_SECONDS: Final = 60
"""Time to wait for a screen before a test fails, in seconds. Commands are slow on a loaded machine."""

COLUMNS: Final = 100
LINES: Final = 40
SCROLLBACK: Final = 1000

CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"
TAB: Final = "\t"
UP: Final = "\x1b[A"


class _Screen(pyte.HistoryScreen):
    """A screen that answers queries of the cursor's position, as terminals do."""

    def __init__(self, respond: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, LINES, history=SCROLLBACK, ratio=0.5)
        self._respond: Final = respond

    def write_process_input(self, data: str) -> None:
        self._respond(data)


class ShellTerminal:
    """A command on a terminal, in a session of its own.

    Args:
        command: The command.
        cwd: The working directory.
        env: The environment.
    """

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._process: Final = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._screen: Final = _Screen(self.type)
        self._stream: Final = pyte.ByteStream(self._screen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_SECONDS)
        os.close(self._ours)

    # --- what the user sees ----------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text on the screen and above it, without spaces at the ends of lines."""
        above = ["".join(line[column].data for column in range(COLUMNS)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *self._screen.display]).rstrip("\n")

    @property
    def cursor_line(self) -> str:
        """The text of the line with the cursor."""
        return self._screen.display[self._screen.cursor.y].rstrip()

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition on the screen holds."""
        deadline = time.monotonic() + _SECONDS
        while not condition():
            if not self._receive(deadline):
                raise AssertionError(f"the command ended, or {_SECONDS} seconds passed, without {what}:\n{self.text}")

    def wait_for(self, text: str, *, count: int = 1) -> None:
        """Wait until the terminal shows a text, so many times."""
        self.wait_until(lambda: self.text.count(text) >= count, repr(text))

    def wait_for_line(self, line: str) -> None:
        """Wait until the line with the cursor is equal to a text."""
        self.wait_until(lambda: self.cursor_line == line.rstrip(), f"the line {line!r}")

    def wait_for_prompt(self) -> None:
        """Wait for an empty prompt."""
        self.wait_for_line("mcp>")

    def messages(self, arrow: str) -> list[WireMessage]:
        """Return the shown messages of one direction, `-->` or `<--`. The terminal wraps their lines."""
        text = self.text.replace("\n", "")
        found = []
        for place in re.finditer(re.escape(f"{arrow} {{"), text):
            try:
                found.append(json.JSONDecoder().raw_decode(text, place.end() - 1)[0])
            except ValueError:
                continue  # its end is not shown yet
        return found

    def wait_for_message(self, arrow: str, accept: Callable[[WireMessage], bool]) -> WireMessage:
        """Wait until the terminal shows a message, and return it."""
        self.wait_until(lambda: any(accept(each) for each in self.messages(arrow)), f"a message {arrow}")
        return next(each for each in self.messages(arrow) if accept(each))

    # --- what the user does ----------------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._ours, text.encode())

    def enter(self, line: str) -> None:
        """Wait for an empty prompt, type a line, and press Enter when the terminal shows it."""
        self.wait_for_prompt()
        self.type(line)
        self.wait_for_line(f"mcp> {line}")
        self.type("\r")

    def end(self) -> int:
        """Wait for the end of the command. Return its exit code."""
        deadline = time.monotonic() + _SECONDS
        while self._receive(deadline):
            pass
        return self._process.wait(_SECONDS)

    def _receive(self, deadline: float) -> bool:
        """Read the next output. Return false at the end of the command, or after the deadline."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux reports the end of the command as EIO
            return False
        self._stream.feed(data)
        return bool(data)
