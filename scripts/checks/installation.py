"""Try each way to install the distributions, in clean environments. Each one ends in a server that a client calls.

`nox -s build` runs it after it has built `dist/`:

    python scripts/checks/installation.py dist

1. For each Python from 3.11 to 3.14 on this machine: the wheels of all distributions, by their names, with pip.
2. The sets that must work without the other distributions. All modules are imported, without and with the extras.
3. The folders of a checkout with pip: `pip install ./packages/mcp-core ./packages/mcp-client ./packages/mcp-server`.
4. `uv sync` in a checkout, `uvx --from`, and `pipx install`.
5. The page `docs/tutorial/testing.md` as a reader follows it: its command to install, its files, and its commands to test.
6. `pip install --dry-run` of each distribution: it names our distributions, their declared dependencies and what these
   require, and nothing else.

The script stops at the first failure, with the output of the command. The exit status is then 1.
"""

from __future__ import annotations

import argparse
import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from documentation.markdown_blocks import blocks
from environment import CONSTRAINTS, DISTRIBUTIONS

NAMES: Final[tuple[str, ...]] = ("trio-mcp-core", "trio-mcp-client", "trio-mcp-server", "trio-mcp-conformance")
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
SETS: Final = {
    "a client without a server": ("trio-mcp-client",),
    "a server without a client": ("trio-mcp-server",),
    "the suite alone": ("trio-mcp-conformance",),
}
SERVER: Final = '''
import trio

from mcp_server import Server, serve_stdio

server = Server("weather", version="1.0")


@server.tool
def forecast(city: str, days: int = 3) -> str:
    """Return the weather forecast."""
    return f"{city}: {days} days of sun"


if __name__ == "__main__":
    trio.run(serve_stdio, server)
'''
ANSWER: Final = "Ghent: 3 days of sun"
IMPORT_ALL: Final = """
import importlib, pkgutil, sys
may_lack = sys.argv[1] == "--may-lack-extras"
for name in sys.argv[2:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as lacking:
            if not may_lack or (lacking.name or "").startswith("mcp_"):
                raise
"""


