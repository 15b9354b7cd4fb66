"""The strict run of mypy over all sources, tests, scripts and examples, also those in the pages of the documentation.

Then pyright checks that each public name of the packages has a type.

Test modules of two packages may have the same name (`test_stdio`), which one run of mypy does not allow: their
folders (`mcp-client`) are not Python names, so mypy cannot distinguish them. Therefore one run checks the sources and
the folders with Python names, and one run the tests of each package. They share a cache, so that a module is parsed once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documentation.markdown_blocks import blocks, pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mcp_core", "mcp_client", "mcp_server", "mcp_conformance")
INFERRED = ("mcp_client.blocking.",)
"""Beginnings of names whose types are derived from those of other functions. mypy and pyright infer the same types, which the
tests assert."""
PLAIN = ("conformance", "docs", "scripts", "noxfile.py", "packages/conftest.py")


def runs(root: Path) -> list[list[str]]:
    """Return the arguments of each run of mypy: paths relative to `root` that contain Python."""
    packages = sorted(path for path in (root / "packages").iterdir() if path.is_dir())
    together = [root / name for name in PLAIN] + [package / "src" for package in packages]
    groups = [together] + [[package / "tests"] for package in packages]
    holding = [[str(path.relative_to(root)) for path in group if _holds_python(path)] for group in groups]
    return [group for group in holding if group]


def _holds_python(path: Path) -> bool:
    return path.is_file() or any(path.rglob("*.py"))


def examples(root: Path, folder: Path) -> list[str]:
    """Write the Python of each page into a file in which lines have the same numbers as in the page.

    Args:
        root: The checkout.
        folder: The folder to write to.

    Returns:
        The files.
    """
    files: list[str] = []
    for page in pages(root):
        shown = [block for block in blocks(page) if block.language == "python"]
        lines: list[str] = []
        for block in shown:
            lines += [""] * (block.line - len(lines)) + block.text.splitlines()
        if shown:
            if any("import BaseModel" in line for line in lines):
                # The constructor of a pydantic model takes values of any type. The first line of a page is its title.
                lines[0] = '# mypy: disable-error-code="explicit-any"'
            name = re.sub(r"\W", "_", page.relative_to(root).as_posix())
            (folder / f"{name}.py").write_text("\n".join(lines) + "\n")
            files.append(str(folder / f"{name}.py"))
    return files


def is_complete(package: str) -> bool:
    """Return whether pyright knows the type of each public name of a package. Print the names that it does not know."""
    # pyright finds the packages through the first `python` of the path.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    run = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--verifytypes", package, "--ignoreexternal", "--outputjson"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        symbols = json.loads(run.stdout)["typeCompleteness"]["symbols"]
    except (ValueError, KeyError):
        print(run.stdout, run.stderr, sep="\n")
        return False
    problems = list(incomplete(symbols))
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(symbols) and not problems


class Diagnostic(TypedDict):
    """A message of pyright about a symbol."""

    message: str


class Symbol(TypedDict):
    """A public name of a package, as pyright reports it."""

    name: str
    isTypeKnown: bool
    isTypeAmbiguous: bool
    diagnostics: list[Diagnostic]


def incomplete(symbols: Iterable[Symbol]) -> Iterator[str]:
    """Yield a line for each name without a type. `INFERRED` names may have a type that pyright infers."""
    for symbol in symbols:
        is_inferred = symbol["isTypeAmbiguous"] and symbol["name"].startswith(INFERRED)
        if not symbol["isTypeKnown"] and not is_inferred:
            messages = "; ".join(each["message"] for each in symbol["diagnostics"])
            yield f"{symbol['name']}: its type is not known: {messages}"


def main() -> int:
    """Run both type checkers and return the exit status: 0 if all runs pass."""
    with tempfile.TemporaryDirectory() as folder:
        statuses = [
            subprocess.run(
                [sys.executable, "-m", "mypy", "--no-error-summary", *paths], cwd=ROOT, check=False
            ).returncode
            for paths in [*runs(ROOT), examples(ROOT, Path(folder))]
        ]
    statuses += [not is_complete(package) for package in PACKAGES]
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
