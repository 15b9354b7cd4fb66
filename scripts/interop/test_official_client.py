"""Tests of the notebook server with the official SDK's client over each transport, with and without handshake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NOTEBOOK = HERE.parents[1] / "docs" / "examples" / "notebook" / "server.py"


@contextmanager
def served(way: str, folder: Path) -> Iterator[list[str]]:
    """Yield the arguments of the client: the command of the server, or the URL of a running server."""
    command = [sys.executable, str(NOTEBOOK), str(folder)]
    if way == "stdio":
        yield command
        return
    http = ["--http", "127.0.0.1:0", "--legacy-sse"]
    with subprocess.Popen([*command, *http], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            url = next(line for line in process.stderr if "serving at" in line).split()[-1]
            yield [url if way == "http" else url.replace("/mcp", "/sse")]
        finally:
            process.terminate()
            rest = process.stderr.read()
        assert process.wait(20) == 0, rest


MODES = [("legacy", "2025-11-25", -32002), ("2026-07-28", "2026-07-28", -32602), ("auto", "2026-07-28", -32602)]
# The HTTP+SSE transport needs the handshake.
EVERYWHERE = [("stdio", *mode) for mode in MODES] + [("http", *mode) for mode in MODES] + [("sse", *MODES[0])]


@pytest.mark.parametrize(("way", "mode", "version", "missing"), EVERYWHERE)
def test_notebook_server_works_with_official_client(
    tmp_path: Path, way: str, mode: str, version: str, missing: int
) -> None:
    (tmp_path / "first.md").write_text("# The first note\n\nIt says little.\n")
    with served(way, tmp_path) as server:
        command = [sys.executable, str(HERE / "official_client.py"), mode, *server]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["version"] == version
    assert {"search", "add_note", "summarize", "reindex"} <= set(found["tools"])
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
