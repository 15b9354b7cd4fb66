"""The programs of the pages about migration: those of other libraries and those of this project do the same.

The servers and clients are combined in each way.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from documentation.markdown_blocks import blocks

PAGES: Final = {
    "official": "migrate-from-the-official-sdk.md",
    "fastmcp": "migrate-from-fastmcp.md",
}
"""The page about each library."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("server", ["ours", "theirs"])
@pytest.mark.parametrize("client", ["ours", "theirs"])
@pytest.mark.parametrize("library", PAGES)
def test_client_prints_the_same_with_each_server(tmp_path: Path, library: str, client: str, server: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / PAGES[library]
    programs = {found[1]: block.text for block in blocks(page) if (found := re.match(r"# (\w+)\.py\n", block.text))}
    assert set(programs) == {"notes", f"notes_{library}", "use", f"use_{library}"}
    chosen = f"notes_{library}.py" if server == "theirs" else "notes.py"
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text.replace('"notes.py"', f'"{chosen}"'))
    program = f"use_{library}.py" if client == "theirs" else "use.py"
    run = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False)
    expected = ["['write_note', 'read_note']", "{'name': 'shop', 'text': 'Buy tea.'}", "Buy tea.", "failed", "Buy tea."]
    assert run.stdout.splitlines() == expected, run.stderr
