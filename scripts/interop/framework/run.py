"""Runs the official conformance framework against this project: `nox -s official`.

    nox -s official                  every leg of every side
    nox -s official -- client        every client leg
    nox -s official -- server authorization

npm brings the framework, and the Node.js that the framework needs, into `.official`, in the versions of
`scripts/interop/framework`. The lock beside them has no addresses of a registry (`--omit-lockfile-registry-resolved`), so it
works with any.

The framework's own exit status is not enough: it lets warnings, skipped scenarios and the extensions of a requirement
set pass. Here a scenario passes only if it was run, something was checked, and nothing failed, warned or was skipped; and
a client has to have ended by itself, with 0 and without a word on its standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from interop.framework.browser import Stuck, consent, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    Consent: TypeAlias = Callable[[str], None]

ROOT = Path(__file__).resolve().parents[3]
PINNED = Path(__file__).parent
PLACE = ROOT / ".official"
RESULTS = PLACE / "results"
FRAMEWORK = ("node_modules/.bin/node", "node_modules/@modelcontextprotocol/conformance/dist/index.js")
SERVER = "scripts/everything-server"
CLIENT = "scripts/everything-client"
CLIENT_DONE = "done"
"""The last line of what it says, when its exit status is 0."""
TURNS = "scripts/interop/framework/turns.py"
AUTHORIZATION = "scripts/authorization-server"
# Whom `scripts/authorization-server` knows, and what its tokens are for.
USERNAME, PASSWORD = "ada", "correct horse battery staple"
RESOURCE = "http://localhost:3000/mcp"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""What the framework knows: no 2024-11-05."""
_SUITES: dict[str, tuple[str, ...]] = {
    "all": ("--suite", "all"),
    "set 2025-11-25": ("--requirements", "2025-11-25"),
    "set 2026-07-28": ("--requirements", "2026-07-28"),
    **{revision: ("--suite", "all", "--spec-version", revision) for revision in REVISIONS},
}
# Clients wait for their turn, and that counts.
_CLIENT_TIMEOUT = ("--timeout", "600000")
LEGS: dict[str, dict[str, tuple[str, ...]]] = {
    "server": _SUITES,
    "client": {name: (*options, *_CLIENT_TIMEOUT) for name, options in _SUITES.items()},
    "authorization": {
        "all": (),
        "resource": ("--resource", RESOURCE),
        **{revision: ("--spec-version", revision) for revision in REVISIONS},
    },
}
"""What each run of the framework is asked for, by the side that is under test."""
PREFIXES = {"server": "server-", "client": "", "authorization": "authorization-server-"}
"""How the folders of results begin."""

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
    prefix = PREFIXES[side]
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        match = re.fullmatch(rf"{prefix}(.+)-\d{{4}}-\d\d-\d\dT[\d-]+Z", relative)
        if path.is_dir() and match:
            found[match[1]] = path
    scenarios = tuple(read_scenario(scenario, _text(path / "checks.json")) for scenario, path in found.items())
    if side == "client":
        scenarios = tuple(_with_ending(scenario, found[scenario.name]) for scenario in scenarios)
    trouble: list[str] = []
    announced = re.search(r"\((\d+) scenarios\)", output)
    if announced is None:
        trouble.append(f"the framework did not say how many scenarios it runs; its last words: {output[-300:]!r}")
    elif int(announced[1]) != len(scenarios):
        trouble.append(f"the framework announced {announced[1]} scenarios and left results of {len(scenarios)}")
    if status and not any(scenario.findings for scenario in scenarios):
        trouble.append(f"the framework exited with {status} and without a reason in its results: {output[-300:]!r}")
    return Leg(name, scenarios, tuple(trouble))


