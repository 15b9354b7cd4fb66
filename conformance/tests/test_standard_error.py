"""The end of standard error in errors and verdicts: of servers over stdio and HTTP, and of clients."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from mcp_conformance.drivers.server.targets import CommandTarget, NotStarted, started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.runners.server import run_server
from mcp_conformance.wire.excerpt import bytes_excerpt, last_lines
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS: Final = Settings(timeout=5.0)
_REVISIONS: Final = [REVISIONS["2025-11-25"]]
_COMPLAINT: Final = """
import sys
for number in range(100):
    print(f"line {number}", file=sys.stderr)
print("\\x1b[31mno database\\x07", "x" * 1000, file=sys.stderr)
sys.exit(3)
"""
_SHOWN: Final = [*(f"line {number}" for number in range(81, 100)), "\\x1b[31mno database\\x07 "]


def _assert_shown(log: str) -> None:
    """Assert that text ends with the last 20 lines of the program."""
    lines = log.splitlines()[-20:]
    assert lines[:-1] == _SHOWN[:-1]
    assert lines[-1].startswith(f"{_SHOWN[-1]}xxx")
    assert len(lines[-1]) < 500


@pytest.fixture
def failing(tmp_path: Path) -> str:
    """Return the command of a program that fails at once."""
    program = tmp_path / "failing.py"
    program.write_text(_COMPLAINT)
    return f"{sys.executable} {program}"


async def test_stdio_server_that_does_not_start_leaves_log_in_leg(failing: str) -> None:
    run = await run_server(CommandTarget(failing, _SETTINGS), _SETTINGS, Manifest(), revisions=_REVISIONS)

    (leg,) = run.legs
    assert leg.refusal is not None
    assert "status 3" in leg.refusal
    _assert_shown(leg.log)
    assert len(leg.log.splitlines()) == 20


async def test_http_server_that_does_not_start_leaves_log_in_error(failing: str) -> None:
    with pytest.raises(NotStarted, match="ended with status 3; end of its standard error:") as raised:
        async with started(f"{failing} {{port}}", "http://127.0.0.1:{port}/mcp", _SETTINGS):
            raise AssertionError
    _assert_shown(str(raised.value))


async def test_http_server_that_exits_in_check_leaves_log_in_verdict(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    program = tmp_path / "exiting.py"
    source = (request.path.parent / "exiting_server.py").read_text()
    program.write_text(source.replace("os._exit(_STATUS)", "print('no database', file=sys.stderr); os._exit(_STATUS)"))
    async with started(f"{sys.executable} {program} {{port}}", "http://127.0.0.1:{port}/mcp", _SETTINGS) as target:
        run = await run_server(
            target, _SETTINGS, Manifest(), revisions=_REVISIONS, chosen=["jsonrpc.unknown-method", "version.echo"]
        )

    (failed,) = [verdict for verdict in run.verdicts if verdict.outcome is Outcome.FAILED]
    assert failed.check == "jsonrpc.unknown-method"
    # Not the log of the process that was started in its place.
    assert failed.log.endswith("no database")


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_client_that_does_not_start_leaves_log_in_leg(failing: str, transport: str) -> None:
    command = ClientCommand(**{transport: failing})

    run = await run_client(command, _SETTINGS, revisions=_REVISIONS, chosen=["lifecycle.client-initialize-first"])

    (leg,) = run.legs
    assert leg.refusal is not None
    assert "status 3: \\x1b[31mno database\\x07" in leg.refusal
    _assert_shown(leg.log)


def test_last_lines_of_empty_text_are_empty() -> None:
    assert last_lines(" \n\n") == ""


def test_bytes_excerpt_is_bounded_and_printable() -> None:
    assert bytes_excerpt(b"\x00\xffa") == '"\\x00\\xffa"'
    assert bytes_excerpt(b"y" * 1000) == f'"{"y" * 200}"... (1000 bytes)'
