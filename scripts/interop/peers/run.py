"""The command that runs the suite against other SDKs, in the versions in use: `nox -s peers`.

    nox -s peers                                    every peer, as server and as client, over stdio and over HTTP
    nox -s peers -- typescript-2 --role server      one of them, in one role
    nox -s peers -- --transport http --reports out  with a JSON report for each run in the folder `out`
    nox -s peers -- --record                        writes the known failures of each SDK into the suite, and the pages with results
    nox -s peers -- --record --reuse                the same, from the reports of earlier runs

The programs on each SDK are in `scripts/interop/peers/programs`, with the versions. npm installs into `.peers/node`, and FastMCP and
each major version of the Python SDK have an environment in `.peers`.

The known findings of each peer are in `scripts/interop/peers/programs/known.toml`, with a sentence for each finding;
`docs/topics/sdk-results.md` explains them; its figures, and the drafts in `docs/topics/sdk-reports.md`, are written with `--record`. The command fails for other findings, which may be false positives of the suite, and
for known findings that do not occur.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import attrs

from interop.framework.run import install
from interop.peers.results import drafts, figures, with_figures
from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.scoring.baseline import baseline_lines, new_entries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
KNOWN = PROGRAMS / "known.toml"
PLACE = ROOT / ".peers"
NODE = PLACE / "node"
PYTHONS: Mapping[str, tuple[str, Path]] = {
    "python-1": ("mcp==1.30.0", PROGRAMS / "python_1.txt"),
    "python-2": ("mcp==2.3.0", ROOT / "scripts" / "constraints.txt"),
    "fastmcp": ("fastmcp==4.2.3", PROGRAMS / "fastmcp.txt"),
}
"""The packages of each environment, and the file with the versions of all dependencies."""
SDKS: Mapping[str, str] = {
    "python-1": "python@1.30.0",
    "python-2": "python@2.3.0",
    "typescript-1": "typescript@1.32.2",
    "typescript-2": "typescript@2.4.0",
    "fastmcp": "fastmcp@4.2.3",
}
"""The name and version of the SDK of each peer whose known failures are recorded."""
ROLES = ("server", "client")
OF_PROGRAM = "Left to the"
"""The start of the reason of a failure that the SDK leaves to the program, so that it is not one of the SDK."""
PAGES = ROOT / "docs" / "topics"
TABLES = ROOT / "conformance" / "src" / "mcp_conformance" / "scoring" / "known_sdks"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PORT, AT = "{port}", "http://127.0.0.1:{port}/mcp"
SUITE = str(Path(sys.executable).with_name("mcp-conformance"))


@dataclass(frozen=True)
class SuiteRun:
    """A run of the suite."""

    peer: str
    """The peer under test."""
    role: str
    """`server` or `client`."""
    transport: str
    """`stdio` or `http`."""
    options: tuple[str, ...]
    """The options that start the peer."""
    revisions: tuple[str, ...] = ()
    """The revisions of the peer, or an empty tuple for all."""

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.peer}-{self.role}-{self.transport}"


def _python(peer: str, program: str) -> str:
    """Return the command of a program on the Python SDK."""
    interpreter = PLACE / peer / "bin" / "python"
    return shlex.join(
        ["env", f"PYTHONPATH={ROOT / 'scripts'}", str(interpreter), "-m", f"interop.peers.programs.{program}"]
    )


def _node(program: str) -> str:
    """Return the command of a program on the TypeScript SDK: Node.js finds the SDK from the folder of the program."""
    return shlex.join([str(NODE / "node_modules" / ".bin" / "node"), str(NODE / program)])


def _reference(name: str) -> str:
    """Return the command of a reference server."""
    return _node(f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js")


def _sdk(peer: str, server: str, client: str, revisions: tuple[str, ...], sse: str | None = None) -> Iterator[SuiteRun]:
    """Yield the runs of an SDK."""
    older = () if sse is None else ("--sse-url", sse)
    yield SuiteRun(peer, "server", "stdio", ("--command", server), revisions)
    yield SuiteRun(peer, "server", "http", ("--start", f"{server} {PORT}", "--at", AT, *older), revisions)
    yield SuiteRun(peer, "client", "stdio", ("--stdio-command", client + " {command}"), revisions)
    yield SuiteRun(peer, "client", "http", ("--command", client + " {url}"), revisions)


def trials() -> tuple[SuiteRun, ...]:
    """Return all runs."""
    everything = _reference("everything")
    files = shlex.quote(str(PLACE / "files"))
    memory = f"env MEMORY_FILE_PATH={shlex.quote(str(PLACE / 'files' / 'memory.jsonl'))} {_reference('memory')}"
    sse = "http://127.0.0.1:{port}/sse"
    return (
        *(
            trial
            for peer, revisions in (("python-1", LEGACY), ("python-2", ()), ("fastmcp", ()))
            for program in (peer.replace("-", "_"),)
            for trial in _sdk(peer, _python(peer, f"server_{program}"), _python(peer, f"client_{program}"), revisions)
        ),
        *_sdk("typescript-1", _node("server_typescript_1.mjs"), _node("client_typescript_1.mjs"), LEGACY, sse),
        *_sdk("typescript-2", _node("server_typescript_2.mjs"), _node("client_typescript_2.mjs"), ()),
        SuiteRun("server-everything", "server", "stdio", ("--command", f"{everything} stdio"), LEGACY),
        SuiteRun(
            "server-everything",
            "server",
            "http",
            ("--start", f"env PORT={PORT} {everything} streamableHttp", "--at", AT),
            LEGACY,
        ),
        SuiteRun("server-filesystem", "server", "stdio", ("--command", f"{_reference('filesystem')} {files}"), LEGACY),
        SuiteRun("server-memory", "server", "stdio", ("--command", memory), LEGACY),
        SuiteRun(
            "server-sequential-thinking", "server", "stdio", ("--command", _reference("sequential-thinking")), LEGACY
        ),
    )


def prepare(peers: set[str]) -> None:
    """Install what the peers need.

    Raises:
        SystemExit: The installation failed; the message says what to do.
    """
    if peers - PYTHONS.keys():
        install("TypeScript SDK", PROGRAMS, NODE)
        for program in PROGRAMS.glob("*.mjs"):
            shutil.copy(program, NODE)
        (PLACE / "files").mkdir(exist_ok=True)
    for peer in sorted(peers & PYTHONS.keys()):
        wanted, versions = PYTHONS[peer]
        stamp = PLACE / peer / "stamp"
        text = f"{wanted}\n{versions.read_text()}"
        if stamp.exists() and stamp.read_text() == text:
            continue
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PLACE / peer)], check=True)
        pip = (str(PLACE / peer / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        subprocess.run([*pip, "--constraint", str(versions), wanted], check=True)
        stamp.write_text(text)


def run(trial: SuiteRun, reports: Path) -> dict[str, object]:
    """Run the suite once and return its report.

    Args:
        trial: The run.
        reports: The folder for the reports.

    Raises:
        SystemExit: The suite did not finish.
    """
    report = reports / f"{trial.name}.json"
    report.unlink(missing_ok=True)
    command = [SUITE, trial.role, *trial.options, "--allow-untested", "--json", str(report)]
    for revision in trial.revisions:
        command += ["--revision", revision]
    with (reports / f"{trial.name}.txt").open("w") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not report.exists():
        sys.exit(f"{trial.name}: the suite ended with {done.returncode} and no report; its log: {log.name}")
    document: dict[str, object] = json.loads(report.read_text())
    return document


def rows(trial: SuiteRun, document: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    """Yield a line of the table for each revision."""
    legs = document["lanes"]
    assert isinstance(legs, list)
    for leg in legs:
        counts = leg["counts"]
        counts_of_leg = ("not spoken", "", "")
        if not leg["refusal"]:
            counts_of_leg = (counts["passed"], counts["failed"] + counts["broken"], counts["not testable"])
        yield (trial.peer, trial.role, leg["transport"], leg["revision"], *map(str, counts_of_leg))


def findings(documents: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """Return the failed legs by check, without duplicates, in order."""
    found: dict[str, list[str]] = {}
    for document in documents:
        verdicts = document["verdicts"]
        assert isinstance(verdicts, list)
        for verdict in verdicts:
            # A check that could not test because of another failure found one too.
            if verdict["outcome"] in ("failed", "broken") or "cause" in verdict:
                found.setdefault(verdict["check"], []).append(f"{verdict['revision']} over {verdict['transport']}")
    return found


def recorded(documents: Sequence[Mapping[str, object]], known: Mapping[str, str]) -> str:
    """Return the known failures of an SDK as a baseline.

    Args:
        documents: The reports of the runs of a program on the SDK.
        known: The reasons of known failures, by check. Other failures are not recorded: they may be false alarms, or
            those of the program.
    """
    verdicts = [
        Verdict(
            check=verdict["check"],
            revision=verdict["revision"],
            transport=verdict["transport"],
            # What follows from a failure is not testable, and fails where its cause does not count.
            outcome=Outcome.FAILED if verdict["outcome"] == "not testable" else Outcome(verdict["outcome"]),
        )
        for document in documents
        for verdict in _list(document["verdicts"])
        if not known.get(verdict["check"], OF_PROGRAM).startswith(OF_PROGRAM)
        and (verdict["outcome"] in ("passed", "failed") or "cause" in verdict)
    ]
    entries = [attrs.evolve(each, reason=known[each.check], flaky=True) for each in new_entries(verdicts, ())]
    head = "# The known failures of a program on this SDK, written by: nox -s peers -- --record"
    return "\n".join([head, *list(baseline_lines(sorted(entries, key=str)))[1:]]) + "\n"


def _list(value: object) -> list[dict[str, str]]:
    assert isinstance(value, list)
    return value


def surprises(found: Mapping[str, list[str]], known: Mapping[str, str], *, whole: bool) -> list[str]:
    """Return a line for each difference between the findings and the known ones.

    Args:
        found: The failures, by check.
        known: The reasons of known failures, by check.
        whole: Whether the peer was run completely: only then missing findings count.
    """
    new = [f"new: {check} ({', '.join(places)})" for check, places in found.items() if check not in known]
    return new + [f"gone: {check}" for check in known if whole and check not in found]


def table(lines: Sequence[tuple[str, ...]]) -> str:
    """Return lines with aligned columns."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def main() -> int:
    """Run the suite and return the exit status: 0 if all findings are known."""
    every = trials()
    peers = list(dict.fromkeys(trial.peer for trial in every))
    parser = argparse.ArgumentParser(prog="peers", description="Run the conformance suite against other SDKs.")
    parser.add_argument("peers", nargs="*", help=f"{', '.join(peers)}; default: all")
    parser.add_argument("--role", choices=ROLES, help="only in this role")
    parser.add_argument("--transport", choices=["stdio", "http"], help="only over this transport")
    parser.add_argument("--record", action="store_true", help="write the known failures into the suite, and the pages")
    parser.add_argument("--reuse", action="store_true", help="use the reports of earlier runs")
    parser.add_argument("--reports", type=Path, default=PLACE / "reports", help="the folder for the reports")
    given = parser.parse_args()
    if unknown := set(given.peers) - set(peers):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are: {', '.join(peers)}")
    chosen = [
        trial
        for trial in every
        if trial.peer in (given.peers or peers)
        and given.role in (None, trial.role)
        and given.transport in (None, trial.transport)
    ]
    reports: Path = given.reports.resolve()
    reports.mkdir(parents=True, exist_ok=True)
    documents: dict[SuiteRun, dict[str, object]] = {}
    if not given.reuse:
        prepare({trial.peer for trial in chosen})
    for trial in chosen:
        print(f"{trial.name} ...", flush=True)
        documents[trial] = (
            json.loads((reports / f"{trial.name}.json").read_text()) if given.reuse else run(trial, reports)
        )
    heads = ("peer", "role", "transport", "revision", "passed", "failed", "not testable")
    lines = [heads, *(row for trial, document in documents.items() for row in rows(trial, document))]
    print(f"\n{table(lines)}\n")
    known = tomllib.loads(KNOWN.read_text())
    complete = {
        (trial.peer, trial.role)
        for trial in chosen
        if all(each in chosen for each in every if (each.peer, each.role) == (trial.peer, trial.role))
    }
    surprised = print_findings(documents, known, complete)
    if given.record:
        record(documents, known, complete)
        if chosen == list(every):
            write_pages(documents, known, reports)
    print(f"\nThe reports are in {reports}.")
    return int(surprised)


