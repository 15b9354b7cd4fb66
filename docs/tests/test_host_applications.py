"""The files of host applications that the documentation shows start a server that a client calls."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from documentation.markdown_blocks import blocks
from mcp_client import open_stdio
from mcp_client.group import read_config
from mcp_core.types import TextContent

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "run-in-a-host-application.md"
FILES = [block.text for block in blocks(PAGE) if block.language == "json"]
HOSTS = ["Claude Desktop", "Claude Code", "Cursor", "VS Code", "Zed", "Gemini CLI"]


def weather(folder: Path) -> str:
    """Return the path of the server in the documentation's start page."""
    program = next(block.text for block in blocks(ROOT / "docs" / "index.md") if block.text.startswith("# weather.py"))
    path = folder / "weather.py"
    path.write_text(program)
    return str(path)


def test_host_application_has_file() -> None:
    headings = [line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")]
    assert headings[1 : len(HOSTS) + 1] == HOSTS
    assert len(FILES) == len(HOSTS)


@pytest.mark.parametrize("number", range(len(HOSTS)), ids=HOSTS)
async def test_server_of_file_is_called(number: int, tmp_path: Path) -> None:
    command = shutil.which("mcp-server", path=str(Path(sys.executable).parent))
    text = FILES[number].replace('"/path/to/weather.py"', json.dumps(weather(tmp_path)))
    servers = read_config(json.loads(text.replace('"/path/to/.venv/bin/mcp-server"', json.dumps(command))))
    assert [(server.problem, server.notes) for server in servers.values()] == [(None, ())] * len(servers)
    assert {server.url for server in servers.values()} <= {None, "https://notes.example/mcp"}
    async with open_stdio(servers["weather"].command, env=servers["weather"].env) as client:
        result = await client.call_tool("forecast", {"city": "Ghent"})
    assert result.content == (TextContent(text="Ghent: 3 days of sun"),)
