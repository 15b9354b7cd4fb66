"""The architecture page: its links and its table of places lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contributing" / "architecture.md"
SOURCES = {
    "mcp_core": ROOT / "packages" / "mcp-core" / "src",
    "mcp_client": ROOT / "packages" / "mcp-client" / "src",
    "mcp_server": ROOT / "packages" / "mcp-server" / "src",
    "mcp_conformance": ROOT / "conformance" / "src",
}


def test_linked_functions_are_defined_in_linked_modules() -> None:
    links = re.findall(r"\[`([\w.]+)`\]\((\.\./[^)#]+\.py)\)", PAGE.read_text())
    assert len(links) > 30
    for name, path in links:
        source = (PAGE.parent / path).read_text()
        assert re.search(rf"^\s*(async def|def|class) {name.rpartition('.')[2]}\b", source, re.MULTILINE), (name, path)


def test_places_and_tests_of_usual_changes_exist() -> None:
    table = PAGE.read_text().partition("## To change X, start at Y")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for row in rows:
        places = re.findall(r"`([\w./-]+)`", row)
        assert places, row
        for place in places:
            assert (SOURCES.get(place.partition("/")[0], ROOT) / place).exists(), (place, row)