class InstallationFailed(Exception):
    """A command failed, or its output is wrong."""


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command and return its output. Raise `InstallationFailed` if it fails."""
    # Neither the environment of this script nor its packages belong to what is tried.
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env={**clean, **(env or {})}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallationFailed(f"{' '.join(words)}\n{done.stdout}{done.stderr}exit status {done.returncode}")
    return done.stdout


def call_a_server(client: Path, *server: str | Path) -> None:
    """Call the tool of a server over stdio. Raise `InstallationFailed` if it does not answer as it should."""
    answer = run(client, "call", "forecast", "city=Ghent", "--", *server)
    if answer.strip() != ANSWER:
        raise InstallationFailed(f"the server answered {answer!r} instead of {ANSWER!r}")


class Installations:
    """The folders of all installations.

    Args:
        dist: The folder with the wheels.
        folder: A folder for environments.
    """

    def __init__(self, dist: Path, folder: Path) -> None:
        self.dist: Final = dist
        self.folder: Final = folder
        self.server: Final = folder / "weather.py"
        self.server.write_text(SERVER)
        self._constraints: Final = ("--constraint", str(ROOT / CONSTRAINTS))
        self._made = 0

    def environment(self, python: str) -> Path:
        """Create an empty environment, and return its folder of programs."""
        self._made += 1
        place = self.folder / f"environment-{self._made}"
        run(python, "-m", "venv", place)
        return place / "bin"

    def install(self, programs: Path, *requirements: str | Path) -> None:
        """Install with pip: our distributions from `dist`, and their dependencies from the index."""
        pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        run(*pip, *self._constraints, "--find-links", self.dist, *requirements)
        run(programs / "python", "-m", "pip", "check")

    def wheels(self, python: str) -> None:
        """Install the wheels by name, and call a server."""
        programs = self.environment(python)
        self.install(programs, "trio-mcp-server", "trio-mcp-client[cli]", "trio-mcp-conformance")
        call_a_server(programs / "mcp-client", programs / "python", self.server)
        call_a_server(programs / "mcp-client", programs / "mcp-server", "run", self.server)
        run(programs / "mcp-conformance", "--version")

    def alone(self, names: tuple[str, ...]) -> None:
        """Install distributions without the others, and import all of their modules, without and with the extras."""
        programs = self.environment(sys.executable)
        modules = [name.removeprefix("trio-").replace("-", "_") for name in ("trio-mcp-core", *names)]
        self.install(programs, *names)
        run(programs / "python", "-c", IMPORT_ALL, "--may-lack-extras", *modules)
        self.install(programs, *(f"{name}[{','.join(extras_of(name))}]" for name in ("trio-mcp-core", *names)))
        run(programs / "python", "-c", IMPORT_ALL, "--all", *modules)

    def folders(self) -> None:
        """Install the folders of a checkout."""
        programs = self.environment(sys.executable)
        self.install(programs, *(self.checkout() / path for path in DISTRIBUTIONS[:3]))
        call_a_server(programs / "mcp-client", programs / "python", self.server)

    def checkout(self) -> Path:
        """Return a copy of the checkout, without what it ignores."""
        place = self.folder / "checkout"
        if not place.exists():
            for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
                if (ROOT / name).is_file():
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, place / name)
        return place

    def uv_sync(self) -> None:
        """Run `uv sync` in a checkout."""
        place = self.checkout()
        run("uv", "sync", "--quiet", "--python", sys.executable, cwd=place)
        programs = place / ".venv" / "bin"
        call_a_server(programs / "mcp-client", programs / "python", self.server)

    def uvx(self) -> None:
        """Run the command of a wheel with `uvx --from`."""
        links = ("--quiet", "--python", sys.executable, "--find-links", str(self.dist), "--from")
        server = ("uvx", *links, "trio-mcp-server", "mcp-server", "run", str(self.server))
        # A client passes only a few variables to a server. uvx needs those that configure its index.
        given = [f"--env={name}={value}" for name, value in os.environ.items() if name.startswith(("UV_", "SSL_"))]
        client = ("uvx", *links, "trio-mcp-client", "mcp-client", "call", *given, "forecast", "city=Ghent", "--")
        answer = run(*client, *server)
        if answer.strip() != ANSWER:
            raise InstallationFailed(f"uvx: the server answered {answer!r}")

    def pipx(self) -> None:
        """Install commands with `pipx install`."""
        home = {"PIPX_HOME": str(self.folder / "pipx"), "PIPX_BIN_DIR": str(self.folder / "pipx" / "bin")}
        for name in ("trio-mcp-client", "trio-mcp-server"):
            arguments = f"--find-links {self.dist} --constraint {ROOT / CONSTRAINTS}"
            run("pipx", "install", "--python", sys.executable, "--pip-args", arguments, name, env=home)
        programs = Path(home["PIPX_BIN_DIR"])
        call_a_server(programs / "mcp-client", programs / "mcp-server", "run", self.server)

    def page(self, name: str) -> None:
        """Follow a page: install in a checkout what it installs, and run its commands in another folder."""
        programs = self.environment(sys.executable)
        folder = self.folder / "page"
        folder.mkdir()
        # Temporary folders can be below a checkout, whose configuration of pytest does not apply to this project.
        (self.folder / "pytest.ini").touch()
        path = {"PATH": os.pathsep.join((str(programs), os.environ["PATH"])), "PIP_CONSTRAINT": str(ROOT / CONSTRAINTS)}
        for block in blocks(ROOT / name):
            if block.language == "python" and (file := re.match(r"# (\w+\.py)(, continued)?\n", block.text)):
                with (folder / file[1]).open("a" if file[2] else "w") as target:
                    target.write(block.text)
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:] if block.language == "console" else ():
                command, _, expected = part.partition("\n")
                installs = "pip install" in command
                words = shlex.split(command)
                words[0] = str(programs / words[0])
                printed = run(*words, cwd=self.checkout() if installs else folder, env=path)
                if not installs and not doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS):
                    raise InstallationFailed(f"{command} printed {printed!r} instead of {expected!r}")

    def dry_run(self, name: str) -> None:
        """Check what `pip install` of a distribution with all extras would install."""
        programs = self.environment(sys.executable)
        requirement = f"{name}[{','.join(extras_of(name))}]"
        pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        report = self.folder / "report.json"
        run(*pip, *self._constraints, "--find-links", self.dist, "--dry-run", "--report", report, requirement)
        chosen = {
            normal(each["metadata"]["name"]): each for each in json.loads(report.read_text())["install"]
        }  # the format: pip, "Installation Report"
        for each in NAMES:
            if each in chosen and not chosen[each]["download_info"]["url"].startswith(self.dist.as_uri()):
                raise InstallationFailed(f"pip would download {each} from an index")
        known, waiting = set(NAMES), [each for each in NAMES if each in chosen]
        while waiting:
            for required in chosen[waiting.pop()]["metadata"].get("requires_dist", []):
                found = normal(re.split(r"[\s<>=!~;\[(]", required)[0])
                if found not in known and found in chosen:
                    known.add(found)
                    waiting.append(found)
        if not set(chosen) <= known:
            raise InstallationFailed(f"pip install {requirement} would install {sorted(set(chosen) - known)}")


def normal(name: str) -> str:
    """Return a name of a distribution in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def extras_of(name: str) -> list[str]:
    """Return the extras of a distribution of this project."""
    path = DISTRIBUTIONS[NAMES.index(name)]
    project = tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]
    return sorted(project.get("optional-dependencies", {}))


def interpreters() -> list[tuple[str, str]]:
    """Return the versions of Python on this machine that can create environments, with their programs."""
    found: list[tuple[str, str]] = []
    for version in PYTHONS:
        candidates = [
            shutil.which(f"python{version}"),
            *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")),
        ]
        for candidate in filter(None, candidates):
            probe = subprocess.run(
                [candidate, "-c", "import ensurepip, sys; print(sys.version_info[:2])"],
                capture_output=True,
                text=True,
                check=False,
            )
            if probe.returncode == 0 and probe.stdout.strip() == str(tuple(map(int, version.split(".")))):
                found.append((version, candidate))
                break
    return found


def main() -> int:
    """Try all ways to install. Return the exit status."""
    lead, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=lead, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dist", type=Path, help="the folder with the wheels and sdists")
    dist: Path = parser.parse_args().dist.resolve()
    with tempfile.TemporaryDirectory() as folder:
        trial = Installations(dist, Path(folder))
        steps: list[tuple[str, Callable[[], None]]] = [
            *((f"wheels, Python {version}", partial(trial.wheels, python)) for version, python in interpreters()),
            *((title, partial(trial.alone, names)) for title, names in SETS.items()),
            ("folders of a checkout", trial.folders),
            ("the page about tests", partial(trial.page, "docs/tutorial/testing.md")),
            ("uv sync", trial.uv_sync),
            ("uvx", trial.uvx),
            ("pipx", trial.pipx),
            *((f"pip install --dry-run {name}", partial(trial.dry_run, name)) for name in NAMES),
        ]
        for number, (title, step) in enumerate(steps, 1):
            started = time.monotonic()
            print(f"{number} of {len(steps)}: {title}", end="", flush=True)
            try:
                step()
            except InstallationFailed as failed:
                print(": FAILED", failed, sep="\n")
                return 1
            print(f": {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
