"""Makes the virtual environment of this checkout, if it is not there yet.

Run by `scripts/bootstrap` with the interpreter that it found; needs the standard library only. The environment lies
in `.venv`: the four distributions, editable, and what they and the tests need, in the versions of
`scripts/constraints.txt`.

A stamp in `.venv`, written last, says what the environment was made from. If it is missing (interrupted half way) or
differs (a file below changed, another interpreter), the environment is made anew. A lock keeps two runs from making
it at the same time.

The names mcp-core, mcp-client and mcp-server belong to other people on the public index. Ours are installed by path and
without dependencies, and never asked for by name.
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
GROUPS = ("build", "lint", "test", "types")
CONSTRAINTS = "scripts/constraints.txt"


def requirements(
    root: Path, distributions: tuple[str, ...], groups: tuple[str, ...], *, extras: bool = True
) -> list[str]:
    """What has to be installed from the index.

    Args:
        root: The checkout.
        distributions: Folders of distributions, relative to `root`; their dependencies are taken.
        groups: Dependency groups of the top-level `pyproject.toml`.
        extras: Whether to take the optional dependencies of the distributions too.

    Returns:
        Requirements, sorted, each once, without our own distributions.
    """
    projects = [tomllib.loads((root / path / "pyproject.toml").read_text())["project"] for path in distributions]
    ours = {project["name"] for project in projects} | {"mcp-core"}
    available = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]
    found: set[str] = {name for group in groups for name in available[group]}
    for project in projects:
        found.update(project.get("dependencies", ()))
        if extras:
            found.update(*project.get("optional-dependencies", {}).values())
    return sorted(requirement for requirement in found if re.split(r"[\s<>=!~;\[@]", requirement)[0] not in ours)


def fingerprint(root: Path) -> str:
    """What an environment made now would be made from: the interpreter, the versions, the projects and the place."""
    digest = hashlib.sha256(f"{sys.version}\n{root}\n".encode())
    sources = [CONSTRAINTS, "scripts/environment.py", "pyproject.toml"]
    for name in sources + [f"{path}/pyproject.toml" for path in DISTRIBUTIONS]:
        digest.update(f"{name}\n".encode() + (root / name).read_bytes())
    return digest.hexdigest()


def ensure(root: Path) -> None:
    """Makes the environment unless the stamp says that it is as it should be.

    Raises:
        SystemExit: It could not be made; the message says what to do.
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
        sys.exit(f"{place} was not made by these scripts, so they leave it alone. Move it away and run this again.")
    version = ".".join(map(str, sys.version_info[:3]))
    _say(f"Preparing the environment in {place} with Python {version}. This happens once and takes about a minute.")
    started = time.monotonic()
    stamp.unlink(missing_ok=True)
    # Not the mark: if this stops half way, the next run must still know whose folder it is.
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
            f"{finished.stdout}\npip could not install what is needed (its own words are above). "
            "It needs a package index: check the network and pip's settings, then run this again."
        )


def _say(text: str) -> None:
    # Standard output belongs to the program that is started afterwards.
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    ensure(ROOT)
