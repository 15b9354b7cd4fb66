from __future__ import annotations

from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"


@pytest.mark.parametrize("name", ["front_matter.py", "nursery.py", "writer.py"])
def test_modules_duplicated_in_client_and_server_equal(name: str) -> None:
    (client,) = (PACKAGES / "mcp-client" / "src").rglob(f"*{name}")
    (server,) = (PACKAGES / "mcp-server" / "src").rglob(f"*{name}")
    assert client.read_text() == server.read_text()


def test_telemetry_modules_differ_in_example_only() -> None:
    client = (PACKAGES / "mcp-client" / "src" / "mcp_client" / "telemetry.py").read_text()
    server = (PACKAGES / "mcp-server" / "src" / "mcp_server" / "telemetry.py").read_text()
    different = [pair for pair in zip(client.splitlines(), server.splitlines(), strict=True) if len(set(pair)) > 1]
    assert len(different) == 1
    assert "middleware=[Telemetry()]" in different[0][0]
    assert "middleware=[Telemetry()]" in different[0][1]
