"""The check that repeated runs of the conformance suite against this project's sides have the same verdicts.

    python scripts/checks/verdict_stability.py                          ten runs of each
    python scripts/checks/verdict_stability.py --runs 100 server-http   a hundred runs of one of them

Programs on trio are run again on asyncio and uvloop: their verdicts must be the same as those on trio. The exit status is
1 when a verdict differs between runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_PYTHON: Final = shlex.quote(sys.executable)
_LOOPS: Final = ("trio", "asyncio", "uvloop")


def _server_over_http(loop: str) -> tuple[str, ...]:
    root = "http://localhost:{port}" + ("" if loop == "trio" else "/mounted")
    start = f"{_PYTHON} -m everything --port {{port}} --loop {loop}"
    return ("server", "--start", start, "--at", f"{root}/mcp", "--sse-url", f"{root}/sse")


def _protected_server(loop: str) -> tuple[str, ...]:
    start = f"{_PYTHON} -m protected --port {{port}} --issuer {{issuer}} --resource {{resource}} --loop {loop}"
    return ("server", "--auth", "--start", start, "--at", "http://localhost:{port}/mcp")


_EACH_LOOP: Final = {
    "server-http": (_server_over_http, _LOOPS),
    "server-stdio": (
        lambda loop: ("server", "--command", f"{_PYTHON} -m everything --stdio --loop {loop}"),
        _LOOPS[:2],
    ),
    "server-auth": (_protected_server, _LOOPS),
    "client-http": (
        lambda loop: ("client", "--command", f"{_PYTHON} -m everything_client --loop {loop} {{url}}"),
        _LOOPS[:2],
    ),
    "client-stdio": (
        lambda loop: (
            "client",
            "--stdio-command",
            f"{_PYTHON} -m everything_client --loop {loop} --start {{command}}",
        ),
        _LOOPS[:2],
    ),
}
"""The programs under test, and the loops on which they run: by name, a function that returns the arguments of
`mcp-conformance`."""

_RUNS: Final = {
    name if loop == "trio" else f"{name}-{loop}": arguments(loop)
    for name, (arguments, loops) in _EACH_LOOP.items()
    for loop in loops
}
"""The runs: by name, the arguments of `mcp-conformance`. Names without a loop are of programs on trio."""

_ALL: Final = "(all checks)"
"""The key, in place of a check, of the result of a leg."""

Verdicts = dict[tuple[str, str, str], str]


def verdicts(name: str) -> Verdicts:
    """Run the suite once; return the outcomes by check, revision and transport, with reasons of unsupported legs."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = [
            str(Path(sys.executable).with_name("mcp-conformance")),
            *_RUNS[name],
            "--allow-untested",
            "--json",
            str(report),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "conformance" / "fixtures")}
        subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        document = json.loads(report.read_text())
    found = {(each["check"], each["revision"], each["transport"]): each["outcome"] for each in document["verdicts"]}
    for leg in document["lanes"]:
        found[_ALL, leg["revision"], leg["transport"]] = leg["refusal"] or "tried"
    return found


def _outcomes(run: Verdicts) -> Counter[str]:
    return Counter(outcome for (check, _, _), outcome in run.items() if check != _ALL)


def differing(runs: list[Verdicts]) -> list[str]:
    """Return a line for each verdict that differs between runs; for an unsupported leg, only one line."""
    found: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for each in runs:
        for key in {key for run in runs for key in run}:
            if each.get((_ALL, *key[1:])) == "tried" or key[0] == _ALL:
                found[key][each.get(key, "no verdict")] += 1
    return [
        f"{check} in {revision} over {transport}: "
        + ", ".join(f"{outcome} {times} times" for outcome, times in sorted(counts.items()))
        for (check, revision, transport), counts in sorted(found.items())
        if len(counts) > 1
    ]


def main() -> int:
    """Run the command and return the exit status."""
    parser = argparse.ArgumentParser(description="Find verdicts of the conformance suite that differ between runs.")
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="number of runs (default: %(default)s)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(_RUNS)}; default: all")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(_RUNS))
    if unknown:
        parser.error(f"unknown name {unknown[0]!r}: {', '.join(_RUNS)}")
    lucky = 0
    on_trio: dict[str, Verdicts] = {}
    for name in given.names or _RUNS:
        runs: list[Verdicts] = []
        for number in range(given.runs):
            runs.append(verdicts(name))
            print(f"\r{name}: {number + 1} of {given.runs}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        program = next(each for each in _EACH_LOOP if name.startswith(each))
        on_trio.setdefault(program, runs[0])
        found = differing([*runs, on_trio[program]])
        lucky += len(found)
        counts = ", ".join(f"{times} {outcome}" for outcome, times in sorted(_outcomes(runs[0]).items()))
        print(f"{name}: {given.runs} runs; {counts}; {len(found)} differing verdicts", flush=True)
        for line in found:
            print(f"  {line}", flush=True)
    return 1 if lucky else 0


if __name__ == "__main__":
    sys.exit(main())
