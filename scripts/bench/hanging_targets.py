"""The benchmark of runs of the conformance suite against targets that hang.

    python scripts/bench/hanging_targets.py                       every hang, in each role over each transport
    python scripts/bench/hanging_targets.py server-stdio every-fifth    some of them

The targets are the correct server and client of `conformance/mutants`, which leave some requests without a response or do
not exit. Each row has the seconds of a whole run over all revisions, and its ratio to the run of the healthy target. The
exit status is 1 if a ratio is above 4.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

# The folders of scripts import each other.
ROOT: Final = Path(__file__).resolve().parents[2]
_FOLDERS: Final = [str(ROOT / each) for each in ("scripts", "conformance", "conformance/fixtures")]
sys.path[:0] = _FOLDERS
from bench.programs.hanging_client import CLIENT_HANGS
from bench.programs.hanging_server import HANGS

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST: Final = 4.0
"""The highest ratio to the run of the healthy target."""
_HEALTHY: Final = "healthy"
_PYTHON: Final = shlex.quote(sys.executable)
_SERVER: Final = f"{_PYTHON} -m bench.programs.hanging_server"
_CLIENT: Final = f"{_PYTHON} -m bench.programs.hanging_client"
_RUNS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "server-stdio": (("server", "--command", f"{_SERVER} {{hang}}"), tuple(HANGS)),
    "server-http": (
        ("server", "--start", f"{_SERVER} {{hang}} --port {{port}}"),
        tuple(hang for hang in HANGS if hang != "exit"),
    ),
    "client-stdio": (("client", "--stdio-command", f"{_CLIENT} {{hang}} --start {{command}}"), tuple(CLIENT_HANGS)),
    "client-http": (("client", "--command", f"{_CLIENT} {{hang}} --url {{url}}"), tuple(CLIENT_HANGS)),
}
"""By name: the arguments of the suite, and the hangs."""


def seconds(name: str, hang: str) -> float:
    """Return the seconds of a run of the suite."""
    words = [word.replace("{hang}", hang) for word in _RUNS[name][0]]
    suite = str(Path(sys.executable).with_name("mcp-conformance"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_FOLDERS)}
    since = time.monotonic()
    subprocess.run([suite, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.monotonic() - since


def main() -> int:
    """Run the benchmark and return the exit status."""
    hangs = [hang for hang in dict.fromkeys([*HANGS, *CLIENT_HANGS]) if hang != _HEALTHY]
    parser = argparse.ArgumentParser(description="Measure runs of the conformance suite against targets that hang.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join([*_RUNS, *hangs])}; default: all")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - {*_RUNS, *hangs}):
        parser.error(f"unknown: {', '.join(unknown)}")
    worst = 0.0
    for name in [each for each in _RUNS if each in given.names] or _RUNS:
        healthy = seconds(name, _HEALTHY)
        print(f"{name:14}{_HEALTHY:20}{healthy:8.1f} s", flush=True)
        for hang in [each for each in _RUNS[name][1] if each in given.names] or _RUNS[name][1]:
            if hang != _HEALTHY:
                taken = seconds(name, hang)
                worst = max(worst, taken / healthy)
                print(f"{name:14}{hang:20}{taken:8.1f} s{taken / healthy:7.1f}", flush=True)
    return int(worst > _MOST)


if __name__ == "__main__":
    sys.exit(main())
