"""`mcp-server dev` in the terminal: reloading, errors of the author's file, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import urllib.request
from pathlib import Path

import pytest
from dev_command import TIMEOUT, run_dev

from mcp_server.cli.main import main

SOURCE = """
from mcp_server import Server

server = Server("sample", version="VERSION")


@server.tool
def add(a: int, b: int) -> int:
    return a + b
"""
ONE, TWO = SOURCE.replace("VERSION", "1.0"), SOURCE.replace("VERSION", "2.0")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def discover(url: str) -> str:
    """Return the version that the server reports."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "server/discover",
    }
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=TIMEOUT) as response:
        result = json.load(response)["result"]
    version = result["_meta"]["io.modelcontextprotocol/serverInfo"]["version"]
    assert isinstance(version, str)
    return version


def test_dev_file_changes_serves_the_new_code_at_the_same_url(tmp_path: Path) -> None:
    with run_dev(tmp_path, ONE) as command:
        url = command.wait_for("sample 1.0 is served at (.*)")[1]
        assert discover(url) == "1.0"
        command.write(TWO)
        command.wait_for("app.py changed: reloading")
        assert command.wait_for("sample 2.0 is served at (.*)")[1] == url
        assert discover(url) == "2.0"
        assert command.stop() == 130


def test_dev_imported_module_changes_reloads(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    part = tmp_path / "parts" / "names.py"
    part.write_text("VERSION = '1.0'\n")
    source = "from parts.names import VERSION\n" + SOURCE.replace('"VERSION"', "VERSION")
    with run_dev(tmp_path, source) as command:
        command.wait_for("sample 1.0 is served")
        # The same size and perhaps the same second: bytecode of the old module must not be used.
        part.write_text("VERSION = '1.1'\n")
        command.wait_for("names.py changed: reloading")
        command.wait_for("sample 1.1 is served")


BROKEN = [
    pytest.param(f"{ONE}\nundefined + 1\n", r"app\.py:11: NameError: name 'undefined' is not defined", id="exception"),
    pytest.param(f"{ONE}\ndef broken(:\n", r"app\.py:11: SyntaxError: invalid syntax", id="syntax"),
    pytest.param(
        f"{ONE}\n@server.tool\ndef add(a: int) -> int:\n    return a\n", r"app\.py:1[123]: RegistrationError", id="tool"
    ),
    pytest.param("import sys\nsys.exit(3)\n", r"the process of the server has ended with status 3", id="exit"),
    pytest.param("a = 1\n", r"app\.py has no 'server'", id="no server"),
]


@pytest.mark.parametrize(("source", "message"), BROKEN)
def test_dev_broken_file_reports_the_error_and_serves_the_repaired_file(
    tmp_path: Path, source: str, message: str
) -> None:
    with run_dev(tmp_path, source) as command:
        command.wait_for(message)
        command.wait_for("waiting for a change")
        command.write(TWO)
        command.wait_for("sample 2.0 is served at")
        output = "\n".join(command.output)
    # Only what the author wrote is shown.
    assert "mcp_server/cli" not in output
    assert "<frozen importlib" not in output


def test_dev_failing_lifespan_reports_the_line_of_the_author(tmp_path: Path) -> None:
    source = """
from contextlib import asynccontextmanager
from mcp_server import Server

@asynccontextmanager
async def lifespan(server):
    raise ValueError("no database")
    yield

server = Server("sample", version="1.0", lifespan=lifespan)
"""
    with run_dev(tmp_path, source) as command:
        command.wait_for(r"app\.py:7: ValueError: no database")


def test_dev_output_of_the_author_is_shown(tmp_path: Path) -> None:
    with run_dev(tmp_path, f"print('loading', input() if False else '')\n{ONE}") as command:
        command.wait_for("^loading")
        command.wait_for("sample 1.0 is served")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_dev_signal_ends_both_processes_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    with run_dev(tmp_path, ONE) as command:
        command.wait_for("sample 1.0 is served")
        child = command.child()
        assert command.stop(number) == 128 + number
        assert not is_running(child)
    assert "Traceback" not in "\n".join(command.output)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_dev_killed_ends_the_child_even_if_it_is_busy(tmp_path: Path) -> None:
    with run_dev(tmp_path, "print('busy')\nwhile True:\n    pass\n") as command:
        command.wait_for("^busy")
        child = os.pidfd_open(command.child())
        command.stop(signal.SIGKILL)
        poll = select.poll()
        poll.register(child, select.POLLIN)
        has_ended = bool(poll.poll(TIMEOUT * 1_000))
        if not has_ended:
            signal.pidfd_send_signal(child, signal.SIGKILL)
        os.close(child)
        assert has_ended


def test_dev_without_extra_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "mcp_server.cli.dev.reloader", raising=False)
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    monkeypatch.chdir(tmp_path)
    assert main(["dev", "app.py"]) == 2
    assert capsys.readouterr().err.endswith("watchfiles is not installed; type: pip install 'trio-mcp-server[dev]'\n")


def test_dev_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["dev", "--help"])
    assert "mcp-server dev weather.py --http 127.0.0.1:8000" in capsys.readouterr().out


def test_dev_address_for_other_machines_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "app.py", "--http", "0.0.0.0:8000"]) == 2
    assert "dev serves only this machine" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_dev_interrupted_in_a_terminal_ends_everything_quietly(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ONE)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "mcp_server", "dev", "app.py"])
    output = b""
    while b"is served at" not in output:
        output += os.read(terminal, 4096)
    threads = Path(f"/proc/{process}/task").iterdir()
    (child,) = {int(each) for thread in threads for each in (thread / "children").read_text().split()}
    os.write(terminal, b"\x03")
    _, status = os.waitpid(process, 0)
    try:
        while data := os.read(terminal, 4096):
            output += data
    except OSError:
        pass  # the terminal has ended
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"Traceback" not in output
    assert not is_running(child)
