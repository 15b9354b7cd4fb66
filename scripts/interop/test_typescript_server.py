"""The server on the official TypeScript SDK that a page tests, from an empty folder to the verdict, with npm and Node.js."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from documentation.markdown_blocks import blocks

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "howto" / "test-your-server.md"
VERSIONS: Final = ROOT / "scripts" / "interop" / "peers" / "programs" / "package.json"
"""The file with the versions of packages whose results the page shows."""
COMMAND: Final = re.compile(r"^    \$ (.+)\n((?:    [^$].*\n)*)", re.MULTILINE)
"""A command of the page, and the output below it."""
FIRST: Final = "npm init "
SECONDS: Final = 300

pytestmark = pytest.mark.timeout(2 * SECONDS)


def commands() -> list[tuple[str, str]]:
    """Return the commands of the page about the server, with their output."""
    found = COMMAND.findall(PAGE.read_text())
    (start,) = [number for number, (command, _) in enumerate(found) if command.startswith(FIRST)]
    return [(command, re.sub("^    ", "", output, flags=re.MULTILINE)) for command, output in found[start : start + 2]]


def pinned(command: str) -> str:
    """Return a command with the versions of packages: newer ones may have other failures."""
    versions = json.loads(VERSIONS.read_text())["dependencies"]
    return " ".join(f"{word}@{versions[word]}" if word in versions else word for word in command.split(" "))


def test_typescript_server_from_empty_folder_has_shown_verdict(tmp_path: Path) -> None:
    (program,) = [block.text for block in blocks(PAGE) if block.language == "js"]
    name = program.partition("\n")[0].removeprefix("// ")
    (tmp_path / name).write_text(program)
    (install, _), (test, expected) = commands()

    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}

    def run(command: str, status: int) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    run(pinned(install), 0)
    shown = run(test, 1)
    assert doctest.OutputChecker().check_output(expected, shown, doctest.ELLIPSIS), shown
