"""The command that generates the reference, `docs/reference`, from the sources: a page per public module, and tables.

The pages about requirements need the catalogues of requirements, which are not part of this project: without them those
pages stay unchanged.

    python scripts/documentation/build.py            write the reference
    python scripts/documentation/build.py --check    list outdated files, and fail if there are any

The files are committed, so that they can be read with the project.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks.exports import MODULES
from documentation.conformance_pages import conformance_pages
from documentation.reference_pages import Source, page, sources
from documentation.reference_tables import tables
from documentation.requirement_pages import FOLDER, requirement_pages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["main", "pages", "stale"]

ROOT: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = ROOT / "docs" / "reference"
_MARK: Final = "<!-- Made by scripts/documentation/build.py: change the sources, not this file. -->\n\n"
_INDEX: Final = "README.md"


def pages() -> dict[str, str]:
    """Return the pages of the reference, by file name."""
    known = sources({package: ROOT / folder for package, folder in MODULES.items()})
    public = {name: source for name, source in known.items() if source.public and source.exported}
    found = {f"{name}.md": page(source, known) for name, source in public.items()}
    made = {**tables(known), **conformance_pages()}
    found.update(made)
    found[_INDEX] = _index(public, made)
    found.update(requirement_pages())
    return {name: _MARK + text for name, text in found.items()}


def _index(public: Mapping[str, Source], made: Mapping[str, str]) -> str:
    lines = ["# Reference", "", "## Tables", ""]
    lines += [f"- [{text.splitlines()[0].removeprefix('# ')}]({name})" for name, text in made.items()]
    lines.append(f"- [Requirements and their tests]({FOLDER}/{_INDEX})")
    for package in MODULES:
        lines += ["", f"## {package}", ""]
        for name, source in public.items():
            if name.partition(".")[0] == package:
                first = (source.document.strip().splitlines() or [""])[0]
                lines.append(f"- [{name}]({name}.md): {first}")
    return "\n".join(lines) + "\n"


def stale(folder: Path) -> list[str]:
    """Return the names of files in a folder that are outdated, missing or superfluous."""
    wanted = pages()
    there = {name: path.read_text() for name, path in _made(folder, wanted).items()}
    return sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))


def _made(folder: Path, wanted: Mapping[str, str]) -> dict[str, Path]:
    """Return the existing pages by name, as far as they can be generated."""
    folders = [folder, folder / FOLDER] if f"{FOLDER}/{_INDEX}" in wanted else [folder]
    return {path.relative_to(folder).as_posix(): path for each in folders for path in each.glob("*.md")}


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit status: 1 when `--check` finds something."""
    parser = argparse.ArgumentParser(description="Generate docs/reference from the sources.")
    parser.add_argument("--check", action="store_true", help="only list outdated files")
    if parser.parse_args(arguments).check:
        found = stale(REFERENCE)
        for name in found:
            print(f"docs/reference/{name} is not up to date; run: python scripts/documentation/build.py")
        return 1 if found else 0
    REFERENCE.mkdir(exist_ok=True)
    wanted = pages()
    for name, path in _made(REFERENCE, wanted).items():
        if name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (REFERENCE / name).parent.mkdir(exist_ok=True)
        (REFERENCE / name).write_text(text)
    if f"{FOLDER}/{_INDEX}" not in wanted:
        print(f"docs/reference/{FOLDER}: skipped: the catalogues of requirements are missing")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
