"""Child processes that print lines, and end with the program that started them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Child", "ChildFailed", "end_with_parent", "start"]

_SCRIPTS: Final = Path(__file__).resolve().parents[2]
_QUOTED: Final = 2_000
"""Characters of a child's standard error that an error quotes."""


class ChildFailed(Exception):
    """A child process ended unexpectedly."""


async def end_with_parent(scope: trio.CancelScope) -> None:
    """Cancel `scope` at the end of standard input, which a parent holds open as long as it lives."""
    async with trio.lowlevel.FdStream(os.dup(0)) as stream:
        while await stream.receive_some(1024):
            pass
    scope.cancel()


@attrs.define
class Child:
    """A child process."""

    process: trio.Process
    errors: IO[bytes]
    _received: bytearray = attrs.field(factory=bytearray)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    async def line(self) -> str:
        """Return the next line of standard output, or the empty string at the end."""
        assert self.process.stdout is not None
        while (at := self._received.find(b"\n")) < 0:
            data = await self.process.stdout.receive_some(65_536)
            if not data:
                return ""
            self._received += data
        line = self._received[:at].decode()
        del self._received[: at + 1]
        return line

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of standard output."""
        while line := await self.line():
            yield line

    def said(self) -> str:
        """Return the end of standard error."""
        self.errors.seek(0)
        return self.errors.read()[-_QUOTED:].decode(errors="replace")

    async def aclose(self) -> None:
        """Kill the process, which has nothing to finish."""
        with trio.CancelScope(shield=True):
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    await pipe.aclose()
            self.errors.close()


@contextlib.asynccontextmanager
async def start(name: str, *arguments: str) -> AsyncIterator[Child]:
    """Run `python -m bench.attacks.NAME ARGUMENTS` for the time of the block."""
    # The pipe stays open as long as the child runs.
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", f"bench.attacks.{name}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        # ^C is for the parent, which ends its children in order.
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(_SCRIPTS), os.environ.get("PYTHONPATH"))))},
    )
    child = Child(process, errors)
    try:
        yield child
    finally:
        await child.aclose()
