"""The sides of a measurement: this project, its peers, and the floor below them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import attrs

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from interop.peers.run import NODE

__all__ = ["ASGI", "FLOOR", "OFFICIAL", "OURS", "PROGRAMS", "TYPESCRIPT", "Side"]

PROGRAMS: Final = Path(__file__).parent / "programs"


@attrs.frozen
class Side:
    """One of the programs that are measured in turns."""

    name: str
    """The name in the results, such as `ours`."""
    program: str
    """The part of the names of programs in `scripts/bench/programs` that identifies the side."""
    interpreter: str = sys.executable
    """The interpreter whose environment the program uses."""
    folder: Path = attrs.field(default=PROGRAMS, kw_only=True)
    """The folder of the programs."""
    suffix: str = attrs.field(default=".py", kw_only=True)
    """The end of the names of the programs."""
    warm_up: int = attrs.field(default=200, kw_only=True)
    """Calls before a measurement of calls."""

    def command(self, task: str, *arguments: str) -> list[str]:
        """Return the command of the program for a task, such as `http_server`."""
        return [self.interpreter, str(self.folder / f"{task}_{self.program}{self.suffix}"), *arguments]

    def import_command(self, module: str) -> list[str]:
        """Return the command that prints the seconds to import a module, without the start of the interpreter."""
        if self.suffix == ".py":
            code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
            return [self.interpreter, "-c", code]
        return [self.interpreter, str(self.folder / f"import{self.suffix}"), module]


OURS: Final = Side("ours", "ours")
ASGI: Final = Side("uvicorn", "asgi")
"""This project under uvicorn."""
OFFICIAL: Final = Side("official", "official")
"""The official Python SDK."""
TYPESCRIPT: Final = Side(
    "typescript",
    "typescript",
    str(NODE / "node_modules" / ".bin" / "node"),
    folder=NODE / "bench",
    suffix=".mjs",
    warm_up=10_000,
)
"""The official TypeScript SDK, which `bench.typescript` installs. V8 optimizes functions for some thousand calls: from 200 calls
to 12,000, the cost of a call over HTTP falls from 940 to 300 microseconds, and does not change after that."""
FLOOR: Final = Side("floor", "floor")
"""Bare trio, and h11 over HTTP, that do the same input and output: no implementation on top of them can be cheaper."""
