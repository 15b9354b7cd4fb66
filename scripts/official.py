"""Runs the official conformance framework against this project: `nox -s official`.

    nox -s official                  every server leg
    nox -s official -- client        every client leg
    nox -s official -- server client

npm brings the framework, and the Node.js that the framework needs, into `.official`, in the versions of
`scripts/official`. The lock beside them has no addresses of a registry (`--omit-lockfile-registry-resolved`), so it
works with any.

The framework's own exit status is not enough: it lets warnings, skipped scenarios and the extensions of a requirement
set pass. Here a scenario passes only if it was run, something was checked, and nothing failed, warned or was skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
PINNED = ROOT / "scripts" / "official"
PLACE = ROOT / ".official"
RESULTS = PLACE / "results"
SERVER_LOG = RESULTS / "server.log"
FRAMEWORK = ("node_modules/.bin/node", "node_modules/@modelcontextprotocol/conformance/dist/index.js")
SERVER = "scripts/everything-server"
CLIENT = "scripts/everything-client"
SIDES = ("server", "client")
LEGS: dict[str, tuple[str, ...]] = {
    "all": ("--suite", "all"),
    "set 2025-11-25": ("--requirements", "2025-11-25"),
    "set 2026-07-28": ("--requirements", "2026-07-28"),
    "2025-03-26": ("--suite", "all", "--spec-version", "2025-03-26"),
    "2025-06-18": ("--suite", "all", "--spec-version", "2025-06-18"),
    "2025-11-25": ("--suite", "all", "--spec-version", "2025-11-25"),
    "2026-07-28": ("--suite", "all", "--spec-version", "2026-07-28"),
}
"""What each run of the framework is asked for. It knows no 2024-11-05."""

NEVER_RUN = frozenset(
    {
        # The framework still has to learn to listen for them.
        "TasksStatusNotificationsScenario",
        # No handshake belongs to the wire on which it looks for these headers.
        "ClientMcpMethodHeader_initialize",
        "ClientMcpMethodHeader_notifications_initialized",
    }
)
"""The checks that the framework skips whatever one does, by name."""

# It is made for whatever was seen on the wire, beside the checks of the scenario.
WIRE = "wire-schema-valid"
# Ordered: the first that a scenario has is its verdict.
FAILING = {"FAILURE": "FAIL", "WARNING": "warn", "SKIPPED": "skip"}
# The verdict on a scenario that has nothing but checks of `NEVER_RUN`.
NEVER = "none"
PATIENCE = 900


@dataclass(frozen=True)
class Finding:
    """One reason why a scenario did not pass."""

    verdict: str
    check: str
    message: str


@dataclass(frozen=True)
class Scenario:
    """What became of a scenario in one leg."""

    name: str
    verdict: str
    """`pass`, a value of `FAILING`, or `NEVER`."""

    findings: tuple[Finding, ...] = ()
    """Why it did not pass."""


@dataclass(frozen=True)
class Leg:
    """What became of one run of the framework."""

    name: str
    scenarios: tuple[Scenario, ...]
    trouble: tuple[str, ...] = ()
    """What is wrong with the run as a whole."""


def read_scenario(name: str, text: str | None) -> Scenario:
    """Judges a scenario.

    Args:
        name: Its name.
        text: Its `checks.json`; None if the framework left none, which it does where a scenario breaks off.
    """
    if text is None:
        return Scenario(name, "FAIL", (Finding("FAIL", "", "the framework left no result"),))
    checks = [check for check in json.loads(text) if check["status"] != "INFO"]
    findings = tuple(
        Finding(FAILING[check["status"]], check["name"], check.get("errorMessage") or check["description"])
        for check in checks
        if check["status"] != "SUCCESS" and not (check["status"] == "SKIPPED" and check["name"] in NEVER_RUN)
    )
    for verdict in FAILING.values():
        if any(finding.verdict == verdict for finding in findings):
            return Scenario(name, verdict, findings)
    if any(check["status"] == "SUCCESS" and check["id"] != WIRE for check in checks):
        return Scenario(name, "pass")
    if any(check["status"] == "SKIPPED" for check in checks):
        return Scenario(name, NEVER)
    return Scenario(name, "FAIL", (Finding("FAIL", "", "nothing was checked"),))


def read_leg(name: str, side: str, folder: Path, output: str, status: int) -> Leg:
    """Judges a run of the framework.

    Args:
        name: What to call it.
        side: Which side was under test.
        folder: Where the framework wrote its results: a folder for each scenario, `/` in names being a folder too.
        output: What the framework said.
        status: Its exit status.
    """
    prefix = "server-" if side == "server" else ""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        match = re.fullmatch(rf"{prefix}(.+)-\d{{4}}-\d\d-\d\dT[\d-]+Z", relative)
        if path.is_dir() and match:
            found[match[1]] = path
    scenarios = tuple(read_scenario(scenario, _text(path / "checks.json")) for scenario, path in found.items())
    trouble: list[str] = []
    announced = re.search(r"\((\d+) scenarios\)", output)
    if announced is None:
        trouble.append(f"the framework did not say how many scenarios it runs; its last words: {output[-300:]!r}")
    elif int(announced[1]) != len(scenarios):
        trouble.append(f"the framework announced {announced[1]} scenarios and left results of {len(scenarios)}")
    if status and not any(scenario.findings for scenario in scenarios):
        trouble.append(f"the framework exited with {status} and without a reason in its results: {output[-300:]!r}")
    return Leg(name, scenarios, tuple(trouble))


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def table(legs: Sequence[Leg]) -> str:
    """A line for each scenario, a column for each leg; a dot where a leg has no such scenario."""
    names = sorted({scenario.name for leg in legs for scenario in leg.scenarios})
    verdicts = [{scenario.name: scenario.verdict for scenario in leg.scenarios} for leg in legs]
    heads = ["scenario", *(leg.name for leg in legs)]
    rows = [[name, *(each.get(name, ".") for each in verdicts)] for name in names]
    counts = [Counter(each.values()) for each in verdicts]
    rows.append(["passed", *(f"{count['pass']}/{count.total() - count[NEVER]}" for count in counts)])
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in [heads, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def complaints(legs: Sequence[Leg]) -> list[str]:
    """What keeps the legs from passing, a line for each reason: each once, with all the checks and legs that have it."""
    # Dictionaries for their order: sets that remember it.
    found: dict[tuple[str, str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for leg in legs:
        for trouble in leg.trouble:
            found.setdefault(("FAIL", "the run", trouble), ({}, {}))[1][leg.name] = None
        for scenario in leg.scenarios:
            for finding in scenario.findings:
                reason = (finding.verdict, scenario.name, " ".join(finding.message.split()))
                checks, names = found.setdefault(reason, ({}, {}))
                checks[finding.check] = None
                names[leg.name] = None
    return [
        " ".join((verdict, scenario, f"[{', '.join(names)}]", *checks)) + f": {message}"
        for (verdict, scenario, message), (checks, names) in found.items()
    ]


def install() -> None:
    """Brings the framework and its Node.js into `.official`, unless they are there in the versions asked for.

    Raises:
        SystemExit: It could not be done; the message says what to do.
    """
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("The official framework comes by npm, and there is no npm here. Install Node.js, which has it.")
    stamp = PLACE / "stamp"
    wanted = "".join((PINNED / name).read_text() for name in ("package.json", "package-lock.json"))
    if _text(stamp) == wanted:
        return
    PLACE.mkdir(exist_ok=True)
    stamp.unlink(missing_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINNED / name, PLACE / name)
    # npm complains that its own Node.js is too old for the framework, which another one will run.
    command = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", "--omit-lockfile-registry-resolved"]
    if subprocess.run(command, cwd=PLACE, check=False).returncode:
        sys.exit("npm could not install the official framework (its own words are above). It needs a registry.")
    stamp.write_text(wanted)


def run_leg(name: str, side: str, target: Sequence[str]) -> Leg:
    """Runs the framework once.

    Args:
        name: A key of `LEGS`.
        side: Which side is under test.
        target: The options that say what is under test.
    """
    folder = RESULTS / side / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [*(str(PLACE / part) for part in FRAMEWORK), side, *target, *LEGS[name], "-o", str(folder)]
    # In the checkout, where the client under test is found by its relative path: the framework cuts it at spaces.
    ran = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False
    )
    (folder / "output.txt").write_text(ran.stdout)
    return read_leg(name, side, folder, ran.stdout, ran.returncode)


@contextlib.contextmanager
def everything_server() -> Iterator[str]:
    """Serves it on a free port as long as the block runs, and gives its URL."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    command = [str(ROOT / SERVER), "--port", "0"]
    with (
        SERVER_LOG.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as child,
    ):
        try:
            assert child.stdout is not None
            said = child.stdout.readline()
            url = re.search(r"http://\S+", said)
            if url is None:
                sys.exit(f"{SERVER} did not say where it serves, but {said!r}; it logs into {SERVER_LOG}.")
            yield url[0]
            if child.poll() is not None:
                sys.exit(f"{SERVER} ended by itself, with {child.returncode}; it logs into {SERVER_LOG}.")
        finally:
            child.terminate()


