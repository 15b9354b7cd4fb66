"""The command that creates the virtual environment of this checkout, if it does not exist.

`scripts/bootstrap` runs it with the interpreter that it found; it needs the standard library only. The environment is
in `.venv`: the four distributions, editable, with their dependencies and those of the tests, in the versions of
`scripts/constraints.txt`.

A stamp in `.venv`, written last, identifies the inputs of the environment. If the stamp is missing (after an
interruption) or differs (another interpreter, or a changed file below), the environment is created again. A lock
prevents two runs from creating it at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = ("packages/mcp-core", "packages/mcp-client", "packages/mcp-server", "conformance")
GROUPS = ("build", "docs", "lint", "test", "types")
CONSTRAINTS = "scripts/constraints.txt"


def requirements(
    root: Path, distributions: tuple[str, ...], groups: tuple[str, ...], *, extras: bool = True
) -> list[str]:
    """Return the requirements to install from the index.

    Args:
        root: The checkout.
        distributions: Folders of distributions, relative to `root`; their dependencies are included.
        groups: Dependency groups of the top-level `pyproject.toml`.
        extras: Whether to include the optional dependencies of the distributions.

    Returns:
        The requirements, sorted and without duplicates. Those on the project's distributions are replaced by their extras.
    """
    projects = {path: tomllib.loads((root / path / "pyproject.toml").read_text())["project"] for path in DISTRIBUTIONS}
    ours = {project["name"]: project.get("optional-dependencies", {}) for project in projects.values()}
    available = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]
    wanted: list[str] = [name for group in groups for name in available[group]]
    for path in distributions:
        wanted += projects[path].get("dependencies", ())
        if extras:
            wanted += (name for names in projects[path].get("optional-dependencies", {}).values() for name in names)
    found: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        name, _, chosen = re.split(r"[\s<>=!~;@\]]", requirement)[0].partition("[")
        if name not in ours:
            found.add(requirement)
        elif chosen:
            wanted += (needed for extra in chosen.split(",") for needed in ours[name][extra])
    return sorted(found)


def fingerprint(root: Path) -> str:
    """Return the inputs of a new environment: the interpreter, the versions, the projects and the path."""
    digest = hashlib.sha256(f"{sys.version}\n{root}\n".encode())
    sources = [CONSTRAINTS, "scripts/environment.py", "pyproject.toml"]
    for name in sources + [f"{path}/pyproject.toml" for path in DISTRIBUTIONS]:
        digest.update(f"{name}\n".encode() + (root / name).read_bytes())
    return digest.hexdigest()


def ensure(root: Path) -> None:
    """Create the environment unless the stamp shows that it is current.

    Raises:
        SystemExit: The environment could not be created; the message says what to do.
    """
    stamp = root / ".venv" / "stamp"
    wanted = fingerprint(root)
    if _read(stamp) == wanted:
        return
    with (root / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _read(stamp) != wanted:
            _make(root, stamp, wanted)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _make(root: Path, stamp: Path, wanted: str) -> None:
    place = stamp.parent
    ours = place / "made-by-scripts"
    if place.exists() and not ours.exists() and any(place.iterdir()):
        sys.exit(f"{place} was not made by these scripts, so they do not change it. Move it away and run this again.")
    version = ".".join(map(str, sys.version_info[:3]))
    _say(f"Creating the environment in {place} with Python {version}. This is done once and takes about a minute.")
    started = time.monotonic()
    stamp.unlink(missing_ok=True)
    # This is not the stamp: after an interruption, the next run must still recognize the folder.
    for child in list(place.iterdir()) if place.exists() else ():
        if child != ours:
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    place.mkdir(exist_ok=True)
    ours.touch()
    venv.create(place, with_pip=True, symlinks=True)
    editable = [argument for path in DISTRIBUTIONS for argument in ("--editable", str(root / path))]
    _pip(place, "--constraint", str(root / CONSTRAINTS), *requirements(root, DISTRIBUTIONS, GROUPS))
    _pip(place, "--no-deps", "--no-build-isolation", *editable)
    stamp.write_text(wanted)
    _say(f"Ready after {time.monotonic() - started:.0f} seconds.")


def _pip(place: Path, *arguments: str) -> None:
    command = [
        str(place / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        *arguments,
    ]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if finished.returncode:
        sys.exit(
            f"{finished.stdout}\npip could not install the dependencies (its output is above). "
            "It needs a package index: check the network and the settings of pip, then run this again."
        )


def _say(text: str) -> None:
    # Standard output belongs to the program that runs next.
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    ensure(ROOT)
