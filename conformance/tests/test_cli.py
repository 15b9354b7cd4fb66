from __future__ import annotations

import pytest

import mcp_conformance
from mcp_conformance.cli import main


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mcp-conformance {mcp_conformance.__version__}\n"


def test_the_help_says_that_nothing_is_checked_yet(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "It checks nothing yet" in capsys.readouterr().out


def test_without_arguments_it_fails_rather_than_seem_to_have_checked_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "It checks nothing yet" in shown.err


def test_a_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["server"])
    assert ended.value.code == 2
    assert "unrecognized arguments: server" in capsys.readouterr().err