def _with_ending(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario, failed if its client did not end well: the framework does not look at that in a suite."""
    said, complained = _text(folder / "stdout.txt") or "", (_text(folder / "stderr.txt") or "").strip()
    if said.splitlines()[-1:] == [CLIENT_DONE] and not complained:
        return scenario
    finding = Finding("FAIL", "", f"the client did not end with 0 and in silence, but said: {complained[-300:]!r}")
    return Scenario(scenario.name, "FAIL", (*scenario.findings, finding))


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


def install(what: str = "official framework", pinned: Path | None = None, place: Path | None = None) -> None:
    """Brings something and its Node.js by npm, unless they are there in the versions asked for.

    Args:
        what: What it is called.
        pinned: Where `package.json` and its lock are; without it, those of the framework.
        place: Where it goes; without it, `.official`.

    Raises:
        SystemExit: It could not be done; the message says what to do.
    """
    pinned, place = pinned or PINNED, place or PLACE
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(f"The {what} comes by npm, and there is no npm here. Install Node.js, which has it.")
    stamp = place / "stamp"
    wanted = "".join((pinned / name).read_text() for name in ("package.json", "package-lock.json"))
    if _text(stamp) == wanted:
        return
    place.mkdir(exist_ok=True, parents=True)
    stamp.unlink(missing_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(pinned / name, place / name)
    # npm complains that its own Node.js is too old for the framework, which another one will run.
    command = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", "--omit-lockfile-registry-resolved"]
    if subprocess.run(command, cwd=place, check=False).returncode:
        sys.exit(f"npm could not install the {what} (its own words are above). It needs a registry.")
    stamp.write_text(wanted)


def run_leg(name: str, side: str, target: Sequence[str], consenting: Consent | None = None) -> Leg:
    """Runs the framework once.

    Args:
        name: A key of `LEGS[side]`.
        side: Which side is under test.
        target: The options that say what is under test.
        consenting: Is called with each line that the framework says, where it waits for a person.
    """
    folder = RESULTS / side / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [*(str(PLACE / part) for part in FRAMEWORK), side, *target, *LEGS[side][name], "-o", str(folder)]
    output = folder / "output.txt"
    with (
        output.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child,
    ):
        assert child.stdout is not None
        late = threading.Timer(PATIENCE, child.kill)
        late.start()
        try:
            for line in child.stdout:
                log.write(line)
                if consenting is not None:
                    consenting(line)
        except BaseException:
            child.kill()
            raise
        finally:
            late.cancel()
    return read_leg(name, side, folder, output.read_text(), child.returncode)


@contextlib.contextmanager
def serving(program: str) -> Iterator[str]:
    """Runs a server on a free port as long as the block runs, and gives the URL that it says.

    Args:
        program: The script that starts it.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{Path(program).name}.log"
    with (
        path.open("w") as log,
        subprocess.Popen([_found(program), "--port", "0"], stdout=subprocess.PIPE, stderr=log, text=True) as child,
    ):
        try:
            assert child.stdout is not None
            said = child.stdout.readline()
            url = re.search(r"http://\S+", said)
            if url is None:
                sys.exit(f"{program} did not say where it serves, but {said!r}; it logs into {path}.")
            yield url[0]
            if child.poll() is not None:
                sys.exit(f"{program} ended by itself, with {child.returncode}; it logs into {path}.")
        finally:
            child.terminate()


def _found(program: str) -> str:
    """The path of a program of this checkout. Raises `SystemExit` when it is not there."""
    if not (ROOT / program).exists():
        sys.exit(f"The legs run {program}, and there is no such program.")
    return str(ROOT / program)


def run_side(side: str) -> list[Leg]:
    """Runs every leg of one side: those of a server against one and the same process."""
    return {"server": _server_legs, "client": _client_legs, "authorization": _authorization_legs}[side]()


def _server_legs() -> list[Leg]:
    with serving(SERVER) as url:
        return [run_leg(name, "server", ("--url", url)) for name in LEGS["server"]]


def _client_legs() -> list[Leg]:
    # The first run may have to prepare the environment, which says so.
    if subprocess.run([_found(CLIENT), "--help"], stdout=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"The client legs run {CLIENT} URL, and that program does not start (its own words are above).")
    # The framework leaves the words of the command to a shell.
    command = shlex.join([sys.executable, str(ROOT / TURNS), str(RESULTS), _found(CLIENT)])
    return [run_leg(name, "client", ("--command", command)) for name in LEGS["client"]]


def _authorization_legs() -> list[Leg]:
    with serving(AUTHORIZATION) as issuer:
        return [_authorization_leg(name, issuer) for name in LEGS["authorization"]]


def _authorization_leg(name: str, issuer: str) -> Leg:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    back = f"http://127.0.0.1:{port}/callback"
    refused: list[str] = []

    def consenting(line: str) -> None:
        # The framework says it on a line of its own, and waits for a browser to come back.
        if line.startswith(f"{issuer}/") and "code_challenge=" in line:
            try:
                consent(line.strip(), username=USERNAME, password=PASSWORD, back_to=back)
            except (OSError, Stuck) as error:
                refused.append(str(error))

    client_id = register(issuer, back)
    target = ("--url", issuer, "--client-id", client_id, "--port", str(port))
    leg = run_leg(name, "authorization", target, consenting)
    return Leg(leg.name, leg.scenarios, (*leg.trouble, *refused))


def main() -> int:
    """Returns the exit status: 0 if all legs pass."""
    parser = argparse.ArgumentParser(prog="official", description="Runs the official conformance framework.")
    parser.add_argument("sides", nargs="*", help=f"of {', '.join(LEGS)}; without it: all")
    sides: list[str] = parser.parse_args().sides or [*LEGS]
    if unknown := [side for side in sides if side not in LEGS]:
        parser.error(f"no such side: {', '.join(unknown)}; there are: {', '.join(LEGS)}")
    install()
    failed = False
    for side in sides:
        legs = run_side(side)
        wrong = complaints(legs)
        failed = failed or bool(wrong)
        print(f"\n{side} legs\n\n{table(legs)}\n")
        print("\n".join(wrong) if wrong else f"Every scenario of every {side} leg passes.", flush=True)
    if failed:
        print(f"\nWhat the framework saw and said, and what servers and clients logged, is in {RESULTS}.", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