def record(
    documents: Mapping[SuiteRun, Mapping[str, object]],
    known: Mapping[str, Mapping[str, str]],
    complete: Collection[tuple[str, str]],
) -> None:
    """Write the known failures of each SDK that was run completely in a role."""
    for peer, role in itertools.product(SDKS, ROLES):
        mine = [document for trial, document in documents.items() if (trial.peer, trial.role) == (peer, role)]
        if (peer, role) in complete:
            path = TABLES / role / f"{SDKS[peer]}.toml"
            path.write_text(recorded(mine, known[f"{peer} {role}"]), encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


def write_pages(
    documents: Mapping[SuiteRun, Mapping[str, object]], known: Mapping[str, Mapping[str, str]], reports: Path
) -> None:
    """Write the figures and the drafts of reports from the runs of all peers."""
    by_role: dict[tuple[str, str], list[Mapping[str, object]]] = {}
    for trial, document in documents.items():
        by_role.setdefault((trial.peer, trial.role), []).append(document)
    day = time.strftime("%Y-%m-%d", time.gmtime(max(path.stat().st_mtime for path in reports.glob("*.json"))))
    page = PAGES / "sdk-results.md"
    page.write_text(with_figures(page.read_text(), figures(by_role), day))
    page = PAGES / "sdk-reports.md"
    head = page.read_text().partition("\n## ")[0].rstrip()
    page.write_text("\n".join([head, *drafts(by_role, known, names(), ROOT)]).rstrip() + "\n")
    print("wrote the pages sdk-results and sdk-reports")


def names() -> dict[str, str]:
    """Return the name and version of each peer."""
    versions = json.loads((PROGRAMS / "package.json").read_text())["dependencies"]
    servers = {name.rpartition("/")[2]: f"{name.rpartition('/')[2]}@{version}" for name, version in versions.items()}
    return {**servers, **SDKS}


def print_findings(
    documents: Mapping[SuiteRun, Mapping[str, object]],
    known: Mapping[str, Mapping[str, str]],
    complete: Collection[tuple[str, str]],
) -> bool:
    """Print the findings of each peer in each role, and the differences from known ones; return whether there are any."""
    surprised = False
    for peer, role in dict.fromkeys((trial.peer, trial.role) for trial in documents):
        mine = {
            trial.transport: document
            for trial, document in documents.items()
            if (trial.peer, trial.role) == (peer, role)
        }
        counts_of_leg = known.get(f"{peer} {role}", {})
        found = findings(list(mine.values()))
        for check, places in found.items():
            print(f"{peer} {role}: {check} ({', '.join(places)})\n    {counts_of_leg.get(check, '?')}")
        for line in surprises(found, counts_of_leg, whole=(peer, role) in complete):
            print(f"{peer} {role}: {line}")
            surprised = True
    return surprised


if __name__ == "__main__":
    sys.exit(main())
