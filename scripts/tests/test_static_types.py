from __future__ import annotations

from pathlib import Path

import pytest

from checks.static_types import Symbol, examples, incomplete


def test_examples_of_page_keep_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "# Title\n\n```python\nx = 1\n```\n\ntext\n\n```json\n{}\n```\n\n```python\ny = x\n```\n"
    )
    (tmp_path / "docs" / "plain.md").write_text("no code\n")
    written = tmp_path / "written"
    written.mkdir()
    (file,) = examples(tmp_path, written)
    lines = Path(file).read_text().splitlines()
    assert (lines[3], lines[13]) == ("x = 1", "y = x")
    assert "".join(lines) == "x = 1y = x"


@pytest.mark.parametrize(
    ("name", "known", "ambiguous", "reported"),
    [
        ("mcp_client.Client", True, False, False),
        ("mcp_client.Client", False, False, True),
        ("mcp_client.Client", False, True, True),
        ("mcp_client.blocking.Client", False, True, False),
        ("mcp_client.blocking.Client", False, False, True),
    ],
)
def test_incomplete_name_without_type_reported(name: str, known: bool, ambiguous: bool, reported: bool) -> None:
    symbol = Symbol(name=name, isTypeKnown=known, isTypeAmbiguous=ambiguous, diagnostics=[{"message": "no type"}])
    assert list(incomplete([symbol])) == ([f"{name}: its type is not known: no type"] if reported else [])
