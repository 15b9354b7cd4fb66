from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import demo_conformance


def test_the_demonstration_tests_over_pipes_and_http_and_names_the_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[list[str]] = []

    def run(words: Sequence[str]) -> int:
        given.append(list(words))
        return len(given) - 1

    monkeypatch.setattr(demo_conformance, "conformance", run)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    assert demo_conformance.main() == 1
    assert ["--command" in words for words in given] == [True, False]
    assert ["--start" in words for words in given] == [False, True]
    shown = capsys.readouterr().out
    for name, words in zip(("stdio", "http"), given, strict=True):
        page = str(tmp_path / f"{name}.html")
        assert words[-2:] == ["--html", page]
        assert page in shown
