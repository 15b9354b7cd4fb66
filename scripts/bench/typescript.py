"""The installation of the official TypeScript SDK for the benchmark, in the version that `nox -s peers` tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.sides import PROGRAMS, TYPESCRIPT
from interop.peers.run import SDKS, prepare

__all__ = ["PEER", "install"]

PEER: Final = "typescript-2"
"""The name of the peer in `scripts/interop/peers`."""


def install() -> str:
    """Install the SDK with npm unless it is present, and copy the programs to where Node.js finds it.

    Returns:
        The version of the SDK; empty if it could not be installed, which is printed.
    """
    try:
        prepare({PEER})
    except SystemExit as error:
        print(f"The side {TYPESCRIPT.name} is left out: {error}", flush=True)
        return ""
    shutil.rmtree(TYPESCRIPT.folder, ignore_errors=True)
    TYPESCRIPT.folder.mkdir()
    for program in PROGRAMS.glob(f"*{TYPESCRIPT.suffix}"):
        shutil.copy(program, TYPESCRIPT.folder)
    return SDKS[PEER].partition("@")[2]