def run_side(side: str) -> list[Leg]:
    """Runs every leg of one side: the server's against one and the same process."""
    if side == "client":
        if not (ROOT / CLIENT).exists():
            sys.exit(f"The client legs run {CLIENT} URL, and there is no such program.")
        return [run_leg(name, side, ("--command", f"./{CLIENT}")) for name in LEGS]
    with everything_server() as url:
        return [run_leg(name, side, ("--url", url)) for name in LEGS]


def main() -> int:
    """Returns the exit status: 0 if all legs pass."""
    parser = argparse.ArgumentParser(prog="official", description="Runs the official conformance framework.")
    parser.add_argument("sides", nargs="*", help="server, client or both; without it: server")
    sides: list[str] = parser.parse_args().sides or ["server"]
    if unknown := [side for side in sides if side not in SIDES]:
        parser.error(f"no such side: {', '.join(unknown)}; there are: {', '.join(SIDES)}")
    install()
    failed = False
    for side in sides:
        legs = run_side(side)
        wrong = complaints(legs)
        failed = failed or bool(wrong)
        print(f"\n{side} legs\n\n{table(legs)}\n")
        print("\n".join(wrong) if wrong else f"Every scenario of every {side} leg passes.", flush=True)
    if failed:
        print(f"\nWhat the framework saw and said, and what the server logged, is in {RESULTS}.", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
