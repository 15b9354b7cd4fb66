from __future__ import annotations

from pathlib import Path

from checks.static_types import examples


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
