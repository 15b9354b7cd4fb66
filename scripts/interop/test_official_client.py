"""The official SDK's client drives our notebook server over stdio, by handshake and without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NOTEBOOK = HERE.parents[1] / "docs" / "examples" / "notebook" / "server.py"


@pytest.mark.parametrize(
    ("mode", "version", "missing"),
    [("legacy", "2025-11-25", -32002), ("2026-07-28", "2026-07-28", -32602), ("auto", "2026-07-28", -32602)],
)
def test_everything_works(tmp_path: Path, mode: str, version: str, missing: int) -> None:
    (tmp_path / "first.md").write_text("# The first note\n\nIt says little.\n")
    command = [sys.executable, str(HERE / "official_client.py"), mode, sys.executable, str(NOTEBOOK), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["version"] == version
    assert {"search", "add_note", "summarise", "reindex"} <= set(found["tools"])
    assert found["added"][0] is False, found["added"]
    assert (tmp_path / "from-outside.md").is_file()
    assert found["structured"]["result"][0]["name"] == "from-outside"
    assert found["bad"] is True
    assert found["summary"] == [False, "In short: yes."]
    assert found["progress"] == [1, 2]
    assert found["resources"] == 2
    assert found["templates"]
    assert found["read"] is True
    assert found["missing"] == missing
    assert found["prompt"] == ["text", "resource"]
    assert found["completed"] == ["from-outside"]
    assert found["at once"] == 50
