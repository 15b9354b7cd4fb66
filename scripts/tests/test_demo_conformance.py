from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import demo_conformance


def test_demonstration_tests_both_transports_and_names_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: Sequence[str]) -> int:
        commands.append(list(command))
        return len(commands) - 1

    monkeypatch.setattr(demo_conformance, "conformance", run)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    assert demo_conformance.main() == 1
    assert ["--command" in command for command in commands] == [True, False]
    assert ["--start" in command for command in commands] == [False, True]
    shown = capsys.readouterr().out
    for name, command in zip(("stdio", "http"), commands, strict=True):
        page = str(tmp_path / f"{name}.html")
        assert command[-2:] == ["--html", page]
        assert page in shown
