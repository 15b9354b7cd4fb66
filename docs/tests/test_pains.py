"""The page of problems that users report: each row has tests that exist, or a reason."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "contributing" / "pains.md"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]


def test_rows_have_existing_tests_or_reason() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 44)]
    for number, _, _, complete, tests in ROWS:
        assert re.match(r"yes\b|(in part|no): \w", complete), number
        links = re.findall(r"\[`(\w+)`\]\(([^)]+)\)", tests)
        assert links or (tests == "none" and not complete.startswith("yes")), number
        for name, path in links:
            source = (PAGE.parent / path).read_text()
            assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), (number, name)
