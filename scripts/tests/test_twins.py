from __future__ import annotations

from pathlib import Path

PACKAGES = Path(__file__).parents[2] / "packages"


def test_modules_that_client_and_server_both_need_are_the_same() -> None:
    client = PACKAGES / "mcp-client" / "src" / "mcp_client" / "_writer.py"
    server = PACKAGES / "mcp-server" / "src" / "mcp_server" / "_writer.py"
    assert client.read_text() == server.read_text()
