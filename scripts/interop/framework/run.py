"""The command that runs the official conformance framework against this project: `nox -s official`.

    nox -s official                  every leg of every side
    nox -s official -- client        every client leg
    nox -s official -- server authorization
    nox -s official -- server-uvloop client-asyncio
    nox -s official -- --leg all server-uvloop client-asyncio       only one leg, with every scenario
    nox -s official -- server-workers

A side with the name of a loop is the same program on that loop: a server that uvicorn serves on it, mounted in FastAPI, or
a client in an asyncio task. Without one, the program runs on trio. `server-workers` is the same server in four workers behind nginx,
which share a Redis; it runs only if it is named.

npm installs the framework and the Node.js that it needs into `.official`, in the versions of `scripts/interop/framework`.
The lock file in that folder has no registry URLs (`--omit-lockfile-registry-resolved`), so it works with any registry.

The exit status of the framework is not sufficient: it tolerates warnings, skipped scenarios and the extensions of a
requirement set. Here a scenario passes only if it was run, something was checked, and nothing failed, warned or was
skipped; and a client must have exited without a signal, with status 0 and an empty standard error.
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
"""The last line of the framework's output, if its exit status is 0."""
TURNS = "scripts/interop/framework/turns.py"
AUTHORIZATION = "scripts/authorization-server"
# The user that `scripts/authorization-server` knows, and the resource of its tokens.
USERNAME, PASSWORD = "ada", "correct horse battery staple"
RESOURCE = "http://localhost:3000/mcp"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""The revisions that the framework supports: not 2024-11-05."""
_SUITES: dict[str, tuple[str, ...]] = {
    "all": ("--suite", "all"),
    "set 2025-11-25": ("--requirements", "2025-11-25"),
    "set 2026-07-28": ("--requirements", "2026-07-28"),
    **{revision: ("--suite", "all", "--spec-version", revision) for revision in REVISIONS},
}
# Clients wait for their turn, which counts.
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
"""The options of each run of the framework, by the role of the side under test."""
PREFIXES = {"server": "server-", "client": "", "authorization": "authorization-server-"}
"""The prefix of the folders with results, by role."""
SIDES = {
    "server": ("server", "trio"),
    "client": ("client", "trio"),
    "authorization": ("authorization", "trio"),
    "server-asyncio": ("server", "asyncio"),
    "server-uvloop": ("server", "uvloop"),
    "server-workers": ("server", "workers"),
    "client-asyncio": ("client", "asyncio"),
}
"""The role of each side, and its loop, or `workers`."""
DEFAULT = tuple(side for side in SIDES if side != "server-workers")
"""The sides that run without arguments. The others need more programs."""

NEVER_RUN = frozenset(
    {
        # The framework does not support these yet.
        "TasksStatusNotificationsScenario",
        # The connection on which the framework checks these headers has no handshake.
        "ClientMcpMethodHeader_initialize",
        "ClientMcpMethodHeader_notifications_initialized",
    }
)
"""The checks that the framework always skips, by name."""

# The framework makes it for any traffic, in addition to the checks of the scenario.
WIRE = "wire-schema-valid"
# In order: the first status that occurs is the verdict of a scenario.
FAILING = {"FAILURE": "FAIL", "WARNING": "warn", "SKIPPED": "skip"}
# The verdict of a scenario that has only checks of `NEVER_RUN`.
NEVER = "none"
TIMEOUT = 900


@dataclass(frozen=True)
class Finding:
    """A reason why a scenario did not pass."""

    verdict: str
    check: str
    message: str


@dataclass(frozen=True)
class Scenario:
    """The result of a scenario in one leg."""

    name: str
    verdict: str
    """`pass`, a value of `FAILING`, or `NEVER`."""

    findings: tuple[Finding, ...] = ()
    """The reasons why it did not pass."""


@dataclass(frozen=True)
class Leg:
    """The result of one run of the framework."""

    name: str
    scenarios: tuple[Scenario, ...]
    trouble: tuple[str, ...] = ()
    """The problems of the run as a whole."""


def read_scenario(name: str, text: str | None) -> Scenario:
    """Evaluate a scenario.

    Args:
        name: The name.
        text: The content of `checks.json`; `None` if the framework aborted the scenario.
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


def read_leg(name: str, role: str, folder: Path, output: str, status: int) -> Leg:
    """Evaluate a run of the framework.

    Args:
        name: The name of the leg.
        role: The role of the side under test.
        folder: The folder with the results of the framework: a folder for each scenario; `/` in names is a folder too.
        output: The output of the framework.
        status: The exit status of the framework.
    """
    prefix = PREFIXES[role]
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        match = re.fullmatch(rf"{prefix}(.+)-\d{{4}}-\d\d-\d\dT[\d-]+Z", relative)
        if path.is_dir() and match:
            found[match[1]] = path
    scenarios = tuple(read_scenario(scenario, _text(path / "checks.json")) for scenario, path in found.items())
    if role == "client":
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
    """Return the scenario, failed if its client did not exit cleanly: the framework does not check that in a suite."""
    output, complained = _text(folder / "stdout.txt") or "", (_text(folder / "stderr.txt") or "").strip()
    if output.splitlines()[-1:] == [CLIENT_DONE] and not complained:
        return scenario
    finding = Finding(
        "FAIL",
        "",
        f"the client did not exit with status 0 and an empty standard error, which was: {complained[-300:]!r}",
    )
    return Scenario(scenario.name, "FAIL", (*scenario.findings, finding))


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def table(legs: Sequence[Leg]) -> str:
    """Return a line for each scenario, with a column for each leg; a dot where a leg has no such scenario."""
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
    """Return a line for each reason why legs fail, with the checks and legs that have it."""
    # Dictionaries as ordered sets.
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
    """Install a package and its Node.js with npm, unless they are present in the required versions.

    Args:
        what: The name of the package in messages.
        pinned: The folder of `package.json` and its lock file; by default that of the framework.
        place: The target folder; by default `.official`.

    Raises:
        SystemExit: The installation failed; the message says what to do.
    """
    pinned, place = pinned or PINNED, place or PLACE
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(f"The {what} is installed by npm, which is missing. Install Node.js, which includes it.")
    stamp = place / "stamp"
    wanted = "".join((pinned / name).read_text() for name in ("package.json", "package-lock.json"))
    if _text(stamp) == wanted:
        return
    place.mkdir(exist_ok=True, parents=True)
    stamp.unlink(missing_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(pinned / name, place / name)
    # npm warns that its own Node.js is too old for the framework, which another Node.js runs.
    command = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", "--omit-lockfile-registry-resolved"]
    if subprocess.run(command, cwd=place, check=False).returncode:
        sys.exit(f"npm could not install the {what} (its output is above). It needs a registry.")
    stamp.write_text(wanted)


def run_leg(name: str, side: str, target: Sequence[str], consenting: Consent | None = None) -> Leg:
    """Run the framework once.

    Args:
        name: A key of `LEGS[role]`, of the role of the side.
        side: A key of `SIDES`.
        target: The options that identify the side under test.
        consenting: A function called with each line of output, where the framework waits for a user.
    """
    role, _ = SIDES[side]
    folder = RESULTS / side / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [*(str(PLACE / part) for part in FRAMEWORK), role, *target, *LEGS[role][name], "-o", str(folder)]
    output = folder / "output.txt"
    with (
        output.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child,
    ):
        assert child.stdout is not None
        late = threading.Timer(TIMEOUT, child.kill)
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
    return read_leg(name, role, folder, output.read_text(), child.returncode)


@contextlib.contextmanager
def serving(side: str, program: str, *options: str) -> Iterator[str]:
    """Run a server on a free port for the duration of the block, and yield the URL that it prints.

    Args:
        side: The side, which names the log.
        program: The script that starts the server.
        options: More options of the script.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{side}.log"
    with (
        path.open("w") as log,
        subprocess.Popen(
            [_found(program), "--port", "0", *options], stdout=subprocess.PIPE, stderr=log, text=True
        ) as child,
    ):
        try:
            assert child.stdout is not None
            output = child.stdout.readline()
            url = re.search(r"http://\S+", output)
            if url is None:
                sys.exit(f"{program} did not print its URL, but {output!r}; its log is {path}.")
            yield url[0]
            if child.poll() is not None:
                sys.exit(f"{program} exited with status {child.returncode}; its log is {path}.")
        finally:
            child.terminate()


@contextlib.contextmanager
def serving_workers(side: str) -> Iterator[str]:
    """Run the server in several workers for the duration of the block, and yield its URL.

    Args:
        side: The side, which names the folder with the logs.
    """
    from bench.deployment import everything  # lazy: the packages of the project are needed only here

    folder = RESULTS / side / "programs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    deployment = everything(folder)
    with deployment.running():
        yield deployment.url


def _found(program: str) -> str:
    """Return the path of a program of this checkout. Raise `SystemExit` when it is missing."""
    if not (ROOT / program).exists():
        sys.exit(f"The legs run {program}, which does not exist.")
    return str(ROOT / program)


def run_side(side: str, names: Sequence[str] = ()) -> list[Leg]:
    """Run legs of one side; the legs of a server share one process.

    Args:
        side: The side under test.
        names: The names of the legs; by default all legs of the side.
    """
    role, loop = SIDES[side]
    chosen = [name for name in LEGS[role] if not names or name in names]
    if role == "authorization":
        return _authorization_legs(chosen)
    return (_server_legs if role == "server" else _client_legs)(side, loop, chosen)


def _server_legs(side: str, loop: str, names: Sequence[str]) -> list[Leg]:
    with serving_workers(side) if loop == "workers" else serving(side, SERVER, "--loop", loop) as url:
        return [run_leg(name, side, ("--url", url)) for name in names]


def _client_legs(side: str, loop: str, names: Sequence[str]) -> list[Leg]:
    # The first run may have to create the environment, and prints that.
    if subprocess.run([_found(CLIENT), "--help"], stdout=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"The client legs run {CLIENT} URL, which does not start (its output is above).")
    # The framework passes the command to a shell.
    command = shlex.join([sys.executable, str(ROOT / TURNS), str(RESULTS), _found(CLIENT), "--loop", loop])
    return [run_leg(name, side, ("--command", command)) for name in names]


def _authorization_legs(names: Sequence[str]) -> list[Leg]:
    with serving("authorization", AUTHORIZATION) as issuer:
        return [_authorization_leg(name, issuer) for name in names]


def _authorization_leg(name: str, issuer: str) -> Leg:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    back = f"http://127.0.0.1:{port}/callback"
    refused: list[str] = []

    def consenting(line: str) -> None:
        # The framework prints the URL on its own line, and waits for the redirect.
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
    """Run the framework and return the exit status: 0 if all legs pass."""
    parser = argparse.ArgumentParser(prog="official", description="Run the official conformance framework.")
    parser.add_argument("sides", nargs="*", help=f"{', '.join(SIDES)}; default: {', '.join(DEFAULT)}")
    legs_of_all = dict.fromkeys(name for legs in LEGS.values() for name in legs)
    parser.add_argument("--leg", action="append", choices=legs_of_all, help="run only this leg; can be repeated")
    given = parser.parse_args()
    sides: list[str] = given.sides or [*DEFAULT]
    if unknown := [side for side in sides if side not in SIDES]:
        parser.error(f"no such side: {', '.join(unknown)}; there are: {', '.join(SIDES)}")
    install()
    failed = False
    for side in sides:
        legs = run_side(side, given.leg or ())
        wrong = complaints(legs)
        failed = failed or bool(wrong)
        print(f"\n{side} legs\n\n{table(legs)}\n")
        print("\n".join(wrong) if wrong else f"Every scenario of every {side} leg passes.", flush=True)
    if failed:
        print(f"\nResults and output of the framework, and logs of servers and clients, are in {RESULTS}.", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
